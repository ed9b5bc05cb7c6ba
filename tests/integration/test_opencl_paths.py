# SPDX-License-Identifier: Apache-2.0
"""All ways to build a kernel and allocate its memory, on each runtime: the output is unchanged,
every launch is instrumented, and each warp is exact."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.integration.test_opencl_layer import ON_DEVICE, TRIPS, same, sub_group_of, warps_model
from tests.support.clinst import CLANG, LLVM_SPIRV
from tests.support.compile import opencl_program
from tests.support.layered import Ran, layered, natively, warp_atomics
from tests.support.probes import require_intel
from tests.support.run import output, xpuprof_line, xpuprof_text
from xpuprof.engines.gpu.opencl import RUNTIME_ENV
from xpuprof.trace.run import Run
from xpuprof.trace.tables import Process

pytestmark = pytest.mark.opencl

MODULE = """
int __attribute__((overloadable)) __spirv_SpecConstant(int id, int value);
kernel void trips(global const int *n, global int *sink) {
  int i = get_global_id(0);
  for (int k = 0; k < n[i] * TIMES; k++) atomic_inc(&sink[i & 7]);
}
"""


@pytest.fixture(params=["system", pytest.param("intel", marks=pytest.mark.intel)])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each runtime in turn, or skip."""
    if request.param == "intel":
        require_intel(monkeypatch)
    return str(request.param)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `opencl_paths`."""
    return opencl_program("opencl_paths", tmp_path_factory.mktemp("paths"))


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """SPIR-V with a specialisation constant, and LLVM bitcode, by the case that loads them."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "k.cl").write_text(MODULE)
    clang = [CLANG, "-target", "spir64-unknown-unknown", "-x", "cl", "-cl-std=CL1.2", "-O1"]
    clang += ["-Xclang", "-finclude-default-header", "-emit-llvm", "-c", folder / "k.cl"]
    made = {}
    for case, times in (("il", "__spirv_SpecConstant(7,2)"), ("module", "1")):
        made[case] = folder / f"{case}.bc"
        output([*clang, f"-DTIMES={times}", "-o", made[case]])
    spirv = folder / "il.spv"
    output([LLVM_SPIRV, made["il"], "-o", spirv])
    return made | {"il": spirv}


def ran_both_ways(command: list[str | Path], folder: Path, extra: Mapping[str, str]) -> Ran:
    """A layered run with the native result and every launch instrumented."""
    native = natively(command, extra)
    if native.done.stdout.startswith(b"no "):
        pytest.skip(f"the device has {native.done.stdout.decode().strip()}")
    ran = layered(command, folder, extra=extra)
    same(native, ran)
    assert native.done.returncode == 0
    launches = ran.process.launches
    assert launches.loc[~launches["instrumented"], "reason"].tolist() == []
    return ran


Warps = npt.NDArray[np.int64]
# Expected counts of each case's launches, from one launch of `trips`.
WARPS: dict[str, Callable[[Warps], list[Warps]]] = {
    "il": lambda once: [2 * once, 3 * once],
    "library": lambda once: [once],
    "module": lambda once: [once],
    "clone": lambda once: [once] * 3,
    "task": lambda once: [np.array([TRIPS[4]])] * 3,
    "svm": lambda once: [once] * 2,
    "generic": lambda once: [once],
    "questions": lambda once: [once],
}


def once_of(process: Process, values: Sequence[int] = TRIPS) -> Warps:
    """One launch of 640 work-items in groups of 64, cut into the kernel's warps."""
    kernel = int(process.launches["kernel_id"].iloc[0])
    return warps_model((640,), (64,), sub_group_of(process, kernel), values)


@pytest.mark.parametrize("counters", ["shared", "device"])
@pytest.mark.parametrize("case", WARPS)
def test_paths(
    paths: Path,
    modules: Mapping[str, Path],
    runtime: str,
    tmp_path: Path,
    case: str,
    counters: str,
) -> None:
    """GIVEN a way to a kernel WHEN profiled THEN output and every warp's counts are correct."""
    extra = {"MODULE": str(modules.get(case, ""))} | (ON_DEVICE if counters == "device" else {})
    process = ran_both_ways([paths, case], tmp_path / "p", extra).process
    assert process.gpu is not None
    counted = [warp_atomics(process.gpu, n).tolist() for n in process.launches["launch"]]
    assert counted == [warps.tolist() for warps in WARPS[case](once_of(process))]


def test_sub_groups(paths: Path, runtime: str, tmp_path: Path) -> None:
    """GIVEN operations over sub-groups THEN they give their native results."""
    assert len(ran_both_ways([paths, "sub_groups"], tmp_path / "p", {}).process.launches) == 2


def test_built_in_kernels(paths: Path, runtime: str, tmp_path: Path) -> None:
    """GIVEN a built-in kernel THEN it runs unchanged, counted with the reason."""
    native = natively([paths, "built_in"])
    if native.done.stdout.startswith(b"no "):
        pytest.skip(f"the device has {native.done.stdout.decode().strip()}")
    ran = layered([paths, "built_in"], tmp_path / "p")
    same(native, ran)
    assert ran.process.launches["reason"].tolist() == [
        "a kernel built into the device has no code to instrument"
    ]


def test_variables_of_a_program(paths: Path, runtime: str, tmp_path: Path) -> None:
    """GIVEN a program that keeps a variable between launches THEN all its kernels see the same
    one."""
    native = natively([paths, "variables"])
    if native.done.stdout.startswith(b"no "):
        pytest.skip(f"the device has {native.done.stdout.decode().strip()}")
    ran = layered([paths, "variables"], tmp_path / "p")
    same(native, ran)
    reasons = set(ran.process.launches["reason"])
    assert reasons == {"the program keeps the variable 'kept' between launches"}


@pytest.mark.parametrize("counters", ["shared", "device"])
def test_devices_of_one_context(paths: Path, runtime: str, tmp_path: Path, counters: str) -> None:
    """GIVEN two devices in a context and a thread for each THEN each warp of both is exact."""
    extra = {"POCL_DEVICES": "pthread basic"} | (ON_DEVICE if counters == "device" else {})
    process = ran_both_ways([paths, "devices"], tmp_path / "p", extra).process
    gpu, launches = process.gpu, process.launches
    assert gpu is not None
    assert launches.groupby("device").size().tolist() == [21, 21]
    once = once_of(process)
    for row in launches.itertuples():
        model = [32, 32] if row.kernel == "straight" else once.tolist()
        assert warp_atomics(gpu, row.launch).tolist() == model


ARRAYS = """
import dpnp
a = dpnp.arange(10000, dtype="f4")
for i in range(5):
    b = dpnp.sin(a) + a * i
    print(float(b.sum()))
m = (dpnp.arange(200 * 200) % 7).astype("f4").reshape(200, 200)
print(float((m @ m).sum()), float(dpnp.sort(m.ravel())[-1]))
"""


def test_sycl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a SYCL program in Python (unified shared memory) THEN all launches are instrumented."""
    pytest.importorskip("dpnp", reason="SYCL's arrays (dpnp, dpctl) are not installed")
    monkeypatch.setenv(RUNTIME_ENV, "intel")
    extra = {"ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}
    ran = ran_both_ways([sys.executable, "-c", ARRAYS], tmp_path / "p", extra)
    assert len(ran.process.launches) >= 10


def test_a_program_that_ends_before_its_launches(runtime: str, tmp_path: Path) -> None:
    """GIVEN launches in the queue at exit THEN a timer lets the program end as it does alone, and
    they have no end; a profile waits for their counts."""
    program = opencl_program("unfinished", tmp_path)
    timed, counted = (
        layered([program], tmp_path / mode, mode, extra={RUNTIME_ENV: runtime})
        for mode in ("time", "profile")
    )
    assert timed.done.returncode == counted.done.returncode == 7
    assert counted.process.launches["instrumented"].sum() == 21
    ends = timed.process.launches["dev_end"] > 0
    assert len(ends) == 21 and ends.iloc[0]
    assert runtime == "intel" or not ends.all()  # Intel's runtime finishes them itself


@pytest.mark.parametrize("way", ["async", "sync", "profile"])
def test_a_launching_thread_that_is_cancelled(tmp_path: Path, way: str) -> None:
    """GIVEN a thread that is cancelled while it waits in the runtime THEN the program goes on as
    natively; an event of a released queue has no times, as natively."""
    program = opencl_program("cancelled", tmp_path)
    mode = "profile" if way == "profile" else "time"
    ran = layered([program], tmp_path / "p", mode, way if mode == "time" else "async")
    assert ran.done.stdout == b"times of the event: -7\ncancelled: 1\n", ran.done.stderr
    assert ran.done.returncode == 7


@pytest.mark.parametrize("way", ["async", "sync", "profile"])
def test_a_kernel_that_a_callback_enqueues(runtime: str, tmp_path: Path, way: str) -> None:
    """GIVEN an event callback that launches a kernel for the first time, so that its counted kernel
    is built there THEN it runs, as natively, and is counted."""
    program = opencl_program("enqueued_in_callback", tmp_path)
    extra = {RUNTIME_ENV: runtime}
    mode = "profile" if way == "profile" else "time"
    ran = layered([program], tmp_path / "p", mode, way if mode == "time" else "async", extra)
    assert ran.done.stdout == natively([program], extra).done.stdout
    assert ran.done.returncode == 0
    if mode == "profile":
        assert ran.process.launches["reason"].tolist() == ["", ""]


@pytest.mark.parametrize("way", ["shared", "native"])
def test_a_kernel_that_waits_for_the_host(runtime: str, tmp_path: Path, way: str) -> None:
    """GIVEN a kernel that waits for what the host does after its launch WHEN the timer waits for
    each kernel THEN it gives up, the kernel runs as natively, and the run says so."""
    program = opencl_program("waits_for_host", tmp_path)
    extra = {RUNTIME_ENV: runtime}
    alone = natively([program, way], extra).done
    if alone.returncode == 77:
        pytest.skip("the device has no memory that both access meanwhile")
    ran = layered([program, way], tmp_path / "p", "time", "sync", extra)
    assert (alone.returncode, alone.stdout) == (0, b"1 6\n")
    assert (ran.done.returncode, ran.done.stdout) == (0, b"1 6\n")
    assert ran.process.meta["not_in_sync"] == "1"
    assert len(ran.process.launches) == 1


def test_an_xpuprof_within_another(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a timed script that profiles a program THEN the program ends as natively, and the inner
    run has its launches once: our layer is no driver of the inner one."""
    monkeypatch.setenv(RUNTIME_ENV, runtime)
    program = opencl_program("failed_launch", tmp_path)
    inner = xpuprof_line("profile", "-q", "--cpu", "none", "-o", tmp_path / "inner", "--", program)
    outer = xpuprof_text("time", "-q", "--repeat", "1", "-o", tmp_path / "outer", "--", *inner)
    assert outer.stdout == "1\n", outer.stderr
    (process,) = Run.open(tmp_path / "inner").profile.processes
    assert len(process.launches) == 5


def test_a_launch_that_fails(runtime: str, tmp_path: Path) -> None:
    """GIVEN a launch that waits for an event which fails THEN it has no counts and the reason, and
    no time on the device. Intel's runtime calls it complete, but does not stamp its start."""
    program = opencl_program("failed_launch", tmp_path)
    timed, counted = (
        layered([program], tmp_path / mode, mode, extra={RUNTIME_ENV: runtime})
        for mode in ("time", "profile")
    )
    assert timed.done.stdout == counted.done.stdout == b"1\n"
    launches = timed.process.launches
    assert (launches["dev_end"] > 0).tolist() == [True, True, False, True, True]
    if runtime == "system":
        reasons = counted.process.launches["reason"].tolist()
        assert reasons == ["", "", "it ended with an error", "", ""]
        assert counted.process.sums.uninstrumented == {"it ended with an error": 1}
