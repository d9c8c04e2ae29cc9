"""Which front end lacks which option, and why: the table that refusals, messages and the panel share.

What a front end cannot do is refused before the profiled code runs, never dropped. An option that is not
listed here for a front end is one that its collector hands on. Source: formats/frontends.md section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from npuprof.collectors import host_tools
from npuprof.errors import OptionsError
from npuprof.options import Options

_NO_OPERATORS = "it knows CANN's operators only, not a framework's"
_MSPROF_ONLY = "only the msprof tool waits by the clock; a session is started and stopped by code"
_MINDSPORE_ONLY = "it is MindSpore's"
_TORCH_ONLY = "only torch_npu records it"
_TORCH_FIGURES = "only the profilers of torch estimate them"
_NO_DOMAINS = "its markers have no domains"
_WITH_LEVEL_1 = "it comes with level 1 and cannot be asked for alone"
_WITH_LEVEL_2 = "it comes with level 2 and cannot be asked for alone"
_NOT_ASKED = "its interface has no such setting"
_NO_ATTRIBUTES = "its interface has no operator attributes"
_OWN_DEVICE = "it collects from the device that the process uses"
_FIXED = "it samples at a rate of its own"
_OFFLINE = "nothing is exported while collecting, because npuprof decodes the raw data"
_GRAPH_POINTS = "only TensorFlow's graphs name these operators"
_ITERATIONS = "its iterations are those that step() ends"
_NOT_SIMULATED = "the simulated NPU has no such hardware"
_NO_NPU = "torch's own profiler knows no NPU"

_FRAMEWORK = ("modules", "gc_detect_threshold", "record_op_args")
_MINDSPORE = ("data_process", "parallel_strategy", "sync_enable")
_DOMAINS = ("mstx_domain_include", "mstx_domain_exclude")
_CLOCKED = ("delay", "duration")
_POINTS = ("fp_point", "bp_point")
_EXPORT = ("data_simplification", "export_type")


def _because(reason: str, *options: str) -> dict[str, str]:
    return dict.fromkeys(options, reason)


LACKING: Mapping[str, Mapping[str, str]] = {
    "acl": {
        **_because(_NO_OPERATORS, *_FRAMEWORK, "flops"),
        **_because(_NO_DOMAINS, *_DOMAINS),
        **_because(_MINDSPORE_ONLY, *_MINDSPORE),
        **_because(_GRAPH_POINTS, *_POINTS),
        **_because(_MSPROF_ONLY, *_CLOCKED),
        **_because(_OFFLINE, *_EXPORT),
    },
    "simulator": {
        **_because(_NO_OPERATORS, *_FRAMEWORK, "flops"),
        **_because(_NO_DOMAINS, *_DOMAINS),
        **_because(_MINDSPORE_ONLY, *_MINDSPORE),
        **_because(_GRAPH_POINTS, *_POINTS),
        **_because(_MSPROF_ONLY, *_CLOCKED),
        **_because(_OFFLINE, *_EXPORT),
        **_because(
            _NOT_SIMULATED,
            "sys_io",
            "sys_interconnection",
            "dvpp",
            "llc_profiling",
            "host_sys_usage",
            "ge_api",
            "training_trace",
            "op_attr",
        ),
    },
    "torch_npu": {
        **_because(_MINDSPORE_ONLY, *_MINDSPORE),
        **_because(_GRAPH_POINTS, *_POINTS),
        **_because(_MSPROF_ONLY, *_CLOCKED),
        **_because(_ITERATIONS, "training_trace"),
        **_because(_WITH_LEVEL_1, "hccl"),
        **_because(_WITH_LEVEL_2, "aicpu", "runtime_api"),
        **_because(_FIXED, "memory_freq", "io_freq", "interconnection_freq"),
        **_because(_OWN_DEVICE, "devices"),
        **_because(_NOT_ASKED, "llc_profiling", "dvpp", "host_sys_usage", "ge_api", "storage_limit"),
    },
    "mindspore": {
        **_because(_TORCH_ONLY, *_FRAMEWORK),
        **_because(_TORCH_FIGURES, "flops"),
        **_because(_GRAPH_POINTS, *_POINTS),
        **_because(_MSPROF_ONLY, *_CLOCKED),
        **_because(_ITERATIONS, "training_trace"),
        **_because(_WITH_LEVEL_1, "hccl"),
        **_because(_WITH_LEVEL_2, "aicpu", "runtime_api"),
        **_because(_FIXED, "memory_freq", "io_freq", "interconnection_freq"),
        **_because(_OWN_DEVICE, "devices"),
        **_because(_NO_ATTRIBUTES, "op_attr"),
        **_because(_NOT_ASKED, "llc_profiling", "dvpp", "host_sys_usage", "ge_api", "storage_limit"),
    },
    "tensorflow": {
        **_because(_TORCH_ONLY, *_FRAMEWORK),
        **_because(_TORCH_FIGURES, "flops"),
        **_because(_NO_DOMAINS, *_DOMAINS),
        **_because(_MINDSPORE_ONLY, *_MINDSPORE),
        **_because(_MSPROF_ONLY, *_CLOCKED),
        **_because(_OWN_DEVICE, "devices"),
        **_because(_NO_ATTRIBUTES, "op_attr"),
        **_because(_OFFLINE, *_EXPORT),
    },
    "msprof": {
        **_because(_NO_OPERATORS, *_FRAMEWORK, "flops"),
        **_because(_MINDSPORE_ONLY, *_MINDSPORE),
        **_because(_GRAPH_POINTS, *_POINTS),
        **_because(_ITERATIONS, "training_trace"),
        **_because(_OWN_DEVICE, "devices"),
        **_because(_NO_ATTRIBUTES, "op_attr"),
        **_because("the vendor's parser, which msprof runs, always simplifies in its own way", "data_simplification"),
    },
    "kineto": {
        **_because(_MINDSPORE_ONLY, *_MINDSPORE),
        **_because(_GRAPH_POINTS, *_POINTS),
        **_because(_MSPROF_ONLY, *_CLOCKED),
        **_because(_TORCH_ONLY, "gc_detect_threshold", "record_op_args"),
        **_because(_NO_DOMAINS, *_DOMAINS),
        **_because(_ITERATIONS, "training_trace"),
        **_because(_OFFLINE, *_EXPORT),
        **_because(
            _NO_NPU,
            "level",
            "aic_metrics",
            "l2",
            "host_sys",
            "host_sys_usage",
            "op_attr",
            "llc_profiling",
            "sys_io",
            "sys_interconnection",
            "dvpp",
            "memory_freq",
            "hccl",
            "aicpu",
            "runtime_api",
            "ge_api",
            "storage_limit",
            "devices",
        ),
    },
}

# Activities that a front end has; `Options` alone decides what the words mean.
ACTIVITIES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("acl", "simulator", "torch_npu", "tensorflow", "msprof"), frozenset({"cpu", "npu"})),
    "mindspore": frozenset({"cpu", "npu", "gpu"}),
    "kineto": frozenset({"cpu", "gpu"}),
}


# Their markers, or their moments alone (torch_npu), have no field for a domain: the recording keeps it.
DOMAINS_KEPT_BESIDE = frozenset({"acl", "simulator", "msprof", "kineto", "torch_npu"})

_COUNT_CUSTOM_EVENTS = ("tensorflow", "msprof")


def lacks(collector: str, option: str) -> str:
    """Say why a front end does not have an option; empty when it has it."""
    return LACKING[collector].get(option, "")


def check(collector: str, options: Options) -> None:
    """Refuse options that a front end lacks and that were given another value than their default.

    So are host samples whose programs this machine lacks.

    Parameters
    ----------
    collector
        The front end's name.
    options
        What to collect.

    Raises
    ------
    OptionsError
        Naming the option, the front end, the reason and the front ends that have it.
    """
    for activity in options.activities:
        if activity not in ACTIVITIES[collector]:
            others = ", ".join(name for name, known in ACTIVITIES.items() if activity in known)
            raise OptionsError(
                f"{collector} has no {activity} activity: leave it out, or use --collector {others}", "activities"
            )
    if str(options.aic_metrics).startswith("Custom:") and collector not in _COUNT_CUSTOM_EVENTS:
        raise OptionsError(
            f"{collector} counts the named groups of aic_metrics only: choose one, or use --collector "
            f"{', '.join(_COUNT_CUSTOM_EVENTS)}",
            "aic_metrics",
        )
    plain = Options(
        level=options.level, activities=options.activities, collector=options.collector, marks=True
    )  # whatever differs from this was asked for
    for field in fields(Options):
        reason = lacks(collector, field.name)
        default = Options().level if field.name == "level" else getattr(plain, field.name)
        if reason and getattr(options, field.name) != default:
            have = [name for name in LACKING if not lacks(name, field.name)]
            elsewhere = f", or use one that has it (--collector {', '.join(have)})" if have else ""
            raise OptionsError(f"{collector} has no {field.name}: {reason}. Leave it out{elsewhere}", field.name)
    if collector != "simulator":
        host_tools.check(options)
