"""The checks of the vendor's rules notice a recording that breaks one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npuprof.simulator import Simulator
from tests.simulator.conftest import Record
from tests.simulator.test_vendor_rules import ALL, marks, several_streams_and_threads, wraps
from tests.simulator.vendor_checks import RULES
from tests.simulator.vendor_rules import Recording

# What to write into the first record of a stream: offset, code of `struct`, value; and the rule that it breaks.
WRITES: list[tuple[str, int, str, int, str]] = [
    ("host aging.api_event.data", 0, "H", 1, "host_records_are_well_formed"),
    ("host aging.compact.task_track", 2, "H", 1, "host_records_are_well_formed"),
    ("host aging.compact.task_track", 4, "I", 803, "host_records_are_well_formed"),
    ("host aging.compact.task_track", 16, "Q", 5, "records_lie_in_their_calls"),
    ("host aging.compact.task_track", 26, "H", 77, "tasks_of_host_and_device_agree"),
    ("host aging.compact.task_track", 32, "Q", 7, "everything_has_a_name"),
    ("host aging.compact.task_track", 40, "Q", 7, "everything_has_a_name"),
    ("host aging.compact.node_basic_info", 24, "Q", 7, "records_lie_in_their_calls"),
    ("host aging.compact.memcpy_info", 24, "Q", 1 << 40, "copies_match_their_tasks"),
    ("host aging.additional.msproftx", 26, "H", 9, "marks_are_whole"),
    ("host aging.additional.msproftx", 34, "H", 9, "marks_are_whole"),
    ("device_0 stars_soc.data.0", 0, "H", 63 << 10, "tasks_of_host_and_device_agree"),
    ("device_0 stars_soc.data.0", 2, "H", 9, "tasks_of_host_and_device_agree"),
    ("device_0 stars_soc.data.0", 8, "Q", 9, "tasks_of_host_and_device_agree"),
    ("device_0 ffts_profile.data.0", 16, "H", 3, "counters_join_their_tasks"),
    ("device_0 ffts_profile.data.0", 48, "Q", 1 << 62, "counters_join_their_tasks"),
    ("device_0 ffts_profile.data.0", 120, "Q", 9, "counters_join_their_tasks"),
    ("device_0 ts_track.data.0", 1, "B", 7, "marks_are_whole"),
    ("device_0 lpmFreqConv.data.0", 0, "I", 56, "other_device_data_is_well_formed"),
    ("device_0 lpmFreqConv.data.0", 8, "Q", 1 << 60, "other_device_data_is_well_formed"),
    ("device_0 hbm.data.0", 16, "I", 7, "other_device_data_is_well_formed"),
    ("device_0 npu_mem.app.0", 4, "I", 7, "other_device_data_is_well_formed"),
    ("device_0 l2_cache.data.0", 24, "Q", 1 << 60, "other_device_data_is_well_formed"),
]
EDITS: list[tuple[str, Callable[[Any], object], str]] = [
    ("host/info.json", lambda info: info.pop("netCard"), "control_files_hold_what_is_looked_up"),
    ("host/info.json", lambda info: info["CPU"][0].update(Frequency=100), "control_files_hold_what_is_looked_up"),
    ("device_0/info.json.0", lambda info: info.update(DeviceInfo=[]), "control_files_hold_what_is_looked_up"),
    ("device_0/info.json.0", lambda info: info.update(version="2.0"), "control_files_hold_what_is_looked_up"),
    ("device_0/sample.json", lambda sample: sample.pop("llc_profiling"), "control_files_hold_what_is_looked_up"),
    (
        "device_0/sample.json",
        lambda sample: sample.update(ai_core_profiling_events="0x8"),
        "counters_join_their_tasks",
    ),
    ("host/start_info", lambda start: start.update(collectionTimeBegin="1"), "clocks_meet"),
]


@pytest.fixture
def recording(record: Record) -> Path:
    def work(machine: Simulator) -> None:
        several_streams_and_threads(machine)
        marks(machine)
        wraps(machine)

    return record(work, ALL, settings={3: "50"})


def assert_only_now_broken(path: Path, rule: str, change: Callable[[], object]) -> None:
    (check,) = (each for each in RULES if each.__name__ == rule)
    check(Recording(path))
    change()
    with pytest.raises((AssertionError, KeyError, ValueError, OSError)):
        check(Recording(path))


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "offset", "code", "value", "rule"), WRITES)
def test_a_wrong_value_is_noticed(stream: str, offset: int, code: str, value: int, rule: str, recording: Path) -> None:
    side, _, name = stream.partition(" ")
    path = recording / side / "data" / f"{name}.slice_0"

    def change() -> None:
        data = bytearray(path.read_bytes())
        struct.pack_into("<" + code, data, offset, value)
        path.write_bytes(data)

    assert_only_now_broken(recording, rule, change)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "edit", "rule"), EDITS)
def test_a_wrong_key_is_noticed(name: str, edit: Callable[[Any], object], rule: str, recording: Path) -> None:
    path = recording / name

    def change() -> None:
        content = json.loads(path.read_text())
        edit(content)
        path.write_text(json.dumps(content))

    assert_only_now_broken(recording, rule, change)


@pytest.mark.parametrize("name", ["FLIP_TASK", "task_track", "KERNEL_AICORE"])
def test_a_type_of_another_name_is_noticed(name: str, recording: Path) -> None:
    path = recording / "host" / "data" / "unaging.additional.type_info_dic.slice_0"
    rule = "host_records_are_well_formed" if name.islower() else "everything_has_a_name"
    assert_only_now_broken(recording, rule, lambda: path.write_text(path.read_text().replace(name, "OTHER")))


def test_a_missing_mark_of_completion_is_noticed(recording: Path) -> None:
    path = recording / "host" / "data" / "aging.api_event.data.slice_0.done"
    assert_only_now_broken(recording, "files_are_named_and_cut_right", path.unlink)


def test_calls_that_touch_are_noticed(recording: Path) -> None:
    path = recording / "host" / "data" / "aging.api_event.data.slice_0"

    def change() -> None:
        path.write_bytes(path.read_bytes() + path.read_bytes()[:40])

    assert_only_now_broken(recording, "calls_of_a_thread_nest", change)
