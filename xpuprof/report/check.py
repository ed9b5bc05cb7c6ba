# SPDX-License-Identifier: Apache-2.0
"""Output of `xpuprof check`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from xpuprof.trace.check import Report


def as_json(run: Path, report: Report) -> dict[str, object]:
    """The object that `xpuprof check --json` prints."""
    return {
        "run": str(run),
        "status": report.status,
        "reason": report.reason,
        "ok": report.whole and not report.violations,
        "checked": report.checked,
        "invariants": len(report.invariants),
        "violations": [asdict(violation) for violation in report.violations],
    }


def as_text(report: Report) -> str:
    """Each violation, then a summary line."""
    what = ", ".join(f"{name} {number:,}" for name, number in report.checked.items())
    if report.violations:
        verdict = f"violated: {', '.join(broken(report))} (checked: {what})"
    elif report.checked.get("streams") or report.checked["slices"]:
        verdict = f"all {len(report.invariants)} invariants hold (checked: {what})"
    else:
        verdict = f"no trace was recorded, so there was nothing to check (found: {what})"
    return "\n".join([*map(str, report.violations), verdict])


def broken(report: Report) -> list[str]:
    """The invariants that do not hold."""
    return sorted({violation.invariant for violation in report.violations})
