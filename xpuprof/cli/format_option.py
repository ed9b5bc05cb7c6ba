# SPDX-License-Identifier: Apache-2.0
"""--format: names, help and completion come from the formats' declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click
from click.shell_completion import CompletionItem

from xpuprof.formats.format import Format
from xpuprof.formats.registry import named


class FormatName(click.ParamType[str]):
    """The name of a format or its alias; the command receives the name."""

    name = "format"

    def __init__(self, formats: Callable[[], Mapping[str, Format]]) -> None:
        self._formats = formats

    def convert(
        self, value: str, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        return named(self._formats(), value).name

    def shell_complete(
        self, context: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        formats = self._formats().values()
        return [
            CompletionItem(f.name, help=f.help) for f in formats if f.name.startswith(incomplete)
        ]


class FormatCommand(click.Command):
    """A command whose help ends with a list of formats."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        kind = next(p.type for p in self.params if isinstance(p.type, FormatName))
        rows = [(f.name, f.help) for f in kind._formats().values()]
        with formatter.section("Formats"):
            formatter.write_dl(rows)
