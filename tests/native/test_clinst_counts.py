# SPDX-License-Identifier: Apache-2.0
"""Per-warp block counts against a SIMT model written by hand from the OpenCL source.

Each model walks one work-item through the kernel's control flow and names the blocks it passes.
The list beside it gives the names in the order of the instrumenter's blocks, so every block of
every warp is compared, never a total.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.clinst import (
    CLANG,
    CONTRACTS,
    INTEL,
    LLVM,
    LLVM_SPIRV,
    POCL,
    Device,
    Kernel,
    instrument,
    warps_of_group,
)
from tests.support.paths import ROOT
from tests.support.run import output

KERNELS = Path(__file__).parent / "kernels" / "control_flow.cl"
pytestmark = pytest.mark.opencl


@dataclass
class Item:
    """One work-item: its ids, sizes and input."""

    id: tuple[int, ...]
    lid: tuple[int, ...]
    size: tuple[int, ...]
    local: tuple[int, ...]
    data: list[int]
    n: int


Walk = Iterable[str]


def straight(item: Item) -> Walk:
    yield "entry"


def guard(item: Item) -> Walk:
    yield "entry"
    if item.id[0] < item.n:
        yield "then"
    yield "return"


def branch(item: Item) -> Walk:
    yield "entry"
    yield "odd" if item.data[item.id[0]] & 1 else "even"
    yield "return"


def triangle(item: Item) -> Walk:
    yield "entry"
    for j in range(item.n):
        yield "outer"
        for _ in range(j):
            yield "inner"
            yield "body"
        yield "inner"
        yield "next"
    yield "outer"
    yield "return"


def collatz(item: Item) -> Walk:
    yield "entry"
    x = item.data[item.id[0]] + 1
    while x != 1:
        yield "head"
        yield "test"
        if x & 1:
            yield "odd"
            x = 3 * x + 1
        else:
            yield "even"
            x //= 2
        yield "step"
    yield "head"
    yield "return"


def early(item: Item) -> Walk:
    yield "entry"
    if item.id[0] < item.n:
        found = False
        for j in range(20):
            yield "head"
            yield "body"
            value = item.data[(item.id[0] + j) % item.n]
            if value == 5:
                yield "found"
                found = True
                break
            if value == 7:
                break
            if value != 6:
                yield "add"
            yield "next"
        else:
            yield "head"
        if not found:
            yield "after"
    yield "return"


def calls(item: Item) -> Walk:
    yield "entry"
    value = item.data[item.id[0]]
    if value > 4:
        yield "call"
        if value & 1:
            yield "first odd"
        yield "between"
        if (value + 1) & 1:
            yield "second odd"
        yield "sum"
    yield "return"


def tree(item: Item) -> Walk:
    yield "entry"
    span = item.local[0] // 2
    while span > 0:
        yield "head"
        yield "test"
        if item.lid[0] < span:
            yield "add"
        yield "barrier"
        span //= 2
    yield "head"
    yield "end"
    if item.lid[0] == 0:
        yield "leader"
    yield "return"


def uniform_barriers(item: Item) -> Walk:
    yield "entry"
    size, lid = item.local[0], item.lid[0]
    group = item.id[0] // size
    if item.data[group] == 3:
        yield "out early"
        yield "return"
        return
    yield "test n"
    part = item.data[group * size : (group + 1) * size]
    if item.n & 1:
        yield "first barrier"
    yield "join"
    for turn in range(item.n % 4 + 1):
        yield "round head"
        yield "round"
        turned = [part[(x + turn) % size] for x in range(size)]
        if turned[lid] > 5:
            yield "big"
        yield "second barrier"
        part = [x - 2 if x > 5 else x for x in turned]
    yield "round head"
    yield "end"
    if part[lid] > 4:
        yield "add"
    yield "return"


def choose(item: Item) -> Walk:
    yield "entry"
    value = item.data[item.id[0]]
    if value in (1, 2):
        yield "one or two"
    elif value in (3, 4):
        if value == 3:
            yield "three"
        yield "four"
    elif value != 9:
        yield "default"
    if value != 9:
        yield "behind"
    yield "return"


def grid(item: Item) -> Walk:
    yield "entry"
    at = sum(i * int(np.prod(item.size[:d])) for d, i in enumerate(item.id))
    for j in range(item.data[at]):
        yield "head"
        yield "test"
        if item.data[j] > 3:
            yield "big"
        yield "next"
    yield "head"
    yield "return"


def many(item: Item) -> Walk:
    yield "join 0"
    for n in range(1, 12):
        yield f"odd {n}" if item.data[item.id[0] + n] & 1 else f"even {n}"
        yield f"join {n}"


def fixed(item: Item) -> Walk:
    yield "entry"
    x = item.data[item.id[0] + item.size[0] * item.id[1]]
    while True:
        yield "body"
        x -= 3
        if x <= 0:
            break
    yield "return"


def wide(item: Item) -> Walk:
    yield "entry"
    for j in range(item.n):
        yield "head"
        yield "test"
        if item.data[j] > item.id[0] & 7:
            yield "add"
        yield "next"
    yield "head"
    yield "return"


def mixed(item: Item) -> Walk:
    yield "entry"
    value = item.data[item.id[0]]
    if item.n & 1:
        yield "odd n"
    yield "odd value?"
    if value & 1:
        for j in range(item.n & 7):
            yield "outer"
            for _ in range(item.local[0] >> 3):
                yield "inner"
                yield "body"
                if item.n > 50:
                    yield "n > 50"
                yield "inner next"
            yield "inner"
            yield "value > j?"
            if value > j:
                yield "value > j"
            yield "outer next"
        yield "outer"
    yield "before while"
    while value > 0:
        yield "while"
        yield "n > 150?"
        yield "n > 150" if item.n > 150 else "n <= 150"
        yield "while next"
        value -= 2
    yield "while"
    yield "return"


@dataclass
class Case:
    """A kernel, its model, the model's block names in the instrumenter's order, and launches."""

    kernel: str
    model: Callable[[Item], Walk]
    blocks: list[str]
    arguments: str = "in out"  # in, out, n, wide_n (the same in 64 bits), local
    launches: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=lambda: [((96,), (32,)), ((200,), (50,)), ((7,), (7,)), ((128,), (1,))]
    )


CALLS = ["entry", "call", "first odd", "between", "second odd", "sum", "return"]
CASES = [
    Case("straight", straight, ["entry"], "out"),
    Case("empty", straight, ["entry"], ""),
    Case("guard", guard, ["entry", "then", "return"], "in out n"),
    Case("branch", branch, ["entry", "odd", "even", "return"]),
    Case("triangle", triangle, ["entry", "outer", "inner", "body", "next", "return"], "in out n"),
    Case("collatz", collatz, ["entry", "head", "test", "odd", "even", "step", "return"]),
    Case(
        "early",
        early,
        ["entry", "head", "body", "found", "add", "next", "after", "return"],
        "in out n",
    ),
    Case("callee", calls, CALLS),
    Case("caller", calls, CALLS),
    Case(
        "tree",
        tree,
        ["entry", "head", "test", "add", "barrier", "end", "leader", "return"],
        "in out local",
        [((128,), (32,)), ((192,), (64,)), ((256,), (128,)), ((48,), (16,))],
    ),
    Case(
        "uniform_barriers",
        uniform_barriers,
        [
            "entry",
            "out early",
            "test n",
            "first barrier",
            "join",
            "round head",
            "round",
            "big",
            "second barrier",
            "end",
            "add",
            "return",
        ],
        "in out n local",
        [((96,), (32,)), ((200,), (50,)), ((7,), (7,)), ((640,), (64,))],
    ),
    Case(
        "choose",
        choose,
        ["entry", "one or two", "three", "four", "default", "behind", "return"],
    ),
    Case(
        "grid",
        grid,
        ["entry", "head", "test", "big", "next", "return"],
        "in out",
        [((90,), (45,)), ((15, 12), (5, 3)), ((10, 6, 9), (5, 3, 3)), ((8, 8, 4), (8, 8, 1))],
    ),
    Case(
        "many",
        many,
        ["join 0", *(f"{block} {n}" for n in range(1, 12) for block in ("odd", "even", "join"))],
    ),
    Case("fixed", fixed, ["entry", "body", "return"], "in out", [((24, 12), (8, 6))]),
    Case("wide", wide, ["entry", "head", "test", "add", "next", "return"], "in out wide_n"),
    Case(
        "mixed",
        mixed,
        [
            *("entry", "odd n", "odd value?", "outer", "inner", "body", "n > 50", "inner next"),
            *("value > j?", "value > j", "outer next", "before while", "while", "n > 150?"),
            *("n > 150", "n <= 150", "while next", "return"),
        ],
        "in out n",
    ),
]


def modelled(
    case: Case,
    kernel: Kernel,
    size: tuple[int, ...],
    local: tuple[int, ...],
    data: list[int],
    n: int,
) -> Any:
    """Counts (warps, blocks): warps by linear group, then by their work-items' local ids."""
    groups = [s // i for s, i in zip(size, local, strict=True)]
    warps = warps_of_group(local, kernel.sub_group)
    warp_of = [number for number, items in enumerate(warps) for _ in items]
    rows = []
    for group in np.ndindex(*reversed(groups)):
        of_warp = [Counter[str]() for _ in warps]
        for linear, lid in enumerate(np.ndindex(*reversed(local))):
            lid = tuple(reversed(lid))
            place = zip(reversed(group), local, lid, strict=True)
            item = Item(tuple(g * i + x for g, i, x in place), lid, size, local, data, n)
            of_warp[warp_of[linear]].update(case.model(item))
        rows += [[counter[name] for name in case.blocks] for counter in of_warp]
    return np.array(rows)


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.fixture(scope="module")
def native(device: Any) -> Any:
    return device.build_source(KERNELS.read_text())


LITTLE = ["1 word", "0 words"]  # local memory per work-item; none: atomic additions


FORMS = ["source", "bitcode", "spirv", "through spirv"]


@pytest.fixture(scope="module", params=[*FORMS, *LITTLE, "in memory"])
def instrumented(
    request: pytest.FixtureRequest, device: Any, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """The kernels from each form of input; one also as SPIR-V, with little local memory, and with
    counters in memory."""
    folder = tmp_path_factory.mktemp("clinst")
    source = KERNELS
    if request.param == "in memory":
        made = instrument(source, folder, "--device", "most_in_registers=0")
        return made, device.build_module(made.module), 4
    if request.param in LITTLE:
        made = instrument(source, folder, "--device", f"local_words={request.param[0]}")
        return made, device.build_module(made.module), 2
    if request.param != "source":
        source = folder / "program.bc"
        front = [CLANG, "-target", "spir64", "-x", "cl", "-cl-std=CL1.2", "-c", "-emit-llvm"]
        how = ["-O2", "-Xclang", "-disable-llvm-passes"]
        if LLVM < 17:
            how += ["-Xclang", "-no-opaque-pointers"]
        output([*front, *how, KERNELS, "-o", source])
    if request.param.endswith("spirv"):
        spirv = folder / "program.spv"
        output([LLVM_SPIRV, source, "-o", spirv])
        source = spirv
    to = "spirv" if request.param == "through spirv" else "bitcode"
    made = instrument(source, folder, to=to)
    module = made.module
    if to == "spirv":
        back = folder / "back.bc"
        output([LLVM_SPIRV, "-r", folder / "out.spirv", "-o", back])
        module = back.read_bytes()
    # The runtime compiles for every local size: all from source, two from the other forms.
    launches = 4 if request.param == "source" else 2
    return made, device.build_module(module), launches


@pytest.fixture(scope="module", params=["8 words", *LITTLE])
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Intel's CPU runtime: device, native program, instrumented program."""
    device = Device(INTEL)
    native = device.build_source(KERNELS.read_text())
    sizes = device.sub_groups(native)
    folder, words = tmp_path_factory.mktemp("clinst"), f"local_words={request.param[0]}"
    made = instrument(KERNELS, folder, "--device", words, *CONTRACTS, to="spirv", sub_groups=sizes)
    return device, native, made, device.build_module(made.module), 4


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_counts_of_every_warp_and_block(
    case: Any, device: Any, native: Any, instrumented: Any
) -> None:
    """GIVEN a kernel WHEN it runs instrumented THEN counts and results are right."""
    check(case, device, native, *instrumented)


@pytest.mark.intel
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_counts_on_another_runtime(case: Any, other: Any) -> None:
    """GIVEN a runtime that takes SPIR-V and schedules work-items freely THEN counts are the
    same."""
    check(case, *other)


def check(case: Any, device: Any, native: Any, made: Any, built: Any, launches: Any) -> None:
    """Compare results with the native run and counts with the model."""
    kernel = made.kernels[case.kernel]
    assert len(kernel.blocks) == len(case.blocks)
    random = np.random.default_rng(7)
    for size, local in case.launches[:launches]:
        data = random.integers(0, 12, int(np.prod(size)) + 20, np.int32)
        out = np.zeros(2 * data.size, np.int32)
        n = int(np.prod(size)) - 3
        results = []
        for instrument_it in (False, True):
            result = device.buffer(out)
            values = {
                "in": device.buffer(data),
                "out": result,
                "n": np.int32(n),
                "wide_n": np.uint64(n),
                "local": device.cl.LocalMemory(4 * int(np.prod(local))),
            }
            arguments = [values[name] for name in case.arguments.split()]
            if instrument_it:
                counts = device.count(built, kernel, arguments, size, local)
            else:
                device.run(native, case.kernel, arguments, size, local)
            results.append(device.read(result, out))
        np.testing.assert_array_equal(*results)
        np.testing.assert_array_equal(counts, modelled(case, kernel, size, local, data.tolist(), n))


FUSED = """
kernel void fused(global const float *in, global float *out, int n) {
  int i = get_global_id(0);
  float s = in[i];
  float4 v = (float4)(s, s + 1, s - 1, -s);
  double d = s;
  if (s > 0.25f)
    for (int k = 0; k < n; k++) {
      s = 0.37f * s + in[k];
      v = v * 0.37f + v.yzwx;
      d = d * 0.37 + in[k];
    }
  out[i] = s * in[i] + (float)d + (v.x + v.w * v.z);
}
"""


@pytest.mark.parametrize(
    ("platform", "features"),
    [
        (POCL, ()),
        pytest.param(INTEL, (), marks=pytest.mark.intel, id="fma"),
        pytest.param(INTEL, CONTRACTS, marks=pytest.mark.intel, id="contracts"),
    ],
)
def test_results_are_the_programs_own_to_the_last_bit(
    platform: str, features: tuple[str, ...], tmp_path: Path
) -> None:
    """GIVEN products and sums that a runtime may fuse THEN the counted kernel fuses the same."""
    device, source = Device(platform), tmp_path / "fused.cl"
    source.write_text(FUSED)
    native = device.build_source(FUSED)
    sizes = device.sub_groups(native)
    made = instrument(source, tmp_path, *features, to=device.form, sub_groups=sizes)
    size, local = (4096,), (64,)
    values = np.random.default_rng(5).random(4096, np.float32)
    in_, outs = device.buffer(values), [device.buffer(0 * values) for _ in range(2)]
    device.run(native, "fused", [in_, outs[0], np.int32(40)], size, local)
    kernel = made.kernels["fused"]
    device.count(
        device.build_module(made.module), kernel, [in_, outs[1], np.int32(40)], size, local
    )
    first, second = (device.read(out, values).view(np.int32) for out in outs)
    np.testing.assert_array_equal(first, second)


EARLY = """
kernel void early(global const int *in, global int *out, int n) {
  int item = get_local_id(0), group = get_group_id(0);
  if (in[group] < 0) return;
  if (group >= in[n]) return;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item < 16) out[16 * group + item] = item + 1;
}
"""


@pytest.mark.parametrize("features", [(), ("--device", "most_in_registers=0")])
def test_groups_that_return_before_a_barrier(features: tuple[str, ...], tmp_path: Path) -> None:
    """GIVEN groups that return before the only barrier, others that end after it WHEN counters are
    registers, or in memory THEN each group does, and counts, its own part."""
    device, source = Device(), tmp_path / "early.cl"
    source.write_text(EARLY)
    kernel = (made := instrument(source, tmp_path, *features)).kernels["early"]
    groups, items, n = 8, 32, 8
    in_ = np.array([0, -1, 0, 0, 0, -1, 0, 0, 5], np.int32)
    out = np.zeros(16 * groups, np.int32)
    result = device.buffer(out)
    arguments = [device.buffer(in_), result, np.int32(n)]
    built = device.build_module(made.module)
    counts = device.count(built, kernel, arguments, (groups * items,), (items,))
    ends = np.array([in_[g] >= 0 and g < in_[n] for g in range(groups)])
    np.testing.assert_array_equal(
        device.read(result, out).reshape(groups, 16), ends[:, None] * np.arange(1, 17)
    )
    assert any(np.array_equal(of_warps, 16 * ends) for of_warps in counts.T)


def test_regular_kernels_have_analytic_counts(tmp_path: Path) -> None:
    """GIVEN loops over ids, sizes and arguments, nests, barriers and halved strides among them THEN
    the launch tells the counts; where data decides, it does not."""
    kernels = instrument(ROOT / "tools/bench/kernels/gpu_counters.cl", tmp_path).kernels
    counting = {name for name, kernel in kernels.items() if not kernel.analytic}
    assert counting == {
        *("mandelbrot", "collatz", "bodies", "bitonic", "mixed"),
        "straight",  # there is nothing to count
    }


NESTS = """
kernel void windows(global int *data, int n, int m) {
  const int t = get_local_id(0), size = get_local_size(0);
  int i = get_global_id(0);
  for (uint window = 0; window < (uint)n; window += size) {
    if (i < n) data[i] = 0;
    for (int k = 1; k < size; k *= 2)
      if (t >= k) data[k] = 1;
    i += size;
    for (int j = t; j < m; j += size) data[j]++;
    if (i == m || !(i < n && t > 3)) data[i] = 2;
  }
}
kernel void narrows(global int *data, int n, int m) {
  for (int i = get_global_id(0); i < n; i += m)
    for (int j = i; j < n; j += m) data[j]++;
}
kernel void reads(global int *data, int n, int m) {
  for (int i = get_global_id(0); i < n; i += m)
    for (int j = 0; j < n; j += m)
      if (data[j]) data[j]++;
}
"""


def test_loops_in_loops_have_analytic_counts(tmp_path: Path) -> None:
    """GIVEN loops with the same turns each time, and conditions on what a loop counts THEN the
    launch tells the counts; not where the inner loop begins elsewhere each time, nor of data."""
    source = tmp_path / "nests.cl"
    source.write_text(NESTS)
    kernels = instrument(source, tmp_path).kernels
    assert {name for name, kernel in kernels.items() if kernel.analytic} == {"windows"}


def test_probes_are_few(tmp_path: Path) -> None:
    """Straight code needs no counter, and a graph at most edges - blocks + 1."""
    kernels = instrument(KERNELS, tmp_path).kernels
    probes = {name: kernel.n_probes for name, kernel in kernels.items()}
    assert probes["straight"] == probes["empty"] == 0
    assert probes["guard"] == probes["branch"] == probes["fixed"] == 1
    assert probes["triangle"] == probes["collatz"] == probes["grid"] == 2
    assert probes["many"] == 11 and kernels["many"].scratch_probes <= 8


def test_multiples_cost_the_work_items_nothing(tmp_path: Path) -> None:
    """Uniform trip counts and branches take no local memory."""
    kernels = instrument(KERNELS, tmp_path).kernels
    assert kernels["mixed"].n_probes == 8 and kernels["mixed"].scratch_probes == 3
    assert kernels["guard"].scratch_probes == 1  # depends on the work-item


def test_mix_adds_up(tmp_path: Path) -> None:
    """The classes of a block's mix sum to its instructions."""
    for kernel in instrument(KERNELS, tmp_path).kernels.values():
        for block in kernel.blocks:
            assert sum(block["mix"]) == block["instructions"] > 0


SIZES = """
kernel void scalar(global int *data) { while (data[get_global_id(0)] > 1) data[0]--; }
kernel void vectors(global int *data) { if (data[get_global_id(0)] > 1) data[0] = 1; }
kernel __attribute__((intel_reqd_sub_group_size(64))) void own(global int *data) {
  if (data[get_global_id(0)] > 1) data[0] = 1;
}
"""


def required_sub_groups(module: bytes) -> dict[str, int]:
    """The size that each kernel of a SPIR-V module requires (OpEntryPoint, OpExecutionMode)."""
    words, at = np.frombuffer(module, np.uint32), 5
    names: dict[int, str] = {}
    sizes: dict[str, int] = {}
    while at < len(words):
        length, op = divmod(int(words[at]), 1 << 16)
        operands = words[at + 1 : at + length]
        if op == 15:
            names[operands[1]] = operands[2:].tobytes().split(b"\0")[0].decode()
        if op == 16 and operands[1] == 35:
            sizes[names[operands[0]]] = int(operands[2])
        at += length
    return sizes


def test_kernels_are_compiled_as_natively(tmp_path: Path) -> None:
    """GIVEN a kernel that the device does not vectorise (64) THEN counted it is not, either."""
    source = tmp_path / "sizes.cl"
    source.write_text(SIZES)
    stated = {"scalar": 64, "vectors": 16, "own": 64}
    made = instrument(source, tmp_path, *CONTRACTS, to="spirv", sub_groups=stated)
    assert required_sub_groups(made.module) == {"scalar": 1, "vectors": 16, "own": 64}


WIDTHS = """
kernel void bounded(global int *data, int n) {
  for (int i = 0; i < n; i++)
    if (data[i] > 0) data[i] = get_global_id(0);
}
kernel void nest(global int *data, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < data[i]; j++)
      if (data[j] > 0) data[j] = get_global_id(0);
}
kernel void unbounded(global int *data, int n) {
  while (data[n] != 1)
    if (data[n] > 5) data[n] -= n;
}
kernel void strided(global int *data, uint n) {
  const uint end = data[1];
  for (uint i = data[0]; i < end; i += n)
    if (data[i] > 0) data[i] = get_global_id(0);
}
kernel void halved(global int *data, int n) {
  for (int s = n; s > 0; s /= 2)
    if (data[s] > 0) data[s] = get_global_id(0);
}
kernel void hailstones(global int *data, uint n) {
  while (n != 1) {
    if (data[n & 7] > 0) data[n & 7] = get_global_id(0);
    n = n & 1 ? 3 * n + 1 : n / 2;
  }
}
kernel void longer(global int *data, ulong n) {
  const ulong end = data[1];
  for (ulong i = data[0]; i < end; i += n)
    if (data[i] > 0) data[i] = get_global_id(0);
}
kernel void left(global int *data, int n) {
  const int end = data[1];
  for (int i = data[0]; i < end; i += n)
    if (data[i] > 0) break;
}
kernel void untested(global int *data, uint n) {
  const uint end = data[1];
  for (uint i = data[0];;) {
    i += n;
    if (data[i & 7] > 0) continue;
    if (i > end) break;
  }
}
"""


def test_counters_are_32_bits_wide_where_more_cannot_be_reached(tmp_path: Path) -> None:
    source = tmp_path / "widths.cl"
    source.write_text(WIDTHS)
    module = tmp_path / "module.bc"
    module.write_bytes(instrument(source, tmp_path).module)
    text = subprocess.run(
        [CLANG, "-S", "-emit-llvm", "-x", "ir", str(module), "-o", "-"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    widths = {}
    for kernel in text.split("define ")[1:]:
        name = re.search(r"@(\w+)", kernel)[1]
        widths[name] = set(re.findall(r"%xpuprof\.count\S* = phi i(\d+)", kernel))
    assert widths == {
        "bounded": {"32"},
        "nest": {"64"},
        "unbounded": {"64"},
        "strided": {"32"},
        "halved": {"32"},
        "hailstones": {"32"},
        "longer": {"64"},
        "left": {"64", "8"},
        "untested": {"64"},
    }
