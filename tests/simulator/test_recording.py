"""The files of a recording: which there are, what they say of themselves, slices, failures."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from npuprof.simulator import Simulator, directory
from npuprof.simulator.collection import METRIC_NONE
from tests.conftest import FakeClock
from tests.simulator import reading
from tests.simulator.conftest import Record
from tests.simulator.work import everything, matmul

DICTIONARIES = {"unaging.additional.hash_dic", "unaging.additional.type_info_dic"}
TASKS = {"aging.compact.task_track", "stars_soc.data.0", "lpmFreqConv.data.0"}
DETAILS = {"aging.compact.node_basic_info", "aging.additional.tensor_info"}


@pytest.mark.parametrize(
    ("mask", "settings", "expected"),
    [
        (0x801, {}, {"aging.api_event.data", "aging.compact.memcpy_info", "ts_track.data.0"} | TASKS),
        (0x800, {}, {"aging.api_event.data", "aging.compact.memcpy_info", "ts_track.data.0"} | TASKS),
        (0x1, {}, {"aging.api_event.data"}),
        (0x100, {}, {"aging.api_event.data"}),
        (0x80, {}, {"aging.additional.msproftx", "ts_track.data.0"}),
        (0x10, {}, {"l2_cache.data.0"}),
        (0x4, {}, {"ffts_profile.data.0"}),
        (0x1000, {}, {"aging.additional.task_memory_info"}),
        (0, {3: "50"}, {"hbm.data.0", "npu_mem.data.0", "npu_mem.app.0"}),
        (0, {}, set()),
    ],
)
def test_only_what_the_mask_asks_for_is_written(
    mask: int, settings: dict[int, str], expected: set[str], record: Record
) -> None:
    # Without a name there is no dictionary of names.
    assert reading.streams(record(everything, mask, settings=settings)) | DICTIONARIES == expected | DICTIONARIES


@pytest.mark.parametrize("mask", [0x27, 0x12F])
def test_level_1_adds_details_and_counters(mask: int, record: Record) -> None:
    assert reading.streams(record(everything, mask)) == DICTIONARIES | TASKS | DETAILS | {
        "aging.api_event.data",
        "aging.compact.memcpy_info",
        "aging.additional.context_id_info",
        "ffts_profile.data.0",
        "ts_track.data.0",
    }


def test_a_recording_says_that_it_is_simulated(record: Record) -> None:
    recording = record(matmul)
    assert reading.content(recording, "host/info.json")["simulated"] is True
    info = reading.content(recording, "device_0/info.json.0")
    assert info["simulated"] is True
    assert "simulated" in info["DeviceInfo"][0]["soc_name"]


def test_control_files_suit_the_vendors_parser(record: Record, samples: Path) -> None:
    recording = record(everything, 0x12F | 0x80)
    (reference,) = (samples / "raw" / "minimal").glob("PROF_*")
    assert re.fullmatch(r"PROF_000001_\d{17}_\d{8}[A-Z]{8}", recording.name)
    theirs = {path.relative_to(reference) for path in reference.rglob("*")}
    assert theirs <= {path.relative_to(recording) for path in recording.rglob("*")}
    for path in (
        "host/info.json",
        "host/sample.json",
        "host/start_info",
        "device_0/end_info.0",
        "device_0/info.json.0",
    ):
        expected, given = reading.content(reference, path), reading.content(recording, path)
        assert {key: type(value) for key, value in expected.items()} == {key: type(given[key]) for key in expected}
    expected, given = (
        reading.content(each, "device_0/info.json.0")["DeviceInfo"][0] for each in (reference, recording)
    )
    assert {key: type(value) for key, value in expected.items()} == {key: type(given[key]) for key in expected}


def test_every_file_is_marked_done(record: Record) -> None:
    recording = record(everything)
    files = [path for path in recording.rglob("*") if path.is_file() and path.suffix != ".done"]
    assert files
    for path in files:
        assert path.with_name(path.name + ".done").read_text() == f"filesize:{path.stat().st_size}\n"
        assert path.stat().st_mode & 0o077 == 0


def test_slices_of_the_host_hold_whole_records(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "SLICE_BYTES", 1000)
    recording = record(lambda machine: matmul(machine, 30))
    for name, size in (
        ("aging.api_event.data", 40),
        ("aging.compact.task_track", 64),
        ("aging.additional.tensor_info", 256),
    ):
        sizes = [path.stat().st_size for path in reading.slices(recording, name)]
        assert len(sizes) > 1
        assert all(each % size == 0 and each <= 1000 for each in sizes)
        assert set(sizes[:-1]) == {1000 // size * size}
    assert len(reading.apis(recording)) == 90
    assert reading.slices(recording, "stars_soc.data.0")[0].stat().st_size == 1000
    assert len(reading.soc(recording)) == 60


def test_a_device_joins_when_it_is_first_used(record: Record) -> None:
    recording = record(lambda machine: machine.device(1).launch("Add"), devices=(0, 1))
    assert (recording / "device_1").is_dir()
    assert not (recording / "device_0").exists()
    assert reading.tracks(recording)[0].device == 1


def test_devices_that_were_not_asked_for_stay_out(record: Record) -> None:
    recording = record(lambda machine: machine.device(1).launch("Add"), devices=(0,))
    assert not (recording / "device_1").exists()
    assert reading.tracks(recording) == []


def test_what_has_happened_is_on_disk_while_running(machine: Simulator, tmp_path: Path, clock: FakeClock) -> None:
    profiler = machine.profiler
    profiler.init(str(tmp_path))
    profiler.start(profiler.create_config((0,), 1, 0x27))
    matmul(machine, 5)
    clock.advance(600_000_000)
    matmul(machine)
    (recording,) = tmp_path.iterdir()
    assert len(reading.tracks(recording)) == 6
    assert len(reading.soc(recording)) == 10  # the sixth has not run yet
    assert "MatMulV3" in reading.dictionary(recording, "hash_dic").values()
    assert not (recording / "host" / "end_info").exists()


@pytest.mark.parametrize("fails_at", ["flush", "stop"])
def test_a_full_disk_fails_the_stop_and_not_the_launch(
    fails_at: str, machine: Simulator, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = machine.profiler
    profiler.init(str(tmp_path))
    config = profiler.create_config((0,), 1, 0x27)
    assert profiler.start(config) == 0
    matmul(machine, 5)
    clock.advance(600_000_000)
    matmul(machine)

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("npuprof.simulator.directory.os.write", full)
    if fails_at == "flush":
        clock.advance(600_000_000)
        matmul(machine, 5)
        assert machine.recorder is not None
        assert machine.recorder.error is not None
    assert profiler.stop(config) == 500005
    (recording,) = tmp_path.iterdir()
    assert len(reading.tracks(recording)) == 6
    monkeypatch.undo()
    assert profiler.start(config) == 0
    assert profiler.stop(config) == 0


def test_a_full_disk_at_start_is_said_at_start(
    machine: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("npuprof.simulator.directory.os.write", full)
    machine.profiler.init(str(tmp_path))
    assert machine.profiler.start(machine.profiler.create_config((0,), 1, 0x27)) == 100003
    assert machine.recorder is None


def test_a_recording_without_counters_says_so(record: Record) -> None:
    recording = record(matmul, 0x801, METRIC_NONE)
    asked = reading.content(recording, "device_0/sample.json")
    assert (asked["ai_core_profiling"], asked["profLevel"], asked["ai_core_profiling_events"]) == ("off", "l0", "")


def test_a_disk_that_fills_up_in_a_record_leaves_whole_ones(
    machine: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.profiler.init(str(tmp_path))
    config = machine.profiler.create_config((0,), 1, 0x27)
    assert machine.profiler.start(config) == 0
    matmul(machine, 20)
    write, room = os.write, [1000]

    def nearly_full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = write(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr("npuprof.simulator.directory.os.write", nearly_full)
    assert machine.profiler.stop(config) == 500005
    (recording,) = tmp_path.iterdir()
    sizes = {path.name: path.stat().st_size for path in (recording / "host" / "data").iterdir()}
    (data,) = (size for name, size in sizes.items() if name.startswith("aging"))
    assert data > 0
    assert data % 40 == 0
