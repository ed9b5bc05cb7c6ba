# SPDX-License-Identifier: Apache-2.0
"""The run directory: manifest, status rules, refusals, and what is never removed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import xpuprof
from tests.support import traces
from xpuprof.errors import OutputError, TraceError, UsageError
from xpuprof.trace.manifest import read_manifest
from xpuprof.trace.run import Run
from xpuprof.trace.run_writer import create_run


def rewrite(run: Path, **changes: Any) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | changes))


def test_life_of_a_run(tmp_path: Path) -> None:
    """GIVEN a new run WHEN filled and finished THEN every stage can be read."""
    path = tmp_path / "deep" / "run"
    writer = create_run(path, argv=["./app", "-n", "3"], seed=7)
    assert Run.open(path).status == "running"
    folder = writer.begin_execution({"name": "time-0", "role": "time", "timer": "sync"})
    assert folder == path / "time-0"
    assert folder.is_dir()
    assert read_manifest(path)["executions"][0]["status"] == "running"
    writer.end_execution("time-0", traces.RESULT)
    writer.finish("partial", "somebody pulled the plug")
    run = xpuprof.open(path)
    assert (run.status, run.reason) == ("partial", "somebody pulled the plug")
    manifest = run.manifest
    assert manifest["argv"] == ["./app", "-n", "3"]
    assert manifest["seed"] == 7
    assert manifest["cwd"] == os.getcwd()
    assert manifest["machine"]["memory"] > 0
    assert manifest["executions"][0]["exit_code"] == 0
    assert not list(path.glob("*.new"))


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_no_execution_begins_without_room_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    """GIVEN a disk that fills up between two executions THEN the second does not begin, and the run
    says so; a file system that cannot reserve space is no reason."""
    writer = create_run(tmp_path / "run", argv=["x"])
    record = {"role": "time", "timer": "sync"}
    writer.begin_execution({"name": "time-0", **record})
    writer.end_execution("time-0", traces.RESULT)

    def refuse(*_: int) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    if reason != errno.ENOSPC:
        assert writer.begin_execution({"name": "time-1", **record}).is_dir()
        return
    with pytest.raises(OutputError, match="No space left on device"):
        writer.begin_execution({"name": "time-1", **record})
    run = Run.open(tmp_path / "run")
    assert run.status == "partial"
    assert run.reason == "time-1 was not started: No space left on device"
    assert sorted(p.name for p in run.path.iterdir()) == ["manifest.json", "time-0"]
    assert [entry["name"] for entry in run.manifest["executions"]] == ["time-0"]


def test_the_clock_is_measured(tmp_path: Path) -> None:
    """Two measurements of the counter's frequency agree to one in a thousand."""
    from xpuprof.trace.clock import Reading, tsc

    clock = create_run(tmp_path / "run", argv=["x"]).manifest["clock"]
    assert clock["source"] == "tsc"
    assert isinstance(clock["tsc_invariant"], bool)
    assert Reading.now().hz() == pytest.approx(clock["tsc_hz"], rel=1e-3)
    assert tsc() < tsc()


def test_private_variables_stay_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("MY_PASSWORD", "secret")
    create_run(tmp_path / "run", argv=["x"])
    environment = read_manifest(tmp_path / "run")["environment"]
    assert environment["OMP_NUM_THREADS"] == "2"
    assert "secret" not in (tmp_path / "run/manifest.json").read_text()


def test_a_dead_supervisor_makes_the_run_partial(tmp_path: Path) -> None:
    """GIVEN a supervisor killed with SIGKILL THEN its run reads as partial."""
    path = tmp_path / "run"
    code = (
        "import sys, time\n"
        "from xpuprof.trace.run_writer import create_run\n"
        "writer = create_run(sys.argv[1], argv=['x'])\n"
        "writer.begin_execution({'name': 'profile', 'role': 'profile'})\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        assert Run.open(path).status == "running"
        with pytest.raises(UsageError, match=f"written by process {supervisor.pid}"):
            create_run(path, argv=["x"], force=True)
        supervisor.send_signal(signal.SIGKILL)
    run = Run.open(path)
    assert (run.status, run.reason) == (
        "partial",
        f"xpuprof (process {supervisor.pid}) ended before it had finished the run",
    )
    assert run.profile is not None
    assert run.profile.record.status == "partial"


def test_a_process_that_took_the_number_over_is_not_the_supervisor(tmp_path: Path) -> None:
    create_run(tmp_path / "run", argv=["x"])
    rewrite(tmp_path / "run", supervisor=1)
    assert Run.open(tmp_path / "run").status == "partial"


# ---- overwriting ---------------------------------------------------------------------------------


def test_overwriting_needs_force(tmp_path: Path) -> None:
    path = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    before = sorted(path.rglob("*"))
    with pytest.raises(UsageError, match="exists; name another path, or replace it"):
        create_run(path, argv=["x"])
    assert sorted(path.rglob("*")) == before
    create_run(path, argv=["new"], force=True)
    assert read_manifest(path)["argv"] == ["new"]
    assert sorted(p.name for p in path.iterdir()) == ["manifest.json"]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("manifest", [None, "{}", '{"format": "other"}', "not JSON"])
def test_force_only_replaces_a_run_directory(tmp_path: Path, manifest: str | None) -> None:
    path = tmp_path / "home"
    path.mkdir()
    (path / "thesis.tex").write_text("years of work")
    if manifest is not None:
        (path / "manifest.json").write_text(manifest)
    with pytest.raises(UsageError, match="is not an xpuprof run directory"):
        create_run(path, argv=["x"], force=True)
    assert (path / "thesis.tex").read_text() == "years of work"


def test_force_does_not_follow_a_link(tmp_path: Path) -> None:
    target = traces.write_run(tmp_path / "run", None, None)
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(UsageError, match="is a link"):
        create_run(tmp_path / "link", argv=["x"], force=True)
    assert read_manifest(target)["argv"] == ["./app"]


def test_force_keeps_the_current_folder_and_needed_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    (path / "app").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=r"would remove .*, which holds .*app; name"):
        create_run(path, argv=["x"], force=True, needed=[path / "app"])
    monkeypatch.chdir(path)
    for name in (".", "../run", str(path)):
        with pytest.raises(UsageError, match=r"would remove .*, which holds"):
            create_run(name, argv=["x"], force=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_files_and_dead_links_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "dead").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is a file"):
        create_run(tmp_path / "file", argv=["x"], force=True)
    with pytest.raises(UsageError, match="link to nothing"):
        create_run(tmp_path / "dead", argv=["x"], force=True)
    with pytest.raises(UsageError, match="cannot write"):
        create_run(tmp_path / "file" / "run", argv=["x"])


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    create_run(tmp_path, argv=["x"])
    assert Run.open(tmp_path).status == "running"


def test_an_execution_is_added(tmp_path: Path) -> None:
    path = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    writer = traces.resume(path)
    traces.add_execution(writer, "time-0", "time", traces.events(), None)
    writer.finish("complete")
    run = Run.open(path)
    assert [e.name for e in run.executions] == ["profile", "time-0"]
    assert [e.name for e in run.times] == ["time-0"]


# ---- opening -------------------------------------------------------------------------------------


def test_a_run_that_went_on_is_read_again_but_not_decoded_again(tmp_path: Path) -> None:
    """GIVEN a run that was read before it was finished THEN its ended executions stay decoded, and
    get what the manifest says now: the clock's rate is known best at the end."""
    writer = create_run(tmp_path / "run", argv=["x"])
    for name in ("time-0", "time-1"):
        writer.begin_execution({"name": name, "role": "time", "timer": "async"})
    writer.end_execution("time-0", traces.RESULT)
    early = Run.open(tmp_path / "run")
    before = early.executions
    rewrite(tmp_path / "run", clock=early.manifest["clock"] | {"tsc_hz": 1e9}, status="partial")
    late = early.again()
    ended, cut_short = late.executions
    assert ended.processes is before[0].processes
    assert ended.record.tsc_hz == 1e9 != before[0].record.tsc_hz
    assert (before[1].record.status, cut_short.record.status) == ("running", "partial")
    assert late.again().executions[1].record == cut_short.record
    writer.amend("time-0", {"role": "first"})
    assert early.again().executions[0].processes is not before[0].processes


def test_what_is_not_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, words in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "is not an xpuprof run directory"),
        (tmp_path / "file", "is a file"),
    ):
        with pytest.raises(TraceError, match=words):
            xpuprof.open(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 2}, "version 2, this xpuprof .* reads up to 1; install a newer"),
        ({"version": "1"}, "unknown version '1'"),
        ({"version": 0}, "unknown version 0"),
        ({"format": "zip"}, "was not written by xpuprof"),
        ({"status": "splendid"}, "damaged"),
        ({"clock": {}}, "damaged"),
        ({"clock": {"tsc_hz": 0}}, "damaged"),
        ({"machine": []}, "damaged"),
        ({"executions": {}}, "damaged"),
        ({"executions": [{"name": "../..", "role": "profile"}]}, "damaged"),
        ({"executions": [{"name": "profile"}]}, "damaged"),
        ({"executions": [{"name": "profile", "role": "profile"}]}, "is missing from its run"),
    ],
)
def test_a_bad_manifest_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    create_run(tmp_path, argv=["x"]).finish("complete")
    rewrite(tmp_path, **changes)
    with pytest.raises(TraceError, match=words) as caught:
        _ = xpuprof.open(tmp_path).executions
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "xpuprof-run"}', "\xff"])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(TraceError) as caught:
        xpuprof.open(tmp_path)
    assert "manifest.json" in str(caught.value)


def test_importing_xpuprof_loads_no_tables() -> None:
    """Start-up stays short: numpy and pandas come with the first table."""
    code = "import sys, xpuprof, xpuprof.trace.run; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_stopped_save_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a signal while the manifest is written THEN the old one stays, and nothing else."""

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    writer = create_run(tmp_path / "run", argv=["x"])
    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        writer.finish("complete")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["manifest.json"]
    assert Run.open(tmp_path / "run").status == "running"
