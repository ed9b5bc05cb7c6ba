# SPDX-License-Identifier: Apache-2.0
"""Locations of the package's native files: libraries, programs and tools of the engines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from xpuprof.engines.base import Probe


def native_file(name: str) -> Path:
    """Path of the native file `name`, built or not.

    Ask for files, not folders: an editable installation splits a folder over two places."""
    from importlib.resources import files  # would double the time to print help

    return Path(str(files("xpuprof") / "_native" / name))


def include() -> str:
    """The folder to pass to a C or C++ compiler (-I) for `#include <xpuprof/marker.h>`."""
    return str(native_file("include/xpuprof/marker.h").parent.parent)


def unbuilt(*names: str) -> tuple[str, ...]:
    """The native files that were not built, one phrase each, for a probe."""
    return tuple(f"{name} (not built)" for name in names if not native_file(name).is_file())


def kit_version(kit: str, tool: Path) -> str:
    """The version of the kit that the tool was built with; the binary contains `+kit-1.2.3`."""
    found = re.search(rb"\+%b-([^\0]+)" % kit.lower().encode(), tool.read_bytes())
    return found[1].decode() if found else ""


def kit_probe(
    engine: str,
    kit: str,
    version: str,
    tool: Path,
    advice: str,
    missing: Sequence[str],
    files: dict[str, str],
) -> Probe:
    """The probe of an engine whose kit and tool were found.

    The tool works only with the kit version that it was built with. `missing`: files that the kit
    lacks; `files`: those found.
    """
    built_with = kit_version(kit, tool)
    lacking = list(missing)
    if version != built_with:
        lacking.append(f"a tool built with {kit} {version} (ours: {built_with or 'unknown'})")
    details = {"version": version, "built_with": built_with, **files}
    return Probe(engine, not lacking, tuple(lacking), advice if lacking else "", details)
