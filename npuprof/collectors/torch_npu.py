"""The torch_npu collector: ``torch_npu.profiler.profile`` around the profiled code.

One object records one window; the session decides when. torch_npu writes a ``*_ascend_pt`` directory into the
recording, raw, because npuprof decodes it. Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from npuprof.collectors import capabilities
from npuprof.collectors import torch_npu_adapter as adapter
from npuprof.collectors.other_profilers import STARTS_OF_TORCH, OtherProfilers
from npuprof.collectors.torch_npu_adapter import VendorMessages, vendor_messages
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning, OptionsError
from npuprof.options import DEFAULT_DOMAIN, Options
from npuprof.words.commands import shell_command

# Warnings that every run of npuprof causes.
_EXPECTED = (
    "Stop profiler while current state is RECORD",
    "WARMUP followed by NONE",
    "Experimental config will not be used",
)
_RECORD, _WARMUP = "RECORD", "WARMUP"
_OTHER_PROFILERS = ("PROFILER_SAMPLECONFIG", "PROFILING_MODE")  # if set, nothing is recorded
_PATHS = "torch_npu.profiler._profiler_path_creator"


class TorchNpuCollector:
    """Collects with torch_npu's profiler: CANN, the device, and PyTorch's operators."""

    name = "torch_npu"
    simulated = False
    stops_on_any_thread = False

    def __init__(self) -> None:
        self._torch_npu: ModuleType | None = None
        self._profile: Any = None
        self._action = ""  # the current action of its schedule, by the vendor's name; empty before the start
        self._first_step = 0
        self._marks = False
        self._options = Options()
        self._directory = Path()
        self._ranges: dict[int, tuple[int, str]] = {}  # mstx id and domain of open ranges, by handle
        self._handles = itertools.count(1)
        self._paths: dict[str, Any] = {}  # torch_npu's paths before the run, and during it
        self._own_path: Any = None
        self._others = OtherProfilers(self.stop, "torch or torch_npu")

    def load(self) -> ModuleType:
        """Import torch_npu."""
        try:
            importlib.import_module("torch")
            torch_npu = importlib.import_module("torch_npu")
            importlib.import_module("torch_npu.profiler")
        except (ImportError, OSError, RuntimeError) as error:
            raise FrontEndAbsentError(
                f"torch_npu cannot be imported ({error}): install the version that fits your torch, and the CANN "
                "toolkit, and `source set_env.sh`. Where torch itself fails to import because of torch_npu, "
                "TORCH_DEVICE_BACKEND_AUTOLOAD=0 lets it do without"
            ) from error
        return torch_npu

    def check(self, options: Options) -> None:
        """Raise an error for options that torch_npu does not support or would coerce."""
        capabilities.check(self.name, options)
        adapter.refuse_coerced(options)
        self.load()
        _refuse_what_is_missing(options)
        for variable in _OTHER_PROFILERS:
            if os.environ.get(variable):
                raise CollectorError(
                    f"{variable} is set, as the msprof tool does: torch_npu records nothing then. "
                    f"Run without msprof, or `{shell_command('unset', variable)}` and start the process anew"
                )
        _refuse_second()

    def drives(self, options: Options) -> bool:
        """Return True: the ``cpu`` activity consists of PyTorch's operators."""
        return True

    def records_stacks(self, options: Options) -> bool:
        """Return whether PyTorch's tracer records every Python call."""
        return options.stacks or options.modules

    def warmup(self, options: Options, directory: Path) -> None:
        """Warm up as torch_npu's schedules do; a failure undoes it."""
        self._directory = directory
        self._open(options, directory, _WARMUP)

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting into `directory`; a failure undoes it."""
        if (profile := self._profile) is None:
            self._open(options, directory, _RECORD)
        else:
            self._others.unwatch()
            self._action = _RECORD
            with _vendor_warnings() as messages, ExitStack() as undo:
                undo.callback(self._abandon, messages, directory)
                profile.step_num, self._first_step = self._first_step - 1, 0
                profile.step()
                _raise_errors("torch_npu.profiler.profile.step", messages)
                undo.pop_all()
            self._watch()
        self._marks = options.marks and "npu" in options.activities
        self._options = options

    def _open(self, options: Options, directory: Path, action: str) -> None:
        """Create the vendor's object, and start recording or warming up."""
        self._torch_npu = torch_npu = self.load()
        _refuse_second()
        self._paths, self._action = _creator_state(), action
        with _vendor_warnings() as messages, ExitStack() as undo:
            undo.callback(self._abandon, messages, directory)
            actions = torch_npu.profiler.ProfilerAction
            # With any schedule, torch_npu marks the steps.
            self._profile = _make(torch_npu, options, directory, lambda _: getattr(actions, self._action))
            self._own_path = _creator_state().get("_dir_path")
            self._profile.step_num, self._first_step = self._first_step, 0
            _raise_errors("torch_npu.profiler.profile", messages)
            self._profile.start()
            _raise_errors("torch_npu.profiler.profile.start", messages)
            if not any(directory.glob("*_ascend_pt")):
                raise CollectorError(
                    f"torch_npu.profiler.profile.start made no *_ascend_pt in {directory}, and records nothing: "
                    + ("; ".join(messages.warnings) or "it says nothing of the reason")
                )
            undo.pop_all()
        self._watch()

    def _watch(self) -> None:
        interface = self._profile.prof_if
        starts = (*STARTS_OF_TORCH, (type(interface), "init_trace"))
        self._others.watch(*starts, records=self._action == _RECORD, recorder=interface)

    def stop(self) -> None:
        """Stop collecting, even if single calls fail."""
        self._marks = False
        lack = self._others.unwatch()
        if self._profile is None:
            _raise_lack(lack)
            return
        if self._action == _WARMUP:
            self._end_warmup()
            return
        with _vendor_warnings() as messages, ExitStack() as last_first:
            last_first.callback(self._forget)
            last_first.callback(self._make_remaining_end_calls, messages)
            last_first.callback(self._profile.stop)
            for handle in list(self._ranges):
                last_first.callback(self.range_stop, handle)
        _raise_lack(lack)
        _raise_errors("torch_npu.profiler.profile.stop", messages)

    def take_facts(self, metadata: Mapping[str, Any], schedule: Mapping[str, int]) -> None:
        """Add metadata and schedule to torch_npu's ``profiler_metadata.json`` and ``profiler_info.json``."""
        if self._profile is None:
            return
        self._profile.metadata.update(metadata)
        if schedule:
            self._profile.prof_if.schedule = SimpleNamespace(**schedule)

    def _end_warmup(self) -> None:
        """End a warm-up as the vendor does before a step that records nothing.

        This starts and stops the profiler: otherwise the next run would use the options of this one.
        """
        with _vendor_warnings() as messages, ExitStack() as last_first:
            last_first.callback(self._abandon, messages, self._directory)
            last_first.callback(self._profile.stop)
            self._action = "NONE"
            self._profile.step()

    def _abandon(self, messages: VendorMessages, directory: Path) -> None:
        """End a failed start, and remove the files that it left."""
        try:
            if self._profile is not None:
                count = len(messages.errors)
                self._make_remaining_end_calls(messages)
                del messages.errors[count:]  # errors of calls that had nothing to end
        finally:
            self._forget()
            for left in directory.glob("*_ascend_pt*"):
                shutil.rmtree(left, ignore_errors=True)

    def _make_remaining_end_calls(self, messages: VendorMessages) -> None:
        """After a failure, make the remaining calls that end a run."""
        if not _creator_state().get("is_prof_inited"):
            return
        interface = self._profile.prof_if
        for end in (interface.stop_trace, interface.finalize_trace):
            try:
                end()
            except Exception as error:  # noqa: BLE001 - the other call must run
                messages.errors.append(f"{end.__name__}: {error}")
        _set_creator_state({"is_prof_inited": False})

    def _forget(self) -> None:
        self._ranges.clear()
        if self._profile is not None:
            self._profile.stopped = True  # otherwise its finalizer would stop it again
        self._profile, self._action = None, ""
        if _creator_state().get("_dir_path") == self._own_path:
            _set_creator_state(self._paths)  # a waiting profiler of the user keeps its directory

    def step(self, number: int | None) -> None:
        """End the ``ProfilerStep#``, the iteration of the vendor's tools, and begin the next one."""
        if self._action != _RECORD:
            self._first_step = number or 0
        elif number is not None:
            self._profile.step()
        elif (opened := self._profile.step_rec_fn) is not None:  # as torch_npu's step() does before a stop
            opened.__exit__(None, None, None)
            self._profile.step_rec_fn = None
            if self._torch_npu is not None and (marked := getattr(self._profile, "_step_mstx_range_id", 0)):
                self._torch_npu.npu.mstx.range_end(marked)
                self._profile._step_mstx_range_id = 0

    def mark(self, message: str, domain: str = "", stream: Any = None) -> None:
        """Record a point in time with mstx, also on the device for a stream or its ``npu_stream``."""
        if (npu := self._marker_module(domain)) is not None:
            given = None if stream is None else _stream(npu, stream)
            npu.mstx.mark(message, given, domain or DEFAULT_DOMAIN)

    def range_start(self, message: str, domain: str = "") -> int:
        """Open an mstx range and return its handle; 0 if markers are not collected."""
        if (npu := self._marker_module(domain)) is None:
            return 0
        native = domain or DEFAULT_DOMAIN
        number = npu.mstx.range_start(message, domain=native)
        if not number:
            return 0
        handle = next(self._handles)
        self._ranges[handle] = (number, native)
        return handle

    def _marker_module(self, domain: str) -> Any:
        """Return ``torch_npu.npu`` if markers of a domain are collected, else None.

        torch_npu records points in time of all domains, so the domains are filtered here.
        """
        if not self._marks or self._torch_npu is None or not self._options.takes_domain(domain):
            return None
        return self._torch_npu.npu

    def range_stop(self, handle: int) -> None:
        """Close a range; ignore one that ended with the session."""
        number, domain = self._ranges.pop(handle, (0, ""))
        if number and self._torch_npu is not None:
            self._torch_npu.npu.mstx.range_end(number, domain=domain)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of torch and torch_npu, and the chip."""
        versions: dict[str, str] = {}
        if (torch_npu := self._torch_npu) is not None:
            versions["torch"] = str(importlib.import_module("torch").__version__)
            versions["torch_npu"] = str(torch_npu.__version__)
            with suppress(RuntimeError, AttributeError):
                versions["chip"] = str(torch_npu.npu.get_device_name())
        return versions


def _make(torch_npu: ModuleType, options: Options, directory: Path, schedule: Callable[[int], Any]) -> Any:
    """Create the vendor's object for one window."""
    profiler = torch_npu.profiler
    special = adapter.experimental_arguments(options)
    special["profiler_level"] = getattr(profiler.ProfilerLevel, special["profiler_level"])
    special["aic_metrics"] = getattr(profiler.AiCMetrics, special["aic_metrics"])
    handler = profiler.tensorboard_trace_handler(str(directory), analyse_flag=False)
    if handler is None:  # without a handler it records into the working directory, and deletes the result at the end
        raise CollectorError(
            f"torch_npu does not take {directory} as a directory: choose another with --output, of letters, "
            "digits and underscores and without links"
        )
    try:
        return profiler.profile(
            activities=[getattr(profiler.ProfilerActivity, name.upper()) for name in options.activities],
            schedule=schedule,
            on_trace_ready=handler,
            experimental_config=profiler._ExperimentalConfig(**special),
            **adapter.profile_arguments(options),
        )
    except Exception as error:
        reason = str(error).partition("\n")[0]  # the vendor's error codes follow
        raise CollectorError(
            f"torch_npu.profiler.profile cannot be made ({reason}): check the device with `npu-smi info`, and that "
            "this torch_npu has the option that it names"
        ) from error


def _refuse_what_is_missing(options: Options) -> None:
    """Raise an OptionsError for options that the installed CANN would ignore, or that would break the profiler."""
    if options.record_op_args and not capabilities.can_load(adapter.DUMP_LIBRARY):
        raise OptionsError(
            f"record_op_args needs {adapter.DUMP_LIBRARY} of CANN, which cannot be loaded; without it, torch_npu's "
            "profiler could never be stopped in this process. Check LD_LIBRARY_PATH, or leave record_op_args out",
            "record_op_args",
        )
    needed = {
        "aic_metrics=MemoryAccess": (options.aic_metrics == "MemoryAccess", capabilities.MEMORY_ACCESS),
        "op_attr": (options.op_attr, capabilities.ATTRIBUTES),
    }
    for option, (is_wanted, feature) in needed.items():
        if is_wanted and feature not in capabilities.advertised_features():
            raise OptionsError(
                f"{option} is not offered by this chip and CANN (they do not advertise the feature {feature}), and "
                "torch_npu would leave it out in silence: choose another, or a newer CANN",
                option.partition("=")[0],
            )


def _refuse_second() -> None:
    if _creator_state().get("is_prof_inited"):
        raise CollectorError(
            "a profiler of torch_npu is collecting in this process already, which can have only one: stop it first"
        )
    autograd = sys.modules.get("torch.autograd")  # which "import torch" imports
    if autograd is not None and autograd._profiler_enabled():
        raise CollectorError(
            "a profiler of torch is collecting in this process already, beside which torch_npu's fails: stop it first"
        )


@contextmanager
def _vendor_warnings() -> Iterator[VendorMessages]:
    """Capture torch_npu's output in the block; pass unexpected warnings on as NpuprofWarning."""
    with vendor_messages() as messages:
        yield messages
    for message in messages.warnings:
        if not any(usual in message for usual in _EXPECTED):
            warnings.warn(f"torch_npu: {message}", NpuprofWarning, stacklevel=4)


def _raise_lack(lack: str) -> None:
    if lack:
        raise CollectorError(lack)


def _raise_errors(call: str, messages: VendorMessages) -> None:
    if messages.errors:
        raise CollectorError(f"{call} failed: {'; '.join(dict.fromkeys(messages.errors))}")


def _creator() -> Any:
    """Return torch_npu's singleton that creates result directories; None if this version has no such object."""
    try:
        return importlib.import_module(_PATHS).ProfPathCreator()
    except (ImportError, AttributeError):
        return None


def _creator_state() -> dict[str, Any]:
    return dict(vars(creator)) if (creator := _creator()) is not None else {}


def _set_creator_state(state: Mapping[str, Any]) -> None:
    if (creator := _creator()) is not None:
        for name, value in state.items():
            setattr(creator, name, value)


def _stream(npu: Any, handle: Any) -> Any:
    """Return the stream object of a native handle, as mstx expects."""
    if not isinstance(handle, int):
        return handle
    current = npu.current_stream()
    return current if current.npu_stream == handle else npu.ExternalStream(handle)
