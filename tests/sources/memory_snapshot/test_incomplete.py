"""Snapshots of any address, rings that ran over, and releases that are missing."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import npuprof

_MIB = 1 << 20


def _snapshot(path: Path, entries: list[tuple[str, int, int]], in_use: int, **more: Any) -> npuprof.Profile:
    """Write a snapshot with entries (action, address, size), and `in_use` bytes at its end."""
    trace = [
        {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1_700_000_000_000_000 + number}
        for number, (action, address, size) in enumerate(entries)
    ]
    segment = {"device": 0, "address": 0, "total_size": 1 << 30, "blocks": []}
    segment |= {"allocated_size": in_use, "active_size": in_use}
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [trace], **more}))
    return npuprof.load(path)


@pytest.mark.parametrize("base", [4096, (1 << 63) - 4096, 1 << 63, (1 << 64) - (1 << 30), -(1 << 40), -4096])
def test_reads_every_address(tmp_path: Path, base: int) -> None:
    entries = [("alloc", base, _MIB), ("alloc", base + 2 * _MIB, _MIB), ("free_requested", base, _MIB)]
    run = _snapshot(tmp_path / "s.pickle", [*entries, ("free_completed", base, _MIB)], _MIB)
    assert run.memory["allocated_bytes"].tolist() == [_MIB, 2 * _MIB, _MIB, _MIB]
    assert run.allocations["released_ns"].notna().tolist() == [True, False]
    assert not len(run.notes)


@pytest.mark.parametrize(
    ("more", "is_noted"),
    [
        ({"trace_alloc_overflowed": [True], "trace_alloc_max_entries": [3]}, True),
        ({"allocator_settings": {"trace_alloc_overflowed": True, "trace_alloc_max_entries": 3}}, True),
        ({"allocator_settings": {"trace_alloc_max_entries": 3}}, True),
        ({"trace_alloc_overflowed": [False], "trace_alloc_max_entries": [3]}, False),
        ({"allocator_settings": {"trace_alloc_max_entries": 100}}, False),
        ({}, False),
    ],
)
def test_warns_of_overwritten_history(tmp_path: Path, more: dict[str, Any], is_noted: bool) -> None:
    run = _snapshot(tmp_path / "s.pickle", [("alloc", 4096 * row, 512) for row in range(3)], 1536, **more)
    assert run.notes["message"].str.contains("at least what is shown").any() == is_noted


def test_ends_blocks_at_reused_addresses(tmp_path: Path) -> None:
    entries = [("alloc", 4096, 512), ("alloc", 4096, 256), ("free_requested", 4096, 256)]
    run = _snapshot(tmp_path / "s.pickle", entries, 0)
    assert run.memory["allocated_bytes"].tolist() == [512, 256, 0]
    assert run.allocations["released_ns"].notna().all()
    assert run.notes["count"].tolist() == [1]
    assert "address in use" in run.notes["message"].iloc[0]


def test_warns_of_sizes_below_zero(tmp_path: Path) -> None:
    run = _snapshot(tmp_path / "s.pickle", [("alloc", 4096, 512), ("alloc", 8192, 512)], 256)
    assert run.notes["message"].str.contains("less than nothing").sum() == 1
