"""The pyACL calls that a run makes, and what each return code becomes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from npuprof import simulator
from npuprof.collectors import registry
from npuprof.collectors.acl import AclCollector, data_type_config, settings
from npuprof.errors import CollectorError, FrontEndAbsentError, OptionsError
from npuprof.options import Options
from npuprof.simulator import acl as simulated


class RecordingProf:
    """An `acl.prof` that notes the calls made to it and answers with the codes it is given."""

    def __init__(self, codes: dict[str, int], range_start: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._codes = codes
        self._range_start = range_start

    def create_config(self, *arguments: Any) -> int:
        self.calls.append(("create_config", *arguments))
        return self._codes.get("create_config", 7)

    def create_stamp(self) -> int:
        self.calls.append(("create_stamp",))
        return self._codes.get("create_stamp", 11)

    def range_start(self, stamp: int) -> Any:
        self.calls.append(("range_start", stamp))
        return self._range_start

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            return self._codes.get(name, 0)

        return call


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a collector over a recording `acl`; gives the collector and its `acl.prof`."""

    def make(codes: dict[str, int] | None = None, range_start: Any = (0, 0), devices: Any = (2, 0)) -> Any:
        acl: Any = ModuleType("acl")
        acl.prof = RecordingProf(codes or {}, range_start)
        acl.rt = SimpleNamespace(get_device_count=lambda: devices)
        monkeypatch.setitem(sys.modules, "acl", acl)
        return AclCollector(), acl.prof

    return make


@pytest.mark.parametrize(
    ("options", "mask"),
    [
        ({"level": "none"}, 0x80),
        ({"level": 0, "marks": False}, 0x801),
        ({"level": 1, "marks": False}, 0x27),
        ({"level": 1, "marks": False, "aic_metrics": "none"}, 0x27),
        ({"level": 2, "marks": False}, 0x12F),
        ({"level": 1}, 0xA7),
        ({"level": 1, "marks": False, "l2": True}, 0x37),
        ({"level": 1, "marks": False, "memory": True}, 0x1027),
        ({"level": 0, "marks": False, "hccl": True, "aicpu": True, "runtime_api": True}, 0x929),
        ({"level": 0, "marks": False, "training_trace": True, "op_attr": True}, 0x4841),
        ({"level": 0, "marks": False, "ge_api": "l0"}, 0xA01),
        ({"level": 0, "marks": False, "ge_api": "l1"}, 0x1000801),
    ],
)
def test_the_mask_of_each_option(options: dict[str, Any], mask: int) -> None:
    assert data_type_config(Options(**options)) == mask


def test_memory_and_host_samples_are_set_before_the_start() -> None:
    assert settings(Options(memory=True, host_sys=("mem", "cpu"))) == {3: "50", 8: "cpu,mem"}
    assert settings(Options()) == {}


def test_hardware_samples_have_a_frequency() -> None:
    assert settings(Options(memory=True, memory_freq=20, llc_profiling="write")) == {3: "20", 4: "write"}
    assert settings(Options(sys_io=True, sys_interconnection=True, dvpp=True)) == {5: "100", 6: "50", 7: "50"}
    assert settings(
        Options(sys_io=True, io_freq=9, sys_interconnection=True, interconnection_freq=8, dvpp=True, dvpp_freq=7)
    ) == {5: "9", 6: "8", 7: "7"}
    assert settings(Options(host_sys_usage=("cpu", "mem"), host_sys_usage_freq=5)) == {9: "cpu,mem", 10: "5"}
    assert settings(Options(storage_limit=500)) == {1: "500MB"}


def test_the_devices_asked_for_are_collected_from(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector()
    acl.start(Options(devices=(1,)), tmp_path)
    acl.stop()
    assert ("create_config", [1], 1, 0, 0xA7) in prof.calls


def test_pyacl_gaps_are_refused_first(collector: Any) -> None:
    acl, prof = collector()
    with pytest.raises(OptionsError, match=r"acl has no modules: .*--collector torch_npu, kineto"):
        acl.check(Options(modules=True))
    assert prof.calls == []


def test_a_run_makes_every_call_in_order(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector()
    acl.start(Options(memory=True, aic_metrics="L2Cache"), tmp_path)
    acl.stop()
    assert prof.calls == [
        ("init", str(tmp_path)),
        ("create_config", [0, 1], 6, 0, 0x10A7),
        ("set_config", 3, "50"),
        ("start", 7),
        ("stop", 7),
        ("destroy_config", 7),
        ("finalize",),
    ]


def test_other_code_may_collect_before_between_and_after_two_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As long as an init stands, any other is refused: npuprof keeps none beyond its run."""
    simulator.reset()
    monkeypatch.setitem(sys.modules, "acl", simulated)
    collector = AclCollector()

    def others() -> None:
        assert simulated.prof.init(str(tmp_path / "others")) == 0
        assert simulated.prof.finalize() == 0

    others()
    for run in ("first", "second"):
        collector.start(Options(), tmp_path / run)
        assert simulated.prof.init(str(tmp_path / "others")) == 100002
        collector.stop()
        others()
        assert [path.parent.name for path in tmp_path.glob("*/PROF_*")].count(run) == 1
    simulator.reset()


def test_a_warm_up_makes_every_call_before_the_start(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector()
    acl.warmup(Options(memory=True), tmp_path)
    warm = [name for name, *_ in prof.calls]
    assert warm == ["init", "create_config", "set_config", "warmup"]
    acl.start(Options(memory=True), tmp_path)
    assert prof.calls[len(warm) :] == [("start", 7)]
    acl.stop()
    assert [name for name, *_ in prof.calls[len(warm) + 1 :]] == ["stop", "destroy_config", "finalize"]


def test_a_warm_up_without_a_start_is_ended_without_a_stop(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector()
    acl.warmup(Options(), tmp_path)
    acl.stop()
    acl.stop()
    assert [name for name, *_ in prof.calls][3:] == ["destroy_config", "finalize"]


def test_a_warm_up_that_is_refused_is_ended(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector({"warmup": 148047})
    with pytest.raises(CollectorError, match=r"acl.prof.warmup returned 148047"):
        acl.warmup(Options(), tmp_path)
    assert [name for name, *_ in prof.calls][-2:] == ["destroy_config", "finalize"]


def test_without_warmup_in_pyacl_the_other_calls_are_made(
    collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acl, prof = collector()
    only = SimpleNamespace(**{name: getattr(prof, name) for name in ("init", "create_config", "start", "stop")})
    only.destroy_config, only.finalize = prof.destroy_config, prof.finalize
    monkeypatch.setattr(sys.modules["acl"], "prof", only)
    acl.warmup(Options(), tmp_path)
    acl.start(Options(), tmp_path)
    acl.stop()
    names = [name for name, *_ in prof.calls]
    assert names == ["init", "create_config", "start", "stop", "destroy_config", "finalize"]


@pytest.mark.parametrize(
    ("call", "code", "told"),
    [
        ("start", 100042, "PROF_ALREADY_RUN.*another profiler is already running.*stop it"),
        ("init", 200006, "FEATURE_UNSUPPORTED.*unset PROFILING_MODE"),
        ("init", 100002, "REPEAT_INITIALIZE.*acl.prof.finalize"),
        ("start", 100003, "INVALID_FILE.*choose a directory"),
        ("set_config", 100010, r"set_config\(3, '50'\) returned 100010"),
        ("start", 424242, "424242, which is not a documented code"),
        ("create_config", 0, "create_config refused devices"),
    ],
)
def test_a_refused_call_is_named_and_everything_begun_is_ended(
    collector: Any, tmp_path: Path, call: str, code: int, told: str
) -> None:
    acl, prof = collector({call: code})
    with pytest.raises(CollectorError, match=told):
        acl.start(Options(memory=True), tmp_path)
    made = [name for name, *_ in prof.calls]
    assert ("finalize" in made) == (call != "init")
    assert ("destroy_config" in made) == (call not in ("init", "create_config"))
    assert "stop" not in made


def test_an_interrupt_during_init_finalizes_what_that_began(
    collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acl, prof = collector()

    def interrupted(path: str) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(prof, "init", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        acl.start(Options(), tmp_path)
    assert prof.calls == [("finalize",)]


@pytest.mark.parametrize("codes", [{"stop": 100043, "finalize": 100037}, {"stop": 100043, "finalize": 100001}, {}])
def test_ending_twice_is_normal(collector: Any, tmp_path: Path, codes: dict[str, int]) -> None:
    acl, _ = collector(codes)
    acl.start(Options(), tmp_path)
    acl.stop()


def test_a_failing_stop_still_gives_the_handles_back(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector({"stop": 500005})
    acl.start(Options(), tmp_path)
    with pytest.raises(CollectorError, match=r"acl.prof.stop returned 500005 \(PROFILING_FAILURE\)"):
        acl.stop()
    assert [name for name, *_ in prof.calls][-2:] == ["destroy_config", "finalize"]


def test_an_interrupt_between_two_calls_leaves_none_of_them_out(
    collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acl, prof = collector()
    acl.start(Options(), tmp_path)

    def interrupted(config: int) -> int:
        prof.calls.append(("stop", config))
        raise KeyboardInterrupt

    monkeypatch.setattr(prof, "stop", interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        acl.stop()
    assert prof.calls[-3:] == [("stop", 7), ("destroy_config", 7), ("finalize",)]


@pytest.mark.parametrize("returned", [(5, 0), (0, 5), 5])
def test_a_range_is_closed_by_the_id_that_pyacl_gave(collector: Any, tmp_path: Path, returned: Any) -> None:
    acl, prof = collector(range_start=returned)
    acl.start(Options(), tmp_path)
    acl.range_stop(acl.range_start("forward"))
    assert prof.calls[-3:] == [("range_start", 11), ("range_stop", 5), ("destroy_stamp", 11)]


def test_a_range_that_pyacl_refuses_is_no_range(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector(range_start=(0, 100000))
    acl.start(Options(), tmp_path)
    assert acl.range_start("forward") == 0
    assert prof.calls[-1] == ("destroy_stamp", 11)


def test_a_long_message_is_cut_at_a_character_within_126_bytes(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector()
    acl.start(Options(), tmp_path)
    acl.mark("x" + "é" * 100)
    _, _, text, length = next(call for call in prof.calls if call[0] == "set_stamp_trace_message")
    assert text == "x" + "é" * 62
    assert length == 125


def test_without_marks_no_stamp_is_made(collector: Any, tmp_path: Path) -> None:
    acl, prof = collector()
    acl.start(Options(marks=False), tmp_path)
    acl.mark("tick")
    acl.range_stop(acl.range_start("forward"))
    assert prof.calls[-1] == ("start", 7)


def test_no_device_is_an_error_that_names_the_driver(collector: Any, tmp_path: Path) -> None:
    acl, _ = collector(devices=(0, 0))
    with pytest.raises(CollectorError, match="npu-smi"):
        acl.start(Options(), tmp_path)


@pytest.mark.parametrize("broken", [ImportError("no"), OSError("libascendcl.so"), RuntimeError("backend")])
def test_an_import_that_fails_means_absent(monkeypatch: pytest.MonkeyPatch, broken: Exception) -> None:
    def fail(name: str) -> ModuleType:
        raise broken

    monkeypatch.setattr("npuprof.collectors.acl.importlib.import_module", fail)
    with pytest.raises(FrontEndAbsentError, match="--collector simulator"):
        AclCollector().check(Options())


def test_another_package_named_acl_is_not_pyacl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acl", ModuleType("acl"))
    with pytest.raises(FrontEndAbsentError, match="not pyACL"):
        AclCollector().check(Options())


def test_shapes_below_level_1_are_refused(collector: Any) -> None:
    acl, _ = collector()
    with pytest.raises(OptionsError, match="level 1"):
        acl.check(Options(level=0, shapes=True))


def test_auto_prefers_an_installed_pyacl_even_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.collectors.registry.is_installed", lambda _: True)
    assert registry.choose("auto").collector.name == "acl"


def test_auto_simulates_where_nothing_is_installed_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.collectors.registry.is_installed", lambda _: False)
    choice = registry.choose("auto")
    assert choice.collector.simulated
    assert "simulated" in choice.reason


@pytest.mark.parametrize("form", [2, 3, 4])
def test_stream_moment_is_marked_like_pyacl(collector: Any, tmp_path: Path, form: int) -> None:
    acl, prof = collector()
    asked: list[tuple[Any, ...]] = []

    def mark_ex(*arguments: Any) -> int:
        if len(arguments) != form:
            raise TypeError(f"mark_ex() takes {form} arguments")
        asked.append(arguments)
        return 0

    prof.mark_ex = mark_ex
    acl.start(Options(), tmp_path)
    acl.mark("h\u00e9", stream=281)
    acl.stop()
    assert asked == {2: [("h\u00e9", 281)], 3: [("h\u00e9", 3, 281)], 4: []}[form]
    assert (("mark", 11) in prof.calls) == (form == 4)
