"""Processes are started where they save more than they cost, and no more than fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.ranks import parallelism
from npuprof.ranks.parallelism import WORTH_BYTES, cores, processes_for
from npuprof.sources import raw, torch_npu

MB = 1 << 20


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight cores and 64 GiB of free memory."""
    monkeypatch.setattr(parallelism, "cores", lambda: 8)
    monkeypatch.setattr(parallelism, "free_memory", lambda: 64 << 30)
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
    roomy.setattr(parallelism, "cores", lambda: 192)
    roomy.setattr(parallelism, "free_memory", lambda: 1 << 50)
    assert processes_for([200 * MB] * 500) == parallelism.MAX_PROCESSES


def test_a_container_bounds_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallelism, "_CGROUP", tmp_path)
    everything = cores()
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert cores() == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores() == everything


def test_an_older_container_bounds_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallelism, "_CGROUP", tmp_path)
    everything = cores()
    for name in ("cfs_quota_us", "cfs_period_us"):
        path = tmp_path / "cpu" / f"cpu.{name}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("150000\n")
    assert cores() == 1
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores() == everything


def test_the_size_is_that_of_what_is_read(tmp_path: Path) -> None:
    for name, count in (("PROF_1/data", 500), ("ASCEND_PROFILER_OUTPUT/trace_view.json", 30), ("loop/x", 2)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(count))
    (tmp_path / "loop" / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert raw.SOURCE.size_bytes(tmp_path) == 532
    assert torch_npu.SOURCE.size_bytes(tmp_path) == 30
    assert raw.SOURCE.size_bytes(tmp_path / "loop" / "x") == 2
    assert raw.SOURCE.size_bytes(tmp_path / "missing") == 0
