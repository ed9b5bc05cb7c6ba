# SPDX-License-Identifier: Apache-2.0
"""Under every engine the program behaves as it does alone: output, exit code and signal. Each row
runs one case natively and under every engine and timer side by side, in separate folders."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.compile import compile_files
from tests.support.paths import ROOT
from tests.support.run import xpuprof_line
from tests.support.waiting import wait_for
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.valgrind import Valgrind

MODES = {
    "none": ("profile", "--cpu", "none"),
    "valgrind": ("profile", "--cpu", "valgrind", "--gpu", "none"),
    "dynamorio": ("profile", "--cpu", "dynamorio", "--gpu", "none"),
    "native start-up": ("profile", "--cpu", "dynamorio"),
    "timer": ("time", "--repeat", "1", "--timer", "sync"),
}
DYNAMORIO = ("dynamorio", "native start-up")
ENGINES = {"valgrind": Valgrind, **dict.fromkeys(DYNAMORIO, DynamoRio)}
NOT_UTF8 = os.fsdecode(b"caf\xe9")


@dataclass(frozen=True)
class Case:
    """One row: `program` is a case of matrix.c, or a command that starts with `sh`."""

    name: str
    program: tuple[str, ...]
    around: tuple[str, ...] = ()
    """A command in front of everything, such as one that sets a limit."""
    environment: dict[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    folder: str = "work"
    root: bool = False
    but: tuple[str, ...] = ()
    """Engines that cannot keep this promise (docs/guarantees.md tells why)."""


def limit(option: str) -> tuple[str, ...]:
    return ("sh", "-c", f'ulimit {option}; exec "$@"', "sh")


IGNORING = ("sh", "-c", "trap '' HUP USR1 CHLD TERM; exec \"$@\"", "sh")
KILLED = "sh -c 'kill -HUP $$; echo $?'"
ARGUMENTS = """ulimit -S -s 400
seq 30000 | xargs echo | wc -w
for size in 60000 100000 120000 150000; do
  /bin/true $(seq 1000000 $((1000000 + size / 16))) 2> /dev/null
  echo $?
done"""
STACKS = "ulimit -S -s 2000; sh -c 'ulimit -s'; ulimit -S -s 4000; exec sh -c 'ulimit -s'"
DESCRIPTORS = """ulimit -n 256; ulimit -n; ulimit -Hn; sh -c 'ulimit -n'
ulimit -S -n 100; ulimit -Hn; env env sh -c 'ulimit -n; exec sh -c "ulimit -n"'"""
LIMITED = "ulimit -n; env env sh -c 'ulimit -n'"

CASES = [
    *(Case(f"exit code {code}", ("code", code)) for code in ("0", "1", "126", "127", "255")),
    *(
        Case(f"ended by {name.name}", ("signal", str(int(name))))
        for name in (
            signal.SIGTERM,
            signal.SIGKILL,
            signal.SIGINT,
            signal.SIGQUIT,
            signal.SIGUSR1,
            signal.SIGSTKFLT,
        )
    ),
    Case("ended by a real-time signal", ("signal", "40")),
    Case("a signal that does nothing", ("signal", str(int(signal.SIGWINCH)))),
    Case("abort", ("signal", str(int(signal.SIGABRT)))),
    Case("a fault", ("fault",)),
    Case("an instruction that is not for programs", ("privileged",)),
    Case("a signal that was handled once", ("end-after-handler",)),
    Case("a handler that is left by a jump", ("leave-handler",)),
    Case("a closed pipe", ("pipe",)),
    Case("_exit", ("_exit",)),
    Case("forks", ("forks",)),
    Case("a grandchild without parent", ("grandchild",)),
    Case("a killed child", ("killed-child",)),
    Case("vfork", ("vfork",)),
    Case("spawn and system", ("spawn",)),
    Case("exec", ("exec",)),
    Case("threads", ("threads",)),
    Case("exit from a thread", ("thread-exit",)),
    Case("fork in a thread", ("thread-forks",)),
    Case("a first thread that ends before the others", ("first-thread",)),
    Case("its own file", ("itself",)),
    Case("a pipeline", ("sh", "-c", "seq 100000 | sort -rn | head -2; exit 3")),
    Case("a background job", ("sh", "-c", "(sleep 0.05; echo late) & wait; echo done")),
    Case("all descriptors closed", ("close-all", "own")),
    Case("all descriptors replaced", ("replace-all", "own")),
    Case("open descriptors", ("open-descriptors",)),
    Case("a child that closes its output", ("closes-output",)),
    Case("few descriptors", ("threads",), limit("-n 64")),
    Case("no descriptor left", ("no-descriptor",), limit("-n 64"), but=("valgrind", *DYNAMORIO)),
    Case("no output", ("arguments", "x"), ("sh", "-c", 'exec "$@" >&- 2>&-', "sh")),
    Case("no streams", ("own-file", "own"), ("sh", "-c", 'exec "$@" <&- 2>&-', "sh")),
    Case("small files only", ("threads",), limit("-f 2000")),
    Case("its own file limit", ("file-size", "own")),
    Case("its own core limit", ("fault",), limit("-c 0")),
    Case("code written through a second mapping", ("second-mapping",)),
    Case("code in many mappings", ("scattered-mappings",)),
    Case("code read over code", ("read-code",)),
    Case("a division that faults", ("division",)),
    Case("arguments beyond its own stack limit", ("sh", "-c", ARGUMENTS)),
    Case("a large stack", ("stack", "30"), limit("-S -s 40000")),
    Case("a stack without limit", ("stack", "30"), limit("-S -s unlimited")),
    Case("its own stack limit", ("stack-limit", "30")),
    Case("stack limits of what it executes", ("sh", "-c", STACKS)),
    Case("limits on descriptors of what it executes", ("sh", "-c", DESCRIPTORS), but=DYNAMORIO),
    Case("a limit on descriptors", ("sh", "-c", LIMITED), limit("-S -n 1024"), but=DYNAMORIO),
    Case(
        "hardly any descriptors", ("sh", "-c", "ulimit -S -n 5; exec cat /dev/null"), but=DYNAMORIO
    ),
    Case("a thread that waits for I/O rings", ("ring",)),
    Case("one that blocks every signal meanwhile", ("masked-ring",), but=DYNAMORIO),
    Case("a signal that it queues to itself", ("queue",)),
    Case("a stack that overflows", ("stack-overflow",)),
    Case("a small stack that overflows", ("stack-overflow",), limit("-S -s 512")),
    Case("a large data segment", ("data-segment",)),
    Case("a data segment that loses code", ("code-on-heap",)),
    Case("chdir", ("folder", "/tmp")),
    Case("chroot", ("root", "."), root=True),
    Case("no-temporary-folder", ("sh", "-c", "TMPDIR=/nowhere cat /proc/self/cmdline")),
    Case("setuid", ("privileges",), root=True),
    Case(
        "setpriv",
        ("sh", "-c", "exec setpriv --reuid 65534 --clear-groups id -u"),
        root=True,
    ),
    Case("variables of what it executes", ("variables",)),
    Case("no environment", ("environment",)),
    Case("signals left as they are", ("dispositions",)),
    Case(
        "ignored signals stay ignored",
        ("dispositions",),
        IGNORING,
    ),
    Case("ignored in programs it executes", ("sh", "-c", f"trap '' HUP; {KILLED}; exec {KILLED}")),
    Case("ignored by all it executes", ("sh", "-c", f"{KILLED}; exec {KILLED}"), IGNORING),
    Case("children of which it wants no news", ("children",)),
    Case("children of which nobody wants news", ("children",), IGNORING),
    Case("process group and session", ("groups",)),
    Case("input", ("copy",), stdin=bytes(range(256)) * 300),
    Case("its own name", ("sh", "-c", "echo $0; no-such-command"), but=DYNAMORIO),
    Case("a child's name", ("sh", "-c", "exec bash -c \"exec -a cat sh -c 'echo \\$0'\"")),
    Case("odd arguments", ("arguments", "", " ", "a\nb", "--force", "-o", "*", NOT_UTF8)),
    Case("bytes in the C locale", ("arguments", NOT_UTF8), environment={"LC_ALL": "C"}),
    *(
        Case(
            f"a locale that is not {name}",
            ("sh", "-c", "env | grep -a ^LC_; printf 'a\\303\\244' | wc -m"),
            ("env", "-u", "LC_ALL", "-u", "LANG", *words),
        )
        for name, words in {"given": ("-u", "LC_CTYPE"), "UTF-8": ("LC_CTYPE=C",)}.items()
    ),
    Case("an unknown locale", ("arguments", "ä"), environment={"LC_ALL": "xx_YY.ISO-8859-1"}),
    Case("a variable of bytes", ("sh", "-c", 'echo "$ODD"'), environment={"ODD": NOT_UTF8}),
    Case("a folder with spaces", ("own-file", "own"), folder="with  spaces 'and' \"quotes\" %p"),
    Case("a folder with a newline", ("own-file", "own"), folder="two\nlines", but=DYNAMORIO),
    Case("a folder of bytes", ("arguments", "x"), folder=NOT_UTF8),
    Case("a folder of 800 bytes", ("own-file", "own"), folder="/".join(["x" * 120] * 5)),
    Case("a long folder", ("own-file", "own"), folder="/".join(["x" * 120] * 8), but=("valgrind",)),
    Case("a long TMPDIR", ("arguments", "x"), environment={"TMPDIR": "long"}),
    Case("no home, no cache", ("code", "4"), environment={"HOME": "nowhere", "XDG_CACHE_HOME": ""}),
]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with all cases, where every user can reach it."""
    folder = tmp_path_factory.mktemp("matrix")
    return compile_files(
        [ROOT / "tests/integration/programs/matrix.c"], folder / "matrix", "-lpthread"
    )


@dataclass(frozen=True)
class Outcome:
    """A program's visible result."""

    status: int
    stdout: bytes
    stderr: bytes


def modes(but: tuple[str, ...] = ()) -> list[str]:
    """The modes available on this machine."""
    here = [m for m in MODES if m not in ENGINES or ENGINES[m]().probe().available]
    return [m for m in here if m not in but]


def environment_of(case: Case, folder: Path) -> dict[str, str]:
    changed = dict(case.environment)
    if "HOME" in changed:
        changed["HOME"] = str(folder / changed["HOME"])  # which somebody may make
    if "TMPDIR" in changed:
        changed["TMPDIR"] = str(folder / ("t" * 150))
        Path(changed["TMPDIR"]).mkdir()
    return os.environ | {"PYTHONPATH": str(ROOT)} | changed


def outcome(case: Case, program: list[str], mode: str, folder: Path) -> Outcome:
    """The case in one mode; `native` is without xpuprof."""
    place = folder / mode / case.folder
    place.mkdir(parents=True)
    ours = [] if mode == "native" else xpuprof_line(*MODES[mode], "-q", "-o", place / "run", "--")
    done = subprocess.run(
        [*case.around, *ours, *program],
        input=case.stdin,
        capture_output=True,
        cwd=place,
        env=environment_of(case, folder / mode),
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.mark.valgrind
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_program_behaves_as_it_does_alone(case: Case, matrix: Path, tmp_path: Path) -> None:
    """GIVEN a program WHEN it runs under each engine and timer THEN nothing seen of it differs."""
    if case.root and os.getuid() != 0:
        pytest.skip("only root may do this")
    program = list(case.program)
    if program[0] != "sh":
        program = [str(matrix), *program]
    compare(case, program, tmp_path)


def compare(case: Case, program: list[str], tmp_path: Path) -> None:
    wanted = ["native", *modes(case.but)]
    with ThreadPoolExecutor(2) as pool:
        seen = dict(
            zip(
                wanted,
                pool.map(lambda mode: outcome(case, program, mode, tmp_path), wanted),
                strict=True,
            )
        )
    assert seen == dict.fromkeys(wanted, seen["native"])


WAITS = (
    *("once", "queued", "in-vain", "pending", "thread", "later-thread", "all", "child"),
    *("suspended", "interrupted", "restarted", "set-again", "rest", "sent", "again"),
    "undisturbed",
)


@pytest.fixture(scope="module")
def waited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("waited") / "waited"
    source = ROOT / "tests/integration/programs/waited.c"
    return compile_files([source], program, "-lpthread")


@pytest.mark.valgrind
@pytest.mark.parametrize("what", WAITS)
def test_signals_that_the_program_waits_for(what: str, waited: Path, tmp_path: Path) -> None:
    """GIVEN a program that blocks signals and waits for them, or whose calls they interrupt THEN
    nothing seen of it differs."""
    compare(Case(what, ()), [str(waited), what], tmp_path)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("terminal") / "terminal"
    return compile_files([ROOT / "tests/integration/programs/terminal.c"], program)


@pytest.mark.valgrind
@pytest.mark.parametrize("what", ["blocked", "ignored", "default", "spawned"])
def test_terminals_of_processes_in_the_background(
    what: str, terminal: Path, tmp_path: Path
) -> None:
    """GIVEN a program whose child, in the background, sets the terminal, reads and writes there
    while it refuses the signals that this raises, or not THEN nothing seen of it differs."""
    compare(Case(what, ()), [str(terminal), what], tmp_path)


@pytest.mark.valgrind
@pytest.mark.parametrize("what", ["execute", "spawn", "forked", "executing"])
def test_signals_where_a_program_executes_another(what: str, waited: Path, tmp_path: Path) -> None:
    """GIVEN signals that are blocked or pending, or come, where a process executes another program
    THEN they are so there, or end it, as natively. DynamoRIO loses what is pending, and some that
    come there."""
    but = DYNAMORIO if what in ("execute", "executing") else ()
    compare(Case(what, (), but=but), [str(waited), what], tmp_path)


# ---- signals from outside ------------------------------------------------------------------------


@dataclass
class Live:
    """A running program, with its own session and terminal."""

    process: subprocess.Popen[bytes]
    terminal: int

    def process_only(self, number: int) -> None:
        self.process.send_signal(number)

    def group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def both(self, number: int) -> None:
        """As `timeout` does."""
        self.process_only(number)
        self.group(number)

    def key(self, number: int) -> None:
        os.write(self.terminal, b"\x03" if number == signal.SIGINT else b"\x1c")


def _as_from_a_terminal() -> None:
    """The new session gets the terminal, and no signal is ignored: nohup and background jobs have
    pytest ignore some, which programs inherit."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def live(line: list[str], cwd: Path) -> Live:
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        line,
        stdin=other_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
        preexec_fn=_as_from_a_terminal,
    )
    os.close(other_end)
    return Live(process, terminal)


SENT: list[tuple[Callable[[Live, int], None], int]] = [
    *((Live.process_only, n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)),
    *((Live.process_only, n) for n in (signal.SIGQUIT, signal.SIGVTALRM, signal.SIGRTMIN + 4)),
    *((Live.group, n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)),
    *((Live.group, n) for n in (signal.SIGUSR1, signal.SIGCONT, signal.SIGWINCH)),
    *((Live.key, n) for n in (signal.SIGINT, signal.SIGQUIT)),
]


@pytest.mark.valgrind
@pytest.mark.parametrize(
    ("send", "number"),
    SENT,
    ids=[
        f"{s.__name__}-{signal.Signals(n).name}" if n < 32 else f"{s.__name__}-{n}" for s, n in SENT
    ],
)
def test_a_signal_arrives_once(
    send: Callable[[Live, int], None], number: int, matrix: Path, tmp_path: Path
) -> None:
    """GIVEN a program that counts signals WHEN one is sent to it, to its group or by its terminal
    THEN it arrives once, under each engine."""
    lines = {
        mode: xpuprof_line(*MODES[mode], "-q", "-o", tmp_path / mode, "--", matrix, "count")
        for mode in modes(but=DYNAMORIO)
    }
    all_of_them = {mode: live(line, tmp_path) for mode, line in lines.items()}
    for program in all_of_them.values():
        assert program.process.stdout is not None
        assert program.process.stdout.readline() == b"ready\n"
        send(program, number)
    seen = {}
    for mode, program in all_of_them.items():
        out, err = program.process.communicate(timeout=60)
        os.close(program.terminal)
        seen[mode] = (out, err)
    assert seen == dict.fromkeys(seen, (b"%d:1 \n" % number, b""))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGALRM])
def test_a_signal_that_ends_the_program_ends_us(number: int, tmp_path: Path) -> None:
    line = xpuprof_line(*MODES["none"], "-q", "-o", tmp_path / "run", "--")
    ours = live([*line, "sh", "-c", "echo ready; exec sleep 60"], tmp_path)
    assert ours.process.stdout is not None and ours.process.stdout.readline() == b"ready\n"
    ours.group(number)
    assert ours.process.wait(timeout=60) == -number
    os.close(ours.terminal)


@pytest.mark.parametrize("send", [Live.process_only, Live.group])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_stop_that_the_program_handles_once_does_not_end_us(
    send: Callable[[Live, int], None], number: int, matrix: Path, tmp_path: Path
) -> None:
    """GIVEN a program whose handler is gone after one signal WHEN it handles that and ends by
    itself THEN we return its exit code."""
    line = xpuprof_line(*MODES["timer"], "-q", "-o", tmp_path / "run", "--", matrix, "handle-once")
    ours = live(line, tmp_path)
    assert ours.process.stdout is not None and ours.process.stdout.readline() == b"ready\n"
    send(ours, number)
    out, _ = ours.process.communicate(timeout=60)
    os.close(ours.terminal)
    assert (out, ours.process.returncode) == (b"handled\n", 0)


def test_a_stopped_program_stops_us(tmp_path: Path) -> None:
    """GIVEN a program that stops itself WHEN xpuprof gets SIGCONT THEN the program continues."""
    line = xpuprof_line(*MODES["none"], "-q", "-o", tmp_path / "run", "--")
    ours = live([*line, "sh", "-c", "kill -STOP $$; echo on"], tmp_path)
    _, status = os.waitpid(ours.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    ours.process_only(signal.SIGCONT)
    out, _ = ours.process.communicate(timeout=60)
    os.close(ours.terminal)
    assert (out, ours.process.returncode) == (b"on\n", 0)


STOPPED = {
    "by its terminal as it reads": ("echo ready; read x; echo $x", b"\x1a"),
    "by its terminal as it waits": ("echo ready; sleep 1; read x; echo $x", b"\x1a"),
    "by itself": ("echo ready; kill -TSTP $$; read x; echo $x", b""),
    "by itself after a handler": (
        "trap 'echo ready' TSTP; kill -TSTP $$; trap - TSTP; kill -TSTP $$; read x; echo $x",
        b"",
    ),
}


@pytest.mark.valgrind
@pytest.mark.parametrize("mode", modes(but=DYNAMORIO))
@pytest.mark.parametrize(("script", "key"), STOPPED.values(), ids=STOPPED)
def test_a_stopped_job_continues(mode: str, script: str, key: bytes, tmp_path: Path) -> None:
    """GIVEN a shell's job WHEN it is stopped and continued THEN the program goes on where it was,
    and so do we."""
    line = xpuprof_line(*MODES[mode], "-q", "-o", tmp_path / "run", "--", "sh", "-c", script)
    job = 'set -m; "$@"; kill -l $?; fg >&2; echo end'
    ours = live(["sh", "-c", job, "sh", *line], tmp_path)
    assert ours.process.stdout is not None
    assert ours.process.stdout.readline() == b"ready\n"
    time.sleep(0.2)  # until it reads, or waits
    os.write(ours.terminal, key)
    assert ours.process.stdout.readline() == b"TSTP\n"
    os.write(ours.terminal, b"more\n")
    out, _ = ours.process.communicate(timeout=60)
    os.close(ours.terminal)
    assert out == b"more\nend\n"


def test_a_stop_at_the_programs_end_stops_us(matrix: Path, tmp_path: Path) -> None:
    """GIVEN a signal to xpuprof alone as the program ends THEN no further execution follows, the
    command ends by the signal, and the run is partial."""
    for number in range(6):
        folder = tmp_path / f"run{number}"
        done = subprocess.run(
            xpuprof_line("time", "-q", "-o", folder, "--", matrix, "interrupt-parent"), check=False
        )
        assert done.returncode == -signal.SIGINT
        kept = json.loads((folder / "manifest.json").read_bytes())
        assert kept["status"] == "partial" and "SIGINT" in kept["reason"]
        assert sorted(p.name for p in folder.iterdir()) == ["manifest.json", "time-0"]


@pytest.mark.parametrize(
    ("command", "ends"),
    [("run", -signal.SIGINT), ("time", -signal.SIGINT), ("profile", 0)],
)
def test_a_stop_that_an_ended_program_could_have_caught(
    command: str, ends: int, tmp_path: Path
) -> None:
    """GIVEN a program that catches SIGINT, and ends before a SIGINT to the group WHEN we see both
    at once THEN a command that it leaves without a result ends by it."""
    began, go = tmp_path / "began", tmp_path / "go"
    script = (
        'trap : INT; echo $$ >"$1.new"; mv "$1.new" "$1"; until [ -e "$2" ]; do sleep 0.05; done'
    )
    line = xpuprof_line(command, "-q", "--gpu", "none", "-o", tmp_path / "run")
    line += ["--cpu", "none"] if command != "time" else []
    line += ["--", "sh", "-c", script, "sh", str(began), str(go)]
    ours = subprocess.Popen(line, stderr=subprocess.PIPE, start_new_session=True)
    assert wait_for(began.exists)
    state = Path("/proc") / began.read_text().strip() / "stat"
    ours.send_signal(signal.SIGSTOP)
    go.touch()
    assert wait_for(lambda: state.read_text().split()[2] == "Z")
    os.killpg(ours.pid, signal.SIGINT)
    ours.send_signal(signal.SIGCONT)
    ours.communicate(timeout=60)
    assert ours.returncode == ends


def test_timeout_ends_the_program(tmp_path: Path) -> None:
    """GIVEN `timeout` around xpuprof WHEN it signals us and our group THEN its exit code is as
    usual, and nothing is printed."""
    program = ("sh", "-c", 'touch "$0"; exec sleep 60', tmp_path / "begun")
    line = xpuprof_line(*MODES["none"], "-q", "-o", tmp_path / "run", "--", *program)
    with subprocess.Popen(["timeout", "50", *line], stderr=subprocess.PIPE) as around:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        around.send_signal(signal.SIGALRM)  # what tells `timeout` that the time is over
        _, said = around.communicate()
    assert (around.returncode, said) == (124, b"")
