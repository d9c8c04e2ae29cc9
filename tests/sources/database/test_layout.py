"""Where databases lie, and what lies beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.sources import database
from npuprof.sources.detect import detect
from tests.sources.database.maker import Maker, add_launches, framework_database

STAMP = "20260821120000"


def _export(path: Path) -> Path:
    maker = Maker(path)
    add_launches(maker)
    return maker.close()


def _prof(folder: Path) -> Path:
    """Write a PROF directory of which the raw data was thrown away half."""
    for side in ("host", "device_0"):
        (folder / side / "data").mkdir(parents=True)
        (folder / side / "sample.json").write_text("{}")
    (folder / "host" / "info.json").write_text(json.dumps({"platform_version": "5"}))
    (folder / "device_0" / "info.json.0").write_text(json.dumps({"platform_version": "5"}))
    (folder / "host" / "data" / "unaging.api_event.data.slice_0").write_bytes(b"\0" * 64)
    _export(folder / f"msprof_{STAMP}.db")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("preferred", [None, "parsed"])
def test_a_database_in_a_directory_of_raw_data_is_offered(tmp_path: Path, preferred: str | None) -> None:
    folder = _prof(tmp_path / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    run = npuprof.load(folder, source=preferred)  # type: ignore[arg-type]
    assert isinstance(run, npuprof.Profile)
    assert run.info.source == "msprof database"
    assert len(run.kernels) == 2


def test_raw_data_is_still_what_is_asked_for(tmp_path: Path) -> None:
    folder = _prof(tmp_path / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    (run,) = detect(folder, "raw").results
    assert run.source.name == "raw"


def test_below_a_directory_it_is_found_once(tmp_path: Path) -> None:
    folder = _prof(tmp_path / "out" / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    (run,) = detect(tmp_path, "parsed").results
    assert (run.source.name, run.path) == ("database", folder)


@pytest.mark.slow
def test_tables_come_from_the_form_that_has_them(tmp_path: Path) -> None:
    folder = _prof(tmp_path / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    output = folder / "mindstudio_profiler_output"
    output.mkdir()
    header = "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
    row = "0,Add_0,KERNEL_AIVEC,2,1,3.0,1736407067946155.104\t,1736407067946158.104\t"
    (output / f"task_time_{STAMP}.csv").write_text(f"{header}\n{row}\n")
    run = npuprof.load(folder, source="text")
    assert (run.info.source, len(run.tasks), len(run.api)) == ("msprof text result", 1, 0)
    both, alone = npuprof.load(folder, source="parsed"), npuprof.load(folder, source="db")
    assert both.info.source == "msprof text result and msprof database"
    assert len(both.tasks) == len(alone.tasks) == 5  # of which the text has lost most
    assert both.notes["message"].str.contains(f"of msprof_{STAMP}.db: api, tasks").any()


@pytest.mark.slow
def test_text_may_lack_what_the_database_has(tmp_path: Path) -> None:
    output = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (output.parent / "profiler_info_0.json").write_text('{"rank_id": 0}')
    _export(output / "ascend_pytorch_profiler_0.db")
    assert len(npuprof.load(output.parent).kernels) == 2
    with pytest.raises(SourceError, match="holds no text result that can be read"):
        npuprof.load(output.parent, source="text")


def test_the_analysis_of_communication_below_is_read_too(tmp_path: Path) -> None:
    folder = _prof(tmp_path / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    (folder / "analyze").mkdir()
    columns = "hccl_op_name:TEXT group_name:TEXT transit_time:NUMERIC wait_time:NUMERIC synchronization_time:NUMERIC"
    maker = Maker(folder / "analyze" / "communication_analyzer.db")
    maker.table("CommAnalyzerTime", f"{columns} step:TEXT type:TEXT", [("a", "g", 1, 3, 0, None, None)]).close()
    frame = database.read(folder).statistics["communication"]
    assert frame[["name", "Wait Time(ms)", "Wait Time Ratio"]].to_numpy().tolist() == [["a", 3.0, 0.75]]
    assert frame["Synchronization Time Ratio"].tolist() == [0.0]


def test_an_empty_folder_of_text_does_not_hide_the_database(tmp_path: Path) -> None:
    folder = _prof(tmp_path / "PROF_000001_20260821120000000_ABCDEFGHIJKLMNOP")
    (folder / "mindstudio_profiler_output").mkdir()
    assert len(database.read(folder).tables["kernels"]) == 2


@pytest.mark.slow
def test_an_export_of_raw_data_in_the_samples_is_offered(samples: Path, tmp_path: Path) -> None:
    (raw,) = (samples / "raw" / "everything").glob("PROF_*")
    (export,) = (samples / "raw" / "everything" / "expected").glob("*.db")
    folder = Path(shutil.copytree(raw, tmp_path / raw.name))
    shutil.copy(export, folder)
    parsed, chosen = (npuprof.load(folder, source=source) for source in ("parsed", None))
    assert isinstance(parsed, npuprof.Profile)
    assert isinstance(chosen, npuprof.Profile)
    assert parsed.info.source == "msprof database"
    assert chosen.info.source == "raw"
    assert parsed.kernels["start_ns"].tolist() == chosen.kernels.sort_values("start_ns")["start_ns"].tolist()


def test_a_folder_without_databases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no database"):
        database.read(tmp_path)


def test_a_file_of_another_suffix_is_known_by_its_content(tmp_path: Path) -> None:
    path = framework_database(tmp_path / "a.dat")
    assert database.recognises(path)


@pytest.mark.slow
def test_text_beside_a_database_is_read(tmp_path: Path) -> None:
    output = tmp_path / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    framework_database(output / "ascend_pytorch_profiler_0.db")
    (output / "op_statistic.csv").write_text("OP Type,Core Type,Count\nAdd,AI_CORE,3\n")
    run = npuprof.load(output.parent)
    assert len(run.kernels) == 2
    assert run.statistics["op_statistic"]["Count"].tolist() == [3]
