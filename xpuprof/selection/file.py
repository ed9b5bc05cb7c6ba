"""The selection file: one versioned, human-readable JSON document that stands alone.

`docs/selection-file.md` describes it. The bytes are a function of the selection alone (key order,
number format and layout are fixed), so the same selection is always the same file. A checksum over
the content, not over the layout, shows when a number was changed by hand.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from xpuprof.errors import InputError, UsageError
from xpuprof.inputs import read_text
from xpuprof.selection.design import NEAREST, Design, Strata
from xpuprof.selection.selection import Marker, Representative, Selection
from xpuprof.trace.coordinates import JobRow
from xpuprof.trace.run_lengths import decode_runs, encode_runs

FORMAT = "xpuprof-selection"

VERSIONS = {
    1: "first-light: markers, multipliers, run-length coded labels, SHA-256 of the content",
    2: "design: how slices were chosen is a value of its own; version 1 has it among the scores",
}
"""Every version ever written, with its name and a sentence. All of them are read."""

CURRENT = max(VERSIONS)
OLDEST_SUPPORTED = min(VERSIONS)

_WIDTH = 120
LARGEST = 1 << 31
"""Bytes of a selection file; labels of 10^8 slices take some hundred million."""


def write_selection(selection: Selection, path: str | Path, force: bool = False) -> None:
    """Write `selection` to `path`, whole or not at all.

    Raises UsageError when the file exists and `force` is false or the folder cannot be written,
    InputError when the selection holds a value that the file cannot (NaN, an unknown type).
    """
    target = Path(path)
    text = selection_text(selection)
    if target.is_dir():
        raise UsageError(f"{target} is a directory: name a file for the selection")
    if target.exists() and not force:
        raise UsageError(f"{target} exists: choose another name, or --force to replace it")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            # A name that is not UTF-8 arrives as lone surrogates; JSON has escapes for them.
            file.write(text.encode("utf-8", "backslashreplace"))
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except OSError as error:
        os.unlink(temporary)
        raise UsageError(f"cannot write {target}: {error.strerror}") from error


def read_selection(path: str | Path) -> Selection:
    """Read a selection file of any supported version.

    Raises InputError, naming the file and the remedy, when it is missing, no selection file, newer
    than this xpuprof, changed after it was written, or inconsistent.
    """
    source = Path(path)
    if source.is_dir():
        inside = source / "selection.json"
        remedy = f"name {inside}" if inside.is_file() else "make one with `xpuprof select RUN`"
        raise InputError(f"{source} is a folder, not a selection file; {remedy}")
    if not source.exists():
        raise InputError(f"{source} does not exist; make a selection with `xpuprof select RUN`")
    remedy = "a selection file: make one with `xpuprof select RUN`"
    return parse_selection(read_text(source, remedy, LARGEST), str(source))


def selection_text(selection: Selection) -> str:
    """The file's text."""
    content = _document(selection)
    content["checksum"] = _checksum(content)
    order = ("format", "version", "checksum", *(k for k in content if k not in _HEADER))
    return _layout({key: content[key] for key in order}, 0) + "\n"


def _document(selection: Selection) -> dict[str, object]:
    """The selection as plain JSON values, without the checksum, keys in the file's order."""
    document: dict[str, object] = {
        "format": FORMAT,
        "version": CURRENT,
        "method": selection.method,
        "parameters": _plain(selection.parameters, "parameters"),
        "seed": int(selection.seed),
        "slices": selection.slices,
        "covered": _plain(float(selection.covered), "covered"),
        "representatives": [_representative_document(r) for r in selection.representatives],
        "labels": encode_runs(selection.labels),
        "design": _design_document(selection.design),
    }
    for key in ("scores", "identity", "machine", "summary"):
        document[key] = _plain(getattr(selection, key), key)
    return document


def parse_selection(text: str, source: str) -> Selection:
    """As `read_selection`, from text; `source` names it in errors."""

    def refuse(reason: str) -> NoReturn:
        raise InputError(f"{source} {reason}")

    document = _parse_json(text, refuse)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        refuse("is not a selection file: make one with `xpuprof select RUN`")
    version = document.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < OLDEST_SUPPORTED:
        refuse("has no valid format version: make it again with `xpuprof select RUN`")
    if version > CURRENT:
        refuse(
            f"has selection format {version}, this xpuprof reads up to {CURRENT}: "
            "use a newer xpuprof (pip install -U xpuprof)"
        )
    content = {key: value for key, value in document.items() if key != "checksum"}
    if document.get("checksum") != _checksum(content):
        refuse(
            "was changed after it was written (its checksum does not match): "
            "make it again with `xpuprof select RUN`"
        )
    try:
        selection = _from_document(content)
    except (KeyError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        detail = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        refuse(f"is not a valid selection ({detail}): make it again with `xpuprof select RUN`")
    problem = _inconsistency(selection)
    if problem:
        refuse(f"contradicts itself ({problem}): make it again with `xpuprof select RUN`")
    return selection


_HEADER = ("format", "version", "checksum")


# ---- to JSON -----------------------------------------------------------------------------------
def _representative_document(r: Representative) -> dict[str, object]:
    return {
        "slice": int(r.slice),
        "process": int(r.process),
        "cluster": int(r.cluster),
        "multiplier": _plain(float(r.multiplier), f"multiplier of slice {r.slice}"),
        "weight": _plain(float(r.weight), f"weight of slice {r.slice}"),
        "draws": int(r.draws),
        "start": None if r.start is None else _marker_document(r.start),
        "end": _marker_document(r.end),
    }


def _marker_document(m: Marker) -> dict[str, object]:
    return {
        "kernel": m.kernel,
        "call": int(m.call),
        "grid": [int(n) for n in m.grid],
        "block": [int(n) for n in m.block],
        "program": m.program,
    }


def _design_document(design: Design) -> dict[str, object]:
    """What the design states; what it does not state is left out."""
    stated = {key: value for key, value in vars(design).items() if value is not None}
    if design.strata is None:
        del stated["replacement"]
    else:
        stated["strata"] = dict(vars(design.strata))
    return {key: _plain(value, f"design.{key}") for key, value in stated.items()}


def _plain(value: Any, where: str) -> Any:
    """JSON values only, mappings sorted by key; numpy scalars and arrays become Python's."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"the selection's {where} is {value}: only finite numbers are kept")
        return value + 0.0  # -0.0 and 0.0 are one number and must be one text
    if isinstance(value, Mapping):
        keyed = {str(key): item for key, item in value.items()}
        return {key: _plain(keyed[key], f"{where}.{key}") for key in sorted(keyed)}
    if isinstance(value, Sequence):
        return [_plain(item, where) for item in value]
    raise InputError(f"the selection's {where} is a {type(value).__name__}, which JSON cannot hold")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _layout(value: Any, indent: int) -> str:
    """JSON that fits a line goes on one, anything else is opened one level."""
    flat = _compact(value)
    if len(flat) + indent <= _WIDTH or not isinstance(value, dict | list) or not value:
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        items = [f"{_compact(key)}: {_layout(item, indent + 2)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        items = [_layout(item, indent + 2) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n{pad}" + f",\n{pad}".join(items) + f"\n{' ' * indent}{closing}"


def _checksum(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return "sha256:" + hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


# ---- from JSON ---------------------------------------------------------------------------------
def _parse_json(text: str, refuse: Callable[[str], NoReturn]) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(keys) != len(set(keys)):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    def no_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is not a JSON number")

    def finite(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise ValueError(f"{digits} is out of range")
        return number

    try:
        return json.loads(
            text, object_pairs_hook=unique, parse_constant=no_constant, parse_float=finite
        )
    except (ValueError, RecursionError) as error:
        refuse(
            f"is not a selection file: it is not valid JSON ({error}); copy it whole, or make it "
            "again with `xpuprof select RUN`"
        )


def _from_document(document: Mapping[str, Any]) -> Selection:
    labels = decode_runs(document["labels"], _integer(document["slices"], "slices"))
    mappings = {key: document[key] for key in ("scores", "identity", "machine", "summary")}
    for key, value in {**mappings, "parameters": document["parameters"]}.items():
        if not isinstance(value, dict):
            raise TypeError(f"{key} is not an object")
    if document["version"] == 1:
        stated, mappings["scores"] = _design_of_scores(mappings["scores"])
    else:
        stated = document["design"]
        if not isinstance(stated, dict):
            raise TypeError("design is not an object")
    return Selection(
        method=_string(document["method"], "method"),
        parameters=document["parameters"],
        seed=_integer(document["seed"], "seed"),
        representatives=tuple(_representative(r) for r in document["representatives"]),
        labels=labels,
        covered=_number(document["covered"], "covered"),
        design=_design(stated),
        **mappings,
    )


def _design_of_scores(scores: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The design that a file of version 1 has among its scores, and the other scores."""
    of_design = ("basis", "strata", "error_bound", "confidence", "quantile")
    stated = {key: scores[key] for key in of_design if key in scores}
    if "strata" in stated:
        strata = dict(stated["strata"])
        stated |= {"how": "random", "replacement": strata.pop("replacement"), "strata": strata}
    elif "basis" in stated:
        stated = {"how": "picked", "basis": stated["basis"]}
    else:
        stated = {"how": "nearest", "basis": NEAREST}
    others = {key: value for key, value in scores.items() if key not in stated}
    return stated, others


def _design(stated: Mapping[str, Any]) -> Design:
    strata = stated.get("strata")
    numbers = {
        key: None if stated.get(key) is None else _number(stated[key], key)
        for key in ("error_bound", "confidence", "quantile")
    }
    return Design(
        how=stated["how"],
        basis=_string(stated["basis"], "basis"),
        strata=None if strata is None else _strata(strata),
        replacement=strata is not None and _flag(stated["replacement"], "replacement"),
        **numbers,
    )


def _strata(columns: Mapping[str, Any]) -> Strata:
    return Strata(
        size=tuple(_integer(n, "size") for n in columns["size"]),
        draws=tuple(_integer(n, "draws") for n in columns["draws"]),
        mean=tuple(_number(x, "mean") for x in columns["mean"]),
        sigma=tuple(_number(x, "sigma") for x in columns["sigma"]),
    )


def _representative(r: Mapping[str, Any]) -> Representative:
    return Representative(
        slice=JobRow(_integer(r["slice"], "slice")),
        end=_marker(r["end"]),
        start=None if r["start"] is None else _marker(r["start"]),
        cluster=_integer(r["cluster"], "cluster"),
        multiplier=_number(r["multiplier"], "multiplier"),
        weight=_number(r["weight"], "weight"),
        draws=_integer(r["draws"], "draws"),
        process=_integer(r["process"], "process"),
    )


def _marker(m: Mapping[str, Any]) -> Marker:
    return Marker(
        kernel=_string(m["kernel"], "kernel"),
        call=_integer(m["call"], "call"),
        program=_string(m["program"], "program"),
        grid=_triple(m["grid"], "grid"),
        block=_triple(m["block"], "block"),
    )


def _integer(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is not an integer")
    return value


def _number(value: Any, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is not a number")
    return float(value)


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is neither true nor false")
    return value


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a string")
    return value


def _triple(value: Any, name: str) -> tuple[int, int, int]:
    x, y, z = (_integer(n, name) for n in value)
    return x, y, z


def _inconsistency(selection: Selection) -> str:
    """What a well-formed file may still get wrong; empty when nothing is."""
    if not selection.representatives:
        return "no representatives"
    if not 0.0 < selection.covered <= 1.0 + 1e-9:
        return f"covered share {selection.covered}"
    clusters = set(np.unique(selection.labels[selection.labels >= 0]).tolist())
    strata = selection.design.strata
    if strata is not None and max(clusters, default=0) >= len(strata):
        return f"cluster {max(clusters)} of {len(strata)} strata"
    seen: set[tuple[int, int]] = set()
    for r in selection.representatives:
        if not 0 <= r.slice < selection.slices:
            return f"representative slice {r.slice} of {selection.slices} slices"
        if r.cluster not in clusters:
            return f"slice {r.slice} represents cluster {r.cluster}, which has no slice"
        if (r.process, r.slice) in seen:
            return f"slice {r.slice} is chosen twice"
        if r.multiplier <= 0 or r.weight < 0 or r.draws < 1 or r.end.call < 1:
            return f"slice {r.slice} has a multiplier, weight, draw count or call out of range"
        seen.add((r.process, r.slice))
    return ""
