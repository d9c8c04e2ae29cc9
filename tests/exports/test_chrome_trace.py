"""The Chrome trace: every slice at its exact time, and readable again."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.simulator import npu


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> npuprof.Profile:
    with npuprof.profile(
        output=tmp_path_factory.mktemp("trace"), collector="simulator", activities="npu", memory=True, name="a <b>"
    ) as prof:
        with npuprof.range("forward"):
            left = npu.asarray([[1.0] * 64] * 64)
            (left @ left).sum()
        prof.step()
    return prof.result


@pytest.fixture(scope="module")
def events(run: npuprof.Profile, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = run.to_chrome_trace(tmp_path_factory.mktemp("written") / "trace.json")
    plain = json.loads(path.read_text())
    assert plain["otherData"]["simulated"] is True
    found: list[dict[str, Any]] = plain["traceEvents"]
    return found


def times(events: list[dict[str, Any]], process: str) -> list[tuple[int, int]]:
    pids = {
        event["pid"]
        for event in events
        if event["name"] == "process_name" and str(event["args"]["name"]).startswith(process)
    }
    return sorted(
        (int(Decimal(event["ts"]) * 1_000), int(Decimal(event["dur"]) * 1_000))
        for event in events
        if event["ph"] == "X" and event["pid"] in pids
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "process"), [("api", "CANN"), ("tasks", "Ascend Hardware"), ("steps", "Steps"), ("marks", "Markers")]
)
def test_every_slice_is_there_at_its_exact_time(
    run: npuprof.Profile, events: list[dict[str, Any]], table: str, process: str
) -> None:
    frame = run.tables[table]
    assert len(frame)
    expected = sorted(zip(frame["start_ns"].tolist(), frame["duration_ns"].tolist(), strict=True))
    assert times(events, process) == expected


@pytest.mark.slow
def test_each_link_is_an_arrow_with_two_ends(run: npuprof.Profile, events: list[dict[str, Any]]) -> None:
    ends: dict[str, list[str]] = {}
    for event in events:
        if event["ph"] in "sf":
            ends.setdefault(event["id"], []).append(event["ph"])
    assert ends
    assert set(map(tuple, ends.values())) == {("s", "f")}
    assert len(ends) <= len(run.links)


@pytest.mark.slow
def test_the_devices_tasks_can_be_loaded_again(run: npuprof.Profile, tmp_path: Path) -> None:
    again = npuprof.load(run.to_chrome_trace(tmp_path / "trace_view.json"))
    key = ["start_ns", "duration_ns", "stream_id", "task_id"]
    assert again.tasks[key].astype("int64").values.tolist() == run.tasks[key].astype("int64").values.tolist()


@pytest.mark.slow
def test_a_compressed_trace_holds_the_same(run: npuprof.Profile, tmp_path: Path) -> None:
    plain = run.to_chrome_trace(tmp_path / "trace.json").read_text()
    with gzip.open(run.to_chrome_trace(tmp_path / "trace.json.gz"), "rt") as file:
        assert file.read() == plain
