"""The torch_npu collector: ``torch_npu.profiler.profile`` around the profiled code.

One object records one window; when to record is the session's affair. The ``*_ascend_pt`` directory that torch_npu
writes lies in the recording, raw, because npuprof decodes it. Source: collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from npuprof.collectors import cann_features, capabilities
from npuprof.collectors import torch_npu_settings as settings
from npuprof.collectors.vendor_messages import VendorMessages, vendor_messages
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning, OptionsError
from npuprof.options import DEFAULT_DOMAIN, Options

# What it says of every run that is made as ours are.
_EXPECTED = (
    "Stop profiler while current state is RECORD",
    "WARMUP followed by NONE",
    "Experimental config will not be used",
)
_RECORD, _WARMUP = "RECORD", "WARMUP"
_OTHER_PROFILERS = ("PROFILER_SAMPLECONFIG", "PROFILING_MODE")  # with either of these, it records nothing
_PATHS = "torch_npu.profiler._profiler_path_creator"


class TorchNpuCollector:
    """Collects with the profiler of torch_npu: CANN and the device, and the operators of PyTorch."""

    name = "torch_npu"
    simulated = False
    stops_on_any_thread = False

    def __init__(self) -> None:
        self._torch_npu: ModuleType | None = None
        self._profile: Any = None
        self._action = ""  # what its schedule says, by the vendor's name; empty while nothing has begun
        self._first_step = 0
        self._marks = False
        self._options = Options()
        self._directory = Path()
        self._ranges: dict[int, tuple[int, str]] = {}  # open ranges: the id of mstx and its domain, by our handle
        self._handles = itertools.count(1)
        self._paths: dict[str, Any] = {}  # where torch_npu wrote before, and where it does now
        self._own_path: Any = None

    def load(self) -> ModuleType:
        """Import torch_npu.

        Raises
        ------
        FrontEndAbsentError
            If it is not installed, or fails while it is imported, as it does without CANN.
        """
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
        """Refuse what torch_npu cannot do or would coerce; see :class:`npuprof.collectors.base.Collector`."""
        capabilities.check(self.name, options)
        settings.refuse_coerced(options)
        self.load()
        _refuse_what_is_missing(options)
        for variable in _OTHER_PROFILERS:
            if os.environ.get(variable):
                raise CollectorError(
                    f"{variable} is set, as the msprof tool does: torch_npu records nothing then. "
                    f"Run without msprof, or `unset {variable}` and start the process anew"
                )
        if _creator_state().get("is_prof_inited"):
            raise CollectorError(
                "a profiler of torch_npu is collecting in this process already, which can have only one: stop it first"
            )

    def drives(self, options: Options) -> bool:
        """Return that torch_npu is always asked: the ``cpu`` activity is PyTorch's operators."""
        return True

    def records_stacks(self, options: Options) -> bool:
        """Return whether PyTorch's own tracer records every Python call."""
        return options.stacks or options.modules

    def warmup(self, options: Options, directory: Path) -> None:
        """Warm up as torch_npu's own schedules do; on a failure everything begun is ended again."""
        self._directory = directory
        self._open(options, directory, _WARMUP)

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting into `directory`; on a failure everything begun is ended again."""
        if (profile := self._profile) is None:
            self._open(options, directory, _RECORD)
        else:
            self._action = _RECORD
            with _passed_on() as messages, ExitStack() as undo:
                undo.callback(self._abandon, messages, directory)
                profile.step_num, self._first_step = self._first_step - 1, 0
                profile.step()
                _raise_errors("torch_npu.profiler.profile.step", messages)
                undo.pop_all()
        self._marks = options.marks and "npu" in options.activities
        self._options = options

    def _open(self, options: Options, directory: Path, action: str) -> None:
        """Make the vendor's object, and begin to record or to warm up."""
        self._torch_npu = torch_npu = self.load()
        self._paths, self._action = _creator_state(), action
        with _passed_on() as messages, ExitStack() as undo:
            undo.callback(self._abandon, messages, directory)
            actions = torch_npu.profiler.ProfilerAction
            # With any schedule at all, it marks the steps.
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

    def stop(self) -> None:
        """Stop collecting, whatever single calls come to."""
        self._marks = False
        if self._profile is None:
            return
        if self._action == _WARMUP:
            self._end_warmup()
            return
        with _passed_on() as messages, ExitStack() as last_first:
            last_first.callback(self._forget)
            last_first.callback(self._end_what_is_left, messages)
            last_first.callback(self._profile.stop)
            for handle in list(self._ranges):
                last_first.callback(self.range_stop, handle)
        _raise_errors("torch_npu.profiler.profile.stop", messages)

    def take_facts(self, metadata: Mapping[str, Any], schedule: Mapping[str, int]) -> None:
        """Put them where torch_npu takes its ``profiler_metadata.json`` and ``profiler_info.json`` from."""
        if self._profile is None:
            return
        self._profile.metadata.update(metadata)
        if schedule:
            self._profile.prof_if.schedule = SimpleNamespace(**schedule)

    def _end_warmup(self) -> None:
        """End a warm-up as the vendor does where a step that records nothing follows.

        It starts and stops for that: after a mere end, the next run would have the options of this one.
        """
        with _passed_on() as messages, ExitStack() as last_first:
            last_first.callback(self._abandon, messages, self._directory)
            last_first.callback(self._profile.stop)
            self._action = "NONE"
            self._profile.step()

    def _abandon(self, messages: VendorMessages, directory: Path) -> None:
        """End what a start that failed may have begun, and remove the files without data that it left."""
        try:
            if self._profile is not None:
                said = len(messages.errors)
                self._end_what_is_left(messages)
                del messages.errors[said:]  # of ending what had not begun
        finally:
            self._forget()
            for left in directory.glob("*_ascend_pt*"):
                shutil.rmtree(left, ignore_errors=True)

    def _end_what_is_left(self, messages: VendorMessages) -> None:
        """Make the calls that end a run and that torch_npu left out because one before them failed."""
        if not _creator_state().get("is_prof_inited"):
            return
        interface = self._profile.prof_if
        for end in (interface.stop_trace, interface.finalize_trace):
            try:
                end()
            except Exception as error:  # noqa: BLE001 - the other must run, and it is told
                messages.errors.append(f"{end.__name__}: {error}")
        _set_creator_state({"is_prof_inited": False})

    def _forget(self) -> None:
        self._ranges.clear()
        if self._profile is not None:
            self._profile.stopped = True  # or it would stop once more when it is forgotten
        self._profile, self._action = None, ""
        if _creator_state().get("_dir_path") == self._own_path:
            _set_creator_state(self._paths)  # a profiler of the user's, which waits for its step, keeps its directory

    def step(self, number: int) -> None:
        """Begin the next ``ProfilerStep#``, by which the vendor's tools know iterations."""
        if self._action != _RECORD:
            self._first_step = number
        else:
            self._profile.step()

    def mark(self, message: str, domain: str = "", stream: Any = None) -> None:
        """Record a moment with mstx, on the device too where a stream or its ``npu_stream`` is given."""
        if (npu := self._marked(domain)) is not None:
            given = None if stream is None else _stream(npu, stream)
            npu.mstx.mark(message, given, domain or DEFAULT_DOMAIN)

    def range_start(self, message: str, domain: str = "") -> int:
        """Open a range of mstx and give its handle, or 0 when markers are not collected."""
        if (npu := self._marked(domain)) is None:
            return 0
        native = domain or DEFAULT_DOMAIN
        number = npu.mstx.range_start(message, domain=native)
        if not number:
            return 0
        handle = next(self._handles)
        self._ranges[handle] = (number, native)
        return handle

    def _marked(self, domain: str) -> Any:
        """Return ``torch_npu.npu`` where markers of a domain are collected; else None.

        Torch_npu hands moments on whatever their domain is, so domains are chosen here.
        """
        if not self._marks or self._torch_npu is None or not self._options.takes_domain(domain):
            return None
        return self._torch_npu.npu

    def range_stop(self, handle: int) -> None:
        """Close a range; one that ended with the session is ignored."""
        number, domain = self._ranges.pop(handle, (0, ""))
        if number and self._torch_npu is not None:
            self._torch_npu.npu.mstx.range_end(number, domain=domain)

    def versions(self) -> Mapping[str, str]:
        """Return the versions of torch and torch_npu, and the chip."""
        found: dict[str, str] = {}
        if (torch_npu := self._torch_npu) is not None:
            found["torch"] = str(importlib.import_module("torch").__version__)
            found["torch_npu"] = str(torch_npu.__version__)
            with suppress(RuntimeError, AttributeError):
                found["chip"] = str(torch_npu.npu.get_device_name())
        return found


def _make(torch_npu: ModuleType, options: Options, directory: Path, schedule: Callable[[int], Any]) -> Any:
    """Make the vendor's object for one window."""
    profiler = torch_npu.profiler
    special = settings.experimental_arguments(options)
    special["profiler_level"] = getattr(profiler.ProfilerLevel, special["profiler_level"])
    special["aic_metrics"] = getattr(profiler.AiCMetrics, special["aic_metrics"])
    handler = profiler.tensorboard_trace_handler(str(directory), analyse_flag=False)
    if handler is None:  # without one it would record into the working directory, and delete that at the end
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
            **settings.profile_arguments(options),
        )
    except Exception as error:
        reason = str(error).partition("\n")[0]  # the vendor's error codes follow
        raise CollectorError(
            f"torch_npu.profiler.profile cannot be made ({reason}): check the device with `npu-smi info`, and that "
            "this torch_npu has the option that it names"
        ) from error


def _refuse_what_is_missing(options: Options) -> None:
    """Refuse what the installed CANN would leave out, or what would break the profiler for good."""
    if options.record_op_args and not cann_features.can_load(settings.DUMP_LIBRARY):
        raise OptionsError(
            f"record_op_args needs {settings.DUMP_LIBRARY} of CANN, which is not found; torch_npu's profiler could "
            "not be stopped any more in this process. Check LD_LIBRARY_PATH, or leave record_op_args out",
            "record_op_args",
        )
    needed = {
        "aic_metrics=MemoryAccess": (options.aic_metrics == "MemoryAccess", cann_features.MEMORY_ACCESS),
        "op_attr": (options.op_attr, cann_features.ATTRIBUTES),
    }
    for option, (wanted, feature) in needed.items():
        if wanted and feature not in cann_features.advertised():
            raise OptionsError(
                f"{option} is not offered by this chip and CANN (they do not advertise the feature {feature}), and "
                "torch_npu would leave it out in silence: choose another, or a newer CANN",
                option.partition("=")[0],
            )


@contextmanager
def _passed_on() -> Iterator[VendorMessages]:
    """Take what torch_npu says in the block; what it warns of beyond what is usual is told as a warning."""
    with vendor_messages() as messages:
        yield messages
    for message in messages.warnings:
        if not any(usual in message for usual in _EXPECTED):
            warnings.warn(f"torch_npu: {message}", NpuprofWarning, stacklevel=4)


def _raise_errors(call: str, messages: VendorMessages) -> None:
    if messages.errors:
        raise CollectorError(f"{call} failed: {'; '.join(dict.fromkeys(messages.errors))}")


def _creator() -> Any:
    """Return the process's only maker of result directories; None where this version has none."""
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
    """Return the stream object of a native handle, which is what mstx takes."""
    if not isinstance(handle, int):
        return handle
    current = npu.current_stream()
    return current if current.npu_stream == handle else npu.ExternalStream(handle)
