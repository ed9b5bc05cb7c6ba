# SPDX-License-Identifier: Apache-2.0
"""What a format declares about itself. Each file of `importers`, `exporters` and
`simulator_results` that is a format ends in one of these, named FORMAT; `formats.registry` finds
it. `--help` reads the declarations, so such a file imports numpy and pandas only when it works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.inputs import Source

if TYPE_CHECKING:
    from xpuprof.formats.exporters.source import ExportSource
    from xpuprof.selection.selection import Selection
    from xpuprof.trace.imported import ImportWriter

HEAD = 1 << 16
"""Bytes that an importer sees to recognise its format."""


class Match(IntEnum):
    """How sure a format is that a file is its own; the surest one reads the file."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True)
class Head:
    """What is known of a file before it is read: its path and its first bytes, unpacked. The bytes
    of a folder are empty."""

    path: Path
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text without blanks in front."""
        return self.data.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")


@dataclass(frozen=True)
class Format:
    """`help`: one line for --help. `aliases`: other names that --format takes."""

    name: str
    help: str
    aliases: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def names(self) -> set[str]:
        """The name and its aliases."""
        return {self.name, *self.aliases}


Load = Callable[[Source, "ImportWriter"], None]


@dataclass(frozen=True, kw_only=True)
class Importer(Format):
    """Profiles of another tool. `load` writes the slices, or raises InputError.

    `mapped` serves formats that --map is for: the loader for a map's entries. `reports` says how a
    tool's own report, known by its suffix, becomes a file that can be read.
    """

    load: Load
    match: Callable[[Head], Match]
    mapped: Callable[[Sequence[str]], Load] | None = None
    reports: Mapping[str, str] = field(default_factory=dict)


class Needs(Enum):
    """What an exporter takes from its source."""

    SELECTION = "selection"
    VECTORS = "CPU vectors"
    MEMORY = "run with --memory"
    RUN = "run"


@dataclass(frozen=True)
class ExportOptions:
    """What some exporters take beside the source: warm-up slices, the address at which a
    position-independent program is loaded, Accel-Sim's list of the whole run."""

    force: bool = False
    warmup: int = 0
    image_base: int | None = None
    kernelslist: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Exporter(Format):
    """A file or folder for another tool. `write` returns the paths that it wrote.

    `per_process`: of several processes, each gets files of its own; `kernels_only` leaves out those
    whose regions hold no kernel. `folder`: the output is a folder. `takes`: fields of ExportOptions
    beside `force`.
    """

    write: Callable[[ExportSource, Path, ExportOptions], list[Path]]
    needs: Needs
    per_process: bool = False
    kernels_only: bool = False
    folder: bool = False
    takes: frozenset[str] = frozenset()


Metrics = dict[str, float]
Found = tuple["int | None", Metrics]
"""A region's place in `Selection.representatives` (None: the file does not say) and its metrics."""


@dataclass(frozen=True, kw_only=True)
class ResultReader(Format):
    """What a simulator or a measurement wrote about regions of a selection.

    `match` gets the file's first line that is not blank, `mark` is a text that only such a file
    has. `table`: every region has every metric, else the common ones count.
    """

    read: Callable[[Source, Selection], list[Found]]
    mark: str = ""
    match: Callable[[str], Match] = lambda _: Match.NO
    table: bool = False
