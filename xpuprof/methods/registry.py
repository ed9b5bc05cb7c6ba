"""The methods by name. A method's module is imported when the method is used."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xpuprof.errors import UsageError
from xpuprof.selection.selection import Selection

if TYPE_CHECKING:
    from xpuprof.trace.tables import Process

DEFAULT = "xpu-point"

_BY_VECTORS = {"xpu-point": "xpu_point", "gpu-point": "gpu_point"}
"""Methods that cluster a recorded process's block vectors."""

_BY_PROFILE = {
    "pka": "pka",
    "sieve": "sieve",
    "photon": "photon",
    "tbpoint": "tbpoint",
    "stem-root": "stem_root",
    "allegro": "allegro",
    "xpu-stem": "xpu_stem",
    "random": "random_",
    "first-n": "first_n",
}
"""Methods that read a `SliceProfile`, recorded or imported."""


def names() -> list[str]:
    """Every method of this installation."""
    return [name for name in (*_BY_VECTORS, *_BY_PROFILE) if _present(name)]


def select(method: str, process: Process, *, seed: int, **options: Any) -> Selection:
    """Select representatives of a recorded process by `method`.

    `options` are the method's own; `times` (float64[slices] or float64[repeats, slices], seconds)
    serves them all. Raises UsageError for an unknown method or option, InputError (NeedsError) when
    the method needs what the recording lacks.
    """
    function = function_of(method)
    if method in _BY_VECTORS:
        chosen: Selection = function(process, seed=seed, **options)
        return chosen
    from xpuprof.estimation.typical_times import typical_times
    from xpuprof.methods.profile import from_process

    times = options.pop("times", None)
    mean = None if times is None else typical_times(times)
    check_options(method, function, options)
    selected: Selection = function(from_process(process, mean), seed=seed, **options)
    return selected


def function_of(method: str) -> Any:
    """The method's `select`; its first argument is a Process for xpu-point and gpu-point, else a
    SliceProfile. Raises UsageError for a name that is not known."""
    module = _BY_VECTORS.get(method) or _BY_PROFILE.get(method)
    if module is None or not _present(method):
        raise UsageError(f"no method {method!r}; choose one of: {', '.join(names())}")
    return importlib.import_module(f"xpuprof.methods.{module}").select


def takes_process(method: str) -> bool:
    """Whether the method clusters a recorded process's vectors (else it reads a SliceProfile)."""
    return method in _BY_VECTORS


_BOUNDS = {
    "xpu-stem": "epsilon",
    "stem-root": "epsilon",
    "allegro": "epsilon",
    "pka": "target",
    "tbpoint": "target",
}
"""Which of a method's own options `--target-error` sets."""


def by_command_line(method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `select` that were given, by the names that the method has for them.

    Raises UsageError for one that the method does not have, or an unknown method.
    """
    function_of(method)
    if takes_process(method):
        if method == "gpu-point" and "cpu_weight" in given:
            raise UsageError("--cpu-weight is for xpu-point: gpu-point clusters the GPU part alone")
        return dict(given)
    own = {"target_error": _BOUNDS[method]} if method in _BOUNDS else {}
    for name in given:
        if name not in own:
            spelled = {"k": "-k", "ends": "--ends/--no-ends"}.get(
                name, f"--{name.replace('_', '-')}"
            )
            also = "--target-error and " if own else ""
            raise UsageError(
                f"{spelled} is for {' and '.join(_BY_VECTORS)}; {method} takes {also}--seed"
            )
    return {own[name]: value for name, value in given.items()}


def _present(method: str) -> bool:
    module = _BY_VECTORS.get(method) or _BY_PROFILE[method]
    return importlib.util.find_spec(f"xpuprof.methods.{module}") is not None


def check_options(method: str, function: Any, options: dict[str, Any]) -> None:
    """Raises UsageError for an option that the method does not have."""
    parameters = list(inspect.signature(function).parameters)
    known = [name for name in parameters if name not in ("profile", "seed")]
    for name in options:
        if name not in known:
            raise UsageError(
                f"{method} has no option {name!r}; it has: {', '.join(known) or 'none'}"
            )
