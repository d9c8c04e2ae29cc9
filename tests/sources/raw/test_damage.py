"""Whatever happens to the bytes, reading gives tables with notes, or a SourceError."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from tests.budget import examples
from tests.sources.raw.writers.communication import CommunicationDirectory

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
    operators, steps = decoded.tables["communication"], decoded.tables["communication_tasks"]
    assert steps["op_id"].between(0, len(operators) - 1).all()
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


@pytest.mark.long
@pytest.mark.parametrize("name", _SAMPLE_NAMES)
def test_damaged_bytes_give_tables_or_an_error(name: str, samples: Path, tmp_path: Path) -> None:
    folder = writable_copy(raw_sample(samples, name), tmp_path / "PROF_x")
    _damage_and_read(folder, _files(folder))


@pytest.mark.long
def test_damaged_records_of_communication_and_memory_give_tables_or_an_error(tmp_path: Path) -> None:
    directory = CommunicationDirectory(tmp_path / "PROF_x")
    directory.write_one_of_each()
    files = _files(directory.finish())
    of_interest = ("hccl", "context", "memory", "static", "fusion", "graph", "attr", "api_event", "track", "stars")
    _damage_and_read(directory.path, [file for file in files if any(name in file.name for name in of_interest)])


def _damage_and_read(folder: Path, files: list[Path]) -> None:
    whole = {file: file.read_bytes() for file in files}

    @settings(max_examples=examples(60))
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


_SAMPLED = (
    *("aicpu", "hbm", "hccs", "l2_cache", "llc", "lpmFreqConv", "nic", "npu_mem", "npu_module_mem", "pcie", "roce"),
    *("socpmu", "stars_soc_profile", "host_cpu", "host_mem", "sample.json", "info.json", "dev_start.log"),
)
_ODD_NUMBERS = (b"nan", b"-1", b"1e400", b"inf", b"99999999999999999999", b"9" * 5000, b"time", b"", b" ")


def _replace_a_word(content: bytearray, data: st.DataObject) -> None:
    words = bytes(content).split(b" ")
    words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(_ODD_NUMBERS))
    content[:] = b" ".join(words)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["task-based", "sample-based"])
@pytest.mark.parametrize("version", ["1.0", "2.0", "3.0"])
def test_damaged_samples_give_rows_that_keep_their_schema(
    version: str, mode: str, samples: Path, tmp_path: Path
) -> None:
    folder = writable_copy(raw_sample(samples, "everything"), tmp_path / "PROF_x")
    device = folder / "device_0"
    for file, old, new in (
        (device / "info.json.0", '"version":"1.0"', f'"version":"{version}"'),
        (device / "sample.json", "task-based", mode),
    ):
        file.write_text(file.read_text().replace(old, new))
    data_folder = device / "data"
    for name in ("qos", "ddr", "aicore", "lpmInfoConv"):  # of streams that the sample lacks, what another one holds
        (data_folder / f"{name}.data.0.slice_0").write_bytes((data_folder / "stars_soc.data.0.slice_0").read_bytes())
    for name in ("host_disk", "host_network"):
        slice_path = folder / "host" / "data" / f"{name}.data.slice_0"
        slice_path.write_bytes(b"start_time 3647153054733\ntime 5\neth0: 1 2\n")
    files = [file for file in _files(folder) if file.name.startswith((*_SAMPLED, "qos", "ddr", "host_"))]
    whole = {file: file.read_bytes() for file in files}

    @settings(max_examples=examples(25))
    @given(data=st.data())
    def damage_and_read(data: st.DataObject) -> None:
        damaged = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=4, unique=True))
        try:
            for file in damaged:
                content = bytearray(whole[file])
                damage = data.draw(st.sampled_from([_flip, _cut, _shuffle, _insert, _repeat, _replace_a_word]))
                damage(content, data)
                file.write_bytes(content)
            decoded = _read(folder)
            if decoded is not None:
                assert not np.isinf(decoded.tables["counters"]["value"]).any()
                assert all(len(frame.columns) for frame in decoded.statistics.values())
        finally:
            for file in damaged:
                file.write_bytes(whole[file])

    damage_and_read()


@pytest.mark.long
@pytest.mark.parametrize("name", _SAMPLE_NAMES)
def test_any_file_may_be_missing(name: str, samples: Path, tmp_path: Path) -> None:
    whole = writable_copy(raw_sample(samples, name), tmp_path / "PROF_x")
    for file in _files(whole):
        content = file.read_bytes()
        file.unlink()
        assert _read(whole) is not None, file.name
        file.write_bytes(content)


@pytest.mark.long
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


@pytest.mark.slow
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
    assert decoded.notes.to_frame()[["severity", "source", "message", "count"]].to_numpy().tolist() == [
        ["warning", "device_0", "stars_soc.data.0: bytes more than in the .done marks of its slices", 20],
        ["warning", "device_0", "stars_soc.data.0: cut or damaged records skipped", 1],
    ]


def _told(directory: Path) -> list[str]:
    decoded = _read(directory)
    assert decoded is not None
    return decoded.notes.to_frame()["message"].tolist()


@pytest.mark.parametrize("name", ["host/end_info", "device_0/info.json.0", "host/host_start.log"])
def test_a_control_file_of_no_bytes_is_told(minimal: Path, name: str) -> None:
    (minimal / name).write_bytes(b"")
    assert f"{Path(name).name} is empty: its facts are missing" in _told(minimal)


def test_empty_slice_is_reported_despite_its_mark(minimal: Path) -> None:
    file = minimal / "device_0" / "data" / "stars_soc.data.0.slice_0"
    file.write_bytes(b"")
    file.with_name(f"{file.name}.done").write_text("filesize:0")
    assert "stars_soc.data.0: slices are empty: what was recorded in them is missing" in _told(minimal)


@pytest.mark.parametrize(
    ("content", "lost"), [(b"\0" * 80, 1), (b"\0" * 40 + b"\n1 2 3\n", 1), (b"1 2 3\n" + b"\0" * 80, 0)]
)
def test_zeros_within_text_are_damage(minimal: Path, content: bytes, lost: int) -> None:
    (minimal / "device_0" / "data" / "hccs.data.0.slice_0").write_bytes(
        b"timestamp tx rx\n" * (content[0] != 0) + content
    )
    assert _told(minimal).count("a line is damaged; skipped") == lost


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
