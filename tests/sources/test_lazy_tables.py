"""Tables that are made when they are first touched: the same tables and notes as without, whatever happens."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult, detect
from npuprof.sources.lazy_tables import LazyTables
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories
from tests.interrupts import interrupted

_ORDERS = 3
_OF_RAW = ("api", "tasks", "kernels", "links", "overlap")


def _steps(count: int) -> pd.DataFrame:
    rows = np.arange(count, dtype=np.int64)
    return tables.build("steps", {"step": rows, "start_ns": rows * 100, "duration_ns": rows + 1})


def _marks(count: int) -> pd.DataFrame:
    rows = np.arange(count, dtype=np.int64)
    return tables.build("marks", {"start_ns": rows, "duration_ns": rows, "thread_id": rows})


def _lazy(made: list[str]) -> tuple[LazyTables, Notes]:
    notes = Notes()
    lazy = LazyTables(notes)

    def later(name: str, build: Callable[[int], pd.DataFrame], rows: int) -> None:
        frame = build(rows)

        def make() -> pd.DataFrame:
            notes.ledger.read(name, rows + 2)
            notes.ledger.keep(name, name, rows)
            notes.leave_out(name, "a row is damaged", 2)
            made.append(name)
            return frame

        lazy.later(name, make)

    later("marks", _marks, 3)
    later("steps", _steps, 2)
    lazy.at_last(notes.settle)
    return lazy, notes


def _all_of(run: Profile) -> tuple[dict[str, pd.DataFrame], pd.DataFrame, pd.DataFrame, Info]:
    return dict(run.tables), run.notes, run.ledger, run.info


def _assert_equal(found: Profile, expected: Profile) -> None:
    for ours, theirs in zip(_all_of(found), _all_of(expected), strict=True):
        if isinstance(ours, dict) and isinstance(theirs, dict):
            assert list(ours) == list(theirs)
            for name, frame in ours.items():
                pd.testing.assert_frame_equal(frame, theirs[name], obj=name)
        elif isinstance(ours, pd.DataFrame) and isinstance(theirs, pd.DataFrame):
            columns = list(theirs.columns)
            pd.testing.assert_frame_equal(
                ours.sort_values(columns, ignore_index=True), theirs.sort_values(columns, ignore_index=True)
            )
        else:
            assert ours == theirs


def _run(path: Path) -> DetectedResult:
    (run,) = detect(path).results
    return run


def test_table_is_made_once_by_many_threads() -> None:
    made: list[str] = []
    lazy, _ = _lazy(made)
    assert list(lazy.pending) == ["marks", "steps"]
    with ThreadPoolExecutor(8) as threads:
        frames = list(threads.map(lazy.__getitem__, ["marks"] * 32))
    assert made == ["marks"]
    assert all(frame is frames[0] for frame in frames)
    assert list(lazy.pending) == ["steps"]


@pytest.mark.slow
def test_whatever_shows_notes_makes_all_tables_first(tmp_path: Path) -> None:
    shows: list[Callable[[Profile], object]] = [
        lambda run: run.notes.to_string(),
        Profile._repr_html_,
        lambda run: run.to_html(tmp_path / "run.html").read_text(),
        lambda run: npuprof.load(run.save(tmp_path / "saved")).notes.to_string(),
    ]
    for show in shows:
        lazy, notes = _lazy([])
        assert "a row is damaged" in str(show(Profile(Decoded(lazy, notes=notes)))), show
    lazy, notes = _lazy([])
    assert "2 warnings about the data" in str(Profile(Decoded(lazy, notes=notes)))


def test_notes_follow_the_order_of_tables() -> None:
    shown = []
    for order in (["marks", "steps"], ["steps", "marks"]):
        lazy, notes = _lazy([])
        for name in order:
            assert len(lazy[name])
        lazy.make_all()
        shown.append((notes.to_frame(), notes.ledger.to_frame()))
    for first, second in zip(*shown, strict=True):
        pd.testing.assert_frame_equal(first, second)


@pytest.mark.slow
def test_interrupt_loses_no_note() -> None:
    expected = _lazy([])
    expected[0].make_all()
    line = 0
    while True:
        lazy, notes = _lazy([])
        if not interrupted(lazy.make_all, {"npuprof.sources.lazy_tables", "npuprof.tables.notes", __name__}, line):
            break
        line += 1
        lazy.make_all()
        assert lazy.pending == ()
        pd.testing.assert_frame_equal(notes.to_frame(), expected[1].to_frame())
        pd.testing.assert_frame_equal(notes.ledger.to_frame(), expected[1].ledger.to_frame())
    assert line > 20


def test_a_pickle_has_all_tables_and_notes() -> None:
    lazy, notes = _lazy([])
    copy = pickle.loads(pickle.dumps(Decoded(lazy, notes=notes)))
    assert {name: len(frame) for name, frame in copy.tables.items()} == {"marks": 3, "steps": 2}
    assert len(copy.notes) == 2


def test_tables_of_a_profile_are_found_by_editors() -> None:
    lazy, notes = _lazy([])
    run = Profile(Decoded(lazy, notes=notes))
    assert set(tables.NAMES) <= set(dir(run))
    assert lazy.pending
    assert len(run.marks) == 3
    with pytest.raises(AttributeError, match="kernel"):
        _ = run.kernel  # type: ignore[attr-defined]


@pytest.mark.slow
def test_no_file_of_raw_data_is_read_after_loading(tmp_path: Path) -> None:
    path = synthesise(tmp_path, launches=40)
    expected = Profile(decode_run(_run(path)))
    run = npuprof.load(path)
    assert isinstance(run.tables, LazyTables)
    assert run.tables.pending == _OF_RAW
    shutil.rmtree(path)
    _assert_equal(run, expected)


@pytest.mark.slow
def test_changing_one_table_of_raw_data_changes_no_other(tmp_path: Path) -> None:
    path = synthesise(tmp_path, launches=40)
    expected, run = npuprof.load(path), npuprof.load(path)
    for name in ("tasks", "communication", "steps", "marks", "api"):
        for column in run.tables[name].select_dtypes(["int64", "Int64"]):
            run.tables[name][column].array[:] = 0
    for name in ("kernels", "links", "overlap"):
        pd.testing.assert_frame_equal(run.tables[name], expected.tables[name])


@pytest.mark.slow
def test_memory_for_a_table_is_checked_like_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = npuprof.load(synthesise(tmp_path, launches=40))

    def full(*_: object) -> pd.DataFrame:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(raw.launch_tables, "links_table", full)
        with pytest.raises(SourceError, match="needs more memory than there is"):
            _ = run.links
    assert len(run.links)


@pytest.mark.long
@pytest.mark.parametrize("name", ["minimal", "everything", "model_step", "sliced_2k"])
def test_raw_samples_are_saved_in_any_order(samples: Path, tmp_path: Path, name: str) -> None:
    run = _run(next((samples / "raw" / name).glob("PROF_*")))
    expected = Profile(decode_run(run))
    _assert_equal_in_any_order(run, expected)
    _assert_equal_in_any_order(*_saved(expected, tmp_path / "saved"))


def _assert_equal_in_any_order(run: DetectedResult, expected: Profile) -> None:
    random = Random(0)
    for _ in range(_ORDERS):
        found = Profile(decode_run(run, lazily=True))
        assert isinstance(found.tables, LazyTables)
        # Before any table is made; clocks are compared when notes are complete.
        assert replace(found.info, clocks=[]) == replace(expected.info, clocks=[])
        for table in random.sample(tables.NAMES, random.randint(0, len(tables.NAMES))):
            assert found.tables[table] is found.tables[table]
        _assert_equal(found, expected)


def _saved(profile: Profile, path: Path) -> tuple[DetectedResult, Profile]:
    run = _run(profile.save(path))
    return run, Profile(decode_run(run))


def _saved_step(folder: Path) -> Path:
    return Profile(Decoded(factories.profile(5), factories.info(), Notes())).save(folder / "saved")


def test_saved_tables_are_read_when_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved_step(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = npuprof.load("saved")
    monkeypatch.chdir("/")
    assert isinstance(run.tables, LazyTables)
    assert set(run.tables.pending) == {file.stem for file in path.glob("*.parquet")}
    assert len(run.kernels) == 5
    assert set(run.tables.pending) == {file.stem for file in path.glob("*.parquet")} - {"kernels"}


def test_missing_saved_file_is_named_and_may_return(tmp_path: Path) -> None:
    path = _saved_step(tmp_path)
    run = npuprof.load(path)
    touches: list[Callable[[], object]] = [lambda: run.kernels, lambda: run.notes]
    for change, told in (("gone", "is missing"), ("other", "is not as it was saved")):
        kept = (path / "kernels.parquet").rename(tmp_path / "kept")
        if change == "other":
            shutil.copy(path / "steps.parquet", path / "kernels.parquet")
        for touch in touches:
            with pytest.raises(SourceError, match=rf"kernels\.parquet {told}\): .* load it again if it was replaced"):
                touch()
        assert len(run.steps)
        kept.replace(path / "kernels.parquet")
    assert len(run.kernels) == 5
    assert len(run.ledger)


def _moved_task(folder: Path, by_ticks: int) -> Path:
    """Write raw data of which one task, in the middle, ran at another time; ticks are those of the device."""
    path = synthesise(folder, launches=40, streams=1)
    (file,) = path.rglob("stars_soc*.slice_0")
    records = np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, 64).copy()
    for row in (len(records) // 2, len(records) // 2 + 1):  # its start and its end
        at = records[row, 8:16].view(np.int64)
        at[0] = 0 if by_ticks == 0 else at[0] + by_ticks
    file.write_bytes(records.tobytes())
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by_ticks", "told"),
    [
        pytest.param(200_000, "out of the order", id="late"),
        pytest.param(-50_000, "out of the order", id="early", marks=pytest.mark.long),
        pytest.param(10**12, "far from all others", id="hours away"),
        pytest.param(0, "from before the collection", id="zero", marks=pytest.mark.long),
    ],
)
def test_lazy_tables_are_examined_as_others(tmp_path: Path, by_ticks: int, told: str) -> None:
    path = _moved_task(tmp_path, by_ticks)
    expected = Profile(decode_run(_run(path)))
    assert expected.notes["message"].str.contains(told).any()
    assert ("runs_over_ns" in expected.kernels) == ("order" in told)
    for first in ((), ("kernels",), ("api", "overlap")):
        found = npuprof.load(path)
        for name in first:
            assert found.tables[name] is not None
        _assert_equal(found, expected)
