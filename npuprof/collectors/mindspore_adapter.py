"""Arguments for MindSpore's profiler, and its process-wide state: output path, activity and log.

MindSpore coerces some options with only a warning. Its methods catch and log every exception, and the directory of a
trace handler stays in force for all later profilers. None of this state has a public name, so releases that lack parts
of it are tolerated. Source: collectors/FRONTENDS.md sections 1 and 6; MindSpore's page ``mindspore.Profiler``.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import FRAMEWORK_NAMES, Options

LEVELS = {"none": "LevelNone", 0: "Level0", 1: "Level1", 2: "Level2"}
"""Names in ``mindspore.profiler.ProfilerLevel``, by npuprof's level."""

NO_METRICS = "AiCoreNone"

DOCUMENTED = frozenset(
    (
        *("start_profile", "output_path", "profiler_level", "activities", "aicore_metrics", "with_stack"),
        *("profile_memory", "data_simplification", "l2_cache", "hbm_ddr", "pcie", "data_process"),
        *("parallel_strategy", "sync_enable"),
    )
)
"""Parameters of the older ``Profiler(...)``, for releases that do not list them."""

# Names of settings in older releases.
_OLDER_NAMES = {"aic_metrics": "aicore_metrics", "sys_interconnection": "pcie"}


def refuse_coerced(options: Options) -> None:
    """Raise an OptionsError for options that MindSpore would change or leave out with a warning."""
    on_device = "npu" in options.activities
    if on_device and options.level in (1, 2) and options.aic_metrics == "none":
        raise OptionsError(
            f"MindSpore counts PipeUtilization at level {options.level} where no metrics are asked for: "
            "set level 0, or choose aic_metrics",
            "aic_metrics",
        )
    if not on_device and options.level == "none":
        raise OptionsError(
            "level none records markers by the device: add npu to activities, or set level 0, 1 or 2", "level"
        )
    if "cpu" not in options.activities:
        for option in ("shapes", "memory", "data_process"):
            if getattr(options, option):
                raise OptionsError(
                    f"MindSpore records {option} with its operators: add cpu to activities, or leave {option} out",
                    option,
                )
    if not options.sync_enable and "gpu" not in options.activities:
        raise OptionsError(
            "sync_enable is for operators on a GPU: add gpu to activities, or leave sync_enable out", "sync_enable"
        )


def config_arguments(options: Options) -> dict[str, Any]:
    """Return the arguments of ``_ExperimentalConfig``, with enum members by name."""
    on_device = "npu" in options.activities
    return {
        "profiler_level": LEVELS[options.level] if on_device else "Level0",
        "aic_metrics": NO_METRICS if options.aic_metrics == "none" else str(options.aic_metrics),
        "l2_cache": options.l2,
        "mstx": options.marks and on_device,
        "data_simplification": options.data_simplification,
        "export_type": [name.capitalize() for name in options.export_type],
        "mstx_domain_include": list(options.mstx_domain_include) if on_device else [],
        "mstx_domain_exclude": list(options.mstx_domain_exclude) if on_device else [],
        "sys_io": options.sys_io,
        "sys_interconnection": options.sys_interconnection,
        "host_sys": [name.upper() for name in options.host_sys],
    }


def profile_arguments(options: Options) -> dict[str, Any]:
    """Return the switches of ``mindspore.profiler.profile``, with activities by enum name."""
    return {
        "activities": [name.upper() for name in options.activities],
        "with_stack": options.stacks,
        "profile_memory": options.memory,
        "data_process": options.data_process,
        "parallel_strategy": options.parallel_strategy,
        "sync_enable": options.sync_enable,
        "record_shapes": options.shapes,
    }


def known_arguments(options: Options, known_names: Collection[str]) -> dict[str, Any]:
    """Return all arguments under the names that a release knows.

    `known_names` holds the parameters of ``profile`` and ``_ExperimentalConfig``, or of the older ``Profiler``.
    """
    default = Options(level=options.level, activities=options.activities, collector=options.collector)
    usual = {**config_arguments(default), **profile_arguments(default)}
    wanted = {**config_arguments(options), **profile_arguments(options)}
    arguments: dict[str, Any] = {}
    for name, value in wanted.items():
        if name in known_names:
            arguments[name] = value
        elif (older := _OLDER_NAMES.get(name)) is not None and older in known_names:
            arguments[older] = value
        elif value != usual[name] or (name == "mstx" and options.level == "none"):
            option = FRAMEWORK_NAMES[name]
            raise OptionsError(
                f"this release of MindSpore cannot collect {option}: leave it out, or upgrade MindSpore", option
            )
    if "sys_interconnection" not in known_names and "hbm_ddr" in known_names:
        arguments["hbm_ddr"] = options.memory  # in later releases, profile_memory samples the device's memory too
    return arguments


END = ("stop", "finalize", "clear")
"""The calls that end a run."""

_PACKAGE = "mindspore.profiler"
# Warnings that every run of npuprof causes.
_EXPECTED = (
    "Stop profiler while current state is RECORD",
    "won't be using warmup",
    "'mindspore.Profiler' will be deprecated",
)


@dataclass
class LoggedMessages:
    """Messages that MindSpore logged."""

    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def take(self, record: logging.LogRecord) -> bool:
        """Keep a warning or an error; return whether MindSpore should log the record too."""
        if record.levelno < logging.WARNING:
            return True
        message = record.getMessage()
        if not any(expected in message for expected in _EXPECTED):
            (self.errors if record.levelno >= logging.ERROR else self.warnings).append(message)
        return False


@contextmanager
def logged_messages() -> Iterator[LoggedMessages]:
    """Capture the log of MindSpore's Python side in the block."""
    messages = LoggedMessages()
    logger = _logger()
    if logger is None:
        yield messages
        return

    class _Taker(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            return messages.take(record)

    taker = _Taker()
    logger.addFilter(taker)
    try:
        yield messages
    finally:
        logger.removeFilter(taker)


def parameters() -> frozenset[str]:
    """Return the parameter names of this release's profilers; empty if it does not list them."""
    listed = _find(f"{_PACKAGE}.common.profiler_parameters", "ProfilerParameters")
    return frozenset(getattr(listed, "PARAMS", ()))


def interface() -> Any:
    """Return the class that drives all profilers of the process; None if the release has none."""
    return _find(f"{_PACKAGE}.profiler_interface", "ProfilerInterface")


def is_collecting() -> bool:
    """Return whether a profiler of MindSpore is active in this process."""
    return bool(getattr(interface(), "is_initialized", False))


def end_what_is_left(calls: tuple[str, ...] = END) -> list[str]:
    """After a failure, make the remaining calls that end a run; return their failures."""
    failures = []
    driver = interface()
    for call in calls:
        if is_collecting() and hasattr(driver, call):
            try:
                getattr(driver, call)()
            except Exception as error:  # noqa: BLE001 - the remaining calls must run
                failures.append(f"{call}: {error}")
    if is_collecting():
        driver.is_initialized = False
    return failures


def set_schedule(numbers: Mapping[str, int]) -> None:
    """Set the session's schedule in ``profiler_info``, if the release keeps one."""
    make = _find(f"{_PACKAGE}.common.profiler_info", "ProfilerInfo")
    parameters = getattr(make(), "profiler_parameters", None) if make is not None else None
    if isinstance(parameters, dict) and isinstance(schedule := parameters.get("schedule"), dict):
        parameters["schedule"] = {**schedule, **{name: numbers[name] for name in schedule if name in numbers}}


class OutputPaths:
    """The output paths of MindSpore's profilers at the time of creation."""

    def __init__(self) -> None:
        self._kept = [(keeper, name, getattr(keeper, name)) for keeper, name in _places()]

    def clear(self) -> None:
        """Reset the paths, so that an earlier trace handler has no effect."""
        for keeper, name, _ in self._kept:
            setattr(keeper, name, None)

    def restore(self) -> None:
        """Restore the paths for later profilers of the user."""
        for keeper, name, value in self._kept:
            setattr(keeper, name, value)


def _places() -> Iterator[tuple[Any, str]]:
    for module, maker, names in (
        ("common.profiler_context", "ProfilerContext", ("_on_trace_ready_output_path",)),
        ("common.profiler_path_manager", "ProfilerPathManager", ("_worker_name", "_dir_path")),
    ):
        make = _find(f"{_PACKAGE}.{module}", maker)
        keeper = make() if make is not None else None
        yield from ((keeper, name) for name in names if hasattr(keeper, name))


def _logger() -> logging.Logger | None:
    get = _find("mindspore.log", "_get_logger")
    logger = get() if get is not None else None
    return logger if isinstance(logger, logging.Logger) else None


def _find(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except (ImportError, OSError, RuntimeError):
        return None
