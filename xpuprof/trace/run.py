# SPDX-License-Identifier: Apache-2.0
"""A run directory opened for reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from xpuprof.trace.losses import losses_of
from xpuprof.trace.manifest import MANIFEST, is_written, read_manifest
from xpuprof.trace.records import ExecutionRecord, execution_record

if TYPE_CHECKING:  # numpy and pandas are loaded when tables are requested
    from xpuprof.trace.tables import Execution


class Run:
    """A run directory opened for reading. Tables are decoded on first use."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self.status: str = manifest["status"]
        """running | complete | partial."""
        self.reason: str = str(manifest.get("reason", ""))
        """Why the run is not complete; empty otherwise."""
        if self.status == "running":
            alive = is_written(manifest)
            self.status = "running" if alive else "partial"
            self.reason = (
                f"process {manifest.get('supervisor')} is writing it"
                if alive
                else f"xpuprof (process {manifest.get('supervisor')}) ended before it had finished "
                "the run"
            )
        elif lost := next(self._lost(), None):
            self.status, self.reason = "partial", self.reason or lost
        self._decoded: dict[str, Execution] = {}

    def _lost(self) -> Iterator[str]:
        """Recording losses of complete executions that the manifest does not mention."""
        for entry in self.manifest["executions"]:
            if entry.get("status") == "complete":
                yield from losses_of(self.path / entry["name"])

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a run directory. Raises TraceError."""
        folder = Path(path)
        return cls(folder, read_manifest(folder))

    def again(self) -> Run:
        """The run as its manifest is now. Executions that ended and whose entries are as they were,
        but for the clock's rate, are not decoded again."""
        run = Run.open(self.path)
        for entry in run.manifest["executions"]:
            name, now = entry["name"], run.record(entry)
            known = self._decoded.get(name)
            if known is None or now.status == "running":
                continue
            if replace(now, tsc_hz=known.record.tsc_hz) == known.record:
                losses = losses_of(self.path / name)
                run._decoded[name] = replace(known, record=now, losses=losses)
        return run

    @property
    def executions(self) -> list[Execution]:
        """Every execution, decoded. Raises TraceError when a stream is damaged."""
        return self._decode(self.manifest["executions"])

    @property
    def profile(self) -> Execution | None:
        """The profiled execution; None if there is none."""
        return next(iter(self._of_role("profile")), None)

    @property
    def times(self) -> list[Execution]:
        """The timer's executions, in order."""
        return self._of_role("time")

    @property
    def native(self) -> list[Execution]:
        """The executions without engines, whether timed or not, in order."""
        return self._decode(r for r in self.manifest["executions"] if r["role"] != "profile")

    def record(self, entry: Mapping[str, Any]) -> ExecutionRecord:
        """An execution's entry in the manifest. Raises TraceError for a wrong value."""
        return execution_record(entry, self.tsc_hz, self.path / MANIFEST)

    @property
    def tsc_hz(self) -> float:
        """Ticks per second."""
        return float(self.manifest["clock"]["tsc_hz"])

    def _of_role(self, role: str) -> list[Execution]:
        return self._decode(r for r in self.manifest["executions"] if r["role"] == role)

    def _decode(self, records: Iterable[Mapping[str, Any]]) -> list[Execution]:
        """Executions of these entries, each decoded once on first use."""
        from xpuprof.trace.reader import read_execution

        found = []
        for record in records:
            name = record["name"]
            if name not in self._decoded:
                entry = self.record(record)
                self._decoded[name] = read_execution(self.path / name, entry, self.status)
            found.append(self._decoded[name])
        return found
