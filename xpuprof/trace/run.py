"""The run directory and its manifest: made, filled and finished by `RunWriter`, opened by `Run`.

See docs/run-directory.md. The manifest is always replaced by rename, so a reader sees the old one
or the new one, never a part.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpuprof.errors import TraceError, UsageError
from xpuprof.trace.clock import Reading, source, tsc_hz, tsc_invariant
from xpuprof.trace.machine import environment, machine
from xpuprof.trace.records import ExecutionRecord, execution_record, is_quantity
from xpuprof.version import __version__

if TYPE_CHECKING:  # numpy and pandas are loaded when tables are asked for
    from xpuprof.trace.tables import Execution

FORMAT = "xpuprof-run"
VERSION = 1
"""Newest manifest version; 1: executions, clock, machine as docs/run-directory.md has them."""
OLDEST_VERSION = 1
MANIFEST = "manifest.json"


# ---- writing -------------------------------------------------------------------------------------


def create_run(
    path: str | Path,
    *,
    argv: Sequence[str],
    force: bool = False,
    seed: int = 0,
    extra: Mapping[str, Any] | None = None,
) -> RunWriter:
    """Makes the run directory `path` with a manifest of status `running`.

    `extra` joins the manifest (an import names its source there). An empty folder is taken as it
    is. Raises UsageError when something is there: it is only replaced with `force`, and only when
    it is a run directory that nobody is writing to.
    """
    folder = Path(path)
    _make_way(folder, force)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be made ({error.strerror}); name another folder with -o"
        ) from None
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "status": "running",
        "reason": "",
        "supervisor": os.getpid(),
        "supervisor_started": _started(os.getpid()),
        "argv": list(argv),
        "cwd": os.getcwd(),
        "environment": environment(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "xpuprof": __version__,
        "machine": machine(),
        "clock": {"tsc_hz": tsc_hz(), "tsc_invariant": tsc_invariant(), "source": source()},
        "seed": seed,
        **(extra or {}),
        "executions": [],
    }
    writer = RunWriter(folder, manifest)
    writer.save()
    return writer


def resume_run(path: str | Path) -> RunWriter:
    """Opens a finished run directory for another execution (a later timer run).

    Raises TraceError when it is not a run directory, UsageError when it is still being written.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    if _is_alive(manifest):
        raise UsageError(f"{folder} is still written by process {manifest.get('supervisor')}")
    manifest |= {
        "status": "running",
        "reason": "",
        "supervisor": os.getpid(),
        "supervisor_started": _started(os.getpid()),
    }
    writer = RunWriter(folder, manifest)
    writer.save()
    return writer


class RunWriter:
    """Fills a run directory: executions one after the other, then the final status."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self._began = Reading.now()

    def begin_execution(self, record: Mapping[str, Any]) -> Path:
        """Adds an execution of status `running`; gives its new folder.

        `record` has name, role, cpu_engine, gpu_engine, timer, and what else is to be kept.
        """
        folder = self.path / str(record["name"])
        folder.mkdir()
        self.manifest["executions"].append({"status": "running", "reason": "", **record})
        self.save()
        return folder

    def end_execution(self, name: str, result: Mapping[str, Any]) -> None:
        """Joins how the execution ended: status, reason, exit code, signal, pid, stamps."""
        for stream in (self.path / name).glob("*/*.xpt"):
            with suppress(OSError):
                _cut_hole(stream)
        for record in self.manifest["executions"]:
            if record["name"] == name:
                record |= result
        self.save()

    def finish(self, status: str, reason: str = "") -> None:
        """Sets the final status, `complete` or `partial`; nothing is written after it."""
        if self.manifest["clock"]["source"] == "tsc":  # now known over the whole run
            self.manifest["clock"]["tsc_hz"] = self._began.hz()
        self.manifest |= {"status": status, "reason": reason}
        self.save()

    def save(self) -> None:
        """Replaces the manifest."""
        text = json.dumps(self.manifest, indent=1, ensure_ascii=False) + "\n"
        new = self.path / (MANIFEST + ".new")
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path / MANIFEST)


def _cut_hole(path: Path) -> None:
    """Cuts the hole behind a stream's data, which its writer leaves when it is killed or cannot
    reach the file any more. A writer that is still at work keeps what it has mapped."""
    with path.open("r+b") as file:
        hole = file.seek(0, os.SEEK_HOLE)
        try:
            file.seek(hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data behind it
                file.truncate(hole)


def _make_way(folder: Path, force: bool) -> None:
    """Removes a run directory that stands where a new one is to be made, if that is allowed."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() and not folder.exists():
        raise UsageError(f"{folder} is a link to nothing; remove it or name another folder with -o")
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder with -o")
    if not any(folder.iterdir()):
        return
    if not force:
        raise UsageError(f"{folder} already exists; name another folder with -o, or add --force")
    try:
        manifest = read_manifest(folder)
    except TraceError:
        raise UsageError(
            f"{folder} exists and is not an xpuprof run directory, so --force does not replace it; "
            "name another folder with -o"
        ) from None
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link, which --force does not follow; name its target")
    if _is_alive(manifest):
        raise UsageError(
            f"{folder} is being written by process {manifest.get('supervisor')}; end it first, or "
            "name another folder with -o"
        )
    # Moved aside first: should removing fail half way, no half run bears the name.
    aside = tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent)
    os.rename(folder, os.path.join(aside, folder.name))
    shutil.rmtree(aside)


# ---- reading -------------------------------------------------------------------------------------


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run directory.

    Raises TraceError: no such directory, not a run directory, damaged, or of a newer version.
    """
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except FileNotFoundError:
        if not folder.exists():
            raise TraceError(f"{folder} does not exist; check the path of the run") from None
        raise TraceError(
            f"{folder} is not an xpuprof run directory (it has no {MANIFEST}); name the folder "
            "that xpuprof run or profile made"
        ) from None
    except NotADirectoryError:
        raise TraceError(f"{folder} is a file; name the run's folder") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{folder}/{MANIFEST} cannot be read: {error}") from None
    try:
        manifest = json.loads(text)
    except ValueError as error:
        raise TraceError(
            f"{folder}/{MANIFEST} is damaged ({error}); copy the run directory again"
        ) from None
    _check(folder, manifest)
    return dict(manifest)


def _check(folder: Path, manifest: object) -> None:
    where = f"{folder}/{MANIFEST}"
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise TraceError(f"{where} was not written by xpuprof; name the folder of a run")
    version = manifest.get("version")
    if not isinstance(version, int) or version < OLDEST_VERSION:
        raise TraceError(f"{where} has version {version!r}, which this xpuprof does not know")
    if version > VERSION:
        raise TraceError(
            f"{where} has version {version}, this xpuprof {__version__} reads up to {VERSION}; "
            "install a newer xpuprof"
        )
    executions, clock = manifest.get("executions"), manifest.get("clock")
    if (
        manifest.get("status") not in ("running", "complete", "partial")
        or not isinstance(clock, dict)
        or not is_quantity(clock.get("tsc_hz"))
        or not clock["tsc_hz"]
        or not isinstance(manifest.get("machine"), dict)
        or not isinstance(executions, list)
        or not all(_is_execution(record) for record in executions)
    ):
        raise TraceError(
            f"{where} is damaged (a key is missing or wrong); copy the run directory again"
        )


def _is_execution(record: object) -> bool:
    """Is it an entry of `executions` whose folder lies in the run?"""
    return (
        isinstance(record, dict)
        and isinstance(record.get("name"), str)
        and isinstance(record.get("role"), str)
        and record["name"] not in ("", ".", "..")
        and "/" not in record["name"]
    )


def _is_alive(manifest: Mapping[str, Any]) -> bool:
    """Is the run's supervisor at work? A process that took its number over does not count."""
    if manifest["status"] != "running":
        return False
    if manifest["machine"].get("host", platform.node()) != platform.node():
        return True  # cannot be asked from here
    pid = manifest.get("supervisor")
    return isinstance(pid, int) and _started(pid) == manifest.get("supervisor_started", -1)


def _started(pid: int) -> int | None:
    """When a process was started, in clock ticks since boot; None when it is not there.

    Tells a process from a later one that took its number over (proc(5), stat, field 22).
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


class Run:
    """A run directory, opened for reading. Tables are decoded when they are first asked for."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self.status: str = manifest["status"]
        """running | complete | partial."""
        self.reason: str = str(manifest.get("reason", ""))
        """Why the run is not complete, else empty."""
        if self.status == "running":
            alive = _is_alive(manifest)
            self.status = "running" if alive else "partial"
            self.reason = (
                f"process {manifest.get('supervisor')} is at work on it"
                if alive
                else "its supervisor is gone"
            )
        self._decoded: dict[str, Execution] = {}

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Opens a run directory. Raises TraceError in one sentence."""
        folder = Path(path)
        return cls(folder, read_manifest(folder))

    @property
    def executions(self) -> list[Execution]:
        """Every execution, decoded. Raises TraceError when a stream is damaged."""
        return self._decode(self.manifest["executions"])

    @property
    def profile(self) -> Execution | None:
        """The profiled execution; None when the run has none."""
        return next(iter(self._of_role("profile")), None)

    @property
    def times(self) -> list[Execution]:
        """The timer's executions, in order."""
        return self._of_role("time")

    def record(self, entry: Mapping[str, Any]) -> ExecutionRecord:
        """An execution's entry of the manifest. Raises TraceError for a wrong value."""
        return execution_record(entry, self.tsc_hz, self.path / MANIFEST)

    @property
    def tsc_hz(self) -> float:
        """Ticks a second."""
        return float(self.manifest["clock"]["tsc_hz"])

    def _of_role(self, role: str) -> list[Execution]:
        return self._decode(r for r in self.manifest["executions"] if r["role"] == role)

    def _decode(self, records: Iterable[Mapping[str, Any]]) -> list[Execution]:
        """Executions of these entries; each is decoded once, when it is first asked for."""
        from xpuprof.trace.reader import read_execution

        found = []
        for record in records:
            name = record["name"]
            if name not in self._decoded:
                entry = self.record(record)
                self._decoded[name] = read_execution(self.path / name, entry, self.status)
            found.append(self._decoded[name])
        return found
