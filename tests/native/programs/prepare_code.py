# SPDX-License-Identifier: Apache-2.0
"""prepare_code.py SOURCE BITCODE [BUILD OPTION]...

Compiles an OpenCL program as far as the instrumenter does before it inserts counters, with LLVM's
command-line tools. Where the result differs from native/gpu/opencl/instrumenter (frontend.cpp,
prepare.cpp), test_oclgrind.py fails.
"""

import re
import subprocess
import sys

FRONT = ["clang-15", "-target", "spir64", "-x", "cl", "-cl-std=CL1.2", "-S", "-emit-llvm"]
FRONT += ["-O2", "-Xclang", "-disable-llvm-passes", "-Xclang", "-no-opaque-pointers"]
FRONT += ["-D__OPENCL_VERSION__=300", "-fno-builtin", "-fno-math-errno", "-w"]
CLEAN_UP = (
    "always-inline,globaldce,"
    "function(sroa,early-cse,simplifycfg,instcombine,simplifycfg,adce),globaldce"
)

source, target, *options = sys.argv[1:]
code = subprocess.run(
    [*FRONT, *options, source, "-o", "-"], check=True, stdout=subprocess.PIPE, text=True
).stdout
code = re.sub(r'(?m)^(target datalayout = ".*)"$', r'\1-n8:16:32:64"', code)
code = re.sub(
    r"(?m)^define (?:dso_local |internal )*(spir_func .*\))( .*\{)$",
    r"define internal \1 alwaysinline\2",
    code,
)
clean = ["opt-15", "-opaque-pointers=0", f"-passes={CLEAN_UP}", "-", "-o", target]
subprocess.run(clean, check=True, input=code, text=True)
