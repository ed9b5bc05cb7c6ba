# SPDX-License-Identifier: Apache-2.0
"""What may follow --kernels and --window, checked before anything starts. Native code gives it its
meaning: kernel_spec.hpp, runtime/window.c."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

from xpuprof.errors import UsageError

_LONGEST_NUMBER = 18
_LONGEST_MARKER = 255
_RANGE = re.compile(r"(\d+)(?:(-)(\d*))?|-(\d+)")


def check_window(spec: str, after: str = "continue") -> None:
    """Raises UsageError unless `spec` is RANGE, @MARKER or RANGE@MARKER (or empty)."""
    text, at, marker = spec.partition("@")
    if after == "end" and not spec:
        raise UsageError("--after-window end requires --window")
    if not spec:
        return
    if (text or not at) and not _is_range(text):
        raise UsageError(
            f"--window {spec}: {_why_not(text)}; write N-M, N-, -M or N for launches, @NAME or "
            "N-M@NAME for a marker"
        )
    if at and (not marker or len(marker) > _LONGEST_MARKER or "\n" in marker):
        raise UsageError(f"--window {spec}: name the marker after @, as in --window @solve")
    if after == "end" and not _has_end(text):
        better = f"a last opening, as in --window 1@{marker}" if at else "a last launch"
        raise UsageError(
            f"--after-window end: the window {spec} lasts until the program ends; give it {better}"
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
                    f"--kernels {term}: {_why_not(text)}; write N, N-M, N- or -M, a name, or a "
                    "range, @ and a name"
                )
            if not only_range and not name:
                raise UsageError(f"--kernels {term}: name the kernel after @, or omit @")
        if name:
            _check_regex(name)


def _terms(spec: str) -> Iterator[str]:
    """The comma-separated terms; a comma in brackets does not separate."""
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


def starts_closed(window: str) -> bool:
    """Whether a well-formed window is closed when the program starts."""
    first = window.partition("-")[0]
    return bool(window) and ("@" in window or first not in ("", "1"))


def _is_range(text: str) -> bool:
    return not _why_not(text)


def _why_not(text: str) -> str:
    """What is wrong with a range; empty if it is valid."""
    found = _RANGE.fullmatch(text) if text.isascii() else None
    if found is None:
        return f"invalid range {text!r}"
    first, dash, last, upto = found.groups()
    if max(len(part or "") for part in (first, last, upto)) > _LONGEST_NUMBER:
        return f"invalid range {text}: the number has over {_LONGEST_NUMBER} digits"
    low = int(first or 1)
    high = int(upto or last or (first if not dash else 10**_LONGEST_NUMBER))
    if low < 1 or high < 1:
        return f"invalid range {text}: numbers start at 1"
    return f"range {text} begins behind its end" if low > high else ""


def _has_end(text: str) -> bool:
    """Whether a well-formed range ends with a number."""
    return bool(text) and not text.endswith("-")


_ESCAPES = set("dDsSwWbBnrtfv")
_COUNT = re.compile(r"\{0*([0-9]+)(?:,0*([0-9]*))?\}")
_LARGEST_COUNT = 1000


def _check_regex(name: str) -> None:
    """Refuses what Python or ECMAScript (the native side) rejects, and what the two interpret
    differently."""
    problem = _strange(name)
    if not problem:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                re.compile(name, re.ASCII)
            except (re.error, Warning, OverflowError) as error:
                problem = str(error)
    if problem:
        raise UsageError(
            f"--kernels: {name!r} is not a valid regular expression: {problem}; put a backslash "
            "before a character that stands for itself"
        )


def _exceeds(digits: str, limit: int) -> bool:
    return len(digits) > len(str(limit)) or int(digits or 0) > limit


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
                return "{ without a count; put a backslash before it"
            if any(_exceeds(part, _LARGEST_COUNT) for part in count.groups("")):
                return f"a repeat count exceeds {_LARGEST_COUNT}"
            at += count.end() - 1
            rest = name[at:]
        elif rest[0] == "}":
            return "} without {; put a backslash before it"
        if not in_set and rest[0] in "*+?}" and rest[1:2] == "+":
            return "two quantifiers in a row"
        at += 1
    return ""
