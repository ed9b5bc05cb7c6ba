# SPDX-License-Identifier: Apache-2.0
"""Declarations of methods, and methods from other packages."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support import traces
from tests.support.plugins import install
from tests.support.run import xpuprof_text
from xpuprof.clustering.options import Options
from xpuprof.errors import UsageError
from xpuprof.methods import registry
from xpuprof.methods.declaration import Need
from xpuprof.methods.profile import NeedsError, SliceProfile
from xpuprof.selection.selection import Selection
from xpuprof.signature.matrix import Projection
from xpuprof.trace.run_writer import create_run

METHODS = {method.name: method for method in registry.methods()}
MODULES = {
    name: importlib.import_module(method.select.module)  # type: ignore[attr-defined]
    for name, method in METHODS.items()
}


@pytest.mark.parametrize("name", METHODS)
def test_a_declaration_read_is_the_declaration_imported(name: str) -> None:
    """The registry reads declarations without importing their files; both agree."""
    read, imported = METHODS[name], MODULES[name].METHOD
    same = [f for f in vars(read) if f != "select" and getattr(read, f) == getattr(imported, f)]
    assert len(same) == len(vars(read)) - 1
    assert MODULES[name].select is imported.select
    assert imported.help.endswith(".") and imported.help.count(". ") == 0


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if not m.clusters])
def test_declared_options_are_the_functions(name: str) -> None:
    """Every declared option is a keyword of the function, with the declared default."""
    method = MODULES[name].METHOD
    keywords = inspect.signature(method.select).parameters
    for option in method.options:
        assert keywords[option.name].default == option.default


def test_declared_clustering_options_are_the_fields() -> None:
    """A clustering method's options are those of the projection and of the clustering, with their
    defaults; none is left out."""
    own = [*dataclasses.fields(Projection), *dataclasses.fields(Options)]
    defaults = {field.name: field.default for field in own if field.name != "seed"}
    declared = registry.find(registry.default()).options
    assert {option.name: option.default for option in declared} == defaults


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.needs])
def test_declared_needs_are_true(name: str) -> None:
    """On a profile of names only, a method refuses and names one of its declared needs."""
    bare = SliceProfile(pd.DataFrame({"kernel": ["a", "b"] * 20, "call": np.arange(40)}))
    method = registry.find(name)
    if method.clusters:
        pytest.skip("reads processes")
    if method.needs == (Need.TIMES, Need.COUNTERS):
        bare = SliceProfile(bare.slices, np.ones(40))
    with pytest.raises(NeedsError, match=f"{name} needs ") as refused:
        method.select(bare, seed=1)
    assert any(str(need).split()[-1] in str(refused.value) for need in method.needs)


PLUGIN = """
import numpy as np
from xpuprof.methods.declaration import Method, Option
from xpuprof.selection.selection import Selection

def select(profile, *, seed, every=10):
    rows = np.arange(0, len(profile), every)
    ones = np.ones(len(rows))
    clusters = np.zeros(len(rows), dtype=np.int64)
    return Selection("every-nth", {"every": every}, seed,
                     profile.representatives(rows, clusters, ones * every, ones / len(rows)),
                     np.zeros(len(profile), dtype=np.int32), summary=profile.summary())

METHOD = Method("every-nth", "Every nth slice.", select,
                options=(Option("every", int, 10, "Distance of two slices."),))
"""


def recorded(path: Path) -> Path:
    """The made-up program, profiled."""
    writer = create_run(path, argv=["./app"])
    traces.add_execution(writer, "profile", "profile", traces.events(), traces.cpu())
    writer.finish("complete", "")
    return path


@pytest.mark.slow
def test_a_method_of_another_package(tmp_path: Path) -> None:
    """GIVEN a distribution that registers a method WHEN it is named THEN the command line selects
    by it, takes its declared options, and refuses others."""
    entries = "[xpuprof.methods]\nevery-nth = others:METHOD\n"
    ours = install(tmp_path, "others", "others", PLUGIN, entries)
    run = recorded(tmp_path / "R")
    assert "every-nth" in xpuprof_text("select", "--help", environment=ours).stdout
    done = xpuprof_text(
        "select", run, "--method", "every-nth", "--set", "every=2", environment=ours
    )
    assert done.returncode == 0, done.stderr
    chosen = Selection.read(run / "selection.json")
    assert chosen.method == "every-nth" and chosen.parameters == {"every": 2}
    assert [r.slice for r in chosen.representatives] == list(range(0, chosen.slices, 2))
    refused = xpuprof_text(
        "select", run, "--method", "every-nth", "--set", "all=2", environment=ours
    )
    assert refused.returncode == 2 and "has no option 'all'; it has: every" in refused.stderr


@pytest.mark.slow
def test_a_broken_method_of_another_package_is_named(tmp_path: Path) -> None:
    """The message says which package to fix."""
    entries = "[xpuprof.methods]\nmagic = broken:METHOD\n"
    ours = install(tmp_path, "broken", "broken", "raise OSError('no library')", entries)
    run = recorded(tmp_path / "R")
    refused = xpuprof_text("select", run, "--method", "magic", environment=ours)
    assert refused.returncode == 2 and "of broken cannot be loaded" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        *(("stem-root", {"epsilon": e}, "epsilon must lie between 0 and 1 ") for e in (0.0, 1.0)),
        ("xpu-stem", {"confidence": 1.5}, "confidence must lie between 0 and 1 "),
        ("stem-root", {"k": 1}, "k must be at least 2, not 1"),
        ("stem-root", {"sizes": "other"}, "sizes takes one of joint, split, not 'other'"),
        ("xpu-stem", {"rho": -0.1}, "rho must be at least 0, not -0.1"),
        ("xpu-stem", {"least": 0}, "least must be at least 1, not 0"),
        ("two-phase", {"strata": 0}, "strata must be at least 1, not 0"),
        ("ranked-set", {"n": 0}, "n must be at least 1, not 0"),
        ("random", {"fraction": 0.0}, "fraction must lie between 0 and 1 "),
        ("sieve", {"theta": 0.0}, "theta must be above 0, not 0"),
        ("photon", {"similarity": 0.0}, "similarity must lie between 0 and 1 "),
        ("pka", {"choice": "best"}, "choice takes one of first, centre, random, not 'best'"),
        ("pka", {"classifier": "x"}, "classifier takes one of sgd, gnb, mlp, not 'x'"),
    ],
)
def test_a_value_out_of_range_is_refused_before_the_slices_are_read(
    name: str, options: dict[str, Any], sentence: str
) -> None:
    """GIVEN a value outside its option's declared range or words THEN no slice is looked at."""
    with pytest.raises(UsageError, match=re.escape(sentence)):
        registry.select(None, name, seed=1, **options)


def test_ends_that_belong_to_a_range_are_accepted() -> None:
    """GIVEN a share of all slices THEN each is drawn: only the lower end is left out."""
    profile = SliceProfile(pd.DataFrame({"kernel": ["a"] * 40, "call": np.arange(40)}))
    assert registry.select(profile, "random", seed=1, fraction=1.0).covered == 1.0


def test_options_of_the_command_line() -> None:
    """--target-error is the method's own bound; --set takes any option, once, of its type."""
    stem, ours = registry.find("stem-root"), registry.find(registry.default())
    assert registry.from_command_line(stem, {"target_error": 0.02}, {"k": "3"}) == {
        "epsilon": 0.02, "k": 3,
    }  # fmt: skip
    assert registry.from_command_line(ours, {}, {"ends": "off"}) == {"ends": False}
    for flagged, named, said in (
        (
            {"k": 3},
            {},
            "-k is for xpu-point, gpu-point and xpu-point-published; stem-root takes",
        ),
        ({"target_error": 0.1}, {"epsilon": "0.2"}, "given twice"),
        ({}, {"dim": "3"}, "has no option 'dim'"),
        ({}, {"k": "two"}, "whole number"),
    ):
        with pytest.raises(UsageError, match=said):
            registry.from_command_line(stem, flagged, named)
