# SPDX-License-Identifier: Apache-2.0
"""Faults that click finds in a command line, said as we say ours: what is wrong; what to do."""

from __future__ import annotations

import click


def sentence(error: click.ClickException) -> str:
    """The fault and the remedy."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "xpuprof"
    if isinstance(error, click.NoSuchOption):
        close = (error.possibilities or ())[:1]
        remedy = f"did you mean {close[0]}?" if close else f"{path} --help lists the options"
        return f"no option {error.option_name}; {remedy}"
    if isinstance(error, click.MissingParameter):
        name = error.param.human_readable_name if error.param else "an argument"
        if isinstance(error.param, click.Option):
            name = error.param.opts[-1]
        pieces = context.command.collect_usage_pieces(context) if context else []
        return f"{name} is missing; usage: {path} {' '.join(pieces)}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        wanted = _wanted(error.param.type)
        if wanted:
            # click keeps the value only in its message.
            value = error.message.partition(" is not ")[0].strip("'")
            return f"{error.param.opts[0]} takes {wanted}, not {value}"
    message = error.format_message().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; see {path} --help"


def _wanted(kind: click.ParamType[object]) -> str:
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange):
        upper = "" if kind.max is None else f" to {kind.max}"
        return f"a whole number from {kind.min}{upper}"
    return {click.INT: "a whole number", click.FLOAT: "a number"}.get(kind, "")
