#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pictures in README.md, from the demo's run (`make demo`): needs Chromium and matplotlib.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
page=$(mktemp -d)/demo.html
trap 'rm -rf "$(dirname "$page")"' EXIT
xpuprof report build/demo -q -o "$page"
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1130 \
  --user-data-dir="$(dirname "$page")/browser" --screenshot=docs/page.png "file://$page" 2>/dev/null
