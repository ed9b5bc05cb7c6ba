# SPDX-License-Identifier: Apache-2.0
"""What every engine offers to the launcher, and how it is declared.

An engine is one file of `cpu/` or `gpu/` that ends in `ENGINE = Engine(...)`. It knows what it
needs on this machine, and what it adds to the launch of the user's program.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from xpuprof.errors import EngineError

Mode = Literal["profile", "time"]
Timer = Literal["sync", "async"]


def recording(mode: Mode, timer: Timer, execution_dir: Path) -> dict[str, str]:
    """The variables that tell our libraries in the program what to record, and where
    (boundary.h)."""
    return {
        "XPUPROF_DIR": str(execution_dir.resolve()),
        "XPUPROF_MODE": mode,
        "XPUPROF_TIMER": timer if mode == "time" else "",
    }


@dataclass(frozen=True)
class Probe:
    """What an engine found on this machine."""

    engine: str
    available: bool
    missing: tuple[str, ...] = ()
    """What is missing, one phrase each; empty when available."""
    advice: str = ""
    """One sentence: how to get what is missing."""
    details: dict[str, str] = field(default_factory=dict)
    """Versions and paths found, for `doctor` and the manifest."""
    mistake: str = ""
    """A sentence: which of the user's settings for the engine is wrong. It is never passed over in
    silence."""

    @property
    def lack(self) -> str:
        """What is wrong, and the remedy; empty when available."""
        if self.mistake or self.available:
            return self.mistake
        remedy = f": {self.advice}" if self.advice else "; see xpuprof doctor"
        return f"{self.engine} lacks {', '.join(self.missing)}{remedy}"


@dataclass(frozen=True)
class CpuOptions:
    """What a CPU engine counts. Patterns are globs; for an image, on its path or file name."""

    include_images: tuple[str, ...] = ()
    """Count only blocks of these images; empty: all."""
    exclude_images: tuple[str, ...] = ()
    """Never count blocks of these images (wins over include)."""
    main_image_only: bool = False
    """Count only blocks of the program's own executable."""
    routines: tuple[str, ...] = ()
    """Count only blocks whose first instruction lies in a routine of these names; empty: all."""
    threads: tuple[int, ...] = ()
    """Count only these logical threads (0 is the main thread); empty: all."""
    memory: bool = False
    """Also record LRU stack distances of data accesses, by slice and thread (slow)."""
    gpu_tool: str = ""
    """Path of a GPU tool that the engine itself loads into the program (`pin` only)."""
    window: str = ""
    """The value of `--window`; empty: count from start to end."""
    processes: tuple[str, ...] = ()
    """Count only processes of these programs (globs); empty: all."""
    program_name: str = ""
    """What the program finds as argv[0], if the engine would give it its path (`valgrind`)."""
    native_start_up: bool = False
    """Run the main thread natively, without counting, until the first launch."""
    cold_runtime: bool = False
    """Whether the device runtime starts and compiles under the engine's translator: most of that
    code runs a little (`dynamorio` then builds no traces)."""


@dataclass(frozen=True)
class Ahead:
    """What ties a native execution to the profile after it."""

    folder: Path
    """Where the native execution leaves what the profile may prepare while the program starts."""
    cpu: str
    """The name of the profile's CPU engine, which decides what processor the program sees."""


@dataclass(frozen=True)
class GpuOptions:
    """What a GPU engine records besides launches and counts. The program's environment names the
    launches that it instruments (`Filters.environment`)."""

    memory: bool = False
    """Also record LRU stack distances of accesses to global memory, by launch (slow)."""
    ahead: Ahead | None = None
    """None: the execution stands alone."""


@dataclass(frozen=True)
class Footprint:
    """How a process that uses the device runtime is recognised from outside."""

    runtime: str
    """The runtime's name in a sentence."""
    opened: tuple[str, ...]
    """Every user of the runtime opens one of these files, or a file in one of these folders."""
    loader: str
    """Part of the path of the library by which programs should use it."""
    drivers: tuple[str, ...]
    """Names of the libraries that this one loads."""
    library: str
    """Our library that then has to be there."""
    helper: Path
    """Our program that uses the runtime for the user's, and launches nothing."""


class _Named:
    """What CPU and GPU engines have in common."""

    side: ClassVar[Literal["CPU", "GPU"]]
    name: ClassVar[str]
    honours: ClassVar[frozenset[str]] = frozenset()
    """Filter and window options that the engine supports, as the user writes them."""

    def probe(self) -> Probe:
        """What the engine finds on this machine. Never raises."""
        raise NotImplementedError

    def usable(self) -> Probe:
        """The probe, if the engine is usable here; else raises EngineError with the remedy."""
        probe = self.probe()
        if not probe.available:
            raise EngineError(probe.mistake or f"{self.side} engine {probe.lack}")
        return probe


class CpuEngine(_Named):
    """Counts the CPU's basic blocks, cut at every boundary; writes cpu.xpt."""

    side = "CPU"
    caveat: ClassVar[str] = ""
    """What the user must know about results that the program computes under this engine."""

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The command line that runs `argv` under the engine, and its additions to the environment.

        The calling process must start the program: engines know the root process by its parent.
        Raises EngineError when the engine cannot be used here."""
        raise NotImplementedError


class GpuEngine(_Named):
    """Sees every launch; counts the device's basic blocks (profile) or stamps (time)."""

    side = "GPU"
    runtimes: ClassVar[tuple[str, ...]] = ()
    """The libraries whose launches the engine sees, as in `libOpenCL.so`."""
    in_cuda_driver: ClassVar[bool] = False
    """Whether NVIDIA's driver loads the engine; it takes one tool per process."""
    rivals: ClassVar[tuple[str, ...]] = ()
    """A third-party GPU tool that exports one of these functions cannot share the process."""

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """Additions to the program's environment, besides those of `recording`. Raises
        EngineError."""
        raise NotImplementedError

    def footprint(self) -> Footprint | None:
        """How to see that a process uses the runtime without us; None if that is not possible."""
        return None

    def runtime_is_native(self) -> bool:
        """Whether the device runtime starts and compiles outside a CPU engine's translator, where
        the engine can do so (`xpu_natively` in boundary.h)."""
        return False

    def start_services(
        self, mode: Mode, execution_dir: Path, options: GpuOptions
    ) -> AbstractContextManager[dict[str, str]]:
        """Helper processes that live as long as the context; it yields their additions to the
        program's environment. Most engines have none."""
        return nullcontext({})


E = TypeVar("E", bound=_Named)


@dataclass(frozen=True)
class Engine(Generic[E]):
    """The declaration of an engine; the registry finds it."""

    kind: type[E]
    """The engine's class, with its name and the options it honours."""
    preference: int
    """`auto` tries the engines of a side in this order, smallest first."""
    help: str
    """One line for `xpuprof doctor`."""
    suggested: bool = False
    """Whether `auto` says how to get this engine when its side has no usable one."""

    @property
    def name(self) -> str:
        """The name that --cpu and --gpu accept."""
        return self.kind.name
