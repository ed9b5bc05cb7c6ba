#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the project needs (Debian packages, then Python packages into .venv), builds the
# native parts and the examples. Skips what is already done.
set -euo pipefail
cd "$(dirname "$0")/.."

# Build tools; the OpenCL device; what the instrumenter is linked with; the CPU engine.
packages=(
  build-essential cmake ninja-build python3-dev python3-venv
  ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-headers pocl-opencl-icd
  llvm-15-dev libclang-15-dev libclang-cpp15-dev libllvmspirvlib-15-dev zlib1g-dev
  valgrind
)
fedora="gcc-c++ cmake ninja-build python3-devel ocl-icd-devel opencl-headers pocl valgrind-devel"
fedora+=" valgrind-tools-devel zlib-devel, and LLVM, clang and the SPIRV-LLVM translator of version 15"
# Programs for the tests and the style check.
packages+=(clang-15 clang-format-15 llvm-spirv-15 clpeak spirv-tools)

say() { printf 'xpuprof set-up: %s\n' "$*" >&2; }

give_up() {
  say "$1 Install these packages by hand, then run this again: ${missing[*]}"
  exit 2
}

# Other systems than Debian are checked for programs instead of packages.
programs=(cc c++ cmake ninja llvm-config-15 valgrind)

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
else
  for program in "${programs[@]}"; do
    command -v "$program" >/dev/null || missing=("${packages[@]}")
  done
fi

if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null ||
    give_up "this system has no apt-get; the packages below have Debian's names (Fedora: $fedora)."
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || give_up "installing Debian packages needs root, or sudo without a password."
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq >/dev/null ||
    give_up "apt-get update failed (no network, or no package source)."
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null || give_up "apt-get could not install every package;\
 Debian 12 has them all. The wheel that tools/build-wheel.sh makes needs none of them."
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { say "Python 3.11 or later is needed, and python3 is $(python3 --version 2>&1)."; exit 2; }
[ -x .venv/bin/python ] || python3 -m venv .venv

# Rebuild when a native source, a build file or the package's requirements changed.
stamp=build/installed
inputs=$(find pyproject.toml CMakeLists.txt native examples -type f -not -name '*.pyc' |
  LC_ALL=C sort | xargs sha256sum | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$inputs" ]; then
  say "building xpuprof into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs]'
  # The example's short name: the program of `xpuprof demo`.
  mkdir -p build/examples
  ln -sf "$(.venv/bin/python -c 'from xpuprof.engines.native import native_file as file
print(file("demo/particles"))')" build/examples/particles
  printf '%s' "$inputs" >"$stamp"
fi
