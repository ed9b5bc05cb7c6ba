#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes every native reader, and the clustering code, under AddressSanitizer and UBSan.
#
#     tools/fuzz/native.sh [SECONDS] [TARGET ...]
#
# Each target (tools/fuzz/native/TARGET.c or .cpp) runs for SECONDS (10) from its corpus in
# build/fuzz/corpus, which grows from run to run and starts with corpus.py's seeds: small real
# inputs and earlier findings. 0 seconds: the corpus is read once. FUZZ_RUNS=N ends after N inputs
# of a fixed seed. Inputs that crash, hang or take more than 1 GiB are kept in build/fuzz/findings,
# and the exit code is 1. libFuzzer comes with Debian's clang.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-10}
shift || true

declare -A sources=(
  [stream]="native/bridge/stream_reader.c native/bridge/decode.c native/bridge/identity.c native/bridge/stream_writer.c native/runtime/writer.c native/runtime/stream_file.c native/runtime/place.c tools/fuzz/native/scratch_file.c"
  [writer]="native/bridge/stream_reader.c native/bridge/decode.c native/bridge/identity.c native/bridge/stream_writer.c native/runtime/writer.c native/runtime/stream_file.c native/runtime/place.c"
  [frequency]="native/clustering/frequency_file.c"
  [clustering]="native/clustering/project.c native/clustering/merge.c native/clustering/kmeans.c native/clustering/partial.c native/clustering/parallel.c"
  [kernel_spec]=""
  [request]=""
)
# Maximum input size; matching a specification's regular expression is recursive.
declare -A longest=([kernel_spec]=200 [clustering]=2304)

flags=(-g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
  -Wall -Wextra -Wno-psabi -Inative/include -Inative/bridge -Inative/runtime -Inative/clustering
  -Inative/gpu/opencl -Inative/gpu/opencl/layer -Inative/gpu/opencl/instrumenter)

clang=$(compgen -c clang-1 | grep -x 'clang-1[5-9]' | sort | head -1)

# One object per source, rebuilt when the source or a header changed.
build() {
  local target=$1 main object objects=()
  main=$(ls tools/fuzz/native/"$target".c*)
  for source in "$main" ${sources[$target]}; do
    object=build/fuzz/objects/${source//\//_}.o
    objects+=("$object")
    [ "$object" -nt "$source" ] && [ "$object" -nt "$newest_header" ] && continue
    case $source in
      *.c) ${CMAKE_C_COMPILER_LAUNCHER:-} "$clang" -std=gnu11 "${flags[@]}" -c "$source" -o "$object" ;;
      *) ${CMAKE_CXX_COMPILER_LAUNCHER:-} "${clang/clang/clang++}" -std=c++17 "${flags[@]}" -c "$source" -o "$object" ;;
    esac
  done
  "${clang/clang/clang++}" -fsanitize=fuzzer,address,undefined -pthread "${objects[@]}" -o build/fuzz/"$target"
}

mkdir -p build/fuzz/objects build/fuzz/findings
newest_header=$(find native tools/fuzz -name '*.h*' -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
.venv/bin/python tools/fuzz/corpus.py build/fuzz/corpus

export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1
failed=0
for target in "${@:-${!sources[@]}}"; do
  build "$target"
  corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  time=(-max_total_time="$seconds")
  [ "$seconds" = 0 ] && time=(-runs=0)
  [ -n "${FUZZ_RUNS:-}" ] && time+=(-seed=1 -runs="$FUZZ_RUNS")
  if ! build/fuzz/"$target" "${time[@]}" -max_len="${longest[$target]:-4096}" -rss_limit_mb=1024 \
    -timeout=10 -print_final_stats=1 -artifact_prefix=build/fuzz/findings/"$target"- \
    "$corpus" >"$log" 2>&1; then
    failed=1
    tail -60 "$log"
  fi
  printf '%-12s %12s executions, %6s files\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(ls "$corpus" | wc -l)"
done
exit $failed
