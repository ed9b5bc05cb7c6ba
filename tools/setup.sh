#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the project needs (packages of the distribution, then Python packages into .venv),
# builds the native parts and the examples. Skips what is already done.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh

# The packages of a distribution. The version of LLVM is the distribution's own if we know it, and
# no newer than the one in its PoCL, which reads the bitcode that we make.
packages_of() {
  local llvm=15 python=python3
  case $1 in
    debian-13) llvm=18 ;;
    ubuntu-22.04) python=python3.11 ;;
    fedora)
      echo gcc-c++ cmake ninja-build python3-devel ocl-icd-devel opencl-headers pocl zlib-devel \
        valgrind-devel valgrind-tools-devel \
        llvm-devel clang-devel spirv-llvm-translator-devel "(LLVM 15 to 22)"
      return ;;
  esac
  # Build tools; the OpenCL device; what the instrumenter is linked with; the CPU engine; programs
  # for the tests.
  echo build-essential cmake ninja-build "$python-dev" "$python-venv" \
    ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-headers pocl-opencl-icd \
    "llvm-$llvm-dev" "libclang-$llvm-dev" "libclang-cpp$llvm-dev" "libllvmspirvlib-$llvm-dev" \
    zlib1g-dev valgrind "clang-$llvm" "llvm-spirv-$llvm" clpeak spirv-tools
}

distribution=$(. /etc/os-release && case $ID in
  debian | ubuntu) echo "$ID-$VERSION_ID" ;;
  *) echo "$ID" ;;
esac)
case $distribution in
  debian-12 | debian-13 | ubuntu-22.04 | ubuntu-24.04)
    # shellcheck disable=SC2046
    install_packages $(packages_of "$distribution")
    ;;
  *)
    if ! command -v cmake ninja valgrind c++ >/dev/null; then
      say "this system is $distribution, whose packages this script does not install. By hand:"
      for known in debian-12 debian-13 ubuntu-22.04 ubuntu-24.04 fedora; do
        say "$known: $(packages_of $known)"
      done
      say "The wheel that tools/build-wheel.sh makes needs none of them."
      exit 2
    fi
    ;;
esac

python=python3
[ "$distribution" != ubuntu-22.04 ] || python=python3.11
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { say "Python 3.11 or later is needed, and $python is $($python --version 2>&1)."; exit 2; }
[ -x .venv/bin/python ] || "$python" -m venv .venv

# The vendor kits that are named, and what lies in them: one may be named before it is unpacked.
list_kits() {
  local kit
  for kit in "${DYNAMORIO_HOME-}" "${PIN_ROOT-}" "${NVBIT_ROOT-}" "${GTPIN_ROOT-}" "${CUDA_HOME-}"; do
    [ -d "$kit" ] || continue
    echo "$kit" && ls "$kit"
  done
}

# Rebuild when a native source, a build file or the package's requirements changed, or vendor kits
# are there that the last build did not have.
stamp=build/installed kits_stamp=build/kits
kits=$(list_kits)
inputs=$(find pyproject.toml CMakeLists.txt native examples -type f -not -name '*.pyc' |
  LC_ALL=C sort | xargs sha256sum | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$inputs" ] ||
  { [ -n "$kits" ] && [ "$(cat "$kits_stamp" 2>/dev/null)" != "$kits" ]; }; then
  say "building xpuprof into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs]'
  # The example's short name: the program of `xpuprof demo`.
  mkdir -p build/examples
  ln -sf "$(.venv/bin/python -c 'from xpuprof.engines.native import native_file as file
print(file("demo/particles"))')" build/examples/particles
  printf '%s' "$inputs" >"$stamp"
  printf '%s' "$kits" >"$kits_stamp"
fi
