# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver on this machine, and which engines carry it: run it without a crash or hang.

A CPU engine that translates code, or a GPU tool older than the driver, may crash or hang the
driver. Versions do not tell: `carries` runs the smallest CUDA program
(native/gpu/cuda/driver_probe.c) under the engines, once, and remembers the outcome as long as
driver and engines stay the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from xpuprof.engines.base import CpuEngine, CpuOptions, GpuEngine, GpuOptions, Probe, recording
from xpuprof.engines.cache import cache_folder
from xpuprof.engines.filters import VARIABLES
from xpuprof.engines.native import native_file
from xpuprof.errors import TraceError, UsageError
from xpuprof.scratch import scratch
from xpuprof.signals import signal_name

HELPER = "xpuprof-cuda-probe"
ENV_LIMIT = "XPUPROF_PROBE_SECONDS"
DEFAULT_LIMIT = 120.0
"""Seconds. The driver starts in under a second natively, in tens of seconds when translated."""
FAILURES_KEPT = 24 * 3600.0
"""Seconds after which a failure is probed again: the device may have been busy."""


@dataclass(frozen=True)
class Driver:
    """The CUDA driver: number of devices, CUDA version (`13.0`), file."""

    devices: int
    version: str
    path: str


@dataclass(frozen=True)
class Outcome:
    """How the probe ended: the last step that it began, and why it failed there (empty: it
    completed, and both engines recorded it)."""

    step: str
    fault: str

    def __str__(self) -> str:
        return f"the probe stopped at `{self.step}`: {self.fault}" if self.fault else "carried"


def driver() -> Driver | None:
    """The driver that programs load in this environment, or None."""
    try:
        done = subprocess.run(
            [native_file(HELPER), "devices"],
            env=_environment({}),
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^devices (\d+) (\d+) (.*)$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or found is None:
        return None
    version = int(found[2])
    return Driver(int(found[1]), f"{version // 1000}.{version % 1000 // 10}", found[3])


def device_probe(engine: str, details: Mapping[str, str], advice: str) -> Probe:
    """The probe of an engine that is complete: only the driver or a device may be missing."""
    found = driver()
    if found is None or found.devices == 0:
        what = "an NVIDIA GPU" if found else "NVIDIA's driver (libcuda.so.1)"
        return Probe(engine, False, (what,), advice, dict(details))
    device = {"devices": str(found.devices), "driver": f"CUDA {found.version}"}
    return Probe(engine, True, details={**details, **device})


def carries(
    cpu: CpuEngine | None, gpu: GpuEngine, known: Driver, say: Callable[[str], None]
) -> Outcome:
    """Whether a CUDA program runs under both engines (`cpu` None: under the GPU engine alone).

    The first call takes up to XPUPROF_PROBE_SECONDS (120) and announces it with `say`. Engines must
    be available. A failure that also occurs natively is not the engine's fault.
    """
    remembered = cache_folder("cuda-driver") / f"{_key(cpu, gpu, known)}.json"
    outcome = _recall(remembered)
    if outcome is None:
        names = " and ".join(engine.name for engine in (cpu, gpu) if engine)
        say(f"trying once whether {names} can carry the CUDA driver (up to {_limit():g} s)")
        outcome = _probe(cpu, gpu)
        _remember(remembered, outcome)
    return outcome


# ---- the probe ------------------------------------------------------------------------------


def _probe(cpu: CpuEngine | None, gpu: GpuEngine) -> Outcome:
    native = _run([str(native_file(HELPER)), "run"], _environment({}))
    with scratch() as place:
        folder = Path(place)
        argv = [str(native_file(HELPER)), "run"]
        more = recording("profile", "async", folder)
        more |= gpu.environment("profile", "async", folder, GpuOptions())
        if cpu is not None:
            argv, wrapped = cpu.wrap(argv, CpuOptions(), folder)
            more |= wrapped
        outcome = _run(argv, _environment(more))
        if outcome.fault:
            return Outcome(outcome.step, "" if outcome == native else outcome.fault)
        return Outcome(outcome.step, "" if native.fault else _not_recorded(folder, cpu))


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    others = ("CUDA_INJECTION64_PATH", *VARIABLES)  # an xpuprof around us may have set filters
    own = {k: v for k, v in os.environ.items() if k not in others}
    return own | dict(more)


def _limit() -> float:
    text = os.environ.get(ENV_LIMIT, "")
    try:
        seconds = float(text) if text else DEFAULT_LIMIT
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise UsageError(f"{ENV_LIMIT} is a number of seconds above 0, not {text!r}")
    return seconds


def _run(argv: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    """Runs the helper in a session of its own, so that a hang can be ended with its children."""
    limit = _limit()
    with subprocess.Popen(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            printed = process.communicate(timeout=limit)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed = process.communicate()[0]
            return Outcome(_last_step(printed), f"no end within {limit:g} s")
    return Outcome(_last_step(printed), _fault(process.returncode, printed))


def _last_step(printed: bytes) -> str:
    steps = re.findall(r"^step (\w+)$", printed.decode(errors="replace"), re.MULTILINE)
    return steps[-1] if steps else "start"


def _fault(code: int, printed: bytes) -> str:
    if code == 0:
        return ""
    if code < 0:
        return f"ended by {signal_name(-code)}"
    lines = printed.decode(errors="replace").splitlines()
    said = [line for line in lines if line.startswith(("refused", "missing"))]
    return f"the driver {said[-1]}" if said else f"exit code {code}"


def _not_recorded(folder: Path, cpu: CpuEngine | None) -> str:
    """What the engines failed to record of the only launch; empty: nothing."""
    from xpuprof.trace.layout import CPU, EVENTS  # numpy, for a probe only
    from xpuprof.trace.streams import FILES, read_stream

    for kind, wanted in ((EVENTS, True), (CPU, cpu is not None)):
        found = list(folder.glob(f"*/{FILES[kind]}"))
        if not wanted:
            continue
        if not found:
            return f"no {FILES[kind]} was written"
        try:
            stream = read_stream(found[0], kind)
        except TraceError as error:
            return str(error)
        failed = stream.meta().get("gpu_engine_failed")
        if failed or not stream.ended:
            return failed or f"{FILES[kind]} was not closed"
        if kind == EVENTS and len(stream["launches"]) != 1:
            return f"the GPU engine saw {len(stream['launches'])} of 1 launches"
    return ""


# ---- what is remembered ---------------------------------------------------------------------


def _key(cpu: CpuEngine | None, gpu: GpuEngine, known: Driver) -> str:
    """A key of everything that may change the outcome: driver, engines, their files, kernel."""
    parts: list[object] = [asdict(known), _file(known.path), _file(str(native_file(HELPER)))]
    parts += [platform.release(), _limit()]
    for engine in (cpu, gpu):
        details = engine.probe().details if engine else {}
        parts.append([engine.name if engine else "none", details])
        parts += [_file(value) for value in details.values() if value.startswith("/")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _file(path: str) -> list[object]:
    try:
        known = os.stat(path)
    except OSError:
        return [path]
    return [os.path.realpath(path), known.st_size, known.st_mtime_ns]


def _recall(path: Path) -> Outcome | None:
    try:
        status = path.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None  # others could have written it
        kept = json.loads(path.read_text())
        outcome = Outcome(str(kept["step"]), str(kept["fault"]))
        age = time.time() - status.st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if outcome.fault and age > FAILURES_KEPT else outcome


def _remember(path: Path, outcome: Outcome) -> None:
    """Renames into place, since others may probe too. If nothing can be kept, every run probes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, new = tempfile.mkstemp(dir=path.parent)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(outcome), file)
        os.replace(new, path)
    except OSError:
        return
