"""Whatever happens to the bytes, reading gives tables with notes, or a SourceError."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import raw
from npuprof.sources.base import Decoded

from .conftest import raw_sample, writable_copy

_SAMPLE_NAMES = ("everything", "model_step")  # together they hold what the others do, and more


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(".done"))


def _read(folder: Path) -> Decoded | None:
    try:
        decoded = raw.read(folder)
    except SourceError:
        return None
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    links = decoded.tables["links"]
    for side in ("source", "target"):
        for table, rows in links.groupby(f"{side}_table", observed=True)[f"{side}_row"]:
            assert rows.between(0, len(decoded.tables[str(table)]) - 1).all()
    return decoded


def _flip(content: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 8))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))


def _cut(content: bytearray, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content)))
    if data.draw(st.booleans()):
        del content[:at]
    else:
        del content[at:]


def _shuffle(content: bytearray, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 40, 64, 128, 256]))
    parts = [bytes(content[start : start + size]) for start in range(0, len(content), size)]
    content[:] = b"".join(data.draw(st.permutations(parts)) if len(parts) <= 64 else reversed(parts))


def _insert(content: bytearray, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content)))
    content[at:at] = data.draw(st.binary(max_size=300))


def _repeat(content: bytearray, data: st.DataObject) -> None:
    content *= data.draw(st.integers(2, 5))


@pytest.mark.parametrize("name", _SAMPLE_NAMES)
def test_damaged_bytes_give_tables_or_an_error(name: str, samples: Path, tmp_path: Path) -> None:
    folder = writable_copy(raw_sample(samples, name), tmp_path / "PROF_x")
    files = _files(folder)
    whole = {file: file.read_bytes() for file in files}

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(data=st.data())
    def damage_and_read(data: st.DataObject) -> None:
        damaged = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3))
        try:
            for file in damaged:
                content = bytearray(file.read_bytes())
                data.draw(st.sampled_from([_flip, _cut, _shuffle, _insert, _repeat]))(content, data)
                file.write_bytes(content)
            _read(folder)
        finally:
            for file in damaged:
                file.write_bytes(whole[file])

    damage_and_read()


@pytest.mark.parametrize("name", _SAMPLE_NAMES)
def test_any_file_may_be_missing(name: str, samples: Path, tmp_path: Path) -> None:
    whole = writable_copy(raw_sample(samples, name), tmp_path / "PROF_x")
    for file in _files(whole):
        content = file.read_bytes()
        file.unlink()
        assert _read(whole) is not None, file.name
        file.write_bytes(content)


def test_any_file_may_be_empty_or_garbage(samples: Path, tmp_path: Path) -> None:
    whole = writable_copy(raw_sample(samples, "everything"), tmp_path / "PROF_x")
    for file in _files(whole):
        content = file.read_bytes()
        for damage in (b"", b"\xff" * 1024, bytes(1024)):
            file.write_bytes(damage)
            _read(whole)
        file.write_bytes(content)


def test_a_missing_host_side_leaves_the_device_tasks(minimal: Path) -> None:
    shutil.rmtree(minimal / "host")
    decoded = _read(minimal)
    assert decoded is not None
    assert decoded.tables["tasks"]["task_type"].tolist() == ["AI_CORE", "AI_VECTOR_CORE", "AI_VECTOR_CORE"]
    assert decoded.tables["kernels"]["start_ns"].tolist() == [
        1763600000530560330,
        1763600000530580330,
        1763600000530600330,
    ]
    assert decoded.tables["kernels"]["op_name"].isna().all()
    assert "host side is missing" in " ".join(decoded.notes.to_frame()["message"])


def test_a_missing_device_side_leaves_the_calls(minimal: Path) -> None:
    shutil.rmtree(minimal / "device_0")
    decoded = _read(minimal)
    assert decoded is not None
    assert len(decoded.tables["api"]) == 9
    assert decoded.tables["tasks"].empty
    assert "no device side" in " ".join(decoded.notes.to_frame()["message"])


def test_missing_dictionaries_leave_numbers_as_names(minimal: Path) -> None:
    for file in (minimal / "host" / "data").glob("*_dic.slice_0"):
        file.unlink()
    decoded = _read(minimal)
    assert decoded is not None
    assert decoded.tables["kernels"]["op_name"].tolist()[0] == "9399212310398031214"
    assert decoded.tables["api"]["name"].tolist()[0] == "327681"
    assert decoded.tables["kernels"]["core"].tolist() == ["AI_CORE", "AI_VECTOR_CORE", "AI_VECTOR_CORE"]


def test_missing_done_marks_change_nothing(minimal: Path) -> None:
    whole = _read(minimal)
    for file in minimal.rglob("*.done"):
        file.unlink()
    bare = _read(minimal)
    assert whole is not None
    assert bare is not None
    for name, frame in whole.tables.items():
        assert frame.equals(bare.tables[name])


def test_a_cut_record_is_skipped_and_counted(minimal: Path) -> None:
    file = minimal / "device_0" / "data" / "stars_soc.data.0.slice_0"
    file.write_bytes(b"\0" * 20 + file.read_bytes())
    decoded = _read(minimal)
    assert decoded is not None
    assert len(decoded.tables["tasks"]) == 3
    note = decoded.notes.to_frame().iloc[0]
    assert "surplus" in note["message"]
    assert note["count"] == 20


def test_a_task_whose_end_was_lost_is_counted_not_invented(minimal: Path) -> None:
    file = minimal / "device_0" / "data" / "stars_soc.data.0.slice_0"
    content = file.read_bytes()
    file.write_bytes(content[:-64])
    decoded = _read(minimal)
    assert decoded is not None
    assert len(decoded.tables["tasks"]) == 2
    assert "without the other" in " ".join(decoded.notes.to_frame()["message"])


def test_a_pipe_in_the_data_folder_does_not_hang(minimal: Path) -> None:
    os.mkfifo(minimal / "host" / "data" / "aging.compact.task_track.slice_1")
    os.mkfifo(minimal / "device_0" / "data" / "hbm.data.0.slice_0")
    (minimal / "host" / "info.json").unlink()
    os.mkfifo(minimal / "host" / "info.json")
    decoded = _read(minimal)
    assert decoded is not None
    assert len(decoded.tables["tasks"]) == 3


def test_a_deeply_nested_control_file_is_a_note(minimal: Path) -> None:
    (minimal / "device_0" / "sample.json").write_text("[" * 100_000)
    decoded = _read(minimal)
    assert decoded is not None
    assert "sample.json is damaged" in " ".join(decoded.notes.to_frame()["message"])
