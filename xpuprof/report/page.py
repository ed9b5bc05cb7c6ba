# SPDX-License-Identifier: Apache-2.0
"""The run as one self-contained HTML page: picture, summary, representatives."""

from __future__ import annotations

import base64
import html
import tempfile
from pathlib import Path

from xpuprof.report.picture import draw
from xpuprof.report.result import as_text
from xpuprof.workflow.evaluate import Result

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto }}
pre {{ background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: 13px }}
img {{ max-width: 100% }}
</style>
<h1>{title}</h1>
<p>{status}</p>
<img alt="Slice times by cluster, representatives marked"
 src="data:image/png;base64,{image}">
<pre>{text}</pre>
</html>
"""


def write_page(result: Result, target: Path) -> None:
    """Writes the page. Raises EngineError when matplotlib is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "run.png"
        draw(result, picture)
        image = base64.b64encode(picture.read_bytes()).decode()
    reason = f": {result.reason}" if result.reason else ""
    target.write_text(
        _PAGE.format(
            title=html.escape(" ".join(result.argv)),
            status=html.escape(f"{result.folder}, {result.status}{reason}"),
            image=image,
            text=html.escape(as_text(result)),
        ),
        encoding="utf-8",
    )
