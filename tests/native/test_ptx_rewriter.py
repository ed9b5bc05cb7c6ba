# SPDX-License-Identifier: Apache-2.0
"""The PTX engine's rewriter, exact against an emulator that shares no code with it: the counts of
every warp, and what the kernel computes. Needs no GPU; kernels in CUDA C++ need nvcc."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.cuda_parts import nvcc
from tests.support.ptx import EMULATOR, HEADER, build, random_ptx
from tests.support.run import output, run_text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Executes a kernel before and after rewriting and compares (check.cpp)."""
    return build(tmp_path_factory.mktemp("ptx"), "check")


@pytest.fixture(scope="module")
def rewriter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes a file's PTX with counters."""
    return build(tmp_path_factory.mktemp("ptx"), "rewrite_file")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """kernels.cu as nvcc compiles it."""
    made = tmp_path_factory.mktemp("ptx") / "kernels.ptx"
    nvcc("-arch=sm_80", "-lineinfo", "-ptx", str(EMULATOR / "kernels.cu"), "-o", str(made))
    return made


def counted(program: Path, *arguments: object) -> dict[str, int]:
    """Fails with the first count or result that differs."""
    done = run_text([program, *arguments])
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()[0].split()
    return {words[i]: int(words[i + 1]) for i in range(0, len(words), 2)}


CALLS = {
    "saxpy": ("4,1,1", "100,1,1", 0, "u32:350", "f32:2", "buffer:1600:1", "buffer:1600:2"),
    "straight": ("3,1,1", "70,1,1", 0, "buffer:1600:1", "buffer:1600:2"),
    "loops": ("4,1,1", "100,1,1", 0, "buffer:1600:1", "buffer:1600:2", "u32:350"),
    "calls": ("4,1,1", "100,1,1", 0, "buffer:1600:1", "buffer:1600:2"),
    "only_calls": ("4,1,1", "100,1,1", 0, "buffer:1600:1", "buffer:1600:2"),
    "also_calls": ("2,1,1", "100,1,1", 0, "buffer:1600:1", "buffer:1600:2"),
    "reduce": ("2,2,1", "16,8,1", 0, "buffer:2048:1", "buffer:1600:2"),
    "cases": ("4,1,1", "100,1,1", 0, "buffer:1600:1", "buffer:1600:2"),
    "histogram": ("3,1,1", "64,1,1", 64, "buffer:4000:1", "buffer:64:2", "u32:1000"),
}


@pytest.mark.cuda
@pytest.mark.parametrize("unit", ["lane", "warp"])
@pytest.mark.parametrize("kernel", CALLS)
def test_kernels_of_nvcc_are_exact(check: Path, kernels: Path, kernel: str, unit: str) -> None:
    """GIVEN loops, breaks, early returns, switches, barriers, shared functions WHEN both versions
    run THEN each warp's counts are those of the original, and the results are the same."""
    found = counted(check, kernels, kernel, unit, *CALLS[kernel])
    assert found["executed"] > 0
    if unit == "lane" and kernel == "straight":
        assert found["columns"] == 3  # of collatz alone: the launch tells the kernel's own counts


@pytest.mark.parametrize("unit", ["lane", "warp"])
@pytest.mark.parametrize("target", [75, 80])
def test_unstructured_control_flow_is_exact(
    check: Path, tmp_path: Path, target: int, unit: str
) -> None:
    """GIVEN random graphs of branches, tables, guarded returns and calls WHEN both versions run
    THEN each warp's counts are exact, with and without sums over lanes by the device."""
    for seed in range(25):
        file = tmp_path / f"{seed}.ptx"
        file.write_text(random_ptx(seed, target))
        counted(check, file, "k", unit, "2,1,1", "70,1,1", 0, "buffer:600:3", "buffer:600:4")


def test_thread_counts_need_few_counters(check: Path, tmp_path: Path) -> None:
    """GIVEN the same kernels WHEN threads are counted instead of groups of lanes THEN blocks whose
    counts follow from others have no counter."""
    columns = {"lane": 0, "warp": 0}
    for seed in range(20):
        file = tmp_path / f"{seed}.ptx"
        file.write_text(random_ptx(seed))
        for unit in columns:
            found = counted(
                check, file, "k", unit, "1,1,1", "32,1,1", 0, "buffer:600:3", "buffer:600:4"
            )
            columns[unit] += found["columns"]
    assert columns["lane"] < 0.85 * columns["warp"]


@pytest.mark.cuda
@pytest.mark.parametrize("unit", ["lane", "warp"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
def test_the_assembler_takes_it(
    rewriter: Path, kernels: Path, tmp_path: Path, arch: str, unit: str
) -> None:
    """GIVEN nvcc's and random PTX with counters WHEN ptxas assembles it THEN nothing is refused and
    nothing is spilled."""
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not on PATH; install the CUDA toolkit's compiler")
    files = [kernels]
    for seed in range(2):
        files.append(tmp_path / f"{seed}.ptx")
        files[-1].write_text(random_ptx(seed))
    for file in files:
        made = tmp_path / "made.ptx"
        made.write_text(output([str(rewriter), str(file), unit]))
        done = run_text(["ptxas", "-v", f"-arch={arch}", made, "-o", tmp_path / "made.cubin"])
        assert done.returncode == 0, done.stderr
        report = done.stdout + done.stderr
        assert report.count("0 bytes spill stores, 0 bytes spill loads") == report.count(
            "spill stores"
        )


REASONS = {
    ".extern .func other();": (
        "call.uni other;",
        "it calls other, whose code is not in its module",
    ),
    ".func ends() { exit; }": ("call.uni ends;", "ends ends threads of the kernels that call it"),
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);": ("mov.u32 %r, 0;", ""),
}


@pytest.mark.parametrize("declared", REASONS)
def test_a_kernel_that_cannot_be_counted_says_why(
    rewriter: Path, tmp_path: Path, declared: str
) -> None:
    """GIVEN calls into code that is not there, or that ends threads WHEN rewritten THEN the kernel
    has the reason, and the others are instrumented."""
    call, reason = REASONS[declared]
    kernel = ".visible .entry {0}() {{ .reg .b32 %r; {1} ret; }}\n"
    file = tmp_path / "k.ptx"
    file.write_text(
        HEADER.format(target=80) + declared + kernel.format("k", call) + kernel.format("plain", "")
    )
    lines = run_text([rewriter, file, "lane"], check=True).stderr.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["k", "plain"]
    assert [line.split("\t")[3] for line in lines] == [reason, ""]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no PTX", "a declaration does not end"),
        (".version 8.0\n.target sm_80\n.address_size 32\n", "its addresses do not have 64 bits"),
        (
            HEADER.format(target=80) + ".entry k() { bra nowhere; }",
            "a branch of k leads to 'nowhere'",
        ),
        (HEADER.format(target=80) + ".entry k() { mov.u32 %r, 1;", "the body of k does not end"),
        (HEADER.format(target=80) + ".entry k() { add; }", "the last instruction of k leads out"),
    ],
)
def test_what_is_not_ptx_is_refused(rewriter: Path, tmp_path: Path, text: str, why: str) -> None:
    """GIVEN text that is damaged or not PTX WHEN rewritten THEN it is refused with the reason."""
    file = tmp_path / "k.ptx"
    file.write_text(text)
    done = run_text([rewriter, file, "lane"])
    assert done.returncode == 1 and why in done.stderr
