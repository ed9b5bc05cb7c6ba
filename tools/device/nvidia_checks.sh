#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs an NVIDIA GPU: builds, runs, and packs tables and outputs into one file.
#
#   NVBIT_ROOT=/path/to/nvbit tools/device/nvidia_checks.sh RESULTS.tar.gz [SECTION...]
#
# Sections, in order of value, and the seconds after which each stops (all but the last two run by
# default). These groups take under ten minutes each; the first two are the essential ones:
#   build 240, empty 40, exact 200, async 80, counts 120 | graph 80, coverage 160, overhead 300 |
#   particles 540 | torch 540 | cpu 300, many 240
# `build` runs first whatever is asked for, and does nothing when this tree is already built in
# WORK. What is absent (a kit, an engine, a tool) is noted and skipped; failed checks are counted,
# and the script then exits with 1.
#
# WORK (build/nvidia) holds builds and runs. PYTHON names an interpreter that has xpuprof's
# requirements (.venv/bin/python, or python3); wheels in the folder WHEELS (.whl) are added to it
# first. PACKAGE names a folder that holds an installed xpuprof: nothing but the programs is built
# then. TORCH_MODELS (bert; also resnet50 gpt), TORCH_DTYPES (fp32; also bf16) and TORCH_RUNS
# (eager; also compile graphs train) choose what `torch` runs. CPU (none) names the CPU engine of
# `particles` and `torch`; ENGINES leaves out all GPU engines but those it names.
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
RESULTS=${1:?usage: nvidia_checks.sh RESULTS.tar.gz [SECTION...]}
shift
SECTIONS=${*:-empty exact async counts graph coverage overhead particles torch}
WORK=$(mkdir -p "${WORK:-$ROOT/build/nvidia}" && cd "${WORK:-$ROOT/build/nvidia}" && pwd)
OUT=$WORK/results
RUNS=$WORK/runs
PYTHON=${PYTHON:-$([ -x "$ROOT/.venv/bin/python" ] && echo "$ROOT/.venv/bin/python" || echo python3)}
WHEELS=${WHEELS:-$ROOT/.whl}
ARCH=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
ARCH=${ARCH:-90}
# A copy of the package with the parts built here: the source tree and any installation stay
# unchanged.
export PYTHONPATH=$WORK/python:$WORK/site${PYTHONPATH:+:$PYTHONPATH}
export PATH=$PATH:/usr/local/cuda/bin
export XPUPROF_PROBE_SECONDS=${XPUPROF_PROBE_SECONDS:-30}
declare -A LIMITS=([build]=240 [empty]=40 [exact]=200 [async]=80 [counts]=120 [graph]=80 [coverage]=160
  [overhead]=300 [particles]=540 [torch]=540 [cpu]=300 [many]=240)
NVBIT=(NOBANNER=1 ACK_CTX_INIT_LIMITATION=1) # what its tools need said
FAILED=0 DEADLINE=0
mkdir -p "$OUT" "$RUNS"

note() { echo "== $*" | tee -a "$OUT/log.txt"; }
limited() { # command...; `xpu` stands for xpuprof
  local left=$((DEADLINE - SECONDS))
  [ "$left" -gt 0 ] || return 124
  [ "$1" = xpu ] && set -- "$PYTHON" -P -m xpuprof "${@:2}"
  timeout -k 10 "$left" "$@"
}
look() { # name, command...: what comes out is a result in either case
  local name=$1 status
  shift
  limited "$@" >"$OUT/$name.txt" 2>"$OUT/$name.err"
  status=$?
  case $status in
  0) note "$name: passed" ;;
  124 | 137) note "$name: stopped, the section's time is up" ;;
  *) note "$name: failed ($status): $(tail -1 "$OUT/$name.err")" ;;
  esac
  return $status
}
check() { # the same, and a failure is counted
  look "$@" && return
  FAILED=$((FAILED + 1))
  return 1
}
profile() { # name, engine, command...
  check "$1" xpu profile --force -q --cpu none --gpu "$2" -o "$RUNS/$1" -- "${@:3}" &&
    check "$1-invariants" xpu check "$RUNS/$1"
}
has() { # engine: whether it can be used here
  [[ " ${ENGINES:-$1} " = *" $1 "* ]] || return
  [ -f "$OUT/doctor.json" ] || limited xpu doctor --json >"$OUT/doctor.json" 2>"$OUT/doctor.err"
  "$PYTHON" -P - "$1" "$OUT/doctor.json" <<'PY' 2>/dev/null
import json, sys
found = json.loads(open(sys.argv[2]).read().splitlines()[-1])
sys.exit(not any(e["engine"] == sys.argv[1] and e["available"] for e in found["engines"]))
PY
}
engines() { # those of the given ones that can be used here
  for engine in "$@"; do
    if has "$engine"; then echo "$engine"; else note "$engine: absent, skipped" >&2; fi
  done
}
exact() { # name, engine, case...: the counts are those of the run itself
  local some=()
  [ "$2" = ptx ] && [ "$3" != graph ] && some=(--some) # what ptx cannot count has a reason
  XPUPROF_COUNT_UNIT=warp profile "$1" "$2" "$WORK/exact" "$OUT/$1.counts" "${@:3}" || return
  check "$1-counts" "$PYTHON" "$ROOT/tools/device/nvidia_exact.py" "$RUNS/$1" "$OUT/$1.counts" \
    "${some[@]}"
  tail -1 "$OUT/$1-counts.txt"
}

# ---- sections -------------------------------------------------------------------------------

versions() {
  date -u
  uname -srm
  nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader
  nvcc --version | tail -2 | head -1
  grep -hs "define NVBIT_VERSION" "${NVBIT_ROOT:-/none}/core/nvbit.h"
  "$PYTHON" --version
  "$PYTHON" -c 'import torch; print("torch", torch.__version__)' 2>/dev/null
  ncu --version 2>/dev/null | tail -1
}
tree() { # what a build depends on
  echo "$ARCH ${NVBIT_ROOT:-} ${PACKAGE:-}"
  (cd "$ROOT" && find CMakeLists.txt cmake native xpuprof tools/device examples -type f \
    -not -name '*.pyc' -not -path '*/_native/*' | LC_ALL=C sort | xargs sha256sum) | sha256sum
}
gather_cuda() { # one folder for headers and libraries that lie in several
  local top site folder
  top=$(readlink -f "$(command -v nvcc)")
  top=${top%/bin/nvcc}
  site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  mkdir -p "$WORK/cuda/include" "$WORK/cuda/lib64"
  for folder in "$top" "$top"/targets/x86_64-linux "$top/extras/CUPTI" /usr/local/cuda \
    /usr/local/cuda/extras/CUPTI "$site"/nvidia/*; do
    [ -d "$folder/include" ] && cp -rsn "$folder/include/." "$WORK/cuda/include/" 2>/dev/null
    cp -sn "$folder"/lib*/libcudart_static.a "$WORK/cuda/lib64/" 2>/dev/null
  done
}
section_build() {
  versions >"$OUT/versions.txt" 2>/dev/null
  if [ "$(cat "$WORK/built" 2>/dev/null)" = "$(tree)" ]; then
    note "build: already done in $WORK"
    return
  fi
  rm -rf "$WORK/python" "$WORK"/injected-* "$OUT/doctor.json"
  mkdir -p "$WORK/python" "$WORK/site"
  if compgen -G "$WHEELS/*.whl" >/dev/null; then
    check wheels "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --upgrade \
      --target "$WORK/site" "$WHEELS"/*.whl
  fi
  gather_cuda
  if [ -n "${PACKAGE:-}" ]; then
    check package cp -r "$PACKAGE/xpuprof" "$WORK/python/" || return
  else
    check python "$PYTHON" -c "import cffi, click, numpy, pandas" || return
    check configure env CUDA_HOME="$WORK/cuda" cmake -S "$ROOT" -B "$WORK/native" \
      -DPython_EXECUTABLE="$(command -v "$PYTHON")" -DXPUPROF_CUDA=ON -DXPUPROF_CUDA_ARCHS="$ARCH" \
      ${NVBIT_ROOT:+-DNVBIT_ROOT="$NVBIT_ROOT" -DXPUPROF_NVBIT=ON} || return
    check build cmake --build "$WORK/native" -j || return
    check install cmake --install "$WORK/native" --prefix "$WORK/python" || return
  fi
  check sources cp -r "$ROOT/xpuprof" "$WORK/python/" || return
  local wide=$ARCH
  [ "$ARCH" = 90 ] && wide=90a # for wgmma
  check nvcc-exact nvcc -O2 -std=c++17 -arch="sm_$wide" -o "$WORK/exact" \
    "$ROOT/tools/device/exact.cu" || return
  for program in tools/device/launches examples/cuda/particles; do
    check "nvcc-$(basename $program)" nvcc -O2 -std=c++17 -arch="sm_$ARCH" \
      -o "$WORK/$(basename $program)" "$ROOT/$program.cu" || return
  done
  look doctor xpu doctor
  has nvbit || note "nvbit: absent (NVBIT_ROOT=${NVBIT_ROOT:-})"
  tree >"$WORK/built"
}

# Whether NVBit itself works on this driver: a tool that does nothing.
section_empty() {
  has nvbit || { note "nvbit: absent, skipped"; return; }
  check empty-driver cc -shared -Wl,-soname,libcuda.so.1 -o "$WORK/libcuda.so.1" -x c /dev/null
  check empty-build nvcc -O2 -std=c++17 -arch="sm_$ARCH" -I"$NVBIT_ROOT/core" -Xcompiler -fPIC \
    -shared -o "$WORK/empty.so" "$ROOT/tools/device/empty_tool.cu" "$NVBIT_ROOT/core/libnvbit.a" \
    -Xlinker --no-as-needed -L"$WORK" -l:libcuda.so.1 || return
  check empty env "${NVBIT[@]}" CUDA_INJECTION64_PATH="$WORK/empty.so" "$WORK/exact" \
    "$OUT/empty.counts" basic
}

# Per warp, launch by launch, against what the kernels count for themselves.
section_exact() {
  look exact-native "$WORK/exact" "$OUT/native.counts" basic brx pointers shared clusters wgmma
  for engine in $(engines nvbit ptx); do
    for cases in basic brx pointers shared clusters wgmma; do
      exact "exact-$engine-$cases" "$engine" $cases
    done
  done
  has nvbit || return
  check exact-lanes env XPUPROF_COUNT_UNIT=lane "$PYTHON" -P -m xpuprof profile --force -q \
    --cpu none --gpu nvbit -o "$RUNS/exact-lanes" -- "$WORK/exact" "$OUT/lanes.counts" basic &&
    check exact-lanes-counts "$PYTHON" "$ROOT/tools/device/nvidia_exact.py" \
      "$RUNS/exact-nvbit-basic" "$OUT/exact-nvbit-basic.counts" --lanes "$RUNS/exact-lanes"
}

# Launches that nobody waits for: 200 in four streams, and 1,000 in a row.
section_async() {
  for engine in $(engines nvbit ptx); do
    exact "async-$engine" "$engine" streams
    profile "async-$engine-1000" "$engine" "$WORK/launches" 1000 20
  done
}

# Instructions of every launch, against the hardware's counters.
counts() { # name, launches, command...
  local metrics=smsp__inst_executed.sum,smsp__thread_inst_executed.sum
  profile "counts-$1" nvbit "${@:3}" || return
  limited ncu --clock-control none --metrics "$metrics" --launch-count "$2" --csv "${@:3}" \
    >"$OUT/counts-$1.csv" 2>"$OUT/counts-$1-ncu.err"
  check "counts-$1-hardware" "$PYTHON" "$ROOT/tools/device/nvidia_counts.py" "$RUNS/counts-$1" \
    "$OUT/counts-$1.csv"
  cat "$OUT/counts-$1-hardware.txt"
}
section_counts() {
  has nvbit || { note "nvbit: absent, skipped"; return; }
  command -v ncu >/dev/null || { note "ncu: absent, skipped"; return; }
  counts exact 100 "$WORK/exact" /dev/null basic brx pointers shared clusters wgmma
  counts particles 1000 "$WORK/particles" 20 4000
  "$PYTHON" -c "import torch; assert torch.cuda.is_available()" 2>/dev/null &&
    counts torch 300 "$PYTHON" "$ROOT/examples/cuda/torch_models.py" bert --dtype fp32 --steps 2
}

section_graph() {
  for engine in $(engines nvbit ptx); do exact "graph-$engine" "$engine" graph; done
}

section_coverage() {
  for mode in plain graph; do
    local option=()
    [ $mode = graph ] && option=(--graph)
    check "coverage-$mode-cuda" xpu time --force -q --gpu cuda --repeat 1 \
      -o "$RUNS/coverage-$mode-cuda" -- "$WORK/particles" 60 4000 "${option[@]}"
    if command -v ncu >/dev/null; then
      limited timeout 60 ncu --clock-control none --metrics gpu__time_duration.sum --csv \
        "$WORK/particles" 60 4000 "${option[@]}" 2>/dev/null |
        grep -c gpu__time_duration >"$OUT/ncu-$mode-launches.txt"
      note "coverage-$mode: Nsight Compute saw $(cat "$OUT/ncu-$mode-launches.txt") launches"
    fi
    for engine in $(engines nvbit ptx); do
      profile "coverage-$mode-$engine" "$engine" "$WORK/particles" 60 4000 "${option[@]}"
      look "coverage-$mode-$engine-launches" "$PYTHON" "$ROOT/tools/device/nvidia_coverage.py" \
        "$RUNS/coverage-$mode-$engine" "$RUNS/coverage-$mode-cuda"
      cat "$OUT/coverage-$mode-$engine-launches.txt"
    done
  done
}

# The program's own measurement around its launches, under an engine.
injected() { # mode, timer, engine, command...
  local folder=$WORK/injected-$1-$2-$3 status
  if [ ! -d "$folder" ]; then
    mkdir -p "$folder"
    "$PYTHON" -P - "$1" "$2" "$3" "$folder" >"$folder/environment" <<'PY'
import sys
from pathlib import Path
from xpuprof.engines.base import GpuEngine, GpuOptions
from xpuprof.engines.registry import engine
mode, timer, name, folder = sys.argv[1:]
made = engine(GpuEngine, name).kind()
mode = mode.replace("idle", "time")
for item in made.environment(mode, timer, Path(folder), GpuOptions()).items():
    print("=".join(item))
PY
  fi
  mapfile -t variables <"$folder/environment"
  mkdir -p "$folder/trace"
  [ "$1" = idle ] && variables+=("CUDA_INJECTION64_PATH=$WORK/idle.so")
  limited env XPUPROF_DIR="$folder/trace" XPUPROF_MODE="$1" XPUPROF_TIMER="$2" "${variables[@]}" \
    "${@:4}"
  status=$?
  rm -rf "$folder/trace"
  return $status
}
under() { # way, command...
  case $1 in
  native) limited "${@:2}" ;;
  timer_async | timer_sync) injected time "${1#timer_}" cuda "${@:2}" ;;
  idle_cupti) injected idle async cuda "${@:2}" ;;
  nvbit | ptx) injected profile async "$1" "${@:2}" ;;
  nvbit_empty) limited env "${NVBIT[@]}" CUDA_INJECTION64_PATH="$WORK/empty.so" "${@:2}" ;;
  instr_count_bb) limited env "${NVBIT[@]}" CUDA_INJECTION64_PATH="$WORK/instr_count_bb.so" "${@:2}" ;;
  nsys) limited nsys profile -t cuda --force-overwrite true -o "$WORK/nsys" "${@:2}" ;;
  neutrino) limited neutrino -t block_sched "${@:2}" ;;
  esac
}
section_overhead() {
  local ways=(native) peer=${NVBIT_ROOT:-/none}/../tools/instr_count_bb line t
  check idle g++ -std=c++17 -O2 -shared -fPIC -isystem "$WORK/cuda/include" -o "$WORK/idle.so" \
    "$ROOT/tools/bench/idle_subscriber.cpp" && ways+=(idle_cupti)
  ways+=(timer_async timer_sync)
  mapfile -t -O ${#ways[@]} ways < <(engines nvbit ptx)
  [ -f "$WORK/empty.so" ] && ways+=(nvbit_empty)
  [ -d "$peer" ] || peer=${NVBIT_ROOT:-/none}/tools/instr_count_bb
  if [ -d "$peer" ] && limited make -C "$peer" ARCH="sm_$ARCH" >"$OUT/instr_count_bb.err" 2>&1; then
    cp "$peer/instr_count_bb.so" "$WORK/" && ways+=(instr_count_bb)
  fi
  for tool in nsys neutrino; do command -v $tool >/dev/null && ways+=("$tool"); done
  echo "launches microseconds ${ways[*]}" >"$OUT/overhead.txt"
  for case in "100000 0" "20000 50" "200 5000"; do
    line=$case
    for way in "${ways[@]}"; do
      # shellcheck disable=SC2086
      t=$(for _ in 1 2 3; do under "$way" "$WORK/launches" $case; done 2>>"$OUT/overhead.err" |
        grep -E '^[0-9.]+$' | sort -g | head -1)
      line="$line ${t:-nan}"
    done
    echo "$line" >>"$OUT/overhead.txt"
  done
  cat "$OUT/overhead.txt"
  grep -q nan "$OUT/overhead.txt" && note "overhead: not every way of running it came to its end"
}

program_table() { # name, repetitions, command...
  local gpu
  gpu=$(engines nvbit ptx cuda 2>/dev/null | head -1)
  check "run-$1" xpu run --force -q --cpu "${CPU:-none}" --gpu "${gpu:-cuda}" --repeat "$2" \
    -o "$RUNS/$1" -- "${@:3}" &&
    check "compare-$1" xpu compare "$RUNS/$1" --methods xpu-point,gpu-point,stem-root,sieve --json
}
section_particles() {
  program_table particles 5 "$WORK/particles" 300 20000
  program_table particles-graph 3 "$WORK/particles" 300 20000 --graph
}
section_torch() {
  "$PYTHON" -c "import torch; assert torch.cuda.is_available()" 2>/dev/null ||
    { note "torch: not installed for CUDA, skipped"; return; }
  for model in ${TORCH_MODELS:-bert}; do
    for dtype in ${TORCH_DTYPES:-fp32}; do
      for run in ${TORCH_RUNS:-eager}; do
        local options=(--run "$run" --steps 10)
        [ "$run" = train ] && options=(--train --steps 5)
        program_table "torch-$model-$dtype-$run" 3 "$PYTHON" "$ROOT/examples/cuda/torch_models.py" \
          "$model" --dtype "$dtype" "${options[@]}"
      done
    done
  done
}

# Which CPU engines support the CUDA driver: the program must end as it does natively.
section_cpu() {
  local gpu
  gpu=$(engines nvbit ptx cuda 2>/dev/null | head -1)
  for cpu in $(engines valgrind dynamorio pin); do
    look "cpu-$cpu" xpu profile --force -q --cpu "$cpu" --gpu "${gpu:-cuda}" -o "$RUNS/cpu-$cpu" -- \
      "$WORK/particles" 20 1000
  done
  check cpu-auto xpu run --force --repeat 3 --json -o "$RUNS/cpu-auto" -- "$WORK/particles" 20 1000
  limited xpu doctor --json >"$OUT/doctor.json" 2>"$OUT/doctor.err"
}

section_many() {
  for engine in $(engines cuda nvbit ptx); do
    profile "many-$engine" "$engine" "$WORK/launches" 100000
    "$PYTHON" -P - "$RUNS/many-$engine/manifest.json" >"$OUT/many-$engine.time" 2>/dev/null <<'PY'
import json, sys
print(json.load(open(sys.argv[1]))["executions"][0]["wall_s"], "s")
PY
  done
}

# One file, after each section: a call that is cut short keeps what it has.
pack() {
  "$PYTHON" "$ROOT/tools/device/nvidia_tables.py" "$OUT" >"$OUT/tables.md" 2>"$OUT/tables.err"
  mapfile -t small < <(cd "$WORK" && find runs -name manifest.json -size -200k)
  tar -czf "$RESULTS.part" -C "$WORK" results "${small[@]}" && mv "$RESULTS.part" "$RESULTS"
}

for section in build ${SECTIONS//build/}; do
  declare -F "section_$section" >/dev/null ||
    { echo "there is no section $section" >&2; exit 2; }
done
for section in build ${SECTIONS//build/}; do
  note "section $section"
  DEADLINE=$((SECONDS + ${LIMITS[$section]}))
  "section_$section"
  pack
  [ "$section" != build ] || [ -f "$WORK/built" ] || { note "build failed: nothing else is run"; break; }
done
note "$FAILED checks failed after $SECONDS s; tables and outputs are in $RESULTS"
pack
[ "$FAILED" = 0 ]
