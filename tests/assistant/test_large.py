"""Answers about a run of a million kernels."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuprof import tables
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import pace

_KERNELS, _STEPS = 1_000_000, 100
_MOST_S, _MOST_BYTES = 5, 2 << 30
_SERVES = (
    "import resource, sys; from npuprof.cli import main; main(['mcp', sys.argv[1]]); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=open(sys.argv[2], 'w'))"
)
_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_runs", {}),
    ("describe", {"path": "large"}),
    ("advise", {"path": "large"}),
    ("breakdown", {"path": "large"}),
    ("top", {"path": "large", "by": "op_type"}),
    ("top", {"path": "large", "by": "kernel"}),
    ("timeline", {"path": "large"}),
    ("sql", {"path": "large", "query": "select op_type, sum(duration_ns) total from kernels group by 1 order by 2"}),
]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Return a folder with a run of a million kernels in a hundred steps."""
    rows = np.arange(_KERNELS, dtype=np.int64)
    kinds = [f"Kind{number}" for number in range(50)]
    names = tables.categorical((rows % 50).astype(np.int32), kinds)
    kernels = tables.build(
        "kernels",
        {
            "start_ns": 10**18 + rows * 10_000,
            "duration_ns": 4_000 + rows % 50 * 100,
            "device_id": np.zeros(_KERNELS, np.int64),
            "name": names,
            "op_type": names,
        },
    )
    step_ns = _KERNELS // _STEPS * 10_000
    numbers = np.arange(_STEPS, dtype=np.int64)
    steps = {"step": numbers, "start_ns": 10**18 + numbers * step_ns, "duration_ns": np.full(_STEPS, step_ns)}
    run = Profile(Decoded({"kernels": kernels, "steps": tables.build("steps", steps)}, Info(name="large"), Notes()))
    run.save(tmp_path / "served" / "large")
    return tmp_path / "served"


@pytest.mark.long
def test_million_kernels_are_answered_in_bounds(large: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    used = tmp_path / "used"

    async def talk() -> list[tuple[str, float]]:
        from mcp import Client, StdioServerParameters

        command = StdioServerParameters(command=sys.executable, args=["-c", _SERVES, str(large), str(used)])
        told = []
        async with Client(command) as client:
            for name, arguments in _CALLS:
                started = time.perf_counter()
                answer = await client.call_tool(name, arguments)
                assert not answer.is_error, answer.content
                assert len(answer.content[0].text) <= 8_000  # type: ignore[union-attr]
                told.append((name, time.perf_counter() - started))
        return told

    took = asyncio.run(talk())
    until = time.monotonic() + pace.seconds(20)
    while not used.exists() and time.monotonic() < until:
        time.sleep(0.05)
    peak_bytes = int(used.read_text()) * 1024
    ratios = ", ".join(f"{name} {seconds / _MOST_S:.2f}" for name, seconds in took)
    print(f"of {_MOST_S} s: {ratios}; of 2 GiB: {peak_bytes / _MOST_BYTES:.2f}")
    assert max(seconds for _, seconds in took) <= pace.seconds(_MOST_S)
    assert peak_bytes <= _MOST_BYTES
