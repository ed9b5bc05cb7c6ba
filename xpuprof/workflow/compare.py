# SPDX-License-Identifier: Apache-2.0
"""Every method on the same profiles: errors over seeds, cost, intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xpuprof.arrays import F64
from xpuprof.clustering.executors import Executor, open_executor
from xpuprof.errors import InputError, UsageError, listed
from xpuprof.estimation.estimate import Estimate
from xpuprof.estimation.intervals import estimate
from xpuprof.estimation.measured import Measured
from xpuprof.estimation.metrics import is_rate
from xpuprof.estimation.projection import accuracy, chosen_slices, time_speedup
from xpuprof.methods import registry
from xpuprof.methods.profile import NeedsError, SliceProfile
from xpuprof.selection.selection import Selection
from xpuprof.stages import counted
from xpuprof.trace.run import Run
from xpuprof.workflow.arguments import LARGEST_SEED, each_once, fraction, runs_once, whole_number
from xpuprof.workflow.subjects import open_subject

if TYPE_CHECKING:
    import pandas as pd


TIME_LIKE = ("time", "gpu_time", "cpu_time", "cycles")


@dataclass(frozen=True)
class Row:
    """One method's line. Fractions; times in seconds; `reason` says why it could not run.

    `error_mean`, `error_max`: of the projected total, over the seeds; `error_inner`,
    `error_unmeasured` and `measured_share` as in `estimation.projection.Accuracy`.
    `time_speedup`: see `estimation.projection`, of the metric if no time is known. `samples`:
    slices to measure.
    `interval_rel`: half-width over the estimate; `low_rel`, `high_rel`: the interval's ends
    relative to the estimate, which need not be its centre (-0.1: a tenth below); `coverage`: share
    of the seeds whose interval contained the true total; all None if the method has no theory.
    """

    method: str
    error_mean: float | None = None
    error_max: float | None = None
    error_inner: float | None = None
    error_unmeasured: float | None = None
    measured_share: float | None = None
    time_speedup: float | None = None
    samples: float | None = None
    interval_rel: float | None = None
    low_rel: float | None = None
    high_rel: float | None = None
    coverage: float | None = None
    selection_s: float | None = None
    bound: float | None = None
    basis: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Settings:
    """How methods are compared: `metric` is projected (None: time); `repeats` seeds start at
    `seed`; `epsilon` is the error bound of methods that have one."""

    metric: str | None = None
    repeats: int = 10
    seed: int = 1
    epsilon: float = 0.05
    confidence: float = 0.95


@dataclass(frozen=True)
class Compared:
    """The methods on one run, or on several together. `timed`: whether slice times are known, by
    which methods choose and which samples cost."""

    run: str
    metric: str
    slices: int
    rows: list[Row]
    timed: bool = True
    doubts: Sequence[str] = ()
    """Reasons to doubt the times, one sentence each."""


@dataclass(frozen=True)
class Comparison:
    """Each run alone, and all together: unweighted means over the runs, the worst error, all
    samples. A method that cannot run on one of them is left out with that run's reason.
    """

    each: list[Compared]
    together: Compared

    @property
    def table(self) -> pd.DataFrame:
        """The rows of `together`, one per method."""
        import pandas  # only notebooks and scripts need a table

        return pandas.DataFrame(map(asdict, self.together.rows)).set_index("method")


def compare(
    runs: Run | str | Path | Sequence[Run | str | Path],
    *,
    timed: Sequence[Path] = (),
    methods: Sequence[str] | None = None,
    metric: str | None = None,
    repeats: int = 10,
    seed: int = 1,
    error_bound: float = 0.05,
    confidence: float = 0.95,
    workers: int | None = None,
    scheduler: str | None = None,
) -> Comparison:
    """Compare every method, or those named, on one or more run directories.

    `timed`: folders of timer runs, instead of the only run's own;
    `metric`: the metric to project, by default the best that all runs have; `repeats`: number of
    seeds from `seed` on, over which errors are taken; `error_bound`: for the methods that have one;
    `workers`, `scheduler`: Dask workers for many runs. Raises UsageError for an unknown method,
    InputError if the runs have no metric in common or lack the given one.
    """
    whole_number("repeats", repeats, 1)
    whole_number("seed", seed, 0, LARGEST_SEED)
    fraction("error bound", error_bound)
    fraction("confidence", confidence)
    several = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    paths = [str(run.path if isinstance(run, Run) else run) for run in several]
    if workers or scheduler:  # their working folder may differ
        paths = [str(Path(path).absolute()) for path in paths]
    runs_once(paths)
    if timed and len(paths) > 1:
        raise UsageError("--times is for one run; compare the runs one by one")
    chosen = registry.names() if methods is None else list(methods)
    each_once("method", chosen)
    for name in chosen:
        registry.find(name)
    settings = Settings(metric, repeats, seed, error_bound, confidence)
    with open_executor(workers, scheduler) as executor:
        return _compared(paths, timed, chosen, settings, executor)


def _compared(
    paths: Sequence[str],
    timed: Sequence[Path],
    methods: Sequence[str],
    settings: Settings,
    executor: Executor,
) -> Comparison:
    count = len(paths)
    if settings.metric is None and count > 1:
        found = list(executor.results(executor.map(_metrics_of, paths)))
        settings = replace(settings, metric=_common_metric(paths, found))
    handles = executor.map(
        _compare_run, paths, [timed] * count, [methods] * count, [settings] * count, what="run"
    )
    each = list(executor.results(handles))
    return Comparison(each, _together(each))


def _metrics_of(path: str) -> list[str]:
    """The metrics of the run directory `path` that can be projected, best first."""
    profile = open_subject(path).profile
    own = {profile.time_name: None} if profile.times is not None else {}
    own |= dict.fromkeys(name for name in TIME_LIKE if name in profile.metrics)
    own |= dict.fromkeys(name for name in ("gpu_instructions",) if name in profile.metrics)
    return list(own | dict.fromkeys(name for name in profile.metrics if not is_rate(name)))


def _common_metric(runs: Sequence[str], metrics: Sequence[Sequence[str]]) -> str:
    for name in metrics[0]:
        if all(name in others for others in metrics):
            return name
    has = "; ".join(
        f"{run} has {listed(own) or 'none'}" for run, own in zip(runs, metrics, strict=True)
    )
    raise InputError(
        f"the runs have no metric in common to project ({has}): time or import them alike, or "
        "compare them one by one"
    )


def _compare_run(
    path: str, timed: Sequence[Path], methods: Sequence[str], settings: Settings
) -> Compared:
    subject = open_subject(path, timed)
    return replace(compare_methods(subject.profile, methods, settings), doubts=subject.doubts)


def compare_methods(profile: SliceProfile, methods: Sequence[str], settings: Settings) -> Compared:
    """All methods on one profile. A time metric is also the basis of selection; any other metric is
    projected by the selection made by time. Raises InputError for a missing metric, or a rate."""
    timed = profile.times is not None
    metric = settings.metric or (profile.time_name if timed else _untimed_metric(profile))
    if metric in TIME_LIKE and (metric in profile.metrics or metric == profile.time_name):
        profile = profile.with_times(metric)
    values = profile.checked(metric)
    if metric not in TIME_LIKE and is_rate(metric):
        sums = listed([name for name in profile.metrics if not is_rate(name)])
        raise InputError(
            f"{profile.name}: {metric} is a rate, which slices do not add up to; name a time or a "
            f"count with --metric{f': {sums}' if sums else ''}"
        )
    if not float(values.sum()) > 0.0:
        raise InputError(f"{profile.name}: {metric} adds up to zero, so no error can be stated")
    rows = [_row(profile, method, values, settings) for method in counted("method", methods)]
    timed = timed or metric in TIME_LIKE
    return Compared(profile.name, metric, len(profile), rows, timed=timed)


def _untimed_metric(profile: SliceProfile) -> str:
    metrics = profile.metrics
    if not metrics:
        raise InputError(
            f"{profile.name} has neither times nor metrics; time the program with xpuprof time, or "
            "import a profile with times again (--map time=COLUMN:UNIT for a table)"
        )
    sums = ["gpu_instructions", *(name for name in metrics if not is_rate(name))]
    return next((name for name in sums if name in metrics), next(iter(metrics)))


@dataclass(frozen=True, eq=False)
class _Trial:
    """A method's selection for one seed, its estimate, and the seconds that it took."""

    selection: Selection
    estimate: Estimate
    seconds: float

    def ends(self) -> tuple[float, float] | None:
        """The interval's ends relative to the estimate."""
        e = self.estimate
        if e.low is None or e.high is None or not e.value:
            return None
        return e.low / e.value - 1.0, e.high / e.value - 1.0

    def holds(self, truth: float) -> bool:
        """Whether the interval contains the true total, allowing for rounding."""
        e, slack = self.estimate, 1e-9 * truth
        return (
            e.low is not None and e.high is not None and (e.low - slack <= truth <= e.high + slack)
        )


def _row(profile: SliceProfile, method: str, values: F64, settings: Settings) -> Row:
    try:
        seeds = counted("seed", range(settings.repeats))
        trials = [_trial(profile, method, values, settings, i) for i in seeds]
    except NeedsError as error:
        return Row(method, reason=str(error))
    truth = float(values.sum())
    cost = profile.times if profile.times is not None else values
    found = [
        accuracy(trial.selection, Measured.at(trial.selection, values), trial.estimate.value)
        for trial in trials
    ]
    errors = [one.error for one in found]
    ends = [both for trial in trials if (both := trial.ends())]
    return Row(
        method,
        error_mean=float(np.mean(errors)),
        error_max=float(np.max(errors)),
        error_inner=_mean([one.inner for one in found]),
        error_unmeasured=_mean([one.unmeasured for one in found]),
        measured_share=_mean([one.measured for one in found]),
        time_speedup=_harmonic(
            [time_speedup(t.selection, Measured.at(t.selection, cost)) for t in trials]
        ),
        samples=_mean([len(chosen_slices(trial.selection)) for trial in trials]),
        interval_rel=_mean([(high - low) / 2.0 for low, high in ends]),
        low_rel=_mean([low for low, _ in ends]),
        high_rel=_mean([high for _, high in ends]),
        coverage=_mean([trial.holds(truth) for trial in trials if trial.ends()]),
        selection_s=_mean([trial.seconds for trial in trials]),
        bound=_mean([trial.selection.design.error_bound for trial in trials]),
        basis=trials[-1].estimate.basis,
    )


def _trial(
    profile: SliceProfile, method: str, values: F64, settings: Settings, number: int
) -> _Trial:
    bounds = {
        "epsilon": settings.epsilon,
        "target": settings.epsilon,
        "confidence": settings.confidence,
    }
    declared = registry.find(method)
    own = {name: value for name, value in bounds.items() if declared.option(name)}
    begin = time.perf_counter()
    selection = registry.select(profile, method, seed=settings.seed + number, **own)
    seconds = time.perf_counter() - begin
    return _Trial(selection, estimate(selection, values, settings.confidence), seconds)


def _together(runs: list[Compared]) -> Compared:
    if len(runs) == 1:
        return runs[0]
    rows = [_one_row(list(method)) for method in zip(*(run.rows for run in runs), strict=True)]
    slices, timed = sum(run.slices for run in runs), all(run.timed for run in runs)
    return Compared(f"{len(runs)} runs", runs[0].metric, slices, rows, timed)


def _one_row(rows: list[Row]) -> Row:
    left_out = next((row for row in rows if row.reason), None)
    if left_out is not None:
        return left_out
    return Row(
        rows[0].method,
        error_mean=_mean([row.error_mean for row in rows]),
        error_max=max(row.error_max for row in rows if row.error_max is not None),
        error_inner=_mean([row.error_inner for row in rows]),
        error_unmeasured=_mean([row.error_unmeasured for row in rows]),
        measured_share=_mean([row.measured_share for row in rows]),
        time_speedup=_harmonic([row.time_speedup for row in rows]),
        samples=float(sum(row.samples for row in rows if row.samples is not None)),
        interval_rel=_mean([row.interval_rel for row in rows]),
        low_rel=_mean([row.low_rel for row in rows]),
        high_rel=_mean([row.high_rel for row in rows]),
        coverage=_mean([row.coverage for row in rows]),
        selection_s=_mean([row.selection_s for row in rows]),
        bound=_mean([row.bound for row in rows]),
        basis=rows[0].basis,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _harmonic(values: Sequence[float | None]) -> float:
    """Speedups are ratios: their mean is harmonic (STEM+ROOT, section 4.1). Infinite if no sample
    takes any time."""
    known = np.array([value for value in values if value is not None])
    total = float(np.sum(1.0 / known))
    return len(known) / total if total else math.inf
