"""Databases of every generation become the same tables, with the joins made."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.sources import database
from npuprof.sources.base import Decoded
from tests.sources.database import maker as made
from tests.sources.database.maker import TORCH, Maker, at, framework_database

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return framework_database(tmp_path / "ascend_pytorch_profiler_3.db")


def _links(decoded: Decoded, kind: str) -> list[tuple[str, str]]:
    """Return the names at both ends of each link of a kind."""
    links = decoded.tables["links"]

    def name(table: str, row: int) -> str:
        return str(decoded.tables[table]["name"].iloc[row])

    return [
        (name(one.source_table, one.source_row), name(one.target_table, one.target_row))
        for one in links[links["kind"] == kind].itertuples()
    ]


@pytest.mark.slow
def test_every_table_keeps_the_schema(path: Path) -> None:
    decoded = database.read(path)
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    assert set(decoded.tables) >= {"steps", "operators", "python", "api", "tasks", "kernels", "communication", "links"}
    assert decoded.info.collector == "torch_npu"


@pytest.mark.slow
def test_kernels_are_the_tasks_with_compute_information(path: Path) -> None:
    kernels = database.read(path).tables["kernels"]
    assert kernels["name"].tolist() == ["MatMulV3_0", "Add_0"]
    assert kernels["start_ns"].tolist() == [at(20), at(30)]
    assert kernels["duration_ns"].tolist() == [9000, 3000]
    assert kernels["wait_ns"].tolist() == [0, 1000]
    assert kernels["task_type"].tolist() == ["KERNEL_AICORE", "KERNEL_AIVEC"]
    assert kernels["core"].tolist() == ["AI_CORE", "AI_VECTOR_CORE"]
    assert kernels["input_shapes"].tolist() == ["128,256;128,512"] * 2
    assert kernels["input_formats"].tolist() == ["ND;ND"] * 2
    assert kernels["hf32"].tolist() == [True, True]
    assert kernels["block_num"].tolist() == [24, 24]
    assert kernels["step"].tolist() == [50, 50]
    assert kernels["context_id"].isna().all()


def test_counters_are_columns_with_units(path: Path) -> None:
    kernels = database.read(path).tables["kernels"]
    assert kernels["aic_total_time_ns"].fillna(-1).tolist() == [9272, -1]
    assert kernels["aic_total_cycles"].fillna(-1).tolist() == [367200, -1]
    assert kernels["aic_mac_ratio"].iloc[0] == 0.6
    assert "aiv_mac_ratio" not in kernels


@pytest.mark.parametrize("blocks", ["blockDim", "block_dim"])
def test_block_columns_of_older_files(tmp_path: Path, blocks: str) -> None:
    maker = Maker(tmp_path / "a.db")
    made.add_launches(maker, blocks=blocks)
    kernels = database.read(maker.close()).tables["kernels"]
    assert kernels["block_num"].tolist() == [24, 24]
    assert kernels["mix_block_num"].tolist() == [0, 0]
    assert kernels["hf32"].isna().all()


def test_operators_and_the_task_queue(path: Path) -> None:
    operators = database.read(path).tables["operators"]
    assert operators["name"].tolist() == ["aten::mm", "Enqueue", "Dequeue@aclnnMatmul", "MmBackward0"]
    assert operators["kind"].tolist() == ["op", "enqueue", "dequeue", "op"]
    assert operators["start_ns"].tolist() == [at(1), at(2), at(4), at(60)]
    assert operators["thread_id"].tolist() == [6, 6, 7, 8]
    assert operators["input_shapes"].tolist()[0] == "2,3;;"
    assert operators["input_dtypes"].tolist()[0] == "float;Scalar;None"
    assert operators["stack"].tolist()[0] == "main.py(9): train\nmain.py(1): <module>"
    assert operators["sequence_number"].fillna(-1).tolist() == [1350, -1, -1, 1350]
    assert operators["step"].tolist() == [50, 50, 50, 50]


def test_exchanged_columns_of_operands_are_put_right_and_reported(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "a.db")
    made.add_framework(maker, exchanged=True)
    decoded = database.read(maker.close())
    assert decoded.tables["operators"]["input_shapes"].tolist()[0] == "2,3;;"
    assert decoded.tables["operators"]["input_dtypes"].tolist()[0] == "float;Scalar;None"
    assert "put right" in decoded.notes.to_frame()["message"].iloc[0]


@pytest.mark.slow
def test_python_calls_nest_by_time(path: Path) -> None:
    python = database.read(path).tables["python"]
    assert python["name"].tolist() == ["main.py(1): <module>", "main.py(9): train"]
    assert python["parent_id"].fillna(-1).tolist() == [-1, 0]
    assert python["depth"].tolist() == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("first_own", [TORCH, 5000], ids=["own numbers", "any numbers"])
def test_links_join_operators_calls_and_tasks(tmp_path: Path, first_own: int) -> None:
    maker = Maker(tmp_path / "a.db")
    made.add_launches(maker)
    made.add_framework(maker, first_own=first_own)
    decoded = database.read(maker.close())
    assert _links(decoded, "enqueue") == [("Enqueue", "Dequeue@aclnnMatmul")]
    assert _links(decoded, "forward_backward") == [("aten::mm", "MmBackward0")]
    assert sorted(_links(decoded, "operator_api")) == [("MmBackward0", "launch"), ("aten::mm", "launch")]
    assert sorted(_links(decoded, "api_task")) == [
        ("aclrtMemcpyAsync", "MEMCPY_ASYNC"),
        ("hcom_allReduce_", "hcom_allReduce__210_0_1"),
        ("launch", "Add_0"),
        ("launch", "MatMulV3_0"),
    ]


def test_torch_numbers_that_equal_calls_do_not_link_to_them(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "a.db")
    made.add_launches(maker)
    made.add_framework(maker, first_own=7)  # 7 and 8 are calls too: of the queue, and of forward and backward
    decoded = database.read(maker.close())
    assert {target for _, target in _links(decoded, "operator_api")} == {"launch"}
    assert _links(decoded, "forward_backward") == [("aten::mm", "MmBackward0")]


def test_without_calls_an_operator_links_to_its_task(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "a.db")
    made.add_launches(maker)
    made.add_framework(maker)
    decoded = database.read(maker.run("DROP TABLE CANN_API").close())
    assert sorted(_links(decoded, "operator_api")) == [("MmBackward0", "Add_0"), ("aten::mm", "MatMulV3_0")]


def test_collectives_and_their_steps(path: Path) -> None:
    decoded = database.read(path)
    (collective,) = decoded.tables["communication"].to_dict("records")
    assert (collective["data_type"], collective["algorithm"], collective["count"]) == ("FP32", "RING", 64)
    assert (collective["device_id"], collective["step"]) == (0, 50)
    (step,) = decoded.tables["communication_tasks"].to_dict("records")
    assert (step["op_id"], step["task_type"], step["transport"]) == (0, "Memcpy", "SDMA")
    assert pd.isna(step["link"])
    assert pd.isna(step["dst_rank"])
    assert step["bandwidth_gb_s"] == 1.0  # 5000 bytes in 5000 ns


@pytest.mark.slow
def test_parents_of_a_collective_are_tasks_but_never_compute(path: Path) -> None:
    decoded = database.read(path)
    assert "AI_CORE" in decoded.tables["tasks"]["task_type"].tolist()
    overlap = decoded.tables["overlap"]
    computing = overlap[overlap["kind"] == "computing"]
    assert computing["duration_ns"].tolist() == [9000, 3000]


def test_a_file_altered_by_a_viewer_gives_the_same_tables(path: Path) -> None:
    clean = database.read(path)
    made.altered(path)
    seen = database.read(path)
    assert clean.tables.keys() == seen.tables.keys()
    for name in clean.tables:
        pd.testing.assert_frame_equal(clean.tables[name], seen.tables[name], check_index_type=False)
    assert seen.statistics == clean.statistics == {}
    assert len(seen.notes) == len(clean.notes) == 0


@pytest.mark.slow
def test_reading_leaves_the_file_as_it_was(path: Path) -> None:
    before = made.checksum(path)
    path.chmod(0o400)
    database.read(path)
    assert made.checksum(path) == before


@pytest.mark.parametrize("table", [
    "TASK", "COMPUTE_TASK_INFO", "CANN_API", "COMMUNICATION_OP", "COMMUNICATION_TASK_INFO", "TASK_PMU_INFO",
    "PYTORCH_API", "CONNECTION_IDS", "PYTORCH_CALLCHAINS", "STEP_TIME", "ENUM_API_TYPE", "STRING_IDS",
])  # fmt: skip
@pytest.mark.parametrize("statement", ["DROP TABLE {}", "DELETE FROM {}"])
def test_missing_table_takes_only_its_part(path: Path, table: str, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement.format(table))
        connection.commit()
    decoded = database.read(path)
    for name, frame in decoded.tables.items():
        tables.check(name, frame)
    assert any(len(frame) for frame in decoded.tables.values())


def test_times_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "a.db")
    columns = "startNs:TEXT endNs:TEXT type globalTid connectionId name"
    rows = [("1.7e+18", str(at(1)), 20000, 1, 1, 1), (str(at(5)), str(at(4)), 20000, 1, 2, 1)]
    decoded = database.read(maker.table("CANN_API", columns, rows).close())
    assert decoded.tables["api"]["start_ns"].tolist() == [at(5)]
    assert decoded.tables["api"]["duration_ns"].tolist() == [0]
    assert decoded.notes.to_frame()["severity"].tolist()[:2] == ["warning", "warning"]


def test_an_unrelated_database_is_refused(tmp_path: Path) -> None:
    path = Maker(tmp_path / "cookies.db").table("cookies", "a", [(1,)]).close()
    with pytest.raises(SourceError, match="without any table of a profile"):
        npuprof.load(path)


def test_a_database_of_empty_tables_says_so(tmp_path: Path) -> None:
    path = Maker(tmp_path / "msprof_1.db").table("TASK", "startNs endNs").close()
    with pytest.raises(SourceError, match="empty"):
        npuprof.load(path)


def _result(tmp_path: Path) -> Path:
    output = tmp_path / "renamed" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    framework_database(output / "ascend_pytorch_profiler_3.db")
    breakdown = [("step50", 8903.431, 0.25), (None, None, 1.0)]
    Maker(output / "analysis.db").table("StepTraceTime", "step:TEXT computing:NUMERIC free:NUMERIC", breakdown).table(
        "CommAnalyzerTime",
        "hccl_op_name:TEXT group_name:TEXT start_timestamp:NUMERIC elapse_time:NUMERIC step:TEXT type:TEXT",
        [("hcom_allReduce__210_0_1", "4242", 1.5, 88.75, "step50", "collective")],
    ).close()
    told = {"config": {"experimental_config": {"_profiler_level": "Level1"}}, "rank_id": "3"}
    (output.parent / "profiler_info_3.json").write_text(json.dumps(told))
    return output.parent


@pytest.mark.slow
def test_a_result_directory_of_databases_is_one_run(tmp_path: Path) -> None:
    run = npuprof.load(_result(tmp_path))
    assert isinstance(run, npuprof.Profile)
    assert len(run.kernels) == 2
    assert run.info.rank == 3
    assert run.info.options["level"] == 1
    assert run.step_times["step"].fillna(-1).tolist() == [50, -1]
    assert run.step_times["computing_ns"].fillna(-1).tolist() == [8_903_431, -1]
    assert run.step_times["free_ns"].tolist() == [250, 1000]
    statistics: Any = run.statistics["communication"]
    assert statistics[["step", "kind", "group"]].to_numpy().tolist() == [["50", "collective", "4242"]]


def test_a_database_is_found_whatever_lies_beside_it(tmp_path: Path) -> None:
    root = _result(tmp_path)
    (root / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").write_text("Name\n")
    assert database.recognises(root)
    assert database.recognises(root / "ASCEND_PROFILER_OUTPUT")


@pytest.mark.slow
def test_only_the_newest_of_several_exports_is_read(tmp_path: Path) -> None:
    old = framework_database(tmp_path / "msprof_1.db")
    new = tmp_path / "msprof_2.db"
    shutil.copy(old, new)
    os.utime(old, ns=(1, 1))
    decoded = database.read(tmp_path)
    assert len(decoded.tables["kernels"]) == 2
    assert decoded.notes.to_frame()["source"].tolist() == ["msprof_1.db"]


@pytest.mark.slow
def test_a_damaged_analysis_does_not_cost_the_profile(tmp_path: Path) -> None:
    root = _result(tmp_path)
    analysis = root / "ASCEND_PROFILER_OUTPUT" / "analysis.db"
    analysis.write_bytes(analysis.read_bytes()[:3000])
    decoded = database.read(root)
    assert len(decoded.tables["kernels"]) == 2


def test_a_path_is_described_without_its_rows(tmp_path: Path) -> None:
    assert database.describe(_result(tmp_path)).rank == 3
