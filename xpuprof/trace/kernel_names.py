# SPDX-License-Identifier: Apache-2.0
"""C++ kernel names, shortened to what tells them apart."""

from __future__ import annotations

_OPENING, _CLOSING = "<([{", ">)]}"


def _outermost(name: str) -> str:
    """The name without what stands in brackets: template arguments, parameters, lambdas."""
    depth, kept = 0, []
    for i, letter in enumerate(name):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING and depth and not (letter == ">" and name[i - 1 : i] == "-"):
            depth -= 1
        elif not depth:
            kept.append(letter)
    return "".join(kept) if not depth else name


def brief(name: str) -> str:
    """`void ns::scale<float, 4>(float *, int)` -> `scale`. Names that are not C++ stay as they are.

    Return type, namespaces, template arguments and parameters go.
    """
    if "(" not in name and "<" not in name and "::" not in name:
        return name
    words = [word for word in _outermost(name).split() if word != "const"]
    last = next((word for word in reversed(words) if word.strip("*&:")), name)
    return last.strip("*& ").split("::")[-1] or name
