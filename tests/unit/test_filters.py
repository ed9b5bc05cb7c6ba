# SPDX-License-Identifier: Apache-2.0
"""--kernels, --window, --process: bad values are refused before anything starts, and the native
side understands the others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.compile import compile_text
from tests.support.paths import HEADERS
from xpuprof.cli import cli
from xpuprof.engines import choose
from xpuprof.engines.base import Probe
from xpuprof.engines.cpu.dynamorio import DynamoRio
from xpuprof.engines.cpu.pin import Pin
from xpuprof.engines.cpu.valgrind import Valgrind
from xpuprof.engines.filter_grammar import check_kernels, check_window, starts_closed
from xpuprof.engines.filters import (
    Filters,
    check_engines,
    starts_natively,
    wanted_of_cpu_engine,
)
from xpuprof.engines.gpu.cuda import Cuda
from xpuprof.engines.gpu.gtpin import Gtpin
from xpuprof.engines.gpu.opencl import OpenCl
from xpuprof.errors import EngineError, TraceError, UsageError, XpuprofError

# Reads lines: the specification, then `kernel launch call` lines up to an empty one.
NATIVE = r"""
#include <iostream>
#include <sstream>
#include "xpuprof/kernel_spec.hpp"
int main() {
  std::string spec, line, why;
  while (std::getline(std::cin, spec)) {
    KernelSpec parsed;
    bool ok = parsed.parse(spec, &why);
    std::cout << (ok ? "ok" : "bad");
    while (std::getline(std::cin, line) && !line.empty()) {
      std::istringstream words(line);
      std::string name;
      uint64_t launch, call;
      words >> name >> launch >> call;
      if (ok) std::cout << ' ' << parsed.chooses(name, launch, call);
    }
    std::cout << std::endl;
  }
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A program around kernel_spec.hpp that answers any number of queries."""
    target = tmp_path_factory.mktemp("spec") / "spec"
    program = compile_text(NATIVE, target, f"-I{HEADERS}", compiler="c++")
    pipe = subprocess.PIPE
    with subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True) as running:
        yield running


def ask(native: subprocess.Popen[str], spec: str, *launches: tuple[str, int, int]) -> list[str]:
    lines = [spec, *(f"{name} {launch} {call}" for name, launch, call in launches), ""]
    assert native.stdin and native.stdout
    native.stdin.write("\n".join(lines) + "\n")
    native.stdin.flush()
    return native.stdout.readline().split()


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        # (kernel, launch, call): gemm_a 1 1, axpy 2 1, gemm_a 3 2, gemm_b 4 1, gemm_b 100 8
        ("", "11111"),
        ("3", "00100"),
        ("2-4", "01110"),
        ("-2", "11000"),
        ("4-", "00011"),
        ("gemm.*", "10111"),
        ("gemm", "00000"),  # the whole name must match
        ("2-8@gemm.*", "00101"),
        ("2-8@gemm.*,100-", "00101"),
        ("1@gemm_.,axpy", "11010"),
        ("axpy|gemm_b,1", "11011"),
        ("gemm_[a,b]", "10111"),  # a comma in brackets
        ("[a-z]{4}", "01000"),
        ("[a-z]{1,1000}", "01000"),
        (r"\{2000\}|[{2000,4}]+|axpy{0001}", "01000"),  # only the last is a count
    ],
)
def test_what_a_specification_chooses(
    native: subprocess.Popen[str], spec: str, chosen: str
) -> None:
    """GIVEN launches THEN the specified ones are chosen, and Python accepts the specification
    too."""
    check_kernels(spec)
    launches = [
        ("gemm_a", 1, 1),
        ("axpy", 2, 1),
        ("gemm_a", 3, 2),
        ("gemm_b", 4, 1),
        ("gemm_b", 100, 8),
    ]
    assert ask(native, spec, *launches) == ["ok", *chosen]


@pytest.mark.parametrize(
    "spec",
    [
        *("0", "3-1", "-", "--2", "1-2-3", "@a", "3@", "x-2@a", ",a", "a(", "a[", "*", "1@+"),
        *("1e3@a", "9" * 30),
        *("k{1001}", "k{1,1001}", "k{1001,}", "k{1993991993991993}", "k{1," + "9" * 5000 + "}"),
        "[]a]{1993991993991993}",
        r"(\(\622222262222262222622662222662",
    ],
)
def test_bad_specification(native: subprocess.Popen[str], spec: str) -> None:
    """GIVEN an invalid specification THEN Python and the native side refuse it."""
    with pytest.raises(UsageError, match="--kernels"):
        check_kernels(spec)
    assert ask(native, spec) == ["bad"]


@pytest.mark.parametrize("spec", ["(?i)a", "(?P<n>a)", "(?<=a)b", r"\Aa", "a{,2}", "a++", "[[]"])
def test_other_dialects_are_refused(spec: str) -> None:
    """GIVEN a construct that one side lacks or interprets differently THEN it is refused."""
    with pytest.raises(UsageError, match="regular expression"):
        check_kernels(spec)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="ab1-@,.*+?()[]{}|\\^$w2:", max_size=12))
def test_what_python_takes_the_native_side_takes(native: subprocess.Popen[str], spec: str) -> None:
    """GIVEN any text that passes the check THEN the native side accepts it."""
    try:
        check_kernels(spec)
    except UsageError:
        return
    assert ask(native, spec, ("ab", 1, 1))[0] == "ok"


@pytest.mark.parametrize(
    "spec", ["3", "2-9", "2-", "-9", "@solve", "2@solve", "2-4@so*ve", "-3@s", "@a@b"]
)
def test_windows(spec: str) -> None:
    """GIVEN a valid window THEN it is accepted."""
    check_window(spec)


@pytest.mark.parametrize(
    "spec", ["x", "0-3", "4-2", "@", "3@", "x@solve", "1:3", "-", "2-@" + "n" * 300]
)
def test_bad_windows(spec: str) -> None:
    """GIVEN an invalid window THEN one sentence says so."""
    with pytest.raises(UsageError, match="--window"):
        check_window(spec)


@pytest.mark.parametrize("spec", ["", "2-", "@solve", "3-@solve"])
def test_end_needs_an_end(spec: str) -> None:
    """GIVEN a window that lasts as long as the program THEN --after-window end is refused."""
    with pytest.raises(UsageError, match="--after-window end"):
        check_window(spec, "end")
    check_window("2-4", "end")
    check_window("1@solve", "end")


def test_which_windows_start_closed() -> None:
    """GIVEN a window THEN it is open from the start only if launch 1 belongs to it."""
    assert [starts_closed(w) for w in ("", "1-4", "-4", "1", "2-", "12-", "@a", "1@a")] == [
        False, False, False, False, True, True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cpu", "gpu", "filters", "sentence"),
    [
        (None, OpenCl(), Filters(routines=("f",)), "--routine filters"),
        (None, None, Filters(kernels="1"), "--kernels chooses"),
        (None, None, Filters(window="2-3"), "counts kernel launches"),
        (Pin(), None, Filters(threads=(1,)), "pin does not support --thread"),
        (Pin(), OpenCl(), Filters(window="2-3"), "pin does not support --window"),
        (Pin(), None, Filters(processes=("a",)), "pin does not support --process"),
        (None, Cuda(), Filters(kernels="a"), "cuda does not support --kernels"),
        (None, Gtpin(), Filters(window="2"), "gtpin does not support --window"),
        (None, Gtpin(), Filters(window="1@a", after_window="end"), "gtpin does not support"),
        (None, None, Filters(processes=("",)), "--process takes"),
        (None, Cuda(), Filters(memory=True), "--memory filters"),
        (Valgrind(), OpenCl(), Filters(start_up="native"), "valgrind does not support --start-up"),
        (DynamoRio(), None, Filters(start_up="native"), "--start-up native lasts until"),
        (DynamoRio(), OpenCl(), Filters(start_up="native", window="2"), "exclude each other"),
    ],
)
def test_unsupported_options_are_refused(
    cpu: Pin | None, gpu: OpenCl | None, filters: Filters, sentence: str
) -> None:
    """GIVEN an option that an engine lacks THEN it is an error instead of being ignored."""
    with pytest.raises(XpuprofError, match=sentence) as caught:
        check_engines(cpu, gpu, filters)
    assert isinstance(caught.value, (UsageError, EngineError))


def test_a_marker_window_needs_no_gpu_engine() -> None:
    """GIVEN no GPU engine THEN a window by marker is still possible."""
    check_engines(Valgrind(), None, Filters(window="2@solve", after_window="end"))


@pytest.mark.parametrize(
    ("cpu", "gpu", "filters", "native"),
    [
        (DynamoRio(), OpenCl(), Filters(), True),
        (DynamoRio(), OpenCl(), Filters(kernels="2-", processes=("app",)), True),
        (DynamoRio(), OpenCl(), Filters(threads=(0,)), False),
        (DynamoRio(), OpenCl(), Filters(start_up="native", threads=(0,)), True),
        (DynamoRio(), OpenCl(), Filters(start_up="counted"), False),
        (DynamoRio(), OpenCl(), Filters(window="@solve"), False),
        (DynamoRio(), None, Filters(), False),
        (Valgrind(), OpenCl(), Filters(), False),
        (Valgrind(), OpenCl(), Filters(start_up="counted"), False),
        (None, OpenCl(), Filters(start_up="counted"), False),
    ],
)
def test_which_start_ups_run_natively(
    cpu: DynamoRio | None, gpu: OpenCl | None, filters: Filters, native: bool
) -> None:
    """GIVEN engines and filters THEN start-up runs natively where that is possible and not
    refused."""
    check_engines(cpu, gpu, filters)
    assert starts_natively(cpu, gpu, filters) is native


def test_auto_takes_an_engine_that_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a better CPU engine without windows WHEN one is asked for THEN auto takes the next."""
    for kind in (Pin, Valgrind):
        monkeypatch.setattr(kind, "probe", lambda self: Probe(self.name, True))
    monkeypatch.setattr(DynamoRio, "probe", lambda self: Probe(self.name, False))
    filters = Filters(window="2-3", processes=("a",))
    assert wanted_of_cpu_engine(filters) == ["--window", "--process"]
    assert choose.able("auto", filters) == "valgrind"
    assert choose.able("auto", Filters(main_image_only=True)) == "pin"
    assert choose.able("pin", filters) == "pin"  # named: refused later
    assert choose.able("auto", Filters()) == "auto"


def test_settings_are_told() -> None:
    """GIVEN filters THEN the manifest has those that exclude something, and a sentence; WHEN they
    are read back THEN they are the same."""
    filters = Filters(
        kernels="2-8@gemm.*",
        window="@solve",
        processes=("app*",),
        exclude_images=("libc*",),
        threads=(0, 2),
    )
    record = filters.record()
    assert record == {
        "kernels": "2-8@gemm.*",
        "window": "@solve",
        "after_window": "continue",
        "processes": ["app*"],
        "exclude_images": ["libc*"],
        "threads": [0, 2],
    }
    text = filters.text()
    for part in (
        "only launches that match 2-8@gemm.* are",
        "@solve",
        "app*",
        "code of libc* does not count",
        "threads 0, 2",
    ):
        assert part in text
    assert Filters.read(json.loads(json.dumps(record))) == filters
    assert Filters().record() == {}
    assert Filters().text() == ""
    assert Filters.read({"of a later version": 1}) == Filters()


@pytest.mark.parametrize(
    "chosen",
    [
        Filters(),
        Filters(kernels="-8", window="2-5", processes=("a b", "c"), memory=True),
        Filters(window="1@solve", after_window="end", threads=(0, 2), main_image_only=True),
        Filters(start_up="native"),
        Filters(start_up="counted"),
        Filters(include_images=("app",), exclude_images=("lib*",), routines=("f", "g")),
    ],
)
def test_filters_as_options(chosen: Filters) -> None:
    """GIVEN filters as options of a command WHEN it parses them THEN they are the same."""
    command = cli.get_command(click.Context(cli), "profile")
    assert command is not None
    with command.make_context("profile", [*chosen.options(), "--", "./app"]) as context:
        told = {name: value for name, value in context.params.items() if "filter_" in name}
    assert Filters(**{name.removeprefix("filter_"): v for name, v in told.items()}) == chosen


@pytest.mark.parametrize(
    "record",
    [
        {"window": 3},
        {"after_window": "stop"},
        {"start_up": "other"},
        {"threads": ["0"]},
        {"threads": [True]},
        {"routines": "f"},
        {"memory": 1},
        {"processes": [None]},
    ],
)
def test_damaged_settings(record: dict[str, object]) -> None:
    """GIVEN a manifest whose filters have another type THEN one sentence names the filter."""
    with pytest.raises(TraceError, match=f"the filter '{next(iter(record))}'"):
        Filters.read(record)
