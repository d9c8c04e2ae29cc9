"""The account of every reader balances over every sample: nothing that was read is lost in silence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, Preference
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import DetectedResult, detect
from npuprof.sources.selection import choose
from tests.samples.forms import forms
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.trace.maker import CANN, HBM, HOST, NPU, at, small_trace

_TIMED = {"operators", "api", "tasks", "kernels"}
_UNTOLD = ("for an unknown reason", "more than once", "after they were read", "in no input")


def unaccounted(decoded: Decoded) -> list[str]:
    """Return what is wrong with the account of a run: nothing, for a reader without a gap."""
    ledger, notes = decoded.notes.ledger, decoded.notes.to_frame()
    wrong = [message for message in notes["message"] if any(words in message for words in _UNTOLD)]
    made = ledger.made()
    for name, frame in decoded.tables.items():
        if len(frame) and name != "links" and made.get(name, 0) != len(frame):
            wrong.append(f"{name} has {len(frame)} rows, of which {made.get(name, 0)} are accounted for")
    frame = ledger.to_frame()
    rest = frame["rows"] - frame["in_tables"] - frame["used"] - frame["left_out"]
    wrong += [f"{source}: {rows} rows are open" for source, rows in zip(frame["input"], rest, strict=True) if rows]
    if (frame[["rows", "in_tables", "used", "left_out"]] < 0).any(axis=None):
        wrong.append("an account is negative")
    return wrong


def _runs(samples: Path, preferred: Preference) -> Iterator[DetectedResult]:
    for folder in sorted(samples.iterdir()):
        if folder.is_dir():
            try:
                yield from detect(folder, preferred).results
            except SourceError:
                assert preferred  # a folder may hold no raw data, or nothing but raw data


@pytest.mark.slow
@pytest.mark.parametrize("preferred", [None, "raw", pytest.param("parsed", marks=pytest.mark.long), "text", "db"])
def test_every_run_of_every_sample_balances(samples: Path, preferred: Preference) -> None:
    gaps: dict[str, list[str]] = {}
    for run in _runs(samples, preferred):
        try:
            decoded = decode_run(run)
        except SourceError:
            continue
        if wrong := unaccounted(decoded):
            gaps[str(run.path)] = wrong
    assert not gaps


@pytest.mark.long
def test_a_selected_part_of_every_sample_balances(samples: Path) -> None:
    gaps: dict[str, list[str]] = {}
    cut = 0
    for run in _runs(samples, None):
        whole = decode_run(run)
        found = [whole.tables[name]["start_ns"].to_numpy(np.int64) for name in _TIMED & {*whole.tables}]
        starts = np.sort(np.concatenate([np.array([0, 1]), *found]))
        start, end = (int(starts[len(starts) * tenths // 10]) for tenths in (4, 6))
        part = decode_run(run, choose(None, start, max(end, start + 1)))
        if wrong := unaccounted(part):
            gaps[str(run.path)] = wrong
        cut += any(0 < len(frame) < len(whole.tables[name]) for name, frame in part.tables.items())
    assert not gaps
    assert cut >= 5


def _gaps(files: Iterable[Path]) -> dict[str, list[str]]:
    """Return what is wrong with the accounts of files that are runs by themselves."""
    gaps: dict[str, list[str]] = {}
    for path in files:
        try:
            decoded = decode_run(detect(path).results[0])
        except SourceError:
            continue
        if wrong := unaccounted(decoded):
            gaps[str(path)] = wrong
    return gaps


def _forms(samples: Path) -> list[list[Path]]:
    return forms(path for path in samples.rglob("*") if path.is_file() and path.stat().st_size)


@pytest.mark.long
def test_a_file_of_each_form_balances_by_itself(samples: Path) -> None:
    assert not _gaps(same[0] for same in _forms(samples))


@pytest.mark.exhaustive
def test_further_files_of_a_form_balance_by_themselves(samples: Path) -> None:
    assert not _gaps(file for same in _forms(samples) for file in same[1:])


LOST: dict[str, tuple[dict[str, Any], str]] = {
    "counter without a value": ({"ph": "C", "name": "HBM 0/Read", "pid": HBM, "ts": at(7), "args": {}}, "no value"),
    "counter of a word": (
        {"ph": "C", "name": "HBM 0/Read", "pid": HBM, "ts": at(7), "args": {"Read(MB/s)": "x"}},
        "no number",
    ),
    "slice without a time": (
        {"ph": "X", "name": "a", "pid": NPU, "args": {"Task Type": "AI_CORE"}},
        "no readable time",
    ),
    "slice of no known kind": (
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": at(7), "dur": 1, "args": {"b": 1}},
        "belongs to no table",
    ),
    "phase": ({"ph": "b", "name": "a", "pid": HOST, "ts": at(7)}, "phase 'b'"),
    "metadata": ({"ph": "M", "name": "proces_name", "pid": 99, "args": {"name": "b"}}, "'proces_name' is unknown"),
    "metadata without a value": ({"ph": "M", "name": "process_name", "pid": 99, "args": {}}, "has no value"),
    "flow with one end": (
        {"ph": "s", "cat": "HostToDevice", "id": "1", "pid": CANN, "tid": 2, "ts": at(19)},
        "only one end",
    ),
}


def _warnings(run: npuprof.Profile) -> list[str]:
    return list(run.notes.loc[run.notes["severity"] != "info", "message"])


@pytest.mark.slow
@pytest.mark.parametrize("what", LOST)
def test_what_a_timeline_loses_is_reported(tmp_path: Path, what: str) -> None:
    event, words = LOST[what]
    maker = small_trace()
    before = npuprof.load(maker.write(tmp_path / "trace_view.json"))
    maker.events.append(event)
    run = npuprof.load(maker.write(tmp_path / "trace_view.json"))
    assert [words in message for message in _warnings(run)] == [True]
    assert not _warnings(before)
    assert run.ledger["rows"].sum() == before.ledger["rows"].sum() + 1
    assert run.ledger[["in_tables", "used", "left_out"]].to_numpy().sum() == run.ledger["rows"].sum()


@pytest.mark.slow
def test_a_flow_that_leads_to_no_row_is_reported(tmp_path: Path) -> None:
    maker = small_trace()
    maker.flow("HostToDevice", "77", (CANN, 2, 19), (NPU, 2, 777))
    run = npuprof.load(maker.write(tmp_path / "trace_view.json"))
    assert _warnings(run) == ["a flow of HostToDevice has an end that is no row: a link is missing"]


def test_a_trace_of_torch_balances(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("user_annotation", "ProfilerStep#3", 0, 90, External_id=1)
    trace.slice("user_annotation", "forward", 5, 60, External_id=2)
    trace.operator("aten::mm", 10, 40, 3)
    trace.slice("cuda_runtime", "cudaLaunchKernel", 20, 5, External_id=3, correlation=8)
    trace.on_gpu("kernel", "gemm", 60, 10, 0, External_id=3, correlation=8, stream=7)
    trace.on_gpu("kernel", "ncclKernel", 75, 10, 0, External_id=4, correlation=9, Collective_name="all_reduce")
    trace.memory(12, 64, 4096, 64)
    trace.slice("Trace", "PyTorch Profiler (0)", 0, 100)
    trace.add("s", "ac2g", 20, id=8, cat="ac2g")
    trace.add("i", "Iteration Start: PyTorch Profiler", 0, s="g")
    decoded = decode_run(detect(trace.write(tmp_path / "torch.json")).results[0])
    assert not unaccounted(decoded)
    accounts = decoded.notes.ledger.to_frame()  # `overlap` is made of the kernels, no rows of which were read
    assert accounts[accounts["rows"] > 0].to_numpy().tolist() == [["torch.json", 10, 7, 3, 0]]
    assert len(decoded.tables["kernels"]) == len(decoded.tables["communication"]) == 1
