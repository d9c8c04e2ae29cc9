"""Looking at many ranks reads their small files, keeps what they hold, and notices when they change."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof.files import cache
from npuprof.loading import load_set
from npuprof.ranks import pieces
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator.jobs import SIZES, Faults, simulate, text

pytestmark = pytest.mark.slow

_JOB = simulate(replace(SIZES[8], steps=1, microbatches=2, layers=1), Faults(slow_ranks={3: 0.08}), seed=4)
_OUTPUT = "ASCEND_PROFILER_OUTPUT"


@pytest.fixture
def eight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ranks of a small job, whose timelines would be noticed if anybody read them; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = text.write(_JOB, tmp_path / "job")
    for rank in range(8):
        (folder / f"rank{rank}_ascend_pt" / _OUTPUT / "trace_view.json").write_text("[not a timeline")
    return folder


def _look(runs: ProfileSet) -> tuple[pd.DataFrame, pd.DataFrame]:
    runs.plot_steps()
    runs.plot_communication_matrix()
    return runs.table("communication"), runs.waits()


def test_a_look_at_all_ranks_reads_no_rank(eight: Path) -> None:
    runs = load_set(eight)
    communication, waits = _look(runs)
    assert (runs.info["state"] == "found").all()
    assert len(communication) == sum(len(_JOB.stages[_JOB.place(rank)[0]].ops) for rank in range(8))
    assert waits.groupby("rank")["wait_ns"].sum().idxmin() == 3
    assert not len(runs.notes)


def test_the_second_look_reads_no_file_and_sees_the_same(eight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _look(load_set(eight))
    monkeypatch.setattr(pieces, "_read_alone", None)
    for before, after in zip(first, _look(load_set(eight)), strict=True):
        pd.testing.assert_frame_equal(before.astype(object), after.astype(object))


def test_only_what_changed_is_read_again(eight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_set(eight).table("communication")
    changed = eight / "rank5_ascend_pt" / _OUTPUT / "communication.json"
    changed.write_text(changed.read_text().replace("reduceScatter", "reduceScatterV"))
    read: list[Path] = []
    whole = pieces._read_alone

    def counted(task: pieces.PieceTask) -> pieces.Pieces:
        read.append(task.path)
        return whole(task)

    monkeypatch.setattr(pieces, "_read_alone", counted)
    table = load_set(eight).table("communication")
    assert [path.name for path in read] == ["rank5_ascend_pt"]
    assert set(table["rank"][table["op_type"] == "hcom_reduceScatterV_"]) == {5}
    assert table["run"].is_monotonic_increasing
    shutil.rmtree(eight / "rank2_ascend_pt")
    left = load_set(eight).table("communication")
    assert sorted(set(left["rank"])) == [0, 1, 3, 4, 5, 6, 7]
    assert len(read) == 1


@pytest.mark.parametrize("harm", ["cut", "flipped", "foreign", "open", "link"])
def test_a_harmed_copy_is_made_again(eight: Path, harm: str, tmp_path: Path) -> None:
    expected = load_set(eight).table("step_times")
    (kept,) = cache.directory().glob("*.parquet")
    content = kept.read_bytes()
    if harm == "cut":
        kept.write_bytes(content[:-100])
    elif harm == "flipped":
        kept.write_bytes(content[:60] + bytes([content[60] ^ 0xFF]) + content[61:])
    elif harm == "foreign":
        pd.DataFrame({"run": [0], "step": ["evil"]}).to_parquet(kept)
    elif harm == "open":
        kept.chmod(0o666)
    else:
        kept.rename(tmp_path / "elsewhere")
        kept.symlink_to(tmp_path / "elsewhere")
    assert cache.load(f"step_times of {eight}") is None
    pd.testing.assert_frame_equal(load_set(eight).table("step_times"), expected)
    assert cache.load(f"step_times of {eight}") is not None
    assert not kept.is_symlink()


def test_the_cache_is_private_bounded_and_can_be_cleared(eight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.stat().st_mtime_ns for path in eight.rglob("*")}
    runs = load_set(eight)
    _look(runs)
    assert {path: path.stat().st_mtime_ns for path in eight.rglob("*")} == before
    assert cache.directory().stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache.directory().iterdir()} == {0o600}
    assert len(list(cache.directory().iterdir())) == 4  # communication as a whole, and the columns for answers
    monkeypatch.setattr(cache, "MOST_BYTES", 1)
    cache.save("newest", pd.DataFrame({"a": np.arange(3)}), {})
    assert [path.name for path in cache.directory().iterdir()] == [cache._path("newest").name]
    assert cache.clear() > 0
    assert cache.size_bytes() == 0


def test_without_a_place_for_copies_everything_is_read(eight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.directory().parent.write_text("a file")
    assert len(load_set(eight).table("step_times")) == 8
    assert cache.size_bytes() == 0


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("communication.json", b"", "rank2_ascend_pt"),
        ("communication.json", b'{"step10": {"collective": {"hcom_a', "rank2_ascend_pt"),
        ("communication.json", None, "there is no file of communication, which other ranks have"),
        ("step_trace_time.csv", b"Step,Nothing\n1,2\n", "rank2_ascend_pt"),
        ("communication_matrix.json", b"[]", "rank2_ascend_pt"),
    ],
)
def test_a_broken_file_of_a_rank_loses_that_rank_alone(
    eight: Path, name: str, content: bytes | None, told: str
) -> None:
    file = eight / "rank2_ascend_pt" / _OUTPUT / name
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    runs = load_set(eight)
    part = {"communication.json": "communication", "step_trace_time.csv": "step_times"}.get(name)
    if part is not None:
        assert sorted(set(runs.table(part)["rank"])) == [0, 1, 3, 4, 5, 6, 7]
    else:
        runs.plot_communication_matrix()
    messages = runs.notes["source"] + " " + runs.notes["message"]
    assert messages.str.contains(told, regex=False).any()
    assert messages.str.contains("rank2", regex=False).all()


def test_changing_file_is_reported_and_not_cached(eight: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pieces.keys_of_run
    monkeypatch.setattr(pieces, "keys_of_run", lambda *run: dict.fromkeys(keys(*run), os.urandom(4).hex()))
    runs = load_set(eight)
    assert len(runs.table("step_times")) == 8
    changed = runs.notes["message"].str.contains("step_times.*changed while it was read")
    assert runs.notes["count"][changed].sum() == 8
    kept = cache.load(f"step_times of {eight}")
    assert kept is not None
    assert kept[1]["runs"] == []


def test_small_files_and_whole_runs_agree(samples: Path, tmp_path: Path) -> None:
    for folder in ("torch_npu/llm_4ranks", "torch_npu/text/level1"):
        small, whole = load_set(samples / folder), load_set(samples / folder).read()
        names = ["run", "rank", "step", "group", "name", "computing_ns", "free_ns"]
        for name in ("communication", "step_times"):
            one, other = small.table(name), whole.table(name)
            for column in (column for column in names if column in other):
                assert one[column].astype(object).tolist() == other[column].astype(object).tolist(), (name, column)
            for column in (column for column in ("start_ns", "duration_ns") if column in other):
                assert np.abs(one[column].to_numpy() - other[column].to_numpy()).max() <= 1  # each file rounds
        assert (small.info["state"] == "found").all()
