# SPDX-License-Identifier: Apache-2.0
"""Faults that click finds in a command line, said as we say ours: what is wrong; what to do."""

from __future__ import annotations

import re

import click

from xpuprof.errors import closest

_UNREADABLE = re.compile(r"'(.*)' is not readable", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)


def sentence(error: click.ClickException) -> str:
    """The fault and the remedy."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "xpuprof"
    if isinstance(error, click.NoSuchOption):
        close = closest(error.option_name, options(context.command) if context else ())
        remedy = f"did you mean {close}?" if close else f"{path} --help lists the options"
        return f"no option {error.option_name}; {remedy}"
    if isinstance(error, click.BadOptionUsage):
        flag = "does not take" in error.message
        return f"{error.option_name} {'takes no value; omit it' if flag else 'needs a value'}"
    pieces = context.command.collect_usage_pieces(context) if context else []
    usage = f"usage: {path} {' '.join(pieces)}"
    if isinstance(error, click.MissingParameter):
        if isinstance(error.param, click.Option):
            return f"{error.param.opts[-1]} is missing; {path} --help describes it"
        name = error.param.human_readable_name if error.param else "an argument"
        return f"{name} is missing; {usage}"
    if extra := _EXTRA.match(error.message):
        return f"unexpected argument {extra[1]}; {usage}"
    if unreadable := _UNREADABLE.search(error.message):
        return f"{unreadable[1]} cannot be read; check its permissions"
    if isinstance(error, click.BadParameter) and error.param is not None:
        wanted = _wanted(error.param.type)
        if wanted:
            # click keeps the value only in its message.
            value = error.message.partition(" is not ")[0].strip("'")
            return f"{error.param.opts[0]} takes {wanted}, not {value}"
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; see {path} --help"


def options(command: click.Command) -> list[str]:
    """The names of a command's options."""
    return [name for p in command.params if isinstance(p, click.Option) for name in p.opts]


def _wanted(kind: click.ParamType[object]) -> str:
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange):
        upper = "" if kind.max is None else f" to {kind.max}"
        return f"a whole number from {kind.min}{upper}{getattr(kind, 'OTHER', '')}"
    own: str = getattr(kind, "WANTED", "")
    return own or {click.INT: "a whole number", click.FLOAT: "a number"}.get(kind, "")
