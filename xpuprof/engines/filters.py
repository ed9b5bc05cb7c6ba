"""What the user may ask for with --kernels, --window and --process: checked before anything starts.

The meaning is native: kernel_spec.hpp, runtime/window.c. docs/filters.md tells it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from xpuprof.engines.base import CpuEngine, CpuOptions, GpuEngine
from xpuprof.errors import EngineError, UsageError

ENV_KERNELS, ENV_WINDOW = "XPUPROF_KERNELS", "XPUPROF_WINDOW"
ENV_AFTER_WINDOW, ENV_PROCESSES = "XPUPROF_AFTER_WINDOW", "XPUPROF_PROCESSES"
_LONGEST_NUMBER = 18
_LONGEST_MARKER = 255
_RANGE = re.compile(r"(\d+)(?:(-)(\d*))?|-(\d+)")


@dataclass(frozen=True)
class Scope:
    """Which part of the program is in the profile; the same in every execution of a run."""

    kernels: str = ""
    """Launches that are instrumented (`2-8@gemm.*,100-`); empty: all."""
    window: str = ""
    """Launches (`100-200`) or openings of a marker (`2-4@step`); empty: the whole program."""
    after_window: Literal["continue", "end"] = "continue"
    """What becomes of the program when its window has passed for good."""
    processes: tuple[str, ...] = ()
    """Globs on programs; empty: all processes."""

    def check(self) -> None:
        """Raises UsageError, one sentence, for what cannot be understood."""
        check_kernels(self.kernels)
        check_window(self.window, self.after_window)
        for glob in self.processes:
            if not glob or "\n" in glob:
                raise UsageError(f"--process takes a glob on a program's name, not {glob!r}")

    def environment(self) -> dict[str, str]:
        """What it adds to the program's environment (boundary.h)."""
        values = {
            ENV_KERNELS: self.kernels,
            ENV_WINDOW: self.window,
            ENV_AFTER_WINDOW: self.after_window if self.window else "",
            ENV_PROCESSES: "\n".join(self.processes),
        }
        return {name: value for name, value in values.items() if value}


def settings(scope: Scope, cpu: CpuOptions | None = None) -> dict[str, Any]:
    """What differs from counting everything, by option, for the manifest."""
    found: dict[str, Any] = {k: v for k, v in asdict(scope).items() if v}
    if not scope.window:
        found.pop("after_window")
    for field in fields(cpu) if cpu else ():
        value = getattr(cpu, field.name)
        if value != field.default:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


_TITLES = {
    "kernels": "launches {} are instrumented",
    "window": "the profile is of the window {}",
    "after_window": "behind the window the program is ended",
    "processes": "processes {}",
    "include_images": "images {}",
    "exclude_images": "not images {}",
    "main_image_only": "the program's own image only",
    "routines": "routines {}",
    "threads": "CPU threads {}",
    "memory": "with stack distances of data accesses",
}


def settings_text(found: dict[str, Any]) -> str:
    """The same as one line for people; empty when nothing is left out."""
    parts = []
    for name, title in _TITLES.items():
        if name not in found or (name, found[name]) == ("after_window", "continue"):
            continue
        value = found[name]
        text = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        parts.append(title.format(text))
    return "; ".join(parts)


# ---- which engine can do what --------------------------------------------------------------------

_OPTIONS = {
    "include_images": "--include-image",
    "exclude_images": "--exclude-image",
    "main_image_only": "--main-image-only",
    "routines": "--routine",
    "threads": "--thread",
    "memory": "--memory",
}


def of_cpu_engine(cpu_options: CpuOptions, scope: Scope) -> list[str]:
    """The options in effect that a CPU engine has to honour."""
    asked = settings(scope, cpu_options)
    both = {"window": "--window", "processes": "--process"}
    return [option for name, option in (_OPTIONS | both).items() if name in asked]


def check_engines(
    cpu: CpuEngine | None, gpu: GpuEngine | None, cpu_options: CpuOptions, scope: Scope
) -> None:
    """Raises UsageError or EngineError for an option that no engine of the run could honour."""
    scope.check()
    every = of_cpu_engine(cpu_options, scope)
    of_both = [option for option in every if option in ("--window", "--process")]
    of_cpu = [option for option in every if option not in of_both]
    if cpu is None and gpu is not None and "--memory" in gpu.honours and of_cpu == ["--memory"]:
        of_cpu = []  # then of the device's accesses alone
    if cpu is None and of_cpu:
        raise UsageError(
            f"{of_cpu[0]} says what the CPU engine counts, and this run has none; "
            "choose one with --cpu, or leave it away"
        )
    if gpu is None and scope.kernels:
        raise UsageError(
            "--kernels says which launches the GPU engine instruments, and this run has none; "
            "choose one with --gpu, or leave it away"
        )
    if gpu is None and scope.window and "@" not in scope.window:
        raise UsageError(
            f"--window {scope.window} counts kernel launches, which nothing sees without a GPU "
            "engine; choose one with --gpu, or mark the window in the program (--window @NAME)"
        )
    if cpu is not None:
        _refuse("CPU", cpu.name, cpu.honours, every)
    if gpu is not None:
        ends = ["--after-window end"] if scope.after_window == "end" else []
        kernels = ["--kernels"] if scope.kernels else []
        _refuse("GPU", gpu.name, gpu.honours, [*kernels, *of_both, *ends])


def _refuse(side: str, engine: str, honours: frozenset[str], asked: Sequence[str]) -> None:
    for option in asked:
        if option not in honours:
            raise EngineError(
                f"{side} engine {engine} has no {option}; leave it away, or choose another engine "
                f"with --{side.lower()}"
            )


# ---- grammar -------------------------------------------------------------------------------------


def check_window(spec: str, after: str = "continue") -> None:
    """Raises UsageError unless `spec` is RANGE, @MARKER or RANGE@MARKER (or empty)."""
    text, at, marker = spec.partition("@")
    if after == "end" and not spec:
        raise UsageError("--after-window end needs a window: give one with --window")
    if not spec:
        return
    if (text or not at) and not _is_range(text):
        raise UsageError(
            f"--window {spec}: {text!r} is no range of numbers from 1; write N-M, N-, -M or N for "
            "launches, @NAME or N-M@NAME for a marker"
        )
    if at and (not marker or len(marker) > _LONGEST_MARKER or "\n" in marker):
        raise UsageError(f"--window {spec}: name the marker behind @, as in --window @solve")
    if after == "end" and not _has_end(text):
        better = f"a last opening, as in --window 1@{marker}" if at else "a last launch"
        raise UsageError(
            f"--after-window end: the window {spec} has no end before the program's; give it "
            f"{better}"
        )


def check_kernels(spec: str) -> None:
    """Raises UsageError unless every term is RANGE, REGEX or RANGE@REGEX."""
    for term in _terms(spec):
        only_range = not term.strip("0123456789-")
        text, at, name = term.partition("@")
        if only_range:
            text, name = term, ""
        elif not at:
            text, name = "", term
        if only_range or at:
            if not _is_range(text):
                raise UsageError(
                    f"--kernels: {text!r} in {term!r} is no range of numbers from 1; write N, N-M, "
                    "N- or -M, a name, or a range, @ and a name"
                )
            if not only_range and not name:
                raise UsageError(f"--kernels: {term!r} names no kernel behind @")
        if name:
            _check_regex(name)


def _terms(spec: str) -> Iterator[str]:
    """The terms between commas; a comma in brackets does not separate."""
    at = 0
    while at < len(spec):
        depth, end = 0, at
        while end < len(spec):
            depth += (spec[end] in "([{") - (spec[end] in ")]}")
            if spec[end] == "," and depth <= 0:
                break
            end += 1
        yield spec[at:end]
        at = end + 1


def cpu_settings(options: CpuOptions) -> Iterator[tuple[str, str]]:
    """Filters and windows as names and values, in the form in which our CPU tools read them."""
    for pattern in options.include_images:
        yield "include-image", pattern
    for pattern in options.exclude_images:
        yield "exclude-image", pattern
    for pattern in options.routines:
        yield "routine", pattern
    for thread in options.threads:
        yield "count-thread", str(thread)
    for glob in options.processes:
        yield "process", glob
    if starts_closed(options.window):
        yield "window-closed", "yes"
    if options.memory:
        yield "memory", "yes"
    if options.main_image_only:
        yield "main-image-only", "yes"


def starts_closed(window: str) -> bool:
    """Whether a window (well-formed) is not open when the program starts."""
    first = window.partition("-")[0]
    return bool(window) and ("@" in window or first not in ("", "1"))


def _is_range(text: str) -> bool:
    found = _RANGE.fullmatch(text) if text.isascii() else None
    if found is None:
        return False
    first, dash, last, upto = found.groups()
    if max(len(part or "") for part in (first, last, upto)) > _LONGEST_NUMBER:
        return False
    low = int(first or 1)
    high = int(upto or last or (first if not dash else 10**_LONGEST_NUMBER))
    return 1 <= low <= high


def _has_end(text: str) -> bool:
    """Whether a range that is well-formed ends with a number."""
    return bool(text) and not text.endswith("-")


_ESCAPES = set("dDsSwWbBnrtfv")
_COUNT = re.compile(r"\{\d+(?:,\d*)?\}")


def _check_regex(name: str) -> None:
    """Refuses what either Python or ECMAScript (the native side) does not take, and what the two
    understand differently."""
    problem = _strange(name)
    if not problem:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                re.compile(name, re.ASCII)
            except (re.error, Warning, OverflowError) as error:
                problem = str(error)
    if problem:
        raise UsageError(f"--kernels: {name!r} is not a regular expression that works: {problem}")


def _strange(name: str) -> str:
    in_set = False
    at = 0
    while at < len(name):
        rest = name[at:]
        if rest[0] == "\\":
            if len(rest) > 1 and rest[1].isalnum() and rest[1] not in _ESCAPES:
                return f"\\{rest[1]} is not supported"
            at += 2
            continue
        if in_set:
            if rest[0] == "[":
                return "[ in a set; put a backslash before it"
            in_set = rest[0] != "]"
        elif rest[0] == "[":
            in_set = True
            if rest.startswith(("[]", "[^]")):
                return "an empty set []"
        elif rest.startswith("(?") and not rest.startswith(("(?:", "(?=", "(?!")):
            return f"{rest[:3]} is not supported"
        elif rest[0] == "{":
            count = _COUNT.match(rest)
            if count is None:
                return "{ that is no count; put a backslash before it"
            at += count.end() - 1
            rest = name[at:]
        elif rest[0] == "}":
            return "} without {; put a backslash before it"
        if not in_set and rest[0] in "*+?}" and rest[1:2] == "+":
            return "two quantifiers in a row"
        at += 1
    return ""
