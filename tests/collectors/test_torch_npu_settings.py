"""Our options as torch_npu takes them, and what is refused because torch_npu would drop it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from npuprof.collectors.torch_npu import TorchNpuCollector
from npuprof.collectors.torch_npu_adapter import experimental_arguments, profile_arguments
from npuprof.errors import CollectorError, FrontEndAbsentError, OptionsError
from npuprof.options import Options


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the names that are imported, without anything in them."""
    for name in ("torch", "torch_npu", "torch_npu.profiler"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))


def test_every_argument_of_the_vendor_comes_from_an_option() -> None:
    options = Options(
        level=2,
        aic_metrics="MemoryUB",
        l2=True,
        data_simplification=False,
        record_op_args=True,
        op_attr=True,
        gc_detect_threshold=2,
        export_type=("text", "db"),
        host_sys=("cpu", "numa"),
        mstx_domain_include=("train",),
        sys_io=True,
        sys_interconnection=True,
    )
    assert experimental_arguments(options) == {
        "profiler_level": "Level2",
        "aic_metrics": "MemoryUB",
        "l2_cache": True,
        "msprof_tx": False,
        "mstx": True,
        "data_simplification": False,
        "record_op_args": True,
        "op_attr": True,
        "gc_detect_threshold": 2.0,
        "export_type": ["text", "db"],
        "host_sys": ["cpu", "numa"],
        "mstx_domain_include": ["train"],
        "mstx_domain_exclude": [],
        "sys_io": True,
        "sys_interconnection": True,
    }
    switches = profile_arguments(Options(shapes=True, memory=True, stacks=True, flops=True, modules=True))
    assert list(switches) == ["record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules"]
    assert all(switches.values())


@pytest.mark.parametrize(("level", "name"), [("none", "Level_none"), (0, "Level0"), (1, "Level1")])
def test_levels_and_metrics_follow_the_vendor(level: Any, name: str) -> None:
    told = experimental_arguments(Options(level=level, aic_metrics="none"))
    assert (told["profiler_level"], told["aic_metrics"]) == (name, "AiCoreNone")


def test_without_the_device_nothing_is_asked_of_it() -> None:
    told = experimental_arguments(Options(activities=("cpu",), marks=True, mstx_domain_exclude=("x",)))
    assert (told["profiler_level"], told["mstx"], told["mstx_domain_exclude"]) == ("Level0", False, [])


@pytest.mark.parametrize(
    ("chosen", "flops", "told"),
    [((), True, []), (("train",), False, ["train"]), (("train",), True, ["train", "mfu_flops"])],
)
def test_chosen_domains_leave_room_for_the_flops(chosen: tuple[str, ...], flops: bool, told: list[str]) -> None:
    options = Options(flops=flops, mstx_domain_include=chosen)
    assert experimental_arguments(options)["mstx_domain_include"] == told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"activities": ("npu",), "shapes": True}, "records shapes with the operators of the framework: add cpu"),
        ({"activities": ("npu",), "gc_detect_threshold": 0}, "records gc_detect_threshold with the operators"),
        ({"activities": ("cpu",), "level": "none"}, "level none records markers by the device: add npu"),
        ({"op_attr": True}, "add db to export_type"),
        ({"op_attr": True, "export_type": ("db",), "level": "none"}, "op_attr needs operators"),
        ({"flops": True, "marks": False}, "flops as ranges of its markers: turn marks on"),
        ({"flops": True, "activities": ("cpu",)}, "flops as ranges of its markers: turn marks on and add npu"),
        ({"flops": True, "mstx_domain_exclude": ("mfu_flops",)}, "take it out of mstx_domain_exclude"),
        ({"data_process": True}, "torch_npu has no data_process"),
        ({"aicpu": True}, "comes with level 2"),
        ({"activities": ("gpu",)}, "torch_npu has no gpu among activities"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_dropped_options_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(OptionsError, match=told):
        TorchNpuCollector().check(Options(**options))


@pytest.mark.usefixtures("installed")
def test_a_feature_that_cann_does_not_advertise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.collectors.capabilities.advertised_features", lambda: frozenset({"ATTR"}))
    with pytest.raises(OptionsError, match="MemoryAccess is not offered by this chip and CANN"):
        TorchNpuCollector().check(Options(aic_metrics="MemoryAccess"))
    TorchNpuCollector().check(Options(op_attr=True, export_type=("db",)))


@pytest.mark.usefixtures("installed")
def test_arguments_of_operators_are_refused_without_the_library_that_dumps_them() -> None:
    with pytest.raises(OptionsError, match=r"libascend_dump\.so of CANN, which cannot be loaded"):
        TorchNpuCollector().check(Options(record_op_args=True))


@pytest.mark.parametrize("variable", ["PROFILER_SAMPLECONFIG", "PROFILING_MODE"])
@pytest.mark.usefixtures("installed")
def test_a_process_that_msprof_profiles_is_reported(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "dynamic")
    with pytest.raises(CollectorError, match=f"{variable} is set, as the msprof tool does"):
        TorchNpuCollector().check(Options())


@pytest.mark.parametrize("broken", [ImportError("no module"), OSError("libhccl.so"), RuntimeError("autoload")])
def test_an_import_that_fails_means_absent(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    def fail(name: str) -> ModuleType:
        raise broken

    monkeypatch.setattr("npuprof.collectors.torch_npu.importlib.import_module", fail)
    with pytest.raises(FrontEndAbsentError, match=f"{broken}.*TORCH_DEVICE_BACKEND_AUTOLOAD=0"):
        TorchNpuCollector().check(Options())


def test_torch_records_python_calls_on_request() -> None:
    taken = [
        TorchNpuCollector().records_stacks(options)
        for options in (Options(stacks=True), Options(modules=True), Options(flops=True))
    ]
    assert taken == [True, True, False]
