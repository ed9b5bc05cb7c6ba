# SPDX-License-Identifier: Apache-2.0
"""Values of manifests and META records are parsed once, and wrong values are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import traces
from xpuprof.errors import TraceError
from xpuprof.trace.records import process_meta
from xpuprof.trace.run import Run

TOO_LONG, HUGE = "9" * 400, 10**400


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tsc_start", -1),
        ("tsc_start", True),
        ("tsc_end", 1 << 63),
        ("tsc_end", HUGE),
        ("wall_s", float("inf")),
        ("wall_s", HUGE),
        ("pid", "12"),
        ("exit_code", 1.5),
        ("signal", [9]),
        ("fallbacks", "none"),
        ("fallbacks", [1]),
        ("filters", []),
        ("cpu_engine", 3),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_wrong_value_of_an_execution_is_named(tmp_path: Path, key: str, value: Any) -> None:
    run = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    file = run / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["executions"][0][key] = value
    file.write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match=rf"manifest.json: execution 'profile' has {key} ") as told:
        _ = Run.open(run).profile
    assert len(str(told.value)) < 400 and "copy the run directory again" in str(told.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("argv", None),
        ("argv", "./app"),
        ("argv", [1]),
        ("machine", []),
        ("cwd", 1),
        ("environment", []),
        ("settings", []),
        ("settings", {"processes": "a"}),
        ("settings", {"window": None}),
        ("imported", True),
        ("executions", [None]),
        ("status", ["complete"]),
    ],
)
def test_a_wrong_key_of_the_manifest_is_named(tmp_path: Path, key: str, value: Any) -> None:
    run = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    file = run / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(TraceError, match=rf"damaged \({key} is missing or wrong\)"):
        Run.open(run)


@pytest.mark.parametrize("hz", [float("nan"), float("inf"), 0, -1.0, True, "1"])
def test_a_wrong_clock_is_damage(tmp_path: Path, hz: Any) -> None:
    run = traces.write_run(tmp_path / "run", traces.events(), traces.cpu())
    file = run / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["clock"]["tsc_hz"] = hz
    file.write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match="damaged"):
        Run.open(run)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ancestry", "12"),
        ("ancestry", "12:34 x:1"),
        ("ancestry", f"1:{TOO_LONG}"),
        ("warp_size", "many"),
        ("warp_size", TOO_LONG),
        ("warp_size", "70000"),
        ("rank", "-1"),
        ("rank", "\u0663"),  # a digit to str.isdigit
        ("cpu_rank", "1.5"),
        ("tsc_load", "0x10"),
        ("age_ns", "9223372036854775808"),
        ("tsc_exit", " "),
    ],
)
def test_a_wrong_meta_record_is_named(key: str, text: str) -> None:
    with pytest.raises(TraceError, match=f"process vm-1: META {key} is ") as told:
        process_meta({key: text}, "vm-1")
    assert len(str(told.value)) < 250


def test_meta_is_a_mapping_of_texts_with_checked_numbers() -> None:
    meta = process_meta(
        {"rank": "3", "warp_size": "32", "tsc_load": "7", "ancestry": "12:500 1:2"}, "vm-1"
    )
    assert (meta.rank, meta.warp_size, meta.tsc_load, meta.tsc_exit) == (3, 32, 7, 0)
    assert meta.ancestry == ((500, 12), (2, 1))
    assert meta["rank"] == "3" and "host" not in meta and len(meta) == 4
