"""Every method on one profile: errors over seeds, cost, intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.estimation import intervals
from xpuprof.estimation.projection import chosen_slices, sampling_error, time_speedup
from xpuprof.methods.profile import NeedsError
from xpuprof.workflow.subjects import Subject, apply, open_subject

F64 = npt.NDArray[np.float64]

TIME_LIKE = ("time", "gpu_time", "cpu_time", "cycles")


@dataclass(frozen=True)
class Row:
    """One method's line. Fractions; times in seconds; `reason` says why it could not run.

    `error_mean`, `error_max`: of the projected total, over the seeds. `time_speedup`: total
    over measured time, a slice measured once however often it was drawn (XPU-Point's speedup counts
    slices instead: `extrapolate.speedup`). `samples`: slices to measure.
    `interval_rel`: half-width over the estimate; `low_rel`, `high_rel`: the interval's ends against
    the estimate, which need not lie in its middle (-0.1: a tenth below it); `coverage`: share of
    the seeds whose interval held the truth; all None when the method has no theory.
    """

    method: str
    error_mean: float | None = None
    error_max: float | None = None
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
    """How methods are compared: `metric` is what is projected (None: time), `repeats` the seeds
    from `seed` on, `epsilon` the error bound of methods that have one."""

    metric: str | None = None
    repeats: int = 10
    seed: int = 1
    epsilon: float = 0.05
    confidence: float = 0.95


@dataclass(frozen=True)
class Compared:
    """The methods on one run, or on several together. `timed`: whether the times are known that
    methods choose by and that samples cost."""

    run: str
    metric: str
    slices: int
    rows: list[Row]
    timed: bool = True


def compare_run(path: str, methods: Sequence[str], settings: Settings) -> Compared:
    """All methods on the run directory `path`; a piece of work for a farm."""
    subject = open_subject(path)
    metric, rows = compare(subject, methods, **asdict(settings))
    timed = subject.profile.times is not None or metric in TIME_LIKE
    return Compared(path, metric, len(subject.profile), rows, timed)


def metrics_of(path: str) -> list[str]:
    """What of the run directory `path` can be projected, best first; a piece of work for a farm."""
    profile = open_subject(path).profile
    own = {profile.time_name: None} if profile.times is not None else {}
    own |= dict.fromkeys(name for name in TIME_LIKE if name in profile.metrics)
    own |= dict.fromkeys(name for name in ("gpu_instructions",) if name in profile.metrics)
    return list(own | dict.fromkeys(profile.metrics))


def common_metric(runs: Sequence[str], metrics: Sequence[Sequence[str]]) -> str:
    """The best metric of the first run that all have. InputError when there is none."""
    for name in metrics[0]:
        if all(name in others for others in metrics):
            return name
    has = "; ".join(
        f"{run} has {', '.join(own) or 'none'}" for run, own in zip(runs, metrics, strict=True)
    )
    raise InputError(
        f"the runs have no metric in common to project ({has}): time or import them alike, or "
        "compare them one by one"
    )


def together(runs: Sequence[Compared]) -> Compared:
    """Means over several runs, each run counted once; the worst error; all samples. A method that
    one of the runs cannot serve is left out, with that run's reason."""
    if len(runs) == 1:
        return runs[0]
    rows = [_together(list(method)) for method in zip(*(run.rows for run in runs), strict=True)]
    slices, timed = sum(run.slices for run in runs), all(run.timed for run in runs)
    return Compared(f"{len(runs)} runs", runs[0].metric, slices, rows, timed)


def _together(rows: list[Row]) -> Row:
    left_out = next((row for row in rows if row.reason), None)
    if left_out is not None:
        return left_out
    speedups = [row.time_speedup for row in rows if row.time_speedup is not None]
    return Row(
        rows[0].method,
        error_mean=_mean([row.error_mean for row in rows]),
        error_max=max(row.error_max for row in rows if row.error_max is not None),
        time_speedup=float(len(speedups) / np.sum(1.0 / np.array(speedups))),
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


def compare(
    subject: Subject,
    methods: Sequence[str],
    *,
    metric: str | None = None,
    repeats: int = 10,
    seed: int = 1,
    epsilon: float = 0.05,
    confidence: float = 0.95,
) -> tuple[str, list[Row]]:
    """The metric's name and one row a method.

    `metric`: what is projected; a time selects too, any other metric is projected with the
    selection made by time. `repeats`: seeds. Raises InputError for a metric that is not there.
    """
    profile = subject.profile
    metric = metric or (profile.time_name if profile.times is not None else _first(subject))
    if metric in TIME_LIKE and (metric in profile.metrics or metric == profile.time_name):
        runs = subject.runs if metric == profile.time_name else None
        subject = replace(subject, profile=profile.with_times(metric), runs=runs)
    values = subject.profile.checked(metric)
    if not float(values.sum()) > 0.0:
        raise InputError(f"{subject.path}: {metric} adds up to zero, so no error can be stated")
    cost = subject.profile.times if subject.profile.times is not None else values
    options = {"epsilon": epsilon, "confidence": confidence, "target": epsilon}
    rows = []
    for method in methods:
        try:
            rows.append(_row(subject, method, values, cost, repeats, seed, options))
        except NeedsError as error:
            rows.append(Row(method, reason=str(error)))
    return metric, rows


def _first(subject: Subject) -> str:
    metrics = subject.profile.metrics
    if not metrics:
        raise InputError(f"{subject.path} has neither times nor metrics; import or time it first")
    return "gpu_instructions" if "gpu_instructions" in metrics else next(iter(metrics))


def _row(
    subject: Subject,
    method: str,
    values: F64,
    cost: F64,
    repeats: int,
    seed: int,
    options: dict[str, float],
) -> Row:
    truth = float(values.sum())
    errors: list[float] = []
    speedups: list[float] = []
    samples: list[int] = []
    ends: list[tuple[float, float]] = []
    held: list[bool] = []
    spent: list[float] = []
    bounds: list[float] = []
    basis = ""
    for draw in range(repeats):
        begin = time.perf_counter()
        selection = apply(subject, method, seed=seed + draw, **options)
        spent.append(time.perf_counter() - begin)
        estimate = intervals.estimate(selection, values, options["confidence"])
        errors.append(sampling_error(estimate.value, truth))
        speedups.append(time_speedup(selection, cost))
        samples.append(len(chosen_slices(selection)))
        basis = estimate.basis
        if selection.design.error_bound is not None:
            bounds.append(selection.design.error_bound)
        if estimate.low is not None and estimate.high is not None and estimate.value:
            ends.append((estimate.low / estimate.value - 1.0, estimate.high / estimate.value - 1.0))
            # An estimate that is exact but for rounding holds the truth.
            slack = 1e-9 * truth
            held.append(estimate.low - slack <= truth <= estimate.high + slack)
    return Row(
        method,
        error_mean=float(np.mean(errors)),
        error_max=float(np.max(errors)),
        # Speedups are ratios: their mean is harmonic (STEM+ROOT, section 4.1).
        time_speedup=float(len(speedups) / np.sum(1.0 / np.array(speedups))),
        samples=float(np.mean(samples)),
        interval_rel=_mean([(high - low) / 2.0 for low, high in ends]),
        low_rel=_mean([low for low, _ in ends]),
        high_rel=_mean([high for _, high in ends]),
        coverage=float(np.mean(held)) if held else None,
        selection_s=float(np.mean(spent)),
        bound=float(np.mean(bounds)) if bounds else None,
        basis=basis,
    )
