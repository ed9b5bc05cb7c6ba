# SPDX-License-Identifier: Apache-2.0
"""Values of options that name a declaration: looked up at once, completed by the shell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from xpuprof.formats.format import Format


class Name(click.ParamType[str]):
    """One of the names that `known` gives with a line of help each; the command receives what
    `find` makes of it, which raises UsageError for an unknown name. `several`: names separated by
    commas."""

    def __init__(
        self,
        kind: str,
        known: Callable[[], Mapping[str, str]],
        find: Callable[[str], str] = str,
        *,
        several: bool = False,
    ) -> None:
        self.name = kind
        self._known = known
        self._find = find
        self._several = several

    def convert(
        self, value: str, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        return self._find(value)

    def shell_complete(
        self, context: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # only for a shell's completion

        before, comma, last = incomplete.rpartition(",") if self._several else ("", "", incomplete)
        return [
            CompletionItem(before + comma + name, help=text)
            for name, text in self._known().items()
            if name.startswith(last)
        ]


class FormatName(Name):
    """The name of a format or an alias; the command receives the name."""

    def __init__(self, formats: Callable[[], Mapping[str, Format]]) -> None:
        super().__init__("format", self._names, self._canonical)
        self._formats = formats

    def rows(self) -> list[tuple[str, str]]:
        """One line per format with its aliases, for a help text."""
        return [(", ".join((f.name, *f.aliases)), f.help) for f in self._formats().values()]

    def _names(self) -> dict[str, str]:
        return {name: f.help for f in self._formats().values() for name in (f.name, *f.aliases)}

    def _canonical(self, name: str) -> str:
        from xpuprof.formats.registry import named  # other names are completed without formats

        return named(self._formats(), name).name


class FormatCommand(click.Command):
    """A command whose help ends with a list of formats."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        kind = next(p.type for p in self.params if isinstance(p.type, FormatName))
        with formatter.section("Formats"):
            formatter.write_dl(kind.rows())
