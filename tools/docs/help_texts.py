# SPDX-License-Identifier: Apache-2.0
"""The help of every command as data, and as a manual page.

python tools/docs/help_texts.py > xpuprof.1
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import click

from xpuprof.cli import cli
from xpuprof.cli.group import COMMANDS
from xpuprof.version import __version__


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a help text; `verbatim`: lines that are not filled, mostly examples."""

    text: str
    verbatim: bool


@dataclass(frozen=True)
class Help:
    """The help of one command; an option is its flags and its meaning."""

    name: str
    usage: str
    paragraphs: list[Paragraph]
    options: list[tuple[str, str]]


def overview() -> list[Paragraph]:
    """The help of xpuprof itself."""
    return paragraphs(cli.help or "")


def commands() -> Iterator[Help]:
    """Every command, in the order of work."""
    root = click.Context(cli, info_name="xpuprof", **cli.context_settings)
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=root, **command.context_settings)
        records = (parameter.get_help_record(own) for parameter in command.params)
        yield Help(
            name,
            f"xpuprof {name} {' '.join(command.collect_usage_pieces(own))}",
            paragraphs(command.help or ""),
            [record for record in records if record],
        )


def paragraphs(text: str) -> list[Paragraph]:
    """The paragraphs of a help text; click marks verbatim ones with a line `\\b`."""
    return [
        Paragraph(one.removeprefix("\b\n"), one.startswith("\b\n"))
        for one in inspect.cleandoc(text).split("\n\n")
    ]


def manual_page() -> str:
    """xpuprof(1)."""
    first, *others = overview()
    lines = [f'.TH XPUPROF 1 "" "xpuprof {__version__}" "User Commands"']
    lines += [
        ".SH NAME",
        f"xpuprof \\- {_roff(first.text[0].lower() + first.text[1:].rstrip('.'))}",
    ]
    lines += [".SH SYNOPSIS", ".B xpuprof", "COMMAND [OPTIONS] [ARGS]...", ".SH DESCRIPTION"]
    lines += _body(others)
    lines += [".SH COMMANDS"]
    for command in commands():
        lines += [f".SS {_roff(command.usage)}", *_body(command.paragraphs)]
        for flags, meaning in command.options:
            lines += [".TP", f"\\fB{_roff(flags)}\\fR", _roff(meaning)]
    lines += [".SH FILES", ".TP", ".I RUN/selection.json", "The chosen slices; it travels alone."]
    return "\n".join(lines) + "\n"


def _body(texts: list[Paragraph]) -> Iterator[str]:
    for one in texts:
        yield from [".PP", *([".EX"] if one.verbatim else []), *map(_roff, one.text.split("\n"))]
        if one.verbatim:
            yield ".EE"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    print(manual_page(), end="")
