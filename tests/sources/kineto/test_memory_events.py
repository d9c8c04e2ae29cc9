"""Memory events as torch wrote them in 2021, events that were announced and are absent, and addresses in use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import npuprof
from tests.sources.kineto.traces import KinetoTrace


def _trace_of_2021(path: Path, sizes: list[int]) -> npuprof.Profile:
    """Write steps of the category of operators, and memory events with neither category nor totals."""
    events: list[dict[str, Any]] = []
    for row, size in enumerate(sizes):
        start = 1_623_212_388_000_000 + row * 100
        for name, at, lasting in ((f"ProfilerStep#{row}", 0, 100), ("aten::mm", 2, 20)):
            lane = {"ph": "X", "cat": "Operator", "pid": 100, "tid": "100"}
            args = {"Device": 100, "External id": 10 * row + at + 1}
            events.append({**lane, "name": name, "ts": start + at, "dur": lasting, "args": args})
        lane = {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 100, "ts": start + 3}
        events.append({**lane, "args": {"Device Type": 1, "Device Id": 0, "Bytes": size}})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return npuprof.load(path)


def test_reads_steps_and_memory_of_2021(tmp_path: Path) -> None:
    run = _trace_of_2021(tmp_path / "w.pt.trace.json", [512, 1024, -512, -2048, 256])
    assert run.steps["step"].tolist() == [0, 1, 2, 3, 4]
    assert run.operators["name"].tolist() == ["aten::mm"] * 5
    assert run.operators["step"].tolist() == [0, 1, 2, 3, 4]
    # 1024 bytes were allocated before, since no total is below zero.
    assert run.memory["allocated_bytes"].tolist() == [1536, 2560, 2048, 0, 256]
    assert run.notes["severity"].tolist() == ["info"]
    assert "profile_memory" not in str(run.advice())


def test_warns_of_announced_memory_events(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1, "deviceProperties": [], "profile_memory": 1})
    trace.operator("aten::mm", 0, 2, 1)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert run.notes["message"].str.contains("no event of it").sum() == 1
    assert "()" not in str(run.advice())
    trace.memory(1, 512, 4096, 512)
    run = npuprof.load(trace.write(tmp_path / "u.pt.trace.json"))
    assert not run.notes["message"].str.contains("no event of it").any()


def test_ends_blocks_at_reused_addresses(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for at, size, address, total in (
        (0, 512, 4096, 512),
        (5, 256, 4096, 768),
        (9, -256, 4096, 512),
        (12, 64, 8192, 576),
    ):
        trace.memory(at, size, address, total)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    released = run.allocations["released_ns"] - run.allocations["allocated_ns"]
    assert released.tolist()[:2] == [5_000, 4_000]
    note = run.notes[run.notes["message"].str.contains("address in use")]
    assert note["count"].tolist() == [1]


def test_warns_of_totals_below_zero(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for at, size, total in ((0, 512, 512), (5, -1024, -512), (9, 256, -256)):
        trace.memory(at, size, 4096 + at, total)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert run.notes[run.notes["message"].str.contains("below zero")]["count"].tolist() == [2]
