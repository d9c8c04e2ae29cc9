"""Ranks that the caller gives to runs whose files name none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import OptionsError
from tests.sources.kineto.traces import KinetoTrace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three traces without ranks, whose only operator is named like the file."""
    for name in ("node2", "node10", "node1"):
        trace = KinetoTrace()
        trace.operator(name, 0, 5, 1)
        trace.write(tmp_path / f"{name}.pt.trace.json")
    return tmp_path


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([0, 1, 2], {0: "node1", 1: "node2", 2: "node10"}),
        ([7, 3, 5], {7: "node1", 3: "node2", 5: "node10"}),
        ({"node10.pt.trace.json": 4, "node1.pt.trace.json": 0}, {4: "node10", 0: "node1"}),
    ],
)
def test_gives_ranks_to_runs(folder: Path, ranks: Any, expected: dict[int, str]) -> None:
    for runs in (npuprof.load_set(folder, ranks=ranks), npuprof.load_set(folder, ranks=ranks).refresh()):
        assert runs.ranks == sorted(expected)
        assert {rank: runs[rank].operators["name"].iloc[0] for rank in expected} == expected
        assert {runs[rank].info.rank for rank in expected} == set(expected)


def test_accepts_paths_as_keys(folder: Path) -> None:
    runs = npuprof.load_set(folder, ranks={str(folder / "node2.pt.trace.json"): 6})
    assert runs[6].operators["name"].tolist() == ["node2"]


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([0, 1], "2 numbers for 3 runs.*node1.*node2.*node10"),
        ([0, 1, -1], "-1 in ranks is no rank"),
        ({"node3": 0}, "'node3' in ranks names no run.*node1"),
        (["a"], "ranks of load_set"),
    ],
)
def test_refuses_ranks_that_do_not_fit(folder: Path, ranks: Any, words: str) -> None:
    with pytest.raises(OptionsError, match=words):
        npuprof.load_set(folder, ranks=ranks)


def test_error_says_how_to_give_ranks(folder: Path) -> None:
    with pytest.raises(npuprof.NpuprofError, match=r"ranks=\[0, 1, 2\]\) in the order of their paths \(node1"):
        npuprof.load_set(folder).advice()
    assert npuprof.load_set(folder, ranks=[0, 1, 2]).advice() is not None


def test_notes_ranks_that_files_contradict(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1, "distributedInfo": {"rank": 1, "world_size": 2}})
    trace.operator("aten::mm", 0, 5, 1)
    trace.write(tmp_path / "t.pt.trace.json")
    runs = npuprof.load_set(tmp_path, ranks=[0])
    assert runs[0].info.rank == 0
    assert runs.notes["message"].str.contains("says that it is rank 1; taken for rank 0").any()
