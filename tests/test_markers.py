"""Markers of the user's, from the call to the table."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import OptionsError
from npuprof.options import Options
from npuprof.recordings.recording import JOURNAL_FILE_NAME
from npuprof.session.session import Session
from npuprof.sources.recording import journal
from tests.conftest import FakeClock
from tests.fakes import FakeCollector


@pytest.fixture
def collector() -> FakeCollector:
    return FakeCollector()


@pytest.fixture
def collecting(collector: FakeCollector, tmp_path: Path, clock: FakeClock) -> Iterator[Session]:
    with Session(Options(activities=("npu",), output=tmp_path), collector=collector, clock=clock) as session:
        collector.calls.clear()
        yield session


@pytest.mark.usefixtures("collecting")
def test_domains_and_streams_reach_the_front_end(collector: FakeCollector) -> None:
    npuprof.mark("tick", "data", stream=7)
    with npuprof.range("load", "data"):
        pass
    assert collector.calls == ["mark tick of data on 7", "range_start load of data", "range_stop"]


@pytest.mark.usefixtures("collecting")
def test_a_range_may_end_on_another_thread(collector: FakeCollector) -> None:
    handle = npuprof.range_start("load")
    ending = threading.Thread(target=npuprof.range_end, args=(handle,))
    ending.start()
    ending.join()
    npuprof.range_end(handle)
    assert collector.calls == ["range_start load", "range_stop"]


@pytest.mark.usefixtures("collecting")
def test_pushed_ranges_nest_within_their_thread(collector: FakeCollector) -> None:
    assert npuprof.push("outer") == 1
    assert npuprof.push("inner") == 2
    elsewhere: list[int] = []
    other = threading.Thread(target=lambda: elsewhere.append(npuprof.pop()))
    other.start()
    other.join()
    assert elsewhere == [-1]
    assert (npuprof.pop(), npuprof.pop(), npuprof.pop()) == (1, 0, -1)
    assert collector.calls == ["range_start outer", "range_start inner", "range_stop", "range_stop"]


def test_ranges_without_a_session_still_balance() -> None:
    assert npuprof.range_start("nobody listens") == 0
    npuprof.range_end(0)
    assert npuprof.push("nobody listens") == 1
    assert npuprof.pop() == 0


def test_open_range_ends_with_its_session(tmp_path: Path, clock: FakeClock) -> None:
    options = Options(activities=("npu",), output=tmp_path)
    with Session(options, collector=FakeCollector(), clock=clock):
        handle = npuprof.range_start("open")
    later = FakeCollector()
    with Session(options, collector=later, clock=clock):
        npuprof.range_end(handle)
    assert "range_stop" not in later.calls


def test_a_thousand_open_ranges_are_a_missing_pop() -> None:
    for _ in range(1_000):
        npuprof.push("again")
    try:
        with pytest.raises(OptionsError, match=r"call npuprof.pop\(\)"):
            npuprof.push("once more")
    finally:
        while npuprof.pop() > 0:
            pass


def test_a_domain_that_is_no_text_is_refused() -> None:
    domain: Any = 3
    with pytest.raises(OptionsError, match="domain must be text, not int"):
        npuprof.mark("tick", domain)


@pytest.mark.slow
def test_markers_come_back_with_domains_and_the_devices_times(tmp_path: Path) -> None:
    import npuprof.simulator.acl as acl
    from npuprof.simulator import npu

    with npuprof.profile(output=tmp_path, collector="simulator", activities="npu") as prof:
        acl.rt.set_device(0)
        stream, _ = acl.rt.create_stream()
        npuprof.mark("tick")
        npuprof.mark("tick", "data")
        npuprof.mark("on the device", stream=stream)
        npuprof.mark("on no device", stream=12345)
        with npuprof.range("load", "data"):
            npu.asarray([1.0]) + 1.0
        npuprof.push("step", "train")
        npuprof.pop()
    marks = prof.result.marks.astype({"message": str})
    domains = {(row.message, row.domain) for row in marks.fillna({"device_start_ns": 0}).itertuples()}
    assert {("tick", "data"), ("load", "data"), ("step", "train")} <= domains
    ticks = marks[marks["message"] == "tick"]["domain"].astype(object)
    assert ticks.notna().tolist() == [False, True]
    on_device = marks[marks["message"] == "on the device"]
    assert on_device["device_start_ns"].notna().all()
    assert len(on_device) == 1
    on_none = marks[marks["message"] == "on no device"]
    assert on_none["device_start_ns"].isna().tolist() == [True]


@pytest.mark.slow
def test_text_that_nothing_can_encode_costs_no_marker_and_no_file(tmp_path: Path) -> None:
    half = "epoch \ud800 \udcff"
    shown = r"epoch \ud800 \xff"
    scope: dict[str, Any] = {}
    exec(compile("def busy():\n    return sum(range(3_000_000))", f"/{half}.py", "exec"), scope)
    output = tmp_path / "odd\udcff"
    try:
        output.mkdir()
    except OSError:
        output = tmp_path
    session = npuprof.profile(output=output, collector="simulator", stacks=True, name=half)
    with session:
        npuprof.mark(half, half)
        with npuprof.range(half, half):
            scope["busy"]()
        session.add_metadata(half, [{half: (half,)}])
        session.add_metadata_json("given", '{"text": "\\ud800"}')
        session.step()
    files = session.recording.directory
    assert json.loads((files / "profiler_metadata.json").read_bytes().decode())[shown] == [{shown: [shown]}]
    again = npuprof.load(npuprof.load(files).save(tmp_path / "saved"))
    for run in (session.result, npuprof.load(files), again):
        assert run.info.name == shown
        assert run.marks[["message", "domain"]].astype(str).to_numpy().tolist() == [[shown, shown]] * 2
        assert run.info.metadata == {shown: [{shown: [shown]}], "given": {"text": r"\ud800"}} or run is session.result
        told = run.notes[~run.notes["message"].str.contains("sampled every|not started by")]  # of this process
        assert not {"warning", "error"} & set(told["severity"]), told["message"].tolist()
        assert run.to_html(tmp_path / "page.html").read_bytes().decode()
        assert (str(run) + run._repr_html_() + run.notes.to_string()).encode()
    assert again.tables.keys() == session.result.tables.keys()


def test_the_journal_of_a_killed_run_holds_such_text_too(tmp_path: Path) -> None:
    session = npuprof.profile(output=tmp_path, collector="simulator", activities="npu")
    with session:
        npuprof.mark("\ud800", "\udcff")
        session.add_metadata("\ud800", "\udcff")
        files = shutil.copytree(session.recording.directory, tmp_path / "killed")
    told = journal.read(files / JOURNAL_FILE_NAME)
    assert not told.damaged
    assert [(mark.message, mark.domain) for mark in told.marks] == [(r"\ud800", r"\xff")]
    assert told.metadata == {r"\ud800": r"\xff"}


def test_options_hold_such_text_as_markers_do() -> None:
    options = Options(name="\ud800", mstx_domain_include=("\udcff",))
    assert options.name == r"\ud800"
    assert options.takes_domain(r"\xff")
    with pytest.raises(OptionsError, match="output must be a path"):
        npuprof.profile(output="runs/\ud800")
