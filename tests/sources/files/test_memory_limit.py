"""What does not fit into memory is known before it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.errors import SourceError
from npuprof.sources.files import memory_limit
from npuprof.sources.files.memory_limit import free_memory, refuse_too_large, too_large


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of 4000 kB of free memory, without a container."""
    (tmp_path / "meminfo").write_text("MemTotal:       99 kB\nMemAvailable:   4000 kB\n")
    monkeypatch.setattr(memory_limit, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory_limit, "_CGROUP", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_container_bounds_memory_and_drops_caches(machine: Path) -> None:
    assert free_memory() == 4000 << 10
    (machine / "memory.max").write_text("3000000\n")
    (machine / "memory.current").write_text("2500000\n")
    assert free_memory() == 500_000
    (machine / "memory.stat").write_text("anon 7\nactive_file 100000\ninactive_file 200000\nfile 9\n")
    assert free_memory() == 800_000
    (machine / "memory.max").write_text("max\n")
    assert free_memory() == 4000 << 10


@pytest.mark.slow
def test_an_older_container_bounds_it_too(machine: Path) -> None:
    folder = machine / "memory"
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text("900\n")
    (folder / "memory.usage_in_bytes").write_text("1000\n")
    assert free_memory() == 0
    (folder / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 0\n")
    assert free_memory() == 200


@pytest.mark.slow
def test_without_a_known_limit_everything_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MEMINFO", "_CGROUP", "_STATUS"):
        monkeypatch.setattr(memory_limit, name, tmp_path / "missing")
    assert too_large(1 << 60) == ""


@pytest.mark.slow
def test_a_file_that_does_not_fit_is_refused_with_both_sizes(machine: Path) -> None:
    assert too_large(memory_limit.ALWAYS_BYTES) == ""  # as much is always tried
    refuse_too_large(machine, 5000)
    with pytest.raises(SourceError, match="131072 MiB do not fit into the 3 MiB of memory that are free"):
        refuse_too_large(machine, 128 << 30)
