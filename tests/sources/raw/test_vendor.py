"""How the tables of the samples hang together, where that is more than the rows that `test_expected` compares."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof import tables
from npuprof.sources import raw
from npuprof.sources.base import Decoded

from .conftest import raw_sample

pytestmark = pytest.mark.slow

_WITH_DATABASE = ("minimal", "sliced_2k", "everything")
_EVERY = ("minimal", "sliced_2k", "everything", "model_step")


@pytest.fixture(scope="module")
def decoded(samples: Path) -> dict[str, Decoded]:
    return {name: raw.read(raw_sample(samples, name)) for name in _EVERY}


@pytest.fixture
def database(samples: Path, request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    file = next((samples / "raw" / request.param / "expected").glob("msprof_*.db"))
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


def _csv(samples: Path, sample: str, name: str) -> pd.DataFrame:
    """Read a result as text: its numbers keep all their digits."""
    file = next((samples / "raw" / sample / "expected").glob(f"{name}_2*.csv"))
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    stripped: pd.DataFrame = pd.DataFrame({name: column.str.strip() for name, column in frame.items()})
    return stripped


def _ns(text: str) -> int:
    """Nanoseconds of a decimal number of microseconds, exactly."""
    value = Decimal(text) * 1000
    assert value == int(value)
    return int(value)


def _plain(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as plain Python values; an absent one is None."""
    chosen = frame[list(columns)].astype(object)
    return [tuple(row) for row in chosen.where(chosen.notna(), None).to_numpy().tolist()]


@pytest.mark.parametrize("name", _EVERY)
def test_every_table_keeps_its_schema_and_order(name: str, decoded: dict[str, Decoded]) -> None:
    assert set(decoded[name].tables) == {
        *("api", "tasks", "kernels", "marks", "memory", "counters", "links", "overlap", "steps"),
        *("communication", "communication_tasks", "allocations"),
    }
    for table, frame in decoded[name].tables.items():
        tables.check(table, frame)
        if table not in ("links", "allocations"):  # these are in the order of other rows
            pd.testing.assert_frame_equal(tables.sort_by_time(frame), frame)


@pytest.mark.slow
@pytest.mark.parametrize("name", _EVERY)
def test_nothing_of_a_whole_directory_is_called_damaged(name: str, decoded: dict[str, Decoded]) -> None:
    assert set(decoded[name].notes.to_frame()["severity"]) <= {"info"}


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_connections_are_numbered_in_the_vendors_order(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    numbers = [row[0] for row in database.execute("SELECT connectionId FROM CANN_API ORDER BY startNs, endNs DESC")]
    api = decoded[name].tables["api"]
    if name == "sliced_2k":  # the vendor's threads draw numbers in blocks there: only their order is defined
        assert numbers == sorted(set(numbers))
        assert api["connection_id"].tolist() == list(range(1, len(numbers) + 1))
    else:
        assert api["connection_id"].tolist() == numbers


@pytest.mark.parametrize(("name", "database"), [(name, name) for name in _WITH_DATABASE], indirect=["database"])
def test_tasks_are_connected_to_the_vendors_calls(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    frames = decoded[name].tables
    started = dict(database.execute("SELECT connectionId, startNs FROM CANN_API"))
    expected = [
        (start, started[connection])
        for start, connection in database.execute("SELECT startNs, connectionId FROM TASK ORDER BY startNs, endNs DESC")
        if connection in started
    ]
    links = frames["links"][frames["links"]["kind"] == "api_task"]
    tasks = frames["tasks"].iloc[links["target_row"]]
    calls = frames["api"].iloc[links["source_row"]]
    assert list(zip(tasks["start_ns"].tolist(), calls["start_ns"].tolist(), strict=True)) == expected
    assert tasks["connection_id"].tolist() == calls["connection_id"].tolist()


@pytest.mark.parametrize("name", _EVERY)
def test_marks_are_those_of_msprof_tx(name: str, samples: Path, decoded: dict[str, Decoded]) -> None:
    def optional_ns(text: str) -> int | None:
        return None if text == "N/A" else _ns(text)

    expected = []
    for row in _csv(samples, name, "msprof_tx").to_dict("records"):
        start, end = _ns(row["Start_time(us)"]), _ns(row["End_time(us)"])
        device_start, device_end = optional_ns(row["Device Start_time(us)"]), optional_ns(row["Device End_time(us)"])
        length = None if device_start is None or device_end is None else device_end - device_start
        domain = None if row["domain"] == "N/A" else row["domain"]
        mark = (start, end - start, row["message"], domain, int(row["tid"]), row["event_type"])
        expected.append((*mark, device_start, length))
    columns = ("start_ns", "duration_ns", "message", "domain", "thread_id", "kind")
    found = decoded[name].tables["marks"]
    assert _plain(found, *columns, "device_start_ns", "device_duration_ns") == expected


@pytest.mark.parametrize(("name", "database"), [("everything", "everything")], indirect=["database"])
def test_marks_with_a_device_side_are_linked_to_it(
    name: str, database: sqlite3.Connection, decoded: dict[str, Decoded]
) -> None:
    (start, connection), *rest = database.execute(
        "SELECT startNs, connectionId FROM TASK WHERE connectionId >= 4000000000"
    ).fetchall()
    assert not rest
    frames = decoded[name].tables
    (link,) = frames["links"][frames["links"]["kind"] == "mark"].to_dict("records")
    assert frames["marks"]["message"][link["source_row"]] == "fwd_pass"
    task = frames["tasks"].iloc[link["target_row"]]
    assert (task["start_ns"], task["connection_id"], task["name"]) == (start, connection, "fwd_pass")


def test_steps_are_those_of_step_trace(samples: Path, decoded: dict[str, Decoded]) -> None:
    (row,) = _csv(samples, "model_step", "step_trace").to_dict("records")
    steps = decoded["model_step"].tables["steps"]
    end, length = _ns(row["Iteration End(us)"]), _ns(row["Iteration Time(us)"])
    expected = [(int(row["Iteration ID"]), end - length, length, 0, int(row["Model ID"]))]
    assert _plain(steps, "step", "start_ns", "duration_ns", "device_id", "model_id") == expected
    assert decoded["model_step"].tables["kernels"]["step"].tolist() == [1] * 6


def test_info_describes_the_machine(samples: Path, decoded: dict[str, Decoded]) -> None:
    info = decoded["minimal"].info
    assert (info.chip, info.devices, info.rank, info.source, info.simulated) == ("Ascend 910B", [0], None, "raw", False)
    assert (info.started_ns, info.stopped_ns) == (1_763_600_000_000_000_000, 1_763_600_000_580_607_330)
    assert info.versions == {"cann": "8.3.0", "driver": "467993"}
    assert info.options == {"level": 1, "aic_metrics": "PipeUtilization"}
    assert info.environment["hostname"] == "synth"


def test_streams_that_are_not_decoded_are_named(minimal: Path, decoded: dict[str, Decoded]) -> None:
    (minimal / "device_0" / "data" / "ub.data.0.slice_0").write_bytes(bytes(288))
    notes = raw.read(minimal).notes.to_frame()
    assert any(message.startswith("ub.data.0: not decoded (1 slice, 288 bytes)") for message in notes["message"])
    assert decoded["sliced_2k"].notes.to_frame().empty


@pytest.mark.parametrize("name", _EVERY)
def test_kinds_of_device_time_add_up_to_all_of_it(name: str, decoded: dict[str, Decoded]) -> None:
    found = decoded[name].tables["overlap"]
    sums = found.groupby("kind", observed=True)["duration_ns"].sum()
    span = int((found["start_ns"] + found["duration_ns"]).max() - found["start_ns"].min())
    assert sums.drop("communication", errors="ignore").sum() == span
