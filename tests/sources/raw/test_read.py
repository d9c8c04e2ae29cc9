"""Records that a test writes by the specification come back as rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.errors import SourceError
from npuprof.sources import raw
from tests.sources.raw.writers.directory import START_NS, RawDirectory, Tensor

from .conftest import raw_sample


@pytest.fixture
def directory(tmp_path: Path) -> RawDirectory:
    return RawDirectory(tmp_path / "PROF_test")


def test_two_threads_that_launch_at_once_keep_their_own_operators(directory: RawDirectory) -> None:
    directory.launch(0, "one", 3, 0, thread=7)
    directory.launch(2, "two", 4, 0, thread=8)
    kernels = raw.read(directory.finish()).tables["kernels"]
    assert kernels[["op_name", "stream_id"]].to_numpy().tolist() == [["one", 3], ["two", 4]]
    assert kernels["start_ns"].tolist() == [START_NS + 1000, START_NS + 1020]


def test_devices_of_one_process_are_distinguished(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_test", devices=2)
    directory.launch(0, "zero", 3, 0, device=0)
    directory.launch(400, "one", 3, 0, device=1)
    directory.launch(800, "zero again", 3, 1, device=0)
    decoded = raw.read(directory.finish())
    kernels = decoded.tables["kernels"]
    assert kernels[["op_name", "device_id"]].to_numpy().tolist() == [["zero", 0], ["one", 1], ["zero again", 0]]
    assert kernels["wait_ns"].tolist() == [0, 0, 7000]  # nothing came before on device 1
    assert decoded.info.devices == [0, 1]
    assert set(decoded.tables["overlap"]["device_id"]) == {0, 1}


def test_device_span_includes_copies(directory: RawDirectory) -> None:
    directory.launch(0, "Add", 3, 0)  # on the device from 100 to 200 ticks of the host
    for stamp, stream, task, kind, sqe in ((300, 4, 0, 5, 11), (310, 5, 0, 64, 3), (320, 5, 1, 65, 3)):
        directory.api(5000, 1001, stamp - 1, stamp + 1)
        directory.track(stamp, stream, task, kind)  # a copy, and what turns profiling on and off
        directory.task(task * 400 + (stamp + 100) // 2, task * 400 + (stamp + 300) // 2, stream, task, sqe=sqe)
    decoded = raw.read(directory.finish())
    assert set(decoded.tables["tasks"]["task_type"]) >= {"MEMCPY_ASYNC", "PROFILING_ENABLE", "PROFILING_DISABLE"}
    spent = decoded.tables["overlap"].groupby("kind", observed=True)["duration_ns"].sum().to_dict()
    assert spent == {"computing": 1000, "free": 4000}  # the copy ends at 600


def test_a_pair_of_point_events_is_one_call(directory: RawDirectory) -> None:
    for stamp in (10, 90, 200):
        directory.api(15000, 1, stamp, None, item="model")
    decoded = raw.read(directory.finish())
    (call,) = decoded.tables["api"].to_dict("records")
    assert (call["start_ns"], call["duration_ns"], call["level"]) == (START_NS + 100, 800, "model")
    assert "without a partner" in " ".join(decoded.notes.to_frame()["message"])


def test_records_from_before_the_collection_are_dropped_and_counted(directory: RawDirectory) -> None:
    directory.launch(-500, "early", 3, 0)
    directory.launch(500, "late", 3, 1)
    decoded = raw.read(directory.finish())
    assert decoded.tables["kernels"]["op_name"].tolist() == ["late"]
    assert len(decoded.tables["api"]) == 3
    assert "before the collection began" in " ".join(decoded.notes.to_frame()["message"])


def test_a_kernel_outside_any_launch_keeps_its_type(directory: RawDirectory) -> None:
    directory.track(20, 3, 0, kind=0)
    directory.task(50, 60, 3, 0, sqe=0)
    (kernel,) = raw.read(directory.finish()).tables["kernels"].to_dict("records")
    assert kernel["core"] == "AI_CORE"
    assert kernel["op_name"] != kernel["op_name"]  # absent
    assert kernel["block_num"] is None or kernel["block_num"] != kernel["block_num"]


def test_more_than_five_tensors_are_one_list_in_order(directory: RawDirectory) -> None:
    shapes = [(size, 2) for size in range(1, 8)]
    inputs: list[Tensor] = [(0, 2, 1, shape) for shape in shapes[:6]]
    directory.launch(0, "wide", 3, 0)
    directory.tensors(40, "wide", *inputs[:5])
    directory.tensors(40, "wide", inputs[5], (1, 29 | 5 << 8, 27, shapes[6]))
    directory.launch(1000, "plain", 3, 1)
    directory.tensors(1040, "plain", (0, 2, 0, ()), (1, 0xFFFFFFFF, 99, (4,)))
    kernels = raw.read(directory.finish()).tables["kernels"]
    assert kernels["input_shapes"].tolist() == ["1,2;2,2;3,2;4,2;5,2;6,2", ""]
    assert kernels["output_shapes"].tolist() == ["7,2", "4"]
    assert kernels["output_formats"].tolist() == ["FRACTAL_NZ:5", "UNDEFINED"]
    assert kernels["output_dtypes"].tolist() == ["DT_BF16", "99"]


def test_a_copy_above_its_maximum_is_several_tasks(directory: RawDirectory) -> None:
    directory.api(20000, 1, 0, 50)
    directory.copy(20, 250, 100, 2)
    for task in range(3):
        directory.track(20, 3, task, kind=5)
        directory.task(100 + 50 * task, 140 + 50 * task, 3, task, sqe=11)
    tasks = raw.read(directory.finish()).tables["tasks"]
    assert tasks["copied_bytes"].tolist() == [100, 100, 50]
    assert set(tasks["copy_direction"]) == {"device to host"}
    assert set(tasks["task_type"]) == {"MEMCPY_ASYNC"}


def test_operators_fused_in_one_launch_are_distinguished_by_context(directory: RawDirectory) -> None:
    directory.api(10000, 5, 0, 50, item="fused")
    directory.track(20, 3, 0, kind=52)
    for name, context in (("one", 5), ("two", 6)):
        directory.node(40, name, "Op")
        directory.contexts(40, name, context)
    directory.task(100, 200, 3, 0, sqe=0)
    directory.part(110, 150, 3, 0, 6, kind=1)
    directory.part(150, 190, 3, 0, 5, kind=0)
    directory.part(190, 195, 3, 0, 9, kind=8)
    decoded = raw.read(directory.finish())
    kernels = decoded.tables["kernels"]
    assert kernels[["op_name", "context_id"]].to_numpy().tolist() == [["two", 6], ["one", 5]]
    assert decoded.tables["tasks"]["task_type"].tolist().count("SDMA") == 0  # the host's name of the task comes first
    assert len(decoded.tables["tasks"]) == 4


def test_step_tags_come_before_model_tags(directory: RawDirectory) -> None:
    for step in range(2):
        directory.step(1000 * step, step, 60000)
        directory.step(1000 * step + 900, step, 60001)
    directory.step(5, 1, 0, model=7)
    directory.launch(200, "inside", 3, 0)
    directory.launch(1850, "between", 3, 1)
    decoded = raw.read(directory.finish())
    assert decoded.tables["steps"][["step", "start_ns", "duration_ns"]].to_numpy().tolist() == [
        [0, START_NS, 18_000],
        [1, START_NS + 20_000, 18_000],
    ]
    assert decoded.tables["kernels"]["step"].tolist()[0] == 0
    assert decoded.tables["kernels"]["step"].isna().tolist() == [False, True]


@pytest.mark.slow
def test_slices_are_joined_by_the_number_in_their_names(directory: RawDirectory) -> None:
    for task in range(12):
        directory.launch(1000 * task, f"op {task}", 3, task)
    path = directory.finish()
    whole = raw.read(path)
    file = path / "device_0/data/stars_soc.data.0.slice_0"
    content = file.read_bytes()
    for number, start in enumerate(range(0, len(content), 100)):  # cut anywhere; slice_10 comes after slice_9
        file.with_name(f"stars_soc.data.0.slice_{number}").write_bytes(content[start : start + 100])
    sliced = raw.read(path)
    assert len(whole.tables["tasks"]) == 12
    for name, frame in whole.tables.items():
        assert frame.equals(sliced.tables[name])


def test_a_name_may_hold_colons_and_the_later_one_wins(directory: RawDirectory) -> None:
    directory.launch(0, "a::b:c", 3, 0)
    path = directory.finish()
    dictionary = path / "host/data/unaging.additional.hash_dic.slice_0"
    dictionary.write_text(f"{directory.hash_of('a::b:c')}:old\nnonsense\n" + dictionary.read_text())
    decoded = raw.read(path)
    assert decoded.tables["kernels"]["op_name"].tolist() == ["a::b:c"]
    notes = decoded.notes.to_frame()
    assert notes.loc[notes["message"] == "a line is damaged; skipped", "count"].tolist() == [1]


@pytest.mark.parametrize(
    ("stream", "task", "fixed"),
    [
        (5, 9, (5, 9)),
        (0x1000 | 0x2000 | 5, 9, (5, 0x2009)),  # the task's high bits lie in the stream
        (0x2000 | 9, 0x3000 | 5, (5, 0x3009)),  # stream and task are swapped
    ],
)
def test_bits_of_streams_and_tasks_are_put_right(
    stream: int, task: int, fixed: tuple[int, int], directory: RawDirectory
) -> None:
    directory.task(10, 20, stream, task)
    tasks = raw.read(directory.finish()).tables["tasks"]
    assert tasks[["stream_id", "task_id"]].to_numpy().tolist() == [list(fixed)]


def test_a_folder_without_sides_is_refused(tmp_path: Path) -> None:
    assert not raw.recognises(tmp_path)
    with pytest.raises(SourceError, match="no host or device_N folder"):
        raw.read(tmp_path)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    assert not raw.recognises(tmp_path / "nothing")
    with pytest.raises(SourceError, match="cannot be listed"):
        raw.read(tmp_path / "nothing")


def test_a_raw_sample_is_recognised_by_its_folder_alone(samples: Path) -> None:
    path = raw_sample(samples, "minimal")
    assert raw.recognises(path)
    assert not raw.recognises(path / "host")
    assert not raw.recognises(path / "host" / "info.json")


def test_a_host_without_a_device_is_read(samples: Path) -> None:
    path = next((samples / "torch_npu" / "host_only_raw").rglob("PROF_*"))
    decoded = raw.read(path)
    assert decoded.tables["tasks"].empty
    assert decoded.info.environment["hostname"]
