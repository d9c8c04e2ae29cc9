"""Operator memory: as the vendor's parser sees it, in the cases its samples lack, and from the simulated NPU."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import simulator, tables
from npuprof.simulator import npu
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from tests.budget import examples
from tests.sources.raw.conftest import raw_sample
from tests.sources.raw.writers.communication import CommunicationDirectory
from tests.sources.raw.writers.directory import START_NS

TICK_NS = 10


@pytest.fixture(scope="module")
def everything(samples: Path) -> Decoded:
    return raw.read(raw_sample(samples, "everything"))


@pytest.fixture
def directory(tmp_path: Path) -> CommunicationDirectory:
    return CommunicationDirectory(tmp_path / "PROF_test")


@pytest.fixture
def machine() -> Iterator[None]:
    """A simulated NPU that nobody used before, and nobody uses after."""
    simulator.reset()
    yield
    simulator.reset()


def _csv(samples: Path, name: str) -> list[dict[str, str]]:
    """Rows of a result as text: its numbers keep all their digits."""
    file = next((samples / "raw/everything/expected").glob(f"{name}_2*.csv"))
    rows = pd.read_csv(file, dtype=str, keep_default_na=False).to_dict("records")
    return [{str(key): value.strip() for key, value in row.items()} for row in rows]


def _ns(microseconds: str) -> int:
    return int(Decimal(microseconds) * 1000)


def _bytes(kilobytes: str) -> int:
    return int(Decimal(kilobytes) * 1024)


def _plain(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    chosen = frame[list(columns)].astype(object)
    return [tuple(row) for row in chosen.where(chosen.notna(), None).to_numpy().tolist()]


@pytest.mark.slow
def test_blocks_are_those_of_operator_memory(samples: Path, everything: Decoded) -> None:
    expected = []
    for row in _csv(samples, "operator_memory"):
        start = _ns(row["Allocation Time(us)"])
        totals = [
            _bytes(row[f"{moment} Total {kind}(KB)"])
            for moment in ("Allocation", "Release")
            for kind in ("Allocated", "Reserved")
        ]
        device = int(row["Device"].removeprefix("NPU:"))
        expected.append(
            (row["Name"], _bytes(row["Size(KB)"]), start, start + _ns(row["Duration(us)"]), device, *totals)
        )
    columns = ("name", "size_bytes", "allocated_ns", "released_ns", "device_id")
    states = [
        f"{moment}_total_{kind}_bytes" for moment in ("allocation", "release") for kind in ("allocated", "reserved")
    ]
    assert _plain(everything.tables["allocations"], *columns, *states) == expected
    assert len(expected) == 1


def test_events_are_those_of_npu_op_mem(samples: Path, everything: Decoded) -> None:
    file = next((samples / "raw/everything/expected").glob("msprof_*.db"))
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)
    strings = dict(connection.execute("SELECT id, value FROM STRING_IDS"))
    query = "SELECT operatorName, addr, type, size, timestampNs, deviceId FROM NPU_OP_MEM ORDER BY timestampNs"
    events = [
        (strings[name], address, strings[kind], *rest) for name, address, kind, *rest in connection.execute(query)
    ]
    connection.close()
    found = []
    for name, address, size, start, end, device in _plain(
        everything.tables["allocations"], "name", "address", "size_bytes", "allocated_ns", "released_ns", "device_id"
    ):
        found += [(name, address, "allocate", size, start, device), (name, address, "release", size, end, device)]
    assert found == events


def test_samples_are_those_of_memory_record(samples: Path, everything: Decoded) -> None:
    expected = [
        (
            row["Component"],
            _ns(row["Timestamp(us)"]),
            _bytes(row["Total Allocated(KB)"]),
            _bytes(row["Total Reserved(KB)"]),
        )
        for row in _csv(samples, "memory_record")
    ]
    memory = everything.tables["memory"]
    found = memory[memory["allocated_bytes"].notna()]
    assert _plain(found, "component", "time_ns", "allocated_bytes", "reserved_bytes") == expected
    assert found["device_id"].tolist() == [0, 0]


def test_block_lives_until_its_address_is_released(
    directory: CommunicationDirectory,
) -> None:
    for stamp, address, size in ((0, 512, 64), (1, 1024, 32), (2, 512, -64), (3, 512, 16), (4, 512, -16)):
        directory.memory(stamp, address, size, name=f"op {stamp}")
    found = raw.read(directory.finish()).tables["allocations"]
    expected = [("op 0", 64, 0, 2), ("op 1", 32, 1, None), ("op 3", 16, 3, 4)]
    times = [
        (name, size, START_NS + begin * TICK_NS, None if end is None else START_NS + end * TICK_NS)
        for name, size, begin, end in expected
    ]
    assert _plain(found, "name", "size_bytes", "allocated_ns", "released_ns") == times


def test_release_of_older_block_is_a_row(directory: CommunicationDirectory) -> None:
    directory.memory(5, 512, -64)
    directory.memory(6, 512, 8)
    found = raw.read(directory.finish()).tables["allocations"]
    columns = ("size_bytes", "allocated_ns", "released_ns")
    assert _plain(found, *columns) == [(-64, None, START_NS + 50), (8, START_NS + 60, None)]


def test_devices_may_use_the_same_addresses(directory: CommunicationDirectory) -> None:
    for stamp, device, size in ((0, 0, 8), (1, 1, 8), (2, 1, -8), (3, 0, -8)):
        directory.memory(stamp, 512, size, device=device)
    found = raw.read(directory.finish()).tables["allocations"]
    assert _plain(found, "device_id", "released_ns") == [(0, START_NS + 30), (1, START_NS + 20)]


def test_a_release_and_an_allocation_of_one_instant_keep_their_order(directory: CommunicationDirectory) -> None:
    for stamp, size in ((0, 8), (5, -8), (5, 8), (9, -8)):
        directory.memory(stamp, 512, size)
    found = raw.read(directory.finish()).tables["allocations"]
    assert _plain(found, "allocated_ns", "released_ns") == [(START_NS, START_NS + 50), (START_NS + 50, START_NS + 90)]


def test_records_of_impossible_sizes_are_counted(directory: CommunicationDirectory) -> None:
    directory.memory(0, (1 << 64) - 1, 8)
    directory.memory(1, 512, -(1 << 63))
    directory.memory(2, 512, 8, held=1 << 63)
    directory.memory(3, 512, 0)
    decoded = raw.read(directory.finish())
    assert decoded.tables["allocations"].empty
    assert decoded.tables["memory"].empty
    notes = decoded.notes.to_frame().set_index("source")
    assert notes.at["task_memory_info", "count"] == 4


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(events=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=30))
def test_unreleased_memory_is_held(events: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = CommunicationDirectory(tmp_path_factory.mktemp("memory") / "PROF_test")
    held: dict[int, int] = {}
    for stamp, (address, size) in enumerate(events):
        change = -held.pop(address) if address in held else size
        if change > 0:
            held[address] = change
        directory.memory(stamp, 512 * address, change, held=sum(held.values()))
    frames = raw.read(directory.finish()).tables
    tables.check("allocations", frames["allocations"])
    blocks, memory = frames["allocations"], frames["memory"]
    assert blocks.loc[blocks["released_ns"].isna(), "size_bytes"].sum() == sum(held.values())
    for now, allocated in _plain(memory, "time_ns", "allocated_bytes"):
        alive = (blocks["allocated_ns"] <= now) & ~(blocks["released_ns"] <= now).fillna(value=False)
        assert blocks.loc[alive, "size_bytes"].sum() == allocated


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_arrays_of_the_simulated_npu_are_its_allocations(tmp_path: Path) -> None:
    with npuprof.profile(collector="simulator", memory=True, output=tmp_path) as prof:
        kept = npu.zeros((1024,), dtype=np.float32)
        gone = npu.ones((256, 256), dtype=np.float32)
        del gone
        product = kept * kept
    run = prof.result
    blocks = run.allocations
    assert blocks["size_bytes"].tolist() == [4096, 256 * 256 * 4, 4096]
    assert blocks["released_ns"].isna().tolist() == [True, False, True]
    released = blocks.iloc[1]
    assert run.info.started_ns <= released["allocated_ns"] < released["released_ns"] <= run.info.stopped_ns
    assert blocks["allocated_ns"].is_monotonic_increasing
    assert set(blocks["device_id"]) == {0}
    held = run.memory[run.memory["component"] == "GE"]["allocated_bytes"].tolist()
    assert held == [4096, 4096 + 262144, 4096, 8192]
    assert "not decoded" not in " ".join(run.notes["message"])
    assert product.shape == kept.shape
