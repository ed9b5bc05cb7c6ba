# SPDX-License-Identifier: Apache-2.0
"""Translations that the engine `valgrind` keeps between runs: the vectors are the same, and the
program's own code runs."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.compile import compile_files, compile_text
from tests.support.cpu_programs import Profile, execution, profile
from tests.support.paths import NATIVE_TESTS
from tests.support.probes import needs_valgrind
from xpuprof.engines.base import CpuOptions
from xpuprof.engines.cache import limited_folder
from xpuprof.engines.cpu.valgrind import Valgrind

pytestmark = [needs_valgrind, pytest.mark.valgrind]

ID = "0x0123456789abcdef"
FUNCTIONS = 1500  # each has blocks of its own, so that keeping them is worth it


def write_functions(folder: Path, factor: int, number: int = FUNCTIONS) -> None:
    """many.h: `many(x)` calls many small functions."""
    head = "__attribute__((noinline)) static unsigned"
    bodies = (f"{factor} * x" if i & 1 else f"x + {i}" for i in range(number))
    lines = "".join(f"{head} f{i}(unsigned x) {{ return {b}; }}\n" for i, b in enumerate(bodies))
    calls = "".join(f"x = f{i}(x);\n" for i in range(number))
    folder.mkdir()
    (folder / "many.h").write_text(f"{lines}{head} many(unsigned x) {{\n{calls}return x;\n}}\n")


def many_functions(folder: Path, factor: int, more: str = "", *flags: str) -> Path:
    """A program of many small functions, after the code `more`. Those of another factor have the
    same addresses, sizes and build-id, and another result."""
    write_functions(folder, factor)
    source = folder / "many.c"
    start = "int main(void) {\nvolatile unsigned n = 1;\nunsigned x = n;\n"
    end = 'printf("%u\\n", many(x));\n}\n'
    source.write_text(f'#include <stdio.h>\n#include "many.h"\n{start}{more}{end}')
    return compile_files([source], folder / "many", "-O1", f"-Wl,--build-id={ID}", *flags)


def troublemaker(folder: Path) -> Path:
    """The program of programs/cpu_kept.c."""
    write_functions(folder, 3)
    source = NATIVE_TESTS / "programs" / "cpu_kept.c"
    return compile_files([source], folder / "kept", "-O1", f"-I{folder}")


def shy(folder: Path, functions: int) -> Path:
    """A program that prints its largest resident set (KB), before which it calls these functions if
    it is told to."""
    write_functions(folder, 3, functions)
    source = """#include <stdio.h>
#include "many.h"
int main(int argc, char **argv) {
  char line[256];
  long most = 0;
  FILE *status = fopen("/proc/self/status", "r");
  if (argc > 1 && many((unsigned)argc) == 0) printf("0%s", argv[0]);
  while (fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &most);
  printf("%ld", most);
}
"""
    return compile_text(source, folder / "shy")


def result(factor: int) -> str:
    """What the program prints."""
    x = 1
    for i in range(FUNCTIONS):
        x = (factor * x if i & 1 else x + i) % 2**32
    return f"{x}\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/xpuprof/translations"


def kept(cache: Path) -> dict[str, int]:
    """Files of translations, and which file each is."""
    return {file.name: file.stat().st_ino for file in cache.glob("*/*")}


def same(first: Profile, second: Profile) -> bool:
    """Whether both are complete, with the same vectors."""
    assert first.only.stream.ended and second.only.stream.ended
    return first.only.counts() == second.only.counts()


def test_kept_translations_give_the_same_vectors(tmp_path: Path, cache: Path) -> None:
    """GIVEN a program that was profiled before THEN its translations are used, those of libraries
    by another program, too, and its vectors are the same, block by block."""
    program = many_functions(tmp_path / "a", 3)
    first = profile(Valgrind(), [program], tmp_path / "p1")
    files = kept(cache)
    assert len(files) >= 1
    second = profile(Valgrind(), [program], tmp_path / "p2")
    assert kept(cache) == files, "translated again"
    assert first.process.stdout == second.process.stdout == result(3)
    assert same(first, second)
    assert second.only.stream.meta().get("hidden_isa") == first.only.stream.meta()["hidden_isa"]


def test_libraries_are_shared(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN another program, with more libraries and more blocks of its own before it calls the
    common one, THEN that one's translations are used, and count its blocks under their numbers of
    this run."""
    more = "".join(f"if (n > {i}) x += 7;\n" for i in range(1, 100))
    flags = ("-Wl,--no-as-needed", "-lm", "-lpthread", "-lOpenCL", "-Wl,--build-id=0x77")
    other = many_functions(tmp_path / "b", 5, more, *flags)
    profile(Valgrind(), [many_functions(tmp_path / "a", 3)], tmp_path / "p1")
    files = kept(cache)
    shared = profile(Valgrind(), [other], tmp_path / "p2")
    assert kept(cache) | files == kept(cache), "translated again"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert same(shared, profile(Valgrind(), [other], tmp_path / "p3"))
    assert shared.process.stdout == result(5)


def test_memory_holds_what_is_used(tmp_path: Path, cache: Path) -> None:
    """GIVEN translations of much that a run does not execute THEN it does not hold them."""
    program = shy(tmp_path / "a", 8 * FUNCTIONS)
    resident = []
    for n, arguments in enumerate(([], ["all"], [])):
        done = profile(Valgrind(), [program, *arguments], tmp_path / f"p{n}")
        resident.append(1024 * int(done.process.stdout))
    size = max(file.stat().st_size for file in cache.glob("*/*"))
    assert size > 3_000_000
    assert resident[2] - resident[0] < size / 4


def library(folder: Path, name: str, size: int) -> Path:
    """One that takes `size` bytes of addresses, and defines `name`."""
    source = (
        f"static char much[{size}]; char *{name}(void); char *{name}(void) {{ return much; }}\n"
    )
    return compile_text(source, folder / f"lib{name}.so", "-shared", "-fPIC")


def test_large_libraries_have_one_place(tmp_path: Path, cache: Path) -> None:
    """GIVEN libraries as large as LLVM and libclang, alone or after a hundred small
    ones THEN they lie at the same addresses."""
    source = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  Dl_info found;
  for (int i = 1; i < argc; i++) {
    void *library = dlopen(argv[i], RTLD_NOW);
    void *symbol = library ? dlsym(library, i + 1 < argc ? "middle" : "large") : NULL;
    if (symbol && dladdr(symbol, &found)) printf("%p ", found.dli_fbase);
  }
}
"""
    loads = compile_text(source, tmp_path / "loads")
    large = [library(tmp_path, "middle", 60 << 20), library(tmp_path, "large", 117 << 20)]
    small = []
    content = library(tmp_path, "small", 1 << 16).read_bytes()
    for n in range(100):
        small.append(tmp_path / f"small{n}.so")
        small[n].write_bytes(content[:9] + bytes([n]) + content[10:])  # unused bytes of the head
    alone = profile(Valgrind(), [loads, *large], tmp_path / "alone").process.stdout
    after = profile(Valgrind(), [loads, *small, *large], tmp_path / "after").process.stdout
    assert len(alone.split()) == 2
    assert after == alone


def test_changed_code_is_translated_anew(tmp_path: Path, cache: Path) -> None:
    """GIVEN other code at the same addresses, in a file that calls itself the same, THEN the code
    runs that the program has."""
    programs = [many_functions(tmp_path / "a", 3), many_functions(tmp_path / "b", 5)]
    for n, factor in enumerate((3, 5, 3, 5)):
        done = profile(Valgrind(), [programs[n % 2]], tmp_path / f"p{n}")
        assert done.process.stdout == result(factor)
    assert kept(cache)


def test_what_counts_is_kept_apart(tmp_path: Path, cache: Path) -> None:
    """GIVEN profiles with and without an image THEN each has exactly its own blocks."""
    program = many_functions(tmp_path / "a", 3)
    without = CpuOptions(exclude_images=("many",))
    runs = [
        profile(Valgrind(), [program], tmp_path / f"p{n}", options)
        for n, options in enumerate((without, None, without, None))
    ]
    images = [{key[2] for key in run.only.counts()} for run in runs]
    assert "many" not in images[0] | images[2]
    assert "many" in images[1] & images[3]
    assert same(runs[0], runs[2]) and same(runs[1], runs[3])


def halve(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    """Every 61st byte, so that no record is left whole."""
    damaged = bytearray(content)
    for at in range(32, len(content), 61):
        damaged[at] ^= 0x55
    return bytes(damaged)


def forget_head(content: bytes) -> bytes:
    return bytes(64) + content[64:]


@pytest.mark.parametrize("damage", [halve, flip, forget_head, lambda content: b""])
def test_damaged_files(tmp_path: Path, cache: Path, damage: Callable[[bytes], bytes]) -> None:
    """GIVEN damaged files THEN nothing of them is executed, and the vectors are the same."""
    program = many_functions(tmp_path / "a", 3)
    first = profile(Valgrind(), [program], tmp_path / "p1")
    for file in cache.glob("*/*"):
        file.write_bytes(damage(file.read_bytes()))
    second = profile(Valgrind(), [program], tmp_path / "p2")
    assert (second.process.stdout, second.process.stderr) == (result(3), "")
    assert same(first, second)


def test_a_file_with_the_name_of_another(tmp_path: Path, cache: Path) -> None:
    """GIVEN translations that count in place of those that do not, and the reverse THEN none is
    used, and each run has exactly its own blocks."""
    program = many_functions(tmp_path / "a", 3)
    options = (CpuOptions(exclude_images=("many",)), None)
    runs = [profile(Valgrind(), [program], tmp_path / f"p{n}", options[n % 2]) for n in range(2)]
    (counted,) = cache.glob(f"*/{ID[2:]}-0-counted")
    other = counted.with_name(f"{ID[2:]}-0")
    other.rename(tmp_path / "other")
    counted.rename(other)
    (tmp_path / "other").rename(counted)
    for n, before in enumerate(runs):
        assert same(profile(Valgrind(), [program], tmp_path / f"p{n + 2}", options[n]), before)


def test_files_of_others_are_not_used(tmp_path: Path, cache: Path) -> None:
    """GIVEN files that others may write THEN they are not read; a folder of that kind is not
    even given to the tool."""
    program = many_functions(tmp_path / "a", 3)
    profile(Valgrind(), [program], tmp_path / "p1")
    files = kept(cache)
    for file in cache.glob("*/*"):
        file.chmod(0o666)
    profile(Valgrind(), [program], tmp_path / "p2")
    replaced = kept(cache)
    assert {name for name in files if replaced[name] == files[name]} == set()
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in cache.glob("*/*"))
    cache.chmod(0o777)
    line, _ = Valgrind().wrap(["true"], CpuOptions(), tmp_path)
    assert not any(option.startswith("--translations") for option in line)


def test_size_limit_of_the_program(tmp_path: Path, cache: Path) -> None:
    """GIVEN a limit on the size of files THEN the program ends as it does natively, and nothing
    is kept."""
    program = many_functions(tmp_path / "a", 3)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, before[1]))
    try:
        done = profile(Valgrind(), [program], execution(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (done.process.returncode, done.process.stdout) == (0, result(3))
    assert not [file for file in cache.glob("*/*") if file.stat().st_size > 70_000]
    assert not list(cache.glob("*/*.new"))


@pytest.mark.parametrize(
    "what", ["stale", "patched", "twice", "repaired", "fixed", "filter", "umask", "cut"]
)
def test_programs_that_change_their_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """GIVEN a program that changes code within a kept translation, writes over a function, writes
    code through another mapping of its file, repairs what it faulted on, maps memory where it
    likes, forbids system calls, or damages the files in use THEN it ends as natively, whether an
    ordinary run was kept before or not."""
    program = troublemaker(tmp_path / "a")
    for n, (place, argument) in enumerate((("new", what), ("used", ""), ("used", what))):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
        files = list(tmp_path.glob(f"{place}/xpuprof/*/*/*")) if argument == "cut" else []
        done = profile(Valgrind(), [program, argument, *files], tmp_path / f"p{n}")
        assert (done.process.returncode, done.process.stdout) == (0, f"0 {result(3)}")
        assert done.only.stream.ended
    made = list(tmp_path.glob("*/xpuprof/*/*/*"))
    assert made and all(file.stat().st_mode & 0o777 == 0o600 for file in made)
    assert all(file.parent.stat().st_mode & 0o777 == 0o700 for file in made)


def test_limited_memory_is_the_programs(tmp_path: Path, cache: Path) -> None:
    """GIVEN a limit on the address space THEN nothing is kept, which would take some of it."""
    line = ["/bin/sh", "-c", 'ulimit -v 4000000; exec "$0"', many_functions(tmp_path / "a", 3)]
    assert profile(Valgrind(), line, tmp_path / "p").process.stdout == result(3)
    assert not any("0123456789abcdef" in name for name in kept(cache))


@pytest.mark.parametrize("home", ["", "relative"])
def test_home_is_no_absolute_path(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """GIVEN such a home THEN nothing is kept, above all not in the program's working directory."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    assert limited_folder("translations", 100) is None


def test_folder_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no place to keep anything THEN the profile is complete."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = profile(Valgrind(), [many_functions(tmp_path / "a", 3)], tmp_path / "p")
    assert done.process.stdout == result(3) and done.only.stream.ended


def test_least_used_files_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN more than the limit THEN what was used last stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = limited_folder("kept", 100)
    assert folder is not None
    for age, name in enumerate(("new", "old", "oldest")):
        file = folder / "a" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(40))
        os.utime(file, (1000 - age, 1000 - age))
    assert limited_folder("kept", 100) == folder
    assert {file.name for file in folder.glob("*/*")} == {"new", "old"}
