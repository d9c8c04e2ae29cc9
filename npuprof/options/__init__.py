"""Options: one validated description of what to collect, the same for every front end.

The rules are those of the unified option table (Source: formats/frontends.md section 6). Where a vendor
silently coerces a wrong combination, :class:`Options` raises instead and names the allowed values. What one
front end has and another lacks is :mod:`npuprof.collectors.capabilities`.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from npuprof.errors import OptionsError
from npuprof.options import values
from npuprof.options.keywords import OptionValues as OptionValues

_Function = TypeVar("_Function", bound=Callable[..., Any])

LEVELS: tuple[str | int, ...] = ("none", 0, 1, 2)
AIC_METRICS: tuple[str, ...] = (
    "PipeUtilization",
    "ArithmeticUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
    "MemoryAccess",
)
ACTIVITIES: tuple[str, ...] = ("cpu", "npu", "gpu")
HOST_SYS: tuple[str, ...] = ("cpu", "mem", "disk", "network", "osrt", "numa")
HOST_SYS_USAGE: tuple[str, ...] = ("cpu", "mem")
LLC: tuple[str, ...] = ("read", "write")
GE_API: tuple[str, ...] = ("off", "l0", "l1")
EXPORT_TYPES: tuple[str, ...] = ("text", "db")
COLLECTORS: tuple[str, ...] = (
    "auto",
    "acl",
    "torch_npu",
    "mindspore",
    "tensorflow",
    "msprof",
    "kineto",
    "simulator",
)

DEFAULT_OUTPUT = Path("npuprof-recordings")
_WORK_PATH = ("ASCEND_WORK_PATH", "profiling_data")  # where the tools of CANN write by default, and what they call it
DEFAULT_DOMAIN = "default"
_SWITCHES = (
    "memory",
    "stacks",
    "shapes",
    "l2",
    "marks",
    "modules",
    "flops",
    "record_op_args",
    "op_attr",
    "sys_io",
    "sys_interconnection",
    "dvpp",
    "hccl",
    "aicpu",
    "runtime_api",
    "training_trace",
    "data_process",
    "parallel_strategy",
    "sync_enable",
    "data_simplification",
)
# Each frequency, what it needs, and its greatest value in Hz.
FREQUENCIES: Mapping[str, tuple[str, int]] = {
    "memory_freq": ("memory", 100),
    "io_freq": ("sys_io", 100),
    "interconnection_freq": ("sys_interconnection", 50),
    "dvpp_freq": ("dvpp", 100),
    "host_sys_usage_freq": ("host_sys_usage", 50),
}
_DOMAINS = ("mstx_domain_include", "mstx_domain_exclude")
# What only the device or CANN can collect.
_DEVICE_ONLY = (
    "memory",
    "l2",
    "aic_metrics",
    "host_sys",
    "host_sys_usage",
    "op_attr",
    "sys_io",
    "sys_interconnection",
    "dvpp",
    "hccl",
    "aicpu",
    "runtime_api",
    "training_trace",
    "llc_profiling",
    "devices",
)


def default_output() -> Path:
    """Return the directory of recordings where none is chosen: that of CANN's tools where the environment sets it."""
    variable, name = _WORK_PATH
    work_path = os.environ.get(variable)
    return Path(work_path).expanduser().absolute() / name if work_path else DEFAULT_OUTPUT


@dataclass(frozen=True)
class Options:
    """What to collect, validated and complete when constructed.

    Parameters
    ----------
    level
        ``"none"`` (markers only), ``0`` (kernel times), ``1`` (adds CANN calls, shapes and AI Core
        metrics) or ``2`` (adds AI CPU and runtime calls).
    aic_metrics
        One of the eight AI Core metric groups, or ``"none"``. Not given, it is ``PipeUtilization`` at
        levels 1 and 2 and ``"none"`` below, where the hardware does not count.
    activities
        ``"cpu"`` (the host: sampled Python stacks, framework operators), ``"npu"`` (the device and CANN),
        ``"gpu"`` (torch's own profiler, where it has a GPU). ``"auto"`` is cpu and npu, or cpu and gpu with the
        collector ``kineto``.
    memory
        Sample the device's memory.
    stacks
        Record the Python call stack of each framework operator. Front ends without framework operators
        have the sampled stacks of the ``cpu`` activity only.
    shapes
        Record the shapes of operators' tensors.
    l2
        Record the L2 cache's hits and victims per task.
    marks
        Record markers and ranges.
    host_sys
        Host samples of this process to take: any of ``cpu, mem, disk, network, osrt, numa``. The machine needs iotop
        for ``disk``, perf and ltrace for ``osrt``, and perf for ``numa``.
    output
        Directory below which each recording gets a directory of its own; ``npuprof-recordings``, or
        ``profiling_data`` in ``ASCEND_WORK_PATH`` where that is set, when not given.
    name
        What to call the run; it becomes part of the directory's name.
    collector
        The front end to use, or ``"auto"``.
    modules, flops
        Record the module hierarchy, and estimate the floating-point operations, of framework operators: the latter are
        the column `flops` of ``operators``, with ``kineto``, and with ``torch_npu`` for what it has a formula for.
    gc_detect_threshold
        Record garbage collections that last at least so many milliseconds.
    record_op_args, op_attr
        Record the arguments of framework operators, and the attributes of CANN's.
    mstx_domain_include, mstx_domain_exclude
        Domains whose markers alone are recorded, or whose markers are not; one of the two.
    llc_profiling
        Which side of the last level cache to sample, ``"read"`` or ``"write"``; goes with ``memory``.
    sys_io, sys_interconnection, dvpp
        Sample NIC and RoCE, the links between chips (HCCS, PCIe), the image units.
    memory_freq, io_freq, interconnection_freq, dvpp_freq, host_sys_usage_freq
        How often, in Hz; the front end's own default when not given.
    host_sys_usage
        Host samples of all processes to take: any of ``cpu, mem``.
    hccl, aicpu, runtime_api
        Record communication, AI CPU and runtime calls below the level that brings them.
    ge_api
        Calls of the graph engine: ``"off"``, ``"l0"`` (dynamic shapes) or ``"l1"`` (all).
    training_trace, fp_point, bp_point
        Record the iteration trace, and the operators at which forward begins and backward ends.
    data_process, parallel_strategy
        Record MindSpore's data pipeline and its parallel strategy.
    sync_enable
        Whether MindSpore's data waits for the device at both ends of an operator.
    storage_limit
        The most that the native collector keeps on disk, in MB, at least 200.
    devices
        Ids of the devices to collect from; all visible ones when empty.
    data_simplification, export_type
        What the vendor's own offline parser keeps and writes, where it is asked to run.
    delay, duration
        Seconds until the msprof tool begins, and that it collects for.

    Raises
    ------
    OptionsError
        If a value is not allowed or two exclude each other; the message lists what is allowed.
    """

    level: str | int = 1
    aic_metrics: str | None = None
    activities: tuple[str, ...] = ("auto",)
    memory: bool = False
    stacks: bool = False
    shapes: bool = False
    l2: bool = False
    marks: bool = True
    host_sys: tuple[str, ...] = ()
    output: Path = field(default_factory=default_output)
    name: str = ""
    collector: str = "auto"
    modules: bool = False
    flops: bool = False
    gc_detect_threshold: float | None = None
    record_op_args: bool = False
    op_attr: bool = False
    mstx_domain_include: tuple[str, ...] = ()
    mstx_domain_exclude: tuple[str, ...] = ()
    llc_profiling: str | None = None
    sys_io: bool = False
    sys_interconnection: bool = False
    dvpp: bool = False
    memory_freq: int | None = None
    io_freq: int | None = None
    interconnection_freq: int | None = None
    dvpp_freq: int | None = None
    host_sys_usage: tuple[str, ...] = ()
    host_sys_usage_freq: int | None = None
    hccl: bool = False
    aicpu: bool = False
    runtime_api: bool = False
    ge_api: str = "off"
    training_trace: bool = False
    fp_point: str = ""
    bp_point: str = ""
    data_process: bool = False
    parallel_strategy: bool = False
    sync_enable: bool = True
    storage_limit: int | None = None
    devices: tuple[int, ...] = ()
    data_simplification: bool = True
    export_type: tuple[str, ...] = ("text",)
    delay: int | None = None
    duration: int | None = None

    def __post_init__(self) -> None:
        for name, value in self._normalized():
            object.__setattr__(self, name, value)  # the dataclass is frozen for everyone else
        if self.aic_metrics is None:
            object.__setattr__(self, "aic_metrics", "PipeUtilization" if self._counts_cores else "none")
        self._check_values()
        self._check_combinations()

    def _normalized(self) -> Iterator[tuple[str, Any]]:
        yield "level", values.level("level", self.level, LEVELS)
        values.one_of("collector", self.collector, COLLECTORS)
        activities = values.subset("activities", self.activities, ("auto", *ACTIVITIES))
        if activities == ("auto",):
            activities = ("cpu", "gpu") if self.collector == "kineto" else ("cpu", "npu")
        yield "activities", values.subset("activities", activities, ACTIVITIES)
        yield "host_sys", values.subset("host_sys", self.host_sys, HOST_SYS)
        yield "host_sys_usage", values.subset("host_sys_usage", self.host_sys_usage, HOST_SYS_USAGE)
        yield "export_type", values.subset("export_type", self.export_type, EXPORT_TYPES)
        yield "mstx_domain_include", values.words("mstx_domain_include", self.mstx_domain_include)
        yield "mstx_domain_exclude", values.words("mstx_domain_exclude", self.mstx_domain_exclude)
        yield "devices", values.device_ids("devices", self.devices)
        yield "output", values.path("output", self.output)
        yield "name", values.name("name", self.name)

    @property
    def _counts_cores(self) -> bool:
        return self.level in (1, 2) and "npu" in self.activities

    def _check_values(self) -> None:
        for switch in _SWITCHES:
            values.flag(switch, getattr(self, switch))
        values.metrics("aic_metrics", self.aic_metrics, (*AIC_METRICS, "none"))
        values.one_of("ge_api", self.ge_api, GE_API)
        values.one_of("llc_profiling", self.llc_profiling, (*LLC, None))
        for option, (_, most) in FREQUENCIES.items():
            values.whole_number(option, getattr(self, option), 1, most, "Hz")
        values.whole_number("storage_limit", self.storage_limit, 200, 4294967295, "MB")
        values.whole_number("delay", self.delay, 1, 4294967295, "seconds")
        values.whole_number("duration", self.duration, 1, 4294967295, "seconds")
        values.at_least_zero("gc_detect_threshold", self.gc_detect_threshold)
        for option in ("fp_point", "bp_point"):
            values.operator_name(option, getattr(self, option))

    def _check_combinations(self) -> None:
        if not self.activities:
            raise OptionsError(f"activities is empty: choose at least one of {values.listed(ACTIVITIES)}", "activities")
        if self.aic_metrics != "none" and self.level not in (1, 2):
            raise OptionsError(
                f"aic_metrics={self.aic_metrics} needs level 1 or 2, not {self.level}: "
                "raise the level, or set aic_metrics to none",
                "aic_metrics",
            )
        if self.level == "none" and not self.marks:
            raise OptionsError(
                "level none records markers only, so it needs marks: turn marks on, or set level 0, 1 or 2",
                "level",
            )
        if "npu" not in self.activities:
            if self.level == 2 and self.collector != "kineto":  # which has no levels at all, and says so
                raise OptionsError(
                    "level 2 adds AI CPU and runtime calls of the device: add npu to activities, or set level 1",
                    "level",
                )
            for option in _DEVICE_ONLY:
                # Torch's own profiler samples its allocators without an NPU.
                allowed = option == "memory" and self.collector == "kineto"
                if getattr(self, option) not in (False, "none", (), None) and not allowed:
                    raise OptionsError(
                        f"{option} is collected by the device: add npu to activities, or leave {option} out",
                        option,
                    )
        for option in ("stacks", "modules", "flops", "record_op_args"):
            if "cpu" not in self.activities and getattr(self, option):
                raise OptionsError(
                    f"{option} is recorded on the host: add cpu to activities, or leave {option} out", option
                )
        if self.l2 and self.level == "none":
            raise OptionsError("l2 needs tasks to count for: set level 0, 1 or 2, or leave l2 out", "l2")
        for option, (needed, _) in FREQUENCIES.items():
            if getattr(self, option) is not None and not getattr(self, needed):
                raise OptionsError(
                    f"{option} says how often to sample {needed}: add {needed}, or leave {option} out", option
                )
        if self.llc_profiling is not None and not self.memory:
            raise OptionsError(
                "llc_profiling is sampled with the memory: add memory, or leave llc_profiling out", "llc_profiling"
            )
        if self.mstx_domain_include and self.mstx_domain_exclude:
            raise OptionsError(
                "mstx_domain_include and mstx_domain_exclude exclude each other: give one of them",
                "mstx_domain_exclude",
            )
        if (self.mstx_domain_include or self.mstx_domain_exclude) and not self.marks:
            raise OptionsError("domains choose among markers: turn marks on, or leave the domains out", *_DOMAINS)

    def takes_domain(self, domain: str) -> bool:
        """Tell whether markers of a domain are to be recorded; those without one belong to ``default``."""
        domain = domain or DEFAULT_DOMAIN
        included = not self.mstx_domain_include or domain in self.mstx_domain_include
        return self.marks and included and domain not in self.mstx_domain_exclude

    def to_dict(self) -> dict[str, Any]:
        """Give a form that JSON can hold."""
        plain = asdict(self)
        plain["output"] = str(self.output)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    def to_json(self) -> str:
        """Give the JSON form, as :meth:`from_json` and the environment take it."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Options:
        """Build from names and values.

        Raises
        ------
        OptionsError
            If a name is not an option, or as the class says.
        """
        known = {one.name for one in fields(cls)}
        if unknown := sorted(set(plain) - known):
            raise OptionsError(
                f"unknown option {values.listed(unknown)}: the options are {values.listed(sorted(known))}"
            )
        return cls(**plain)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Build from a JSON object.

        Raises
        ------
        OptionsError
            If it is not a JSON object, or as :meth:`from_dict` says.
        """
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OptionsError(f"the options are not valid JSON ({error})") from error
        if not isinstance(plain, dict):
            raise OptionsError(f"the options must be a JSON object, not {type(plain).__name__}")
        return cls.from_dict(plain)


def shows_options(function: _Function) -> _Function:
    """Return a function of ``**options`` with each option in its signature, with its types and its default.

    A type checker reads ``**options: Unpack[OptionValues]``; Shift-Tab and ``help`` read this.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=OptionValues.__annotations__[name])
        for name, one in inspect.signature(Options).parameters.items()
        if name not in signature.parameters
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function
