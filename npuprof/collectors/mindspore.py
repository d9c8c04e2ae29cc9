"""The MindSpore collector: ``mindspore.profiler.profile`` around the profiled code, or the older ``Profiler``.

One object records one window; the session decides when. MindSpore writes a ``*_ascend_ms`` directory into the
recording, raw, because npuprof decodes it. Without an NPU, MindSpore records its CPU operators.
Source: collectors/FRONTENDS.md section 1.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from npuprof.collectors import capabilities
from npuprof.collectors import mindspore_adapter as adapter
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning
from npuprof.options import Options
from npuprof.words.commands import shell_command

ENVIRONMENT = "MS_PROFILER_OPTIONS"
_OTHER_PROFILERS = ("PROFILER_SAMPLECONFIG", "PROFILING_MODE")  # if set, nothing of the NPU is recorded
_NPU = "Ascend"
_MANY_STEPS = 2**31 - 1  # its schedule must not end: the session's schedule decides
_ENUMS = {
    "profiler_level": "ProfilerLevel",
    "aic_metrics": "AicoreMetrics",
    "aicore_metrics": "AicoreMetrics",
    "activities": "ProfilerActivity",
    "export_type": "ExportType",
    "host_sys": "HostSystem",
}


class MindSporeCollector:
    """Collects with MindSpore's profiler: CANN, the device, and MindSpore's operators."""

    name = "mindspore"
    simulated = False
    stops_on_any_thread = False

    def __init__(self) -> None:
        self._mindspore: ModuleType | None = None
        self._profile: Any = None
        self._place: adapter.OutputPaths | None = None
        self._directory = Path()
        self._records = False
        self._has_steps = False
        self._first_step = 0
        self._marks: Any = None  # MindSpore's mstx, while markers are collected
        self._lacks_marks = False  # although markers were requested
        self._has_domains = False
        self._warned: set[str] = set()
        self._ranges: dict[int, tuple[int, str]] = {}  # mstx id and domain of open ranges, by handle
        self._handles = itertools.count(1)

    def load(self) -> ModuleType:
        """Import MindSpore."""
        try:
            mindspore = importlib.import_module("mindspore")
            profiler = importlib.import_module("mindspore.profiler")
        except (ImportError, OSError, RuntimeError) as error:
            raise FrontEndAbsentError(
                f"MindSpore cannot be imported ({error}): install the version that fits your CANN toolkit "
                "(pip install mindspore), and `source set_env.sh`"
            ) from error
        if not hasattr(profiler, "profile") and not hasattr(profiler, "Profiler"):
            raise FrontEndAbsentError(
                f"the module mindspore at {getattr(mindspore, '__file__', '?')} has no profiler: "
                "it is too old, or another package of that name hides MindSpore"
            )
        return mindspore

    def check(self, options: Options) -> None:
        """Raise an error for options that MindSpore does not support or would coerce."""
        capabilities.check(self.name, options)
        adapter.refuse_coerced(options)
        self._mindspore = mindspore = self.load()
        adapter.known_arguments(options, _release_parameters(mindspore.profiler))
        for variable in _OTHER_PROFILERS:
            if os.environ.get(variable) and "npu" in options.activities:
                raise CollectorError(
                    f"{variable} is set, as the msprof tool does: MindSpore records nothing of the NPU then. "
                    f"Run without msprof, or `{shell_command('unset', variable)}` and start the process anew"
                )
        if adapter.is_collecting():
            begun = f", begun by {ENVIRONMENT} when MindSpore was imported" if os.environ.get(ENVIRONMENT) else ""
            remedy = f"unset {ENVIRONMENT} and start the process anew" if begun else "stop it first"
            raise CollectorError(
                f"a profiler of MindSpore is collecting in this process already{begun}; it can have only one: {remedy}"
            )

    def drives(self, options: Options) -> bool:
        """Return True: the ``cpu`` activity consists of MindSpore's operators."""
        return True

    def records_stacks(self, options: Options) -> bool:
        """Return whether MindSpore records Python calls itself, which it does only on an NPU."""
        return options.stacks and self._device_target() == _NPU

    def warmup(self, options: Options, directory: Path) -> None:
        """Create the vendor's object and warm it up if its schedules can; a failure undoes it."""
        with _vendor_warnings() as messages, ExitStack() as undo:
            undo.callback(self._abandon, directory)
            profile = self._open(options, directory, messages, warm=True)
            if self._has_steps:
                profile.start()
                _raise_errors("mindspore.profiler.profile.start", messages)
            undo.pop_all()

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting into `directory`; a failure undoes it."""
        with _vendor_warnings() as messages, ExitStack() as undo:
            undo.callback(self._abandon, directory)
            if (profile := self._profile) is not None and self._has_steps:
                profile.step_num = self._first_step - 1
                profile.step()
            else:
                profile = profile or self._open(options, directory, messages)
                profile.step_num = self._first_step
                profile.start()
            self._first_step = 0
            _raise_errors("mindspore.profiler.profile.start", messages)
            if not any(directory.glob("*_ascend_ms")) and not (directory / "profiler").is_dir():
                raise CollectorError(
                    f"mindspore.profiler.profile.start made no *_ascend_ms in {directory}, and records nothing: "
                    + ("; ".join(messages.warnings) or "it says nothing of the reason")
                )
            undo.pop_all()
        self._records = True
        if options.marks and "npu" in options.activities:
            self._take_marks(self.load().profiler)
        self._warn_without_device(options)

    def _open(self, options: Options, directory: Path, messages: adapter.LoggedMessages, *, warm: bool = False) -> Any:
        """Create the vendor's object."""
        self._mindspore, self._directory = (mindspore := self.load()), directory
        self._warned.clear()
        self._place = adapter.OutputPaths()
        self._place.clear()
        self._has_steps = hasattr(mindspore.profiler, "profile") and not options.data_process
        self._profile = _make(mindspore.profiler, options, directory, {"warmup": 1} if warm else {})
        _raise_errors("mindspore.profiler.profile", messages)
        return self._profile

    def _take_marks(self, profiler: ModuleType) -> None:
        self._marks = getattr(profiler, "mstx", None)
        self._lacks_marks = self._marks is None
        self._has_domains = self._marks is not None and "domain" in _parameters(self._marks.mark)

    def _warn_without_device(self, options: Options) -> None:
        target = self._device_target()
        if "npu" in options.activities and target != _NPU:
            _warn(
                f"MindSpore's device is {target or 'unknown'}, not {_NPU}: its operators are recorded, and nothing of "
                f"an NPU, markers included. Set the device before, or ask for the activities cpu alone"
            )

    def _device_target(self) -> str:
        get = getattr(self._mindspore, "get_context", None)
        try:
            return str(get("device_target")) if get is not None else ""
        except (ValueError, RuntimeError):  # the chosen backend is missing
            return ""

    def take_facts(self, metadata: Mapping[str, Any], schedule: Mapping[str, int]) -> None:
        """Add metadata and schedule to MindSpore's ``profiler_metadata.json`` and, on an NPU, to ``profiler_info``."""
        if self._profile is None:
            return
        if hasattr(self._profile, "add_metadata_json"):
            with _vendor_warnings():
                for key, value in metadata.items():
                    self._profile.add_metadata_json(key, json.dumps(value))
        if schedule and self._device_target() == _NPU:
            adapter.set_schedule(schedule)

    def stop(self) -> None:
        """Stop collecting, even if single calls fail."""
        if self._profile is None:
            return
        if not self._records:  # only warmed up
            with _vendor_warnings():
                self._abandon(self._directory, ("finalize", "clear"))
            return
        left_names: list[str] = []
        with _vendor_warnings() as messages, ExitStack() as last_first:
            last_first.callback(self._forget)
            last_first.callback(lambda: left_names.extend(adapter.end_what_is_left()))
            last_first.callback(_end, self._profile)
            last_first.callback(self._end_marks)
        _raise_errors("mindspore.profiler.profile.stop", messages, left_names)

    def _end_marks(self) -> None:
        marks, self._marks, self._lacks_marks = self._marks, None, False
        for number, domain in self._ranges.values():
            marks.range_end(number, **self._domain(domain))
        self._ranges.clear()

    def _abandon(self, directory: Path, calls: tuple[str, ...] = adapter.END) -> None:
        """End a failed start or an unused warm-up, and remove its files."""
        try:
            if self._profile is not None:
                adapter.end_what_is_left(calls)
        finally:
            self._forget()
            for left in directory.glob("*_ascend_ms*"):
                shutil.rmtree(left, ignore_errors=True)

    def _forget(self) -> None:
        self._ranges.clear()
        if self._profile is not None:
            self._profile._has_started = False  # otherwise its finalizer would stop it again
        self._profile, self._records = None, False
        if self._place is not None:
            self._place.restore()
        self._place = None

    def step(self, number: int | None) -> None:
        """End the ``ProfilerStep#``, the iteration of the vendor's tools, and begin the next one."""
        if not self._records:
            self._first_step = number or 0
        elif self._has_steps:
            with _vendor_warnings():
                if number is not None:
                    self._profile.step()
                elif (opened := getattr(self._profile, "_step_rec_fn", None)) is not None:
                    opened.stop()  # as MindSpore's step() does before a stop
                    self._profile._step_rec_fn = None

    def mark(self, message: str, domain: str = "", stream: Any = None) -> None:
        """Record a point in time with mstx, also on the device for a ``mindspore.runtime.Stream``."""
        if not self._can_mark():
            return
        if isinstance(stream, int):
            self._warn_once(
                "MindSpore marks on a stream only where it is given as mindspore.runtime.Stream, not by its handle: "
                "the moment is marked on the host"
            )
            stream = None
        self._marks.mark(message, stream, **self._domain(domain))

    def range_start(self, message: str, domain: str = "") -> int:
        """Open an mstx range and return its handle; 0 if markers are not collected."""
        if not self._can_mark():
            return 0
        number = self._marks.range_start(message, **self._domain(domain))
        if not number:
            return 0
        handle = next(self._handles)
        self._ranges[handle] = (number, domain)
        return handle

    def range_stop(self, handle: int) -> None:
        """Close a range; ignore one that ended with the session."""
        number, domain = self._ranges.pop(handle, (0, ""))
        if number and self._marks is not None:
            self._marks.range_end(number, **self._domain(domain))

    def _can_mark(self) -> bool:
        if self._lacks_marks:
            self._warn_once("this release of MindSpore has no markers: npuprof.mark and npuprof.range record nothing")
        return self._marks is not None

    def _domain(self, domain: str) -> dict[str, str]:
        if not domain:
            return {}
        if not self._has_domains:
            self._warn_once("the markers of this release of MindSpore have no domains: they are marked without")
            return {}
        return {"domain": domain}

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _warn(message)

    def versions(self) -> Mapping[str, str]:
        """Return MindSpore's version and its device target."""
        if self._mindspore is None:
            return {}
        return {"mindspore": str(self._mindspore.__version__), "mindspore_device": self._device_target()}


def _make(profiler: ModuleType, options: Options, directory: Path, warmup: Mapping[str, int]) -> Any:
    """Create the vendor's object for one window, not started."""
    arguments = _members(profiler, adapter.known_arguments(options, _release_parameters(profiler)))
    try:
        if not hasattr(profiler, "profile"):
            return profiler.Profiler(start_profile=False, output_path=str(directory), **arguments)
        handler = profiler.tensorboard_trace_handler(str(directory), analyse_flag=False)
        if handler is not None:
            return _make_profile(profiler, options, arguments, handler, warmup)
    except Exception as error:
        raise CollectorError(
            f"MindSpore's profiler cannot be made ({error}): check the device with `npu-smi info`, that CANN "
            "fits this MindSpore, and that this MindSpore has the option that it names"
        ) from error
    # Without a handler, MindSpore would record into ./data.
    raise CollectorError(
        f"MindSpore does not take {directory} as a directory: choose another with --output, of letters, "
        "digits, hyphens and underscores and without links"
    )


def _make_profile(
    profiler: ModuleType, options: Options, arguments: dict[str, Any], handler: Any, warmup: Mapping[str, int]
) -> Any:
    # With a schedule, it marks steps and drops data_process.
    schedule = None if options.data_process else profiler.schedule(wait=0, active=_MANY_STEPS, **warmup)
    in_config = _parameters(profiler._ExperimentalConfig) & arguments.keys()
    config = profiler._ExperimentalConfig(**{name: arguments.pop(name) for name in in_config})
    return profiler.profile(
        start_profile=False, schedule=schedule, on_trace_ready=handler, experimental_config=config, **arguments
    )


def _release_parameters(profiler: ModuleType) -> frozenset[str]:
    """Return the parameters of this release's profiler."""
    if hasattr(profiler, "profile"):
        return _parameters(profiler.profile) | _parameters(profiler._ExperimentalConfig)
    return adapter.parameters() or adapter.DOCUMENTED


def _parameters(kind: Any) -> frozenset[str]:
    return frozenset(inspect.signature(kind).parameters)


def _members(profiler: ModuleType, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replace names by the members of MindSpore's enums."""
    given = dict(arguments)
    for name in _ENUMS.keys() & given.keys():
        members = getattr(profiler, _ENUMS[name], None)
        names = given[name]
        try:
            given[name] = [members[item] for item in names] if isinstance(names, list) else members[names]  # type: ignore[index]
        except (KeyError, TypeError) as error:
            raise CollectorError(
                f"this release of MindSpore has no {_ENUMS[name]}.{error.args[0] if error.args else names}: "
                "leave it out, or upgrade MindSpore"
            ) from error
    return given


def _end(profile: Any) -> None:
    """Stop, and release what the older ``Profiler`` keeps until its analysis."""
    profile.stop()
    if not hasattr(profile, "analyse"):
        return
    if adapter.interface() is None:
        profile.analyse()  # the only call of these releases that ends a run
    else:
        adapter.end_what_is_left(("finalize", "clear"))


@contextmanager
def _vendor_warnings() -> Iterator[adapter.LoggedMessages]:
    """Capture MindSpore's log in the block; pass unexpected warnings on as NpuprofWarning."""
    with adapter.logged_messages() as messages:
        yield messages
    for message in messages.warnings:
        _warn(f"MindSpore: {message}")


def _raise_errors(call: str, messages: adapter.LoggedMessages, more: list[str] | None = None) -> None:
    if errors := [*messages.errors, *(more or ())]:
        raise CollectorError(f"{call} failed: {'; '.join(dict.fromkeys(errors))}")


def _warn(message: str) -> None:
    warnings.warn(message, NpuprofWarning, stacklevel=4)
