"""Whatever happens to the bytes of a folder, its reading ends with tables that keep their contract."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuprof.sources.files import memory_limit
from npuprof.sources.framework.files import read_content
from npuprof.tables.notes import Notes
from tests.budget import examples
from tests.sources.framework.conftest import Reader
from tests.sources.framework.writer import Framework, small


def flip(content: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 8))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))


def cut(content: bytearray, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content)))
    content[:] = content[at:] if data.draw(st.booleans()) else content[:at]


def insert(content: bytearray, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content)))
    content[at:at] = data.draw(st.binary(min_size=1, max_size=100))


def check(run: Framework, read: Reader) -> None:
    found = read(run).tables
    for side in ("source", "target"):
        assert found["links"][f"{side}_row"].between(0, len(found["operators"]) - 1).all()
    assert found["python"]["parent_id"].dropna().between(0, len(found["python"]) - 1).all()


@pytest.mark.slow
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_cut_and_strange_bytes_end_in_tables(read: Reader, data: st.DataObject) -> None:
    run = small()
    for name in data.draw(st.sets(st.sampled_from(sorted(run.files)), min_size=1)):
        data.draw(st.sampled_from([flip, cut, insert]))(run.files[name], data)
    check(run, read)


@pytest.mark.slow
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_bytes_without_any_sense_end_in_tables(read: Reader, data: st.DataObject) -> None:
    run = small()
    for content in run.files.values():
        content[:] = data.draw(st.binary(max_size=300))
    check(run, read)


def test_what_lies_before_and_behind_damage_is_kept(read: Reader) -> None:
    run = Framework()
    for number in range(200):
        run.op(f"aten::op{number}", 10 * number, 10 * number + 5)
    content = run.files["torch.op_range"]
    content[len(content) // 2 : len(content) // 2 + 300] = b"\xff" * 300
    decoded = read(run)
    names = decoded.tables["operators"]["name"].astype(str).tolist()
    assert names[:90] == [f"aten::op{number}" for number in range(90)]
    assert names[-90:] == [f"aten::op{number}" for number in range(110, 200)]
    assert "are damaged or cut off" in decoded.notes.to_frame()["message"][0]


def test_oversized_file_is_left_out_and_reported(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 1 << 20)
    run = small()
    run.files["torch.memory_usage"][:] = bytes(2 << 20)
    decoded = read(run)
    assert len(decoded.tables["operators"])
    told = decoded.notes.to_frame().set_index("source").loc["torch.memory_usage"]
    assert told["severity"] == "error"
    assert "is not read: 2 MiB do not fit into the 1 MiB of memory that are free" in told["message"]


def test_sparse_parts_take_no_memory(tmp_path: Path) -> None:
    folder = small().write(tmp_path) / "FRAMEWORK"
    whole = (folder / "torch.op_range").stat().st_size
    with (folder / "torch.op_range").open("r+b") as file:
        file.truncate(1 << 30)
    notes = Notes()
    content = read_content(folder, "torch.op_range", notes)
    assert content is not None
    if not hasattr(os, "SEEK_DATA") or (folder / "torch.op_range").stat().st_blocks * 512 >= 1 << 30:
        pytest.skip("this file system keeps no holes")
    assert whole <= content.size < 1 << 20
    assert notes.to_frame()["message"].tolist() == ["bytes that were set up and never written, left out"]
