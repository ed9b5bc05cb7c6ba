"""What every engine offers to the launcher. An engine is one file in this folder; it knows what it
needs on this machine, and what it adds to the launch of the user's program."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Mode = Literal["profile", "time"]
Timer = Literal["sync", "async"]


@dataclass(frozen=True)
class Probe:
    """What an engine found on this machine."""

    engine: str
    available: bool
    missing: tuple[str, ...] = ()
    """What is not there, one phrase each; empty when available."""
    advice: str = ""
    """One sentence: how to get what is missing."""
    details: dict[str, str] = field(default_factory=dict)
    """Versions and paths found, for `doctor` and the manifest."""


@dataclass(frozen=True)
class CpuOptions:
    """What a CPU engine counts. Patterns are globs; of an image its path or its file name."""

    include_images: tuple[str, ...] = ()
    """Count only blocks of these images; empty: of all."""
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
    """Path of a GPU tool that the engine itself is to load into the program (`pin` only)."""
    window: str = ""
    """What `--window` asks for; empty: count from the start to the end."""
    processes: tuple[str, ...] = ()
    """Count only processes of these programs (globs); empty: all."""


@dataclass(frozen=True)
class GpuOptions:
    """What a GPU engine instruments."""

    kernels: str = ""
    """Kernel specification (`2-8@gemm.*,100-`); empty: every launch."""
    memory: bool = False
    """Also record LRU stack distances of accesses to global memory, by launch (slow)."""


class CpuEngine(Protocol):
    """Counts the CPU's basic blocks, cut at every boundary; writes cpu.xpt."""

    name: str
    honours: frozenset[str]
    """Options of filters and windows that it can do, as the user writes them."""

    def probe(self) -> Probe: ...

    def wrap(
        self, argv: Sequence[str], options: CpuOptions, execution_dir: Path
    ) -> tuple[list[str], dict[str, str]]:
        """The command line that runs `argv` under the engine, and what it adds to the environment.

        Raises EngineError when the engine cannot be used here."""
        ...


class GpuEngine(Protocol):
    """Sees every launch; counts the device's basic blocks (profile) or stamps (time)."""

    name: str
    honours: frozenset[str]
    """As a CPU engine's."""

    def probe(self) -> Probe: ...

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """What the launch adds to the program's environment. Raises EngineError."""
        ...

    def start_services(
        self, mode: Mode, execution_dir: Path, options: GpuOptions
    ) -> AbstractContextManager[dict[str, str]]:
        """Helper processes (the OpenCL instrumenter) that live as long as the context; it gives
        what they add to the program's environment."""
        ...
