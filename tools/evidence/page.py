# SPDX-License-Identifier: Apache-2.0
"""The suite's page, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]
Column = tuple[str, Callable[[Record], str]]


def page(records: Sequence[Record]) -> str:
    """All tables of the suite's records."""
    whole = [record for record in records if "error" in record]
    parts = [
        "# Public programs through every engine and method\n",
        "Made by `make evidence` (tools/evidence): each program natively, through `xpuprof run` "
        "with its defaults, through each engine alone, and through every method of `compare`.\n",
        _goals(records, whole),
        "## Seen and right\n",
        _table(records, SEEN),
        "## Sampling error\n",
        "Errors of `xpuprof run`, of five seeds, without the first and last slice, and over the "
        "time that no representative measures; the interval against the measured time.\n",
        _table(whole, ERRORS),
        "## Cost\n",
        "Ratios of wall time to a native run; memory is the largest process.\n",
        _table(whole, COST),
        "## Methods\n",
        "Mean error and time speedup on the same runs.\n",
        _methods(whole),
        "## Not measured, and why\n",
        _failures(records),
    ]
    return "\n".join(parts) + "\n"


def _goals(records: Sequence[Record], whole: Sequence[Record]) -> str:
    launches = sum(record["launches"] for record in whole)
    counted = sum(record["instrumented"] for record in whole)
    long = [record for record in whole if record["native_s"] >= 5.0]
    held = [record["held"] for record in whole if record["held"] is not None]
    lines = [
        f"- {len(whole)} of {len(records)} programs have a result; "
        f"{sum(record['kind'] == 'application' for record in whole)} of them are applications.",
        f"- {counted:,} of {launches:,} launches instrumented.",
        f"- Error over the {len(long)} programs of 5 s and more: geometric mean "
        f"{_percent(_geomean([record['error'] for record in long]))}, worst "
        f"{_percent(max((record['error'] for record in long), default=None))}.",
        f"- The interval held the measured time in {sum(held)} of {len(held)}.",
        f"- Output equal in {sum(record['same_output'] for record in whole)}, exit code in "
        f"{sum(record['code'] for record in whole)} of {len(whole)}.",
    ]
    return "\n".join(lines) + "\n"


def _why(record: Record) -> str:
    reasons = [f"{n:,}: {reason}" for reason, n in record.get("uninstrumented", {}).items()]
    return "; ".join(reasons).replace("|", "/") or "-"


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _fact(name: str, shown: Callable[[Any], str]) -> Callable[[Record], str]:
    return lambda record: shown(record[name]) if name in record else "-"


def _engine(name: str, field: str, form: str) -> Callable[[Record], str]:
    def cell(record: Record) -> str:
        return format(record["engines"][name][field], form) if "engines" in record else "-"

    return cell


SEEN: list[Column] = [
    ("program", _fact("program", str)),
    ("kind", _fact("kind", str)),
    ("native s", _fact("native_s", "{:.2f}".format)),
    ("right", _fact("passes", _yes)),
    ("launches", _fact("launches", "{:,}".format)),
    ("instrumented", _fact("instrumented", "{:,}".format)),
    ("not instrumented", _why),
    ("same output", _fact("same_output", _yes)),
    ("same exit code", _fact("code", _yes)),
    ("trace KB", _fact("bytes", lambda n: f"{n / 1024:,.0f}")),
]
ERRORS: list[Column] = [
    ("program", _fact("program", str)),
    ("slices", _fact("slices", "{:,}".format)),
    ("chosen", _fact("representatives", "{:,}".format)),
    ("error", _fact("error", _percent)),
    ("without ends", _fact("inner_error", _percent)),
    ("over unmeasured", _fact("unmeasured_error", _percent)),
    ("worst of seeds", _fact("seed_errors", lambda rows: _percent(max(rows)))),
    ("held", _fact("held", lambda held: "-" if held is None else _yes(held))),
    ("time speedup", _fact("time_speedup", "{:.1f}".format)),
    ("marked", _fact("unreliable", lambda rows: "; ".join(rows) or "-")),
    ("k, twice", _fact("again_k", lambda both: f"{both[0]}, {both[1]}")),
    ("slices in common", _fact("again_common", lambda share: f"{share:.0%}")),
]
COST: list[Column] = [
    ("program", _fact("program", str)),
    ("timer", _fact("timer", "{:.2f}".format)),
    ("GPU profile", _engine("gpu", "slowdown", ".2f")),
    ("CPU profile", _engine("cpu", "slowdown", ".2f")),
    ("both", _engine("both", "slowdown", ".2f")),
    ("run, s", _fact("run_s", "{:.0f}".format)),
    ("native MB", _fact("native_mb", "{:.0f}".format)),
    ("profiled MB", _engine("both", "memory_mb", ".0f")),
]


def _table(records: Sequence[Record], columns: Sequence[Column]) -> str:
    lines = ["| " + " | ".join(name for name, _ in columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cell(record) for _, cell in columns) + " |" for record in records]
    return "\n".join(lines) + "\n"


def _methods(records: Sequence[Record]) -> str:
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        for row in record.get("methods", []):
            rows.setdefault(row["method"], []).append(row)
    lines = ["| method | programs | error, mean | error, worst | time speedup |", "|---" * 5 + "|"]
    for name, own in rows.items():
        errors = [row["error_mean"] for row in own]
        speed = _geomean([row["time_speedup"] for row in own])
        worst = max(row["error_max"] for row in own)
        mean = sum(errors) / len(errors)
        lines.append(
            f"| {name} | {len(own)} | {_percent(mean)} | {_percent(worst)} | {speed:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _geomean(values: Sequence[float]) -> float | None:
    """None without values; zeros count as 1e-6."""
    if not values:
        return None
    return math.exp(sum(math.log(max(value, 1e-6)) for value in values) / len(values))


def _failures(records: Sequence[Record]) -> str:
    lines = [
        f"- {record['program']}, {step}: {why}"
        for record in records
        for step, why in record["failed"].items()
    ]
    return "\n".join(lines or ["Nothing."])
