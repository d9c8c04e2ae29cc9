"""Counter events of a timeline: every number has a name, an instance and a unit that tell it from its neighbours."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes
from tests.sources.trace.maker import TraceMaker


@pytest.mark.parametrize(
    ("process", "event", "arguments", "expected"),
    [
        (
            *("PCIe", "PCIe_cpl", {"Rx": 1.0, "Tx": 2.0}),
            [("PCIe cpl Rx", None, 1.0, "MB/s"), ("PCIe cpl Tx", None, 2.0, "MB/s")],
        ),
        ("PCIe", "PCIe_nonpost_latency", {"Rx": 0.0, "Tx": 2.0}, [("PCIe nonpost_latency Tx", None, 2.0, "us")]),
        (
            *("NIC", "Port 3/Rx", {"Rx Packets": 1.0, "Rx Error Rate": 0.25}),
            [("NIC Port Rx Packets", "3", 1.0, "1/s"), ("NIC Port Rx Error Rate", "3", 25.0, "%")],
        ),
        (
            *("SIO", "req_rx", {"die 0": 1.0, "die 1": 2.0}),
            [("SIO req_rx", "die 0", 1.0, "MB/s"), ("SIO req_rx", "die 1", 2.0, "MB/s")],
        ),
        (
            *("Stars Chip Trans", "PA Link Rx", {"PA Link ID": 4, "PA Link Rx": 7}),
            [("Stars Chip Trans PA Link Rx", "4", 7.0, None)],
        ),
        ("Acc PMU", "write_bandwidth", {"value": 3}, [("Acc PMU write_band_width", None, 3.0, None)]),
        ("QoS", "QoS OTHERS", {"value": 3}, [("QoS", "OTHERS", 3.0, "MB/s")]),
        ("LLC", "LLC 1 Read/Hit Rate", {"Hit Rate(%)": 3}, [("LLC read Hit Rate", "1", 3.0, "%")]),
        ("LLC", "LLC 1 Read/Hit Rate", {"Hit Rate(%)": 0.5}, [("LLC read Hit Rate", "1", 50.0, "%")]),
        ("CPU Usage", "CPU 3", {"Usage(%)": 45.0}, [("CPU Usage CPU", "3", 45.0, "%")]),
        ("Memory Usage", "Memory Usage", {"Usage(%)": 1.5}, [("Memory Usage", None, 1.5, "%")]),
        ("AI Core Utilization", "Core 2", {"Utilization(%)": 9.0}, [("AI Core Utilization Core", "2", 9.0, "%")]),
    ],
)
def test_values_of_one_event_are_distinguished(
    process: str,
    event: str,
    arguments: dict[str, float],
    expected: list[tuple[str, str | None, float, str | None]],
    tmp_path: Path,
) -> None:
    maker = TraceMaker()
    maker.process(7, process, "NPU 1", 21)
    maker.counter(7, event, 6, **arguments)
    notes = Notes()
    trace = gather(read_events(maker.write(tmp_path / "trace_view.json"), notes), notes, "trace_view.json")
    frame = build_tables(trace, notes, "trace_view.json").tables["counters"]
    rows = frame[["counter", "instance", "value", "unit"]].astype(object)
    assert [tuple(row) for row in rows.where(rows.notna(), None).to_numpy().tolist()] == expected
