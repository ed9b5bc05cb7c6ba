# SPDX-License-Identifier: Apache-2.0
"""The instrumenter as a service: its messages, its cache, and how it starts and ends."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.clinst import POCL, SPIR_OPTIONS, find_device, program
from tests.support.probes import require_intel
from tests.support.waiting import wait_for
from tests.support.written import written
from xpuprof.engines.gpu.opencl import BUILDER, runtime_environment

MAGIC = 0x31495058
SOURCE, SPIRV, BITCODE = range(3)
BINARY, UNCHANGED, TO_SPIRV = 8, 16, 1
PROGRAM = b"kernel void k(global int *p, int n) { if (n > 3) p[get_global_id(0)] = N; }"


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def request(
    payload: bytes,
    options: bytes = b"-DN=7",
    form: int = SOURCE,
    headers: dict[bytes, bytes] | None = None,
    flags: int = 0,
    device: dict[bytes, bytes] | None = None,
    output: int = 0,
) -> bytes:
    """A request of one part, packed from the words of clinst_protocol.h."""
    part = struct.pack("<I", form) + text(payload) + text(options)
    part += struct.pack("<I", len(headers or {}))
    for name, content in (headers or {}).items():
        part += text(name) + text(content)
    part += struct.pack("<I", 0)
    features = {b"version": b"120"} if device is None else device
    head = struct.pack("<IIII", MAGIC, flags, output, len(features))
    head += b"".join(text(word) for pair in features.items() for word in pair)
    return head + struct.pack("<I", 1) + part


class Response:
    """Reason, module and the kernels' heads of a response."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        assert self.number() == MAGIC
        self.reason, self.module = self.text(), self.text()
        self.kernels = []
        for _ in range(self.number()):
            name, n_args, n_blocks = self.text(), self.number(), self.number()
            self.at += n_blocks * (4 + 2 * 12)
            n_probes, _ = self.number(), self.number()
            assert self.number() == n_blocks
            for _ in range(n_blocks):
                terms = self.number()
                self.at += 8 * terms
            nodes = self.number()
            self.at += 28 * nodes
            outputs = self.number()
            self.at += 12 * outputs
            accesses = self.number()
            assert accesses == 0  # none are recorded unless asked for
            assert self.number() == self.number() == 0
            self.kernels.append((name.decode(), n_args, n_blocks, n_probes))
        self.included = [self.text() for _ in range(self.number())]
        self.log, self.computes_only, self.sub_groups = self.text(), self.number(), self.text()
        assert self.at == len(data)

    def number(self) -> int:
        self.at += 4
        return struct.unpack_from("<I", self.data, self.at - 4)[0]

    def text(self) -> bytes:
        size = struct.unpack_from("<Q", self.data, self.at)[0]
        self.at += 8 + size
        return self.data[self.at - size : self.at]


def ask(path: Path, message: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(str(path))
        peer.sendall(message)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while more := peer.recv(1 << 16):
            answer += more
        return answer


@contextmanager
def serving(
    path: Path, cache_home: Path, log: Path, *options: str | Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A running service; its output goes to the log."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache_home)}
    with log.open("ab") as said:
        process = subprocess.Popen(
            [program(), "--serve", path, *options], env=environment, stderr=said, cwd=path.parent
        )
    assert wait_for(path.exists)
    yield process
    process.terminate()
    assert process.wait(10) == 0
    assert not path.exists()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """A running service with its own cache: (socket, process, cache folder)."""
    path = tmp_path / "socket"
    with serving(path, tmp_path / "cache", tmp_path / "log") as process:
        yield path, process, tmp_path / "cache" / "xpuprof" / "clinst"


def test_a_program_is_instrumented(server: Any) -> None:
    path, _, _ = server
    response = Response(ask(path, request(PROGRAM)))
    assert response.reason == b""
    assert response.module[:4] == b"BC\xc0\xde"
    assert response.kernels == [("k", 2, 3, 1)]


def test_headers_come_with_the_request(server: Any) -> None:
    path, _, _ = server
    source = b'#include "sub/n.h"\n' + PROGRAM
    response = Response(ask(path, request(source, b"", headers={b"sub/n.h": b"#define N 3\n"})))
    assert not response.reason and response.kernels
    response = Response(ask(path, request(source, b"", headers={b"../n.h": b"#define N 3\n"})))
    assert b"../n.h" in response.reason


def test_an_option_with_blanks_is_quoted(server: Any) -> None:
    path, _, _ = server
    response = Response(ask(path, request(PROGRAM, b' -D "N=(1 + 2)"  -DUNUSED ')))
    assert not response.reason


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (request(b"kernel void k( {"), b"do not compile"),
        (request(PROGRAM, b"-cl-no-such-option -DN=1"), b"-cl-no-such-option"),
        (request(b"\x03\x02\x23\x07" + b"junk" * 8, form=SPIRV), b"gave up"),
        (request(b"BC\xc0\xde" + b"junk" * 8, form=BITCODE), b"bitcode"),
        (request(PROGRAM, form=9), b"unknown form"),
        (b"GET / HTTP/1.1\r\n\r\n" + bytes(40), b"foreign"),
        (struct.pack("<III", MAGIC, 0, 0) + b"\xff" * 8, b"in the middle"),
        (request(PROGRAM) + b"x", b"after its end"),
    ],
    ids=["syntax", "option", "SPIR-V", "bitcode", "form", "magic", "length", "more"],
)
def test_bad_programs_and_messages_are_answered(server: Any, message: Any, says: Any) -> None:
    """Each gets a reason, and the service continues."""
    path, _, _ = server
    response = Response(ask(path, message))
    assert says in response.reason
    assert not Response(ask(path, request(PROGRAM))).reason


def test_a_request_that_is_cut_short_does_no_harm(server: Any) -> None:
    path, _, _ = server
    assert b"in the middle" in Response(ask(path, request(PROGRAM)[:40])).reason
    assert not Response(ask(path, request(PROGRAM))).reason


def test_results_are_cached_and_bad_entries_ignored(server: Any) -> None:
    path, _, cache = server
    first = ask(path, request(PROGRAM))
    (entry,) = cache.iterdir()
    good = entry.read_bytes()
    assert ask(path, request(PROGRAM)) == first
    # To prove that the entry is used, replace it by another valid one.
    ask(path, request(PROGRAM.replace(b"void k", b"void other")))
    (other,) = set(cache.iterdir()) - {entry}
    entry.write_bytes(other.read_bytes())
    assert Response(ask(path, request(PROGRAM))).kernels[0][0] == "other"
    assert ask(path, request(PROGRAM, flags=1)) == first
    for damaged in (b"", good[:100], good[:-1], good[:-1] + bytes([good[-1] ^ 1])):
        entry.write_bytes(damaged)
        assert ask(path, request(PROGRAM)) == first
        assert entry.read_bytes() == good


def other_owner(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


def behind_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


PREPARED = {
    "ours": ("", lambda path: None, ""),
    "entry of another user": ("entry", other_owner, "belongs to user 12345"),
    "entry open to all": ("entry", lambda path: path.chmod(0o666), "other users may write"),
    "entry behind a link": ("entry", behind_a_link, "is a symbolic link"),
    "folder of another user": ("clinst", other_owner, "belongs to user 12345"),
    "folder open to all": ("clinst", lambda path: path.chmod(0o1777), "other users may write"),
    "folder open to the group": ("xpuprof", lambda path: path.chmod(0o770), "other users may"),
    "folder behind a link": ("xpuprof", behind_a_link, "is a symbolic link"),
}


@pytest.mark.parametrize("case", PREPARED)
def test_only_a_cache_of_our_own_is_believed(tmp_path: Path, case: Any) -> None:
    """GIVEN a valid entry with false counts THEN it is used only where no other user can have
    written it; the log names what was refused."""
    path, log, folder = tmp_path / "socket", tmp_path / "log", tmp_path / "cache/xpuprof/clinst"
    with serving(path, tmp_path / "cache", log):
        right = ask(path, request(PROGRAM))
        (entry,) = folder.iterdir()
        assert entry.stat().st_mode & 0o777 == 0o600 and folder.stat().st_mode & 0o777 == 0o700
        ask(path, request(PROGRAM.replace(b"void k", b"void other")))
        (other,) = set(folder.iterdir()) - {entry}
        entry.write_bytes(other.read_bytes())
    which, prepare, refusal = PREPARED[case]
    prepare({"": entry, "entry": entry, "clinst": folder, "xpuprof": folder.parent}[which])
    with serving(path, tmp_path / "cache", log):
        answer = ask(path, request(PROGRAM))
    assert (answer == right) == bool(refusal)
    assert refusal in log.read_text() and bool(log.read_text()) == bool(refusal)


@pytest.mark.parametrize("relative", [False, True])
def test_a_changed_include_is_seen(server: Any, tmp_path: Path, relative: bool) -> None:
    path, _, _ = server
    (tmp_path / "include").mkdir()
    header = tmp_path / "include" / "n.h"
    options = b"-Iinclude" if relative else b"-I" + bytes(header.parent)
    device = {b"cwd": bytes(tmp_path)}
    message = request(b'#include "n.h"\n' + PROGRAM, options, device=device)
    header.write_text("#define N 1\n")
    first = ask(path, message)
    assert Response(first).included == [bytes(header)]
    assert ask(path, message) == first
    header.write_text("#define N 2\n")
    assert ask(path, message) != first


def test_many_callers_at_once(server: Any) -> None:
    path, _, _ = server
    messages = [request(PROGRAM, b"-DN=%d" % (n % 3)) for n in range(12)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda message: ask(path, message), messages))
    assert len(set(answers)) == 3 and not any(Response(a).reason for a in answers)


ENDLESS = (
    b"kernel void k(global int *p, local int *l) { while (l[0] == *(volatile global int *)p); }"
)


def launch(kernel: bytes, cache: Path) -> dict[bytes, bytes]:
    """The features of a launch on PoCL, whose own cache is in this folder."""
    _, device = find_device(POCL)
    cache.mkdir(exist_ok=True)
    return {
        b"launch:kernel": kernel,
        b"launch:device": device.name.encode(),
        b"launch:driver": device.driver_version.encode(),
        b"launch:options": " ".join(SPIR_OPTIONS).encode(),
        b"launch:offset": b"",
        b"launch:global": b"4 2",
        b"launch:local": b"2 2",
        b"env:POCL_CACHE_DIR": bytes(cache),
    }


BUILD = 4  # enum clinst_flag


def test_a_kernel_is_compiled_natively_and_never_runs(server: Any, tmp_path: Path) -> None:
    """GIVEN a launch of a kernel that would not end THEN PoCL compiles the kernel into its cache,
    once, and again only if the cache has lost it."""
    path, _, _ = server
    message = request(ENDLESS, b"", flags=BUILD, device=launch(b"k", tmp_path / "pocl"))
    assert not Response(ask(path, message)).reason
    (compiled,) = (tmp_path / "pocl").rglob("*.so")
    first = compiled.stat()
    ask(path, message)
    assert compiled.stat() == first
    compiled.unlink()
    ask(path, message)
    assert compiled.exists()


def builders(socket: Path) -> list[psutil.Process]:
    """The service's processes in which a runtime compiles."""
    named = f"{socket}-"
    return [p for p in psutil.process_iter(["cmdline"]) if named in str(p.info["cmdline"])]


def test_one_process_compiles_the_applications_own_programs(server: Any, tmp_path: Path) -> None:
    """GIVEN programs, one with an error THEN one process builds the others, none of its own is left
    behind, and a process that was killed is replaced."""
    path, service, _ = server
    device = launch(b"", tmp_path / "pocl") | {b"launch:options": b"", b"cwd": bytes(tmp_path)}
    facts = {k: v for k, v in device.items() if k != b"launch:kernel"}

    def build(source: bytes) -> int:
        message = request(source, b"", flags=BUILD | UNCHANGED, device=facts)
        assert not Response(ask(path, message)).reason
        return len(list((tmp_path / "pocl").rglob("program.bc")))

    assert build(b"kernel void a() {}") == 1
    first = builders(path)
    assert build(b"kernel void b() { unknown; }") == 1
    assert build(b"kernel void c() {}") == 2
    assert len(first) == 1 and builders(path) == first
    first[0].kill()
    assert wait_for(lambda: not builders(path))
    assert build(b"kernel void d() {}") == 3
    assert len(builders(path)) == 1
    service.terminate()
    service.wait(10)
    assert wait_for(lambda: not builders(path))


def test_what_several_ask_for_at_once_is_made_once(server: Any, tmp_path: Path) -> None:
    path, _, cache = server
    message = request(ENDLESS, b"", flags=BUILD, device=launch(b"k", tmp_path / "pocl"))

    def kept() -> dict[Path, tuple[int, int]]:
        ask(path, message)
        return written(cache)

    with ThreadPoolExecutor(4) as pool:
        each = [*pool.map(lambda _: kept(), range(4)), kept()]
    assert len(each[0]) == 2 and all(one == each[0] for one in each)


def test_a_kernel_whose_include_has_changed_is_compiled_again(server: Any, tmp_path: Path) -> None:
    path, _, _ = server
    header = tmp_path / "n.h"
    source = b'#include "n.h"\n' + ENDLESS.replace(b"l[0] ==", b"l[0] + N ==")
    options = b"-I" + bytes(tmp_path)
    message = request(source, options, flags=BUILD, device=launch(b"k", tmp_path / "pocl"))
    for number in (1, 2):
        header.write_text(f"#define N {number}\n")
        for _ in range(2):
            ask(path, message)
        assert len(list((tmp_path / "pocl").rglob("*.so"))) == number


KINDS = b"""
struct pair { int a; double b; };
kernel void k(global int *p, struct pair q, float3 v, uchar c, local double *l, sampler_t s,
              read_only image2d_t i, constant float *t, global struct pair *r) {
    if (p[0] + q.a > c + v.x + t[1] + read_imagef(i, s, (int2)(0)).x) { l[0] = q.b; r->b = l[0]; }
}
"""


def test_a_kernel_with_any_arguments_is_compiled_natively(server: Any, tmp_path: Path) -> None:
    path, _, _ = server
    ask(path, request(KINDS, b"", flags=BUILD, device=launch(b"k", tmp_path / "pocl")))
    assert len(list((tmp_path / "pocl").rglob("*.so"))) == 1


TWO = ENDLESS + b"kernel void straight(global int *p) { p[get_global_id(0)] = 1; }"


def test_requests_are_answered_ahead(tmp_path: Path) -> None:
    """GIVEN requests that a run left, one of them cut THEN the kernel that counts is compiled
    before anybody asks; one that need not count is not."""
    path, ahead, log = tmp_path / "socket", tmp_path / "ahead", tmp_path / "log"
    ahead.mkdir()
    kernels = {
        kernel: request(TWO, b"", flags=BUILD, device=launch(kernel, tmp_path / kernel.decode()))
        for kernel in (b"straight", b"k")
    }
    for number, message in enumerate([kernels[b"k"][:-9], *kernels.values()]):
        (ahead / f"{number:04}-1").write_bytes(message)
    with serving(path, tmp_path / "cache", log, "--ahead", ahead):
        assert wait_for(lambda: written(tmp_path / "k", "k.so"))
        compiled = written(tmp_path / "k", "k.so")
        assert not Response(ask(path, kernels[b"k"])).reason
        assert written(tmp_path / "k", "k.so") == compiled
    assert not list((tmp_path / "straight").rglob("*.so"))
    assert not log.read_text()


def test_a_compiler_that_was_killed_is_tried_again(server: Any, tmp_path: Path) -> None:
    path, process, _ = server
    message = request(ENDLESS, b"", flags=BUILD, device=launch(b"k", tmp_path / "pocl"))

    def compilers() -> list[psutil.Process]:
        started = psutil.Process(process.pid).children(recursive=True)
        return [child for child in started if child.name() == BUILDER]

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, path, message)
        assert wait_for(compilers)
        compilers()[0].kill()
        asked.result()
    assert not list((tmp_path / "pocl").rglob("k.so"))
    ask(path, message)
    assert list((tmp_path / "pocl").rglob("k.so"))


def test_a_program_that_fails_is_tried_once_ahead(tmp_path: Path) -> None:
    """GIVEN many launches of a program that cannot be instrumented THEN the other is compiled, and
    the log stays empty."""
    path, ahead, log = tmp_path / "socket", tmp_path / "ahead", tmp_path / "log"
    ahead.mkdir()
    facts = launch(b"k", tmp_path / "pocl")
    for number in range(200):
        facts[b"launch:global"] = b"%d 2" % (4 + 2 * number)
        faulty = request(b"kernel void k() { fault }", b"", flags=BUILD, device=facts)
        (ahead / f"{number:04}-1").write_bytes(faulty)
    good = request(TWO, b"", flags=BUILD, device=facts)
    (ahead / "9999-1").write_bytes(good)
    with serving(path, tmp_path / "cache", log, "--ahead", ahead):
        assert wait_for(lambda: written(tmp_path / "pocl", "k.so"), 10)
    assert not log.read_text()


def test_a_kernel_that_cannot_be_compiled_natively_is_tried_once(
    server: Any, tmp_path: Path
) -> None:
    path, _, cache = server
    facts = launch(b"k", tmp_path / "pocl") | {b"launch:driver": b"none"}
    message = request(ENDLESS, b"", flags=BUILD, device=facts)
    assert not Response(ask(path, message)).reason
    kept = written(cache)
    assert len(kept) == 2
    ask(path, message)
    assert written(cache) == kept


def test_the_service_ends_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    start = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", start, program(), "--serve", str(path)])
    assert wait_for(path.exists)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert wait_for(lambda: not path.exists())


def test_a_socket_that_cannot_be_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [program(), "--serve", tmp_path / "none" / "socket"], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cannot listen on" in done.stderr


def test_a_socket_below_a_long_path(tmp_path: Path) -> None:
    """GIVEN a socket path that is too long for an address THEN it is served, and removed at the
    end."""
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    with serving(folder / "socket", tmp_path / "cache", tmp_path / "log"):
        handle = os.open(folder, os.O_PATH)
        answer = ask(Path(f"/proc/self/fd/{handle}/socket"), request(PROGRAM))
        os.close(handle)
    assert not Response(answer).reason


@pytest.mark.intel
@pytest.mark.parametrize("calls", [b"", b'printf("%d", n);'])
def test_a_binary_is_made_natively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: bytes
) -> None:
    """GIVEN a program for Intel's runtime THEN its own and the instrumented one's binaries hold
    machine code, of which is known whether it only computes, and are kept."""
    device = for_intels_runtime(tmp_path, monkeypatch)
    path, text = tmp_path / "socket", PROGRAM.replace(b"if", calls + b" if")
    with serving(path, tmp_path / "cache", tmp_path / "log"):
        for flags in (BINARY | UNCHANGED, BINARY):
            message = request(text, flags=flags, device=device, output=TO_SPIRV)
            first = ask(path, message)
            answer = Response(first)
            assert not answer.reason, answer.reason
            assert answer.module.startswith(b"\x7fELF") and b".ocl.obj" in answer.module
            assert answer.computes_only == (not calls) and b"Done." in answer.log
            assert answer.sub_groups.startswith(b"k:" if flags & UNCHANGED else b"")
            assert ask(path, message) == first
        failing = request(b"kernel void k(", flags=BINARY | UNCHANGED, device=device)
        assert b"does not build" in Response(ask(path, failing)).reason


@pytest.mark.intel
def test_binaries_are_made_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN the request for a program's binary, and one for the counted program's for each of two
    kernels, of which the second counts THEN both binaries are made before anybody asks, with the
    program's own sub-groups."""
    device = for_intels_runtime(tmp_path, monkeypatch)
    path, ahead, log = tmp_path / "socket", tmp_path / "ahead", tmp_path / "log"
    ahead.mkdir()

    def message(flags: int, more: dict[bytes, bytes]) -> bytes:
        facts = dict(sorted((device | more).items()))
        return request(TWO, b"", flags=flags, device=facts, output=TO_SPIRV)

    def complete() -> set[Path]:
        """Drafts have a suffix."""
        return {p for p in written(tmp_path / "cache", "xpuprof/clinst/*") if not p.suffix}

    left = [message(BINARY | UNCHANGED, {})]
    for kernel in (b"straight", b"k"):
        more = {b"launch:kernel": kernel, b"launch:own": b"0000-1", b"sub_group_sizes": b""}
        left.append(message(BINARY, more))
    for number, one in enumerate(left):
        (ahead / f"{number:04}-1").write_bytes(one)
    with serving(path, tmp_path / "cache", log, "--ahead", ahead):
        # The own binary, the instrumented program and its binary.
        assert wait_for(lambda: len(complete()) == 3)
        made = complete()
        own = Response(ask(path, left[0]))
        assert b"straight:" in own.sub_groups and own.module
        counted = Response(ask(path, message(BINARY, {b"sub_group_sizes": own.sub_groups})))
        assert counted.module.startswith(b"\x7fELF")
        # The last one's maker may still be at it, so it may have been written again.
        assert complete() == made
    assert not log.read_text()


def for_intels_runtime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    """Features of a request for a binary of Intel's runtime, which the service then finds."""
    require_intel(monkeypatch)
    for name, value in runtime_environment(folder).items():
        monkeypatch.setenv(name, value)
    device = {b"version": b"300", b"cwd": bytes(folder), b"launch:options": b""}
    return device | {b"launch:driver": driver_version(folder).encode()}


def driver_version(folder: Path) -> str:
    """What the runtime calls its version; asked in a process of its own, which has one runtime."""
    asked = "import pyopencl; print(pyopencl.get_platforms()[0].get_devices()[0].driver_version)"
    pytest.importorskip("pyopencl")
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, cwd=folder)
    return done.stdout.strip()
