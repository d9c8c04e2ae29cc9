"""A stand-in for MindSpore's profiler: signatures, settings and refusals as tables, and the files of a run on the CPU.

Source: collectors/FRONTENDS.md section 1, and MindSpore's page ``mindspore.Profiler`` for the older one.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from npuprof.collectors.mindspore import MindSporeCollector
from npuprof.options import Options

ENUMS = {
    "ProfilerLevel": {name: name for name in ("LevelNone", "Level0", "Level1", "Level2")},
    "ProfilerActivity": {name: name for name in ("NPU", "GPU", "CPU")},
    "AicoreMetrics": {
        **{name: name for name in ("PipeUtilization", "ArithmeticUtilization", "Memory", "MemoryL0", "MemoryUB")},
        **{name: name for name in ("ResourceConflictRatio", "L2Cache", "MemoryAccess")},
        "AiCoreNone": "None",
    },
    "ExportType": {"Db": "db", "Text": "text"},
    "HostSystem": {name.upper(): name for name in ("cpu", "mem", "disk", "network", "osrt")},
}

# Each parameter: the type that it must have (of its items, for lists), and its default.
PROFILE: dict[str, tuple[Any, Any]] = {
    "activities": (["ProfilerActivity"], None),
    "with_stack": (bool, False),
    "profile_memory": (bool, False),
    "data_process": (bool, False),
    "parallel_strategy": (bool, False),
    "start_profile": (bool, True),
    "hbm_ddr": (bool, False),
    "pcie": (bool, False),
    "sync_enable": (bool, True),
    "record_shapes": (bool, False),
    "schedule": ("Schedule", None),
    "on_trace_ready": ("callable", None),
    "experimental_config": ("_ExperimentalConfig", None),
}
CONFIG: dict[str, tuple[Any, Any]] = {
    "profiler_level": ("ProfilerLevel", "Level0"),
    "aic_metrics": ("AicoreMetrics", "AiCoreNone"),
    "l2_cache": (bool, False),
    "mstx": (bool, False),
    "data_simplification": (bool, True),
    "export_type": (["ExportType"], None),
    "mstx_domain_include": ([str], None),
    "mstx_domain_exclude": ([str], None),
    "sys_io": (bool, False),
    "sys_interconnection": (bool, False),
    "host_sys": (["HostSystem"], None),
}
_SEED = (
    *("start_profile", "output_path", "profiler_level", "activities", "aicore_metrics", "with_stack"),
    *("profile_memory", "data_simplification", "l2_cache", "hbm_ddr", "pcie", "data_process"),
    *("parallel_strategy", "sync_enable"),
)
OLDER: dict[str, tuple[str, ...]] = {
    "unlisted": _SEED,  # the release does not list its parameters, and analyse() alone ends a run
    "2.4": _SEED,
    "2.5": (*(name.replace("aicore_", "aic_") for name in _SEED), "export_type", "mstx", "schedule", "on_trace_ready"),
}
LATER: dict[str, tuple[str, ...]] = {  # what releases that have ``profile`` did not have yet
    "2.6": ("record_shapes", "sys_io", "sys_interconnection", "host_sys", "mstx_domain_include", "mstx_domain_exclude"),
}
DEPRECATED = ("hbm_ddr", "pcie")  # where sys_interconnection is known


@dataclass
class Double:
    """What the stand-in was asked, and how it is to behave."""

    release: str = "2.10"
    device: str = "CPU"
    npu: Any = None  # a collector that stands for the native one, where the device is to be recorded too
    calls: list[str] = field(default_factory=list)
    given: dict[str, Any] = field(default_factory=dict)
    coerced: list[str] = field(default_factory=list)
    marks: list[tuple[Any, ...]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # those that were marked, by their numbers
    fail: dict[str, str] = field(default_factory=dict)
    warn: dict[str, str] = field(default_factory=dict)
    logger: logging.Logger = field(default_factory=lambda: logging.Logger("ME.double", logging.WARNING))
    context: Any = field(default_factory=lambda: SimpleNamespace(_on_trace_ready_output_path=None))
    paths: Any = field(default_factory=lambda: SimpleNamespace(_worker_name=None, _dir_path=None))
    enums: dict[str, Any] = field(
        default_factory=lambda: {name: Enum(name, members) for name, members in ENUMS.items()}
    )
    interface: Any = None

    def __post_init__(self) -> None:
        self.interface = _Interface(self)

    @property
    def names(self) -> tuple[str, ...]:
        return OLDER.get(self.release, (*self.of(PROFILE), *self.of(CONFIG)))

    def of(self, table: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
        """Return the parameters of a table that this release has."""
        return {name: kind for name, kind in table.items() if name not in LATER.get(self.release, ())}

    def check(self, table: dict[str, tuple[Any, Any]], given: dict[str, Any]) -> None:
        """Note what MindSpore would change: an unknown name, a wrong type."""
        for name, value in given.items():
            if name not in table:
                self.coerced.append(f"{name} is unknown")
            elif value is not None and not self._fits(table[name][0], value):
                self.coerced.append(f"{name} has the wrong type: {value!r}")

    def _fits(self, kind: Any, value: Any) -> bool:
        if isinstance(kind, list):
            return isinstance(value, list) and all(self._fits(kind[0], item) for item in value)
        if kind == "callable":
            return callable(value)
        if isinstance(kind, str) and kind not in self.enums:
            return type(value).__name__ == kind
        return isinstance(value, self.enums[kind] if isinstance(kind, str) else kind)

    def combine(self, given: dict[str, Any]) -> None:
        """Note what MindSpore would change for two settings that do not go together."""
        level = getattr(given.get("profiler_level"), "name", "Level0")
        metrics = getattr(given.get("aic_metrics", given.get("aicore_metrics")), "name", "AiCoreNone")
        activities = [item.name for item in given.get("activities") or []]
        domains = given.get("mstx_domain_include"), given.get("mstx_domain_exclude")
        rules = {
            "data_process with a schedule": given.get("data_process") and given.get("schedule") is not None,
            "LevelNone without mstx": level == "LevelNone" and not given.get("mstx"),
            "metrics below Level1": level in ("LevelNone", "Level0") and metrics != "AiCoreNone",
            "no metrics from Level1 on": level in ("Level1", "Level2") and metrics == "AiCoreNone",
            "shapes without CPU": given.get("record_shapes") and "CPU" not in activities,
            "domains without mstx": any(domains) and not given.get("mstx"),
            "domains twice": all(domains),
            **{f"{name} is deprecated": given.get(name) and "sys_interconnection" in self.names for name in DEPRECATED},
        }
        self.coerced += [rule for rule, broken in rules.items() if broken]

    def say(self, call: str) -> None:
        """Do what a call of MindSpore does when it fails: log a line, and return."""
        if call in self.warn:
            self.logger.warning(self.warn[call])
        if call in self.fail:
            self.logger.error("Call to %s failed. Exception: %s", call, self.fail[call])

    def write(self) -> Path:
        """Make the directory of a run, with the operators that the CPU ran."""
        run = Path(self.context._on_trace_ready_output_path or self.given["output_path"])
        run = run / "profiler" if self.release == "unlisted" else run / f"vm_1_{len(self.calls):017d}_ascend_ms"
        (run / "FRAMEWORK").mkdir(parents=True)
        operators = ["MatMul;HostCpuOps;1763600000000000000,0.08,9", "ReLU;HostCpuOps;1763600000000100000,0.02,9"]
        (run / "FRAMEWORK" / "cpu_op_execute_timestamp_0.txt").write_text("\n".join(operators))
        return run


MakeMindSpore = Callable[..., tuple[MindSporeCollector, Double]]
"""What the fixture ``make_mindspore`` gives: a collector over a stand-in that behaves as asked."""


def names_of(value: Any) -> Any:
    """Return the names of members of enums, alone or in a list; other values stay."""
    return [names_of(item) for item in value] if isinstance(value, list) else getattr(value, "name", value)


class _Interface:
    """The one driver of all profilers of the process."""

    def __init__(self, double: Double) -> None:
        self.is_initialized = False
        self._double = double
        self._run = Path()

    def init(self) -> None:
        self._double.calls.append("init")
        if "directory" not in self._double.fail:
            self._run = self._double.write()
        self.is_initialized = True

    def start(self) -> None:
        self._double.calls.append("start")
        if self._double.npu is not None:
            self._double.npu.start(Options(level=1), self._run)

    def stop(self) -> None:
        self._double.calls.append("stop")
        if self._double.npu is not None:
            self._double.npu.stop()

    def finalize(self) -> None:
        self._double.calls.append("finalize")

    def clear(self) -> None:
        self._double.calls.append("clear")
        self.is_initialized = False


class Schedule:
    """The schedule of newer releases, which tells whether the first step is one to warm up in."""

    def __init__(self, *, wait: int, active: int, warmup: int = 0) -> None:
        self.warmup = warmup


class _StepMark:
    """The mark of a step, which ends once."""

    def __init__(self, double: Double) -> None:
        self._double = double
        self._ended = False

    def stop(self) -> None:
        if self._ended:
            self._double.coerced.append("a step ended twice")
        self._ended = True


class _Profile:
    """What ``profile`` and the older ``Profiler`` share: every method catches what fails and logs it."""

    double: Double

    def _begin(self) -> None:
        self._has_started = False
        self.step_num = 0
        self._step_rec_fn: _StepMark | None = None
        if self.double.given.get("start_profile", True):
            self.start()

    def start(self) -> None:
        if self._has_started:
            self.double.coerced.append("started twice")
        self._has_started = True
        self.double.interface.init()
        self._warm = bool(getattr(self.double.given.get("schedule"), "warmup", 0))
        if not self._warm:
            self._record()
        self.double.say("start")

    def _record(self) -> None:
        self._mark_step()
        self.double.interface.start()

    def _end_step(self) -> None:
        if self._step_rec_fn is not None:
            self._step_rec_fn.stop()

    def _mark_step(self) -> None:
        self.double.steps.append(self.step_num)
        self._step_rec_fn = _StepMark(self.double)

    def stop(self) -> None:
        self.double.say("stop")
        if "stop" in self.double.fail:
            return
        self.double.logger.warning("Incorrect schedule: Stop profiler while current state is RECORD which may ...")
        self._has_started = False
        self._end_step()
        self.double.interface.stop()
        if not hasattr(self, "analyse"):
            self.double.interface.finalize()
            self.double.interface.clear()

    def step(self) -> None:
        self._end_step()
        self.step_num += 1
        if self._warm:
            self._warm = False
            self._record()
            self.double.say("step")
            return
        self._mark_step()
        self.double.calls.append("step")


def install(monkeypatch: pytest.MonkeyPatch, double: Double) -> None:
    """Put the stand-in where ``import mindspore`` finds it."""
    profiler = _profiler_module(double)
    package: Any = ModuleType("mindspore")
    package.__version__ = double.release
    package.profiler = profiler
    package.get_context = {"device_target": double.device}.__getitem__
    parts: dict[str, dict[str, Any]] = {
        "mindspore.log": {"_get_logger": lambda: double.logger},
        "mindspore.profiler.common": {},
        "mindspore.profiler.common.profiler_context": {"ProfilerContext": lambda: double.context},
        "mindspore.profiler.common.profiler_path_manager": {"ProfilerPathManager": lambda: double.paths},
    }
    if double.release != "unlisted":
        listed = SimpleNamespace(PARAMS=dict.fromkeys(double.names))
        parts["mindspore.profiler.common.profiler_parameters"] = {"ProfilerParameters": listed}
        parts["mindspore.profiler.profiler_interface"] = {"ProfilerInterface": double.interface}
    monkeypatch.setitem(sys.modules, "mindspore", package)
    monkeypatch.setitem(sys.modules, "mindspore.profiler", profiler)
    for name, names in parts.items():
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)


def _profiler_module(double: Double) -> Any:
    module: Any = ModuleType("mindspore.profiler")
    module.__path__ = []
    vars(module).update(double.enums)
    if double.release in OLDER:
        module.Profiler = _older(double)
    else:
        module.profile, module._ExperimentalConfig = _newer(double)
        module.schedule = Schedule
        module.tensorboard_trace_handler = _handler_maker(double)
    if double.release == "2.5":

        def mark(message: str, stream: Any = None) -> None:
            double.marks.append((message, stream))

        module.mstx = SimpleNamespace(mark=mark, range_start=lambda message, stream=None: 7, range_end=lambda number: 0)
    elif double.release not in OLDER:
        module.mstx = _Mstx(double)
    return module


def _older(double: Double) -> type:
    every = {"output_path": (str, "./data"), "aicore_metrics": ("AicoreMetrics", None), **PROFILE, **CONFIG}

    class Profiler(_Profile):
        def __init__(self, **kwargs: Any) -> None:
            self.double = double
            double.logger.warning("'mindspore.Profiler' will be deprecated and removed in a future version.")
            double.check({name: every[name] for name in double.names}, kwargs)
            double.combine(kwargs)
            double.given = kwargs
            self._begin()

        def analyse(self) -> None:
            double.calls.append("analyse")

    return Profiler


def _newer(double: Double) -> tuple[type, type]:
    class _ExperimentalConfig:
        def __init__(self, **given: Any) -> None:
            double.check(double.of(CONFIG), given)
            self.given = given

    class profile(_Profile):  # noqa: N801 - as MindSpore names it
        def __init__(self, **given: Any) -> None:
            if "profile" in double.fail:
                raise RuntimeError(double.fail["profile"])
            self.double = double
            double.check(double.of(PROFILE), given)
            double.given = {**given, **given["experimental_config"].given}
            double.combine(double.given)
            self._begin()

    for kind, table in ((profile, PROFILE), (_ExperimentalConfig, CONFIG)):
        names = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in double.of(table)]
        setattr(kind, "__signature__", inspect.Signature(names))  # noqa: B010 - what inspect looks for
    return profile, _ExperimentalConfig


def _handler_maker(double: Double) -> Any:
    def tensorboard_trace_handler(
        dir_name: Any = None, worker_name: Any = None, analyse_flag: bool = True, async_mode: bool = False
    ) -> Any:
        if "handler" in double.fail:
            double.say("handler")
            return None
        double.context._on_trace_ready_output_path = double.paths._dir_path = dir_name
        return lambda prof: double.calls.append("parsed") if analyse_flag else None

    return tensorboard_trace_handler


class _Mstx:
    def __init__(self, double: Double) -> None:
        self._double = double

    def mark(self, message: str, stream: Any = None, domain: str = "default") -> None:
        self._double.marks.append(("mark", message, stream, domain))

    def range_start(self, message: str, stream: Any = None, domain: str = "default") -> int:
        self._double.marks.append(("start", message, stream, domain))
        return len(self._double.marks) if self._double.device == "Ascend" else 0

    def range_end(self, range_id: int, domain: str = "default") -> None:
        self._double.marks.append(("end", range_id, domain))
