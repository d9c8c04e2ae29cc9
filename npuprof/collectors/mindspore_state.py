"""What MindSpore's profiler keeps for the whole process: where it writes, whether it runs, and what it logs.

Its methods catch every exception and log a line, and the directory given to a trace handler stays for all
profilers after it. Nothing of this has a public name, so whatever a release does not have is done without.

Source: collectors/FRONTENDS.md section 1.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

END = ("stop", "finalize", "clear")
"""The calls that end a run."""

_PACKAGE = "mindspore.profiler"
# What it says of every run that is made as ours are.
_EXPECTED = (
    "Stop profiler while current state is RECORD",
    "won't be using warmup",
    "'mindspore.Profiler' will be deprecated",
)


@dataclass
class LoggedMessages:
    """What MindSpore logged during one or more calls."""

    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def take(self, record: logging.LogRecord) -> bool:
        """Take what warns or fails, and tell whether MindSpore should log it as well."""
        if record.levelno < logging.WARNING:
            return True
        message = record.getMessage()
        if not any(expected in message for expected in _EXPECTED):
            (self.errors if record.levelno >= logging.ERROR else self.warnings).append(message)
        return False


@contextmanager
def logged_messages() -> Iterator[LoggedMessages]:
    """Collect what MindSpore's Python side logs in the block, in place of its log."""
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
    """Return the names that this release's profilers take; empty where it does not list them."""
    listed = _find(f"{_PACKAGE}.common.profiler_parameters", "ProfilerParameters")
    return frozenset(getattr(listed, "PARAMS", ()))


def interface() -> Any:
    """Return the class that drives all profilers of the process; None where this release has none."""
    return _find(f"{_PACKAGE}.profiler_interface", "ProfilerInterface")


def is_collecting() -> bool:
    """Return whether a profiler of MindSpore's holds the process already."""
    return bool(getattr(interface(), "is_initialized", False))


def end_what_is_left(calls: tuple[str, ...] = END) -> list[str]:
    """Make the calls that end a run and that were left out because one before them failed; tell what fails."""
    failures = []
    driver = interface()
    for call in calls:
        if is_collecting() and hasattr(driver, call):
            try:
                getattr(driver, call)()
            except Exception as error:  # noqa: BLE001 - the others must run, and it is told
                failures.append(f"{call}: {error}")
    if is_collecting():
        driver.is_initialized = False
    return failures


def set_schedule(numbers: Mapping[str, int]) -> None:
    """Put the session's schedule into what becomes ``profiler_info``, where this release keeps one."""
    make = _find(f"{_PACKAGE}.common.profiler_info", "ProfilerInfo")
    parameters = getattr(make(), "profiler_parameters", None) if make is not None else None
    if isinstance(parameters, dict) and isinstance(own := parameters.get("schedule"), dict):
        parameters["schedule"] = {**own, **{name: numbers[name] for name in own if name in numbers}}


class Place:
    """Where MindSpore's profilers write, as it was when this was made."""

    def __init__(self) -> None:
        self._kept = [(keeper, name, getattr(keeper, name)) for keeper, name in _places()]

    def clear(self) -> None:
        """Make a profiler write where it is told to, whatever an earlier trace handler said."""
        for keeper, name, _ in self._kept:
            setattr(keeper, name, None)

    def restore(self) -> None:
        """Make later profilers of the user write where they would have written without ours."""
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
