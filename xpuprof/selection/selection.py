# SPDX-License-Identifier: Apache-2.0
"""The one Selection type: which slices represent the whole run, and with which multipliers.

Every method returns it, every consumer (validate, export, estimate, compare) reads it.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from xpuprof import inputs
from xpuprof.errors import InputError
from xpuprof.selection import document
from xpuprof.selection.design import NEAREST, Design, Strata
from xpuprof.selection.identity import Identity
from xpuprof.selection.results import RunSummary, Scores
from xpuprof.trace.coordinates import (
    NO_KERNELS,
    JobLayout,
    JobRow,
    LaunchIndex,
    Stretches,
    launch_ending,
)
from xpuprof.trace.pieces import pieces
from xpuprof.trace.run_lengths import decode_runs, encode_runs

LABEL = 4
"""Bytes of a slice's label in memory."""
MOST_CLUSTERS = 1 << 24
_SHOWN = 50
"""Representatives shown in a notebook."""


@dataclass(frozen=True)
class Marker:
    """A slice boundary that repeats from run to run: the `call`-th launch (1-based) of `kernel`."""

    kernel: str
    call: int
    program: str = ""
    """Hash of the device program as the driver received it (hex), "" if unknown."""
    grid: tuple[int, int, int] = (0, 0, 0)
    """Global size in work-items; zeros if unknown."""
    block: tuple[int, int, int] = (0, 0, 0)
    """Work-group size; zeros if the runtime chose it or it is unknown."""


@dataclass(frozen=True)
class Representative:
    """One slice to measure or simulate.

    `multiplier` scales an extensive metric (time, instructions, misses) of this slice in P_proj =
    sum P_i x multiplier_i (XPU-Point, section VI). `draws` is how often a method that samples with
    replacement drew the slice; the multiplier includes it.
    """

    slice: JobRow
    end: Marker
    start: Marker | None
    """None: the slice starts with the program."""
    cluster: int
    multiplier: float
    weight: float
    """Share of the whole run that the representative covers; weights add up to `covered`."""
    draws: int = 1
    process: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """A method's choice. `labels[i]` is the cluster (stratum) of slice i, -1 when not covered."""

    method: str
    parameters: Mapping[str, Any]
    seed: int
    representatives: tuple[Representative, ...]
    labels: npt.NDArray[np.int32]
    covered: float = 1.0
    design: Design = field(default_factory=Design)
    """How the slices were chosen; determines the interval."""
    scores: Scores = field(default_factory=Scores)
    identity: Identity = field(default_factory=Identity)
    machine: Mapping[str, object] = field(default_factory=dict)
    """Host, processor, memory, ... of the profile, as in its manifest."""
    summary: RunSummary = field(default_factory=RunSummary)

    @property
    def slices(self) -> int:
        """Number of slices of the run."""
        return len(self.labels)

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """int64[clusters]: slices of each cluster."""
        return label_counts(self.labels)[1:]

    @property
    def window(self) -> str:
        """The window of the program that the selection covers; empty for the whole program."""
        return self.identity.window.spec if self.identity.window else ""

    @property
    def metric(self) -> str:
        """The metric used for selection: `time`, or a time-like metric of an imported profile."""
        return self.identity.metric or "time"

    @property
    def layout(self) -> JobLayout:
        """How the slices are divided among processes. Raises InputError when the processes' slices
        do not add up to the selection's."""
        processes = self.identity.processes
        lengths = tuple(key.slices for key in processes) or (self.slices,)
        if sum(lengths) != self.slices or (processes and min(lengths) < 1):
            raise InputError(
                f"the selection names {self.slices} slices but its processes have {sum(lengths)}: "
                f"{inputs.SELECT_AGAIN}"
            )
        return JobLayout(lengths)

    def launch_ending(self, representative: Representative) -> LaunchIndex:
        """The launch of the process that ends the representative."""
        row = self.layout.window_row(representative.process, representative.slice)
        window = self.identity.window
        stretches = window.stretches if window else None
        return launch_ending((stretches or Stretches()).process_row(row))

    @property
    def k(self) -> int:
        """Number of clusters (strata) that have a representative."""
        return len({r.cluster for r in self.representatives})

    @classmethod
    def read(cls, path: str | Path) -> Selection:
        """Read a selection file of any supported version.

        Raises InputError, naming the file and the remedy, when it is missing, not a selection file,
        too new, modified, or inconsistent.
        """
        file = document.file_of(path)
        return cls.parse(document.read_text(file), str(file))

    @classmethod
    def parse(cls, text: str, source: str) -> Selection:
        """Like `read`, from the file's text; `source` names it in errors."""

        def refuse(reason: str) -> NoReturn:
            raise InputError(f"{source} {document.naming_run(reason, Path(source))}")

        content = document.content_of(text, refuse)
        slices, limit = content.get("slices"), inputs.limit_of(len(text))
        if isinstance(slices, int) and slices * LABEL > limit:
            wanted = f"{inputs.VARIABLE}={(slices * LABEL >> 30) + 1}G"
            refuse(
                f"names {slices:,} slices, whose labels take more than {limit >> 20} MiB; if it is "
                f"genuine, set {wanted}"
            )
        try:
            selection = _from_content(content)
        except (KeyError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
            detail = f"lacks {error}" if isinstance(error, KeyError) else str(error)
            refuse(f"is not a valid selection ({detail}): {inputs.SELECT_AGAIN}")
        problem = _inconsistency(selection)
        if problem:
            refuse(f"contradicts itself ({problem}): {inputs.SELECT_AGAIN}")
        return selection

    def write(self, path: str | Path, force: bool = False) -> None:
        """Write the selection file atomically.

        Raises UsageError when the file exists and `force` is false or the folder cannot be written,
        InputError when the file cannot represent a value (NaN, an unknown type).
        """
        document.write_text(self.text(), path, force)

    def text(self) -> str:
        """The selection file's text, which depends only on the selection."""
        return document.text_of(_content(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.text() == other.text()

    def __repr__(self) -> str:
        chosen = len(self.representatives)
        return f"<xpuprof.Selection by {self.method}: {chosen} of {self.slices} slices, k {self.k}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{r.slice}</td><td>{html.escape(NO_KERNELS.get(r.end.kernel, r.end.kernel))}"
            f"</td><td>{r.end.call}</td><td>{r.cluster}</td><td>{r.multiplier:g}</td></tr>"
            for r in self.representatives[:_SHOWN]
        )
        names = ("slice", "ends with kernel", "call", "cluster", "multiplier")
        head = "".join(f"<th>{name}</th>" for name in names)
        more = len(self.representatives) - _SHOWN
        rest = f"<p>... and {more:,} more in .representatives</p>" if more > 0 else ""
        table = f'<table border="1" class="dataframe"><tr>{head}</tr>{rows}</table>'
        return f"<p>{html.escape(repr(self))}</p>{table}{rest}"


def label_counts(labels: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """int64[clusters + 1]: slices that are not covered, then those of each cluster."""
    counts = np.zeros(int(labels.max(initial=-1)) + 2, np.int64)
    for piece in pieces(len(labels)):  # np.bincount converts its argument
        counts += np.bincount(labels[piece] + 1, minlength=len(counts))
    return counts


def _content(selection: Selection) -> dict[str, object]:
    """The selection as plain JSON values, keys in the file's order."""
    content: dict[str, object] = {
        "method": selection.method,
        "parameters": document.plain(selection.parameters, "parameters"),
        "seed": int(selection.seed),
        "slices": selection.slices,
        "covered": document.plain(float(selection.covered), "covered"),
        "representatives": [_representative_document(r) for r in selection.representatives],
        "labels": encode_runs(selection.labels),
        "design": _design_document(selection.design),
    }
    stated = {
        "scores": selection.scores.as_json(),
        "identity": selection.identity.as_json(),
        "machine": selection.machine,
        "summary": selection.summary.as_json(),
    }
    return content | {key: document.plain(value, key) for key, value in stated.items()}


def _from_content(content: Mapping[str, Any]) -> Selection:
    labels = decode_runs(content["labels"], document.integer(content["slices"], "slices"))
    names = ("parameters", "scores", "identity", "machine", "summary")
    objects = {name: document.mapping(content[name], name) for name in names}
    if content["version"] == 1:
        stated, scores = _design_of_scores(objects["scores"])
    else:
        stated, scores = document.mapping(content["design"], "design"), objects["scores"]
    return Selection(
        method=document.string(content["method"], "method"),
        parameters=objects["parameters"],
        seed=document.integer(content["seed"], "seed"),
        representatives=tuple(_representative(r) for r in content["representatives"]),
        labels=labels,
        covered=document.number(content["covered"], "covered"),
        design=_design(stated),
        scores=Scores.from_json(scores),
        identity=Identity.from_json(objects["identity"]),
        machine=objects["machine"],
        summary=RunSummary.from_json(objects["summary"]),
    )


def _representative_document(r: Representative) -> dict[str, object]:
    return {
        "slice": int(r.slice),
        "process": int(r.process),
        "cluster": int(r.cluster),
        "multiplier": document.plain(float(r.multiplier), f"multiplier of slice {r.slice}"),
        "weight": document.plain(float(r.weight), f"weight of slice {r.slice}"),
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
    """The design's values; those that are None are omitted."""
    stated = {key: value for key, value in vars(design).items() if value is not None}
    if design.strata is None:
        del stated["replacement"]
    else:
        stated["strata"] = dict(vars(design.strata))
    return {key: document.plain(value, f"design.{key}") for key, value in stated.items()}


def _design_of_scores(scores: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The design, which version 1 files store among the scores, and the other scores."""
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
    strata, ranks = stated.get("strata"), stated.get("ranks")
    numbers = {
        key: None if stated.get(key) is None else document.number(stated[key], key)
        for key in ("error_bound", "confidence", "quantile")
    }
    return Design(
        how=stated["how"],
        basis=document.string(stated["basis"], "basis"),
        strata=None if strata is None else _strata(strata),
        replacement=strata is not None and document.flag(stated["replacement"], "replacement"),
        ranks=None if ranks is None else tuple(document.integer(n, "ranks") for n in ranks),
        **numbers,
    )


def _strata(columns: Mapping[str, Any]) -> Strata:
    return Strata(
        size=tuple(document.integer(n, "size") for n in columns["size"]),
        draws=tuple(document.integer(n, "draws") for n in columns["draws"]),
        mean=tuple(document.number(x, "mean") for x in columns["mean"]),
        sigma=tuple(document.number(x, "sigma") for x in columns["sigma"]),
    )


def _representative(r: Mapping[str, Any]) -> Representative:
    return Representative(
        slice=JobRow(document.integer(r["slice"], "slice")),
        end=_marker(r["end"]),
        start=None if r["start"] is None else _marker(r["start"]),
        cluster=document.integer(r["cluster"], "cluster"),
        multiplier=document.number(r["multiplier"], "multiplier"),
        weight=document.number(r["weight"], "weight"),
        draws=document.integer(r["draws"], "draws"),
        process=document.integer(r["process"], "process"),
    )


def _marker(m: Mapping[str, Any]) -> Marker:
    return Marker(
        kernel=document.string(m["kernel"], "kernel"),
        call=document.integer(m["call"], "call"),
        program=document.string(m["program"], "program"),
        grid=document.triple(m["grid"], "grid"),
        block=document.triple(m["block"], "block"),
    )


def _inconsistency(selection: Selection) -> str:
    """An inconsistency that a well-formed file may contain; empty if none."""
    if not selection.representatives:
        return "no representatives"
    if not 0.0 < selection.covered <= 1.0 + 1e-9:
        return f"covered share {selection.covered}"
    if not -1 <= selection.labels.min(initial=0) <= selection.labels.max(initial=0) < MOST_CLUSTERS:
        return "labels out of range"
    clusters = set(np.flatnonzero(selection.sizes).tolist())
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
