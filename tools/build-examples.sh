#!/usr/bin/env bash
# Builds the example programs into build/examples.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/examples
c++ -std=c++17 -O2 -Wall -Wextra -Werror examples/particles/particles.cpp \
  -o build/examples/particles -lOpenCL
