# SPDX-License-Identifier: Apache-2.0
"""The suite's page, in Markdown."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any

from markdown import markdown

from tools.evidence.measure import LONG_S, SELECTED

Record = Mapping[str, Any]
Column = tuple[str, Callable[[Record], str]]
STARTED_S = 1.0
"""Native time of a program whose cost is more than that of its start."""
TEMPLATE = """<!doctype html><meta charset="utf-8"><title>Public programs</title><style>
body { font: 15px/1.4 sans-serif; max-width: 90em; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block;
overflow-x: auto }
td, th { border-bottom: 1px solid #ccc; padding: .2em .6em; text-align: right }
td:first-child, th:first-child { text-align: left }
</style>
"""


def page(records: Sequence[Record], remarks: Mapping[str, str], note: str) -> str:
    """All tables of the suite's records."""
    whole = [record for record in records if "error" in record]
    parts = [
        "# Public programs through every engine and method\n",
        "Made by `make evidence` (tools/evidence): each program natively, through `xpuprof run` "
        "with its defaults, through each engine alone, and through every method of `compare`.\n",
        _measured(whole, note),
        _goals(records, whole),
        "## Seen and right\n",
        _table(records, SEEN),
        "## Sampling error\n",
        "Errors of `xpuprof run` and the worst of five seeds of `select`, which chooses by the "
        "profile alone; without the first and last slice, and over the time that no "
        "representative measures; the interval against the measured time. The last two columns "
        "compare the selections from two profiles: clusters, and the share of representatives "
        "that are the same slice.\n",
        _table(whole, ERRORS),
        "## Cost\n",
        "Ratios of wall time to a native run; memory is the largest process. A CPU engine alone "
        f"translates kernels, too; it was left out for programs of {LONG_S:.0f} s and more.\n",
        _slowdowns(whole),
        _table(whole, _cost(whole)),
        "## Methods\n",
        "Every method on the same recorded runs, 20 seeds, every parameter at its default; means "
        "over the programs, of the time speedup the harmonic one. No parameter was chosen on "
        "these programs. `of unmeasured`: error over the time that the representatives do not "
        "take.\n",
        _methods(whole),
        "Methods that follow an error bound or target, at three of them: mean error, and share of "
        "the time that the representatives take.\n",
        _work(whole),
        "## Misses, and what was not measured\n",
        _failures(records, remarks),
    ]
    return "\n".join(parts) + "\n"


def html(text: str, records: Sequence[Record], place: Path, folder: Path) -> str:
    """The page for a browser; in it each program leads to the report of its run."""
    for record in records:
        if report := record.get("report"):
            link = os.path.relpath(place / report, folder)
            text = text.replace(f"| {record['program']} |", f"| [{record['program']}]({link}) |")
    return TEMPLATE + markdown(text, extensions=["tables"])


def _measured(records: Sequence[Record], note: str) -> str:
    """Where, and at which commits."""
    machines = {f"{record['cores']} cores, {record['machine']}" for record in records}
    commits: dict[str, list[str]] = {}
    for record in records:
        commits.setdefault(record["commit"], []).append(record["program"])
    most, *others = sorted(commits, key=lambda commit: -len(commits[commit]))
    apart = [f"{', '.join(commits[commit])} at {commit}" for commit in others]
    return f"{'; '.join(sorted(machines))}. {note} Commit {'; '.join([most, *apart])}.\n"


def _goals(records: Sequence[Record], whole: Sequence[Record]) -> str:
    launches = sum(record["launches"] for record in whole)
    counted = sum(record["instrumented"] for record in whole)
    long = [record for record in whole if record["native_s"] >= 5.0]
    held = [record["held"] for record in whole if record["held"] is not None]
    drawn = [held for record in whole for held in record["seed_held"] if held is not None]
    lines = [
        f"- {len(whole)} of {len(records)} programs have a result; "
        f"{sum(record['kind'] == 'application' for record in whole)} of them are applications.",
        f"- {counted:,} of {launches:,} launches instrumented.",
        f"- Error over the {len(long)} programs of 5 s and more: geometric mean "
        f"{_percent(_geomean([record['error'] for record in long]))}, worst "
        f"{_percent(max((record['error'] for record in long), default=None))}.",
        f"- The interval held the measured time in {sum(held)} of {len(held)}, and with five "
        f"seeds in {sum(drawn)} of {len(drawn)}.",
        f"- Output equal in {sum(record['same_output'] for record in whole)}, exit code in "
        f"{sum(record['code'] for record in whole)} of {len(whole)}.",
    ]
    return "\n".join(lines) + "\n"


def _engines(records: Sequence[Record]) -> list[str]:
    """The engines that were present, in the order of measuring."""
    return list(dict.fromkeys(name for record in records for name in record.get("engines", {})))


def _slowdowns(whole: Sequence[Record]) -> str:
    """Mean and worst cost of each engine, over programs that do more than start."""
    lines = []
    for name in _engines(whole):
        known = [
            (record["engines"][name]["slowdown"], record["program"])
            for record in whole
            if record["native_s"] >= STARTED_S and name in record.get("engines", {})
        ]
        if known:
            worst, program = max(known)
            lines.append(
                f"- {name.removeprefix('engine ')}: geometric mean "
                f"{_geomean([value for value, _ in known]):.2f}, worst {worst:.2f} ({program}), "
                f"{len(known)} measured that take {STARTED_S:g} s and more natively."
            )
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
        found = record.get("engines", {}).get(name)
        return format(found[field], form) if found else "-"

    return cell


def _over_rows(
    name: str, reduce: Callable[[Sequence[float]], float], shown: Callable[[float], str]
) -> Callable[[Record], str]:
    """A fact of a method, over the programs where it is known."""

    def cell(record: Record) -> str:
        known = [row[name] for row in record["rows"] if row[name] is not None]
        return shown(reduce(known)) if known else "-"

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
    ("without ends", _fact("seed_inner_errors", lambda rows: _percent(_largest(rows)))),
    ("held", _fact("held", lambda held: "-" if held is None else _yes(held))),
    ("time speedup", _fact("time_speedup", "{:.1f}".format)),
    ("marked", _fact("unreliable", lambda rows: "; ".join(rows) or "-")),
    ("k, twice", _fact("again_k", lambda both: f"{both[0]}, {both[1]}")),
    ("slices in common", _fact("again_common", lambda share: f"{share:.0%}")),
]


def _cost(records: Sequence[Record]) -> list[Column]:
    """A column for each engine that was present."""
    return [
        ("program", _fact("program", str)),
        ("timer", _fact("timer", "{:.2f}".format)),
        *(
            (name.removeprefix("engine "), _engine(name, "slowdown", ".2f"))
            for name in _engines(records)
        ),
        ("run, s", _fact("run_s", "{:.0f}".format)),
        ("native MB", _fact("native_mb", "{:.0f}".format)),
        ("profiled MB", _engine(f"engine {SELECTED} and GPU", "memory_mb", ".0f")),
    ]


DEFAULT_BOUND = "0.05"
FOLLOWS = 1.1
"""A method follows its bound if the least takes this many times the samples of the largest."""
METHODS: list[Column] = [
    ("method", _fact("method", str)),
    ("programs", lambda record: str(len(record["rows"]))),
    ("error", _over_rows("error_mean", fmean, _percent)),
    ("worst", _over_rows("error_max", max, _percent)),
    ("without ends", _over_rows("error_inner", fmean, _percent)),
    ("of unmeasured", _over_rows("error_unmeasured", fmean, _percent)),
    ("measured", _over_rows("measured_share", fmean, "{:.0%}".format)),
    ("time speedup", _over_rows("time_speedup", harmonic_mean, "{:.2f}".format)),
    ("samples", _over_rows("samples", fmean, "{:.0f}".format)),
    ("held", _over_rows("coverage", fmean, "{:.0%}".format)),
]


def _table(records: Sequence[Record], columns: Sequence[Column]) -> str:
    lines = ["| " + " | ".join(name for name, _ in columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(cell(record) for _, cell in columns) + " |" for record in records]
    return "\n".join(lines) + "\n"


def _methods(records: Sequence[Record]) -> str:
    """A row for each method: means over the programs on which it ran."""
    rows: dict[str, list[Record]] = {}
    for record in records:
        for row in record.get("methods", {}).get(DEFAULT_BOUND, []):
            if row["error_mean"] is not None:
                rows.setdefault(row["method"], []).append(row)
    return _table([{"method": name, "rows": own} for name, own in rows.items()], METHODS)


def _work(records: Sequence[Record]) -> str:
    """Mean error and measured share of each method that follows a bound, at every bound."""
    bounds = sorted({bound for r in records for bound in r.get("methods", {})}, key=float)
    found: dict[str, dict[str, list[Record]]] = {}
    for record in (r for r in records if len(r.get("methods", {})) == len(bounds)):
        for bound in bounds:
            for row in record["methods"][bound]:
                if row["error_mean"] is not None:
                    found.setdefault(row["method"], {}).setdefault(bound, []).append(row)
    follow = [
        {"method": name, "rows": rows}
        for name, rows in found.items()
        if _samples(rows[bounds[0]]) > FOLLOWS * _samples(rows[bounds[-1]])
    ]
    columns: list[Column] = [("method", _fact("method", str))]
    columns += [(f"{float(bound):.0%}", _error_and_share(bound)) for bound in bounds]
    return _table(follow, columns)


def _samples(rows: Sequence[Record]) -> float:
    return sum(row["samples"] for row in rows)


def _error_and_share(bound: str) -> Callable[[Record], str]:
    def cell(record: Record) -> str:
        rows = record["rows"][bound]
        error = fmean(row["error_mean"] for row in rows)
        return f"{_percent(error)} at {fmean(row['measured_share'] for row in rows):.0%}"

    return cell


def _geomean(values: Sequence[float]) -> float | None:
    """None without values; zeros count as 1e-6."""
    if not values:
        return None
    return math.exp(sum(math.log(max(value, 1e-6)) for value in values) / len(values))


def _largest(values: Sequence[float | None]) -> float | None:
    """The largest known value; None if none is known."""
    return max((value for value in values if value is not None), default=None)


def _failures(records: Sequence[Record], remarks: Mapping[str, str]) -> str:
    lines = [
        f"- {record['program']}, {step}: {why}"
        for record in records
        for step, why in record["failed"].items()
    ]
    lines += [
        f"- {record['program']}, {name}: the result is not right"
        for record in records
        for name, found in record.get("engines", {}).items()
        if not found["right"]
    ]
    lines += [f"- {name}: {remark}" for name, remark in remarks.items()]
    return "\n".join(lines or ["Nothing."])
