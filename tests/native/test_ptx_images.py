# SPDX-License-Identifier: Apache-2.0
"""Which PTX of a fat binary engine ptx takes for a device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cuda_parts import nvcc
from tests.support.paths import ROOT
from tests.support.run import run_text

pytestmark = pytest.mark.cuda

PROGRAM = """
#include <fstream>
#include <iostream>
#include <iterator>
#include "driver/image.h"
int main(int, char **argv) {
  std::ifstream file(argv[1], std::ios::binary);
  const std::string image((std::istreambuf_iterator<char>(file)), {});
  std::string why;
  const std::string text = ptx::text_in(image.data(), std::stoul(argv[2]), &why);
  std::cout << (text.empty() ? why : text);
}
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints the PTX chosen, and a fat binary of nvcc's beside it."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "k.cu").write_text("__global__ void k(int *x) { *x = 1; }\n")
    kinds = ("80", "90", "90a", "100f", "120", "120a")
    codes = [word for k in kinds for word in ("-gencode", f"arch=compute_{k},code=compute_{k}")]
    nvcc("-fatbin", *codes, str(folder / "k.cu"), "-o", str(folder / "k.fatbin"))
    (folder / "reader.cpp").write_text(PROGRAM)
    ptx = ROOT / "native" / "gpu" / "ptx"
    sources = [str(folder / "reader.cpp"), str(ptx / "driver" / "image.cpp")]
    command = ["g++", "-std=c++17", f"-I{ptx}", *sources, "-ldl", "-o", str(folder / "reader")]
    run_text(command, check=True)
    return folder


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        (86, "80"),
        (90, "90a"),
        (100, "100f"),
        (103, "100f"),
        (110, "90"),
        (120, "120a"),
        (121, "120"),
    ],
)
def test_the_ptx_that_suits_the_device_best_is_taken(
    reader: Path, capability: int, target: str
) -> None:
    """GIVEN PTX for any later device, for one device and for its family WHEN read for a device THEN
    the newest that runs there is taken, of equal ones the most particular."""
    shown = run_text([reader / "reader", reader / "k.fatbin", capability], check=True).stdout
    assert re.findall(r"\.target sm_(\w+)", shown) == [target], shown


def test_without_any_the_reason_is_given(reader: Path) -> None:
    """GIVEN a device older than all of the PTX WHEN read THEN the reason says so."""
    shown = run_text([reader / "reader", reader / "k.fatbin", 75], check=True).stdout
    assert shown == "its fat binary has no PTX for this device"
