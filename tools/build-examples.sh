#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example programs into build/examples.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/examples
# The program finds its kernels next to its source, in any working directory.
c++ -std=c++17 -O2 -Wall -Wextra -Werror "$PWD/examples/particles/particles.cpp" \
  -o build/examples/particles -lOpenCL
