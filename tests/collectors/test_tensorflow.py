"""The window of TensorFlow's adapter around a run: what it is asked, and what it cannot do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import npuprof
from npuprof.collectors import registry
from npuprof.collectors.acl import SimulatorCollector
from npuprof.collectors.tensorflow import TensorFlowCollector
from npuprof.errors import CollectorError, FrontEndAbsentError, NpuprofWarning, OptionsError
from npuprof.options import Options
from npuprof.simulator import npu

LEVELS = ("L0", "L1", "L2")
METRICS = (
    *("ArithmeticUtilization", "PipeUtilization", "Memory", "MemoryL0", "MemoryUB", "ResourceConflictRatio"),
    "L2Cache",
)


class Adapter:
    """Stands for npu_bridge: notes windows, refuses nested ones, and writes where a session ran in one."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.open: Path | None = None
        self.fail: dict[str, Exception] = {}
        self.ran = True
        self.npu: Any = None  # a collector that stands for the native one
        adapter = self

        class Profiler:
            def __init__(self, *, level: str = "L0", aic_metrics: str = "", output_path: str = "") -> None:
                assert level in LEVELS
                assert aic_metrics in ("", *METRICS)
                assert Path(output_path).is_dir()
                self._output = Path(output_path)
                adapter.calls.append((level, aic_metrics))

            def __enter__(self) -> None:
                if "enter" in adapter.fail:
                    raise adapter.fail["enter"]
                assert adapter.open is None
                adapter.open = self._output
                if adapter.npu is not None:
                    adapter.npu.start(Options(level=1), self._output)

            def __exit__(self, *error: Any) -> None:
                adapter.calls.append("exit")
                if "exit" in adapter.fail:
                    raise adapter.fail["exit"]
                if adapter.npu is not None:
                    adapter.npu.stop()
                elif adapter.ran:
                    (self._output / "PROF_000001_20261121000000000_ABC").mkdir()
                adapter.open = None

        self.profiler = Profiler


Make = Callable[..., tuple[TensorFlowCollector, Adapter]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Make a collector over a stand-in for the adapter of TensorFlow 1 or 2."""

    def build(version: int = 1) -> tuple[TensorFlowCollector, Adapter]:
        adapter = Adapter()
        if version == 1:
            modules = {"npu_bridge": {"__version__": "1.15"}, "npu_bridge.profiler": {}}
            modules["npu_bridge.profiler.profiler"] = {"Profiler": adapter.profiler}  # type: ignore[dict-item]
        else:
            modules = {"npu_device": {"__version__": "2.6.5"}, "npu_device.compat": {}, "npu_device.compat.v1": {}}
            home = SimpleNamespace(Profiler=adapter.profiler)
            modules["npu_device.compat.v1.npu_init"] = {"profiler": home}  # type: ignore[dict-item]
        for name, names in modules.items():
            module = ModuleType(name)
            vars(module).update(names)
            monkeypatch.setitem(sys.modules, name, module)
        return TensorFlowCollector(), adapter

    return build


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, ("L1", "PipeUtilization")),
        ({"level": 0}, ("L0", "")),
        ({"level": 2, "aic_metrics": "L2Cache"}, ("L2", "L2Cache")),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_window_is_asked_for_the_level_and_the_metrics(
    make: Make, tmp_path: Path, options: dict[str, Any], asked: tuple[str, str], version: int
) -> None:
    tensorflow, adapter = make(version)
    tensorflow.check(Options(**options))
    tensorflow.start(Options(**options), tmp_path)
    assert adapter.open == tmp_path
    tensorflow.stop()
    assert adapter.calls == [asked, "exit"]
    assert list(tensorflow.versions()) == [("npu_bridge", "npu_device")[version - 1]]


@pytest.mark.slow
def test_what_the_window_wrote_is_the_run(make: Make, tmp_path: Path) -> None:
    _, adapter = make()
    adapter.npu = SimulatorCollector()
    with npuprof.profile(collector="tensorflow", output=tmp_path) as prof:
        npu.asarray([1.0, 2.0]) + 1.0
        prof.step()
    assert prof.recording.problems == []
    assert len(prof.result.kernels) == 1
    assert prof.result.info.collector == "tensorflow"


_BEYOND: list[dict[str, Any]] = [
    {"memory": True},
    {"l2": True},
    {"host_sys": ("cpu",)},
    {"host_sys_usage": ("cpu",)},
    {"sys_io": True},
    {"sys_interconnection": True},
    {"dvpp": True},
    {"hccl": True},
    {"aicpu": True},
    {"runtime_api": True},
    {"ge_api": "l0"},
    {"training_trace": True},
    {"fp_point": "conv1"},
    {"bp_point": "conv1"},
    {"storage_limit": 200},
]


@pytest.mark.parametrize("options", _BEYOND, ids=[next(iter(options)) for options in _BEYOND])
def test_session_only_requests_are_refused(make: Make, options: dict[str, Any]) -> None:
    tensorflow, adapter = make()
    with pytest.raises(
        OptionsError, match=rf"{next(iter(options))} over a whole session.*next session.*global_options"
    ):
        tensorflow.check(Options(**options))
    assert adapter.calls == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"level": "none"}, "records no markers"),
        ({"aic_metrics": "none"}, "counts PipeUtilization where nothing else is asked for"),
        ({"aic_metrics": "MemoryAccess"}, "does not count what is asked for"),
        ({"aic_metrics": "Custom:0x8"}, "does not count what is asked for"),
        ({"level": 0, "shapes": True}, "level 1"),
        ({"modules": True}, "tensorflow has no modules"),
    ],
)
def test_what_the_window_would_leave_out_is_refused(make: Make, options: dict[str, Any], told: str) -> None:
    tensorflow, _ = make()
    with pytest.raises(OptionsError, match=told):
        tensorflow.check(Options(**options))


@pytest.mark.parametrize(("variable", "value"), [("PROFILING_MODE", "true"), ("GE_PROFILING_MODE", "dynamic")])
def test_a_window_beside_the_whole_session_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    tensorflow, _ = make()
    monkeypatch.setenv(variable, "false")
    tensorflow.check(Options())
    monkeypatch.setenv(variable, value)
    with pytest.raises(CollectorError, match=f"unset {variable}"):
        tensorflow.check(Options())


def test_a_window_that_cannot_be_opened_is_an_error(make: Make, tmp_path: Path) -> None:
    tensorflow, adapter = make()
    adapter.fail["enter"] = RuntimeError("nested")
    with pytest.raises(CollectorError, match=r"cannot be opened \(nested\).*one window at a time"):
        tensorflow.start(Options(), tmp_path)
    tensorflow.stop()
    assert adapter.calls == [("L1", "PipeUtilization")]


def test_a_window_that_cannot_be_closed_is_an_error_once(make: Make, tmp_path: Path) -> None:
    tensorflow, adapter = make()
    tensorflow.start(Options(), tmp_path)
    adapter.fail["exit"] = RuntimeError("lost")
    with pytest.raises(CollectorError, match="cannot be closed"):
        tensorflow.stop()
    tensorflow.stop()
    assert adapter.calls.count("exit") == 1


def test_window_without_session_names_its_recorder(make: Make, tmp_path: Path) -> None:
    _, adapter = make()
    adapter.ran = False
    with npuprof.profile(collector="tensorflow", output=tmp_path) as prof:
        pass
    assert [problem for problem in prof.recording.problems if "tf.Session.run" in problem]


def test_markers_are_reported_once_a_run(make: Make, tmp_path: Path) -> None:
    tensorflow, _ = make()
    tensorflow.mark("before")
    tensorflow.start(Options(), tmp_path)
    with pytest.warns(NpuprofWarning, match="records no markers"):
        tensorflow.mark("epoch")
    assert tensorflow.range_start("forward", "train") == 0  # a second warning would be an error here
    tensorflow.range_stop(0)
    tensorflow.stop()


@pytest.mark.parametrize("broken", [ImportError("no"), OSError("libge.so"), RuntimeError("backend")])
def test_an_import_that_fails_means_absent(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    def fail(name: str) -> ModuleType:
        raise broken

    monkeypatch.setattr("npuprof.collectors.tensorflow.importlib.import_module", fail)
    with pytest.raises(FrontEndAbsentError, match="install the TensorFlow adapter"):
        TensorFlowCollector().check(Options())


def test_auto_takes_tensorflow_where_its_adapter_is_imported(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("torch_npu", "mindspore"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    make(2)
    choice = registry.choose("auto")
    assert (choice.collector.name, choice.reason) == ("tensorflow", "npu_device is imported in this process")
