# SPDX-License-Identifier: Apache-2.0
"""Runs `xpuprof time` once per line of stdin, `NUMBER ERROR FOLDER`, with that call of the launcher
failing (faults.c, preloaded). A child each, so that imports are done once. Prints the exit code;
output goes to FOLDER.out and FOLDER.err, the names of the calls to FOLDER.calls."""

from __future__ import annotations

import ctypes
import os
import sys

from xpuprof.cli import main

SHIM = ctypes.CDLL(None)


def attempt(number: str, error: str, folder: str) -> None:
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT, 0o600), descriptor)
    sys.argv[1:] = ["time", "--gpu", "none", "--repeat", "2", "-q", "-o", folder, "--"]
    sys.argv += ["sh", "-c", "cat; echo ran; exit 5"]
    SHIM.faults_arm(int(number), int(error), os.fsencode(folder))
    try:
        main()
    finally:
        SHIM.faults_report(os.fsencode(f"{folder}.calls"))


# Standard input of every run is a pipe, which the launcher relays.
commands = os.fdopen(os.dup(0))
for line in commands:
    ends = os.pipe()
    os.write(ends[1], b"input\n")
    os.close(ends[1])
    os.dup2(ends[0], 0)
    os.close(ends[0])
    child = os.fork()
    if not child:
        commands.close()
        try:
            attempt(*line.split())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(getattr(sys.exc_info()[1], "code", 1))
    print(os.waitpid(child, 0)[1], flush=True)
