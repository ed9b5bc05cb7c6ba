# SPDX-License-Identifier: Apache-2.0
"""Another package that declares methods, formats or engines, as an installer leaves it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.paths import ROOT


def install(folder: Path, package: str, module: str, source: str, entries: str) -> dict[str, str]:
    """Puts `module` with this source and the package's entry points into `folder`; gives an
    environment that sees it."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT)))}
