"""Runs that are read when they are touched: the same tables, facts and notes as those that are read at once."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.sources import unread as unread_runs
from npuprof.sources.base import Decoded, Preference
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult, detect
from npuprof.sources.unread import UnreadRun
from tests.interrupts import interrupted
from tests.sources.mutations import mutations

_SAMPLES: tuple[tuple[str, Preference, set[str]], ...] = (
    ("torch_npu/text/level1/rank0_ascend_pt", None, {"memory", "allocations"}),
    ("torch_npu/llm_4ranks/rank_0_ascend_pt", "text", {"memory", "allocations", "step_times"}),
    ("torch_npu/db/level1/rank0_ascend_pt", "db", {"tasks", "operators", "python", "steps", "memory", "step_times"}),
    ("raw/sliced_2k/expected", "db", {"tasks", "memory", "counters"}),
    ("msprof/realistic_parent_layout", "text", set()),
)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[DetectedResult], Profile]:
    """Return a function that opens a run, however small, without reading it."""
    monkeypatch.setattr(unread_runs, "SMALL_BYTES", 0)

    def open_run(run: DetectedResult) -> Profile:
        opened = unread_runs.unread(run)
        assert opened is not None
        return Profile(opened)

    return open_run


def _run(path: Path, form: Preference = None) -> DetectedResult:
    (run,) = detect(path, form).results
    return run


def _assert_same(found: Profile, expected: Profile) -> None:
    for name in tables.NAMES:
        pd.testing.assert_frame_equal(found.tables[name], expected.tables[name], obj=name)
    assert found.info == expected.info
    assert list(found.statistics) == list(expected.statistics)
    for name, frame in expected.statistics.items():
        pd.testing.assert_frame_equal(found.statistics[name], frame, obj=name)
    pd.testing.assert_frame_equal(found.notes, expected.notes)
    pd.testing.assert_frame_equal(found.ledger, expected.ledger)


def _is_read(run: Profile) -> bool:
    opened = run._decoded
    assert isinstance(opened, UnreadRun)
    return opened._decoded is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "form", "alone"),
    [pytest.param(*each, marks=pytest.mark.long if each in (_SAMPLES[1], _SAMPLES[3]) else ()) for each in _SAMPLES],
)
def test_samples_do_not_depend_on_order(
    samples: Path, unread: Callable[[DetectedResult], Profile], place: str, form: Preference, alone: set[str]
) -> None:
    run = _run(samples / place, form)
    expected = Profile(decode_run(run))
    random = Random(0)
    for touched in ([], list(alone), *(random.sample(tables.NAMES, random.randint(1, 6)) for _ in range(3))):
        found = unread(run)
        for name in touched:
            assert found.tables[name] is found.tables[name]
        assert alone.isdisjoint(touched) or not alone.issuperset(touched) or not _is_read(found)
        _assert_same(found, expected)


@pytest.mark.slow
def test_a_large_result_is_not_read_by_load(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/text/level1/rank0_ascend_pt")
    assert len(run.memory)
    assert len(run.allocations)
    assert not _is_read(run)
    assert run.info.devices == [0]
    assert _is_read(run)


@pytest.mark.long
@pytest.mark.parametrize("place", ["torch_npu/text/level0/rank0_ascend_pt", "torch_npu/db/level0/rank0_ascend_pt"])
def test_damaged_files_are_the_same_whether_read_alone_or_not(
    samples: Path, tmp_path: Path, unread: Callable[[DetectedResult], Profile], place: str
) -> None:
    random, read_alone, refused = Random(1), 0, 0
    source = samples / place
    names = ("*memory*.csv", "step_trace_time.csv", "*profiler_*.db", "analysis.db")
    for file in sorted(file for name in names for file in source.rglob(name)):
        for number, mutation in enumerate(mutations(file.read_bytes(), random)):
            folder = tmp_path / f"{file.stem}{number}" / source.name
            copied = shutil.copytree(source, folder, ignore=shutil.ignore_patterns("trace_view.json"))
            damaged = copied / file.relative_to(source)
            damaged.unlink() if mutation.content is None else damaged.write_bytes(mutation.content)
            try:
                expected = Profile(decode_run(run := _run(copied)))
            except SourceError:
                refused += 1
                continue
            found = unread(run)
            for name in ("memory", "allocations", "step_times", "tasks"):
                assert found.tables[name] is not None
                read_alone += not _is_read(found)
            _assert_same(found, expected)
            shutil.rmtree(copied)
    assert read_alone > 5 * refused


def _database(folder: Path) -> Path:
    path = folder / "ascend_pytorch_profiler_0.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE STRING_IDS (id INTEGER, value TEXT)")
        file.executemany("INSERT INTO STRING_IDS VALUES (?, ?)", [(1, "PTA"), (2, "AI_CORE")])
        file.execute(
            "CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId "
            "INTEGER, globalPid INTEGER, taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, "
            "modelId INTEGER)"
        )
        start = 1_800_000_000_000_000_000
        rows = [(start + at, start + at + 5, 0, at, at, 1, 2, 4294967295, 3, at, 0) for at in range(0, 40, 10)]
        file.executemany(f"INSERT INTO TASK VALUES ({','.join('?' * 11)})", rows)
        file.commit()
    return path


@pytest.mark.parametrize("moved", [(0,), (0, 10, 20), (30,)], ids=["one", "most", "last"])
@pytest.mark.parametrize("by_ns", [-1_800_000_000_000_000_000, 10**10 + 10**9, 10**15, -(10**15)])
def test_wrong_times_leave_the_same_rows_when_read_alone(
    tmp_path: Path, unread: Callable[[DetectedResult], Profile], moved: tuple[int, ...], by_ns: int
) -> None:
    path = _database(tmp_path)
    with closing(sqlite3.connect(path)) as file:
        for task in moved:
            statement = "UPDATE TASK SET startNs = startNs + ?1 - ?2, endNs = endNs + ?1 - ?2 WHERE taskId = ?2"
            file.execute(statement, (by_ns, task))
        file.commit()
    expected = Profile(decode_run(_run(path)))
    found = unread(_run(path))
    assert len(found.tasks) == len(expected.tasks)
    _assert_same(found, expected)


def test_the_error_names_a_file_that_changed_before_all_was_read(
    tmp_path: Path, unread: Callable[[DetectedResult], Profile]
) -> None:
    path = _database(tmp_path)
    run = unread(_run(path))
    assert len(run.tasks) == 4
    with closing(sqlite3.connect(path)) as file:
        file.execute("DELETE FROM TASK")
        file.commit()
    for name in ("kernels", "info", "notes", "memory"):
        with pytest.raises(SourceError, match=rf"before all of it was read \({path.name}\): load it again"):
            getattr(run, name)
    assert len(run.tasks) == 4


def test_deleted_run_is_told_when_touched(tmp_path: Path, unread: Callable[[DetectedResult], Profile]) -> None:
    path = _database(tmp_path)
    run = unread(_run(path))
    path.unlink()
    with pytest.raises(SourceError, match="load it again"):
        _ = run.tasks


def test_a_relative_path_is_read_wherever_the_notebook_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: Callable[[DetectedResult], Profile]
) -> None:
    name = _database(tmp_path).name
    monkeypatch.chdir(tmp_path)
    expected = Profile(decode_run(_run(Path(name))))
    run = unread(_run(Path(name)))
    monkeypatch.chdir("/")
    assert len(run.tasks) == 4
    _assert_same(run, expected)


def test_a_pickle_is_read_completely(tmp_path: Path, unread: Callable[[DetectedResult], Profile]) -> None:
    run = _run(_database(tmp_path))
    expected = Profile(decode_run(run))
    opened = unread_runs.unread(run, [("folder", "there may be more runs")])
    copy = pickle.loads(pickle.dumps(opened))
    assert isinstance(copy, Decoded)
    assert "there may be more runs" in copy.notes.to_frame()["message"].tolist()
    pd.testing.assert_frame_equal(copy.tables["tasks"], expected.tasks)


def _all(touches: list[Callable[[], object]]) -> None:
    for touch in touches:
        touch()


@pytest.mark.long
def test_an_interrupt_at_any_line_loses_nothing(tmp_path: Path, unread: Callable[[DetectedResult], Profile]) -> None:
    run = _run(_database(tmp_path))
    expected = Profile(decode_run(run))
    line = 0
    while True:
        found = unread(run)
        touches: list[Callable[[], object]] = [partial(getattr, found, name) for name in ("tasks", "info")]
        modules = {"npuprof.sources.unread", "npuprof.sources.lazy_tables"}
        if not interrupted(partial(_all, touches), modules, line):
            break
        line += 1
        _assert_same(found, expected)
    assert line > 20


def test_lone_file_gives_a_schema_table(samples: Path) -> None:
    for place, form, alone in _SAMPLES:
        run = _run(samples / place, form)
        exact = {name for name, part in run.source.parts(run.path).items() if part.is_exact}
        assert alone <= exact <= set(tables.NAMES), place
