"""Recordings of the stars v6 family: 32-bit task ids, ten counters, blocks and fused tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npuprof.sources import raw
from npuprof.sources.base import Decoded
from tests.sources.raw.writers.chips import V6Directory
from tests.sources.raw.writers.directory import START_NS

_BIG = 0x0001_0005  # the low half alone is another task's id


@pytest.fixture
def directory(tmp_path: Path) -> V6Directory:
    return V6Directory(tmp_path / "PROF_950")


def _count(decoded: Decoded, part: str) -> int:
    notes = decoded.notes.to_frame()
    return int(notes.loc[notes["message"].str.contains(part, regex=False), "count"].sum())


def _set_events(directory: V6Directory, aic: str, aiv: str) -> None:
    events = {"ai_core_profiling_events": aic, "aiv_profiling_events": aiv}
    (directory.path / "device_0" / "sample.json").write_text(json.dumps(events))


def test_tasks_of_32_bit_ids_join_their_launches(directory: V6Directory) -> None:
    directory.launch(0, "small", 70_000, 5)
    directory.launch(1000, "big", 4, _BIG)
    decoded = raw.read(directory.finish())
    kernels = decoded.tables["kernels"]
    assert kernels[["op_name", "stream_id", "task_id"]].to_numpy().tolist() == [
        ["small", 70_000, 5],
        ["big", 4, _BIG],
    ]
    assert kernels["batch_id"].isna().all()
    assert kernels["start_ns"].tolist() == [START_NS + 1000, START_NS + 11_000]
    assert len(decoded.tables["links"]) == 2
    assert decoded.info.chip == "Ascend 950"


def test_context_ids_of_the_host_do_not_hide_an_operator(directory: V6Directory) -> None:
    directory.launch(0, "op", 4, _BIG)
    directory.contexts(40, "op", 5, 6)
    assert raw.read(directory.finish()).tables["kernels"]["op_name"].tolist() == ["op"]


def test_first_task_track_has_the_high_half(directory: V6Directory) -> None:
    directory.old_track(10, 4, _BIG)
    directory.task(50, 60, 4, _BIG)
    (task,) = raw.read(directory.finish()).tables["tasks"].to_dict("records")
    assert (task["stream_id"], task["task_id"], task["task_type"]) == (4, _BIG, "AI_CORE")


def test_of_two_forms_of_task_track_the_second_counts(directory: V6Directory) -> None:
    directory.launch(0, "op", 4, _BIG)
    directory.old_track(15, 9, _BIG)
    decoded = raw.read(directory.finish())
    assert decoded.tables["kernels"]["stream_id"].tolist() == [4]
    assert _count(decoded, "beside those of task_track_v2") == 1


def test_a_task_that_no_host_knows_has_no_stream(directory: V6Directory) -> None:
    directory.task(10, 30, 0, 0xFFFF_FFFF, sqe=1)
    decoded = raw.read(directory.finish())
    (task,) = decoded.tables["tasks"].to_dict("records")
    assert decoded.tables["tasks"]["stream_id"].isna().all()
    assert (task["task_id"], task["duration_ns"], task["task_type"]) == (0xFFFF_FFFF, 400, "AI_VECTOR_CORE")


def test_an_id_that_runs_again_pairs_in_order(directory: V6Directory) -> None:
    for number in range(3):
        directory.task(100 * number, 100 * number + 10 * (number + 1), 0, _BIG)
    assert raw.read(directory.finish()).tables["tasks"]["duration_ns"].tolist() == [200, 400, 600]


def test_ten_counters_give_the_metrics_of_the_chip(directory: V6Directory) -> None:
    _set_events(directory, "0x501,0x301,0x1,0x701,0x202,0x203,0x34,0x35,0x714,0x324", "0x501,0x1,0x202,0x203")
    directory.launch(0, "cube", 3, _BIG)  # runs from tick 50 to 100
    directory.counters(52, 92, _BIG, 1000, 0, 400, 100, 50, 200, 150, 80, 8, 300, 7)
    directory.launch(1000, "vector", 3, 6)
    directory.counters(555, 580, 6, 500, 250, 50, 100, 25, core_type=1)
    kernels = raw.read(directory.finish()).tables["kernels"].set_index("op_name")
    cube, vector = kernels.loc["cube"], kernels.loc["vector"]
    assert cube["aic_total_time_ns"] == 40 * 20  # its own stamps, not cycles
    assert cube["aic_total_cycles"] == 1000
    shares = {name: cube[f"aic_{name}_ratio"] for name in ("mac", "scalar", "mte1", "mte2", "mte3", "fixpipe")}
    assert shares == {"mac": 0.4, "scalar": 0.1, "mte1": 0.05, "mte2": 0.2, "mte3": 0.15, "fixpipe": 0.3}
    assert cube["aic_mac_time_ns"] == pytest.approx(0.4 * 800)
    assert cube["aic_icache_miss_rate"] == 0.1
    assert vector["aiv_total_time_ns"] == 25 * 20
    assert vector["aiv_vec_ratio"] == 0.5
    assert vector[["aic_total_cycles"]].isna().all()
    assert cube[["aiv_total_cycles"]].isna().all()
    assert cube["cube_utilization_percent"] == pytest.approx(1000 / (1000 * 20 * 1) * 100)


def test_second_core_is_timed_by_cycles(directory: V6Directory) -> None:
    directory.api(10000, 5, 5, 45, item="mix")
    directory.track(20, 3, 6)
    directory.node(40, "mix", "Op", core=4, blocks=8 | 2 << 16)  # two vector blocks go with each
    directory.task(50, 100, 3, 6)
    directory.counters(52, 92, 6, 1000, flags=3)
    directory.counters(53, 95, 6, 3200, core_type=1, flags=2)
    (kernel,) = raw.read(directory.finish()).tables["kernels"].to_dict("records")
    assert kernel["core"] == "MIX_AIC"
    assert kernel["aic_total_time_ns"] == 800
    assert kernel["aiv_total_time_ns"] == 3200 / 16  # at 1000 MHz, 16 blocks on 40 cores
    assert kernel["aiv_total_cycles"] == 3200


def test_counters_that_overflowed_or_belong_to_no_kernel_are_counted(directory: V6Directory) -> None:
    directory.launch(0, "op", 3, 6)
    directory.counters(52, 92, 6, 1000, flags=5)
    directory.counters(52, 92, 7, 1000)
    directory.counters(52, 192, 6, 1000)  # ends after the task
    decoded = raw.read(directory.finish())
    assert "aic_total_cycles" not in decoded.tables["kernels"]
    assert _count(decoded, "overflowed") == 1
    assert _count(decoded, "counters of no compute kernel") == 2


def test_blocks_are_distinguished_by_core(directory: V6Directory) -> None:
    directory.task(50, 100, 3, _BIG)
    directory.block(52, 70, _BIG, 0, core=4)
    directory.block(52, 80, _BIG, 1, core=40, core_type=1)
    frame = raw.read(directory.finish()).statistics["block_times"]
    assert frame[["Task Id", "Core", "Core Id", "Block Id", "Start(ns)", "Duration(ns)"]].to_numpy().tolist() == [
        [_BIG, "aic", 4, 0, START_NS + 1040, 360],
        [_BIG, "aiv", 40, 1, START_NS + 1040, 560],
    ]


def test_without_their_log_blocks_are_known_by_their_counters(directory: V6Directory) -> None:
    directory.task(50, 100, 3, 6)
    directory.counters(52, 70, 6, 500, function=0b101001, block=3, core=4)
    decoded = raw.read(directory.finish())
    frame = decoded.statistics["block_times"]
    assert frame[["Core", "Core Id", "Block Id", "Duration(ns)"]].to_numpy().tolist() == [["aic", 4, 3, 360]]
    assert "aic_total_cycles" not in decoded.tables["kernels"]


def test_parts_of_a_fused_task_are_kept(directory: V6Directory) -> None:
    directory.task(50, 100, 3, 6, sqe=2)
    directory.fused(55, 60, 6, 2, 1)
    directory.fused(60, 90, 6, 16, 2)
    decoded = raw.read(directory.finish())
    frame = decoded.statistics["fusion_tasks"]
    assert frame[["Type", "Mission Id", "Duration(ns)"]].to_numpy().tolist() == [
        ["AI_CPU", 1, 100],
        ["CCU die 1", 2, 600],
    ]
    assert decoded.tables["tasks"]["task_type"].tolist() == ["FUSION"]


def test_step_tags_lie_elsewhere(directory: V6Directory) -> None:
    directory.step(0, 8, 60000)
    directory.step(1000, 8, 60001)
    directory.launch(100, "inside", 3, _BIG)
    decoded = raw.read(directory.finish())
    assert decoded.tables["steps"][["step", "duration_ns"]].to_numpy().tolist() == [[8, 20_000]]
    assert decoded.tables["kernels"]["step"].tolist() == [8]


def test_cores_sampled_by_time_have_ten_counters_too(directory: V6Directory) -> None:
    events = "0x501,0x301,0x1,0x701,0x202,0x203,0x34,0x35,0x714,0x324"
    modes = {"ai_core_profiling_mode": "sample-based", "ai_core_profiling_events": events}
    sample = {**modes, "aiv_profiling_events": events}
    (directory.path / "device_0" / "sample.json").write_text(json.dumps(sample))
    directory.sample(35, 1000, 0, 500, 0, 0, 0, 0, 0, 0, 250)
    directory.sample(36, 1000, 100)
    counters = raw.read(directory.finish()).tables["counters"]
    found = {(row["counter"], row["instance"]): row["value"] for row in counters.to_dict("records")}
    assert found["aic_mac_ratio", "35"] == 0.5
    assert found["aic_fixpipe_ratio", "35"] == 0.25
    assert found["aiv_vec_ratio", "36"] == 0.1
    assert set(counters["time_ns"]) == {START_NS + 9}


def test_traffic_between_dies_and_chips_lies_elsewhere(directory: V6Directory) -> None:
    for stamp, scale in ((0, 0), (50_000, 1)):  # a millisecond apart
        directory.monitor(
            stamp, 0b011001, 3, "QI4II4I", 0, 9, *(scale << 20 for _ in range(4)), 9, 0, 0, 0, scale << 21
        )
    directory.monitor(100, 0b011011, 2, "QQ", 70, 80)
    counters = raw.read(directory.finish()).tables["counters"].dropna(subset=["value"])
    found = {(row["counter"], row["instance"]): row["value"] for row in counters.to_dict("records")}
    assert found["SIO req_rx", "die 3"] == found["SIO dat_rx", "die 3"] == 1000
    assert (found["SIO req_tx", "die 3"], found["SIO dat_tx", "die 3"]) == (0, 2000)
    assert found["Stars Chip Trans PCIE Write Bandwidth", "die 2"] == 70
    assert found["Stars Chip Trans PCIE Read Bandwidth", "die 2"] == 80


def test_a_cut_log_is_read_and_its_damage_counted_once(directory: V6Directory) -> None:
    for number in range(4):
        directory.task(100 * number, 100 * number + 50, 3, number)
    path = directory.finish()
    file = path / "device_0/data/stars_soc.data.0.slice_0"
    file.write_bytes(file.read_bytes()[7:])
    decoded = raw.read(path)
    assert len(decoded.tables["tasks"]) == 3
    assert _count(decoded, "cut or damaged records") == 1
