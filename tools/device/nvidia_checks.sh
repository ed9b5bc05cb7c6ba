#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs an NVIDIA GPU: builds, runs, and writes tables to a folder.
#
#   NVBIT_ROOT=/path/to/nvbit tools/device/nvidia_checks.sh [OUT] [SECTION ...]
#
# Sections (all by default): build exact ptx coverage overhead cpu particles many torch tables
# These calls take under ten minutes each:
#   build exact ptx coverage | overhead cpu many | particles | torch, one TORCH_MODELS at a time | tables
# TORCH_MODELS, TORCH_DTYPES, TORCH_RUNS narrow `torch` (defaults: bert resnet50 gpt; fp32 bf16;
# eager compile graphs train). LIMIT: seconds that one check may take (300).
# PYTHON names an interpreter that has xpuprof's requirements (default: .venv/bin/python, or
# python3); torch is needed for `torch` only. Missing parts are reported and skipped; failed
# checks are counted, and the script then exits with 1.
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
OUT=$(mkdir -p "${1:-$ROOT/build/nvidia}" && cd "${1:-$ROOT/build/nvidia}" && pwd)
shift || true
SECTIONS=${*:-build exact ptx coverage overhead cpu particles many torch tables}
PYTHON=${PYTHON:-$([ -x "$ROOT/.venv/bin/python" ] && echo "$ROOT/.venv/bin/python" || echo python3)}
ARCH=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d .)
ARCH=${ARCH:-90}
# A copy of the package with the parts built here: the source tree and any installation stay
# unchanged.
export PYTHONPATH=$OUT/python
NATIVE=$OUT/python/xpuprof/_native
export PATH=$PATH:/usr/local/cuda/bin
METHODS=xpu-point,gpu-point,stem-root,sieve
LIMIT=${LIMIT:-300}
FAILED=0

note() { echo "== $*" | tee -a "$OUT/log.txt"; }
check() { # name, command...
  local name=$1
  shift
  if limited "$@" >"$OUT/$name.txt" 2>"$OUT/$name.err"; then
    note "$name: passed"
  else
    note "$name: FAILED ($?), see $OUT/$name.txt and .err: $*"
    FAILED=$((FAILED + 1))
  fi
}
limited() { # command...; `xpu` stands for xpuprof
  [ "$1" = xpu ] && set -- "$PYTHON" -m xpuprof "${@:2}"
  timeout "$LIMIT" "$@"
}
has_nvbit() { [ -f "$NATIVE/libxpuprof_nvbit.so" ]; }
seconds() { # the median of 5 runs of a command, in seconds
  "$PYTHON" - "$@" <<'PY'
import statistics, subprocess, sys, time
took = []
for _ in range(5):
    start = time.monotonic()
    subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
    took.append(time.monotonic() - start)
print(f"{statistics.median(took):.4f}")
PY
}

section_build() {
  {
    date -u
    nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv
    nvcc --version | tail -2
    grep -h "define NVBIT_VERSION" "${NVBIT_ROOT:-/none}/core/nvbit.h" 2>/dev/null
  } >"$OUT/versions.txt" 2>&1
  cat "$OUT/versions.txt"
  check configure cmake -S "$ROOT" -B "$OUT/native" -DPython_EXECUTABLE="$(command -v "$PYTHON")" \
    -DXPUPROF_CUDA=ON ${NVBIT_ROOT:+-DNVBIT_ROOT="$NVBIT_ROOT" -DXPUPROF_NVBIT=ON}
  check build cmake --build "$OUT/native" -j
  check install cmake --install "$OUT/native" --prefix "$OUT/python"
  check package cp -r "$ROOT/xpuprof" "$OUT/python/"
  for program in tools/device/exact tools/device/launches examples/cuda/particles; do
    check "nvcc-$(basename $program)" nvcc -O2 -std=c++17 -arch="sm_$ARCH" -o "$OUT/$(basename $program)" \
      "$ROOT/$program.cu"
  done
  has_nvbit || note "NVBit tool not built (NVBIT_ROOT=${NVBIT_ROOT:-}): its checks are skipped"
  check doctor xpu doctor
}

section_exact() {
  has_nvbit || return
  "$OUT/exact" >"$OUT/exact.native" || note "exact does not run"
  check exact-profile xpu profile --force -q --cpu none --gpu nvbit -o "$OUT/run-exact" -- "$OUT/exact"
  check exact-invariants xpu check "$OUT/run-exact"
  # The program also prints the kernels' own counts under the tool: both must agree.
  check exact-lanes env XPUPROF_COUNT_UNIT=lane "$PYTHON" -m xpuprof profile --force -q --cpu none \
    --gpu nvbit -o "$OUT/run-exact-lane" -- "$OUT/exact"
  check exact-counts "$PYTHON" "$ROOT/tools/device/nvidia_exact.py" "$OUT/run-exact" \
    "$OUT/exact.native" "$OUT/run-exact-lane"
  tail -1 "$OUT/exact-counts.txt"
}

# In the unit in which the program counts for itself.
section_ptx() {
  "$OUT/exact" >"$OUT/exact.native" || note "exact does not run"
  check ptx-profile env XPUPROF_COUNT_UNIT=warp "$PYTHON" -m xpuprof profile --force -q --cpu none \
    --gpu ptx -o "$OUT/run-ptx" -- "$OUT/exact"
  check ptx-invariants xpu check "$OUT/run-ptx"
  check ptx-counts "$PYTHON" "$ROOT/tools/device/nvidia_exact.py" "$OUT/run-ptx" "$OUT/exact.native"
  tail -1 "$OUT/ptx-counts.txt"
  check ptx-particles xpu profile --force -q --cpu none --gpu ptx -o "$OUT/run-ptx-particles" -- \
    "$OUT/particles" 60 4000
}

section_coverage() {
  for mode in "" --graph; do
    local name=coverage${mode#-}
    check "$name-cuda" xpu time --force -q --gpu cuda --repeat 1 -o "$OUT/run-$name-cuda" -- \
      "$OUT/particles" 60 4000 $mode
    if command -v ncu >/dev/null; then
      ncu --metrics gpu__time_duration.sum --csv "$OUT/particles" 60 4000 $mode 2>/dev/null |
        grep -c gpu__time_duration >"$OUT/$name-ncu-launches.txt"
      note "$name: Nsight Compute saw $(cat "$OUT/$name-ncu-launches.txt") launches"
    fi
    has_nvbit || continue
    check "$name-nvbit" xpu profile --force -q --cpu none --gpu nvbit -o "$OUT/run-$name-nvbit" -- \
      "$OUT/particles" 60 4000 $mode
    check "$name" "$PYTHON" "$ROOT/tools/device/nvidia_coverage.py" "$OUT/run-$name-nvbit" \
      "$OUT/run-$name-cuda"
    cat "$OUT/$name.txt"
  done
}

# The program's own measurement around its launches, natively and under the tool.
injected() { # mode, timer, library, command...
  local folder
  folder=$(mktemp -d)
  local mode=$1 timer=$2 library=$3
  shift 3
  XPUPROF_DIR=$folder XPUPROF_MODE=$mode XPUPROF_TIMER=$timer \
    CUDA_INJECTION64_PATH=$NATIVE/$library \
    XPUPROF_CUPTI=$("$PYTHON" -c "from xpuprof.engines.gpu.cuda import cupti_library as c; print(c() or '')") \
    XPUPROF_NVDISASM=$("$PYTHON" -c "from xpuprof.engines.gpu.nvbit import cuda_program as p; print(p('nvdisasm') or '')") "$@"
  rm -rf "$folder"
}

section_overhead() {
  {
    echo "launches microseconds native cuda_async cuda_sync nvbit (seconds in the launch loop)"
    for case in "100000 0" "20000 50" "200 5000"; do
      line="$case"
      # shellcheck disable=SC2086
      for way in native async sync nvbit; do
        best=inf
        for _ in 1 2 3; do
          case $way in
          native) t=$("$OUT/launches" $case) ;;
          async | sync) t=$(injected time $way libxpuprof_cuda.so "$OUT/launches" $case) ;;
          nvbit) has_nvbit && t=$(injected profile "" libxpuprof_nvbit.so "$OUT/launches" $case) || t=nan ;;
          esac
          best=$("$PYTHON" -c "print(min(float('$best'), float('${t:-nan}')))")
        done
        line="$line $best"
      done
      echo "$line"
    done
  } | tee "$OUT/overhead.txt"
  if grep -q inf "$OUT/overhead.txt"; then
    note "overhead: FAILED, a program did not run"
    FAILED=$((FAILED + 1))
  fi
}

# Which CPU engines support the CUDA driver: the program must end as it does natively.
section_cpu() {
  local gpu=cuda
  has_nvbit && gpu=nvbit
  check doctor-json xpu doctor --json
  for cpu in none valgrind dynamorio pin; do
    check "cpu-$cpu" xpu profile --force -q --cpu $cpu --gpu $gpu -o "$OUT/run-cpu-$cpu" -- \
      "$OUT/particles" 20 1000
  done
  # The choice of `auto`: CPU and GPU vectors in one execution.
  check cpu-auto xpu run --force --repeat 3 --json -o "$OUT/run-cpu-auto" -- "$OUT/particles" 20 1000
}

program_table() { # name, command...
  local name=$1 gpu=cuda
  shift
  has_nvbit && gpu=nvbit
  check "run-$name" xpu run --force -q --cpu none --gpu $gpu --repeat 5 -o "$OUT/run-$name" -- "$@"
  check "compare-$name" xpu compare "$OUT/run-$name" --methods $METHODS --json
}

section_particles() {
  note "particles, native: $(seconds "$OUT/particles" 300 20000) s"
  program_table particles "$OUT/particles" 300 20000
  program_table particles-graph "$OUT/particles" 300 20000 --graph
}

section_torch() {
  "$PYTHON" -c "import torch; assert torch.cuda.is_available()" 2>/dev/null ||
    { note "torch: not installed for CUDA, skipped"; return; }
  local program=("$PYTHON" "$ROOT/examples/cuda/torch_models.py")
  for model in ${TORCH_MODELS:-bert resnet50 gpt}; do
    for dtype in ${TORCH_DTYPES:-fp32 bf16}; do
      for run in ${TORCH_RUNS:-eager compile graphs train}; do
        case $model-$run in
        gpt-train) ;; # a decoder is run for inference only
        *-train) program_table "torch-$model-$dtype-train" "${program[@]}" "$model" \
          --dtype "$dtype" --train --steps 5 ;;
        *) program_table "torch-$model-$dtype-$run" "${program[@]}" "$model" \
          --dtype "$dtype" --run "$run" --steps 20 ;;
        esac
      done
    done
  done
}

section_many() {
  for gpu in cuda nvbit; do
    [ $gpu = nvbit ] && ! has_nvbit && continue
    /usr/bin/time -f "%e s, %M KiB" -o "$OUT/many-$gpu.time" "$PYTHON" -m xpuprof profile --force -q \
      --cpu none --gpu $gpu -o "$OUT/run-many-$gpu" -- "$OUT/launches" 100000 &&
      note "100,000 launches under $gpu: $(cat "$OUT/many-$gpu.time")"
  done
}

section_tables() {
  "$PYTHON" "$ROOT/tools/device/nvidia_tables.py" "$OUT" | tee "$OUT/tables.md"
}

for section in $SECTIONS; do
  note "section $section"
  "section_$section"
done
note "$FAILED checks failed; everything is in $OUT"
[ "$FAILED" = 0 ]
