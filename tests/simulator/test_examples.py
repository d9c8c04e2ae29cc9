"""The programs of the vendor's page on profiling with pyACL, in their order of calls, on the simulated ``acl``.

Source: pyACL's page "Profile Data Collection".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof.simulator import Simulator, acl
from npuprof.simulator.models import perceptron, write_model

_API, _TIME, _METRICS, _AICPU, _L2, _HCCL, _TX = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x80
_MEMORY_FREQUENCY, _ARITHMETIC, _NONE = 3, 0, 0xFF

Marking = Callable[[int, Callable[[], None]], None]


@pytest.fixture
def model(machine: Simulator, tmp_path: Path) -> int:
    assert acl.rt.set_device(0) == 0
    model_id, code = acl.mdl.load_from_file(str(write_model(tmp_path / "model.om", perceptron())))
    assert code == 0
    return model_id


def _profiled(model: int, path: Path, mask: int, marking: Marking) -> npuprof.Profile:
    """Make the calls of an example around one execution."""
    assert acl.prof.init(str(path)) == 0
    config = acl.prof.create_config([0], _ARITHMETIC, 0, mask)
    assert config != 0
    assert acl.prof.set_config(_MEMORY_FREQUENCY, "15") == 0
    assert acl.prof.start(config) == 0

    def execute() -> None:
        assert acl.mdl.execute(model, 0, 0) == 0

    marking(model, execute)
    assert acl.prof.stop(config) == 0
    assert acl.prof.finalize() == 0
    assert acl.prof.destroy_config(config) == 0
    (recording,) = path.glob("PROF_*")
    run = npuprof.load(recording)
    assert isinstance(run, npuprof.Profile)
    return run


def _stamp(message: str) -> int:
    stamp = acl.prof.create_stamp()
    assert stamp != 0
    assert acl.prof.set_stamp_trace_message(stamp, message, len(message)) == 0
    return stamp


@pytest.mark.slow
def test_a_models_run_is_collected(model: int, tmp_path: Path) -> None:
    mask = _API | _TIME | _AICPU | _METRICS | _L2 | _HCCL
    run = _profiled(model, tmp_path / "out", mask, lambda _, execute: execute())
    assert len(run.kernels) == len(perceptron())
    assert run.kernels["aiv_vec_fp32_ratio"].notna().any()


def _moments(_: int, execute: Callable[[], None]) -> None:
    for message in ("model_load_mark", "model_exec_mark"):
        stamp = _stamp(message)
        assert acl.prof.mark(stamp) == 0
        acl.prof.destroy_stamp(stamp)
    execute()


def _moments_on_a_stream(_: int, execute: Callable[[], None]) -> None:
    stream, _code = acl.rt.create_stream()
    assert acl.prof.mark_ex("model execute start", stream) == 0
    execute()
    assert acl.prof.mark_ex("model execute stop", stream) == 0


def _range_of_a_thread(_: int, execute: Callable[[], None]) -> None:
    stamp = _stamp("acl.mdl.execute_duration")
    assert acl.prof.push(stamp) == 0
    execute()
    assert acl.prof.pop(stamp) == 0
    acl.prof.destroy_stamp(stamp)


def _range_across_threads(_: int, execute: Callable[[], None]) -> None:
    stamp = _stamp("acl.mdl.execute_duration")
    range_id, code = acl.prof.range_start(stamp)
    assert code == 0
    execute()
    assert acl.prof.range_stop(range_id) == 0
    acl.prof.destroy_stamp(stamp)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("marking", "messages"),
    [
        (_moments, ["model_load_mark", "model_exec_mark"]),
        (_moments_on_a_stream, ["model execute start", "model execute stop"]),
        (_range_of_a_thread, ["acl.mdl.execute_duration"]),
        (_range_across_threads, ["acl.mdl.execute_duration"]),
    ],
)
def test_events_and_ranges_are_marked(model: int, tmp_path: Path, marking: Marking, messages: list[str]) -> None:
    run = _profiled(model, tmp_path / "out", _API | _TIME | _TX, marking)
    assert run.marks["message"].tolist() == messages
    assert len(run.kernels) == len(perceptron())


def test_a_thread_reads_the_operators_of_a_subscribed_model(model: int) -> None:
    read, write = os.pipe()
    config = acl.prof.create_subscribe_config(1, _NONE, write)
    assert acl.prof.model_subscribe(model, config) == 0
    context, code = acl.rt.get_context()
    assert code == 0
    seen: list[tuple[Any, ...]] = []

    def describe(data: int, length: int) -> None:
        count, _ = acl.prof.get_op_num(data, length)
        for index in range(count):
            name, _ = acl.prof.get_op_name(data, length, index, 275)
            kind, _ = acl.prof.get_op_type(data, length, index, 65)
            start, end = (get(data, length, index) for get in (acl.prof.get_op_start, acl.prof.get_op_end))
            assert acl.prof.get_op_duration(data, length, index) == end - start
            seen.append((acl.prof.get_model_id(data, length, index), name, kind))

    def read_all(arguments: Any) -> None:
        file, own_context = arguments
        assert acl.rt.set_context(own_context) == 0
        size, _ = acl.prof.get_op_desc_size()
        while data := os.read(file, size * 10):
            held = np.array(data).tobytes()
            describe(acl.util.bytes_to_ptr(held), len(held))

    thread, code = acl.util.start_thread(read_all, [read, context])
    assert code == 0
    assert acl.mdl.execute(model, 0, 0) == 0
    assert acl.prof.model_unsubscribe(model) == 0
    os.close(write)  # the reader's loop ends with the last writer
    assert acl.util.stop_thread(thread) == 0
    os.close(read)
    assert acl.prof.destroy_subscribe_config(config) == 0
    assert seen == [(model, node.name, node.op_type) for node in perceptron()]
    assert acl.util.stop_thread(thread) != 0
