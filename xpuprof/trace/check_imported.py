# SPDX-License-Identifier: Apache-2.0
"""The invariant checker for imports: every column is read, and what importers promise must hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xpuprof.trace.findings import Findings
from xpuprof.trace.imported import TIMES, VECTORS, ImportedSlices

INVARIANTS = {
    "import-calls": "the calls of each kernel count up from 1 within its process",
    "import-times": "times are numbers, and never negative",
}


def check_imported(run: Path, found: Findings) -> dict[str, int]:
    """Check the invariants; returns how much was read. Raises TraceError when a column or vector
    cannot be read."""
    source = ImportedSlices(run)
    table = source.table()
    kernels = [table[name] for name in ("process", "kernel") if name in table]
    expected = table.groupby(kernels, sort=False, observed=True).cumcount() + 1
    calls, rows = table["call"], table["slice"].to_numpy()
    found.add(
        "import-calls",
        (calls != expected).to_numpy(),
        "call {} of {} should be call {}",
        calls.to_numpy(),
        table["kernel"].astype(str).to_numpy(),
        expected.to_numpy(),
        slices=rows,
    )
    for name in source.metrics:
        values = np.asarray(source.column(name))
        if name in TIMES:
            found.add("import-times", ~(values >= 0), f"{name} is {{}}", values, slices=rows)
    vectors = sum(source.vectors(side) is not None for side in VECTORS)
    return {"slices": source.rows, "columns": len(source.units), "vectors": vectors}
