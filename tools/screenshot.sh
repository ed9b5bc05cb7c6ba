#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pictures of the documentation, from the demo's run (`make demo`): needs Chromium.
#   tools/screenshot.sh [RUN]
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
run=${1:-build/demo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

picture() { # NAME WIDTH,HEIGHT
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$2" \
    --user-data-dir="$work/browser" --screenshot="docs/$1.png" "file://$work/$1.html" 2>/dev/null
}

root=$PWD
cd "$(dirname "$run")"
run=$(basename "$run")
xpuprof report "$run" -q -o "$work/page.html"
xpuprof compare "$run" -q -o "$work/methods.html" >/dev/null
setsid script -qc "stty cols 110; xpuprof report $run" /dev/null >"$work/terminal.txt" # in colour
cd "$root"
python - "$run" "$work/terminal.txt" >"$work/terminal.html" <<'END'
import html, pathlib, sys
run, shown = pathlib.Path(sys.argv[1]), html.escape(pathlib.Path(sys.argv[2]).read_text())
shown = shown.rpartition("\x1b[K")[2]  # after the live line
styles = {1: "font-weight:700;color:#fff", 2: "color:#5c6470", 31: "color:#ff7b72"}
for code, style in styles.items():
    shown = shown.replace(f"\x1b[{code}m", f'<span style="{style}">')
shown = shown.replace("\x1b[0m", "</span>")
print(f"""<body style="margin:0;background:#14171b;color:#c9d1d9;padding:18px 22px">
<pre style="font:14px/1.4 ui-monospace,monospace;margin:0"><b style="color:#56b4e9">$</b> <b>\
xpuprof report {html.escape(run.name)}</b>
{shown}</pre>""")
END
picture page 1200,1290
picture methods 1400,760
picture terminal 1000,940
