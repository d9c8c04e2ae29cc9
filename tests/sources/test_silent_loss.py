"""No damage to a file of a text result takes rows or values without a warning.

With NPUPROF_HEAVY=1 every file of the small runs and every run of every sample is tried too, with NPUPROF_MUTATIONS=N
random mutations of each kind in each file (1 by default).
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from npuprof.sources.base import Preference
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.format import declared
from npuprof.sources.detect import detect
from npuprof.tables.notes import Notes
from tests.samples import FOLDER as SAMPLES
from tests.sources.database.maker import framework_database
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.mindspore import maker as mindspore
from tests.sources.msprof.results import STAMP, csv, result
from tests.sources.mutations import Mutated, Mutation, silent_losses
from tests.sources.test_broken_input import FILES, whole_result

_PAGE = 4096
_HEAVY = bool(os.environ.get("NPUPROF_HEAVY"))
_RANDOM = int(os.environ.get("NPUPROF_MUTATIONS", "1"))
_OF_MINDSPORE = "" if _HEAVY else "trace_view|minddata_pipeline|dataset"  # others are read as those of torch_npu
_NAMED = {  # tables whose rows others name
    *("STRING_IDS", "TASK", "CANN_API", "COMPUTE_TASK_INFO", "COMMUNICATION_OP", "CONNECTION_IDS"),
    *("PYTORCH_CALLCHAINS", "ENUM_API_TYPE", "ENUM_HCCL_LINK_TYPE", "ENUM_HCCL_TRANSPORT_TYPE", "ENUM_MODULE"),
}
_SMALL = (
    "cluster/cluster_analysis_output",
    "msprof/aic_metrics/PROF_Memory",
    "msprof/realistic_parent_layout",
    "mindspore/cpu/case_npu",
    "torch_npu/llm_4ranks/rank_1_ascend_pt",
)


@pytest.mark.long
def test_a_whole_result_loses_nothing_in_silence(tmp_path: Path) -> None:
    root = whole_result(tmp_path / "whole")
    common = {"activities": ["ProfilerActivity.NPU"], "profile_memory": True}
    config = {"common_config": common, "experimental_config": {"_profiler_level": "Level1"}}
    (root / "profiler_info_0.json").write_text(json.dumps({"config": config}))
    assert not silent_losses(root, tmp_path, names="" if _HEAVY else "(?!trace_view)")  # which is tried by itself


@pytest.mark.long
def test_a_result_of_mindspore_loses_nothing_in_silence(tmp_path: Path) -> None:
    assert not silent_losses(mindspore.result(tmp_path / "whole" / "ms"), tmp_path, names=_OF_MINDSPORE)


@pytest.mark.slow
def test_a_result_of_msprof_loses_nothing_in_silence(tmp_path: Path) -> None:
    root = result(tmp_path / "whole" / "PROF_1")
    summed = root / "mindstudio_profiler_output" / f"op_statistic_{STAMP}.csv"
    csv(summed, "OP Type,Core Type,Count,Total Time(us)", ["MatMulV3,AI_CORE,1,10"])
    assert not silent_losses(root, tmp_path)


@pytest.mark.slow
def test_a_trace_of_torch_loses_nothing_in_silence(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("user_annotation", "forward", 5, 60, External_id=2)
    for number in range(4):
        trace.operator("aten::mm", 10 + number, 1, 3 + number, Sequence_number=number)
        trace.memory(12 + number, 64, 4096 + number, 64 * number)
    (tmp_path / "whole").mkdir()
    assert not silent_losses(trace.write(tmp_path / "whole" / "trace.json"), tmp_path)


def _of_database(path: Path, scratch: Path, most_pages: int = 4) -> Iterator[Mutation]:
    """Build mutations of a database: cut, overwritten, without a table, or with a renamed column of each table.

    A column that some versions lack is not renamed: as far as a file shows, another version has added one, which is a
    note without alarm (tests/sources/database/test_tables.py).
    """
    content = path.read_bytes()
    pages = len(content) // _PAGE
    for page in range(1, pages, max(1, pages // most_pages)):
        yield Mutation(f"cut at page {page}", content[: page * _PAGE])
        yield Mutation(f"zeroed page {page}", content[: page * _PAGE] + bytes(_PAGE) + content[(page + 1) * _PAGE :])
    with open_database(path, Notes()) as opened:
        columns = {
            table: [name for name in names if _is_required(table, name)] for table, names in opened.tables.items()
        }
    for place, (table, names) in enumerate(sorted(columns.items())):
        for name in names if _HEAVY or not names else names[place % len(names) :][:1]:
            shutil.copy(path, scratch)
            with closing(sqlite3.connect(scratch)) as connection:
                connection.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{name}" TO "{name[::-1]}_"')
                connection.commit()
            yield Mutation(f"column {table}.{name} renamed", scratch.read_bytes())
    for table in sorted(_NAMED & columns.keys()):
        for words in (f'DROP TABLE "{table}"', f'DELETE FROM "{table}"'):
            shutil.copy(path, scratch)
            with closing(sqlite3.connect(scratch)) as connection:
                connection.execute(words)
                connection.commit()
            yield Mutation(words, scratch.read_bytes())


def _is_required(table: str, column: str) -> bool:
    described = declared(table)
    columns = described.columns if described else ()
    return any(column in known.names for known in columns if not known.is_optional)


@pytest.mark.long
def test_a_database_loses_nothing_in_silence(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    path = framework_database(tmp_path / "whole" / "ascend_pytorch_profiler_3.db")
    run = Mutated(path, tmp_path)
    changes = _of_database(path, tmp_path / "scratch.db", 10_000 if _HEAVY else 4)
    lost = [(change.name, loss) for change in changes if (loss := run.silent_loss(run.root, change))]
    assert not lost


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_a_file_by_itself_loses_nothing_in_silence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "whole" / name
    path.parent.mkdir()
    path.write_bytes(FILES[name])
    assert not silent_losses(path, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("sample", _SMALL)
def test_a_sample_loses_nothing_in_silence(samples: Path, tmp_path: Path, sample: str) -> None:
    for run in detect(samples / sample).results:
        assert not silent_losses(run.path, tmp_path)


def _runs() -> list[tuple[Preference, str]]:
    """List the runs of all samples whose files are text, once each: as they are read, and as text beside raw data."""
    found: dict[tuple[str, str], tuple[Preference, str]] = {}
    for preferred in (None, "parsed"):
        for run in detect(SAMPLES, preferred).results if SAMPLES.is_dir() else ():
            if run.source.name not in ("raw", "database"):
                name = str(run.path.relative_to(SAMPLES))
                found.setdefault((run.source.name, name), (preferred, name))
    return list(found.values())


@pytest.mark.skipif(not _HEAVY, reason="set NPUPROF_HEAVY=1; NPUPROF_MUTATIONS tells how many random mutations to try")
@pytest.mark.parametrize(("preferred", "name"), _runs() if _HEAVY else [(None, "")])
def test_no_sample_loses_anything_in_silence(tmp_path: Path, preferred: Preference, name: str) -> None:
    assert not silent_losses(SAMPLES / name, tmp_path, Random(name), _RANDOM, preferred=preferred)


@pytest.mark.skipif(not _HEAVY, reason="set NPUPROF_HEAVY=1")
@pytest.mark.parametrize("name", ["level0/rank0", "level1/rank0", "level1/rank1"])
def test_no_database_of_the_samples_loses_anything_in_silence(samples: Path, tmp_path: Path, name: str) -> None:
    path = next((samples / f"torch_npu/db/{name}_ascend_pt").rglob("ascend_pytorch_profiler_*.db"))
    run = Mutated(path, tmp_path)
    changes = _of_database(path, tmp_path / "scratch.db", 16)
    lost = [(change.name, loss) for change in changes if (loss := run.silent_loss(run.root, change))]
    assert not lost
