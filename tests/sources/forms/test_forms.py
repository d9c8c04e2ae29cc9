"""A run in several forms: each table is of the form that has it, and rows that name others name the right ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.loading import open_path
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.base import Preference
from npuprof.sources.detect import detect
from tests.sources.cluster import maker as cluster
from tests.sources.database.maker import framework_database
from tests.sources.raw.conftest import raw_sample

_LEVEL0 = ("api", "communication_tasks")


def _copy(source: Path, target: Path, wanted: Callable[[Path], bool] = lambda _: True) -> None:
    for file in source.rglob("*"):
        if file.is_file() and wanted(file):
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)


@pytest.fixture
def both(samples: Path, tmp_path: Path) -> Path:
    """The text result and the database that the vendor made of the same bytes."""
    expected = samples / "raw" / "everything" / "expected"
    root = tmp_path / "PROF_000001_20251120005320000_SYNTHAAAAAAAAAAA"
    _copy(expected, root / "mindstudio_profiler_output", lambda file: file.suffix != ".db")
    _copy(expected, root, lambda file: file.suffix == ".db")
    return root


def _prune(root: Path) -> None:
    """Take out of the timeline what the vendor leaves out at level 0: calls, and steps of collectives."""
    (path,) = (root / "mindstudio_profiler_output").glob("msprof_2*.json")
    events = json.loads(path.read_text())
    kept = [event for event in events if not {"level", "notify_id", "transport type"} & set(event.get("args", {}))]
    assert len(kept) < len(events)
    path.write_text(json.dumps(kept))


def _started(run: npuprof.Profile, table: str, rows: pd.Series[int]) -> list[int]:
    found: list[int] = run.tables[table]["start_ns"].iloc[rows.tolist()].tolist()
    return found


@pytest.mark.slow
def test_each_form_is_read_alone_where_it_is_asked_for(both: Path) -> None:
    asked: dict[Preference, str] = {"text": "msprof text result", "db": "msprof database"}
    for source, told in asked.items():
        run = npuprof.load(both, source=source)
        assert run.info.source == told
        assert not run.notes["message"].str.contains("several forms").any()
    with pytest.raises(SourceError, match="holds no raw data"):
        npuprof.load(both, source="raw")


@pytest.mark.slow
def test_a_database_without_more_is_looked_into_and_not_read(both: Path) -> None:
    run = npuprof.load(both)
    assert run.info.source == "msprof text result"
    (note,) = run.notes[run.notes["source"].str.endswith(".db")].to_dict("records")
    assert "no table that the text result lacks" in note["message"]


@pytest.mark.slow
def test_database_fills_tables_the_text_lacks(both: Path) -> None:
    _prune(both)
    text, alone, run = (npuprof.load(both, source=source) for source in ("text", "db", None))
    for name in _LEVEL0:
        assert not len(text.tables[name])
        assert len(run.tables[name]) == len(alone.tables[name]) > 0
    assert len(run.tasks) == len(text.tasks)
    assert set(run.statistics) >= set(text.statistics)
    (told,) = run.notes[run.notes["message"].str.startswith("several forms")]["message"]
    assert "of the text result: tasks" in told
    assert ".db: api, communication_tasks" in told
    for name, frame in run.tables.items():
        tables.check(name, frame)
    assert not run.notes["message"].str.contains("unknown reason|more than once|were lost|from nowhere").any()


@pytest.mark.slow
def test_collective_steps_name_other_forms_rows(both: Path) -> None:
    _prune(both)
    run, alone = npuprof.load(both), npuprof.load(both, source="db")

    def pairs(one: npuprof.Profile) -> set[tuple[int, int]]:
        links = one.links[one.links["kind"] == "api_task"]
        return {
            (_started(one, source, rows["source_row"])[0], _started(one, target, rows["target_row"])[0])
            for (source, target, _), rows in links.groupby(["source_table", "target_table", links.index], observed=True)
        }

    shown = set(run.tasks["start_ns"]) | set(run.communication["start_ns"])
    assert pairs(run) == {pair for pair in pairs(alone) if pair[1] in shown} != set()
    own, theirs = (_started(one, "communication", one.communication_tasks["op_id"].astype(int)) for one in (run, alone))
    assert own == theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["msprof_2*.json", "op_summary*.csv", "*"])
def test_a_file_that_is_missing_costs_no_table(both: Path, name: str) -> None:
    expected = npuprof.load(both, source="db")
    for file in (both / "mindstudio_profiler_output").glob(name):
        file.unlink()
    run = npuprof.load(both, source="parsed")
    for table in ("api", "tasks", "kernels", "communication", "communication_tasks", "links"):
        assert len(run.tables[table]) >= 0.8 * len(expected.tables[table]) > 0, table
    assert run.kernels["op_name"].tolist() == expected.kernels["op_name"].tolist()


@pytest.mark.slow
def test_forms_of_different_runs_are_not_mixed(samples: Path, tmp_path: Path) -> None:
    root = tmp_path / "rank0_ascend_pt"
    _copy(samples / "torch_npu/text/level0/rank0_ascend_pt", root)
    _copy(samples / "torch_npu/db/level0/rank0_ascend_pt", root, lambda file: file.suffix == ".db")
    run = npuprof.load(root)
    assert (run.info.source, len(run.api), len(run.communication_tasks)) == ("torch_npu database", 713, 296)
    told = run.notes[run.notes["message"].str.contains("belongs to another run")]
    assert told["severity"].tolist() == ["warning"]
    assert "source='text'" in told["message"].iloc[0]


@pytest.mark.slow
def test_incomplete_raw_data_fills_gaps(samples: Path, tmp_path: Path) -> None:
    source = raw_sample(samples, "everything")
    root = tmp_path / source.name
    _copy(source, root)
    expected = samples / "raw" / "everything" / "expected"
    _copy(expected, root / "mindstudio_profiler_output", lambda file: file.name.startswith("op_summary"))
    (root / "host" / "end_info").unlink()
    run = npuprof.load(root)
    raw = npuprof.load(root, source="raw")
    assert run.info.source == "msprof text result and raw"
    assert len(run.api) == len(raw.api) > 0
    assert run.notes["message"].str.contains("raw data, which is not complete").any()
    assert run.notes["message"].str.contains("of the raw data: .*api").any()
    assert not len(npuprof.load(root, source="parsed").api)


@pytest.mark.slow
def test_text_and_a_database_that_were_copied_into_a_folder(both: Path, tmp_path: Path) -> None:
    _prune(both)
    folder = tmp_path / "copied"
    for source in (both, both / "mindstudio_profiler_output"):
        for file in source.iterdir():
            if file.is_file():
                folder.mkdir(exist_ok=True)
                shutil.copyfile(file, folder / file.name)
    assert len(npuprof.load(folder).api) == len(npuprof.load(both).api) > 0


@pytest.mark.slow
def test_run_beside_cluster_analysis_is_in_the_set(tmp_path: Path) -> None:
    folder = cluster.database(cluster.text_result(tmp_path / "a") / "cluster_analysis.db").parent
    head = "Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    (folder / "kernel_details.csv").write_text(f"{head}\nMatMul,MatMul,AI_CORE,1736407067946125.104\t,2\n")
    runs = open_path(folder)
    assert isinstance(runs, ProfileSet)
    assert [len(run.kernels) for run in runs] == [1, 0]
    assert runs.cluster is not None
    framework_database(folder / "msprof_20260821120000.db")
    assert sorted(run.source.name for run in detect(folder).results) == ["cluster", "forms.copied_files"]
    above = open_path(tmp_path)
    assert above.notes["message"].str.contains("files of a run beside the analysis").any()


def test_cluster_analysis_hides_no_ranks(tmp_path: Path) -> None:
    folder = cluster.text_result(tmp_path / "job")
    output = folder / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    framework_database(output / "ascend_pytorch_profiler_0.db")
    assert sorted(run.source.name for run in detect(tmp_path).results) == ["cluster", "database"]
