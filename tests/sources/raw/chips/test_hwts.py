"""Recordings of chips with a hardware task scheduler come back as tasks, kernels, metrics and steps."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from tests.sources.raw.writers.chips import HwtsDirectory
from tests.sources.raw.writers.directory import DEVICE_COUNTER, START_NS, RawDirectory

_EVENTS = "0x8,0xa,0x9,0xb,0xc,0xd,0x54,0x55"


@pytest.fixture
def directory(tmp_path: Path) -> HwtsDirectory:
    return HwtsDirectory(tmp_path / "PROF_910A")


def _messages(decoded: Decoded) -> dict[str, int]:
    notes = decoded.notes.to_frame()
    return dict(zip(notes["message"], notes["count"], strict=True))


def _count(decoded: Decoded, part: str) -> int:
    return sum(count for message, count in _messages(decoded).items() if part in message)


def test_kernel_has_exact_name_and_times(directory: HwtsDirectory) -> None:
    directory.launch(1000, "first", 513, 60002)
    directory.launch(3000, "second", 515, 60007)
    decoded = raw.read(directory.finish())
    kernels = decoded.tables["kernels"]
    assert kernels[["op_name", "stream_id", "task_id"]].to_numpy().tolist() == [
        ["first", 513, 60002],
        ["second", 515, 60007],
    ]
    assert kernels["start_ns"].tolist() == [START_NS + 550 * 10, START_NS + 1550 * 10]  # ticks of 10 ns
    assert kernels["duration_ns"].tolist() == [500, 500]
    assert decoded.info.chip == "Ascend 910"
    assert _count(decoded, "hwts") == 0


def test_an_odd_frequency_keeps_its_decimals(directory: HwtsDirectory) -> None:
    directory.set_facts(hwts_frequency="99.999001")
    directory.task(10**9, 10**9 + 1, 3, 0)
    (task,) = raw.read(directory.finish()).tables["tasks"].to_dict("records")
    assert task["start_ns"] == START_NS + 10**9 * 10**9 // 99_999_001


def test_starts_and_ends_without_the_other_are_counted(directory: HwtsDirectory) -> None:
    directory.log(0, 10, 3, 1)
    directory.log(0, 20, 3, 1, lost=True)
    directory.log(0, 30, 3, 1)  # the end of the one before is lost
    directory.log(1, 40, 3, 1)
    directory.log(1, 50, 4, 1)
    decoded = raw.read(directory.finish())
    tasks = decoded.tables["tasks"]
    assert tasks[["start_ns", "duration_ns", "stream_id"]].to_numpy().tolist() == [[START_NS + 300, 100, 3]]
    assert _count(decoded, "starts or ends of tasks without the other") == 2
    assert _count(decoded, "lost or out of order") == 1


def test_records_out_of_order_still_pair(directory: HwtsDirectory) -> None:
    for number in range(4):
        directory.task(100 * number, 100 * number + 50, 3, 7)
    path = directory.finish()
    file = path / "device_0/data/hwts.data.0.slice_0"
    content = file.read_bytes()
    records = [content[at : at + 64] for at in range(0, len(content), 64)]
    file.write_bytes(b"".join(records[::-1]))
    decoded = raw.read(path)
    assert decoded.tables["tasks"]["duration_ns"].tolist() == [500] * 4
    assert _count(decoded, "lost or out of order") == 7


def test_high_bits_are_no_part_of_a_stream(directory: HwtsDirectory) -> None:
    directory.task(10, 20, 0x8000 | 5, 1)
    assert raw.read(directory.finish()).tables["tasks"]["stream_id"].tolist() == [5]


def test_types_of_tasks_are_named(directory: HwtsDirectory) -> None:
    for kind in (0, 1, 9, 12):
        directory.task(100 * kind, 100 * kind + 10, 3, kind, sqe=kind)
    tasks = raw.read(directory.finish()).tables["tasks"]
    assert tasks["task_type"].tolist() == ["AI_CORE", "AI_CPU", "SDMA", "12"]


def test_the_vector_cores_log_is_read_too(tmp_path: Path) -> None:
    directory = HwtsDirectory(tmp_path / "PROF_610", platform_version="2")
    directory.task(10, 20, 3, 1)
    directory.log(0, 30, 3, 1, kind=2, log="aiv_data")
    directory.log(1, 50, 3, 1, kind=2, log="aiv_data")
    tasks = raw.read(directory.finish()).tables["tasks"]
    assert tasks[["task_type", "duration_ns"]].to_numpy().tolist() == [["AI_CORE", 100], ["AI_VECTOR_CORE", 200]]


def test_ai_cpu_tasks_come_from_their_states(directory: HwtsDirectory) -> None:
    directory.task(10, 20, 3, 1)
    for stamp, state in ((25, 0), (30, 1), (90, 2)):
        directory.state(stamp, 3, 2, state)
    directory.state(40, 3, 4, 1, kind=5)  # of another kind of task
    decoded = raw.read(directory.finish())
    tasks = decoded.tables["tasks"]
    assert tasks[["task_type", "start_ns", "duration_ns"]].to_numpy().tolist() == [
        ["AI_CORE", START_NS + 100, 100],
        ["AI_CPU", START_NS + 300, 600],
    ]


def test_ai_cpu_tasks_that_the_log_holds_are_not_counted_twice(tmp_path: Path) -> None:
    directory = HwtsDirectory(tmp_path / "PROF_310P", platform_version="4")
    directory.task(30, 90, 3, 2, sqe=1)
    for stamp, state in ((30, 1), (90, 2)):
        directory.state(stamp, 3, 2, state)
    assert len(raw.read(directory.finish()).tables["tasks"]) == 1


def test_wrapped_task_ids_are_distinguished(directory: HwtsDirectory) -> None:
    directory.task(10, 20, 3, 7)
    directory.flip(50, 3, 1)
    directory.task(100, 120, 3, 7)
    tasks = raw.read(directory.finish()).tables["tasks"]
    assert tasks["batch_id"].tolist() == [0, 1]


def test_records_of_blocks_are_noted(directory: HwtsDirectory) -> None:
    directory.task(10, 20, 3, 7)
    directory.log(2, 12, 3, 7)
    directory.log(4, 13, 3, 7)
    decoded = raw.read(directory.finish())
    assert len(decoded.tables["tasks"]) == 1
    assert _count(decoded, "blocks and counters") == 2


def _counted(directory: HwtsDirectory, **sample: str) -> pd.DataFrame:
    path = directory.finish()
    file = path / "device_0" / "sample.json"
    file.write_text(
        file.read_text().replace("}", "".join(f', "{key}": "{value}"' for key, value in sample.items()) + "}")
    )
    return raw.read(path).tables["kernels"]


def test_counters_go_to_the_kernels_of_their_ids_in_order(directory: HwtsDirectory) -> None:
    for number in range(4):
        directory.launch(1000 * number, f"op {number}", 3, number % 2)  # ids come again, as in a graph
        directory.counters(3, number % 2, 1000 * (number + 1), 100 * (number + 1), 250)
    kernels = _counted(directory)
    assert kernels["op_name"].tolist() == [f"op {number}" for number in range(4)]
    assert kernels["total_cycles"].tolist() == [1000, 2000, 3000, 4000]
    assert kernels["vec_ratio"].tolist() == [0.1] * 4  # 0x8
    assert kernels["mac_ratio"].tolist() == [250 / cycles for cycles in (1000, 2000, 3000, 4000)]  # 0xa
    # cycles at 1000 MHz over 8 blocks, which 20 cores run at once
    assert kernels["aicore_time_ns"].tolist() == [125, 250, 375, 500]
    assert not [name for name in kernels if str(name).startswith(("aic_", "aiv_"))]


@pytest.mark.slow
def test_memory_bound_is_loading_over_computing(directory: HwtsDirectory) -> None:
    for task, loading in ((0, 300), (1, 0)):
        directory.launch(1000 * task, "op", 3, task)
        directory.counters(3, task, 1000, 100 * (1 - task), 200 * (1 - task), 0, 0, loading)
    bound = _counted(directory)["memory_bound"].tolist()
    assert bound[0] == pytest.approx(1.5)
    assert np.isnan(bound[1])  # nothing computed


def test_cube_utilization_is_of_the_cores_and_the_duration(directory: HwtsDirectory) -> None:
    directory.launch(0, "op", 3, 0)
    directory.counters(3, 0, 5000)
    (percent,) = _counted(directory)["cube_utilization_percent"]
    assert percent == pytest.approx(5000 / (1000 * 20 * 0.5) * 100)


def test_ambiguous_counters_are_left_out_and_counted(directory: HwtsDirectory) -> None:
    for number in range(2):
        directory.launch(1000 * number, f"op {number}", 3, 5)
    directory.launch(2000, "sound", 3, 6)
    directory.counters(3, 5, 111)
    directory.counters(3, 6, 222)
    directory.counters(9, 9, 333)
    decoded = raw.read(directory.finish())
    kernels = decoded.tables["kernels"].set_index("op_name")["total_cycles"]
    assert kernels["sound"] == 222
    assert kernels[["op 0", "op 1"]].isna().all()
    assert _count(decoded, "aicore: counters of no kernel, or not as many") == 2


@pytest.mark.parametrize(("chip", "weight_of_int32"), [("1", 64), ("4", 16)])
def test_vector_cores_have_their_own_counters(chip: str, weight_of_int32: int, tmp_path: Path) -> None:
    directory = HwtsDirectory(tmp_path / "PROF_chip", platform_version=chip)
    directory.task(10, 20, 3, 1)
    directory.task(30, 50, 3, 1, sqe=2)
    directory.counters(3, 1, 500, 100)
    directory.counters(3, 1, 1000, 0, 0, 0, 10, core="aiVectorCore")
    path = directory.finish()
    file = path / "device_0" / "sample.json"
    file.write_text(
        file.read_text().replace(
            f'"aiv_profiling_events": "{_EVENTS}"', '"aiv_profiling_events": "0x4b,0x4c,0x4d,0x4e,0x4f"'
        )
    )
    kernels = raw.read(path).tables["kernels"]
    assert kernels["total_cycles"].tolist() == [500, 1000]
    assert kernels["vec_ratio"].tolist()[0] == 0.2
    assert np.isnan(kernels["vector_fops"].tolist()[0])
    assert kernels["vector_fops"].tolist()[1] == 10 * weight_of_int32
    assert kernels["cube_utilization_percent"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("chip", "events", "hit_rate", "victim_rate"),
    [("1", "0x5b,0x59,0x5c", 0.75, 0.25), ("4", "0x6a,0x78,0x79,0x71", 0.6, 0.4)],
)
def test_rates_of_the_cache_are_of_the_events_of_the_chip(
    chip: str, events: str, hit_rate: float, victim_rate: float, tmp_path: Path
) -> None:
    directory = HwtsDirectory(tmp_path / "PROF_chip", platform_version=chip)
    directory.launch(0, "op", 3, 5)
    values = {"0x5b": 6, "0x59": 8, "0x5c": 2, "0x6a": 6, "0x78": 8, "0x79": 2, "0x71": 4}
    counted = [values[event] for event in events.split(",")]
    record = struct.pack("<HHHH8Q", 0, 3, 5, 0, *counted, *[0] * (8 - len(counted)))
    directory.streams["device_0/data/l2_cache.data.0"] += record
    path = directory.finish()
    file = path / "device_0" / "sample.json"
    file.write_text(file.read_text().replace("{", f'{{"l2CacheTaskProfilingEvents": "{events}", ', 1))
    (row,) = raw.read(path).statistics["l2_cache"].to_dict("records")
    assert (row["Op Name"], row["Hit Rate"], row["Victim Rate"]) == ("op", hit_rate, victim_rate)


def test_without_its_frequency_a_910a_counts_10_ns_ticks(directory: HwtsDirectory) -> None:
    directory.set_facts(hwts_frequency="")
    directory.task(10, 20, 3, 0)
    decoded = raw.read(directory.finish())
    assert decoded.tables["tasks"]["duration_ns"].tolist() == [100]
    assert _count(decoded, "hwts_frequency is missing; 100 MHz is assumed") == 1


def test_cores_sampled_by_time_do_not_differ_by_their_number(directory: HwtsDirectory) -> None:
    directory.sample(31, 1000, 100)
    directory.sample(0, 2000, 100, stream="aiVectorCore")
    path = directory.finish()
    file = path / "device_0" / "sample.json"
    file.write_text(file.read_text().replace("{", '{"ai_core_profiling_mode": "sample-based", ', 1))
    counters = raw.read(path).tables["counters"]
    found = counters.loc[counters["counter"] == "vec_ratio", ["instance", "value"]]
    assert found.to_numpy().tolist() == [["31", 0.1], ["0", 0.05]]


def test_training_trace_gives_the_iterations_of_models(directory: HwtsDirectory) -> None:
    for index in (1, 2):
        for tag, stamp in ((0, 0), (2, 10), (3, 80), (4, 90)):
            directory.trace(1000 * index + stamp, index, tag, 7)
    directory.launch(2100, "inside", 3, 0)  # runs at 1100 to 1150 ticks: between both
    directory.launch(2000, "in the first", 3, 1)  # runs at 1050 to 1100 ticks
    decoded = raw.read(directory.finish())
    steps = decoded.tables["steps"]
    assert steps[["step", "start_ns", "duration_ns", "model_id"]].to_numpy().tolist() == [
        [1, START_NS + 10_000, 900, 7],
        [2, START_NS + 20_000, 900, 7],
    ]
    assert decoded.tables["kernels"].set_index("op_name")["step"].to_dict()["in the first"] == 1


def test_training_trace_of_2020_gives_iterations_from_end_to_end(directory: HwtsDirectory) -> None:
    for stamp, tag in ((5, 1), (80, 2), (100, 255), (120, 1), (190, 2), (210, 255), (230, 1)):
        directory.trace_2020(stamp, tag)
    directory.trace_2020(215, 10001)  # of a collective
    decoded = raw.read(directory.finish())
    steps = decoded.tables["steps"]
    assert steps[["step", "start_ns", "duration_ns"]].to_numpy().tolist() == [
        [1, START_NS + 50, 950],
        [2, START_NS + 1000, 1100],
    ]
    assert steps["model_id"].isna().all()
    assert _count(decoded, "training_trace: other tags") == 1


def _old_folder(path: Path) -> Path:
    """A folder as of 2020: a data folder of slices with long names, no control files."""
    (path / "data").mkdir(parents=True)
    hwts = b""
    for task in range(3):
        for tag in (0, 1):
            head = (tag | (2 * task + tag) % 16 << 4, 0, 0x6BD3, 0, task)
            hwts += struct.pack("<BBHHHQ12I", *head, 5_000_000 + 100 * task + 40 * tag, 513, *[0] * 11)
    (path / "data" / "hwts.log.data.45.dev.profiler_default_tag.1.slice_0").write_bytes(hwts[:200])
    (path / "data" / "hwts.log.data.45.dev.profiler_default_tag.1.slice_1").write_bytes(hwts[200:])
    trace = b"".join(struct.pack("<QHHQ", tag, 0, 513, 5_000_000 + stamp) for tag, stamp in ((1, 0), (255, 240)))
    (path / "data" / "training_trace.46.dev.profiler_default_tag.1.slice_0").write_bytes(trace)
    (path / "data" / "Framework.host.task_desc_info.1.slice_0").write_bytes(b"x" * 256)
    return path


@pytest.mark.parametrize("given", ["JOB", "JOB/data", "."])
def test_a_folder_of_2020_opens_with_relative_times_and_says_so(given: str, tmp_path: Path) -> None:
    _old_folder(tmp_path / "JOB")
    run = npuprof.load(tmp_path / given)
    assert run.tasks[["start_ns", "duration_ns", "device_id"]].to_numpy().tolist() == [
        [0, 400, 1],
        [1000, 400, 1],
        [2000, 400, 1],
    ]
    assert run.steps[["step", "start_ns", "duration_ns"]].to_numpy().tolist() == [[1, 0, 2400]]
    assert run.kernels["step"].tolist() == [1, 1, 1]
    said = " ".join(run.notes["message"])
    assert "times count from the first task record" in said
    assert "info.json.1 is missing" in said
    assert "Framework.host.task_desc_info.1: not decoded" in said
    assert "kernels have no names" in said


def test_a_damaged_stamp_is_not_taken_for_the_first(tmp_path: Path) -> None:
    path = _old_folder(tmp_path / "JOB")
    file = path / "data" / "hwts.log.data.45.dev.profiler_default_tag.1.slice_0"
    content = bytearray(file.read_bytes())
    content[8 + 7] = 0x7F  # the highest byte of the first stamp
    file.write_bytes(content)
    decoded = raw.read(path)
    assert decoded.tables["tasks"]["start_ns"].tolist() == [
        600,
        1600,
    ]  # counted from the end of the task whose start was damaged
    assert _count(decoded, "impossible time stamp") == 1


def test_the_control_files_of_an_old_folder_date_it(tmp_path: Path) -> None:
    path = _old_folder(tmp_path / "JOB")
    made = RawDirectory(tmp_path / "PROF", platform_version="1", devices=2).path / "device_1"
    for file in made.glob("*.*1"):
        (path / file.name).write_bytes(file.read_bytes())
    run = npuprof.load(path)
    assert run.tasks["start_ns"].tolist()[0] == START_NS + (5_000_000 - DEVICE_COUNTER) * 20  # 50 MHz are told here
    assert run.info.chip == "Ascend 910"


@pytest.mark.slow
def test_the_real_recording_of_2020_has_its_tasks(samples: Path) -> None:
    path = samples / "raw" / "hwts_910A_2020"
    run = npuprof.load(path)
    # Of 62,847 records 31,462 are starts; ends, paired with the last start before them, make 31,385 tasks.
    assert len(run.tasks) == len(run.kernels) == 31_385
    assert int(run.tasks["duration_ns"].sum()) == 7_490_981_920  # 749,098,192 ticks of 10 ns
    assert run.tasks["start_ns"].min() == 0
    assert run.tasks["stream_id"].nunique() == 59
    notes = run.notes.set_index("message")["count"]
    assert notes["hwts.data: starts or ends of tasks without the other skipped"] == 62_847 - 2 * 31_385
    assert not any("lost or out of order" in message for message in notes.index)
    by_hand = _paired_by_hand(path / "data" / "hwts.log.data.45.dev.profiler_default_tag.1.slice_0")
    assert run.tasks.groupby("stream_id")["duration_ns"].sum().to_dict() == by_hand


def _paired_by_hand(file: Path) -> dict[int, int]:
    """Sum up the nanoseconds of tasks by stream, a record after the other."""
    started: dict[tuple[int, int], int] = {}
    sums: dict[int, int] = {}
    for head, _, _, _, task, counter, stream, *_ in struct.iter_unpack("<BBHHHQ12I", file.read_bytes()):
        if head & 7 == 0:
            started[stream, task] = counter
        elif (stream, task) in started:
            sums[stream] = sums.get(stream, 0) + (counter - started.pop((stream, task))) * 10
    return sums
