# SPDX-License-Identifier: Apache-2.0
"""Kernels of PoCL run natively under the CPU engines: results, faults, signals and the kernel cache
are the native run's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from tests.support.compile import opencl_program
from tests.support.cpu_programs import every_engine
from tests.support.layered import environment, layered, natively
from tests.support.paths import OPENCL_PROGRAMS
from tests.support.probes import needs_valgrind, require_cpu, require_intel
from tests.support.run import run
from tests.support.threads import files_executed
from tests.support.waiting import wait_for
from tests.support.written import written
from xpuprof.engines.base import Ahead, CpuEngine, CpuOptions, GpuOptions
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.native import native_file

pytestmark = [pytest.mark.opencl, needs_valgrind, pytest.mark.valgrind]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `native_kernels`."""
    return opencl_program("native_kernels", tmp_path_factory.mktemp("native"))


def profiled(
    engine: CpuEngine, program: Path, case: str, folder: Path, extra: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """One run under the OpenCL layer and the CPU engine."""
    with environment("profile", "async", folder) as env:
        line, more = engine.wrap([str(program), case], CpuOptions(), folder)
        translated = {"XPUPROF_TRANSLATED": engine.name}  # as the launcher does
        return run(line, environment=dict(env) | dict(more) | translated | extra)


@every_engine
# `basic` runs kernels on the thread that launches them, `pthread` on threads of its own.
@pytest.mark.parametrize(
    ("case", "device"),
    [
        *((c, d) for c in ("results", "alarms", "faults", "repairs", "deep", "interrupted",
                               "storm", "computes", "starts")
          for d in ("pthread", "basic")),
        *((c, "pthread") for c in ("meets", "exits", "killed", "forks")),
    ],
)  # fmt: skip
def test_as_natively(
    program: Path, tmp_path: Path, engine: CpuEngine, case: str, device: str
) -> None:
    """Output to the last bit of floating-point results and the device's name, exit code or signal
    are the native run's: subnormal numbers flushed or kept; the host's flag seen by a running
    kernel; signal handlers that run inside a kernel, or repair its fault; a stack that grows."""
    if case == "storm" and engine.name == "dynamorio":
        pytest.skip("DynamoRIO 11.91 loses and repeats such signals, also without a client")
    extra = {"POCL_DEVICES": device}
    expected = natively([program, case], extra).done
    done = profiled(engine, program, case, tmp_path / "profile", extra)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr


# As with an older libc on a processor that has AVX-512.
WITHOUT_AVX512 = "glibc.cpu.hwcaps=" + ",".join(
    f"-{part}" for part in ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD")
)


@every_engine
def test_programs_that_use_no_avx512_before_their_kernels(
    program: Path, tmp_path: Path, engine: CpuEngine
) -> None:
    extra = {"GLIBC_TUNABLES": WITHOUT_AVX512}
    expected = natively([program, "results"], extra).done
    done = profiled(engine, program, "results", tmp_path / "profile", extra)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr


@every_engine
@pytest.mark.parametrize("device", ["pthread", "basic"])
def test_kernels_run_outside_the_translator(
    program: Path, tmp_path: Path, engine: CpuEngine, device: str
) -> None:
    """GIVEN a kernel that waits THEN a thread executes the file that PoCL has compiled."""
    cache = tmp_path / "cache"
    cache.mkdir()
    extra = {"POCL_DEVICES": device, "POCL_CACHE_DIR": str(cache)}
    with environment("profile", "async", tmp_path / "profile") as env:
        line, more = engine.wrap([str(program), "interrupted"], CpuOptions(), tmp_path / "profile")
        translated = {"XPUPROF_TRANSLATED": engine.name}
        with subprocess.Popen(line, env=env | more | translated | extra) as process:
            assert wait_for(
                lambda: any(file.startswith(str(cache)) for file in files_executed(process.pid))
            )
            process.kill()


@pytest.mark.intel
@pytest.mark.parametrize(
    "case", ["meets", "alarms", "repairs", "deep", "interrupted", "exits", "storm"]
)
def test_as_natively_on_intels_runtime(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """GIVEN kernels that were generated in memory, for a lesser processor THEN output, exit code
    and signal are the native run's."""
    require_intel(monkeypatch)
    expected = natively([program, case]).done
    done = profiled(Valgrind(), program, case, tmp_path / "profile", {})
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr


@pytest.mark.intel
def test_intels_kernels_run_outside_the_translator(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a kernel with subnormal results, which code that Valgrind translates never flushes to
    zero THEN they are flushed as natively."""
    require_intel(monkeypatch)
    expected = natively([program, "tiny"]).done
    translated = natively(["valgrind", "-q", "--tool=none", program, "tiny"]).done
    done = profiled(Valgrind(), program, "tiny", tmp_path / "profile", {})
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout), done.stderr
    assert translated.stdout != expected.stdout


def test_kernel_cache_of_native_run_is_used(program: Path, tmp_path: Path) -> None:
    """GIVEN a cache that a run without the CPU engine filled THEN the profile compiles nothing."""
    cache = tmp_path / "cache"
    cache.mkdir()
    extra = {"POCL_CACHE_DIR": str(cache), "POCL_DEVICES": "pthread"}
    with environment("profile", "async", tmp_path / "counted") as env:
        run([program, "results"], environment=env | extra)
    filled = sorted(cache.rglob("*.so"))
    assert filled
    done = profiled(Valgrind(), program, "results", tmp_path / "profile", extra)
    assert done.returncode == 0
    assert sorted(cache.rglob("*.so")) == filled


def command_with(arguments: str, folder: Path) -> list[str]:
    """A program whose kernels have such arguments."""
    if arguments == "buffers":
        return [str(native_file("demo/particles")), "3", "256"]
    return [str(opencl_program("opencl_cases", folder)), "features"]


@pytest.mark.parametrize("arguments", ["buffers", "image and sampler"])
def test_counted_kernels_are_compiled_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    """GIVEN caches in which only the native run's kernels lie THEN a helper, not the translated
    program, compiles those that count, to the same files as without the CPU engine."""
    command = command_with(arguments, tmp_path)
    compiled, counted, made = {}, {}, []
    for way, translated in (("plain", {}), ("helped", {"XPUPROF_TRANSLATED": "valgrind"})):
        cache = tmp_path / way
        cache.mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"{way}-ours"))
        extra = {"POCL_CACHE_DIR": str(cache), **translated}
        expected = natively(command, extra).done
        own = set(cache.rglob("*.so"))
        if translated:
            line, more = Valgrind().wrap(command, CpuOptions(), tmp_path)
            extra |= more
        else:
            line = command
        with environment("profile", "async", tmp_path / f"{way}-run") as env:
            done = run(line, environment=env | extra)
        assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
        made = sorted(set(cache.rglob("*.so")) - own)
        compiled[way] = [file.relative_to(cache) for file in made]
        kept = (tmp_path / f"{way}-ours").glob("xpuprof/clinst/*")
        counted[way] = b"".join(entry.read_bytes() for entry in kept)
    assert compiled["helped"] == compiled["plain"] != []
    assert all(bytes(file) in counted["helped"] for file in made)


def kept_files(caches: Path) -> dict[str, str]:
    """The compiled files that helpers answered with, and the hashes of their contents then."""
    found: dict[str, str] = {}
    for entry in caches.glob("xpuprof/clinst/*"):
        lines = entry.read_bytes().split(b"\n\n")[0].split(b"\n")[1:]
        found |= {file: known for known, file in (line.decode().split(" ", 1) for line in lines)}
    return found


def compiled_in(cache: Path) -> list[Path]:
    """The programs and kernels that PoCL keeps, without the programs' hashes: that of a linked one
    differs between runs."""
    files = [f.relative_to(cache) for name in ("*.bc", "*.so") for f in cache.rglob(name)]
    return sorted(Path(*file.parts[2:]) for file in files)


def under_valgrind(
    command: list[str], folder: Path, cache: Path
) -> subprocess.CompletedProcess[bytes]:
    """A profile with this cache of the runtime's."""
    line, more = Valgrind().wrap(command, CpuOptions(), folder)
    translated = {"POCL_CACHE_DIR": str(cache), "XPUPROF_TRANSLATED": "valgrind"}
    with environment("profile", "async", folder / "run") as env:
        return run(line, environment=env | more | translated)


@pytest.mark.parametrize("case", ["analytic", "sizes", "parts", "binaries", "included", "images"])
def test_own_programs_are_compiled_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """GIVEN empty caches, and kernels that need no counters THEN helpers, not the translated
    program, compile the program and its kernels, to the files that a native run makes."""
    command = [str(opencl_program("own_builds", tmp_path)), case, str(tmp_path)]
    cache, alone = tmp_path / "cache", tmp_path / "alone"
    cache.mkdir()
    alone.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    expected = natively(command, {"POCL_CACHE_DIR": str(alone)}).done
    assert expected.returncode == 0, expected.stderr
    done = under_valgrind(command, tmp_path, cache)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert compiled_in(cache) == compiled_in(alone) != []
    by_helpers = kept_files(tmp_path / "ours")
    for file in [*cache.rglob("*.so"), *cache.rglob("*.bc")]:
        linked = case == "parts" and file.name == "program.bc"
        generic = file.parent.name == "0-0-0"  # of a binary, which the answer does not name
        known = by_helpers.get(str(file))
        assert linked or generic or known == sha256(file.read_bytes()).hexdigest(), file


def test_builds_that_fail_do_so_as_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a source with an error THEN error code and log are the native run's."""
    command = [str(opencl_program("own_builds", tmp_path)), "fails", str(tmp_path)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    (tmp_path / "cache").mkdir()
    expected = natively(command, {"POCL_CACHE_DIR": str(tmp_path / "alone")}).done
    assert expected.returncode == 0, expected.stderr
    done = under_valgrind(command, tmp_path, tmp_path / "cache")
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)


def test_helpers_leave_nothing_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a program that has PoCL keep nothing THEN its folder is as without the CPU engine."""
    command = command_with("buffers", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    monkeypatch.setenv("POCL_KERNEL_CACHE", "0")
    caches = [tmp_path / "plain", tmp_path / "helped"]
    for cache in caches:
        cache.mkdir()
    layered(command, tmp_path / "plain-run", extra={"POCL_CACHE_DIR": str(caches[0])})
    assert under_valgrind(command, tmp_path, caches[1]).returncode == 0
    left = [len([entry for entry in cache.iterdir() if entry.is_dir()]) for cache in caches]
    assert left[0] == left[1]


def test_what_the_native_run_compiled_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN the marks of a native run THEN its profile has nothing compiled once more: the service
    keeps no answer about the program's own code."""
    command = [str(opencl_program("own_builds", tmp_path)), "analytic", str(tmp_path)]
    ahead, cache = tmp_path / "a", tmp_path / "cache"
    ahead.mkdir()
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    options = GpuOptions(ahead=Ahead(ahead, "valgrind"))
    extra = {"POCL_CACHE_DIR": str(cache), "XPUPROF_TRANSLATED": "valgrind"}
    with environment("time", "async", tmp_path / "first", options) as env:
        expected = run(command, environment=env | extra)
    made = written(cache, "*.so")
    line, more = Valgrind().wrap(command, CpuOptions(), tmp_path)
    with environment("profile", "async", tmp_path / "profile", options) as env:
        done = run(line, environment=env | extra | more)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert written(cache, "*.so") == made != {}
    assert not kept_files(tmp_path / "ours")


def is_idle(service: psutil.Process) -> bool:
    """Whether it has nothing to prepare."""
    return not any(c.status() != psutil.STATUS_ZOMBIE for c in service.children(recursive=True))


@pytest.mark.parametrize("arguments", ["buffers", "image and sampler"])
def test_what_a_native_run_left_is_all_that_its_profile_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    """GIVEN the requests of a native run THEN the service compiles what they ask for, and the
    profile finds all its kernels in the caches."""
    command, ahead, cache = command_with(arguments, tmp_path), tmp_path / "a", tmp_path / "cache"
    ahead.mkdir()
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    extra = {"POCL_CACHE_DIR": str(cache), "XPUPROF_TRANSLATED": "valgrind"}
    options = GpuOptions(ahead=Ahead(ahead, "valgrind"))
    with environment("time", "async", tmp_path / "first", options) as env:
        expected = run(command, environment=env | extra)
    own = set(cache.rglob("*.so"))
    line, more = Valgrind().wrap(command, CpuOptions(), tmp_path)
    with environment("profile", "async", tmp_path / "profile", options) as env:
        (service,) = (c for c in psutil.Process().children() if f"--ahead={ahead}" in c.cmdline())
        assert wait_for(lambda: set(written(cache, "*.so")) > own and is_idle(service))
        ours, made = written(tmp_path / "ours", "clinst/*"), written(cache, "*.so")
        done = run(line, environment=env | extra | more)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert set(made) > own and len(ours) > 1
    assert written(tmp_path / "ours", "clinst/*") == ours
    assert written(cache, "*.so") == made


@pytest.mark.intel
@pytest.mark.parametrize("engine", [Valgrind(), DynamoRio()], ids=lambda engine: engine.name)
def test_what_a_native_run_left_on_intels_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: CpuEngine
) -> None:
    """GIVEN the requests of a native run THEN the service makes the binaries of the program and of
    its counted kernels, with the sub-groups of the processor that the engine shows, and the profile
    asks for nothing else."""
    require_intel(monkeypatch)
    require_cpu(engine)
    command, ahead = command_with("buffers", tmp_path), tmp_path / "a"
    ahead.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    options = GpuOptions(ahead=Ahead(ahead, engine.name))
    with environment("time", "async", tmp_path / "first", options) as env:
        expected = run(command, environment=env)
    line, more = engine.wrap(command, CpuOptions(), tmp_path)
    with environment("profile", "async", tmp_path / "profile", options) as env:
        (service,) = (c for c in psutil.Process().children() if f"--ahead={ahead}" in c.cmdline())
        # The program's own binary, its instrumented module and that one's binary.
        assert wait_for(
            lambda: len(written(tmp_path / "ours", "clinst/*")) > 2 and is_idle(service)
        )
        kept = written(tmp_path / "ours", "clinst/*")
        done = run(line, environment=env | {"XPUPROF_TRANSLATED": engine.name} | more)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert written(tmp_path / "ours", "clinst/*") == kept


def test_requests_above_the_limit_of_file_sizes_are_left_out(tmp_path: Path) -> None:
    """GIVEN a limit that a request exceeds THEN the program is not ended by SIGXFSZ."""
    pytest.importorskip("pyopencl")
    command = [sys.executable, OPENCL_PROGRAMS / "limited.py"]
    expected = natively(command).done
    assert expected.returncode == 0, expected.stderr
    (tmp_path / "ahead").mkdir()
    options = GpuOptions(ahead=Ahead(tmp_path / "ahead", "valgrind"))
    with environment("time", "async", tmp_path / "first", options) as env:
        done = run(command, environment=env)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert not any(file.read_bytes() for file in (tmp_path / "ahead").iterdir())


@pytest.mark.parametrize(
    ("filters", "prepared"),
    [([], True), (["--kernels", "2-"], False), (["--window", "2-"], False)],
)
def test_only_the_first_run_leaves_requests(
    tmp_path: Path, filters: list[str], prepared: bool
) -> None:
    """The folder for requests exists while `run` needs it, and only where every launch counts: the
    others need not be compiled."""
    say = f'echo "$XPUPROF_OPENCL_AHEAD"; exec {native_file("demo/particles")} 3 256'
    command = [sys.executable, "-m", "xpuprof", "run", "--cpu", "valgrind", "--repeat", "1"]
    done = run([*command, *filters, "-o", tmp_path / "run", "--", "sh", "-c", say])
    assert done.returncode == 0, done.stderr
    place, *_ = done.stdout.decode().splitlines()
    assert bool(place) == prepared
    assert not Path(place or "none").exists()
    timed = (tmp_path / "run" / "time-0" / "stdout").read_text()
    assert timed.splitlines()[0] == ""
