"""Processes are started where they save more than they cost, and no more than fit."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from npuprof.ranks import extent
from npuprof.ranks.extent import WORTH_BYTES, cores, free_memory, processes_for, size_of
from npuprof.sources.base import Source
from npuprof.sources.detect import Run

MB = 1 << 20


def _run(path: Path, name: str = "raw") -> Run:
    return Run(name, cast("Source", ModuleType(name)), path)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight cores and 64 GiB of free memory."""
    monkeypatch.setattr(extent, "cores", lambda: 8)
    monkeypatch.setattr(extent, "free_memory", lambda: 64 << 30)
    return monkeypatch


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], 1),
        ([1 << 40], 1),
        ([MB] * 64, 1),  # quicker read here
        ([WORTH_BYTES, WORTH_BYTES], 2),
        ([WORTH_BYTES - 1, WORTH_BYTES - 1], 1),
        ([200 * MB] * 3, 3),
        ([200 * MB] * 100, 8),
        ([2000 * MB, MB, MB], 1),  # the others are read while the long one is, which saves nothing
        ([16 << 30] * 8, 1),  # two would not fit into memory together
        ([2 << 30] * 8, 3),
    ],
)
def test_the_number_follows_sizes_cores_and_memory(roomy: pytest.MonkeyPatch, sizes: list[int], expected: int) -> None:
    assert processes_for(sizes) == expected


def test_a_machine_with_many_cores_is_not_taken_whole(roomy: pytest.MonkeyPatch) -> None:
    roomy.setattr(extent, "cores", lambda: 192)
    roomy.setattr(extent, "free_memory", lambda: 1 << 50)
    assert processes_for([200 * MB] * 500) == extent.MAX_PROCESSES


def test_a_container_bounds_cores_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       99 kB\nMemAvailable:   4000 kB\n")
    monkeypatch.setattr(extent, "_CGROUP", tmp_path)
    monkeypatch.setattr(extent, "_MEMINFO", meminfo)
    everything = cores()
    assert free_memory() == 4000 << 10
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert (cores(), free_memory()) == (1, 2_000_000)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert (cores(), free_memory()) == (everything, 4000 << 10)


def test_an_older_container_bounds_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extent, "_CGROUP", tmp_path)
    monkeypatch.setattr(extent, "_MEMINFO", tmp_path / "missing")
    everything = cores()
    for name, value in (
        ("cpu/cpu.cfs_quota_us", 150_000),
        ("cpu/cpu.cfs_period_us", 150_000),
        ("memory/memory.limit_in_bytes", 900),
        ("memory/memory.usage_in_bytes", 1000),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{value}\n")
    assert (cores(), free_memory()) == (1, 0)
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores() == everything


def test_the_size_is_that_of_what_is_read(tmp_path: Path) -> None:
    for name, count in (("PROF_1/data", 500), ("ASCEND_PROFILER_OUTPUT/trace_view.json", 30), ("loop/x", 2)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(count))
    (tmp_path / "loop" / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert size_of(_run(tmp_path)) == 532
    assert size_of(_run(tmp_path, "torch_npu")) == 30
    assert size_of(_run(tmp_path / "loop" / "x")) == 2
    assert size_of(_run(tmp_path / "missing")) == 0
