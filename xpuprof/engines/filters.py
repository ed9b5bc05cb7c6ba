# SPDX-License-Identifier: Apache-2.0
"""Filters and windows (--kernels, --window, --process, --routine, ...), and which engines honour
them. docs/filters.md describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from xpuprof.engines.base import CpuEngine, CpuOptions, GpuEngine, GpuOptions
from xpuprof.engines.filter_grammar import check_kernels, check_window, starts_closed
from xpuprof.errors import EngineError, TraceError, UsageError

ENV_KERNELS, ENV_WINDOW = "XPUPROF_KERNELS", "XPUPROF_WINDOW"
ENV_AFTER_WINDOW, ENV_PROCESSES = "XPUPROF_AFTER_WINDOW", "XPUPROF_PROCESSES"
VARIABLES = (ENV_KERNELS, ENV_WINDOW, ENV_AFTER_WINDOW, ENV_PROCESSES)

# Options that an engine honours, as the user writes them.
IMAGES = frozenset({"--include-image", "--exclude-image", "--main-image-only"})
CODE = IMAGES | {"--routine", "--thread"}
PROCESS = frozenset({"--process"})
SCOPE = PROCESS | {"--window"}
AFTER_WINDOW = frozenset({"--after-window end"})
KERNELS = frozenset({"--kernels"})
MEMORY = frozenset({"--memory"})
START_UP = frozenset({"--start-up native"})


@dataclass(frozen=True)
class Filters:
    """Which part of the program is profiled; the default is everything. Window and processes are
    the same in all executions of a run."""

    kernels: str = ""
    """Launches that are instrumented (`2-8@gemm.*,100-`); empty: all."""
    window: str = ""
    """Launches (`100-200`) or openings of a marker (`2-4@step`); empty: the whole program."""
    after_window: Literal["continue", "end"] = "continue"
    """Whether the program continues or is ended after its last window has closed."""
    processes: tuple[str, ...] = ()
    """Globs on program names; empty: all processes."""
    include_images: tuple[str, ...] = ()
    """Globs on the images whose CPU code counts; empty: all."""
    exclude_images: tuple[str, ...] = ()
    """Globs on images whose CPU code does not count; wins over `include_images`."""
    main_image_only: bool = False
    """Count CPU code of the program's own executable only."""
    routines: tuple[str, ...] = ()
    """Globs on the routines whose CPU code counts; empty: all."""
    threads: tuple[int, ...] = ()
    """Logical CPU threads that count (0 is the main thread); empty: all."""
    memory: bool = False
    """Also record LRU stack distances of data accesses, on CPU and device (slow)."""
    start_up: Literal["auto", "native", "counted"] = "auto"
    """Whether the main thread's code before the first launch runs natively, or counts; `auto`: as
    `starts_natively` decides."""

    def check(self) -> None:
        """Raises UsageError for a value that cannot be understood."""
        check_kernels(self.kernels)
        check_window(self.window, self.after_window)
        for glob in self.processes:
            if not glob or "\n" in glob:
                raise UsageError(f"--process takes a glob on a program's name, not {glob!r}")

    def of_timer_runs(self) -> Filters:
        """The part that native runs honour: window and processes."""
        return Filters(window=self.window, after_window=self.after_window, processes=self.processes)

    def environment(self) -> dict[str, str]:
        """Additions to the program's environment (boundary.h)."""
        values = {
            ENV_KERNELS: self.kernels,
            ENV_WINDOW: self.window,
            ENV_AFTER_WINDOW: self.after_window if self.window else "",
            ENV_PROCESSES: "\n".join(self.processes),
        }
        return {name: value for name, value in values.items() if value}

    def cpu_options(self) -> CpuOptions:
        """Options of the CPU engine."""
        return CpuOptions(
            self.include_images,
            self.exclude_images,
            self.main_image_only,
            self.routines,
            self.threads,
            self.memory,
            window=self.window,
            processes=self.processes,
        )

    def gpu_options(self) -> GpuOptions:
        """Options of the GPU engine."""
        return GpuOptions(self.memory)

    def record(self) -> dict[str, object]:
        """The filters in effect, for manifests and selections."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        left = {name: value for name, value in found.items() if value}
        if not self.window:
            left.pop("after_window")
        if self.start_up == "auto":
            left.pop("start_up")
        return {n: list(v) if isinstance(v, tuple) else v for n, v in left.items()}

    @classmethod
    def read(cls, record: Mapping[str, object]) -> Filters:
        """The filters of a `record()`. Raises TraceError if it is damaged."""
        defaults = asdict(EVERYTHING)
        kept = {n: _checked(n, v, defaults[n]) for n, v in record.items() if n in defaults}
        return replace(EVERYTHING, **kept)

    def options(self) -> list[str]:
        """The filters as options of a command."""
        words: list[str] = []
        for name, value in self.record().items():
            option = _FIELDS[name][0]
            if isinstance(value, list):
                words += [word for item in value for word in (option, str(item))]
            elif name in _CHOICES:
                words += [] if value == _CHOICES[name][0] else [option.split()[0], str(value)]
            else:
                words += [option] if value is True else [option, str(value)]
        return words

    def text(self) -> str:
        """One line for people; empty without filters."""
        titles = {name: title for name, (_, title) in _FIELDS.items()}
        if self.after_window == "continue":
            titles.pop("after_window")
        record = self.record()
        return "; ".join(
            title.format(_listed(record[name])) for name, title in titles.items() if name in record
        )


EVERYTHING = Filters()
"""No filter."""


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _checked(name: str, value: object, default: object) -> Any:
    """A value from a file, checked against the type of its field."""
    if isinstance(default, tuple) and isinstance(value, list):
        kind = int if name == "threads" else str
        if all(type(item) is kind for item in value):
            return tuple(value)
    elif type(value) is type(default) and value in _CHOICES.get(name, (value,)):
        return value
    raise TraceError(f"the filter {name!r} of the run is damaged ({value!r}); record the run again")


_CHOICES = {"after_window": ("continue", "end"), "start_up": ("auto", "native", "counted")}
"""The values of a filter that has a few, the default first."""

_FIELDS = {
    "kernels": ("--kernels", "only launches that match {} are instrumented"),
    "window": ("--window", "only the window {} counts"),
    "after_window": ("--after-window end", "the program is ended after the window"),
    "processes": ("--process", "only processes {} count"),
    "include_images": ("--include-image", "only CPU code of {} counts"),
    "exclude_images": ("--exclude-image", "CPU code of {} does not count"),
    "main_image_only": (
        "--main-image-only",
        "only CPU code of the program's own executable counts",
    ),
    "routines": ("--routine", "only blocks that start in routines {} count"),
    "threads": ("--thread", "only CPU threads {} count"),
    "start_up": ("--start-up native", "start-up is {}"),
    "memory": ("--memory", "stack distances of data accesses are recorded"),
}
"""The option of each filter, and its text for people. An option with a value of its own is what an
engine must honour; it can leave the other values alone."""

_OF_GPU_ENGINE = ("kernels", "window", "after_window", "processes")
_OF_CPU_ENGINE = tuple(name for name in _FIELDS if name not in ("kernels", "after_window"))


# ---- which engine can do what --------------------------------------------------------------------


def wanted_of_cpu_engine(filters: Filters) -> list[str]:
    """The options in effect that a CPU engine must honour."""
    return _in_effect(filters, _OF_CPU_ENGINE)


def _in_effect(filters: Filters, names: tuple[str, ...]) -> list[str]:
    record = filters.record()
    options = ((name, _FIELDS[name][0]) for name in names if name in record)
    return [o for name, o in options if name not in _CHOICES or o.split()[1] == record[name]]


def check_engines(cpu: CpuEngine | None, gpu: GpuEngine | None, filters: Filters) -> None:
    """Raises UsageError or EngineError for an option that no engine of the run honours."""
    filters.check()
    of_cpu_alone = [o for o in wanted_of_cpu_engine(filters) if o not in SCOPE]
    if cpu is None and gpu is not None and gpu.honours >= MEMORY and of_cpu_alone == [*MEMORY]:
        of_cpu_alone = []  # --memory then records the device's accesses alone
    if cpu is None and of_cpu_alone:
        raise UsageError(
            f"{of_cpu_alone[0]} filters what the CPU engine counts, and this run has no CPU "
            "engine; choose one with --cpu, or omit the option"
        )
    if gpu is None and filters.kernels:
        raise UsageError(
            "--kernels chooses the launches that the GPU engine instruments, and this run has no "
            "GPU engine; choose one with --gpu, or omit the option"
        )
    if gpu is None and filters.window and "@" not in filters.window:
        raise UsageError(
            f"--window {filters.window} counts kernel launches, which only a GPU engine sees; "
            "choose one with --gpu, or mark the window in the program (--window @NAME)"
        )
    if gpu is None and filters.start_up == "native":
        raise UsageError(
            "--start-up native lasts until the first launch, which only a GPU engine sees; choose "
            "one with --gpu, or omit the option"
        )
    if filters.window and filters.start_up == "native":
        raise UsageError(
            "--start-up native and --window exclude each other, since both choose what counts; "
            "omit one of them"
        )
    if cpu is not None:
        _refuse(cpu, wanted_of_cpu_engine(filters))
    if gpu is not None:
        _refuse(gpu, _in_effect(filters, _OF_GPU_ENGINE))


def starts_natively(cpu: CpuEngine | None, gpu: GpuEngine | None, filters: Filters) -> bool:
    """Whether start-up runs natively, and so does not count: where that is asked for, and by
    default if the CPU engine can, the GPU engine sees it end, and no filter but --process chooses
    what counts."""
    if filters.start_up != "auto":
        return filters.start_up == "native"
    able = cpu is not None and cpu.honours >= START_UP
    return able and gpu is not None and PROCESS.issuperset(wanted_of_cpu_engine(filters))


def _refuse(engine: CpuEngine | GpuEngine, asked: list[str]) -> None:
    for option in asked:
        if option not in engine.honours:
            raise EngineError(
                f"{engine.side} engine {engine.name} does not support {option}; omit it, or choose "
                f"another engine with --{engine.side.lower()}"
            )


def cpu_settings(options: CpuOptions) -> Iterator[tuple[str, str]]:
    """Filters and windows as names and values, in the form that our CPU tools read."""
    for pattern in options.include_images:
        yield "include-image", pattern
    for pattern in options.exclude_images:
        yield "exclude-image", pattern
    for pattern in options.routines:
        yield "routine", pattern
    for thread in options.threads:
        yield "count-thread", str(thread)
    for glob in options.processes:
        yield "process", glob
    if starts_closed(options.window):
        yield "window-closed", "yes"
    if options.memory:
        yield "memory", "yes"
    if options.main_image_only:
        yield "main-image-only", "yes"
    if options.native_start_up:
        yield "start-up", "native"
