#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job on an example, with the example's embedded defaults.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
exec xpuprof run --force -o build/demo -- build/examples/particles
