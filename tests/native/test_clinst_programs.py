# SPDX-License-Identifier: Apache-2.0
"""Programs keep their results under the instrumenter, whatever they use and in every input form."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.clinst import INTEL, WARP, Device, instrument, program
from tests.support.run import run_text

KERNELS = Path(__file__).parent / "kernels" / "features.cl"
pytestmark = pytest.mark.opencl
ITEMS, LOCAL = 256, 32


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


def features(device: Device) -> list[str]:
    """The device's features as the layer sends them."""
    said = device.device.version.split()[1].split(".")
    return [
        "--device",
        f"extensions={device.device.extensions}",
        "--device",
        f"version={said[0]}{said[1]}0",
        "--device",
        f"image_support={int(device.device.image_support)}",
        "--device",
        "c_features=" + " ".join(name.name for name in device.device.opencl_c_features),
    ]


@pytest.fixture(scope="module")
def built(device: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = instrument(KERNELS, tmp_path_factory.mktemp("clinst"), *features(device))
    return device.build_source(KERNELS.read_text()), made, device.build_module(made.module)


def both_ways(
    device: Device, built: Sequence, name: str, *more: object, warp: int = WARP
) -> np.ndarray:
    """Run natively and instrumented and compare the output; returns counts of every warp and
    block."""
    native, made, counted = built
    data = np.random.default_rng(3).integers(0, 12, 4 * ITEMS, np.int32)
    results = []
    for instrument_it in (False, True):
        out = np.zeros(8 * ITEMS, np.int32)
        result = device.buffer(out)
        arguments = [device.buffer(data), result, *more]
        if instrument_it:
            counts = device.count(counted, made.kernels[name], arguments, (ITEMS,), (LOCAL,))
        else:
            device.run(native, name, arguments, (ITEMS,), (LOCAL,))
        results.append(device.read(result, out))
    np.testing.assert_array_equal(*results)
    assert (counts >= 0).all()
    assert (counts[:, 0] == warp).all()
    return counts


PLAIN = [
    "program_scope",
    "private_array",
    "vectors",
    "doubles",
    "integers",
    "atomics",
    "staged",
    "jumps",
    "endless",
    "unreachable",
    "configured",
]


@pytest.mark.parametrize("name", PLAIN)
def test_results_are_those_of_the_native_program(device: Any, built: Any, name: str) -> None:
    both_ways(device, built, name)


def test_structure_by_value(device: Any, built: Any) -> None:
    parameters = np.zeros((), np.dtype([("a", "i4"), ("b", "f4", 3), ("c", "i2", 4)], align=True))
    parameters["a"], parameters["b"], parameters["c"] = 4, [1, 2, 3], [5, 6, 7, 8]
    both_ways(device, built, "by_value", parameters)


def test_a_jump_into_a_loop_is_counted(device: Any, built: Any) -> None:
    """GIVEN a cycle without a header THEN its blocks still count more than once a work-item."""
    counts = both_ways(device, built, "jumps")
    data = np.random.default_rng(3).integers(0, 12, 4 * ITEMS, np.int32)[:ITEMS]
    first, middle = np.zeros(ITEMS, int), np.zeros(ITEMS, int)
    for i, value in enumerate(data):
        n, enter = 0, not value & 1
        while True:
            if enter:
                first[i] += 1
                n += 3
            middle[i] += 1
            n += 5
            enter = True
            if n >= 8 * value:
                break
    per_warp = {tuple(x.reshape(-1, WARP).sum(1)) for x in (first, middle)}
    assert per_warp <= {tuple(column) for column in counts.T}


def test_images_and_samplers(device: Any, built: Any) -> None:
    cl = device.cl
    native, made, counted = built
    pixels = np.random.default_rng(5).integers(0, 9, (16, 16, 4), np.uint32)
    shape = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT32)
    flags = cl.mem_flags
    results = []
    for instrument_it in (False, True):
        copied = flags.READ_ONLY | flags.COPY_HOST_PTR
        source = cl.create_image(device.context, copied, shape, (16, 16), hostbuf=pixels)
        target = cl.create_image(device.context, flags.WRITE_ONLY, shape, (16, 16))
        sampler = cl.Sampler(
            device.context, False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST
        )
        arguments = [source, target, sampler]
        if instrument_it:
            counts = device.count(counted, made.kernels["pixels"], arguments, (16, 16), (16, 4))
        else:
            device.run(native, "pixels", arguments, (16, 16), (16, 4))
        result = np.empty_like(pixels)
        cl.enqueue_copy(device.queue, result, target, origin=(0, 0), region=(16, 16))
        results.append(result)
    np.testing.assert_array_equal(*results)
    assert (counts[:, 0] == WARP).all()


def test_printf(device: Any, built: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """GIVEN printf with vectors, small ones among them, which C passes as numbers THEN what is
    printed stays as it is."""
    both_ways(device, built, "talks")
    lines = (
        "5 says hello 2.5 1,2,3,4\n1,2 3,3,3 4,4,4,4 5\n6,6,6,6,6,6,6,6 7,7 8.000000,8.000000 9\n"
    )
    assert capfd.readouterr().out == 2 * lines


def write(folder: Path, **files: str) -> list[Path]:
    paths = [folder / f"{name}.cl" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return paths


def test_linked_programs(device: Any, tmp_path: Path) -> None:
    """GIVEN a kernel and a function in two sources THEN the call is inlined and counted."""
    parts = write(
        tmp_path,
        kernel="int twice(int);\nkernel void k(global int *in, global int *out)"
        " { int i = get_global_id(0); out[i] = twice(in[i]); }",
        library="int twice(int x) { int n = 0; while (x-- > 0) n += x; return n; }",
    )
    made = instrument(parts, tmp_path)
    assert len(made.kernels["k"].blocks) == 4
    native = device.build_source(
        "int twice(int x) { int n = 0; while (x-- > 0) n += x; return n; }\n" + parts[0].read_text()
    )
    both_ways(device, (native, made, device.build_module(made.module)), "k")


def refused(tmp_path: Path, text: str, *arguments: str) -> str:
    """The instrumenter's one-line message about a program."""
    (path,) = write(tmp_path, program=text)
    done = run_text([program(), "--compile", path, "--no-cache", *arguments])
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    return done.stderr


def test_programs_that_cannot_be_instrumented(tmp_path: Path) -> None:
    """Each is refused in one line that names the reason."""
    assert "use of undeclared identifier 'y'" in refused(tmp_path, "kernel void k() { y = 1; }")
    recursive = "int f(int n) { return n ? f(n - 1) * n : 1; }"
    kernel = "kernel void k(global int *p) { *p = f(*p); }"
    assert "'f' is recursive" in refused(tmp_path, recursive + kernel)
    assert "--no-such" in refused(tmp_path, kernel, "--options", "--no-such")
    broken = tmp_path / "broken.bc"
    broken.write_bytes(b"BC\xc0\xde" + b"nonsense" * 9)
    done = run_text([program(), "--compile", broken])
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    broken.write_bytes(b"\x03\x02\x23\x07" + b"nonsense" * 9)
    done = run_text([program(), "--compile", broken])
    assert done.returncode == 2 and "gave up on this program" in done.stderr, done


def test_spirv_is_valid(device: Any, tmp_path: Path) -> None:
    """The SPIR-V output passes spirv-val, and no function is exported under a kernel's name."""
    made = instrument(KERNELS, tmp_path, *features(device), to="spirv")
    words = np.frombuffer(made.module, np.uint32)
    assert words[0] == 0x07230203
    functions, exported = set(), set()
    at = 5
    while at < len(words):
        length, op = int(words[at] >> 16), words[at] & 0xFFFF
        if op == 54:
            functions.add(words[at + 2])
        elif op == 71 and words[at + 2] == 41 and words[at + length - 1] == 0:
            exported.add(words[at + 1])
        at += length
    assert functions and not functions & exported
    if not shutil.which("spirv-val"):
        pytest.skip("spirv-val is not installed (spirv-tools)")
    done = run_text(
        ["spirv-val", "--target-env", "opencl2.2", tmp_path / "out.spirv"],
    )
    assert done.returncode == 0, done.stderr


def compiled(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """One run of the compiler's command line, in a folder and process of its own."""
    (tmp_path / "program.cl").write_text(text)
    words = [program(), "--no-cache", "--compile", str(tmp_path / "program.cl")]
    words += ["-o", str(tmp_path / "out"), *options]
    return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)


def test_a_program_that_names_its_file_is_the_same_in_every_run(tmp_path: Path) -> None:
    """GIVEN __FILE__ THEN two compilations give the same bytes: blocks are identified by them."""
    text = (
        "__kernel void name(__global char *out) { constant char *file = __FILE__;"
        "out[get_global_id(0)] = file[get_global_id(0)]; }"
    )
    assert compiled(tmp_path, text).returncode == 0
    first = (tmp_path / "out").read_bytes()
    assert compiled(tmp_path, text).returncode == 0
    assert (tmp_path / "out").read_bytes() == first


def test_debug_information_changes_nothing(device: Any, tmp_path: Path) -> None:
    """GIVEN programs with loops and variables WHEN built with -g THEN the counted kernels are those
    of the build without it; the translator gives up on some of that information."""
    made = []
    for name, more in (("plain", []), ("debug", ["--options", "-g"])):
        (tmp_path / name).mkdir()
        made.append(instrument(KERNELS, tmp_path / name, *features(device), *more, to="spirv"))
    assert made[0] == made[1]


def test_the_compilers_first_error_is_the_reason(tmp_path: Path) -> None:
    """GIVEN programs and options that clang refuses THEN its first error is told, in one line."""
    prefix = "xpuprof-clinst: the kernels do not compile with clang 15: "
    for text, options, error in (
        ("__kernel void a() { b = 1; c = 2; }", "", "use of undeclared identifier 'b'"),
        ('#include "gone.h"', "", "'gone.h' file not found"),
        ("__kernel void a() {}", "-fno-such-option", "unknown argument: '-fno-such-option'"),
        ("__kernel void a() {}", "-cl-std=CL9", "invalid value 'CL9' in '-cl-std=CL9'"),
    ):
        done = compiled(tmp_path, text, "--options", options)
        assert (done.returncode, done.stderr) == (2, f"{prefix}{error}\n")


def test_headers_beside_and_by_options(tmp_path: Path) -> None:
    """GIVEN an include folder relative to the program's working directory THEN it is searched
    there, and clang's own headers are found."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "five.h").write_text("#define FIVE 5\n")
    text = "#include <five.h>\n#include <float.h>\n"
    text += "__kernel void a(__global int *out) { *out = FIVE + FLT_DIG; }"
    folder = f"cwd={tmp_path}"
    done = compiled(tmp_path, text, "--options", "-Iown", "--device", folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("target", "option", "value"),
    [
        ("bitcode", "-DX='a'", "'a'"),
        ("spirv", "-DX='a'", "'a'"),
        ("bitcode", '-DX="3 + 4"', "3 + 4"),
        ("spirv", '-DX="3 + 4"', "3 + 4"),
        ("bitcode", r"-DX=1\\2", r"1\\2"),
        ("spirv", r"-DX=1\\2", r"1\2"),
        ("bitcode", '-DX=1"+"2', "1 + 2"),
        ("spirv", '-DX=1"+"2', "1+2"),
        ("spirv", r"-DX=\"b\"", '"b"'),
        ("spirv", r"-DX=3\ +\ 4", "3 + 4"),
        ("spirv", r"-DX=1\2", r"1\2"),
    ],
)
def test_options_are_split_as_the_runtime_does(
    target: str, option: str, value: str, tmp_path: Path
) -> None:
    """GIVEN quotes and backslashes in a macro's option THEN its text is that which PoCL (bitcode)
    and Intel's runtime (SPIR-V) give it, as `STRING(X)` shows there."""
    text = "#define STRING_(x) #x\n#define STRING(x) STRING_(x)\nconstant char x[] = STRING(X);\n"
    text += "kernel void k(global char *out) { out[0] = x[get_global_id(0)]; }"
    made = []
    for name, source, options in (
        ("option", text, option),
        ("define", f"#define X {value}\n{text}", ""),
    ):
        (tmp_path / name).mkdir()
        done = compiled(tmp_path / name, source, "--to", target, "--options", options)
        assert done.returncode == 0, done.stderr
        made.append((tmp_path / name / "out").read_bytes())
    assert made[0] == made[1]


# Clang makes funnel shifts of rotations; the loop's trip count is a frozen minimum.
ROTATIONS = """
kernel void rotations(global const int *in, global int *out) {
  int i = get_global_id(0), sum = 0, most = in[0] + 5, end = in[1] + 290;
  for (int j = 0; j < most && i + j < end; ++j) {
    uint a = in[i] * 2654435761u + j;
    switch (in[2] + (in[1] < in[i] + j)) {
      case 1: a ^= 77; break;
      case 2: a += in[i + 1]; break;
      case 3: a *= 5; break;
      default: a -= 9;
    }
    uint by = in[i + j] & 31;
    a = (a << 7) | (a >> 25);
    a ^= rotate(a, by) + (a >> 9 | a << 23);
    sum += a;
  }
  ulong wide = (ulong)sum * in[i];
  out[i] = sum + (int)rotate(wide, (ulong)in[i]) + rotate((uchar)sum, (uchar)(in[i] & 7));
}
"""


@pytest.mark.intel
def test_rotations_on_intels_runtime(tmp_path: Path) -> None:
    """GIVEN instructions that SPIR-V has not THEN another runtime computes the same."""
    device = Device(INTEL)
    source = tmp_path / "rotations.cl"
    source.write_text(ROTATIONS)
    native = device.build_source(ROTATIONS)
    sizes = device.sub_groups(native)
    assert sizes
    made = instrument(source, tmp_path, "--device", "local_words=8", to="spirv", sub_groups=sizes)
    counted = device.build_module(made.module)
    both_ways(device, (native, made, counted), "rotations", warp=sizes["rotations"])
