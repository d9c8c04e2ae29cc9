"""A field of a control file that has another type than the vendor's is told, and no reader sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from npuprof.sources import raw
from npuprof.sources.raw.metadata import control_types
from npuprof.sources.raw.metadata.control_files import RecordedSide, read_sides
from npuprof.tables.notes import Notes
from tests.field_damage import WRONG
from tests.sources.raw.writers.directory import RawDirectory

_FILES = {
    "info.json.0": (control_types.InfoFile, "info"),
    "sample.json": (control_types.SampleFile, "sample"),
    "start_info.0": (control_types.MomentFile, "start"),
    "end_info.0": (control_types.MomentFile, "end"),
}
_NESTED = {"DeviceInfo": (control_types.DeviceFacts, "device"), "CPU": (control_types.CpuFacts, "cpu")}
_FIELDS = [
    *((file, "", key, part) for file, (kind, part) in _FILES.items() for key in get_type_hints(kind)),
    *(("info.json.0", outer, key, part) for outer, (kind, part) in _NESTED.items() for key in get_type_hints(kind)),
]
_NEVER = ["true", "a number of 70 bits", "a list of a list", "an object"]  # is what no field but a few may hold
_LISTS = ("netCard", "DeviceInfo", "CPU")


def directory(path: Path) -> Path:
    writer = RawDirectory(path)
    writer.launch(0, "MatMul", 3, 0)
    writer.finish()
    return path


def damaged(path: Path, file: str, outer: str, key: str, value: str) -> tuple[RecordedSide, str]:
    text = json.dumps({key: "the damaged value"}).replace('"the damaged value"', value)
    (path / "device_0" / file).write_text(f'{{"{outer}": [{text}]}}' if outer else text)
    notes = Notes()
    device = read_sides(path, notes)[1]
    return device, " ".join(notes.to_frame()["message"])


@pytest.mark.slow
def test_no_field_of_another_type_reaches_a_reader(tmp_path: Path) -> None:
    path = directory(tmp_path / "PROF_1")
    for file, outer, key, part in _FIELDS:
        for words in ["true", "an object"] if key in _LISTS else _NEVER:
            if key == "simulated" and words == "true":
                continue
            device, told = damaged(path, file, outer, key, WRONG[words])
            assert key not in getattr(device, part), (file, key, words)
            assert f"{key} is damaged" in told, (file, key, words)
        if key not in _LISTS:
            assert getattr(damaged(path, file, outer, key, "null")[0], part)[key] is None


@pytest.mark.parametrize("value", ["7", '"7"', '" 7 "', '""', "null"])
def test_a_number_may_be_text_and_may_be_absent(tmp_path: Path, value: str) -> None:
    device, told = damaged(directory(tmp_path / "PROF_1"), "info.json.0", "DeviceInfo", "ai_core_num", value)
    assert "ai_core_num" in device.device
    assert "ai_core_num" not in told


@pytest.mark.parametrize(("key", "value"), [("hwts_frequency", "fast"), ("aiv_num", "many"), ("aiv_num", "9" * 20)])
def test_a_text_that_is_no_number_is_reported(tmp_path: Path, key: str, value: str) -> None:
    device, told = damaged(directory(tmp_path / "PROF_1"), "info.json.0", "DeviceInfo", key, json.dumps(value))
    assert key not in device.device
    assert f"{key} is damaged" in told


@pytest.mark.slow
def test_a_run_with_a_damaged_field_is_read_and_says_so(tmp_path: Path) -> None:
    path = directory(tmp_path / "PROF_1")
    info = path / "device_0" / "info.json.0"
    plain: dict[str, Any] = json.loads(info.read_text())
    plain["DeviceInfo"][0] |= {"hwts_frequency": "fast", "aiv_num": {}}
    info.write_text(json.dumps(plain | {"rank_id": [3], "platform_version": {"x": 1}}))
    decoded = raw.read(path)
    told = " ".join(decoded.notes.to_frame()["message"])
    assert decoded.info.rank is None
    assert len(decoded.tables["kernels"]) == 1
    for key in ("rank_id", "platform_version", "DeviceInfo: hwts_frequency", "DeviceInfo: aiv_num"):
        assert f"info.json.0: {key} is damaged" in told
