# SPDX-License-Identifier: Apache-2.0
"""The OpenCL layer on a real runtime: the program is unharmed, every launch is seen, and every
warp's counts match an independent model."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compile import compile_files, opencl_program
from tests.support.layered import Ran, environment, layered, natively, run, warp_atomics
from tests.support.paths import OPENCL_PROGRAMS
from tests.support.run import output
from xpuprof.engines.base import Mode, Timer
from xpuprof.engines.gpu.opencl import LAYER
from xpuprof.engines.native import native_file
from xpuprof.trace.clock import tsc
from xpuprof.trace.tables import Process

pytestmark = pytest.mark.opencl
WARP = 32


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `opencl_cases`."""
    return opencl_program("opencl_cases", tmp_path_factory.mktemp("cases"))


# Launches of every case that the runtime accepts.
LAUNCHES = {
    "shapes": 9,
    "derived": 4,
    "null_local": 3,
    "chosen_sizes": 9,
    "threads": 481,
    "events": 32,
    "programs": 4,
    "reuse": 60,
    "binary": 1,
    "foreign_binary": 1,
    "failures": 1,
    "infos": 4,
    "callbacks": 1,
    "no_finish": 50,
    "cleared": 1,
    "local_memory": 4,
    "sub_devices": 6,
    "forks": 2,
    "contexts": 10,
    "features": 2,
    "command_buffer": 16,
}
NOT_COUNTED = "a kernel of a command buffer is not counted"
FOREIGN = "the program was made from a native binary whose build was never seen"
# Cases with launches that cannot be instrumented, and the reasons that must be given.
REASONS = {"foreign_binary": [FOREIGN], "command_buffer": [NOT_COUNTED] * 12}
ON_DEVICE = {"XPUPROF_OPENCL_COUNTERS": "device"}
KERNELS_COUNT = {"XPUPROF_OPENCL_COUNTERS": "kernel"}
KEEP_BINARIES = {"XPUPROF_OPENCL_BINARIES": "keep"}
EXTRA = {"foreign_binary": KEEP_BINARIES}
"""What cases need in their environment to be profiled."""


def same(native: Ran, ran: Ran) -> None:
    assert ran.done.returncode == native.done.returncode
    assert ran.done.stdout == native.done.stdout
    assert ran.done.stderr == native.done.stderr


@pytest.mark.parametrize("case", LAUNCHES)
def test_profile_sees_and_instruments_every_launch(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a program WHEN profiled THEN its output is unchanged and every launch is recorded."""
    native = natively([cases, case])
    if native.done.stdout.startswith(b"no "):
        pytest.skip(f"the device has {native.done.stdout.decode().strip()}")
    ran = layered([cases, case], tmp_path / "p", extra=EXTRA.get(case))
    same(native, ran)
    launches = ran.process.launches
    assert len(launches) == LAUNCHES[case]
    left_out = launches.loc[~launches["instrumented"], "reason"].tolist()
    assert left_out == REASONS.get(case, [])
    assert ran.process.complete


@pytest.mark.parametrize("timer", ["sync", "async"])
@pytest.mark.parametrize("case", ["threads", "events", "infos", "forks", "no_finish", "contexts"])
def test_timer_sees_every_launch(cases: Path, tmp_path: Path, case: str, timer: Timer) -> None:
    """GIVEN a program WHEN timed THEN its output is unchanged and every launch has its stamps, but
    for those that it leaves unfinished: nothing waits for these."""
    native = natively([cases, case])
    before = tsc()
    ran = layered([cases, case], tmp_path / "t", "time", timer)
    after = tsc()
    same(native, ran)
    launches = ran.process.launches
    assert len(launches) == LAUNCHES[case]
    ends = launches["dev_end" if timer == "async" else "tsc_complete"].to_numpy().astype(np.int64)
    error = int(ran.process.meta.get("clock_error_ticks", 0))  # of device stamps
    if (case, timer) == ("no_finish", "async"):
        ends = ends[ends > 0]
        launches = launches.iloc[: len(ends)]  # one queue, in order
    assert (ends > launches["tsc_run"].to_numpy().astype(np.int64) - error).all()
    assert (ends > before - error).all() and (ends < after + error).all()


def test_device_stamps_agree_with_the_hosts(cases: Path, tmp_path: Path) -> None:
    """GIVEN the asynchronous timer THEN device stamps, converted to the TSC, lie between the
    enqueue and the host's next blocking call, within the stream's stated error."""
    process = layered([cases, "shapes"], tmp_path / "t", "time", "async").process
    error = int(process.meta["clock_error_ticks"])
    launches, copies = process.launches, process.copies
    start = launches["dev_start"].to_numpy().astype(np.int64)
    end = launches["dev_end"].to_numpy().astype(np.int64)
    assert (start >= launches["tsc_run"].to_numpy().astype(np.int64) - error).all()
    assert (end >= start).all()
    assert (np.diff(start) >= 0).all()  # one queue, in order
    assert end.max() <= int(copies["tsc_end"].max()) + error


TO_DEVICE, TO_HOST, WITHIN = 0, 1, 2
TRANSFERS = [(TO_DEVICE, 100), (TO_HOST, 200), (TO_DEVICE, 32), (TO_HOST, 24), (WITHIN, 65)]
TRANSFERS += [(WITHIN, 16), (TO_DEVICE, 64), (TO_HOST, 48), (WITHIN, 16), (WITHIN, 12)]
TRANSFERS += [(WITHIN, 20), (TO_HOST, 128), (TO_DEVICE, 129), (TO_HOST, 256)]
"""Where to, and bytes, of each transfer of the case `transfers`; texels have four bytes."""


@pytest.mark.parametrize("mode", ["profile", "time"])
def test_transfers(cases: Path, tmp_path: Path, mode: Mode) -> None:
    """GIVEN a transfer of each kind THEN each is recorded with its direction and size."""
    native = natively([cases, "transfers"])
    ran = layered([cases, "transfers"], tmp_path / "p", mode)
    same(native, ran)
    copies = ran.process.copies
    assert list(zip(copies["direction"], copies["bytes"], strict=True)) == TRANSFERS
    assert (copies["tsc_end"] >= copies["tsc_start"]).all()


# ---- per-warp counts ---------------------------------------------------------------------------

TRIPS = [i * 7919 % 13 for i in range(1 << 16)]


LINKED = [sum(i & 3 for i in range(n)) > 4 for n in TRIPS]
GREEDY = [n > 3 for n in TRIPS]
ITEMS = {"trips": TRIPS, "straight": [1] * len(TRIPS), "linked": LINKED, "greedy": GREEDY}
"""Atomic operations of each work-item of a kernel, in linear order."""


def warps_model(
    size: Sequence[int], local: Sequence[int], sub_group: int = 0, values: Sequence[int] = TRIPS
) -> npt.NDArray[np.int64]:
    """Counts of work-items, summed per warp: group by group, 32 per warp, or the sub-groups cut
    from each row of the group."""
    size = [*size, 1, 1][:3]
    local = [*local, 1, 1][:3]
    warps = []
    groups = [range(s // n) for s, n in zip(size, local, strict=True)]
    for gz, gy, gx in itertools.product(groups[2], groups[1], groups[0]):
        items = [
            values[
                gx * local[0] + x + size[0] * (gy * local[1] + y + size[1] * (gz * local[2] + z))
            ]
            for z, y, x in itertools.product(range(local[2]), range(local[1]), range(local[0]))
        ]
        row, warp = (local[0], sub_group) if sub_group else (len(items), WARP)
        for end in range(row, len(items) + 1, row):
            warps += [sum(items[at : min(at + warp, end)]) for at in range(end - row, end, warp)]
    return np.array(warps)


def sub_group_of(process: Process, kernel: int) -> int:
    """Work-items per warp if the kernel's warps are sub-groups, otherwise 0."""
    return int(process.meta.get(f"warp_size:{kernel}", 0))


def expect(ran: Ran) -> None:
    """Checks every launch's warps against the model, with the sizes in the trace."""
    gpu = ran.process.gpu
    assert gpu is not None
    for row in ran.process.launches.itertuples():
        size, local = (row.gx, row.gy, row.gz), (row.lx, row.ly, row.lz)
        counted = warp_atomics(gpu, row.launch)
        sub_group = sub_group_of(ran.process, row.kernel_id)
        expected = warps_model(size, local, sub_group, ITEMS[row.kernel])
        np.testing.assert_array_equal(counted, expected, str(row))


MODELLED = [
    *("threads", "events", "contexts", "forks", "sub_devices"),
    *("programs", "binary", "reuse", "infos", "callbacks", "no_finish", "local_memory"),
]
"""Cases whose launches are all of kernels in ITEMS, with a local size."""


def test_warps_of_all_shapes_against_the_model(cases: Path, tmp_path: Path) -> None:
    """GIVEN 1-, 2- and 3-D launches with partial warps and an offset THEN each warp is exact."""
    expect(layered([cases, "shapes"], tmp_path / "p"))


@pytest.mark.parametrize("case", MODELLED)
def test_warps_against_the_model(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN threads, queues, waiting commands and programs built in all ways THEN each warp is
    exact."""
    expect(layered([cases, case], tmp_path / "p"))


def test_derived_counts(cases: Path, tmp_path: Path) -> None:
    """GIVEN a kernel without branches THEN every warp, the last one too, counts its work-items."""
    ran = layered([cases, "derived"], tmp_path / "p")
    gpu = ran.process.gpu
    assert gpu is not None
    assert warp_atomics(gpu, 0).tolist() == [32] * 20
    assert warp_atomics(gpu, 1).tolist() == [32, 18] * 6
    assert warp_atomics(gpu, 2).sum() == 640  # the runtime chose the groups
    assert warp_atomics(gpu, 3).tolist() == [1]


def test_local_size_left_to_the_runtime(cases: Path, tmp_path: Path) -> None:
    """GIVEN no local size THEN the runtime chooses it, and the counts match some division into
    groups."""
    ran = layered([cases, "null_local"], tmp_path / "p")
    gpu = ran.process.gpu
    assert gpu is not None
    assert not ran.process.launches[["lx", "ly", "lz"]].to_numpy().any()
    for launch, n in enumerate((4096, 997)):
        counted = warp_atomics(gpu, launch)
        possible = [warps_model((n,), (local,)) for local in range(1, n + 1) if n % local == 0]
        assert any(np.array_equal(counted, model) for model in possible)
    assert warp_atomics(gpu, 2).sum() == sum(TRIPS[:3000])


@pytest.mark.parametrize("extra", [{}, KERNELS_COUNT, ON_DEVICE], ids=["", "kernels", "device"])
def test_a_chosen_local_size_is_used_again(
    cases: Path, tmp_path: Path, extra: dict[str, str]
) -> None:
    """GIVEN launches that recur without a local size THEN the program sees the native run's choice
    in each, and each warp is exact, with analytic counts as well as where kernels count."""
    ran = layered([cases, "chosen_sizes"], tmp_path / "p", extra=extra)
    same(natively([cases, "chosen_sizes"]), ran)
    gpu, launches = ran.process.gpu, ran.process.launches
    assert gpu is not None
    assert not launches[["lx", "ly", "lz"]].to_numpy().any()
    assert launches["instrumented"].all()
    chosen = [tuple(map(int, size)) for size in re.findall(rb"size (\d+) (\d+)", ran.done.stdout)]
    counted = [i < 700 for i in range(3000)]
    for launch, local in enumerate(chosen):
        size = (1000, 1) if launch < 3 else (60, 50)
        expected = warps_model(size, local, values=counted)
        np.testing.assert_array_equal(warp_atomics(gpu, launch), expected, str(launch))
    for launch in range(6, 9):
        expected = warps_model((60, 50), chosen[-1])
        np.testing.assert_array_equal(warp_atomics(gpu, launch), expected, str(launch))


def test_a_launch_of_known_counts_runs_the_programs_own_kernel(cases: Path, tmp_path: Path) -> None:
    """GIVEN launches that recur without a local size THEN the first of a shape runs a kernel that
    counts, which has more arguments, and further ones the program's own with the size chosen;
    kernels whose counts depend on data always count."""
    source = OPENCL_PROGRAMS / "launch_listener.c"
    flags = ("-shared", "-fPIC", "-DCL_TARGET_OPENCL_VERSION=300")
    listener = compile_files([source], tmp_path / "listener.so", *flags)
    heard = tmp_path / "heard"
    layers = f"{listener}:{native_file(LAYER)}"  # the loader puts the first one at the bottom
    extra = {"OPENCL_LAYERS": layers, "LISTENED": str(heard)}
    ran = layered([cases, "chosen_sizes"], tmp_path / "p", extra=extra)
    chosen = re.findall(r"size (\d+) (\d+)", ran.done.stdout.decode())
    launches = [line.split() for line in heard.read_text().splitlines()]
    assert [name for name, *_ in launches] == ["sized"] * 6 + ["trips"] * 3
    counting = [int(arguments) > 2 for _, arguments, *_ in launches]
    assert counting == [True, False, False] * 2 + [True] * 3
    sizes = [size for _, _, *size in launches]
    assert [sizes[0], sizes[3], sizes[6]] == [["0"], ["0", "0"], ["0", "0"]]
    assert sizes[1:3] == [[x] for x, _ in chosen[1:3]]
    assert sizes[4:6] == [list(size) for size in chosen[4:]]
    assert sizes[7:] == sizes[4:6]


def cache_folders(tmp_path: Path) -> dict[str, str]:
    """The program's cache file and our store, both empty; PoCL's own cache is shared."""
    return {
        "PROGRAM_CACHE": str(tmp_path / "own"),
        "XDG_CACHE_HOME": str(tmp_path / "home"),
        "POCL_CACHE_DIR": str(Path.home() / ".cache" / "pocl" / "kcache"),
    }


def damage_origins(tmp_path: Path) -> None:
    """Cuts the stored origins short, so that they are as good as missing."""
    for kept in (tmp_path / "home" / "xpuprof" / "origins").iterdir():
        if kept.name != "store":
            kept.write_bytes(kept.read_bytes()[:-1])


@pytest.mark.parametrize("case", ["program_cache", "keyed_cache"])
def test_binaries_from_a_programs_own_cache(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a program that keeps its binary in a file, filled natively WHEN it is profiled THEN it
    misses (by another driver's version, or because the binary is refused), builds from its source
    and is instrumented; what it then keeps is known in later runs as the same program."""
    folders = cache_folders(tmp_path)
    native = natively([cases, case], folders)
    (kept,) = tmp_path.glob("own*")
    content = kept.read_bytes()
    built = layered([cases, case], tmp_path / "b", extra=folders)
    loaded = layered([cases, case], tmp_path / "c", extra=folders)
    for ran in (built, loaded):
        same(native, ran)
        expect(ran)
        assert ran.process.launches["instrumented"].all()
    identity = [ran.process.launches["program"].tolist() for ran in (built, loaded)]
    assert identity[0] == identity[1]
    assert ("binaries_refused" in built.process.meta) == (case == "program_cache")
    assert "binaries_refused" not in loaded.process.meta
    assert len(list(tmp_path.glob("own*"))) == (1 if case == "program_cache" else 2)
    assert kept.read_bytes() == content  # what the program rewrote is what it had written
    damage_origins(tmp_path)
    if case == "program_cache":
        damaged = layered([cases, case], tmp_path / "d", extra=folders)
        assert damaged.process.launches["instrumented"].all()
    else:
        shutil.rmtree(tmp_path / "home" / "xpuprof")  # forgotten: the key is another one
        forgotten = layered([cases, case], tmp_path / "d", extra=folders)
        assert forgotten.done.returncode == 0
        assert forgotten.process.launches["instrumented"].all()


def test_binaries_are_kept_on_request(cases: Path, tmp_path: Path) -> None:
    """GIVEN a binary of an unseen build WHEN binaries are kept THEN it runs, uninstrumented."""
    folders = cache_folders(tmp_path) | KEEP_BINARIES
    native = natively([cases, "keyed_cache"], folders)
    ran = layered([cases, "keyed_cache"], tmp_path / "a", extra=folders)
    same(native, ran)
    assert ran.process.launches["reason"].tolist() == REASONS["foreign_binary"]


def test_origins_that_others_may_write_are_not_believed(cases: Path, tmp_path: Path) -> None:
    """GIVEN the origin of a binary in a folder open to all THEN it is ignored."""
    folders = cache_folders(tmp_path)
    layered([cases, "program_cache"], tmp_path / "a", extra=folders)
    kept = tmp_path / "home" / "xpuprof" / "origins"
    assert len(list(kept.iterdir())) == 1
    kept.chmod(0o1777)
    ran = layered([cases, "program_cache"], tmp_path / "b", extra=folders)
    assert "binaries_refused" in ran.process.meta
    assert "other users may write" in ran.process.meta["origins_refused"]


def test_long_temporary_folder(
    cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a TMPDIR longer than a socket's address THEN every launch is counted."""
    folder = tmp_path / ("t" * 120)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ran = layered([cases, "shapes"], tmp_path / "p")
    assert ran.process.launches["instrumented"].all()
    assert not list(folder.iterdir())


def test_child_of_a_process_that_builds(cases: Path, tmp_path: Path) -> None:
    """GIVEN a thread that holds one of our locks within a build WHEN another one forks THEN the
    lock is free in the child."""
    folders = {"PROGRAM_CACHE": str(tmp_path / "own"), "XDG_CACHE_HOME": str(tmp_path / "home")}
    layered([cases, "program_cache"], tmp_path / "a", extra=folders)
    kept = (tmp_path / "home" / "xpuprof" / "origins").iterdir()
    (origin,) = (path for path in kept if path.name != "store")
    origin.unlink()
    os.mkfifo(origin)  # a look-up of that binary waits for the pipe's other end
    folders |= KEEP_BINARIES | {"PIPE": str(origin)}
    ran = layered([cases, "fork_in_build"], tmp_path / "b", extra=folders)
    assert ran.done.stdout == b"child ended with 7, by signal 0\n", ran.done.stderr


def test_children_of_a_process_that_uses_programs(cases: Path, tmp_path: Path) -> None:
    """GIVEN a thread that uses a program WHEN another one forks THEN the locks of our tables are
    free in the children."""
    ran = layered([cases, "fork_in_calls"], tmp_path / "p")
    assert ran.done.stdout == b"300 children ended\n", ran.done.stderr


FORKS = """
import ctypes, os, signal
ctypes.CDLL(os.environ["OPENCL_LAYERS"]).clIcdGetPlatformIDsKHR(0, None, None)
import pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
signal.alarm(60)  # a fork that waits for itself
if os.fork() == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), len(context.devices) > 0)
"""


def test_a_program_forks_where_the_layer_is_a_driver_too(tmp_path: Path) -> None:
    """GIVEN a loader that reads the drivers before the layers, as Khronos's THEN forks work."""
    pytest.importorskip("pyopencl")
    ran = layered([sys.executable, "-c", FORKS], tmp_path / "p")
    assert (ran.done.returncode, ran.done.stdout) == (0, b"7 True\n"), ran.done.stderr


def test_two_profiles_are_the_same(cases: Path, tmp_path: Path) -> None:
    """GIVEN one deterministic program WHEN profiled twice THEN slices and vectors agree."""
    first, second = (layered([cases, "programs"], tmp_path / name).process for name in ("a", "b"))
    columns = ["kernel", "call", "program", "gx", "lx", "gpu_instructions"]
    assert first.slices[columns].equals(second.slices[columns])
    assert first.gpu and second.gpu
    for name in ("launch_grid", "run_vector", "run_length", "block", "count"):
        np.testing.assert_array_equal(getattr(first.gpu, name), getattr(second.gpu, name))
    np.testing.assert_array_equal(first.gpu.blocks.identity, second.gpu.blocks.identity)


@pytest.mark.parametrize("case", ["shapes", "threads", "events", "contexts", "sub_devices"])
def test_counters_kept_on_the_device(cases: Path, tmp_path: Path, case: str) -> None:
    """GIVEN a device that shares no memory with the host THEN nothing is lost and each warp is
    exact."""
    native = natively([cases, case])
    ran = layered([cases, case], tmp_path / "p", extra=ON_DEVICE)
    same(native, ran)
    assert len(ran.process.launches) == LAUNCHES[case]
    assert ran.process.launches["instrumented"].all()
    expect(ran)


def test_local_size_left_to_the_runtime_on_the_device(cases: Path, tmp_path: Path) -> None:
    """GIVEN counters on the device and no local size THEN the header is read first, and vectors
    equal those of counters in shared memory."""
    kept, shared = (
        layered([cases, "null_local"], tmp_path / name, extra=extra).process.gpu
        for name, extra in (("device", ON_DEVICE), ("shared", {}))
    )
    assert kept is not None and shared is not None
    for launch in range(3):
        np.testing.assert_array_equal(warp_atomics(kept, launch), warp_atomics(shared, launch))


def test_kill_loses_nothing_that_was_waited_for(cases: Path, tmp_path: Path) -> None:
    """GIVEN counters on the device WHEN the program dies after clFinish THEN all launches are
    there."""
    ran = layered([cases, "killed"], tmp_path / "p", extra=ON_DEVICE)
    assert ran.done.returncode == -9
    assert len(ran.process.launches) == 100


# ---- what goes wrong ---------------------------------------------------------------------------


def test_sigkill_leaves_a_readable_stream(cases: Path, tmp_path: Path) -> None:
    """GIVEN a program that kills itself THEN finished slices are there, and the stream is open."""
    ran = layered([cases, "killed"], tmp_path / "p")
    assert ran.done.returncode == -9
    assert not ran.process.complete
    assert len(ran.process.launches) == 100
    assert ran.process.launches["instrumented"].all()


def test_program_without_a_launch(cases: Path, tmp_path: Path) -> None:
    """GIVEN an OpenCL program that launches nothing THEN there is one slice."""
    ran = layered([cases, "nothing"], tmp_path / "p")
    assert ran.done.stdout == b"no launch\n"
    assert len(ran.process.slices) == 1


def test_gate_that_is_never_opened(cases: Path, tmp_path: Path) -> None:
    """GIVEN a launch that waits for a user event that never fires THEN the program still ends."""
    native = natively([cases, "abandoned_gate"])
    ran = layered([cases, "abandoned_gate"], tmp_path / "p")
    same(native, ran)
    assert ran.process.launches["instrumented"].tolist() == [True, False]


def garbage_server(path: Path, answer: bytes) -> socket.socket:
    """An instrumenter that answers nonsense."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                while peer.recv(1 << 16):
                    pass
                peer.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return server


ANSWERS = {
    "absent": (None, "the instrumenter does not answer"),
    "empty": (b"", "the instrumenter's answer cannot be read"),
    "foreign": (b"HTTP/1.1 200 OK\r\n\r\n", "the instrumenter's answer cannot be read"),
    "refusing": (
        b"XPI1" + (5).to_bytes(8, "little") + b"sorry" + bytes(8 + 4 + 4 + 8 + 4 + 8),
        "sorry",
    ),
    "lying about lengths": (
        b"XPI1" + bytes(8) + bytes(8) + b"\xff\xff\xff\xff",
        "the instrumenter's answer cannot be read",
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_program_runs_where_it_cannot_be_instrumented(
    cases: Path, tmp_path_factory: pytest.TempPathFactory, kind: str
) -> None:
    """GIVEN an instrumenter that fails THEN the program runs natively, counted with the reason."""
    folder = tmp_path_factory.mktemp("s")
    answer, reason = ANSWERS[kind]
    server = garbage_server(folder / "s", answer) if answer is not None else None
    native = natively([cases, "shapes"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.setblocking(False)
        told.bind(f"\0xpuprof-test-{os.getpid()}-{kind}")
        extra = {
            "XPUPROF_CLINST": str(folder / "s"),
            "XPUPROF_FAILURES": told.getsockname()[1:].decode(),
        }
        ran = layered([cases, "shapes"], folder / "p", extra=extra)
        failures = told.recv(256).decode() if answer is None else ""
    if server:
        server.close()
    same(native, ran)
    assert failures.endswith(f"kernels are not counted: {reason}" if answer is None else "")
    launches = ran.process.launches
    assert len(launches) == LAUNCHES["shapes"]
    assert not launches["instrumented"].any()
    assert set(launches["reason"]) == {reason}


def test_layer_without_a_run_is_transparent(cases: Path, tmp_path: Path) -> None:
    """GIVEN the layer but no run directory THEN nothing is recorded and nothing differs."""
    native = natively([cases, "shapes"])
    with environment("time", "async", tmp_path / "p") as env:
        del env["XPUPROF_DIR"]
        ran = run([cases, "shapes"], env)
    same(native, ran)
    assert not any((tmp_path / "p").iterdir())


def test_run_directory_that_cannot_be_written(cases: Path, tmp_path: Path) -> None:
    """GIVEN a run directory that was removed THEN the program is unharmed."""
    native = natively([cases, "shapes"])
    with environment("profile", "async", tmp_path / "p") as env:
        ran = run([cases, "shapes"], env | {"XPUPROF_DIR": str(tmp_path / "gone")})
    same(native, ran)


def test_identity_does_not_depend_on_where_headers_lie(tmp_path: Path) -> None:
    """GIVEN a pyopencl program built with two include folders THEN its identity is the same."""
    pytest.importorskip("pyopencl")
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, numpy as np, pyopencl as cl\n"
        "context = cl.create_some_context(interactive=False)\n"
        "queue = cl.CommandQueue(context)\n"
        "text = 'kernel void k(global int *x) { x[get_global_id(0)] += N; }'\n"
        "program = cl.Program(context, text).build(['-DN=2', '-I', sys.argv[1]])\n"
        "data = np.zeros(64, np.int32)\n"
        "buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=data)\n"
        "program.k(queue, (64,), (32,), buffer)\n"
        "cl.enqueue_copy(queue, data, buffer)\n"
        "print(data.sum())\n"
    )
    python = [sys.executable, script]
    hashes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        ran = layered([*python, tmp_path / name], tmp_path / f"run-{name}")
        assert re.fullmatch(rb"128\n", ran.done.stdout)
        hashes.append(ran.process.launches["program"].tolist())
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("mode", ["profile", "time"])
def test_a_program_with_a_loader_of_its_own(tmp_path: Path, mode: Mode) -> None:
    """GIVEN a program whose loader knows no layers THEN its launches are seen, in a profile
    instrumented, and its builds are recorded."""
    program = opencl_program("opencl_own_loader", tmp_path / "bin", "-ldl")
    native = natively([program])
    if native.done.stdout.startswith(b"no "):
        pytest.skip("no platform in /etc/OpenCL/vendors")
    ran = layered([program], tmp_path / "p", mode)
    same(native, ran)
    slices = ran.process.slices
    assert len(ran.process.launches) == 6
    assert mode == "time" or ran.process.launches["instrumented"].all()
    assert slices["builds"].tolist() == [1, 0, 0, 1, 0, 0, 0]
    assert slices["to_host"].tolist() == [0] * 6 + [1024]
    assert slices["to_device"].sum() == 0


@pytest.mark.parametrize("mode", ["profile", "time"])
@pytest.mark.parametrize("drivers", ["named", "found by the loader"])
def test_a_program_with_two_loaders(tmp_path: Path, mode: Mode, drivers: str) -> None:
    """GIVEN objects of one loader that reach another, before and after that one has been asked for
    platforms THEN each launch and build is seen once, in order, and the program is told the same;
    also where the loader has a driver that no .icd file of the machine names."""
    program = opencl_program("opencl_two_loaders", tmp_path / "bin", "-ldl")
    (linked,) = re.findall(r"libOpenCL\S* => (\S+)", output(["ldd", program]))
    other = shutil.copy(linked, tmp_path / "libOpenCL-0123abcd.so.1.0.0")
    extra = {} if drivers == "named" else {"XPUPROF_OPENCL_DRIVERS": ""}
    ran = layered([program, other], tmp_path / "p", mode, extra=extra)
    same(natively([program, other]), ran)
    launches = ran.process.launches
    assert launches["gx"].tolist() == [64 * n for n in range(1, 7)]
    assert mode == "time" or launches["instrumented"].all()
    assert ran.process.slices["builds"].tolist() == [1, 0, 1, 0, 0, 0, 0]
