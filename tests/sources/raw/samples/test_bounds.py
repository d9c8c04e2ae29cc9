"""Sampled streams that were set up for more than was written, or damaged, cost little more than their bytes."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.base import Decoded

_RECORD_BYTES = {"npu_mem": 32, "hbm": 24, "ddr": 20, "pcie": 96}
_COUNT = 100_000
_MOST = 5  # times the bytes of the file


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthesise(tmp_path, launches=5)


def _read(run: Path) -> tuple[Decoded, int]:
    raw.read(run)  # what is imported and kept at the first time is no cost of the file
    tracemalloc.start()
    try:
        return raw.read(run), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("stream", _RECORD_BYTES)
def test_a_sparse_file_is_one_sample(stream: str, run: Path) -> None:
    before = raw.read(run)
    size = _COUNT * _RECORD_BYTES[stream]
    with (run / f"device_0/data/{stream}.data.0.slice_0").open("wb") as file:
        file.truncate(size)
    decoded, peak = _read(run)
    for table in ("memory", "counters"):
        assert len(decoded.tables[table]) < len(before.tables[table]) + 30
    notes = decoded.notes.to_frame().set_index("message")["count"]
    assert notes[f"{stream}.data.0: records that repeat the one before skipped"] == _COUNT - 1
    assert peak < _MOST * size


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["npu_mem", "hbm", "ddr"])
def test_noise_is_hardly_any_sample(stream: str, run: Path) -> None:
    before = raw.read(run)
    content = random.Random(3).randbytes(_COUNT * _RECORD_BYTES[stream])
    (run / f"device_0/data/{stream}.data.0.slice_0").write_bytes(content)
    decoded, peak = _read(run)
    for table in ("memory", "counters"):
        assert len(decoded.tables[table]) < len(before.tables[table]) + _COUNT // 100
    told = decoded.notes.to_frame()
    skipped = told[told["message"].str.startswith(f"{stream}.data.0") | told["message"].str.startswith(f"{stream}:")]
    assert skipped.loc[skipped["message"].str.contains("skipped"), "count"].sum() > _COUNT * 0.9
    assert peak < 2 * _MOST * len(content)
