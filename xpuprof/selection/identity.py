# SPDX-License-Identifier: Apache-2.0
"""What a selection records of the program for comparison with another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xpuprof.selection import document
from xpuprof.trace.coordinates import Stretches
from xpuprof.trace.kinds import Key, LaunchSequence


class Image(NamedTuple):
    """A program or library that the process mapped."""

    path: str
    build_id: str


@dataclass(frozen=True)
class Program:
    """The program that was recorded."""

    arguments: tuple[str, ...] = ()
    directory: str = ""
    """Where it was started."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The allow-listed variables that were set."""
    images: tuple[Image, ...] = ()
    programs: tuple[str, ...] = ()
    """Hashes of its device programs."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Program:
        """From the keys of an identity."""
        return cls(
            tuple(map(str, stored.get("arguments", ()))),
            str(stored.get("directory", "")),
            document.mapping(stored.get("environment", {}), "environment"),
            tuple(Image(str(path), str(build_id)) for path, build_id in stored.get("images", ())),
            tuple(map(str, stored.get("programs", ()))),
        )


@dataclass(frozen=True)
class SelectedWindow:
    """The window that a selection covers."""

    spec: str
    stretches: Stretches | None = None
    """Its slices of the process; None for several processes."""

    def as_json(self) -> dict[str, object]:
        """For the selection file."""
        rows = {} if self.stretches is None else {"rows": self.stretches.as_json()}
        return {"spec": self.spec, **rows}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SelectedWindow:
        """From `as_json`."""
        rows = stored.get("rows")
        return cls(str(stored["spec"]), None if rows is None else Stretches.from_json(rows))


@dataclass(frozen=True)
class Identity:
    """The program, its launches and what a selection covers of them. What is unknown, or not
    stated, is None or empty."""

    program: Program | None = None
    """None for an import."""
    sequence: LaunchSequence | None = None
    processes: tuple[Key, ...] = ()
    """Empty for a program of one process."""
    of: int | None = None
    """Number of the job's processes, for a selection that covers one of them."""
    window: SelectedWindow | None = None
    """None for the whole program."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """The filters of the profile, as in its manifest (`engines.filters.Filters`)."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the program's input files, by path."""
    times: tuple[str, ...] = ()
    """Folders of separate timer runs."""
    metric: str = ""
    """The time that an import was selected by."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The recorded command; empty if unknown."""
        return self.program.arguments if self.program else ()

    def as_json(self) -> dict[str, object]:
        """For the selection file; only what is known."""
        stated: dict[str, object] = {
            "sequence": self.sequence and self.sequence.as_json(),
            "processes": [key.as_json() for key in self.processes],
            "of": self.of,
            "window": self.window and self.window.as_json(),
            "settings": self.settings,
            "inputs": self.inputs,
            "times": self.times,
            "metric": self.metric,
        }
        program = vars(self.program) if self.program else {}
        return {**program, **{key: value for key, value in stated.items() if value}}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Identity:
        """From `as_json`."""
        sequence, window, of = (stored.get(name) for name in ("sequence", "window", "of"))
        return cls(
            Program.from_json(stored) if "arguments" in stored else None,
            LaunchSequence.from_json(sequence) if sequence else None,
            tuple(map(Key.from_json, stored.get("processes", ()))),
            None if of is None else document.integer(of, "of"),
            SelectedWindow.from_json(document.mapping(window, "window")) if window else None,
            document.mapping(stored.get("settings", {}), "settings"),
            document.mapping(stored.get("inputs", {}), "inputs"),
            tuple(map(str, stored.get("times", ()))),
            str(stored.get("metric", "")),
        )
