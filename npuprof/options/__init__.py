"""Options: one validated description of what to collect, the same for every front end.

Each field of :class:`Options` is the specification of one option (:class:`npuprof.options.specification.Option`). From
it come the checks, the arguments of the magics and of the command line, the panel's controls, the types of
``**options``, the reference ``notebooks/reference/options.md`` and the check of each front end before it starts. Only a
collector knows how to pass an option to its front end. After a change, run ``python -m npuprof.options``.

Where a vendor silently coerces a wrong combination, :class:`Options` raises instead and names the allowed values.
Source: collectors/FRONTENDS.md section 6.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from npuprof.errors import OptionsError
from npuprof.options import values
from npuprof.options.keywords import OptionValues as OptionValues
from npuprof.options.specification import FRONT_ENDS, Option, because, but, choice, other, several, switch, whole_number
from npuprof.words.texts import did_you_mean

_Function = TypeVar("_Function", bound=Callable[..., Any])

LEVELS: tuple[str | int, ...] = ("none", 0, 1, 2)
AIC_METRICS: tuple[str, ...] = (
    *("PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio"),
    *("L2Cache", "MemoryAccess"),
)
ACTIVITIES: tuple[str, ...] = ("cpu", "npu", "gpu")
HOST_SYS: tuple[str, ...] = ("cpu", "mem", "disk", "network", "osrt", "numa")
EXPORT_TYPES: tuple[str, ...] = ("text", "db")
COLLECTORS: tuple[str, ...] = ("auto", *FRONT_ENDS)

DEFAULT_OUTPUT = Path("npuprof-recordings")
_WORK_PATH = ("ASCEND_WORK_PATH", "profiling_data")  # variable and directory name of CANN's tools
DEFAULT_DOMAIN = "default"
_MOST = 4294967295  # Hz, limits of the native collector


def default_output() -> Path:
    """Return the default directory of recordings: the one of CANN's tools if the environment sets it."""
    variable, name = _WORK_PATH
    work_path = os.environ.get(variable)
    return Path(work_path).expanduser().absolute() / name if work_path else DEFAULT_OUTPUT


_NO_NPU = because("torch's own profiler knows no NPU", "kineto")
_NOT_SIMULATED = because("the simulated NPU has no such hardware", "simulator")
NO_OPERATORS = because("it knows CANN's operators only, not a framework's", "acl", "simulator", "msprof")
_TORCH_ONLY = because("only torch_npu records it", "mindspore", "tensorflow")
_ITERATIONS = because("its iterations are those that step() ends", "torch_npu", "mindspore", "msprof", "kineto")
_NO_DOMAINS = because("its markers have no domains", "acl", "simulator", "tensorflow", "kineto")
_NOT_ASKED = because("its interface has no such setting", "torch_npu", "mindspore")
_FIXED = because("it samples at a fixed rate", "torch_npu", "mindspore")
_WITH_LEVEL_1 = because("it comes with level 1 and cannot be asked for alone", "torch_npu", "mindspore")
_WITH_LEVEL_2 = because("it comes with level 2 and cannot be asked for alone", "torch_npu", "mindspore")
_OWN_DEVICE = because(
    "it collects from the device that the process uses", "torch_npu", "mindspore", "tensorflow", "msprof"
)
_OFFLINE = because(
    "nothing is exported while collecting, because npuprof decodes the raw data",
    *("acl", "simulator", "tensorflow", "kineto"),
)
_MINDSPORE = but("mindspore", "it is MindSpore's")
_GRAPH_POINTS = but("tensorflow", "only TensorFlow's graphs name these operators")
_MSPROF = but("msprof", "only the msprof tool waits by the clock; a session is started and stopped by code")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Collection options, validated on construction."""

    # fmt: off
    collector: str = choice("The front end to use.", COLLECTORS, "auto", panel="Collector")
    level: str | int = choice(
        "How much to collect: none (markers only), 0 (kernel times), 1 (adds CANN calls, shapes and AI Core metrics) "
        "or 2 (adds AI CPU and runtime calls).",
        LEVELS, 1, check=values.level, lacks=_NO_NPU, panel="Level", framework="profiler_level",
    )
    aic_metrics: str | None = choice(
        "AI Core metrics to count, at levels 1 and 2. Where none are chosen, these levels count PipeUtilization. With "
        "msprof and in a whole session of TensorFlow, event numbers too, such as Custom:0x8,0xa.",
        (*AIC_METRICS, "none"), None, check=values.metrics, activity="npu", lacks=_NO_NPU, panel="Metrics",
        only={"Custom:": ("tensorflow", "msprof")},
    )
    activities: tuple[str, ...] = several(
        "What to watch: cpu (the host: sampled Python stacks, a framework's operators), npu (the device and CANN), gpu "
        "(by the profilers of torch and MindSpore). auto is cpu and npu, or cpu and gpu with the collector kineto.",
        ("auto", *ACTIVITIES), ("auto",), choices=ACTIVITIES, panel="",
        only={"npu": tuple(name for name in FRONT_ENDS if name != "kineto"), "gpu": ("mindspore", "kineto")},
    )
    memory: bool = switch(
        "Sample the device's memory. With kineto it is that of torch's allocators, which needs no npu.", activity="npu",
        framework="profile_memory",
    )
    stacks: bool = switch(
        "Record the Python stack of each framework operator. Front ends without framework operators have the sampled "
        "stacks of the cpu activity only.",
        activity="cpu", framework="with_stack",
    )
    shapes: bool = switch("Record the shapes of operators' tensors.", framework="record_shapes")
    l2: bool = switch(
        "Record the L2 cache's hits and victims of each task.", activity="npu", lacks=_NO_NPU, framework="l2_cache"
    )
    marks: bool = switch("Record markers and ranges.", default=True, framework="mstx")
    host_sys: tuple[str, ...] = several(
        "Host samples of this process to take. The machine needs iotop for disk, perf and ltrace for osrt, and perf "
        "for numa.",
        HOST_SYS, activity="npu", lacks=_NO_NPU, only={"numa": ("acl", "torch_npu", "simulator")},
    )
    name: str = other(
        "What to call the run. It becomes part of the name of the recording's directory.",
        "", values.name, "up to 100 characters", panel="Name",
    )
    output: Path = other(  # noqa: RUF009 - it returns a field
        "Where recordings are kept. Each has a directory of its own there. Where none is chosen, it is "
        "npuprof-recordings, or profiling_data in ASCEND_WORK_PATH where that is set.",
        default_output, values.path, "the path of a directory", panel="Directory",
    )
    steps: bool = switch(
        "Make steps of the iterations of a profiled cell's loop, unless the cell marks its own.",
        default=True, of_cell=True, panel=None,
    )
    step_line: int | None = whole_number(
        "In which line of the cell the loop begins whose iterations are the steps.", "a line", 1, 1_000_000,
        needs="steps", of_cell=True,
    )
    lines: bool = switch(
        "Record when each statement of a profiled cell ran, and the Python stack of each call of the device that "
        "passes through Python.",
        default=True, of_cell=True, panel=None,
    )
    code: bool = switch(
        "Keep the text of the profiled cell and of your files in stacks.", default=True, of_cell=True, panel=None
    )
    processes: bool = switch(
        "Profile the Python processes that the cell or program starts, each with the front end that it imports: a set "
        "of ranks.",
        of_cell=True,
    )
    workers: bool = switch(
        "With processes: profile those that only load data for a rank, too.", needs="processes", of_cell=True,
        panel=None,
    )
    engines: bool = switch(
        "Profile the engines of ipyparallel on which %%px runs, each as a rank: a set of ranks.", of_cell=True,
        panel=None,
    )
    modules: bool = switch(
        "Record the module hierarchy of framework operators.", activity="cpu", lacks=NO_OPERATORS | _TORCH_ONLY,
        framework="with_modules",
    )
    flops: bool = switch(
        "Estimate the floating-point operations of framework operators. They are the column flops of operators, with "
        "kineto, and with torch_npu for what it has a formula for.",
        activity="cpu",
        lacks=NO_OPERATORS | because("only the profilers of torch estimate them", "mindspore", "tensorflow"),
        framework="with_flops",
    )
    gc_detect_threshold: float | None = other(
        "Record garbage collections that last at least so long.",
        None, values.at_least_zero, "milliseconds, at least 0", number=(float, "ms"),
        lacks=NO_OPERATORS | _TORCH_ONLY | because("only torch_npu records it", "kineto"),
    )
    record_op_args: bool = switch(
        "Record the arguments of framework operators.", activity="cpu",
        lacks=NO_OPERATORS | _TORCH_ONLY | because("only torch_npu records it", "kineto"),
    )
    op_attr: bool = switch(
        "Record the attributes of CANN's operators.", activity="npu",
        lacks=_NO_NPU | _NOT_SIMULATED
        | because("its interface has no operator attributes", "mindspore", "tensorflow", "msprof"),
    )
    mstx_domain_include: tuple[str, ...] = other(
        "Record the markers of these domains only.", (), values.words, "words joined by commas", lacks=_NO_DOMAINS
    )
    mstx_domain_exclude: tuple[str, ...] = other(
        "Leave out the markers of these domains.", (), values.words, "words joined by commas", lacks=_NO_DOMAINS
    )
    llc_profiling: str | None = choice(
        "Which side of the last level cache to sample, with memory.", ("read", "write"), None, activity="npu",
        needs="memory", lacks=_NO_NPU | _NOT_SIMULATED | _NOT_ASKED,
    )
    sys_io: bool = switch("Sample NIC and RoCE.", activity="npu", lacks=_NO_NPU | _NOT_SIMULATED)
    sys_interconnection: bool = switch(
        "Sample the links between chips: HCCS and PCIe.", activity="npu", lacks=_NO_NPU | _NOT_SIMULATED
    )
    dvpp: bool = switch("Sample the image units.", activity="npu", lacks=_NO_NPU | _NOT_SIMULATED | _NOT_ASKED)
    memory_freq: int | None = whole_number(
        "How often to sample the memory.", "Hz", 1, 100, rate=50, needs="memory", lacks=_NO_NPU | _FIXED
    )
    io_freq: int | None = whole_number(
        "How often to sample NIC and RoCE.", "Hz", 1, 100, rate=100, needs="sys_io", lacks=_FIXED
    )
    interconnection_freq: int | None = whole_number(
        "How often to sample the links between chips.", "Hz", 1, 50, rate=50, needs="sys_interconnection", lacks=_FIXED
    )
    dvpp_freq: int | None = whole_number("How often to sample the image units.", "Hz", 1, 100, rate=50, needs="dvpp")
    host_sys_usage: tuple[str, ...] = several(
        "Host samples of all processes to take.", ("cpu", "mem"), activity="npu",
        lacks=_NO_NPU | _NOT_SIMULATED | _NOT_ASKED,
    )
    host_sys_usage_freq: int | None = whole_number(
        "How often to sample all processes.", "Hz", 1, 50, needs="host_sys_usage"
    )
    hccl: bool = switch("Record communication below level 1.", activity="npu", lacks=_NO_NPU | _WITH_LEVEL_1)
    aicpu: bool = switch("Record AI CPU operators below level 2.", activity="npu", lacks=_NO_NPU | _WITH_LEVEL_2)
    runtime_api: bool = switch("Record runtime calls below level 2.", activity="npu", lacks=_NO_NPU | _WITH_LEVEL_2)
    ge_api: str = choice(
        "Calls of the graph engine to record: of dynamic shapes (l0), or all (l1).", ("off", "l0", "l1"), "off",
        lacks=_NO_NPU | _NOT_SIMULATED | _NOT_ASKED,
    )
    training_trace: bool = switch("Record the iteration trace.", activity="npu", lacks=_NOT_SIMULATED | _ITERATIONS)
    fp_point: str = other(
        "The operator at which the forward pass begins.", "", values.operator_name, "an operator's name",
        lacks=_GRAPH_POINTS,
    )
    bp_point: str = other(
        "The operator at which the backward pass ends.", "", values.operator_name, "an operator's name",
        lacks=_GRAPH_POINTS,
    )
    data_process: bool = switch("Record MindSpore's data pipeline.", lacks=_MINDSPORE)
    parallel_strategy: bool = switch("Record MindSpore's parallel strategy.", lacks=_MINDSPORE)
    sync_enable: bool = switch(
        "Let MindSpore wait for the device at both ends of an operator.", default=True, lacks=_MINDSPORE, panel=None
    )
    storage_limit: int | None = whole_number(
        "The most that the native collector keeps on disk.", "MB", 200, _MOST, lacks=_NO_NPU | _NOT_ASKED
    )
    devices: tuple[int, ...] = other(
        "The devices to collect from; all visible ones where none are named.",
        (), values.device_ids, "ids joined by commas, such as 0,1", activity="npu",
        lacks=_NO_NPU | _OWN_DEVICE,
    )
    data_simplification: bool = switch(
        "Let the vendor's parser, where it runs, leave out its intermediate files.", default=True, panel=None,
        lacks=_OFFLINE
        | because("the vendor's parser, which msprof runs, always simplifies in its own way", "msprof"),
    )
    export_type: tuple[str, ...] = several(
        "What the vendor's parser, where it runs, writes.", EXPORT_TYPES, ("text",), lacks=_OFFLINE
    )
    delay: int | None = whole_number(
        "How long the msprof tool waits until it begins; with processes, how long each of them waits after it imports "
        "its front end.",
        "seconds", 1, _MOST, lacks=_MSPROF
    )
    duration: int | None = whole_number("How long the msprof tool collects.", "seconds", 1, _MOST, lacks=_MSPROF)
    # fmt: on

    def __post_init__(self) -> None:
        for name, option in SPECIFICATION.items():
            self._set(name, option.check(name, getattr(self, name)))
        if self.activities == ("auto",):
            self._set("activities", ("cpu", "gpu") if self.collector == "kineto" else ("cpu", "npu"))
        values.subset("activities", self.activities, ACTIVITIES)
        if self.aic_metrics is None:
            counts = self.level in (1, 2) and "npu" in self.activities
            self._set("aic_metrics", "PipeUtilization" if counts else "none")
        self._check_combinations()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen for everyone else

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
        # kineto itself reports that it has no levels
        if self.level == 2 and "npu" not in self.activities and self.collector != "kineto":
            raise OptionsError(
                "level 2 adds AI CPU and runtime calls of the device: add npu to activities, or set level 1", "level"
            )
        if self.l2 and self.level == "none":
            raise OptionsError("l2 needs tasks to count for: set level 0, 1 or 2, or leave l2 out", "l2")
        for name, option in SPECIFICATION.items():
            if getattr(self, name) not in (False, "none", (), None):
                self._check_needs(name, option)
        if self.processes and self.engines:
            raise OptionsError("processes are of this machine, engines of a cluster: choose one of them", "engines")
        if self.processes and self.collector == "msprof":
            raise OptionsError(
                "msprof profiles a program from outside, with all its processes: leave processes or the collector out",
                "processes",
            )
        if self.mstx_domain_include and self.mstx_domain_exclude:
            raise OptionsError(
                "mstx_domain_include and mstx_domain_exclude exclude each other: give one of them",
                "mstx_domain_exclude",
            )
        if (self.mstx_domain_include or self.mstx_domain_exclude) and not self.marks:
            raise OptionsError(
                "domains choose among markers: turn marks on, or leave the domains out",
                *("mstx_domain_include", "mstx_domain_exclude"),
            )

    def _check_needs(self, name: str, option: Option) -> None:
        # Torch's own profiler samples its allocators without an NPU.
        allowed = name == "memory" and self.collector == "kineto"
        lacks_activity = option.activity and option.activity not in self.activities and not allowed
        lacks_option = option.needs and not getattr(self, option.needs)
        if (
            (lacks_activity or lacks_option)
            and self.collector in FRONT_ENDS
            and (reason := lacks(self.collector, name))
        ):
            raise OptionsError(refusal(self.collector, name, reason), name)  # before what it needs elsewhere
        if lacks_activity:
            where = "collected by the device" if option.activity == "npu" else "recorded on the host"
            raise OptionsError(f"{name} is {where}: add {option.activity} to activities, or leave {name} out", name)
        if lacks_option:
            raise OptionsError(f"{name} goes with {option.needs}: add {option.needs}, or leave {name} out", name)

    @property
    def rates(self) -> dict[str, int]:
        """The sampling frequencies in Hz, by the name of their option."""
        return {
            name: getattr(self, name) or option.rate
            for name, option in SPECIFICATION.items()
            if option.rate and getattr(self, option.needs)
        }

    def takes_domain(self, domain: str) -> bool:
        """Return whether markers of a domain are recorded; markers without a domain belong to ``default``."""
        domain = domain or DEFAULT_DOMAIN
        included = not self.mstx_domain_include or domain in self.mstx_domain_include
        return self.marks and included and domain not in self.mstx_domain_exclude

    def to_dict(self) -> dict[str, Any]:
        """Return the options as JSON-serializable values."""
        plain = asdict(self)
        plain["output"] = str(self.output)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    def to_json(self) -> str:
        """Return the JSON form, as :meth:`from_json` and the environment take it."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Options:
        """Build the options from names and values.

        Raises
        ------
        OptionsError
            If a name is unknown or a value is not allowed.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(plain) - known):
            raise OptionsError(
                f"unknown option {values.listed(unknown)}{did_you_mean(unknown, known)}: the options are "
                f"{values.listed(sorted(known))}"
            )
        return cls(**plain)

    @classmethod
    def from_json(cls, text: str) -> Options:
        """Build the options from a JSON object.

        Raises
        ------
        OptionsError
            If the text is not a JSON object of valid options.
        """
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OptionsError(f"the options are not valid JSON ({error})") from error
        if not isinstance(plain, dict):
            raise OptionsError(f"the options must be a JSON object, not {type(plain).__name__}")
        return cls.from_dict(plain)


SPECIFICATION: Mapping[str, Option] = {field.name: field.metadata["option"] for field in fields(Options)}
FRAMEWORK_NAMES = {option.framework or name: name for name, option in SPECIFICATION.items() if not option.of_cell}
"""The options by their names in the profilers of torch_npu and MindSpore."""
_DESCRIBED = "\n".join(f"{name}\n    {option.described}" for name, option in SPECIFICATION.items())
Options.__doc__ = f"""What to collect, validated and complete when constructed.

Parameters
----------
{_DESCRIBED}

Raises
------
OptionsError
    If a value is not allowed or two exclude each other; the message lists what is allowed.
"""


def lacks(front_end: str, name: str) -> str:
    """Return why a front end lacks an option; empty if it has it."""
    option = SPECIFICATION[name]
    return option.lacks.get(front_end) or (lacks(front_end, option.needs) if option.needs else "")


def refusal(front_end: str, name: str, reason: str) -> str:
    """Return the message that a front end lacks an option, with those that have it."""
    having = tuple(other for other in FRONT_ENDS if not lacks(other, name))
    elsewhere = f", or use one that has it (--collector {', '.join(having)})" if having else ""
    return f"{front_end} has no {name}: {reason}. Leave it out{elsewhere}"


def has_value(front_end: str, name: str, word: str) -> bool:
    """Return whether a front end supports a value of an option."""
    return front_end in SPECIFICATION[name].only.get(word, FRONT_ENDS)


def shows_options(function: _Function) -> _Function:
    """Add all options to the signature of a function of ``**options``, with types and defaults.

    Type checkers read ``**options: Unpack[OptionValues]``; Shift-Tab and ``help`` read the signature.
    """
    signature = inspect.signature(function)
    named = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    options = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=OptionValues.__annotations__[name])
        for name, parameter in inspect.signature(Options).parameters.items()
        if name not in signature.parameters
    ]
    function.__signature__ = signature.replace(parameters=[*named, *options])  # type: ignore[attr-defined]
    return function
