# SPDX-License-Identifier: Apache-2.0
"""What a program may do before its first launch: `start_up.py CASE`."""

import ctypes
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time


def compute(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def send(name: str, after: float = 0.5) -> None:
    """From another process."""
    subprocess.Popen(["sh", "-c", f"sleep {after}; kill -{name} {os.getpid()}"])


def terminated() -> None:
    send("TERM")
    compute(20)


def killed_by_segv() -> None:
    send("SEGV")
    compute(20)


def segv_handled() -> None:
    caught = []
    signal.signal(signal.SIGSEGV, lambda *_: caught.append(1))
    send("SEGV")
    while not caught:
        sum(range(1000))
    print("went on")


def interrupted() -> None:
    send("INT")
    try:
        compute(20)
    except KeyboardInterrupt:
        print("interrupted")


def faults() -> None:
    ctypes.string_at(8)


def aborts() -> None:
    os.abort()


def alarms() -> None:
    count = 0

    def handle(*_: object) -> None:
        nonlocal count
        count += 1

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    while count < 200:
        sum(range(1000))
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("200 alarms")


def limited() -> None:
    """The kernel's signal at the limit of processor time."""
    caught = []
    signal.signal(signal.SIGXCPU, lambda *_: caught.append(1))
    resource.setrlimit(resource.RLIMIT_CPU, (1, 60))
    while not caught:
        sum(range(1000))
    print("went on")


def sleeps() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
    send("USR1", 0.2)
    time.sleep(1)
    print("slept")


def reads() -> None:
    """A signal ends a read that waits."""

    class Caught(Exception):
        pass

    def handle(*_: object) -> None:
        raise Caught

    signal.signal(signal.SIGUSR1, handle)
    end, _ = os.pipe()
    send("USR1")
    try:
        os.read(end, 1)
    except Caught:
        print("read no more")


def forks() -> None:
    for i in range(20):
        if (child := os.fork()) == 0:
            subprocess.run(["true"], check=True)
            os._exit(sum(range(100 + i)) % 50)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def threads() -> None:
    """They compute, and one forks, while the main thread computes."""
    done = []

    def work(i: int) -> None:
        done.append(sum(range(100_000 * i)))

    def fork() -> None:
        for i in range(5):
            if (child := os.fork()) == 0:
                os._exit(i)
            done.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    started = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    started.append(threading.Thread(target=fork))
    for one in started:
        one.start()
    compute(0.5)
    for one in started:
        one.join()
    print(sorted(done))


def ends_elsewhere() -> None:
    threading.Timer(0.3, os._exit, (7,)).start()
    compute(20)


def executes() -> None:
    os.execvp(sys.executable, [sys.executable, "-c", "print('executed')"])


def pool() -> None:
    with multiprocessing.Pool(3) as workers:
        print(workers.map(abs, range(-50, 0)))


def reports_signal() -> None:
    """The signal with which the kernel reports system calls."""
    signal.signal(signal.SIGSYS, lambda *_: print("handled"))
    os.kill(os.getpid(), signal.SIGSYS)
    subprocess.run(["true"], check=True)
    print("went on")


def killed_by_reports_signal() -> None:
    os.kill(os.getpid(), signal.SIGSYS)


def forbids_calls() -> None:
    """Strict secure computing: all but read, write, exit and sigreturn end the thread."""
    libc = ctypes.CDLL(None)
    if os.fork() == 0:
        libc.prctl(22, 1)
        libc.getpid()
        os._exit(0)
    print(os.wait()[1])


globals()[sys.argv[1]]()
