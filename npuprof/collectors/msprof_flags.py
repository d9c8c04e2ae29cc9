"""Convert options to arguments of msprof; refuse those that msprof would reject or drop.

msprof's messages name the wrong option, and it silently ignores some options that it does not support. Source:
collectors/FRONTENDS.md sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping

from npuprof.errors import OptionsError
from npuprof.options import Options

# Level 2 is level 1 with AI CPU and runtime calls, as in the other front ends.
_TASK_TIME: Mapping[str | int, str] = {"none": "off", 0: "l0", 1: "l1", 2: "l1"}
_OF_LEVEL_2 = ("aicpu", "runtime_api")
# By frequency option: the flags that turn sampling on, and the flag of the frequency.
_SAMPLED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "memory_freq": (("task-memory", "sys-hardware-mem"), "sys-hardware-mem-freq"),
    "io_freq": (("sys-io-profiling",), "sys-io-sampling-freq"),
    "interconnection_freq": (("sys-interconnection-profiling",), "sys-interconnection-freq"),
    "dvpp_freq": (("dvpp-profiling",), "dvpp-freq"),
}


def refuse(options: Options, *, attached: bool) -> None:
    """Raise an OptionsError for options that msprof would reject or ignore.

    `attached` is whether msprof attaches to this process, rather than running a program.
    """
    if attached and (options.delay is not None or options.duration is not None):
        raise OptionsError(
            "delay and duration are for a program that msprof runs, and this process is running: leave them out, or "
            "use `%npuprof run` with a script",
            "delay",
            "duration",
        )
    if options.stacks and not attached:
        raise OptionsError("Python stacks of a program that msprof runs are not sampled: leave stacks out", "stacks")
    if options.shapes and (options.level == "none" or "npu" not in options.activities):
        raise OptionsError(
            "msprof records the shapes of what the NPU runs, from level 0 on: raise the level and add npu to "
            "activities, or leave shapes out",
            "shapes",
        )
    if options.hccl and options.level in ("none", 0):
        raise OptionsError("msprof discards hccl, because communication comes with level 1: set level 1 or 2", "hccl")
    if len(options.export_type) != 1:
        raise OptionsError("msprof exports text or db, one of them: choose one with export_type", "export_type")


def flags(options: Options, *, pid: int | None = None) -> list[str]:
    """Return msprof's arguments for the options.

    Switches that are off by default are omitted, since some machines reject their very names; settings that differ by
    mode or machine are always passed. Host samples are those of process `pid`, or of msprof's program.
    """
    return [f"--{name}={value}" for name, value in _settings(options, pid).items()]


def _settings(options: Options, pid: int | None) -> dict[str, str]:
    is_counted = options.aic_metrics != "none"
    wanted = {
        "ascendcl": _switch_text(options.level != "none"),
        "task-time": _TASK_TIME[options.level],
        "ai-core": _switch_text(is_counted),
    }
    if is_counted:
        wanted |= {"aic-mode": "task-based", "aic-metrics": str(options.aic_metrics)}
    switched = {
        "msproftx": options.marks,
        "l2": options.l2,
        **{name.replace("_", "-"): getattr(options, name) or options.level == 2 for name in _OF_LEVEL_2},
        "aicore-shape": options.shapes and options.level == 0,  # from level 1 on, shapes are recorded anyway
    }
    wanted |= {name: "on" for name, on in switched.items() if on}
    if options.ge_api != "off":
        wanted["ge-api"] = options.ge_api
    if options.export_type[0] != "text":
        wanted["type"] = options.export_type[0]
    return wanted | _sampling_flags(options) | _host(options, pid) | _limits(options)


def _sampling_flags(options: Options) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for name, rate in options.rates.items():
        switches, frequency = _SAMPLED[name]
        wanted |= {**dict.fromkeys(switches, "on"), frequency: str(rate)}
    if options.llc_profiling is not None:
        wanted["llc-profiling"] = options.llc_profiling
    return wanted


def _host(options: Options, pid: int | None) -> dict[str, str]:
    wanted: dict[str, str] = {}
    if options.host_sys:
        wanted["host-sys"] = ",".join(options.host_sys)
        if pid is not None:
            wanted["host-sys-pid"] = str(pid)
    if options.host_sys_usage:
        wanted["host-sys-usage"] = ",".join(options.host_sys_usage)
        if options.host_sys_usage_freq is not None:
            wanted["host-sys-usage-freq"] = str(options.host_sys_usage_freq)
    return wanted


def _limits(options: Options) -> dict[str, str]:
    wanted = {
        "storage-limit": f"{options.storage_limit}MB" if options.storage_limit is not None else "",
        "delay": str(options.delay or ""),
        "duration": str(options.duration or ""),
        "mstx-domain-include": ",".join(options.mstx_domain_include),
        "mstx-domain-exclude": ",".join(options.mstx_domain_exclude),
    }
    return {name: value for name, value in wanted.items() if value}


def _switch_text(value: bool) -> str:
    return "on" if value else "off"
