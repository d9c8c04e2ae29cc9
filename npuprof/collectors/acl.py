"""The pyACL collector: ``acl.prof`` around the profiled code, with every return code checked.

The calls are ``init -> create_config -> set_config* -> start`` and ``stop -> destroy_config -> finalize``, in this
order and complete, since CANN versions differ on missing and repeated calls. A warm-up makes the calls before the
start, and ``warmup`` if pyACL has it. Source: collectors/FRONTENDS.md section 3.

Every run calls init itself, although a later stop in the same process can wait for up to two minutes (the session
reports this, and an interrupt ends the wait). A single init for all runs would be faster but not robust: while it is in
force, an init by torch_npu, MindSpore or the user's code is refused, the recordings of all runs are in the directory of
the first run until they are moved, and the recordings of a killed process stay there.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import ModuleType

from npuprof.collectors import acl_codes as codes
from npuprof.collectors import capabilities
from npuprof.errors import CollectorError, FrontEndAbsentError, OptionsError
from npuprof.options import Options
from npuprof.recordings.clock import Clock

_MAX_MESSAGE_BYTES = 126  # a stamp's message field has 127 bytes with the terminating zero

# Older CANN reports a redundant call with a code, newer returns success. Nothing is left running in either case.
_NOTHING_TO_END = frozenset({codes.SUCCESS, 100001, 100037, 100043})


class AclCollector:
    """Collects with pyACL, which is part of the CANN toolkit."""

    name = "acl"
    simulated = False
    stops_on_any_thread = True

    def __init__(self) -> None:
        self._acl: ModuleType | None = None
        self._config = 0
        self._running = False
        self._marks = False
        self._ranges: dict[int, tuple[int, int]] = {}  # stamp and pyACL id of open ranges, by handle
        self._handles = itertools.count(1)  # pyACL's ids may start at 0, which here means "none"

    def load(self) -> ModuleType:
        """Import pyACL."""
        try:
            acl = importlib.import_module("acl")
        except (ImportError, OSError, RuntimeError) as error:
            raise FrontEndAbsentError(
                f"pyACL cannot be imported ({error}): install the CANN toolkit and `source set_env.sh`, "
                "or use the simulated NPU with --collector simulator"
            ) from error
        if not hasattr(acl, "prof"):
            raise FrontEndAbsentError(
                f"the module acl at {getattr(acl, '__file__', '?')} is not pyACL (it has no acl.prof): "
                "remove or rename the package that hides it"
            )
        return acl

    def check(self, options: Options) -> None:
        """Raise an error for options that pyACL does not support."""
        capabilities.check(self.name, options)
        if options.shapes and (options.level in ("none", 0) or not self.drives(options)):
            raise OptionsError(
                "pyACL records the shapes of what the NPU runs, from level 1 on: set level 1 or 2 and add npu to "
                "activities, or leave shapes out",
                "shapes",
            )
        if self.drives(options):
            self.load()

    def drives(self, options: Options) -> bool:
        """Return whether the device is to be profiled."""
        return "npu" in options.activities

    def records_stacks(self, options: Options) -> bool:
        """Return False: pyACL records no Python calls."""
        return False

    def warmup(self, options: Options, directory: Path) -> None:
        """Make the calls that precede the start; a failure undoes them."""
        self._open(options, directory)
        acl = self._load()
        if hasattr(acl.prof, "warmup"):
            with self._ended_on_failure():
                _check("warmup", acl.prof.warmup(self._config))

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting into `directory`; a failure undoes it."""
        if not self._config:
            self._open(options, directory)
        with self._ended_on_failure():
            _check("start", self._load().prof.start(self._config))
        self._running = True
        self._marks = options.marks

    def _open(self, options: Options, directory: Path) -> None:
        self._acl = acl = self.load()
        try:
            _check("init", acl.prof.init(str(directory)))
        except CollectorError:  # initialised by other code: not to be finalized here
            self._acl = None
            raise
        except BaseException:  # an interrupt is raised after the call
            self._end(("finalize",))
            raise
        with self._ended_on_failure():
            self._configure(acl, options)

    @contextmanager
    def _ended_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._end(("destroy_config", "finalize"))
            raise

    def _configure(self, acl: ModuleType, options: Options) -> None:
        devices = list(options.devices) or _devices(acl)
        metric = codes.METRICS[str(options.aic_metrics)]
        mask = data_type_config(options)
        self._config = acl.prof.create_config(devices, metric, 0, mask)
        if not self._config:
            raise CollectorError(
                f"acl.prof.create_config refused devices {devices}, metric {metric}, mask {mask:#x}: "
                "check that the devices exist and are visible (ASCEND_RT_VISIBLE_DEVICES)"
            )
        for kind, value in settings(options).items():
            _check(f"set_config({kind}, {value!r})", acl.prof.set_config(kind, value))

    def stop(self) -> None:
        """Stop collecting and release the handles; every call is made, even after a failure."""
        self._marks = False
        begun = ("stop",) if self._running else ()
        failures = self._end((*begun, "destroy_config", "finalize"))
        if failures:
            raise CollectorError("; ".join(failures))

    def _end(self, calls: tuple[str, ...]) -> list[str]:
        acl, config = self._acl, self._config
        self._acl, self._config, self._running = None, 0, False
        if acl is None:
            return []
        failures: list[str] = []

        def end(call: str) -> None:
            code = acl.prof.finalize() if call == "finalize" else getattr(acl.prof, call)(config)
            if code not in _NOTHING_TO_END:
                failures.append(codes.explain(call, code))

        # Unwound last first, and completely even after an interrupt.
        with ExitStack() as unwinding:
            for call in reversed(calls):
                if config or call == "finalize":
                    unwinding.callback(end, call)
            for stamp, _ in self._ranges.values():
                unwinding.callback(acl.prof.destroy_stamp, stamp)
            self._ranges.clear()
        return failures

    def step(self, number: int | None) -> None:
        """Do nothing: pyACL needs a stream for iterations, and npuprof records them itself."""

    def mark(self, message: str, domain: str = "", stream: int | None = None) -> None:
        """Record a point in time with a stamp, on the device if pyACL accepts the stream."""
        if stream is not None and self._mark_on_stream(message, stream):
            return
        if stamp := self._stamp(message):
            acl = self._load()
            acl.prof.mark(stamp)
            acl.prof.destroy_stamp(stamp)

    def _mark_on_stream(self, message: str, stream: int) -> bool:
        if not self._marks or self._acl is None or not hasattr(self._acl.prof, "mark_ex"):
            return False
        text = _truncate(message)
        # The documented signature, and that of the native function.
        for arguments in ((text, stream), (text, len(text.encode()), stream)):
            with suppress(TypeError):
                return bool(self._acl.prof.mark_ex(*arguments) == codes.SUCCESS)
        return False

    def range_start(self, message: str, domain: str = "") -> int:
        """Open a range and return its handle; 0 if markers are not collected."""
        if not (stamp := self._stamp(message)):
            return 0
        acl = self._load()
        range_id = _range_id(acl.prof.range_start(stamp))
        if range_id is None:
            acl.prof.destroy_stamp(stamp)
            return 0
        handle = next(self._handles)
        self._ranges[handle] = (stamp, range_id)
        return handle

    def range_stop(self, handle: int) -> None:
        """Close a range; ignore one that ended with the session."""
        stamp, range_id = self._ranges.pop(handle, (0, 0))
        if stamp and self._acl is not None:
            self._acl.prof.range_stop(range_id)
            self._acl.prof.destroy_stamp(stamp)

    def _stamp(self, message: str) -> int:
        """Return a new stamp with a message; 0 if stamps cannot be created."""
        if not self._marks or self._acl is None:
            return 0
        stamp = int(self._acl.prof.create_stamp())
        if stamp:
            text = _truncate(message)
            self._acl.prof.set_stamp_trace_message(stamp, text, len(text.encode()))
        return stamp

    def _load(self) -> ModuleType:
        assert self._acl is not None, "loaded before the first call"  # noqa: S101 - narrows the type
        return self._acl

    def versions(self) -> Mapping[str, str]:
        """Return the versions of pyACL and the chip, where pyACL has them."""
        versions = {}
        acl = self._acl
        if acl is not None and hasattr(acl, "get_version"):
            versions["pyacl"] = str(acl.get_version())
        if acl is not None and hasattr(acl, "get_soc_name"):
            versions["chip"] = str(acl.get_soc_name())
        return versions


def data_type_config(options: Options) -> int:
    """Return the ``data_type_config`` mask of ``create_config``."""
    mask = codes.LEVEL_MASKS[options.level]
    mask |= codes.MSPROFTX if options.marks else 0
    mask |= codes.L2CACHE if options.l2 else 0
    mask |= codes.TASK_MEMORY if options.memory else 0
    mask |= codes.HCCL_TRACE if options.hccl else 0
    mask |= codes.AICPU if options.aicpu else 0
    mask |= codes.RUNTIME_API if options.runtime_api else 0
    mask |= codes.TRAINING_TRACE if options.training_trace else 0
    mask |= codes.OP_ATTR if options.op_attr else 0
    return mask | codes.GE_API_MASKS[options.ge_api]


def settings(options: Options) -> dict[int, str]:
    """Return the arguments of the ``set_config`` calls, by kind."""
    wanted = {codes.RATES[name]: str(rate) for name, rate in options.rates.items()}
    if options.storage_limit is not None:
        wanted[codes.STORAGE_LIMIT] = f"{options.storage_limit}MB"
    if options.llc_profiling is not None:
        wanted[codes.LLC_MODE] = options.llc_profiling
    if options.host_sys:
        wanted[codes.HOST_SYS] = ",".join(options.host_sys)
    if options.host_sys_usage:
        wanted[codes.HOST_SYS_USAGE] = ",".join(options.host_sys_usage)
        if options.host_sys_usage_freq is not None:
            wanted[codes.HOST_SYS_USAGE_FREQ] = str(options.host_sys_usage_freq)
    return wanted


def _truncate(message: str) -> str:
    return message.encode()[:_MAX_MESSAGE_BYTES].decode(errors="ignore")


def _check(call: str, code: int) -> None:
    if code != codes.SUCCESS:
        raise CollectorError(codes.explain(call, code))


def _devices(acl: ModuleType) -> list[int]:
    """Return all visible devices: the code may use more than the current one."""
    count, code = acl.rt.get_device_count()
    if code != codes.SUCCESS or not count:
        raise CollectorError(
            f"acl.rt.get_device_count found no device (count {count}, code {code}): "
            "check the driver with `npu-smi info`, and ASCEND_RT_VISIBLE_DEVICES"
        )
    return list(range(count))


def _range_id(returned: int | tuple[int, int]) -> int | None:
    """Return the id that ``range_start`` returned; None if the call failed.

    The vendor documents ``(range_id, code)``. Versions that return the id alone or the code first are recognised by the
    code, which is 0 or documented.
    """
    if not isinstance(returned, tuple):
        return int(returned)
    first, second = returned
    if second == codes.SUCCESS:
        return first
    return None if second in codes.CODES else second


class SimulatorCollector(AclCollector):
    """Collects from the embedded simulated NPU; recordings are labelled as simulated."""

    name = "simulator"
    simulated = True

    def load(self) -> ModuleType:
        """Return the simulated ``acl``."""
        from npuprof.simulator import acl

        return acl

    @property
    def clock(self) -> Clock:
        """The clock of the simulated host, without emulation time."""
        self.load()
        from npuprof import simulator

        return simulator.current().clock

    def start(self, options: Options, directory: Path) -> None:
        """Start collecting, without operators of the simulated framework if only the device is profiled."""
        super().start(options, directory)
        from npuprof import simulator

        recorder = simulator.current().recorder
        if recorder is not None and "cpu" not in options.activities:
            recorder.without_framework()
