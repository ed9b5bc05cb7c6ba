"""The one Selection type: which slices stand for the whole run, and with which multipliers.

Every method returns it, every consumer (validate, export, estimate, compare) reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError
from xpuprof.selection.design import Design
from xpuprof.trace.coordinates import JobLayout, JobRow, LaunchIndex, Stretches, launch_ending


@dataclass(frozen=True)
class Marker:
    """A slice boundary that repeats from run to run: the `call`-th launch (from 1) of `kernel`."""

    kernel: str
    call: int
    program: str = ""
    """Hash of the device program as the driver received it (hex), "" when not known."""
    grid: tuple[int, int, int] = (0, 0, 0)
    """Global size in work-items; zeros when not known."""
    block: tuple[int, int, int] = (0, 0, 0)
    """Work-group size; zeros when the runtime chose it or it is not known."""


@dataclass(frozen=True)
class Representative:
    """One slice that is to be measured or simulated.

    `multiplier` is what an extensive metric (time, instructions, misses) of this slice is
    multiplied with in P_proj = sum P_i x multiplier_i (XPU-Point, section VI). `draws` is how often
    a method that samples with replacement drew the slice; the multiplier includes it.
    """

    slice: JobRow
    end: Marker
    start: Marker | None
    """None: the slice starts with the program."""
    cluster: int
    multiplier: float
    weight: float
    """Share of the whole run that the representative stands for; weights add up to `covered`."""
    draws: int = 1
    process: int = 0


@dataclass(frozen=True, eq=False)
class Selection:
    """A method's choice. `labels[i]` is the cluster (stratum) of slice i, -1 when not covered."""

    method: str
    parameters: Mapping[str, Any]
    seed: int
    representatives: tuple[Representative, ...]
    labels: npt.NDArray[np.int32]
    covered: float = 1.0
    design: Design = field(default_factory=Design)
    """How the slices were chosen; the interval follows from it."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """What the method computed on the way (BIC by k, errors by setting, ...)."""
    identity: Mapping[str, Any] = field(default_factory=dict)
    """The program: images' build-ids, device program hashes, arguments."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    """The whole run: instructions, launches, kernels."""

    @property
    def slices(self) -> int:
        """Number of slices of the run."""
        return len(self.labels)

    @property
    def window(self) -> str:
        """The window of the program that the selection is about; empty: all of it."""
        return str(self.identity.get("window", {}).get("spec", ""))

    @property
    def metric(self) -> str:
        """The time that the selection was made by: `time`, or that of an imported profile."""
        return str(self.identity.get("metric", "time"))

    @property
    def layout(self) -> JobLayout:
        """How the slices are shared by processes. Raises InputError when those that the selection
        names do not add up to its slices."""
        processes = self.identity.get("processes")
        lengths = tuple(int(p["slices"]) for p in processes or [{"slices": self.slices}])
        if sum(lengths) != self.slices or (processes and min(lengths) < 1):
            raise InputError(
                f"the selection names {self.slices} slices but its processes have {sum(lengths)}: "
                "make it again with `xpuprof select RUN`"
            )
        return JobLayout(lengths)

    def launch_ending(self, representative: Representative) -> LaunchIndex:
        """The launch of the process that ends the representative."""
        row = self.layout.window_row(representative.process, representative.slice)
        stretches = Stretches.from_json(self.identity.get("window", {}).get("rows", ()))
        return launch_ending(stretches.process_row(row))

    @property
    def k(self) -> int:
        """Number of clusters (strata) that have a representative."""
        return len({r.cluster for r in self.representatives})
