# SPDX-License-Identifier: Apache-2.0
"""How fluid the page of a long run is in headless Chromium: time to open, zoom and hover.

    python tools/bench/page.py [--slices 100000]

Writes a made-up import, selects, writes the page, and lets a script on the page zoom in and out
around the middle and move the pointer. A zoom is timed until its pixels can be read back. Prints
medians and the slowest of each, and the page's size. The browser renders without a GPU.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.run import done_by_xpuprof as xpuprof

USER = """
const began = performance.now();
const u = window.xpuprofPlot, xs = u.data[0], frames = 40;
const pixel = () => u.ctx.getImageData(0, 0, 1, 1);
function timed(act) {
  const start = performance.now();
  act();
  return performance.now() - start;
}
const [low, high] = [xs[0], xs[xs.length - 1]], middle = (low + high) / 2;
const zooms = [];
for (let i = 0; i < frames; i++) {
  const half = ((high - low) / 2) * 0.85 ** (i < frames / 2 ? i : frames - i);
  zooms.push(timed(() => {
    u.batch(() => u.setScale("x", { min: middle - half, max: middle + half }));
    pixel();
  }));
}
u.batch(() => u.setScale("x", { min: low, max: high }));
const hovers = [];
for (let i = 0; i < 200; i++) {
  const at = { left: (i * u.over.clientWidth) / 200, top: (i * 37) % 300 };
  hovers.push(timed(() => u.setCursor(at)));
}
const head = [...document.querySelectorAll("#representatives th")].pop();
const sort = timed(() => { head.click(); document.body.offsetHeight; });
const open = began - performance.getEntriesByType("navigation")[0].responseEnd;
const result = document.createElement("pre");
result.id = "seen";
result.textContent = JSON.stringify({ open, zooms, hovers, sort: [sort] });
document.body.append(result);
"""


def page_of(slices: int, folder: Path) -> Path:
    """The page of a made-up run of 40 kernels."""
    random = np.random.default_rng(1)
    kernels, scale = random.integers(0, 40, slices), 10 ** random.uniform(-6, -2.5, 40)
    times = scale[kernels] * random.lognormal(0, 0.25, slices)
    rows = (f"kernel{k}<float>,{t:.6g}" for k, t in zip(kernels, times, strict=True))
    (folder / "t.csv").write_text("\n".join(["kernel,time", *rows]) + "\n")
    xpuprof("import", folder / "t.csv", "-o", folder / "R", "--map", "time=time:s")
    xpuprof("select", folder / "R", "--method", "stem-root")
    xpuprof("report", folder / "R", "-o", folder / "page.html")
    return folder / "page.html"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=100_000)
    slices: int = parser.parse_args().slices
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        sys.exit("Chromium is not installed: apt install chromium")
    with tempfile.TemporaryDirectory() as name:
        page = page_of(slices, Path(name))
        print(f"{slices:,} slices, page of {page.stat().st_size / 1e6:.1f} MB")
        text = page.read_text().replace("</body>", f"<script>{USER}</script></body>")
        page.write_text(text)
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1500"]
        command = [
            browser,
            *options,
            f"--user-data-dir={name}/browser",
            "--dump-dom",
            page.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    if found is None:
        sys.exit(done.stderr)
    seen = json.loads(html.unescape(found[1]))
    print(f"open   {seen['open']:8.1f} ms")
    for name in ("zooms", "hovers", "sort"):
        print(f"{name:6} {np.median(seen[name]):8.1f} ms, slowest {max(seen[name]):.1f} ms")


if __name__ == "__main__":
    main()
