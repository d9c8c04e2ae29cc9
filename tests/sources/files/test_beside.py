"""What lies beside the form of a result that is read is told, once."""

from __future__ import annotations

from pathlib import Path

import npuprof
from npuprof.notes import Notes
from npuprof.sources.files.beside import databases_in, note_databases
from tests.sources.database.maker import framework_database


def test_databases_are_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "b.db").write_bytes(b"")
    (tmp_path / "a.db").write_bytes(b"")
    (tmp_path / "folder.db").mkdir()
    (tmp_path / "trace_view.json").write_text("[]")
    assert [path.name for path in databases_in(tmp_path)] == ["a.db", "b.db"]
    notes = Notes()
    note_databases(tmp_path, notes)
    assert notes.to_frame()["source"].tolist() == ["a.db", "b.db"]
    assert notes.to_frame()["severity"].tolist() == ["info", "info"]


def test_a_folder_that_is_not_there_holds_none(tmp_path: Path) -> None:
    assert databases_in(tmp_path / "gone") == []


def test_of_text_and_database_of_torch_npu_only_the_text_is_counted(tmp_path: Path) -> None:
    output = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    columns = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim"
    (output / "kernel_details.csv").write_text(f"{columns}\nAdd_0,Add,AI_VECTOR_CORE,1736407067946125.104\t,3.0,0,24\n")
    framework_database(output / "ascend_pytorch_profiler_0.db")
    run = npuprof.load(output.parent)
    assert isinstance(run, npuprof.Profile)
    assert run.info.source == "torch_npu text result"
    assert run.kernels["name"].tolist() == ["Add_0"]
    told = run.notes[run.notes["source"] == "ascend_pytorch_profiler_0.db"]
    assert told["message"].str.contains("text result beside it").tolist() == [True]
