"""Perfetto's own format: every slice, counter and arrow of the Chrome trace, at its exact nanosecond."""

from __future__ import annotations

import gzip
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from tests import factories

pytestmark = pytest.mark.slow  # protobuf and pandas are imported


@pytest.fixture(scope="module")
def run() -> Profile:
    tables = factories.all_tables(**factories.profile(60))
    tables["links"] = tables["links"].assign(target_table=pd.Categorical(["tasks"] * len(tables["links"])))
    return Profile(Decoded(tables, factories.info()))


@pytest.fixture(scope="module")
def packets(run: Profile, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    path = run.to_perfetto(tmp_path_factory.mktemp("perfetto") / "run.pftrace.gz")
    return list(protos.Trace.FromString(gzip.decompress(path.read_bytes())).packet)


def _slices(packets: list[Any]) -> dict[str, Counter[tuple[str, int, int]]]:
    """Return name, start and duration of the slices of each track, which must nest."""
    names = {
        packet.track_descriptor.uuid: packet.track_descriptor for packet in packets if packet.track_descriptor.uuid
    }
    found: dict[str, Counter[tuple[str, int, int]]] = defaultdict(Counter)
    stacks: dict[int, list[tuple[str, int]]] = defaultdict(list)
    last: dict[int, int] = defaultdict(int)
    for packet in packets:
        event, track = packet.track_event, packet.track_event.track_uuid
        if event.type in (event.TYPE_SLICE_BEGIN, event.TYPE_SLICE_END):
            assert packet.timestamp >= last[track]
            last[track] = packet.timestamp
            if event.type == event.TYPE_SLICE_BEGIN:
                stacks[track].append((event.name, packet.timestamp))
            else:
                name, start_ns = stacks[track].pop()
                process = names[names[track].parent_uuid].name
                found[process][name, start_ns, packet.timestamp - start_ns] += 1
    assert not any(stacks.values())
    return found


def test_every_slice_has_its_exact_nanoseconds(run: Profile, packets: list[Any]) -> None:
    found = _slices(packets)
    for process, table in (("Framework operators", "operators"), ("CANN", "api"), ("Ascend Hardware 0", "tasks")):
        rows = run.tables[table][["name", "start_ns", "duration_ns"]].astype({"name": object})
        assert found[process] == Counter(map(tuple, rows.to_numpy().tolist())), process
        assert len(rows)


def test_the_outermost_track_says_that_it_is_simulated(packets: list[Any]) -> None:
    root = packets[0].track_descriptor
    assert root.name == "training step (simulated NPU)"
    assert not root.parent_uuid
    described = {
        packet.track_descriptor.uuid: packet.track_descriptor for packet in packets if packet.track_descriptor.uuid
    }
    assert all(track.parent_uuid in described for number, track in described.items() if number != root.uuid)


def test_arrows_join_a_call_and_its_task_in_time(run: Profile, packets: list[Any]) -> None:
    begins, ends = (
        {flow: packet.timestamp for packet in packets for flow in getattr(packet.track_event, name)}
        for name in ("flow_ids", "terminating_flow_ids")
    )
    assert begins.keys() == ends.keys()
    assert len(begins) == len(run.tables["links"])
    assert all(begins[flow] <= ends[flow] for flow in begins)


def test_samples_are_counters(run: Profile, packets: list[Any]) -> None:
    samples = [packet for packet in packets if packet.track_event.type == packet.track_event.TYPE_COUNTER]
    sizes = run.tables["memory"][["allocated_bytes", "reserved_bytes", "active_bytes"]].notna().to_numpy().sum()
    assert len(samples) == sizes + run.tables["counters"]["value"].notna().sum()
    assert {packet.timestamp for packet in samples} <= {
        *run.tables["memory"]["time_ns"].tolist(),
        *run.tables["counters"]["time_ns"].tolist(),
    }


def test_without_the_library_the_message_says_how_to_have_it(
    run: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto", None)
    with pytest.raises(NpuprofError, match=r"npuprof\[perfetto\]"):
        run.to_perfetto(tmp_path / "run.pftrace")
    assert not list(tmp_path.iterdir())
