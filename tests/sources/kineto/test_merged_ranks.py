"""Traces of several ranks in one file: each process that launched device work is a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import npuprof

_Events = list[dict[str, Any]]


def _rank(number: int, host: int, gpu: int, late_us: int = 0) -> _Events:
    """Return the events of a rank whose ids count from 1: three operators of its own, each with a kernel."""
    names = ["aten::mm", "aten::add", f"aten::own{number}"]
    events: _Events = [{"ph": "M", "name": "process_name", "pid": host, "ts": 0, "args": {"name": "python"}}]
    for row in range(12):
        at, name, own = 1000.5 + row * 50 + late_us, names[row % 3], {"External id": row + 1}
        call = {"correlation": row + 1, **own}
        lane, device = {"ph": "X", "pid": host, "tid": 7}, {"ph": "X", "pid": gpu, "tid": 7}
        events += [
            {**lane, "cat": "cpu_op", "name": name, "ts": at, "dur": 30, "args": {**own, "Ev Idx": row}},
            {**lane, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at + 2, "dur": 3, "args": call},
            {
                **device,
                "cat": "kernel",
                "name": f"k_{name}",
                "ts": at + 9,
                "dur": 5 + number,
                "args": {"device": gpu % 8, "context": 1, "stream": 7, **call},
            },
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": row + 1, "pid": host, "tid": 7, "ts": at + 2},
            {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": row + 1, "pid": gpu, "tid": 7, "ts": at + 9, "bp": "e"},
        ]
    return events


def _moved(events: _Events, by: int) -> _Events:
    return [{**event, "pid": event["pid"] + by} for event in events]


def _with_own_ids(events: _Events, by: int) -> _Events:
    def args(event: dict[str, Any]) -> dict[str, Any]:
        return {
            key: value + by if key in ("correlation", "External id") else value for key, value in event["args"].items()
        }

    return [{**event, "args": args(event)} if "args" in event and event["ph"] == "X" else event for event in events]


_MERGES: dict[str, Callable[[], list[_Events]]] = {
    "moved-processes": lambda: [_moved(_rank(n, 4001 + n, 0, 3 * n), 10**7 * n) for n in range(3)],
    "moved-by-large-number": lambda: [_moved(_rank(n, 40001 + n, n, 3 * n), 10**8 * n) for n in range(4)],
    "own-ids": lambda: [_with_own_ids(_rank(n, 300 - n, n), 1000 * n) for n in range(2)],
    "own-ids-one-device": lambda: [_with_own_ids(_rank(n, 300 - n, 0), 1000 * n) for n in range(2)],
    "told-by-time": lambda: [_rank(n, 300 - n, n, 20_000 * n) for n in range(2)],
    "told-by-order": lambda: [_rank(n, 300 + n, n) for n in range(4)],
}


def _write(
    path: Path, events: _Events, head: str = '"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, '
) -> Path:
    path.write_text(f'{{{head}"traceEvents": {json.dumps(events)}}}')
    return path


def _sums(run: Any) -> dict[str, int]:
    by = run.by("op")
    return dict(zip(by["op"], by["total_ns"], strict=True))


@pytest.mark.parametrize("merge", _MERGES)
@pytest.mark.parametrize("is_sorted", [False, True])
def test_opens_each_rank_as_a_run(tmp_path: Path, merge: str, is_sorted: bool) -> None:
    ranks = _MERGES[merge]()
    alone = [npuprof.load(_write(tmp_path / f"{n}.pt.trace.json", events)) for n, events in enumerate(ranks)]
    events = [event for rank in ranks for event in rank]
    merged = _write(tmp_path / "t.pt.trace.json", sorted(events, key=lambda e: e["ts"]) if is_sorted else events)
    opened: Any = npuprof.load(merged)
    for runs in [opened] if is_sorted else [npuprof.load_set(merged)]:
        each = [runs.at(row) for row in range(len(runs))]
        found = {json.dumps(_sums(run), sort_keys=True): run for run in each}
        assert set(found) == {json.dumps(_sums(run), sort_keys=True) for run in alone}
        for run in alone:
            other = found[json.dumps(_sums(run), sort_keys=True)]
            assert other.kernels["start_ns"].tolist() == run.kernels["start_ns"].tolist()
            assert len(other.links) == len(run.links)
            assert not len(other.notes)
        assert runs.notes["message"].str.contains("told apart by process").sum() == 1


@pytest.mark.parametrize("gpu", [0, 10_000_000])
def test_refuses_processes_of_one_number(tmp_path: Path, gpu: int) -> None:
    merged = _write(tmp_path / "t.pt.trace.json", [*_rank(0, 300, 0), *_rank(1, 300, gpu, 1)])
    with pytest.raises(npuprof.NpuprofError, match=r"several processes that have the same number.*file of each rank"):
        npuprof.load(merged)


def test_refuses_what_nothing_tells_apart(tmp_path: Path) -> None:
    merged = _write(tmp_path / "t.pt.trace.json", [*_rank(0, 300, 0), *_rank(1, 200, 0)])
    with pytest.raises(npuprof.NpuprofError, match="load the file of each rank"):
        npuprof.load(merged)


def test_numbers_ranks_as_processes_are_called(tmp_path: Path) -> None:
    events = [*_moved(_rank(0, 301, 0), 10**7), *_moved(_rank(1, 302, 0), 2 * 10**7)]
    for pid, name in ((10**7 + 301, "rank 5 python"), (2 * 10**7 + 302, "rank2: python")):
        events.append({"ph": "M", "name": "process_name", "pid": pid, "ts": 0, "args": {"name": name}})
    merged = _write(tmp_path / "t.pt.trace.json", events)
    runs = npuprof.load_set(merged)
    assert {rank: "aten::own0" in _sums(runs[rank]) for rank in (2, 5)} == {5: True, 2: False}
    assert npuprof.load_set(merged, ranks=[8, 9]).ranks == [8, 9]


def test_one_process_stays_one_run(tmp_path: Path) -> None:
    events = _rank(0, 300, 0)
    random.Random(0).shuffle(events)
    second = [
        event
        for event in _with_own_ids(_rank(1, 300, 1), 1000)
        if event["pid"] == 1 or event.get("cat") == "cuda_runtime"
    ]
    helper = [{"ph": "X", "cat": "cpu_op", "name": "load", "pid": 999, "tid": 7, "ts": 1001, "dur": 500, "args": {}}]
    run = npuprof.load(_write(tmp_path / "t.pt.trace.json", [*events, *second, *helper]))
    assert isinstance(run, npuprof.Profile)
    assert run.operators["thread_id"].nunique() == 2  # of two processes with one number
    assert len(run.kernels) == 24


def test_names_a_merged_file_among_others(tmp_path: Path) -> None:
    _write(tmp_path / "a.pt.trace.json", _rank(0, 300, 0))
    _write(tmp_path / "b.pt.trace.json", [event for rank in _MERGES["moved-processes"]() for event in rank])
    runs = npuprof.load_set(tmp_path)
    assert len(runs.at(0).kernels) == 12
    with pytest.raises(npuprof.NpuprofError, match="3 ranks: load it by itself"):
        runs.at(1)
