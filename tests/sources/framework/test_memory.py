"""Samples of the allocator, and the life of blocks."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.sources.framework.conftest import Reader
from tests.sources.framework.writer import ALLOCATED, IDLE, MAIN, RELEASED, WORKER, Framework, small, utc


def test_samples_are_the_allocators_totals(read: Reader) -> None:
    memory = read(small()).tables["memory"]
    columns = ["time_ns", "device_id", "component", "allocated_bytes", "reserved_bytes", "active_bytes", "stream"]
    assert memory[columns].to_numpy(object).tolist() == [
        [utc(115), 2, "PTA", 512, 2048, 512, 77],
        [utc(460), 2, "PTA", 0, 2048, 512, 77],
        [utc(480), 2, "PTA", 0, 2048, 0, 77],
    ]


def test_a_block_lives_from_its_allocation_to_its_release(read: Reader) -> None:
    allocations = read(small()).tables["allocations"]
    columns = ["name", "size_bytes", "allocated_ns", "released_ns", "active_released_ns", "device_id", "stream"]
    assert allocations[columns].to_numpy(object).tolist() == [["aten::mm", 512, utc(115), utc(460), utc(480), 2, 77]]


def test_an_address_can_be_given_out_again(read: Reader) -> None:
    run = Framework()
    for time in (10, 30):
        run.block(time, ALLOCATED, 0x1000, 64)
        run.block(time + 10, RELEASED, 0x1000, -64)
    run.block(30, ALLOCATED, 0x1000, 32, device=3)  # another device's address is another block
    run.block(60, ALLOCATED, 0x1000, 64)
    allocations = read(run).tables["allocations"]
    assert allocations["allocated_ns"].tolist() == [utc(10), utc(30), utc(30), utc(60)]
    assert allocations["released_ns"].tolist() == [utc(20), utc(40), pd.NA, pd.NA]


@pytest.mark.parametrize("kind", [RELEASED, IDLE])
def test_a_block_of_before_the_recording_is_left_out(read: Reader, kind: int) -> None:
    run = Framework()
    run.block(10, kind, 0x1000, -64)
    decoded = read(run)
    assert not len(decoded.tables["allocations"])
    assert len(decoded.tables["memory"]) == 1
    assert len(decoded.notes) == (kind == RELEASED)


def test_dequeued_allocation_belongs_to_its_operator(read: Reader) -> None:
    run = small()
    run.block(200, ALLOCATED, 0x2000, 64, thread=WORKER)
    assert read(run).tables["allocations"]["name"].tolist() == ["aten::mm", "aten::mm"]


def test_allocating_operators_do_not_hide_others(read: Reader) -> None:
    run = Framework()
    run.op("aten::empty", 10, 50)
    run.op("empty_tensor", 20, 40)
    run.block(30, ALLOCATED, 0x1000, 64)
    run.block(60, ALLOCATED, 0x2000, 64)
    names = read(run).tables["allocations"]["name"]
    assert names[0] == "aten::empty"
    assert pd.isna(names[1])


def test_memory_of_the_host_is_left_out(read: Reader) -> None:
    run = Framework()
    run.block(10, ALLOCATED, 0x1000, 64, device_type=0, device=-1, thread=MAIN)
    decoded = read(run)
    assert not len(decoded.tables["memory"])
    assert decoded.notes.to_frame()["message"].tolist() == ["memory of the host is left out"]


def test_record_of_unknown_device_is_damage(read: Reader) -> None:
    run = Framework()
    run.block(10, ALLOCATED, 0x1000, 64, device_type=7, thread=MAIN)
    notes = read(run).notes.to_frame()
    assert notes[["severity", "count"]].to_numpy().tolist() == [["warning", 1]]
