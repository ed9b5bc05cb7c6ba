# SPDX-License-Identifier: Apache-2.0
"""What a format declares about itself. Each format file in `importers`, `exporters` and
`simulator_results` ends in such a declaration, named FORMAT; `formats.registry` finds it. `--help`
reads the declarations, so these files import numpy and pandas only on use."""

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
"""Bytes given to an importer to recognise its format."""


class Match(IntEnum):
    """How certain a format is that it can read a file; the most certain one reads it."""

    NO = 0
    PERHAPS = 1
    YES = 2


@dataclass(frozen=True)
class Head:
    """What is known of a file before reading: its path and its first bytes, decompressed; empty for
    a folder."""

    path: Path
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as text without leading blanks."""
        return self.data.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")

    @property
    def columns(self) -> set[str]:
        """The names in the first line, if the file is a table with commas."""
        return {name.strip('"') for name in self.text.partition("\n")[0].strip().split(",")}


@dataclass(frozen=True)
class Format:
    """`help`: one line for --help. `aliases`: other names that --format takes."""

    name: str
    help: str
    aliases: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def names(self) -> set[str]:
        """The name and the aliases."""
        return {self.name, *self.aliases}


Load = Callable[[Source, "ImportWriter"], None]


@dataclass(frozen=True, kw_only=True)
class Importer(Format):
    """Profiles of another tool. `load` writes the slices, or raises InputError.

    `mapped`: the loader for the entries of --map, in formats that support it. `reports`: how to
    convert a tool's own report, by suffix, to a readable file.
    """

    load: Load
    match: Callable[[Head], Match]
    mapped: Callable[[Sequence[str]], Load] | None = None
    reports: Mapping[str, str] = field(default_factory=dict)


class Needs(Enum):
    """What an exporter needs from its source."""

    SELECTION = "selection"
    VECTORS = "CPU vectors"
    MEMORY = "run with --memory"
    RUN = "run"


@dataclass(frozen=True)
class ExportOptions:
    """Options of some exporters: warm-up slices, or bytes of the cache that they fill; the load
    address of a position-independent program; Accel-Sim's list of the whole run."""

    force: bool = False
    warmup: int = 0
    warm_cache: int | None = None
    image_base: int | None = None
    kernelslist: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Exporter(Format):
    """A file or folder for another tool. `write` returns the written paths.

    `per_process`: each of several processes gets its own files; `kernels_only` skips those whose
    regions have no kernel. `folder`: the output is a folder. `takes`: fields of ExportOptions
    besides `force`. `use`: what to do with the output `{out}`, with the
    `{command}` of the program, its `{app}` and `{arguments}`, or the `{program}` unless recorded.
    `results`: where the results will lie; "" for the output.
    """

    write: Callable[[ExportSource, Path, ExportOptions], list[Path]]
    needs: Needs
    per_process: bool = False
    kernels_only: bool = False
    folder: bool = False
    takes: frozenset[str] = frozenset()
    use: str = ""
    results: str = ""


@dataclass(frozen=True, kw_only=True)
class LaunchExporter(Exporter):
    """An exporter of the chosen launches, for each process that has any."""

    needs: Needs = Needs.SELECTION
    per_process: bool = True
    kernels_only: bool = True


Metrics = dict[str, float]
Found = tuple["int | None", Metrics]
"""A region's place in `Selection.representatives` (None if not in the file) and its metrics."""


@dataclass(frozen=True, kw_only=True)
class ResultReader(Format):
    """Results of a simulator or a measurement for regions of a selection.

    `match` gets the file's first non-blank line; `mark` is a text that only such files contain.
    `table`: every region must have every metric; otherwise the common ones are used. `kernels`:
    results are of kernels alone, so a slice without one counts 0. `file`: the only name that counts
    in a folder.
    """

    read: Callable[[Source, Selection], list[Found]]
    mark: str = ""
    match: Callable[[str], Match] = lambda _: Match.NO
    table: bool = False
    kernels: bool = False
    file: str = ""
