"""Operators of a model as they run: batches, callbacks, the forms of pyACL, and an end that leaves nothing."""

from __future__ import annotations

import gc
import itertools
import os
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import simulator
from npuprof.errors import CollectorError, NpuprofWarning, SessionBusyError, SessionError
from npuprof.options import Options
from npuprof.recordings.clock import SystemClock
from npuprof.session.session import Session
from npuprof.session.streams import ModelStream
from npuprof.simulator import acl
from npuprof.simulator.models import perceptron, write_model
from tests.budget import examples


def _open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir() if path.exists()}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """No file and no thread may be left open by what a test has closed."""
    simulator.reset()
    before = _open_files()
    yield
    gc.collect()
    assert not [thread.name for thread in threading.enumerate() if "stream" in thread.name or "subscr" in thread.name]
    assert _open_files() <= before  # another may be closed meanwhile
    simulator.reset()


@pytest.fixture
def model(tmp_path: Path) -> int:
    assert acl.rt.set_device(0) == 0
    model_id, code = acl.mdl.load_from_file(str(write_model(tmp_path / "perceptron.om", perceptron())))
    assert code == 0
    return model_id


def session(tmp_path: Path) -> Session:
    return Session(Options(collector="simulator", activities=("npu",), output=tmp_path / "out"), title="a test")


@pytest.mark.slow
def test_batches_hold_the_operators_of_each_execution(tmp_path: Path, model: int) -> None:
    before_ns = SystemClock().realtime_ns()
    with session(tmp_path).stream(model) as stream:
        for _ in range(3):
            assert acl.mdl.execute(model, 0, 0) == 0
    after_ns = SystemClock().realtime_ns()
    rows = pd.concat(list(stream), ignore_index=True)
    assert rows["op_name"].tolist() == [node.name for node in perceptron()] * 3
    assert rows["op_type"].tolist()[:3] == ["MatMulV3", "Add", "Relu"]
    assert set(rows["model_id"]) == {model}
    assert rows["start_ns"].between(before_ns, after_ns).all()
    assert rows["start_ns"].is_monotonic_increasing
    assert (rows["duration_ns"] > 0).all()
    assert stream.problems == []


@pytest.mark.slow
def test_rows_arrive_while_the_model_still_runs(tmp_path: Path, model: int) -> None:
    arrived = threading.Event()
    with session(tmp_path).stream([model], callback=lambda batch: arrived.set() if len(batch) else None) as stream:
        acl.mdl.execute(model, 0, 0)
        assert arrived.wait(30)
        assert len(stream.take(30)) == 6
        assert len(stream.take()) == 0
    assert list(stream) == []


@pytest.mark.slow
def test_a_loop_over_batches_ends_when_another_thread_closes(tmp_path: Path, model: int) -> None:
    stream = session(tmp_path).stream(model)

    def work() -> None:
        acl.rt.set_device(0)
        acl.mdl.execute(model, 0, 0)
        stream.close()

    worker = threading.Thread(target=work)
    worker.start()
    assert sum(len(batch) for batch in stream) == 6
    worker.join()


@pytest.mark.slow
def test_an_asynchronous_execution_is_described_when_it_has_run(tmp_path: Path, model: int) -> None:
    created, _ = acl.rt.create_stream()
    with session(tmp_path).stream(model) as stream:
        assert acl.mdl.execute_async(model, 0, 0, created) == 0
        assert len(stream.take(30)) == 6


@pytest.mark.slow
def test_collection_and_subscription_exclude_each_other(tmp_path: Path, model: int) -> None:
    with session(tmp_path).stream(model):
        with pytest.raises(SessionBusyError, match=r"a test streams operators.*EK0007.*close it first"):
            session(tmp_path).start()
        with pytest.raises(SessionBusyError, match="close it first"):
            session(tmp_path).stream(model)
        assert acl.prof.init(str(tmp_path)) == 148047
    with session(tmp_path) as running, pytest.raises(SessionBusyError, match=r"EK0007.*stop it first"):
        running.stream(model)
    assert running.recording.problems == []


@pytest.mark.slow
def test_pyacl_refusals_leave_nothing(tmp_path: Path, model: int) -> None:
    with pytest.raises(CollectorError, match=r"model_subscribe\(77\) returned 100011 \(INVALID_MODEL_ID\)"):
        session(tmp_path).stream([model, 77])
    session(tmp_path).stream(model).close()
    assert acl.prof.init(str(tmp_path)) == 0
    with pytest.raises(CollectorError, match="148047"):
        session(tmp_path).stream(model)
    acl.prof.finalize()


@pytest.mark.slow
@pytest.mark.parametrize("models", [[], ()])
def test_models_must_be_named(tmp_path: Path, models: Any) -> None:
    with pytest.raises(SessionError, match="ids of loaded models"):
        session(tmp_path).stream(models)


@pytest.mark.slow
def test_a_front_end_without_models_says_so(tmp_path: Path) -> None:
    from tests.fakes import FakeCollector

    with pytest.raises(SessionError, match="fake cannot subscribe to models"):
        Session(Options(output=tmp_path), collector=FakeCollector()).stream(1)


@pytest.mark.slow
def test_a_forgotten_stream_ends_by_itself(tmp_path: Path, model: int) -> None:
    stream = session(tmp_path).stream(model)
    acl.mdl.execute(model, 0, 0)
    del stream
    gc.collect()
    with session(tmp_path):
        pass


@pytest.mark.slow
def test_closing_twice_closes_once(tmp_path: Path, model: int) -> None:
    stream = session(tmp_path).stream(model)
    stream.close()
    stream.close()
    assert stream.problems == []


@pytest.mark.slow
def test_failing_callback_is_reported_once(tmp_path: Path, model: int) -> None:
    calls: list[int] = []

    def broken(batch: object) -> None:
        calls.append(1)
        raise ZeroDivisionError("of the user's")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with session(tmp_path).stream(model, broken) as stream:
            acl.mdl.execute(model, 0, 0)
            acl.mdl.execute(model, 0, 0)
        assert sum(len(batch) for batch in stream) == 12
    assert (len(calls), [warning.category for warning in told]) == (1, [NpuprofWarning])
    assert "ZeroDivisionError: of the user's" in stream.problems[0]


@pytest.mark.slow
def test_a_callback_may_close_the_stream_that_calls_it(tmp_path: Path, model: int) -> None:
    opened: list[Any] = []
    stream = session(tmp_path).stream(model, lambda batch: opened[0].close())
    opened.append(stream)
    acl.mdl.execute(model, 0, 0)
    assert sum(len(batch) for batch in stream) == 6
    stream._native._reader.join(30)
    assert stream.problems == []


_ROW = struct.Struct("<QQ64x")


class OtherPyacl:
    """An `acl.prof` of another version: the order of tuples and the spelling are the test's."""

    def __init__(self, *, code_first: bool, spelling: str, closes: bool = False) -> None:
        self.calls: list[str] = []
        self._swap = code_first
        self._pipe = -1
        self._closes = closes
        setattr(self, spelling, self._unsubscribe)

    def _two(self, value: Any) -> tuple[Any, Any]:
        return (0, value) if self._swap else (value, 0)

    def create_subscribe_config(self, times: int, metric: int, pipe: int) -> int:
        assert (times, metric) == (1, 0xFF)
        self._pipe = pipe
        return 5

    def model_subscribe(self, model: int, config: int) -> int:
        # In pieces that end within a description.
        data = b"".join(_ROW.pack(1 << 60, 10 + number) for number in range(5))
        os.write(self._pipe, data[:100])
        os.write(self._pipe, data[100:])
        return 0

    def _unsubscribe(self, model: int) -> int:
        self.calls.append("unsubscribe")
        if self._closes:
            os.close(self._pipe)
        return 0

    def destroy_subscribe_config(self, config: int) -> int:
        self.calls.append("destroy")
        return 0

    def get_op_desc_size(self) -> Any:
        return self._two(_ROW.size)

    def get_op_num(self, data: int, size: int) -> Any:
        return self._two(size // _ROW.size)

    def _row(self, data: int, size: int, index: int) -> Any:
        import ctypes

        return _ROW.unpack_from(ctypes.string_at(data, size), index * _ROW.size)

    def get_op_start(self, data: int, size: int, index: int) -> int:
        return int(self._row(data, size, index)[0])

    def get_op_end(self, data: int, size: int, index: int) -> int:
        return sum(self._row(data, size, index))

    def get_op_duration(self, data: int, size: int, index: int) -> Any:
        return self._two(self._row(data, size, index)[1])

    def get_op_name(self, data: int, size: int, index: int, length: int) -> Any:
        return self._two(f"op{index}")

    def get_op_type(self, data: int, size: int, index: int, length: int) -> Any:
        return self._two("Add")

    def get_model_id(self, data: int, size: int, index: int) -> int:
        return 3


def other(**how: Any) -> Any:
    made: Any = ModuleType("acl")
    made.prof = OtherPyacl(**how)
    made.rt = SimpleNamespace(get_context=lambda: (9, 0), set_context=lambda context: 0)
    return made


@pytest.mark.slow
@given(st.lists(st.integers(1, 5 * _ROW.size), max_size=8))
@settings(max_examples=examples(20))
def test_rows_are_the_same_however_the_pipe_is_cut(cuts: list[int]) -> None:
    module = other(code_first=False, spelling="model_unsubscribe")
    data = b"".join(_ROW.pack(1 << 60, 10 + number) for number in range(5))
    places = sorted({0, *cuts, len(data)})

    def write(model: int, config: int) -> int:
        for start, end in itertools.pairwise(places):
            os.write(module.prof._pipe, data[start:end])
        return 0

    module.prof.model_subscribe = write
    stream = ModelStream(module, [3], SystemClock())
    stream.close()
    assert [row.duration_ns for row in stream.take(0)] == [10, 11, 12, 13, 14]


@pytest.mark.slow
@pytest.mark.parametrize("code_first", [False, True])
@pytest.mark.parametrize("spelling", ["model_unsubscribe", "model_un_subscribe"])
@pytest.mark.parametrize("closes", [False, True])
def test_every_order_and_spelling_is_understood(code_first: bool, spelling: str, closes: bool) -> None:
    module = other(code_first=code_first, spelling=spelling, closes=closes)
    stream = ModelStream(module, [3], SystemClock())
    rows: list[Any] = []
    while len(rows) < 5:
        rows += stream.take(30)
    stream.close()
    assert [row.duration_ns for row in rows] == [10, 11, 12, 13, 14]
    assert {(row.start_ns, row.op_type, row.model_id) for row in rows} == {(1 << 60, "Add", 3)}
    assert module.prof.calls == ["unsubscribe", "destroy"]
    assert stream.problems == []


@pytest.mark.slow
def test_closed_descriptor_stays_with_its_owner() -> None:
    module = other(code_first=False, spelling="model_unsubscribe")
    stream = ModelStream(module, [3], SystemClock())
    os.close(module.prof._pipe)
    taken = os.open(os.devnull, os.O_RDONLY)
    stream.close()
    os.fstat(taken)
    os.close(taken)


def _no_config(module: Any) -> None:
    module.prof.create_subscribe_config = lambda *given: 0


def _no_size(module: Any) -> None:
    module.prof.get_op_desc_size = lambda: (100000, 80)


def _silly_size(module: Any) -> None:
    module.prof.get_op_desc_size = lambda: (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [_no_config, _no_size, _silly_size])
def test_a_start_that_fails_closes_what_it_opened(spoil: Callable[[Any], None]) -> None:
    module = other(code_first=False, spelling="model_unsubscribe")
    spoil(module)
    with pytest.raises(CollectorError):
        ModelStream(module, [3], SystemClock())


@pytest.mark.slow
def test_a_getter_that_fails_ends_the_stream_and_is_reported() -> None:
    module = other(code_first=False, spelling="model_unsubscribe")
    module.prof.get_op_num = lambda data, size: (0, 100000)
    stream = ModelStream(module, [3], SystemClock())
    assert stream.take(30) == []
    stream.close()
    assert "get_op_num returned (0, 100000)" in stream.problems[0]


@pytest.mark.slow
def test_rows_that_nobody_takes_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuprof.session.streams._MOST_ROWS", 3)
    stream = ModelStream(other(code_first=False, spelling="model_unsubscribe"), [3], SystemClock())
    stream.close()
    assert (len(stream.take(0)), stream.dropped) == (3, 2)


@pytest.mark.slow
def test_public_name_is_a_method(tmp_path: Path, model: int) -> None:
    with npuprof.profile(collector="simulator", output=tmp_path).stream(model) as stream:
        acl.mdl.execute(model, 0, 0)
    (batch,) = stream
    assert list(batch.columns) == ["start_ns", "duration_ns", "op_name", "op_type", "model_id"]
