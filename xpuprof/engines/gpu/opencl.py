# SPDX-License-Identifier: Apache-2.0
"""The GPU engine `opencl`: a layer in the program's OpenCL loader sees every launch. In a profile,
an instrumenter in a separate process recompiles the kernels with exact block counters."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from xpuprof.engines.base import Engine, Footprint, GpuEngine, GpuOptions, Mode, Probe, Timer
from xpuprof.engines.filters import AFTER_WINDOW, KERNELS, MEMORY, SCOPE
from xpuprof.engines.native import native_file, unbuilt
from xpuprof.errors import EngineError
from xpuprof.scratch import scratch

if TYPE_CHECKING:
    import subprocess
    from importlib.metadata import PackagePath

LAYER = "libxpuprof_opencl.so"
INSTRUMENTER = "xpuprof-clinst"
BUILDER = "xpuprof-clbuild"
LAYER_ADVICE = (
    "install what they are built from (Debian, Ubuntu: `apt-get install opencl-headers llvm-15-dev "
    "libclang-15-dev libclang-cpp15-dev libllvmspirvlib-15-dev`, on Debian 13 of version 18), then "
    "install xpuprof again"
)
PLATFORM_ADVICE = (
    "install an OpenCL runtime (Debian, Ubuntu: `apt-get install ocl-icd-libopencl1 "
    "pocl-opencl-icd`; or `pip install xpuprof[cpu]`)"
)
START_TIMEOUT_S = 10.0
VENDORS = "/etc/OpenCL/vendors"

# Runs in a separate process: drivers start threads, and some never release the process.
_LIST_DEVICES = """
import ctypes, json, sys
try:
    cl = ctypes.CDLL("libOpenCL.so.1")
except OSError:
    sys.exit(json.dump(None, sys.stdout))
def text(function, handle, name):
    size = ctypes.c_size_t()
    function(handle, name, 0, None, ctypes.byref(size))
    value = ctypes.create_string_buffer(size.value or 1)
    function(handle, name, size, value, None)
    return value.value.decode(errors="replace")
def handles(function, *first):
    n = ctypes.c_uint()
    if function(*first, 0, None, ctypes.byref(n)) or not n.value:
        return []
    found = (ctypes.c_void_p * n.value)()
    function(*first, n, found, None)
    return [ctypes.c_void_p(handle) for handle in found]
ALL, NAME, VERSION = ctypes.c_ulong(0xFFFFFFFF), 0x902, 0x901
DEVICE, EXTENSIONS, IL = 0x102B, 0x1030, 0x105B
def device(handle):
    name, extensions, il = (text(cl.clGetDeviceInfo, handle, n) for n in (DEVICE, EXTENSIONS, IL))
    counts = "SPIR-V" in il or "cl_khr_spir" in extensions
    return name if counts else name + " (launches and times only: it takes no SPIR-V)"
json.dump([
    [text(cl.clGetPlatformInfo, p, NAME), text(cl.clGetPlatformInfo, p, VERSION),
     [device(d) for d in handles(cl.clGetDeviceIDs, p, ALL)]]
    for p in handles(cl.clGetPlatformIDs)], sys.stdout)
"""


RUNTIME_ENV = "XPUPROF_OPENCL_RUNTIME"
"""`intel`: the program sees Intel's CPU runtime (extra `cpu`) as its only platform; `system`: the
machine's platforms. Unset: the machine's, or Intel's if the machine has no driver and the extra is
installed. Timed and profiled runs see the same."""


INTEL_PACKAGES = ("intel-opencl-rt", "intel-cmplr-lib-rt")
"""The driver, and the libraries that it loads but does not require."""


def _runtime() -> str:
    """The runtime chosen: `system` or `intel`. Raises EngineError."""
    chosen = os.environ.get(RUNTIME_ENV)
    if chosen is None:
        extra = all(map(_files, INTEL_PACKAGES))
        return "intel" if extra and not drivers(os.environ) else "system"
    if chosen not in ("system", "intel"):
        raise EngineError(f"{RUNTIME_ENV} is {chosen!r}; choose system or intel")
    return chosen


def _intel_runtime() -> Path:
    """The driver's library in the wheel. Raises EngineError."""
    missing = [name for name in INTEL_PACKAGES if not _files(name)]
    for file in _files(INTEL_PACKAGES[0]):
        if file.name == "libintelocl.so" and not missing:
            return Path(str(file.locate())).resolve()
    raise EngineError(
        f"{RUNTIME_ENV} asks for Intel's OpenCL runtime, which lacks the package "
        f"{' and '.join(missing or INTEL_PACKAGES[:1])}; `pip install xpuprof[cpu]`"
    )


def _files(package: str) -> list[PackagePath]:
    """The files of an installed package; none if it is not installed."""
    from importlib import metadata  # would lengthen help and completion

    try:
        return metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return []


def runtime_environment(folder: Path) -> dict[str, str]:
    """Environment that chooses the runtime; the path in the wheel's own .icd file is unusable. The
    driver's folder also holds a loader, for machines without one."""
    if _runtime() == "system":
        return {}
    driver = _intel_runtime()
    vendors = folder.resolve() / "opencl-vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / "intel.icd").write_bytes(os.fsencode(driver) + b"\n")
    libraries = [*filter(None, [os.environ.get("LD_LIBRARY_PATH")]), str(driver.parent)]
    return {"OCL_ICD_VENDORS": str(vendors), "LD_LIBRARY_PATH": ":".join(libraries)}


def drivers(environment: Mapping[str, str]) -> list[str]:
    """The drivers that a loader finds in this environment, as their .icd files name them."""
    given = environment.get("OCL_ICD_VENDORS")
    place = Path(given or VENDORS)
    named = [place] if given and not place.is_dir() else sorted(place.glob("*.icd"))
    found = _listed(environment, "OCL_ICD_FILENAMES")
    for file in named:
        if file.suffix == ".icd":
            with suppress(OSError):
                found += os.fsdecode(file.read_bytes()).split("\n")[:1]
        else:
            found.append(str(file))
    return [name.strip() for name in found if name.strip()]


def _library_file(name: str) -> str | None:
    """The path of a driver that an .icd file may name without its folder."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    given = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    system = [f"{root}/{part}" for root in ("/lib", "/usr/lib") for part in (multiarch, "")]
    folders = [""] if "/" in name else [*given, *system, "/lib64", "/usr/lib64"]
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _listed(environment: Mapping[str, str], variable: str) -> list[str]:
    """The libraries that a variable lists, without our layer, which an xpuprof around us adds: as a
    driver it would look for itself without end."""
    names = environment.get(variable, "").split(":")
    return [name for name in names if name and os.path.basename(name) != LAYER]


ROOM_ENV = "XPUPROF_MEMORY_ROOM"
"""Limit in MiB for the recorded accesses of one launch; see docs/memory.md."""
DEFAULT_ROOM = "1024"


def _memory_room() -> str:
    room = os.environ.get(ROOM_ENV, DEFAULT_ROOM)
    if not room.isdigit() or not 1 <= int(room) <= 1 << 20:
        raise EngineError(f"{ROOM_ENV} is {room!r}; give a number of MiB from 1 to {1 << 20}")
    return str(int(room) << 20)


def _platforms() -> list[tuple[str, str, list[str]]] | None:
    """Name, version and devices of each platform; None without an OpenCL loader."""
    import subprocess  # here and below: would lengthen completion

    environment = {k: v for k, v in os.environ.items() if k != "OPENCL_LAYERS"}
    try:
        with scratch() as folder:
            done = subprocess.run(
                [sys.executable, "-c", _LIST_DEVICES],
                capture_output=True,
                text=True,
                timeout=60,
                env=environment | runtime_environment(Path(folder)),
            )
        found = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return []
    return None if found is None else [(name, version, devices) for name, version, devices in found]


def _seen(platforms: list[tuple[str, str, list[str]]]) -> str:
    """What a program finds under the engine, and what it does not although it is installed."""
    seen = f"these {len(platforms)} platforms" if len(platforms) != 1 else "this platform"
    if os.environ.get(RUNTIME_ENV) == "intel":
        return f"{seen} ({RUNTIME_ENV}=intel hides the machine's others)"
    if _runtime() == "intel":
        return f"{seen}, of the extra `cpu`, because the machine names no driver"
    with suppress(EngineError):
        _intel_runtime()
        seen += f"; not Intel's CPU runtime, which {RUNTIME_ENV}=intel gives them instead"
    return seen


class OpenCl(GpuEngine):
    """Exact per-warp vectors on OpenCL's CPU devices; stamps of every launch on any device."""

    name = "opencl"
    runtimes = ("libOpenCL.so",)
    honours = SCOPE | AFTER_WINDOW | KERNELS | MEMORY

    def runtime_is_native(self) -> bool:
        names = [os.path.basename(driver) for driver in drivers(os.environ)]
        return (
            _runtime() == "system"
            and bool(names)
            and all(name.startswith("libpocl.so") for name in names)
        )

    def probe(self) -> Probe:
        missing = list(unbuilt(LAYER, INSTRUMENTER))
        advice = LAYER_ADVICE if missing else ""
        try:
            platforms = _platforms()
        except EngineError as error:
            return Probe(self.name, False, mistake=str(error))
        if platforms is None:
            missing.append("the OpenCL loader libOpenCL.so.1")
        elif not any(devices for _, _, devices in platforms):
            missing.append("an OpenCL platform with a device")
        if not platforms or not any(devices for _, _, devices in platforms):
            advice = f"{advice}; {PLATFORM_ADVICE}" if advice else PLATFORM_ADVICE
        details = {"layer": str(native_file(LAYER)), "instrumenter": str(native_file(INSTRUMENTER))}
        for number, (name, version, devices) in enumerate(platforms or ()):
            details[f"platform_{number}"] = f"{name}, {version}: {', '.join(devices)}"
        details["programs see"] = _seen(platforms or [])
        return Probe(self.name, not missing, tuple(missing), advice, details)

    def environment(
        self, mode: Mode, timer: Timer, execution_dir: Path, options: GpuOptions
    ) -> dict[str, str]:
        """Loads our layer before the user's own layers; and as a driver, for loaders without
        layers. Raises EngineError if a part is missing."""
        needed = (LAYER, INSTRUMENTER) if mode == "profile" else (LAYER,)
        if missing := unbuilt(*needed):
            raise EngineError(f"GPU engine opencl lacks {', '.join(missing)}; {LAYER_ADVICE}")
        layer, runtime = str(native_file(LAYER)), runtime_environment(execution_dir)
        return {
            **{
                name: ":".join([layer, *_listed(os.environ, name)])
                for name in ("OPENCL_LAYERS", "OCL_ICD_FILENAMES")
            },
            "XPUPROF_OPENCL_DRIVERS": ":".join(drivers({**os.environ, **runtime})),
            "XPUPROF_OPENCL_AHEAD": str(options.ahead.folder) if options.ahead else "",
            "XPUPROF_OPENCL_AHEAD_ENGINE": options.ahead.cpu if options.ahead else "",
            **({"XPUPROF_MEMORY": _memory_room()} if options.memory else {}),
            **runtime,
        }

    def footprint(self) -> Footprint | None:
        """Every loader reads /etc/OpenCL/vendors; a program may load a driver itself."""
        named = [*drivers({}), *drivers(os.environ)]
        if _runtime() == "intel":
            named.append(str(_intel_runtime()))
        opened = (VENDORS, *filter(None, map(_library_file, named)))
        files = tuple(dict.fromkeys(map(os.path.basename, named)))
        return Footprint("OpenCL", opened, "/libOpenCL", files, LAYER, native_file(BUILDER))

    def start_services(
        self, mode: Mode, execution_dir: Path, options: GpuOptions
    ) -> AbstractContextManager[dict[str, str]]:
        """A profile needs the instrumenter; it lives as long as the context."""
        return _instrumenter(execution_dir, options) if mode == "profile" else nullcontext({})


@contextmanager
def _instrumenter(execution_dir: Path, options: GpuOptions) -> Iterator[dict[str, str]]:
    import subprocess

    # Not in the run directory: some file systems do not support sockets.
    with scratch() as folder:
        path = Path(folder) / "clinst"
        ahead = [f"--ahead={options.ahead.folder}"] if options.ahead else []
        with (execution_dir / "clinst.log").open("wb") as log:
            process = subprocess.Popen(
                [str(native_file(INSTRUMENTER)), f"--serve={path}", *ahead],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | runtime_environment(execution_dir),  # it compiles, too
                start_new_session=True,  # Ctrl-C is for the program, which may still build kernels
            )
        try:
            # If it does not come up, the program runs anyway: nobody answers the layer on the
            # socket, and its launches count as uninstrumented for that reason.
            _wait_until_it_listens(process, path)
            yield {"XPUPROF_CLINST": str(path)}
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if not (execution_dir / "clinst.log").stat().st_size:
                (execution_dir / "clinst.log").unlink()


def _wait_until_it_listens(process: subprocess.Popen[bytes], path: Path) -> None:
    import socket

    deadline = time.monotonic() + START_TIMEOUT_S
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    # Through the descriptor: a socket's address holds 107 bytes, and TMPDIR may be longer.
    address = f"/proc/self/fd/{folder}/{path.name}"
    try:
        while process.poll() is None and time.monotonic() < deadline:
            with socket.socket(socket.AF_UNIX) as trial:
                try:
                    trial.connect(address)
                except OSError:
                    time.sleep(0.01)
                else:
                    return
    finally:
        os.close(folder)


ENGINE = Engine(
    OpenCl,
    preference=30,
    help="any OpenCL or SYCL program, by recompiling its kernels",
    suggested=True,
)
