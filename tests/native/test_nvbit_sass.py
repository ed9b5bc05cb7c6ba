# SPDX-License-Identifier: Apache-2.0
"""Basic blocks of SASS and warp classes: the parts of the NVBit tool that need no GPU and no kit.

Cubins are made by ptxas. The blocks are found from the raw disassembly with numeric targets, as
NVBit shows it, and checked against nvdisasm's symbolic listing, whose labels are independent.
"""

from __future__ import annotations

import functools
import re
import shutil
import struct
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.compile import compile_files
from tests.support.cuda_parts import nvcc
from tests.support.paths import HEADERS, ROOT
from tests.support.run import output, run_text

pytestmark = pytest.mark.cuda

SOURCES = Path(__file__).parent / "nvbit"
KERNELS = SOURCES / "kernels.cu"
EXACT = ROOT / "tools" / "device" / "exact.cu"
INT, FP, LOADG, STOREG, LOADL, STOREL, PRIVATE, ATOMIC, BARRIER, BRANCH, SPECIAL, OTHER = range(12)
ENDS = {"BRA", "BRX", "JMP", "JMX", "CALL", "RET", "EXIT", "BSYNC", "WARPSYNC", "BREAK", "BPT"}
ARCHS = ["80", "90", "100"]


def nvdisasm() -> str:
    """nvdisasm from PATH or PyPI's nvidia-cuda-nvdisasm."""
    packaged = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    found = shutil.which("nvdisasm") or (str(packaged) if packaged.exists() else None)
    if found is None:
        pytest.skip("nvdisasm was not found; pip install xpuprof[cuda]")
    Path(found).chmod(0o755) if found == str(packaged) else None
    return found


@dataclass(frozen=True)
class Code:
    """One function: its instructions, and where nvdisasm puts labels."""

    offsets: list[int]
    texts: list[str]
    labels: set[int]


def sections(cubin: bytes) -> dict[str, bytes]:
    """The functions' machine code by name."""
    start, count, names = (
        struct.unpack_from("<Q", cubin, 40)[0],
        *struct.unpack_from("<HH", cubin, 60),
    )
    rows = [struct.unpack_from("<IIQQQQ", cubin, start + 64 * i) for i in range(count)]
    strings = cubin[rows[names][4] : rows[names][4] + rows[names][5]]
    named = {strings[r[0] : strings.index(b"\0", r[0])].decode(): r for r in rows}
    return {
        name[6:]: cubin[row[4] : row[4] + row[5]]
        for name, row in named.items()
        if name.startswith(".text.")
    }


LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?;)", re.M)


def listing(cubin: Path) -> dict[str, set[int]]:
    """Offsets in each function that a branch or a call refers to, from the symbolic listing.
    nvdisasm also adds unused labels before each EXIT."""
    shown = output([nvdisasm(), "-c", cubin])
    referred = set(re.findall(r"`\(([^)\s]+)\)", shown))
    for table in re.findall(r'BRANCH_TARGETS ([^"]+)"', shown):
        referred |= set(table.split(","))
    labels: dict[str, set[int]] = {}
    function, pending = "", False
    for line in shown.splitlines():
        if match := re.match(r"^\.text\.(\S+):", line):
            function = match[1]
            labels[function] = set()
        elif match := re.match(r"^(\S+):$", line):
            pending |= match[1] in referred
        elif (match := LINE.match(line)) and function:
            if pending:
                labels[function].add(int(match[1], 16))
            pending = False
    return labels


@functools.cache
def functions(folder: Path, arch: str, source: Path = KERNELS) -> dict[str, Code]:
    """Every function of a source for an architecture, disassembled as NVBit does it."""
    cubin = folder / f"{source.stem}{arch}.cubin"
    if not cubin.exists():
        every = "90a" if arch == "90" else arch
        nvcc(f"-arch=sm_{every}", "-std=c++17", "-cubin", str(source), "-o", str(cubin))
    labels = listing(cubin)
    result = {}
    for name, machine_code in sections(cubin.read_bytes()).items():
        raw = folder / "raw"
        raw.write_bytes(machine_code)
        lines = LINE.findall(output([nvdisasm(), "-b", f"SM{arch}", raw]))
        result[name] = Code([int(a, 16) for a, _ in lines], [t for _, t in lines], labels[name])
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the helper programs and cubins lie."""
    place = tmp_path_factory.mktemp("sass")
    gpu = ROOT / "native" / "gpu"
    parts = {"sass_blocks": ("nvbit/sass", "cuda/cubin"), "classes": ("nvbit/classes",)}
    include = [f"-I{folder}" for folder in (gpu / "nvbit", gpu / "cuda", HEADERS)]
    for name, needed in parts.items():
        sources = [SOURCES / f"{name}.cpp", *(gpu / f"{part}.cpp" for part in needed)]
        compile_files(sources, place / name, *include, compiler="g++")
    return place


def blocks(folder: Path, code: Code, *cubin_and_name: str | Path) -> list[list[int]]:
    """first, instructions, mix of every block."""
    lines = "".join(f"{o:x} {t}\n" for o, t in zip(code.offsets, code.texts, strict=True))
    found = output([folder / "sass_blocks", *cubin_and_name], stdin=lines)
    return [[int(word) for word in line.split()] for line in found.splitlines()]


def opcode(text: str) -> str:
    """`@P0 BRA 0x10 ;` -> `BRA`."""
    return re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].rstrip(";").split(".")[0]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("source", [KERNELS, EXACT], ids=["kernels", "exact"])
def test_blocks_start_at_every_label_and_after_every_change_of_lanes(
    folder: Path, source: Path, arch: str
) -> None:
    """GIVEN functions of all kinds WHEN cut THEN blocks start at 0, at nvdisasm's labels, after
    instructions that end a block, and nowhere else; they cover every instruction once."""
    seen = set()
    for name, code in functions(folder, arch, source).items():
        found = blocks(folder, code, folder / f"{source.stem}{arch}.cubin", name)
        seen |= {opcode(t) for t in code.texts}
        starts = [b[0] for b in found]
        assert starts[0] == 0
        assert [b[0] + b[1] for b in found] == [*starts[1:], len(code.texts)]
        assert all(sum(b[2:]) == b[1] for b in found)
        behind = {i + 1 for i, t in enumerate(code.texts) if opcode(t) in ENDS}
        at_label = {code.offsets.index(o) for o in code.labels if o in code.offsets}
        expected = {i for i in {0} | behind | at_label if i < len(code.texts)}
        assert set(starts) == expected, (name, arch)
    assert {"BRA", "BRX", "EXIT", "BSSY", "BSYNC", "CALL", "RET"} <= seen
    assert "HGMMA" in seen or (source, arch) != (EXACT, "90")


def test_a_jump_table_without_its_targets_is_cut_at_every_instruction(folder: Path) -> None:
    """GIVEN a kernel with an indirect branch WHEN its cubin is not known THEN each instruction is a
    block; with it, few are; and the compiler did turn our switch into such a branch."""
    code = functions(folder, "90")["switches"]
    assert any(opcode(t) == "BRX" for t in code.texts)
    assert len(blocks(folder, code)) == len(code.texts)
    assert len(blocks(folder, code, folder / "kernels90.cubin", "switches")) < len(code.texts) / 3


def test_a_branch_to_no_instruction_is_a_fault(folder: Path) -> None:
    """GIVEN offsets that do not belong to the disassembly WHEN cut THEN the first branch that leads
    to no instruction is named, and there are no blocks."""
    lines = "0 @P0 BRA 0x30 ;\n10 IADD3 R0, R1, R2 ;\n20 EXIT ;\n"
    done = run_text([folder / "sass_blocks"], stdin=lines)
    assert done.returncode == 1
    assert done.stdout == "BRA at 0x0 leads to 0x30, where it has no instruction\n"


@pytest.mark.parametrize("arch", ARCHS)
def test_the_mix_counts_what_the_source_says(folder: Path, arch: str) -> None:
    """GIVEN kernels whose memory operations are known WHEN classified THEN they are counted."""
    code = functions(folder, arch)

    def mix(name: str) -> list[int]:
        return [sum(column) for column in zip(*blocks(folder, code[name]), strict=True)][2:]

    # Loads of constants count too, so the array's loads are those other than LDC.
    constants = sum(opcode(t) in ("LDC", "ULDC", "LDCU") for t in code["straight"].texts)
    assert mix("straight")[LOADG] - constants == 1
    assert mix("straight")[STOREG] == 1
    assert mix("straight")[FP] >= 1
    assert mix("barriers")[LOADL] == 3
    assert mix("barriers")[STOREL] == 1
    assert mix("barriers")[BARRIER] >= 2
    assert mix("barriers")[SPECIAL] >= 1
    assert mix("divergent")[ATOMIC] == 1
    assert mix("calls")[BRANCH] >= 2


@pytest.mark.parametrize("arch", ARCHS)
def test_few_instructions_are_of_no_class(folder: Path, arch: str) -> None:
    """GIVEN all test kernels WHEN classified THEN only NOPs and the like remain without a class."""
    for name, code in functions(folder, arch).items():
        other = {
            opcode(code.texts[b[0]]) for b in blocks(folder, code) if b[1] == 1 and b[2 + OTHER]
        }
        assert other <= {"NOP", "YIELD", "ACQBULK", "PREEXIT", "CCTL", "LEPC", "UPCCREL"}, name


def test_warp_classes_match_a_plain_model(folder: Path) -> None:
    """GIVEN random rows WHEN classed by hash in passes THEN classes and runs match a plain model,
    and a vector that is one count off is detected."""
    done = run_text([folder / "classes"])
    assert done.returncode == 0, done.stdout
