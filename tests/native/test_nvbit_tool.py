# SPDX-License-Identifier: Apache-2.0
"""The NVBit tool without a GPU: its device code compiles for every architecture, it links against a
kit (with NVBIT_ROOT), its kernel specification parses."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native.test_nvbit_sass import nvdisasm
from tests.support.cuda_parts import nvcc

pytestmark = pytest.mark.cuda

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "native" / "gpu" / "nvbit"

SPEC_PROGRAM = """
#include <stdio.h>
#include "xpuprof/kernel_spec.hpp"
int main(int argc, char **argv) {
  KernelSpec spec;
  std::string why;
  if (!spec.parse(argv[1], &why)) return puts(why.c_str()), 1;
  for (int i = 2; i + 2 < argc; i += 3) {
    uint64_t launch = strtoull(argv[i + 1], 0, 10), call = strtoull(argv[i + 2], 0, 10);
    putchar(spec.chooses(argv[i], launch, call) ? '1' : '0');
  }
}
"""


@pytest.mark.parametrize("arch", ["80", "90", "100"])
def test_device_code_compiles_small(tmp_path: Path, arch: str) -> None:
    """GIVEN the functions patched into kernels WHEN compiled for an architecture THEN they use at
    most 24 registers, and add to the block, the lanes or the strays without a result to wait for.
    """
    out = tmp_path / "inject.cubin"
    options = ["-maxrregcount=24", "-Xptxas", "-astoolspatch", "--keep-device-functions"]
    source = str(TOOL / "inject_funcs.cu")
    nvcc("-std=c++17", f"-arch=sm_{arch}", *options, "-cubin", source, "-o", str(out))
    shown = subprocess.run([nvdisasm(), "-c", str(out)], capture_output=True, text=True, check=True)
    for name in ("xpuprof_count_block", "xpuprof_count_called"):
        body = shown.stdout.split(f".text.{name}:")[1].split("\n.text.")[0]
        assert len(re.findall(r"\bREDG?\.E\.ADD\.64|\bATOMG?\.E\.ADD\.64", body)) == 3
        assert max(int(n) for n in re.findall(r"\bR(\d+)\b", body)) < 24
    nvcc("-std=c++17", f"-arch=sm_{arch}", "-cubin", str(TOOL / "rows.cu"), "-o", str(out))


@pytest.mark.slow
def test_the_tool_links_against_a_kit(tmp_path: Path) -> None:
    """GIVEN a kit WHEN the tool is built THEN it links, needs the driver only by name, and exports
    NVBit's callbacks."""
    kit = os.environ.get("NVBIT_ROOT")
    if not kit or not shutil.which("nvcc"):
        pytest.skip("NVBIT_ROOT is not set, or nvcc is not on PATH; see docs/nvbit.md")
    options = [f"-DNVBIT_ROOT={kit}", "-DXPUPROF_NVBIT=ON", "-DXPUPROF_CUDA_ARCHS=80;90;100"]
    command = ["cmake", "-S", str(ROOT), "-B", str(tmp_path), "-G", "Ninja", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(tmp_path), "--target", "xpuprof_nvbit"], check=True)
    library = str(tmp_path / "native" / "gpu" / "nvbit" / "libxpuprof_nvbit.so")
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
    assert "[libcuda.so.1]" in dynamic and "[libxpuprof_rt.so]" in dynamic
    names = subprocess.run(["nm", "-D", library], capture_output=True, text=True).stdout
    for hook in ("init", "term", "cuda_event", "graph_node_launch", "ctx_init", "ctx_term"):
        assert f" T nvbit_at_{hook}" in names
    foreign = [
        line.split()[-1]
        for line in names.splitlines()
        if " U " in line and "@" not in line and not re.search(r" U (cu[A-Z]|xpu_)", line)
    ]
    assert foreign == ["__cxa_pure_virtual"] or not foreign


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that queries KernelSpec."""
    folder = tmp_path_factory.mktemp("spec")
    (folder / "spec.cpp").write_text(SPEC_PROGRAM)
    command = ["g++", "-std=c++17", f"-I{ROOT}/native/include", str(folder / "spec.cpp")]
    subprocess.run([*command, "-o", str(folder / "spec")], check=True)
    return folder / "spec"


def chosen(spec: Path, text: str, *launches: tuple[str, int, int]) -> str:
    """'1' for each (kernel, launch, call) that the specification chooses."""
    words = [str(word) for launch in launches for word in launch]
    done = subprocess.run([str(spec), text, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_kernel_specification(spec: Path) -> None:
    """GIVEN ranges and names WHEN queried THEN both ends belong to a range, a name must match
    completely, and with a name the calls of that kernel count."""
    launches = [("gemm_a", 50, 1), ("gemm_a", 60, 2), ("gemm_b", 70, 8), ("gemm_b", 80, 9)]
    others = [("my_gemm", 90, 2), ("scan", 99, 2), ("scan", 100, 3), ("scan", 101, 4)]
    assert chosen(spec, "2-8@gemm.*,100-", *launches, *others) == "01100011"
    assert chosen(spec, "", *launches) == "1111"
    assert chosen(spec, "scan", *launches, *others) == "00000111"
    assert chosen(spec, "60", *launches) == "0100"
    assert chosen(spec, "-60", *launches) == "1100"
    templates = [("void f<int>(int, int)", 5, 1), ("void f<int>(int, int)", 6, 2)]
    assert chosen(spec, "9,1@void f<int>\\(int, int\\),7", *templates) == "10"


@pytest.mark.parametrize("text", ["0-3", "5-2", "3-x@gemm", "@", ",", "2@", "a("])
def test_malformed_specifications_are_named(spec: Path, text: str) -> None:
    """GIVEN a malformed specification WHEN parsed THEN it is refused with the reason."""
    done = subprocess.run([str(spec), text], capture_output=True, text=True)
    assert done.returncode == 1 and "'" in done.stdout
