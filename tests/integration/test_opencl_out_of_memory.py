# SPDX-License-Identifier: Apache-2.0
"""Each allocation of the OpenCL layer fails in turn: the program's calls still succeed, and every
launch is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_opencl_layer import NOT_COUNTED, same
from tests.support.compile import opencl_program
from tests.support.layered import layered, natively

pytestmark = pytest.mark.opencl
ROUNDS = 80
PER_ROUND = {"launch": 1, "task": 1, "record": 4, "replay": 4}
LAUNCHES = {case: 1 + ROUNDS * n for case, n in PER_ROUND.items()}
REASON = "instrumenting the launch failed (out of memory)"
IN_COMMAND_BUFFERS = ("record", "replay")  # the first launch is not in one


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `out_of_memory`."""
    return opencl_program("out_of_memory", tmp_path_factory.mktemp("memory"), "-rdynamic")


@pytest.mark.parametrize("case", LAUNCHES)
def test_each_allocation_fails_once(program: Path, tmp_path: Path, case: str) -> None:
    """GIVEN that the n-th allocation of a call fails, for each n, THEN the output is unchanged, and
    each launch is counted, without vectors but with the reason if ours failed early."""
    native = natively([program, case])
    if native.done.stdout.startswith(b"no "):
        pytest.skip("the device has no command buffers")
    note = tmp_path / "failed"
    ran = layered([program, case], tmp_path / "p", extra={"FAILED": str(note)})
    same(native, ran)
    failed = int(note.read_text())
    assert 0 < failed < LAUNCHES[case]  # the last rounds had no such allocation
    launches = ran.process.launches
    assert len(launches) == LAUNCHES[case]
    reasons = launches.loc[~launches["instrumented"], "reason"]
    if case in IN_COMMAND_BUFFERS:
        assert set(reasons) <= {NOT_COUNTED, REASON} and len(reasons) == len(launches) - 1
    else:
        assert 0 < len(reasons) <= LAUNCHES[case] // 2
        assert REASON in set(reasons)
    assert "gpu_engine_failed" not in ran.process.meta


@pytest.mark.parametrize("case", LAUNCHES)
def test_all_later_allocations_fail(program: Path, tmp_path: Path, case: str) -> None:
    """GIVEN that all later ones of the call fail too THEN the output is unchanged; a launch that
    could not be counted is reported."""
    native = natively([program, case])
    if native.done.stdout.startswith(b"no "):
        pytest.skip("the device has no command buffers")
    ran = layered([program, case, "on"], tmp_path / "p")
    same(native, ran)
    assert len(ran.process.launches) == LAUNCHES[case] or "gpu_engine_failed" in ran.process.meta
