"""Which family of chips a recording is read as, and what is said about it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from npuprof.sources import raw
from npuprof.sources.raw.device.metrics import metrics_of
from npuprof.sources.raw.metadata.chip_families import Family, family_of
from tests.sources.raw.writers.chips import HwtsDirectory, V6Directory
from tests.sources.raw.writers.directory import DEVICE_COUNTER, START_NS, RawDirectory


@pytest.mark.parametrize(
    ("version", "streams", "family"),
    [
        ("5", ["hwts.data.0"], Family.STARS),  # a known version decides
        ("1", [], Family.HWTS),
        ("4", [], Family.HWTS),
        ("12", [], Family.STARS),
        ("15", [], Family.STARS_V6),
        ("18", [], Family.STARS_V6),
        ("6", ["hwts.data.0"], Family.HWTS),
        ("6", ["stars_soc.data.0"], Family.STARS),
        ("33", ["stars_soc.data.0"], Family.STARS_V6),
        (None, ["hwts.aiv_data.0"], Family.HWTS),
        (None, [], Family.STARS),
        (None, ["nano_stars_profile.data.0"], Family.NANO),
        ("x" * 100, [], Family.STARS),
        ({}, [], Family.STARS),
    ],
)
def test_a_chip_is_of_the_nearest_family(version: object, streams: list[str], family: Family) -> None:
    assert family_of(version, streams) is family


@pytest.mark.parametrize(("version", "maker"), [("6", RawDirectory), ("13", HwtsDirectory), ("33", V6Directory)])
def test_an_unknown_chip_is_decoded_with_a_note(version: str, maker: type[RawDirectory], tmp_path: Path) -> None:
    directory = maker(tmp_path / "PROF_unknown", platform_version=version)
    directory.launch(0, "op", 3, 1)
    decoded = raw.read(directory.finish())
    assert decoded.tables["kernels"]["op_name"].tolist() == ["op"]
    notes = decoded.notes.to_frame()
    assert notes["message"].str.contains(f"platform version {version} is not known").sum() == 1


def test_a_known_chip_is_not_noted(tmp_path: Path) -> None:
    decoded = raw.read(V6Directory(tmp_path / "PROF_950", platform_version="17").finish())
    assert not decoded.notes.to_frame()["message"].str.contains("not known").any()


def test_a_chip_without_decoded_tasks_says_so(tmp_path: Path) -> None:
    decoded = raw.read(RawDirectory(tmp_path / "PROF_310", platform_version="0").finish())
    notes = decoded.notes.to_frame()
    assert notes.loc[notes["severity"] == "error", "message"].str.contains("Ascend 310").any()


@pytest.mark.parametrize("version", ["0", "1", "4", "5", "7", "9", "15"])
def test_metrics_of_a_chip_are_unique(version: str) -> None:
    metrics = metrics_of(family_of(version, ()), version)
    keys = [(metric.name, *sorted(metric.events)) for metric in metrics]
    assert len(set(keys)) == len(keys)


def test_a_nano_has_a_task_and_its_counters_in_one_record(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_nano", platform_version="9")
    stamp = DEVICE_COUNTER + (3 << 32)
    words = (stamp & 0xFFFFFFFF, 25, 1000, stamp >> 32 & 0xFFFF, stamp >> 48, 0)
    record = struct.pack("<BBHHHIIIHBB10I", 0, 2, 0, 0, 9, *words, 100, *[0] * 9)
    directory.streams["device_0/data/nano_stars_profile.data.0"] += record
    path = directory.finish()
    sample = path / "device_0" / "sample.json"
    sample.write_text('{"ai_core_profiling_events": "0x300,0x400,0x100,0x200,0x201,0x202,0x203,0x302,0x101,0x102"}')
    (kernel,) = raw.read(path).tables["kernels"].to_dict("records")
    assert (kernel["task_id"], kernel["start_ns"], kernel["duration_ns"]) == (9, START_NS + (3 << 32) * 20, 500)
    assert (kernel["total_cycles"], kernel["vec_exe_ratio"]) == (1000, 0.1)
