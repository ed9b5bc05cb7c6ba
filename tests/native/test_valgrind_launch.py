# SPDX-License-Identifier: Apache-2.0
"""What only the engine `valgrind` does: hide an instruction set, use its own settings."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.support.compile import compile_text
from tests.support.cpu_programs import build, command, execution, failures, profile
from tests.support.probes import needs_valgrind, require_processor
from tests.support.run import output, run_text, xpuprof_text
from xpuprof.engines.cpu.valgrind import LAUNCHER, Valgrind
from xpuprof.engines.native import native_file

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
pytestmark = [needs_valgrind, pytest.mark.valgrind]


def test_fma_is_hidden_and_said_so(tmp_path: Path) -> None:
    """THEN the program sees a machine with AVX and without FMA, as META says."""
    require_processor("fma")
    done = profile(Valgrind(), [build("cpu_cases"), "isa"], tmp_path / "p")
    assert done.process.stdout == "fma 0 avx2 0 avx 1\n"
    assert "fma" in done.only.stream.meta()["hidden_isa"].split()


def test_a_profile_says_what_may_differ(tmp_path: Path) -> None:
    """GIVEN a CPU engine that computes floating point differently THEN a profile says so before the
    program starts; without that engine nothing is said."""
    options = ("profile", "--gpu", "none", "-o", tmp_path / "run", "--force")
    caveat = "floating-point results of host code may differ from a native run's"
    done = xpuprof_text(*options, "--cpu", "valgrind", "--", "sh", "-c", "echo started >&2")
    before, started, _ = done.stderr.partition("started\n")
    assert started and caveat in before
    assert caveat not in xpuprof_text(*options, "--cpu", "none", "--", "true").stderr


def test_folder_with_percent_sign(tmp_path: Path) -> None:
    """GIVEN a folder name that looks like a format string THEN it is used unchanged."""
    folder = tmp_path / "100%p"
    assert profile(Valgrind(), [build("cpu_endings"), "0"], folder).only.stream.ended
    assert os.listdir(tmp_path) == ["100%p"]


def test_users_valgrind_settings_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a .valgrindrc for memcheck in the working directory THEN our tool ignores it."""
    monkeypatch.chdir(tmp_path)
    Path(".valgrindrc").write_text("--leak-check=full\n--tool=memcheck\n")
    done = profile(Valgrind(), [build("cpu_endings"), "42"], tmp_path / "p")
    assert done.process.returncode == 42
    assert done.only.stream.ended


def test_what_a_program_preloads_is_loaded_once(tmp_path: Path) -> None:
    """GIVEN a program that preloads a library for its child THEN the library runs in the child
    only, and not in our launcher of it."""
    if "INTERP" in output(["readelf", "-lW", native_file(LAUNCHER)]):
        pytest.skip("the launcher was built without a static libc")
    source = """#include <unistd.h>
__attribute__((constructor)) static void said(void) { if (write(1, "loaded\\n", 7) < 0) _exit(9); }
"""
    library = compile_text(source, tmp_path / "loud.so", "-shared", "-fPIC")
    line = ["env", f"LD_PRELOAD={library}", "true"]
    assert profile(Valgrind(), line, tmp_path / "p").process.stdout == "loaded\n"


NATIVELY = "a program with rights of its own (setuid, setgid, setcap)"


def setuid_id(folder: Path) -> Path:
    """`id` as a setuid program of another user."""
    program = folder / "id"
    shutil.copy("/usr/bin/id", program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    return program


@needs_root
@pytest.mark.parametrize("behind", [[], ["sh", "-c", 'exec "$0"'], ["setpriv", "--reuid=65534"]])
def test_setuid_program_runs_natively(open_path: Path, behind: list[str]) -> None:
    """GIVEN a setuid program, started or executed by the root process, THEN it has its privileges,
    and the launcher learns that its CPU work is not recorded."""
    line = [*behind, setuid_id(open_path)]
    done = profile(Valgrind(), line, execution(open_path))
    assert (done.process.returncode, done.process.stderr) == (0, "")
    assert done.process.stdout == run_text(line).stdout
    assert "(nobody)" in done.process.stdout
    (reason,) = failures(done.folder)
    assert reason == f"its CPU work: it executed {NATIVELY}, which runs natively"


@needs_root
def test_setuid_program_with_fixed_arguments(open_path: Path) -> None:
    """GIVEN a setuid program, executed with arguments in memory that cannot be written, of which
    the first is its path THEN it runs as it does alone."""
    line = [build("cpu_exec_error"), setuid_id(open_path)]
    done = profile(Valgrind(), line, execution(open_path))
    assert (done.process.returncode, done.process.stderr) == (0, "")
    assert done.process.stdout == run_text(line).stdout


@needs_root
def test_setuid_child_is_noted_in_the_log(open_path: Path) -> None:
    """GIVEN a child that is a setuid program THEN it runs natively, the parent is profiled."""
    program = setuid_id(open_path)
    done = profile(Valgrind(), ["sh", "-c", f"{program}; exit 3"], execution(open_path))
    assert (done.process.returncode, done.process.stderr) == (3, "")
    assert "(nobody)" in done.process.stdout
    assert done.only.stream.ended
    assert failures(done.folder) == []
    (log,) = done.folder.glob("valgrind-*.log")
    assert f"{program} runs natively: it is {NATIVELY}" in log.read_text()


SANITIZED_NATIVELY = "a program with AddressSanitizer (impossible under Valgrind)"
SANITIZED = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int n, char **words) {
  char *text = malloc(8);
  (void)words;
  memset(text, n > 0, 8);
  printf("%d\\n", text[7]);
  free(text);
  return 5;
}
"""


@pytest.mark.parametrize("way", ["itself", "behind a shell", "as an interpreter"])
@pytest.mark.parametrize("flags", [[], ["-static-libasan"]])
def test_address_sanitizer_runs_natively(tmp_path: Path, flags: list[str], way: str) -> None:
    """GIVEN a program with AddressSanitizer, which ends under Valgrind before main(), THEN it runs
    to its end as it does alone, and run or log say that its CPU work is missing."""
    program = tmp_path / "sanitized"
    try:
        compile_text(SANITIZED, program, "-fsanitize=address", *flags, compiler="gcc")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no compiler with AddressSanitizer")
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    started = script if way == "as an interpreter" else program
    behind = ["sh", "-c", '"$0"; exit $?'] if way == "behind a shell" else []
    line = [*behind, str(started)]
    alone = run_text(line)
    if (alone.returncode, alone.stdout) != (5, "1\n"):
        pytest.skip(f"AddressSanitizer does not run here: {alone.stderr}")
    done = profile(Valgrind(), line, execution(tmp_path))
    assert (done.process.returncode, done.process.stdout) == (alone.returncode, alone.stdout)
    assert done.process.stderr == alone.stderr
    logs = "".join(log.read_text() for log in done.folder.glob("valgrind-*.log"))
    assert f"{started} runs natively: it is {SANITIZED_NATIVELY}" in logs
    lacks = f"its CPU work: it executed {SANITIZED_NATIVELY}, which runs natively"
    assert failures(done.folder) == ([] if behind else [lacks])


@needs_root
@pytest.mark.parametrize(
    "drop",
    [["setpriv", "--reuid=65534", "--clear-groups"], ["/usr/sbin/chroot", "--userspec=65534", "/"]],
)
def test_program_without_access_to_the_run(open_path: Path, drop: list[str]) -> None:
    """GIVEN a program that drops its privileges and executes another THEN that one ends as it does
    alone, and the launcher learns why it has no vectors."""
    folder = execution(open_path)
    folder.chmod(0o755)
    done = profile(Valgrind(), [*drop, "sh", "-c", "id -u; exit 3"], folder)
    assert (done.process.returncode, done.process.stdout, done.process.stderr) == (3, "65534\n", "")
    assert failures(folder) == ["the process may not write into the run directory"]


@needs_root
def test_other_root_folder_without_valgrind(open_path: Path) -> None:
    """GIVEN a program that executes another in a root folder without Valgrind THEN that one runs
    natively."""
    (open_path / "root").mkdir()
    program = build("cpu_exact", "-nostdlib", "-static", "-no-pie")
    shutil.copy(program, open_path / "root")
    folder = execution(open_path)
    done = profile(Valgrind(), ["/usr/sbin/chroot", open_path / "root", "/cpu_exact"], folder)
    assert (done.process.returncode, done.process.stderr) == (0, "")
    (log,) = folder.glob("valgrind-*.log")
    assert "/cpu_exact runs natively" in log.read_text()


LOADER = b"/lib64/ld-linux-x86-64.so.2"
NO_LOADER = LOADER[:-1] + b"9"
HEADER = struct.Struct("<4s5B7x2HI4076x")  # of ELF, up to its version

REFUSED = {
    "a script without interpreter": b"#!/no/such/interpreter -x\n",
    "a script of such a script": b"#!{folder}/inner\n",
    "a program for another machine": HEADER.pack(b"\x7fELF", 2, 1, 1, 0, 0, 2, 183, 1),
    "a 32-bit program for another machine": HEADER.pack(b"\x7fELF", 1, 1, 1, 0, 0, 2, 40, 1),
    "a program without loader": Path("/bin/true").read_bytes().replace(LOADER, NO_LOADER),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_program_that_the_kernel_refuses_to_execute(what: str, tmp_path: Path) -> None:
    """GIVEN a program that executes a file which the kernel refuses THEN it gets the same error as
    alone, and goes on."""
    for name, content in (("inner", b"#!/no/such\n"), ("file", REFUSED[what])):
        (tmp_path / name).write_bytes(content.replace(b"{folder}", os.fsencode(tmp_path)))
        (tmp_path / name).chmod(0o755)
    line = [build("cpu_exec_error"), tmp_path / "file"]
    done = profile(Valgrind(), line, tmp_path / "p")
    alone = run_text(line)
    assert alone.stdout.startswith("refused: ")
    assert (done.process.stdout, done.process.stderr) == (alone.stdout, alone.stderr)
    assert done.process.returncode == alone.returncode
    assert done.only.stream.ended


def test_a_process_has_its_programs_name(tmp_path: Path) -> None:
    """GIVEN a script, and programs that it executes THEN each has the name that it has natively."""
    script = tmp_path / "named_by_a_file"
    script.write_text("#!/bin/sh\ncat /proc/$$/comm /proc/self/comm\nexec cat /proc/self/comm\n")
    script.chmod(0o755)
    natively = run_text([str(script)]).stdout
    assert natively == "named_by_a_file\ncat\ncat\n"
    assert profile(Valgrind(), [str(script)], tmp_path / "p").process.stdout == natively


@pytest.mark.parametrize(
    ("code", "shown"),
    [(".byte 0x62,0xf1,0x7c,0x48,0x58,0xc0", "(62 f1 7c 48 58 c0)"), ("ud2", "")],
    ids=["vaddps zmm", "ud2"],
)
def test_an_instruction_that_valgrind_does_not_know(code: str, shown: str, tmp_path: Path) -> None:
    """GIVEN a program that SIGILL ends THEN the run tells of the instruction if it is Valgrind that
    does not know it, and nothing of one that is invalid on every processor."""
    source = f'int main(void) {{ __asm__ volatile("{code}" ::: "xmm0"); return 0; }}'
    program = compile_text(source, tmp_path / "program")
    done = xpuprof_text(
        "profile", "--cpu", "valgrind", "--gpu", "none", "-o", tmp_path / "run", "--", program
    )
    assert "ended by SIGILL" in done.stderr
    assert ("an instruction that Valgrind does not know" in done.stderr) == bool(shown)
    assert shown in done.stderr


@pytest.mark.parametrize("linked", ["-no-pie", "-static"])
def test_a_heap_below_2_gib(tmp_path: Path, linked: str) -> None:
    """GIVEN a program that is linked to its address THEN its heap is near, as old C requires, which
    keeps addresses in an int."""
    source = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  char *text = (char *)(long)(int)(long)malloc(8);
  text[0] = 'a', text[1] = 0;
  puts(text);
  return sbrk(1 << 30) == (void *)-1; /* as much as fits below the tool */
}
"""
    program = compile_text(source, tmp_path / "program", linked)
    done = profile(Valgrind(), [program], tmp_path / "p").process
    assert (done.returncode, done.stdout) == (0, "a\n"), done.stderr


@pytest.mark.parametrize("start", ["90000000", "100000000", "17fff0000"])
def test_a_program_where_heaps_lie(tmp_path: Path, start: str) -> None:
    """GIVEN a program that is linked to the addresses of other programs' heaps THEN it starts."""
    source = """void _start(void) {
  __asm__ volatile("mov $60, %eax; mov $7, %edi; syscall");
}
"""
    linked = ["-nostdlib", "-static", f"-Wl,-Ttext-segment=0x{start}"]
    program = compile_text(source, tmp_path / "program", *linked)
    assert profile(Valgrind(), [program], tmp_path / "p").process.returncode == 7


def test_an_unknown_instruction_that_the_program_expects(tmp_path: Path) -> None:
    """GIVEN a program that tries an instruction and handles SIGILL THEN the run lacks nothing."""
    source = """#include <signal.h>
#include <stdlib.h>
static void without(int signal) { (void)signal; exit(5); }
int main(void) {
  signal(SIGILL, without);
  __asm__ volatile(".byte 0x62,0xf1,0x7c,0x48,0x58,0xc0" ::: "xmm0");
  return 5;
}
"""
    done = profile(Valgrind(), [compile_text(source, tmp_path / "p")], tmp_path / "run")
    assert done.process.returncode == 5 and not (tmp_path / "run" / "failures").exists()


@pytest.mark.parametrize("end", ["exit", "execute", "abort"])
def test_no_room_for_signals(end: str, tmp_path: Path) -> None:
    """GIVEN threads in system calls, and a user who may have no queued signals THEN the program
    ends, or executes another one, as it does natively."""
    source = """#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
static void *sleeper(void *blocks) {
  sigset_t all;
  sigfillset(&all);
  if (blocks) pthread_sigmask(SIG_BLOCK, &all, NULL);
  while (pause()) {
  }
  return blocks;
}
int main(int argc, char **argv) {
  struct rlimit none = {0, 0};
  pthread_t thread;
  setrlimit(RLIMIT_SIGPENDING, &none);
  for (int i = 0; i < 5; i++) pthread_create(&thread, NULL, sleeper, i % 2 ? argv : NULL);
  usleep(100000);
  if (!strcmp(argv[argc - 1], "abort")) abort();
  if (!strcmp(argv[argc - 1], "execute")) execl("/bin/echo", "echo", "executed", NULL);
  exit(3);
}
"""
    program = compile_text(source, tmp_path / "threads", "-pthread")
    native = run_text([program, end])
    line, environment = command(Valgrind(), [program, end], tmp_path / "p")
    done = run_text(line, environment=environment, timeout=20)
    assert (done.returncode, done.stdout) == (native.returncode, native.stdout)


def test_records_of_threads(tmp_path: Path) -> None:
    """GIVEN threads that come, go and fork THEN each starts without an alternate stack and with its
    creator's signal mask; threads that there are not take no memory."""
    source = """#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
enum { THREADS = 40 };
static int wrong;
static pthread_barrier_t all;
static void *thread(void *forks) {
  static _Thread_local char room[1 << 14];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room}, before;
  sigset_t mask;
  int status = 0;
  pthread_barrier_wait(&all);
  sigaltstack(&stack, &before);
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  if (!(before.ss_flags & SS_DISABLE) || !sigismember(&mask, SIGUSR1))
    __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
  if (forks) {
    pid_t child = fork();
    if (!child) {
      pthread_t another;
      pthread_barrier_init(&all, NULL, 1);
      if (pthread_create(&another, NULL, thread, NULL)) _exit(9);
      pthread_join(another, NULL);
      _exit(wrong ? 8 : 7);
    }
    waitpid(child, &status, 0);
    if (status != 7 << 8) __atomic_fetch_add(&wrong, 1, __ATOMIC_SEQ_CST);
  }
  return NULL;
}
int main(void) {
  char line[256];
  long most = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file)) sscanf(line, "VmHWM: %ld", &most);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &mask, NULL);
  for (int round = 0; round < 3; round++) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
      pthread_create(&threads[i], NULL, thread, i % 20 ? NULL : line);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  }
  printf("%d %ld", wrong, most);
}
"""
    program = compile_text(source, tmp_path / "threads", "-pthread")
    wrong, kilobytes = run_text([program]).stdout.split()
    assert wrong == "0"
    done = profile(Valgrind(), [program], tmp_path / "run")
    wrong, under_valgrind = done.process.stdout.split()
    assert wrong == "0" and int(under_valgrind) - int(kilobytes) < 20 << 10


@pytest.mark.slow
def test_more_threads_than_can_be_counted(tmp_path: Path) -> None:
    """GIVEN more threads at a time than have room for their counters in Valgrind's address space
    THEN the program gets all of them, and the reason for the lack of vectors is told."""
    folder = execution(tmp_path)
    done = profile(Valgrind(), [build("cpu_crowd"), 2200], folder)
    assert (done.process.returncode, done.process.stdout) == (0, "done\n")
    assert failures(folder) == ["there is no memory for a thread's counters"]
