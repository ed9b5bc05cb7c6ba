# SPDX-License-Identifier: Apache-2.0
"""What `run` makes of its executions: a selection, and how well it projects the native time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpuprof.estimation.typical_times import ENOUGH_FOR_MEDIAN
from xpuprof.methods import registry
from xpuprof.selection import parts
from xpuprof.selection.results import Allotment
from xpuprof.stages import stage
from xpuprof.trace.run import Run
from xpuprof.workflow.arguments import Processes
from xpuprof.workflow.evaluate import Result, evaluate
from xpuprof.workflow.prepare import Say
from xpuprof.workflow.select import missed_error, select_run

EXPECTED_ERROR = 0.01
"""Error to expect of further runs, for which `run` allots representatives."""


def conclude(
    run: Run, method: str, options: Mapping[str, Any], *, processes: Processes, seed: int, say: Say
) -> Result:
    """Chooses representatives, writes them as selection.json, and evaluates them. Parameters and
    errors as in `select_run` and `evaluate`."""
    if registry.find(method).option("expected_error") and len(run.times) >= ENOUGH_FOR_MEDIAN:
        options = {**options, "expected_error": EXPECTED_ERROR}
    with stage("choosing representatives"):
        chosen = select_run(run, method, seed=seed, processes=processes, **options)
    if allotment := chosen.scores.allotment:
        for sentence in (_allotted(allotment), *missed_error(chosen)):
            say(sentence)
    with stage("projecting the time"):
        result = evaluate(run, chosen)
    parts.write(chosen, run.path, each=processes == "each")
    return result


def _allotted(found: Allotment) -> str:
    return (
        f"representatives allotted by measured times: {found.number}, {100 * found.time:.1f} % of "
        f"the time, expected error {100 * found.expected_error:.1f} %; by the profile alone: "
        f"{found.number_by_profile}, {100 * found.time_by_profile:.1f} % of the time, expected "
        f"error {100 * found.expected_error_by_profile:.1f} %"
    )
