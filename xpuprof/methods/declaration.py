# SPDX-License-Identifier: Apache-2.0
"""What a sampling method declares. Help texts are built from it, so it imports nothing heavy."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from xpuprof.errors import UsageError

if TYPE_CHECKING:
    from xpuprof.selection.selection import Selection


class Need(enum.Enum):
    """Data that a method needs about the slices; the value says how to get it."""

    VECTORS = (
        "basic-block vectors: record the program with `xpuprof profile`, or import a SimPoint .bb "
        "file or a run of the reference implementation"
    )
    DEVICE_VECTORS = (
        "basic-block vectors of the device, which a SimPoint .bb file lacks: record the program "
        "with `xpuprof profile`, or import a run of the reference implementation"
    )
    INSTRUCTIONS = (
        "instruction counts: record the program with `xpuprof profile`, or import an Nsight "
        "Compute or nvprof CSV that has them"
    )
    TIMES = (
        "slice times: record them with `xpuprof time -o TIMES` and add --times TIMES, or import an "
        "Nsight Systems, Kineto, nvprof or Nsight Compute profile"
    )
    COUNTERS = "hardware counters: import an Nsight Compute or nvprof CSV that has them"

    def __str__(self) -> str:
        return self.value.partition(":")[0]


def on_or_off(text: str) -> bool:
    """Parse a `--set` switch."""
    return {"on": True, "off": False}[text]


def count_or_auto(text: str) -> int | None:
    """Parse a number; None for `auto`."""
    if text != "auto" and not text.isdigit():
        raise UsageError(f"--per-cluster takes a number or auto, not {text!r}")
    return None if text == "auto" else int(text)


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, but for the ends named in `without`."""

    low: float
    high: float = math.inf
    without: tuple[float, ...] = ()

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high and value not in self.without

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"be {'above' if self.low in self.without else 'at least'} {self.low:g}"
        share = " (0.05 is 5 %)" if self.high == 1 else ""
        return f"lie between {self.low:g} and {self.high:g}{share}"


@dataclass(frozen=True)
class Option:
    """A keyword of a method's function. `flags`: its command-line flags; without one it is set with
    --set NAME=VALUE. The registry checks `within` and `words`; `Projection` and `Options` check
    those of clustering."""

    name: str
    type: Callable[[str], object]
    default: object
    help: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    within: Range | None = None
    words: tuple[str, ...] = ()
    """The values of an option that takes one of several words."""

    def parse(self, text: str) -> object:
        """The value of `--set name=text`. Raises UsageError for text of another type."""
        try:
            return self.type(text)
        except (KeyError, ValueError):
            raise UsageError(f"{self.name} takes {_KINDS[self.type][0]}, not {text!r}") from None

    def check(self, value: object) -> None:
        """Raises UsageError for a value of another type than `parse` gives, or out of range."""
        wanted, kind = _KINDS.get(self.type, ("", object))
        known = isinstance(value, kind) and (self.type is on_or_off or not isinstance(value, bool))
        if value != self.default and not known:
            raise UsageError(f"{self.name} takes {wanted}, not {value!r}")
        shown = self.flags[0] if self.flags else self.name
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{shown} takes a finite number, not {value}")
        if self.words and value not in self.words:
            raise UsageError(f"{shown} takes one of {', '.join(self.words)}, not {value!r}")
        if self.within and isinstance(value, int | float) and value not in self.within:
            raise UsageError(f"{shown} must {self.within}, not {value:g}")


_KINDS: dict[Callable[[str], object], tuple[str, type]] = {
    int: ("a whole number", Integral),
    float: ("a number", Real),
    on_or_off: ("on or off", bool),
    str: ("a word", str),
}
"""What each type of option takes, and its values' type."""


@dataclass(frozen=True)
class Method:
    """A sampling method; its file ends in `METHOD = Method(...)`.

    `select` takes a `SliceProfile`, `seed` and the `options` as keywords, and gives a `Selection`.
    """

    name: str
    help: str
    """One sentence."""
    select: Callable[..., Selection]
    needs: tuple[Need, ...] = ()
    options: tuple[Option, ...] = ()
    bound: str = ""
    """The option that bounds the error and that --target-error sets; empty when there is none."""
    by_times: bool = False
    """Chooses by measured times or by chance, so its interval covers phases that vectors miss."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Options of clustering that make the method what it is."""
    clusters: bool = False
    """Clusters block vectors, possibly from several runs on several workers."""
    rank: int | None = None
    """Place among the methods that are chosen when none is named: the first whose needs are met.
    The first of all is the default."""

    def option(self, name: str) -> Option | None:
        """The option of that name."""
        return next((option for option in self.options if option.name == name), None)


AT_LEAST_1, ABOVE_0 = Range(1), Range(0, without=(0,))
FRACTION, SHARE = Range(0, 1, without=(0, 1)), Range(0, 1, without=(0,))

EPSILON = Option("epsilon", float, 0.05, "Error bound, a fraction.", within=FRACTION)
CONFIDENCE = Option("confidence", float, 0.95, "Confidence of bound and interval.", within=FRACTION)
TARGET = Option(
    "target", float, 0.05, "Profiled error to stay below, a fraction.", within=Range(0, 1)
)

CPU_WEIGHT = Option(
    "cpu_weight", float, 0.5, "Weight of the CPU part, 0 to 1 [default: 0.5].", ("--cpu-weight",)
)
CLUSTERING = (
    Option("maxk", int, 20, "Most clusters to try [default: 20].", ("--maxk", "--maxK", "-maxK")),
    Option(
        "k",
        int,
        None,
        "This many clusters, start and exit included, if the slices differ enough; no BIC rule.",
        ("-k",),
    ),
    Option(
        "dim",
        int,
        64,
        "Dimensions to project to [default: 64 a part; .bb: 15].",
        ("--dim", "-dim"),
    ),
    Option(
        "per_cluster",
        count_or_auto,
        None,
        "Representatives per cluster [auto; .bb: 1].",
        ("--per-cluster",),
        "N|auto",
    ),
    Option(
        "coverage",
        float,
        1.0,
        "Share of the run to cover.",
        ("--coverage", "--coveragePct", "-coveragePct"),
    ),
    Option(
        "early", float, None, "Prefer early slices, this much farther off (0: ties).", ("--early",)
    ),
    Option("warp_buckets", int, 32, "Cells of the warp axis [default: 32].", ("--warp-buckets",)),
    Option(
        "memory_weight",
        float,
        None,
        "Share of stack distances relative to block vectors, 0 to 1 [0.25 in a run with --memory].",
        ("--memory-weight",),
        "W",
    ),
    Option("length_weight", float, 4.0, "Weight of a slice's length relative to its mix."),
    Option("counts", on_or_off, False, "Vectors are counts instead of a mix and a length."),
    Option("resolution", float, 0.02, "Relative difference of two slices that founds no cluster."),
    Option(
        "target_error",
        float,
        None,
        "Error to stay below, e.g. 0.02; needs times. May divide clusters.",
        ("--target-error",),
    ),
    Option(
        "budget",
        float,
        None,
        "Representatives' time; needs times.",
        ("--budget",),
        "SECONDS",
    ),
    Option(
        "expected_error",
        float,
        None,
        "Error to expect of further runs, if times are known. Keeps the profile's clusters.",
    ),
    Option(
        "bic_threshold",
        float,
        0.9,
        "Threshold of the BIC rule [0.9].",
        ("--bic-threshold", "--bicThreshold", "-bicThreshold"),
    ),
    Option(
        "restarts",
        int,
        None,
        "Clusterings per k [by size].",
        ("--restarts", "--numInitSeeds", "-numInitSeeds"),
    ),
    Option(
        "ends",
        on_or_off,
        True,
        "First and last slice represent themselves [ends].",
        ("--ends/--no-ends",),
    ),
)
"""Options of every method that clusters block vectors: how they are projected, clustered and
represented."""
OF_SIMPOINT = tuple(
    option
    for option in CLUSTERING
    if option.name in ("maxk", "k", "dim", "bic_threshold", "restarts")
)
"""Those of a plain clustering with one representative a cluster."""
