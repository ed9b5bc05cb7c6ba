# SPDX-License-Identifier: Apache-2.0
"""Run the tutorials' commands and write their output into the pages. Output that a page cuts
(`...`) stays; where its words have changed, the real output is printed.

    python tools/docs/tutorials.py [PAGE.md]...
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.tutorials import pages, rewrite

for page in map(Path, sys.argv[1:]) if sys.argv[1:] else pages():
    with tempfile.TemporaryDirectory() as folder:
        for step in rewrite(page, Path(folder)):
            print(f"{page}: cut this output again\n{step.text}")
