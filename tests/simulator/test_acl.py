"""The simulated pyACL: return codes in both meanings, runtime calls, markers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npuprof import simulator
from npuprof.simulator import Simulator, acl
from tests.simulator import reading

Steps = list[tuple[str, int]]

# What is called, and what it gives; "other" is a configuration that differs from "config". {path} can be created.
CASES: dict[str, tuple[Steps, Steps | None]] = {
    "init twice": ([("init", 0), ("init", 100002)], None),
    "start without init": ([("start", 0), ("stop", 0)], [("start", 100043)]),
    "stop without init": ([("stop", 0)], [("stop", 100043)]),
    "finalize without init": ([("finalize", 0)], [("finalize", 100043)]),
    "finalize twice": (
        [("init", 0), ("finalize", 0), ("finalize", 0)],
        [("init", 0), ("finalize", 0), ("finalize", 100037)],
    ),
    "stop without start": ([("init", 0), ("stop", 0)], [("init", 0), ("stop", 100043)]),
    "start twice": (
        [("init", 0), ("start", 0), ("start", 0), ("stop", 0)],
        [("init", 0), ("start", 0), ("start", 100042), ("stop", 0)],
    ),
    "start with another configuration": (
        [("init", 0), ("start", 0), ("start other", 100010), ("stop", 0)],
        [("init", 0), ("start", 0), ("start other", 100042), ("stop", 0)],
    ),
    "stop with another configuration": ([("init", 0), ("start", 0), ("stop other", 100010), ("stop", 0)], None),
    "finalize without stop": ([("init", 0), ("start", 0), ("finalize", 0), ("init", 0)], None),
    "start and stop twice": ([("init", 0), ("start", 0), ("stop", 0), ("start", 0), ("stop", 0)], None),
    "init to finalize twice": ([("init", 0), ("finalize", 0)] * 2, None),
    "mask of nothing": ([("init", 0), ("start empty", 0), ("stop empty", 0)], None),
    "unknown bit": ([("init", 0), ("start unknown bit", 200007)], None),
    "unknown metric": ([("init", 0), ("start metric 50", 100000)], None),
    "metrics without a metric": ([("init", 0), ("start no metric", 0), ("stop no metric", 0)], None),
    "start of nothing": ([("init", 0), ("start null", 100000)], None),
    "destroy of nothing": ([("destroy null", 100000)], None),
    "destroy while running": ([("init", 0), ("start", 0), ("destroy", 0), ("stop", 0)], None),
    "warm-up": ([("init", 0), ("warmup", 0), ("start", 0), ("warmup", 148047), ("stop", 0)], None),
    "stop of one that was destroyed": ([("init", 0), ("start", 0), ("destroy", 0), ("finalize", 0)], None),
}
CONFIGS = {
    "": (1, 0x27),
    "other": (1, 0x801),
    "empty": (1, 0),
    "unknown bit": (1, 1 << 40),
    "metric 50": (50, 0x27),
    "no metric": (0xFF, 0x27),
}


@pytest.mark.parametrize("semantics", ["current", "legacy"])
@pytest.mark.parametrize("case", CASES)
def test_return_codes(case: str, semantics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    simulator.configure(semantics=semantics)  # type: ignore[arg-type]  # a parameter of the test
    current, legacy = CASES[case]
    handles = {name: acl.prof.create_config([0], metric, 0, mask) for name, (metric, mask) in CONFIGS.items()}
    handles["null"] = 0
    for call, expected in current if semantics == "current" or legacy is None else legacy:
        verb, _, config = call.partition(" ")
        function: Callable[..., int] = getattr(acl.prof, {"destroy": "destroy_config"}.get(verb, verb))
        arguments = {"init": ["out"], "finalize": []}.get(verb, [handles[config]])
        assert function(*arguments) == expected, call


@pytest.mark.parametrize(
    ("path", "code"),
    [("", 100000), ("x" * 4096, 100000), ("a\0b", 100000), ("a;b", 100003), ("with space", 0), ("/proc/none/such", 0)],
)
def test_paths_of_init(path: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert acl.prof.init(path) == code


def test_a_path_that_cannot_be_made_is_noticed_at_start(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert acl.prof.init(str(blocked / "below")) == 0
    assert acl.prof.start(acl.prof.create_config([0], 1, 0, 0x27)) == 100003
    assert acl.prof.finalize() == 0


@pytest.mark.parametrize("devices", [[], [2], [-1], [0, 0], [0, 1, 1]])
def test_device_lists_that_cannot_be(devices: list[int]) -> None:
    assert acl.prof.create_config(devices, 1, 0, 0x27) == 0


def test_a_busy_profiler_refuses_to_start(tmp_path: Path) -> None:
    simulator.configure(busy=True)
    assert acl.prof.init(str(tmp_path)) == 0
    assert acl.prof.start(acl.prof.create_config([0], 1, 0, 0x27)) == 100042
    assert not list(tmp_path.iterdir())


def test_dynamic_mode_excludes_init(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILING_MODE", "dynamic")
    assert acl.prof.init("out") == 200006


def test_a_null_configuration_means_defaults_on_the_devices_in_use(tmp_path: Path) -> None:
    assert acl.rt.set_device(1) == 0
    assert acl.prof.init(str(tmp_path)) == 0
    assert acl.prof.start(0) == 0
    assert acl.prof.stop(0) == 0
    (recording,) = tmp_path.iterdir()
    assert (recording / "device_1").is_dir()
    assert not (recording / "device_0").exists()


@pytest.mark.parametrize(
    ("kind", "value", "code"),
    [
        (1, "200MB", 0), (1, "199MB", 100010), (1, "4294967295MB", 0), (1, "4294967296MB", 100010),
        (1, "300", 100010), (2, "x", 100010), (3, "1", 0), (3, "100", 0), (3, "101", 100010), (3, "0", 100010),
        (3, "-1", 100010), (4, "read", 0), (4, "both", 100010), (5, "100", 0), (6, "50", 0), (6, "51", 100010),
        (7, "100", 0), (8, "cpu,mem,disk,network,osrt,numa", 0), (8, "", 0), (8, "gpu", 100010), (9, "cpu,mem", 0),
        (10, "50", 0), (10, "51", 100010), (11, "1", 100010), (12, "any", 0), (13, "1", 100010), (14, "1", 100010),
        (15, "1", 100000), (16, "p", 0), (0, "1", 100000), (17, "1", 100000), (3, "1" * 257, 100000),
        (3, None, 100000),
    ],
)  # fmt: skip
def test_settings(kind: int, value: str, code: int) -> None:
    assert acl.prof.set_config(kind, value) == code


def _start(tmp_path: Path, mask: int) -> int:
    assert acl.prof.init(str(tmp_path)) == 0
    config = acl.prof.create_config([0], 0xFF, 0, mask)
    assert acl.prof.start(config) == 0
    return config


def test_markers_need_a_recording_that_wants_them(tmp_path: Path) -> None:
    def answers() -> list[object]:
        stamp = acl.prof.create_stamp()
        return [stamp, acl.prof.mark(stamp), acl.prof.push(stamp), acl.prof.pop(), acl.prof.range_start(stamp)]

    expected = [0, -1, 100000, -1, (0, 100000)]
    assert answers() == expected
    _start(tmp_path, 0x1)
    assert answers() == expected


def test_marker_codes(tmp_path: Path) -> None:
    _start(tmp_path, 0x80)
    assert acl.rt.set_device(0) == 0
    stream, _ = acl.rt.create_stream()
    stamp = acl.prof.create_stamp()
    assert acl.prof.set_stamp_trace_message(stamp, "x" * 126) == 0
    assert acl.prof.set_stamp_trace_message(stamp, "x" * 127) == -1
    assert acl.prof.set_stamp_trace_message(0, "x") == 100000
    assert acl.prof.pop() == -1
    assert acl.prof.range_stop(99) == -1
    assert [acl.prof.push(stamp), acl.prof.push(stamp), acl.prof.pop(), acl.prof.pop(), acl.prof.pop()] == [
        0,
        0,
        0,
        0,
        -1,
    ]
    assert acl.prof.mark_ex("", stream) == -1
    assert acl.prof.mark_ex("text", 0) == -1
    assert acl.prof.mark_ex("x" * 156, stream) == -1
    assert acl.prof.mark_ex("text", stream) == 0
    assert acl.prof.mark_ex("text", 4, stream) == 0


def test_subscription_finds_no_model() -> None:
    assert acl.prof.model_subscribe(1, 2) == acl.prof.model_unsubscribe(1) == acl.prof.model_un_subscribe(1) == 100011
    assert acl.prof.get_op_desc_size() == (80, 0)


def test_acl_is_initialised_once(tmp_path: Path) -> None:
    assert acl.finalize() == 100001
    assert [acl.init(), acl.init(), acl.finalize(), acl.finalize()] == [0, 100002, 0, 100037]
    config = tmp_path / "acl.json"
    assert acl.init(str(config)) == 100003
    config.write_text('{"profiler": {"switch": "on", "training_trace": "on"}}')
    assert acl.init(str(config)) == 200006
    config.write_text("{}")
    assert acl.init(str(config)) == 0
    assert "910B" in acl.get_soc_name()


def test_contexts_belong_to_threads() -> None:
    assert acl.rt.get_device() == (0, 107002)
    assert acl.rt.create_stream() == (0, 107002)
    assert acl.rt.set_device(7) == 107001
    assert acl.rt.set_device(1) == 0
    assert acl.rt.get_device() == (1, 0)
    context, code = acl.rt.get_context()
    assert code == 0
    other, _ = acl.rt.create_context(0)
    assert acl.rt.get_device() == (0, 0)
    assert acl.rt.set_context(context) == 0
    assert acl.rt.get_device() == (1, 0)
    assert acl.rt.destroy_context(context) == 0
    assert acl.rt.get_context() == (0, 107002)
    assert acl.rt.set_context(other) == 0
    assert acl.rt.reset_device(0) == 0
    assert acl.rt.get_context() == (0, 107002)
    assert acl.rt.get_device_count() == (2, 0)


def test_streams_and_events() -> None:
    acl.rt.set_device(0)
    stream, _ = acl.rt.create_stream()
    first, _ = acl.rt.create_event()
    second, _ = acl.rt.create_event()
    assert acl.rt.record_event(first, 0) == 0
    assert acl.rt.stream_wait_event(stream, first) == 0
    assert acl.rt.record_event(second, stream) == 0
    assert acl.rt.synchronize_event(second) == 0
    assert acl.rt.event_elapsed_time(first, second)[0] > 0
    assert acl.rt.synchronize_stream(stream) == acl.rt.synchronize_device() == 0
    assert [acl.rt.destroy_stream(stream), acl.rt.destroy_stream(stream)] == [0, 107000]
    assert acl.rt.record_event(first, stream) == 107003
    assert [acl.rt.destroy_event(first), acl.rt.destroy_event(first)] == [0, 107000]


def test_copies_move_contents_between_host_and_device() -> None:
    acl.rt.set_device(0)
    values = np.arange(1000, dtype=np.int32)
    size = values.nbytes
    device, code = acl.rt.malloc(size, 0)
    assert code == 0
    assert acl.rt.memcpy(device, size, acl.util.numpy_to_ptr(values), size, 1) == 0
    twin, _ = acl.rt.malloc(size)
    assert acl.rt.memcpy_async(twin, size, device, size, 3, 0) == 0
    host, _ = acl.rt.malloc_host(size)
    assert acl.rt.memcpy(host, size, twin, size, 2) == 0
    assert np.array_equal(np.frombuffer(acl.util.ptr_to_bytes(host, size), np.int32), values)
    assert acl.rt.memset(device, size, 0xFF, 8) == 0
    assert acl.rt.memcpy(host, size, device, 12, 2) == 0
    assert ctypes.string_at(host, 12) == b"\xff" * 8 + values[2:3].tobytes()
    assert [acl.rt.free_host(host), acl.rt.free_host(host)] == [0, 107000]


def test_addresses_that_are_not_the_devices_are_refused() -> None:
    acl.rt.set_device(0)
    address, _ = acl.rt.malloc(512)
    buffer = ctypes.create_string_buffer(1024)
    host = ctypes.addressof(buffer)
    assert acl.rt.memcpy(address, 1024, host, 1024, 1) == 107000  # beyond the block
    assert acl.rt.memcpy(address, 16, host, 32, 1) == 107000  # more than the target is said to hold
    assert acl.rt.memcpy(host, 1024, host, 16, 3) == 107000
    assert [acl.rt.free(address), acl.rt.free(address)] == [0, 107000]
    assert acl.rt.memcpy(host, 1024, address, 16, 2) == 107000


def test_a_little_of_a_large_block_can_be_written() -> None:
    acl.rt.set_device(0)
    address, _ = acl.rt.malloc(40 << 30)
    assert acl.rt.memset(address + (39 << 30), 16, 7, 16) == 0
    host, _ = acl.rt.malloc_host(32)
    assert acl.rt.memcpy(host, 32, address + (39 << 30), 32, 2) == 0
    assert acl.util.ptr_to_bytes(host, 32) == b"\7" * 16 + bytes(16)


def test_memory_runs_out(machine: Simulator) -> None:
    acl.rt.set_device(0)
    free_bytes, total_bytes, _ = acl.rt.get_mem_info(1)
    assert free_bytes == total_bytes == machine.chip.hbm_bytes
    address, _ = acl.rt.malloc(total_bytes)
    assert acl.rt.malloc(1) == (0, 207001)
    assert acl.rt.get_mem_info(1)[0] == 0
    assert acl.rt.free(address) == 0
    assert acl.rt.malloc(0) == (0, 100000)


def test_two_starts_make_two_recordings(tmp_path: Path) -> None:
    config = _start(tmp_path, 0x801)
    assert acl.prof.stop(config) == acl.prof.start(config) == acl.prof.stop(config) == 0
    assert len(list(tmp_path.iterdir())) == 2


def test_calls_are_recorded_with_their_thread(tmp_path: Path) -> None:
    config = _start(tmp_path, 0x801)
    acl.rt.set_device(0)
    acl.rt.synchronize_device()
    acl.prof.stop(config)
    (recording,) = tmp_path.iterdir()
    assert reading.api_names(recording) == ["aclrtSynchronizeDevice"]
