# SPDX-License-Identifier: Apache-2.0
"""One HTML file with its styles, scripts and data inside, so that it opens without a network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from xpuprof.formats.output import write_text
from xpuprof.version import __version__


@dataclass(frozen=True)
class Fact:
    """A number at the head of a page. `value`: what it is sorted by in a table; `note`: what stands
    below it; `mark`: a warning beside it."""

    name: str
    text: str
    value: float | str
    note: str = ""
    mark: str = ""
    large: bool = False


@dataclass(frozen=True)
class Head:
    """What stands above the plots; `notes` are sentences to heed."""

    title: str
    subtitle: str
    facts: Sequence[Fact] = ()
    notes: Sequence[str] = ()


def write(target: Path, kind: str, head: Head, data: Mapping[str, object]) -> None:
    """Writes a page of a kind: assets/KIND.html is its body, assets/KIND.js draws `data`."""
    assets = files("xpuprof.report") / "assets"

    def asset(name: str) -> str:
        return (assets / name).read_text(encoding="utf-8")

    parts = {
        "title": html.escape(head.title),
        "subtitle": html.escape(head.subtitle),
        "large": "".join(_fact(fact) for fact in head.facts if fact.large),
        "small": "".join(_fact(fact) for fact in head.facts if not fact.large),
        "notes": "".join(f"<li>{html.escape(text)}</li>" for text in head.notes),
        "body": asset(f"{kind}.html"),
        "script": asset(f"{kind}.js"),
        # "</script>" in a kernel's name must not end the script, nor "<!--<script>" extend it.
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "version": __version__,
    }
    parts |= {name: asset(name) for name in ("page.css", "page.js", "uPlot.min.css")}
    parts["uPlot.iife.min.js"] = asset("uPlot.iife.min.js")
    text = re.sub(r"\{\{([\w.]+)\}\}", lambda found: parts[found[1]], asset("page.html"))
    write_text(target, text)


def _fact(fact: Fact) -> str:
    mark = f' <b class="mark">{html.escape(fact.mark)}</b>' if fact.mark else ""
    # A number stays on one line with its unit.
    together = re.sub(r"(\d) (%|s|ms|us)(?!\w)", "\\1\N{NO-BREAK SPACE}\\2", fact.note)
    note = f"<small>{html.escape(together)}</small>" if fact.note else ""
    text = f"<dd>{html.escape(fact.text)}{mark}{note}</dd>"
    return f"<div><dt>{html.escape(fact.name)}</dt>{text}</div>"
