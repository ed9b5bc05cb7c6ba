# SPDX-License-Identifier: Apache-2.0
"""Any metric of a whole run from the values of its regions.

An extensive metric (time, instructions, misses) is summed: P_proj = sum P_i x multiplier_i
(XPU-Point, section VI). A rate is a ratio of two extensive metrics, so its value for the run is the
ratio of their projections: IPC is sum(instructions) / sum(cycles), which is the mean of the IPCs
weighted by cycles, or their harmonic mean weighted by instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xpuprof.arrays import F64
from xpuprof.errors import InputError, UsageError
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import estimate, estimate_ratio
from xpuprof.estimation.projection import multipliers_of, rows_of
from xpuprof.selection.selection import Selection

_RATE = re.compile(
    r"(^|[._ ])(ipc|cpi|mpki|occupancy|bw|efficiency|fraction|pct|stdev|mean|per)($|[._: ])"
    r"|(^|[._: ]|miss|hit)(rate|ratio)s?($|[^a-z])|utili[sz]ation|throughput|bandwidth"
    r"|percent|average|avg|::mean|[%/]"
    r"|(^|[._ ])([gt]flops|frequency|[kmg]?hz|temp|temperature|power|watts?|voltage"
    r"|[kmgt]i?b s|clk domain\.clock)($|[._: ])"
    r"|^stall (constant memory dependency|exec dependency|inst fetch|memory dependency"
    r"|memory throttle|not selected|other|pipe busy|sleeping|sync|texture)$"
)
"""Matches words, so that `duration` is not a ratio and `generated` not a rate. The stalls are those
of nvprof, which gives them in percent."""
_TIME = ("cycles", "gpu_sim_cycle", "numcycles", "ticks", "simticks", "time", "seconds",
         "simseconds", "time_s", "gpu_time", "duration")  # fmt: skip
_WORK = ("instructions", "insts", "gpu_sim_insn", "siminsts", "simops", "instrs", "inst_executed")
_PER_WORK = re.compile(r"cpi|mpki|miss")


@dataclass(frozen=True)
class Whole:
    """A metric of the whole run. `kind`: `sum`, or how the mean was weighted."""

    name: str
    kind: str
    estimate: Estimate


def whole_run(
    selection: Selection,
    results: Mapping[int, Mapping[str, float]],
    rates: Mapping[str, str | None] | None = None,
    sums: Sequence[str] = (),
    only: Sequence[str] | None = None,
    *,
    elsewhere: bool = True,
) -> list[Whole]:
    """Every metric of `results` (by place in `selection.representatives`), for the whole run.

    `rates`: rates, each with its weighting metric (None: chosen by name). `sums`: metrics that are
    extensive whatever their names. Other metrics are classified by name. `only`: the requested
    metrics; the others may still be weights. `elsewhere`: the results are of another machine than
    the selection's times; what is no time spreads as if they were. Raises UsageError for a missing
    metric or one named as both a rate and a sum, InputError for a rate without a weight and for a
    weight that is negative or all 0.
    """
    names = list(results[0])
    given = dict(rates or {})
    if both := next((name for name in sums if name in given), None):
        raise UsageError(f"{both} cannot be both a rate and a count; omit its --rate or its --sum")
    for name in (*given, *(w for w in given.values() if w), *sums, *(only or ())):
        if name not in names:
            raise UsageError(
                f"the results have no metric {name}; they have {', '.join(names[:20])}"
            )
    columns = {
        name: np.array([results[i][name] for i in range(len(selection.representatives))])
        for name in names
    }
    answer = []
    for name in only or names:
        if name in given or (name not in sums and is_rate(name)):
            answer.append(_rate(selection, name, columns, given.get(name)))
        elif (columns[name] < 0).any():
            place = int(np.flatnonzero(columns[name] < 0)[0])
            raise InputError(
                f"{name} is {columns[name][place]:g} in region {place + 1}, and a count or a time "
                f"cannot be negative; correct the results, or name a rate with --rate {name}"
            )
        else:
            unlike = elsewhere or _last(name) not in _TIME
            answer.append(Whole(name, "sum", extensive(selection, columns[name], unlike)))
    return answer


def is_rate(name: str) -> bool:
    """Whether a metric's name denotes a rate."""
    return bool(_RATE.search(name.lower().replace("_", " ")))


def extensive(selection: Selection, values: F64, elsewhere: bool) -> Estimate:
    """Projected total of an extensive metric from the representatives' values, in their order."""
    everything = np.full(selection.slices, np.nan)
    everything[rows_of(selection)] = values
    return estimate(selection, everything, elsewhere=elsewhere)


def _rate(selection: Selection, name: str, columns: Mapping[str, F64], weight: str | None) -> Whole:
    numerator, denominator, kind = _ratio(name, columns, weight)
    multiplier = multipliers_of(selection)
    total = float(np.dot(denominator, multiplier))
    if (denominator < 0).any() or total <= 0.0:
        raise InputError(
            f"{name} cannot be averaged: its weights ({kind}) are negative or all 0 in the "
            f"results; correct them, or name another weight with --rate {name}:METRIC"
        )
    return Whole(name, kind, estimate_ratio(selection, numerator, denominator))


def _ratio(name: str, columns: Mapping[str, F64], weight: str | None) -> tuple[F64, F64, str]:
    """Numerator and denominator of the rate, and its description."""
    rate = columns[name]
    if weight is not None:
        return rate * columns[weight], columns[weight], f"mean weighted by {weight}"
    time, work = _first(columns, _TIME), _first(columns, _WORK)
    if _PER_WORK.search(name.lower()):
        chosen = work or time
    elif time is None and work is not None and "ipc" in name.lower():
        amount = columns[work]
        with np.errstate(divide="ignore", invalid="ignore"):
            cycles = np.where(amount > 0.0, amount / rate, 0.0)
        if not np.isfinite(cycles).all():
            raise InputError(
                f"{name} is 0 in a region that has instructions; correct the results, or leave it "
                "out with --metric"
            )
        return amount, cycles, f"harmonic mean weighted by {work}"
    else:
        chosen = time or work
    if chosen is None:
        raise InputError(
            f"{name} is a rate, and the results have neither instructions nor cycles to weight it "
            f"with; name a metric with --rate {name}:METRIC, or --sum {name} if it adds up"
        )
    if chosen == name:
        raise InputError(
            f"{name} is what rates are weighted by here, so it is none; omit --rate {name}, or "
            f"name its weight with --rate {name}:METRIC"
        )
    return rate * columns[chosen], columns[chosen], f"mean weighted by {chosen}"


def _first(columns: Mapping[str, F64], names: Sequence[str]) -> str | None:
    """The first metric with one of the names, alone or after the last dot."""
    by_name = {_last(column): column for column in reversed(list(columns))}
    return next((by_name[name] for name in names if name in by_name), None)


def _last(name: str) -> str:
    return name.lower().rsplit(".", 1)[-1]
