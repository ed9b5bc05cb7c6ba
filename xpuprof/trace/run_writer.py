# SPDX-License-Identifier: Apache-2.0
"""A run directory is made, filled and finished. See docs/run-directory.md.

The manifest is always replaced by rename, so a reader sees the old or the new one, never a partial
file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from xpuprof.errors import ExistsError, OutputError, TraceError, UsageError, unwritable
from xpuprof.pids import started
from xpuprof.trace.clock import Reading, source, tsc_hz, tsc_invariant
from xpuprof.trace.machine import environment, machine
from xpuprof.trace.manifest import (
    FORMAT,
    MANIFEST,
    VERSION,
    is_written,
    read_manifest,
    redacted,
)
from xpuprof.trace.run import Run
from xpuprof.version import __version__

DRAFT = MANIFEST + ".new"
LOCK_TRIES = 100
RESERVE = ".reserve"
"""A reserve file of a manifest's size, removed when the disk is full so that the end can be
recorded."""
RESERVED_BYTES = 1 << 14
_REMEDIES = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "make room, or name another output folder"
    ),
    errno.ENOENT: "leave its folder where it is until the run has ended",
}


def create_run(
    path: str | Path,
    *,
    argv: Sequence[str],
    force: bool = False,
    seed: int = 0,
    extra: Mapping[str, Any] | None = None,
    needed: Sequence[Path] = (),
) -> RunWriter:
    """Make the run directory `path` with a manifest of status `running`.

    `extra` joins the manifest (an import names its source there). A folder that is empty, or holds
    only our drafts, is used as it is. Anything else raises UsageError, unless `force` is given and
    it is a run directory that no process is writing and that holds neither the current folder nor
    one of the `needed` files. If several processes request one folder at the same time, one gets
    it.
    """
    folder = Path(path)
    writer = RunWriter(
        folder,
        {
            "format": FORMAT,
            "version": VERSION,
            "status": "running",
            "reason": "",
            "supervisor": os.getpid(),
            "supervisor_started": started(os.getpid()),
            "argv": redacted(argv),
            "cwd": os.getcwd(),
            "environment": environment(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "xpuprof": __version__,
            "machine": machine(),
            "clock": {"tsc_hz": tsc_hz(), "tsc_invariant": tsc_invariant(), "source": source()},
            "seed": seed,
            **(extra or {}),
            "executions": [],
        },
    )
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.absolute().parent):
            _make_way(folder, force, needed)
            writer.claim()
    except OSError as error:
        raise unwritable(folder, error) from None
    return writer


@contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """Keep other xpuprof processes from making run directories in `parent`. If the file system has
    no locks, or the user holds the lock, proceed without: a manifest is claimed only once in any
    case."""
    try:
        descriptor = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)


class RunWriter:
    """Fills a run directory: executions in sequence, then the final status."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self._began = Reading.now()
        self._opened: Run | None = None

    def opened(self) -> Run:
        """The run as it is now, to be read. Executions that ended are decoded once, not by each
        caller. Raises TraceError."""
        self._opened = self._opened.again() if self._opened else Run.open(self.path)
        return self._opened

    def claim(self) -> None:
        """Make the folder, and its manifest if there is none.

        Raises OSError, and UsageError when another xpuprof has the folder; leaves nothing
        behind."""
        made = not self.path.exists()
        self.path.mkdir(exist_ok=True)
        draft = self.path / f"{DRAFT}.{os.getpid()}"
        try:
            self._write(draft)
            _link_new(draft, self.path / MANIFEST)
        except (OSError, UsageError):
            draft.unlink(missing_ok=True)
            if made:
                with suppress(OSError):
                    self.path.rmdir()
            raise

    def begin_execution(self, record: Mapping[str, Any]) -> Path:
        """Add an execution of status `running`; returns its new folder.

        `record` has name, role, cpu_engine, gpu_engine, timer, and anything else to store. Raises
        OutputError, and ends the run, if there is no room to record the execution's end.
        """
        folder = self.path / str(record["name"])
        self.manifest["executions"].append({"status": "running", "reason": "", **record})
        try:
            folder.mkdir()
            self._save()
            self._reserve()
        except OSError as error:
            self._abandon(folder, error)
            raise self._refused(error) from None
        return folder

    def _reserve(self) -> None:
        """Make the reserve file, or keep the one that is there. Raises OSError if there is no room;
        a file system that cannot reserve goes without."""
        try:
            descriptor = os.open(self.path / RESERVE, os.O_WRONLY | os.O_CREAT, 0o600)
            with open(descriptor, "wb") as reserve:
                os.posix_fallocate(reserve.fileno(), 0, RESERVED_BYTES)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise

    def _abandon(self, folder: Path, error: OSError) -> None:
        """End the run without the execution that was to begin last."""
        self.manifest["executions"].pop()
        with suppress(OSError):
            folder.rmdir()
        with suppress(OutputError):
            self.finish("partial", f"{folder.name} was not started: {error.strerror}")

    def end_execution(self, name: str, result: Mapping[str, Any]) -> None:
        """Record how the execution ended: status, reason, exit code, signal, pid, stamps."""
        for stream in (self.path / name).glob("*/*.xpt"):
            with suppress(OSError):
                _cut_hole(stream)
        self.amend(name, result)

    def amend(self, name: str, values: Mapping[str, Any]) -> None:
        """Change an execution's record."""
        (record,) = (own for own in self.manifest["executions"] if own["name"] == name)
        record |= values
        self.save()

    def finish(self, status: str, reason: str = "") -> None:
        """Set the final status, `complete` or `partial`; nothing is written afterwards."""
        if self.manifest["clock"]["source"] == "tsc":  # now measured over the whole run
            self.manifest["clock"]["tsc_hz"] = self._began.hz()
        self.manifest |= {"status": status, "reason": reason}
        self.save()
        with suppress(OSError):
            (self.path / RESERVE).unlink()

    def save(self) -> None:
        """Replace the manifest. Raises OutputError on failure."""
        try:
            self._save()
        except OSError as error:
            raise self._refused(error) from None

    def _save(self) -> None:
        draft = self.path / DRAFT
        try:
            try:
                self._write(draft)
            except OSError:
                (self.path / RESERVE).unlink(missing_ok=True)
                self._write(draft)
            os.replace(draft, self.path / MANIFEST)
        finally:
            with suppress(OSError):
                draft.unlink()  # a draft that could not be finished

    def _write(self, path: Path) -> None:
        """Only the owner may read it, because a command line may hold secrets. Bytes that are not
        UTF-8 are written as JSON escapes of lone surrogates, which restore the same bytes."""
        text = json.dumps(self.manifest, indent=1, ensure_ascii=False) + "\n"
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())

    def _refused(self, error: OSError) -> OutputError:
        remedy = _REMEDIES.get(error.errno or 0, "name another output folder")
        return OutputError(
            f"the run in {self.path} cannot be recorded ({error.strerror}); {remedy}"
        )


def _link_new(draft: Path, target: Path) -> None:
    """Rename `draft` to `target`. Raises UsageError when another xpuprof was faster."""
    try:
        os.link(draft, target)
        with suppress(OSError):
            draft.unlink()
    except OSError:  # the target exists, or the file system has no hard links
        if target.exists():
            raise UsageError(
                f"another run has just taken {target.parent}; name another output folder"
            ) from None
        os.rename(draft, target)


def _cut_hole(path: Path) -> None:
    """Truncate the hole after a stream's data, left by a writer that was killed or lost access to
    the file. A running writer keeps its mapping."""
    with path.open("r+b") as file:
        hole = file.seek(0, os.SEEK_HOLE)
        try:
            file.seek(hole, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data after it
                file.truncate(hole)


def _make_way(folder: Path, force: bool, needed: Sequence[Path]) -> None:
    """Remove a run directory at the place of a new one, if that is allowed."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() and not folder.exists():
        raise UsageError(f"{folder} is a link to nothing; remove it or name another output folder")
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    entries = list(folder.iterdir())
    if all(_is_draft(entry) for entry in entries):
        for entry in entries:
            entry.unlink()
        return
    if not force:
        raise ExistsError(folder)
    try:
        manifest = read_manifest(folder)
    except TraceError:
        raise UsageError(
            f"{folder} exists and is not an xpuprof run directory, so --force does not replace it; "
            "name another output folder"
        ) from None
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link, which --force does not follow; name its target")
    if is_written(manifest):
        raise UsageError(
            f"{folder} is being written by process {manifest.get('supervisor')}; end it first, or "
            "name another output folder"
        )
    with suppress(FileNotFoundError):  # the current folder was removed
        needed = (Path.cwd(), *needed)
    for path in needed:
        if path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"--force would remove {folder}, which holds {path}; name another output folder"
            )
    # Moved aside first: if removing fails halfway, no partial run has the name.
    aside = tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.absolute().parent)
    os.rename(folder, os.path.join(aside, folder.name))
    shutil.rmtree(aside)


def _is_draft(entry: Path) -> bool:
    """Whether the folder was left by a run that could not write its first manifest."""
    named = re.fullmatch(rf"{re.escape(DRAFT)}(\.\d+)?", entry.name)
    empty = entry.name == MANIFEST and entry.is_file() and entry.stat().st_size == 0
    return bool(named) or empty
