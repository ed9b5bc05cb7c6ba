# SPDX-License-Identifier: Apache-2.0
"""What mkdocs does not do by itself for our site (mkdocs.yml).

Pages of the reference are generated from the commands and declarations. CONTRIBUTING.md and
CHANGELOG.md become pages. A page that mkdocs.yml does not list goes to the end of Results or
Mechanisms. Links that leave docs/ lead to the page or the file on the web. Names
such as docs/filters.md in help texts and docstrings become links. Links to other sites are listed
in build/site/links.txt; nothing fetches them.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import xpuprof
from xpuprof.engines.base import CpuEngine, GpuEngine
from xpuprof.engines.registry import engines
from xpuprof.formats import registry as formats
from xpuprof.formats.format import Exporter, Format
from xpuprof.methods import registry as methods
from xpuprof.methods.declaration import CLUSTERING, Method, Option

sys.path.insert(0, str(Path(__file__).parent))
import help_texts

ROOT = Path(__file__).parents[2]
SOURCE = "https://github.com/xpuprof/xpuprof/blob/main/"
TOP_LEVEL = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/ that are pages of the site."""

LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
NAMED_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
ELSEWHERE = re.compile(r'href="(https?://[^"#]+)')

_elsewhere: set[str] = set()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not written in docs/."""
    pages = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in TOP_LEVEL.items()}
    pages["reference/commands.md"] = _commands()
    pages["reference/methods.md"] = _methods()
    pages["reference/formats.md"] = _formats()
    pages["reference/engines.md"] = _engines()
    pages["reference/api.md"] = _api()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    listed = set(_leaves(config.nav))
    for file in files.documentation_pages():
        if file.src_uri not in listed:
            section = "Results" if file.src_uri.startswith("results/") else "Mechanisms"
            next(entry[section] for entry in config.nav if section in entry).append(file.src_uri)
    return files


def _leaves(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _leaves(entry)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ to the page or to the file on the web."""
    place = page.file.src_uri
    at = "" if place in TOP_LEVEL.values() else posixpath.join("docs", posixpath.dirname(place))

    def target(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(at, link[2]))
        if path.startswith("docs/") and at:
            return link[0]
        if not (ROOT / path).exists():
            raise PluginError(f"{place} links to {link[2]}, which does not exist")
        path = TOP_LEVEL.get(path, path)
        if path.startswith("docs/"):
            inside = path.removeprefix("docs/")
        elif path in TOP_LEVEL.values():
            inside = posixpath.relpath(path, posixpath.dirname(place) or ".")
        else:
            inside = SOURCE + path
        return link[1] + inside + link[3]

    return LINK.sub(target, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the pages that help texts and docstrings name."""

    def linked(name: re.Match[str]) -> str:
        named = files.get_file_from_path(f"{name[1]}.md")
        if named is None:
            raise PluginError(f"{page.file.src_uri} names {name[0]}, which does not exist")
        return f'<a href="{named.url_relative_to(page.file)}">{named.page.title or name[1]}</a>'

    parts = re.split(r"(<a\b.*?</a>|<pre\b.*?</pre>|<[^>]*>)", html, flags=re.DOTALL)
    parts[::2] = [NAMED_PAGE.sub(linked, part) for part in parts[::2]]
    return "".join(parts)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Note links to other sites."""
    _elsewhere.update(ELSEWHERE.findall(output))
    return output


def on_post_build(config: MkDocsConfig) -> None:
    """List links to other sites, and write the manual page."""
    manual = Path(config.site_dir) / "xpuprof.1"
    manual.write_text(help_texts.manual_page(), encoding="utf-8")
    listed = "".join(f"{link}\n" for link in sorted(_elsewhere))
    (Path(config.site_dir) / "links.txt").write_text(listed, encoding="utf-8")


def _commands() -> str:
    text = ["# Commands", _prose(help_texts.overview())]
    for command in help_texts.commands():
        text += [f"## {command.name}", f"    {command.usage}", _prose(command.paragraphs)]
        text += _definitions(command.options)
    return "\n\n".join(text)


def _prose(paragraphs: Iterable[help_texts.Paragraph]) -> str:
    return "\n\n".join(f"```\n{one.text}\n```" if one.verbatim else one.text for one in paragraphs)


def _definitions(terms: Iterable[tuple[str, str]]) -> list[str]:
    return [f"`{term}`\n:   {_plain(meaning)}" for term, meaning in terms]


def _plain(text: str) -> str:
    """Text whose stars, underscores and angle brackets are not Markdown."""
    escaped = re.sub(r"([*_\[\]])", r"\\\1", " ".join(text.split()))
    return escaped.replace("<", "&lt;")


def _methods() -> str:
    text = [
        "# Methods",
        "`xpuprof select RUN --method NAME` chooses slices by one of these methods, "
        "`xpuprof compare RUN` runs them all. An option without a flag is set with "
        "`--set NAME=VALUE`. [Sampling methods](../sampling.md) explains them.",
    ]
    for method in methods.methods():
        text += [f"## {method.name}", _plain(method.help)]
        text.append(f"Needs {_needs(method)}.")
        own = [option for option in method.options if option not in CLUSTERING]
        shared = [option for option in method.options if option in CLUSTERING]
        text += _definitions((_flags(option), _with_default(option)) for option in own)
        if len(shared) > 3:
            text.append("Takes the [options of clustering](#options-of-clustering).")
        else:
            text += _definitions((_flags(option), _with_default(option)) for option in shared)
    text += ["## Options of clustering"]
    text += _definitions((_flags(option), _with_default(option)) for option in CLUSTERING)
    return "\n\n".join(text)


def _needs(method: Method) -> str:
    return " and ".join(map(str, method.needs)) or "nothing but the slices"


def _flags(option: Option) -> str:
    return ", ".join(option.flags) or option.name


def _with_default(option: Option) -> str:
    stated = "[" in option.help or option.default is None
    return option.help if stated else f"{option.help} Default: {option.default}."


def _formats() -> str:
    return "\n\n".join(
        [
            "# Formats",
            "## Imports",
            "`xpuprof import FILE -o RUN` recognises the format. [Imports](../imports.md) says "
            "what each gives.",
            _table(formats.all_importers().values()),
            "## Exports",
            "`xpuprof export RUN --format NAME -o OUT`. [Exports](../export.md) says who reads "
            "them.",
            _table(formats.all_exporters().values()),
            "## Results of simulators",
            "`xpuprof estimate SELECTION --results FILE` recognises them.",
            _table(formats.all_result_readers().values()),
        ]
    )


def _table(known: Iterable[Format]) -> str:
    rows = ["| name | what | needs |", "|---|---|---|"]
    for one in known:
        names = ", ".join(f"`{name}`" for name in (one.name, *one.aliases))
        needs = one.needs.value if isinstance(one, Exporter) else ""
        rows.append(f"| {names} | {_plain(one.help)} | {needs} |")
    if not any(isinstance(one, Exporter) for one in known):
        rows = [row.rpartition("|")[0].rpartition("|")[0] + "|" for row in rows]
    return "\n".join(rows)


def _engines() -> str:
    text = [
        "# Engines",
        "`xpuprof doctor` says which engines this machine has and how to get the others; "
        "[Engines](../engines.md) says how `auto` chooses.",
    ]
    for side in (CpuEngine, GpuEngine):
        text += [f"## {side.side} engines", "| engine | what | filters |\n|---|---|---|"]
        for engine in engines(side):
            honoured = " ".join(f"`{name}`{{ .flag }}" for name in sorted(engine.kind.honours))
            text[-1] += f"\n| `{engine.name}` | {_plain(engine.help)} | {honoured} |"
    return "\n\n".join(text)


def _api() -> str:
    text = [
        "# Python",
        xpuprof.__doc__.split(">>>")[0].strip(),
        '```python\nimport xpuprof\n\nrun = xpuprof.open("RUN")\nrun.kernels\n'
        'selection = run.select("stem-root", epsilon=0.02)\nrun.estimate(selection)\n```',
    ]
    homes = {name: getattr(xpuprof, name) for name in xpuprof.__all__ if name != "__version__"}
    for title, kind in (("Functions", False), ("Classes", True)):
        text.append(f"## {title}")
        text += [
            f"::: {found.__module__}.{found.__name__}"
            for found in homes.values()
            if inspect.isclass(found) is kind
        ]
    return "\n\n".join(text)
