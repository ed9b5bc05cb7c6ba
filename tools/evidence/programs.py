# SPDX-License-Identifier: Apache-2.0
"""The programs of the suite: how each is installed, run and checked. A native run
takes 2 to 30 s on two cores of an idle machine, that of the small ones about a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["application", "kernels"]


@dataclass(frozen=True)
class Program:
    """A program that nobody here wrote, or one of the examples.

    In `command` and `prepare`, {python} is the suite's interpreter, {drivers} the folder of our
    drivers, {root} the checkout. They are run in the program's own folder; `prepare` once, before
    the first run. `passes`: a regular expression in the output of a run whose result is right.
    `figures`: parts of the output that differ from run to run, as times do.
    """

    name: str
    kind: Kind
    command: tuple[str, ...]
    passes: str
    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    figures: str = ""
    small: bool = False
    """Whether the tests run it."""
    remark: str = ""
    """What was found out about its row: the reason of a miss, or why it has no result."""


def _python(name: str, *pip: str, kind: Kind = "application", **fields: object) -> Program:
    """A driver of ours that calls a package from PyPI and asserts its result."""
    return Program(
        name,
        kind,
        ("{python}", "-W", "ignore", f"{{drivers}}/{name}.py"),
        passes="right",
        pip=pip,
        **fields,  # type: ignore[arg-type]
    )


def _ffmpeg(name: str, graph: str, *encoder: str, seconds: int = 4, small: bool = False) -> Program:
    """A filter of ffmpeg on its own test picture; the check is that it wrote the last frames."""
    threads = ("-threads", "1", "-filter_threads", "1")
    device = ("-init_hw_device", "opencl=d", "-filter_hw_device", "d")
    source = f"testsrc2=size=640x360:rate=25:duration={seconds}"
    return Program(
        name,
        "application",
        (
            *("ffmpeg", "-v", "error", "-y", *threads, *device, "-f", "lavfi", "-i", source),
            *("-vf", graph, *encoder, "-f", "framemd5", "-"),
        ),
        passes=rf", +{25 * seconds - 2}, +1,",
        apt=("ffmpeg",),
        small=small,
    )


def _clblast(name: str, tuner: str, *options: str) -> Program:
    """A tuner of CLBlast: many kernels generated from parameters, each result compared."""
    return Program(
        name,
        "kernels",
        (f"clblast_tuner_{tuner}", "-platform", "0", "-runs", "3", *options),
        passes="results match",
        apt=("clblast-utils",),
        figures=r"[\d.]+ ms|[\d.]+ +\||(?i:.*best.*)|.*Got average result.*| +",
    )


def _ufo(
    name: str, pictures: str, pipeline: str, *, small: bool = False, remark: str = ""
) -> Program:
    """A pipeline of ufo-launch over made-up pictures. It prints only how long it took."""
    return Program(
        name,
        "application",
        ("ufo-launch", *f"dummy-data init=2 {pictures} ! {pipeline} ! null".split()),
        passes="Finished",
        apt=("libufo-bin", "ufo-filters"),
        environment={"UFO_DEVICE_TYPE": "cpu"},
        figures=r"Finished in [\d.]+s|\r.*",
        small=small,
        remark=remark,
    )


_YUV = "hwdownload,format=yuv420p"

PROGRAMS = (
    Program(
        "particles",
        "kernels",
        ("{root}/build/examples/particles",),
        passes="energy",
        figures="",
        small=True,
    ),
    Program(
        "heat",
        "application",
        ("{python}", "{root}/examples/heat/heat.py"),
        passes="",
        pip=("numpy", "pyopencl"),
        small=True,
    ),
    Program(
        "clpeak",
        "kernels",
        ("clpeak", "--kernel-latency"),
        passes="Kernel launch latency",
        apt=("clpeak",),
        figures=r"[\d.]+ us",
        small=True,
    ),
    _ffmpeg(
        "ffmpeg-unsharp",
        f"format=yuv420p,hwupload,unsharp_opencl=lx=9:ly=9,{_YUV}",
        *("-c:v", "libx264", "-x264-params", "threads=1"),
        seconds=1,
        small=True,
    ),
    _ffmpeg("ffmpeg-nlmeans", f"format=yuv420p,hwupload,nlmeans_opencl=p=3:r=5,{_YUV}"),
    _ffmpeg("ffmpeg-convolution", f"format=yuv420p,hwupload,convolution_opencl,{_YUV}", seconds=20),
    _clblast("clblast-copy", "copy_fast"),
    _clblast("clblast-transpose", "transpose_fast"),
    _clblast("clblast-dot", "xdot", "-fraction", "1"),
    _ufo("ufo-blur", "width=512 height=512 number=100", "blur size=9 sigma=3", small=True),
    _ufo(
        "ufo-filter",
        "width=1024 height=256 number=1000",
        "fft dimensions=1 ! filter ! ifft dimensions=1",
        remark="its threads run at the same time, so the CPU work within a slice differs between "
        "two profiles, by over 10 % in a third of the slices (GPU work is equal), and so do the "
        "clusters (adjusted Rand index 0.14)",
    ),
    Program(
        "hashcat",
        "application",
        (
            *("hashcat", "-m", "0", "-a", "3", "-D", "1", "--potfile-disable", "--force"),
            *("--quiet", "--session", "suite", "e2fc714c4727ee9395f324cd2e7f331f", "?l?l?l?l"),
        ),
        passes="e2fc714c4727ee9395f324cd2e7f331f:abcd",
        apt=("hashcat",),
    ),
    _python("openmm_atoms", "openmm", "numpy"),
    _python(
        "tinygrad_train",
        *("tinygrad", "numpy"),
        environment={"DEV": "CL"},
        remark="two rules were made because of it, which was 40 % off before them "
        "(docs/selection.md: builds, and clusters divided by times), so its row is no held-out "
        "one; it builds 82 programs of 2 to 680 ms, which the profile alone tells apart only "
        "roughly (worst of seeds); the clusters of two profiles are the same, but for others of "
        "their slices as representatives",
    ),
    _python(
        "opencv_umat",
        "opencv-python-headless",
        "numpy",
        environment={"OPENCV_OPENCL_DEVICE": ":CPU:"},
    ),
    _python(
        "clesperanto_cells",
        *("pyclesperanto", "numpy", "scipy"),
        remark="five seeds choose nearly the same slices, so their intervals miss together",
    ),
    _python(
        "silx_sift",
        *("silx", "pyopencl", "mako", "scipy"),
        remark="the clusters of two profiles are the same, but for others of their slices as "
        "representatives",
    ),
    _python(
        "pyopencl_scan",
        *("pyopencl", "mako", "numpy"),
        kind="kernels",
        remark="the clusters of two profiles are nearly the same (adjusted Rand index 0.94); five "
        "seeds choose nearly the same slices, so their intervals miss the time together",
    ),
    _python(
        "scattering_curves",
        *("sasmodels", "pyopencl", "numpy"),
        environment={"SAS_OPENCL": "0:0"},
        apt=("gcc",),
    ),
    _python("azimuthal_rings", "pyFAI", "pyopencl", "mako", "numpy"),
    _python("tissue_photons", "pytissueoptics", "pyopencl", "numpy"),
    _python("boosted_trees", "lightgbm", "numpy", "scipy"),
    Program(
        "mpi_waves",
        "application",
        (
            *("mpirun", "--oversubscribe", "-n", "2"),
            *("{python}", "-W", "ignore", "{drivers}/mpi_waves.py"),
        ),
        passes="right",
        apt=("openmpi-bin",),
        pip=("mpi4py", "pyopencl", "numpy"),
        environment={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    ),
)

LEFT_OUT = {
    "petsc4py with ViennaCL": "Debian's package has no vector type `viennacl`, and PyPI's is a "
    "source that downloads ViennaCL while it is built",
    "pmcxcl": "its kernels do not compile on PoCL 3.1, with or without us",
    "PyFR": "3.1 on PoCL 3.1 gives totals that are not a number on two processes of MPI, natively "
    "(on one it is right); mpi_waves takes its place",
}
"""Programs that were tried in vain, and why."""
