"""Records without a magic word: where bytes were cut off, no altered one is left without a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof.simulator import synthesise
from npuprof.sources.raw.records import chip_layouts, layouts
from npuprof.sources.raw.records.slices import Streams
from npuprof.tables.notes import Notes

_COUNT = 400
_LAYOUTS = {
    "hbm.data.0": layouts.HBM,
    "ddr.data.0": layouts.DDR,
    "npu_mem.data.0": layouts.NPU_MEMORY,
    "ts_track.data.0": layouts.TS_TRACK,
    "l2_cache.data.0": layouts.L2_CACHE,
    "aicore.data.0": chip_layouts.CORE_PMU,
    "lpmFreqConv.data.0": layouts.FREQUENCIES,
}
_TOLD = "whose records bear no mark"


def _write(folder: Path, stream: str, record: np.dtype[Any], *, marked: bool) -> list[Path]:
    """Write three slices of records that look alike, with stamps that go on."""
    values = np.arange(3 * _COUNT * record.itemsize // 4, dtype="<u4") % 97
    values[:: record.itemsize // 4] = np.arange(3 * _COUNT) + 1000
    paths = []
    for number, part in enumerate(np.split(values, 3)):
        path = folder / f"{stream}.slice_{number}"
        path.write_bytes(part.tobytes())
        if marked:
            path.with_name(f"{path.name}.done").write_text(f"filesize:{path.stat().st_size}\n")
        paths.append(path)
    return paths


def _warnings(folder: Path, stream: str, record: np.dtype[Any]) -> list[tuple[str, int]]:
    notes = Notes()
    streams = Streams(folder, notes, "device_0")
    for _ in range(2):  # asked for again, nothing is told twice
        streams.read(stream, record)
    told = notes.to_frame()
    told = told[told["message"].str.contains(_TOLD)]
    assert set(told["severity"]) <= {"warning"}
    return list(zip(told["message"], told["count"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("stream", _LAYOUTS)
def test_the_slice_that_was_cut_is_marked(tmp_path: Path, stream: str, *, marked: bool) -> None:
    record = _LAYOUTS[stream]
    path = _write(tmp_path, stream, record, marked=marked)[1]
    assert not _warnings(tmp_path, stream, record)
    whole = path.read_bytes()
    for at in (0, 1, record.itemsize, _COUNT // 2 * record.itemsize + 3, len(whole) - 1):
        path.write_bytes(whole[:at] + whole[at + 1 :])
        ((message, count),) = _warnings(tmp_path, stream, record)
        assert message.startswith(f"{stream}: bytes are missing in, or were put into, {path.name}, ")
        assert count == _COUNT


@pytest.mark.parametrize("stream", _LAYOUTS)
def test_cut_of_a_whole_record_is_marked(tmp_path: Path, stream: str) -> None:
    record = _LAYOUTS[stream]
    path = _write(tmp_path, stream, record, marked=True)[2]
    whole = path.read_bytes()
    path.write_bytes(whole[: record.itemsize // 2] + whole[record.itemsize // 2 + record.itemsize :])
    ((message, count),) = _warnings(tmp_path, stream, record)
    assert path.name in message
    assert count == _COUNT - 1


@pytest.mark.slow
def test_records_with_a_magic_word_need_no_mark(tmp_path: Path) -> None:
    run = synthesise(tmp_path, launches=20)
    path = run / "device_0/data/stars_soc.data.0.slice_0"
    path.write_bytes(path.read_bytes()[:-1])
    notes = npuprof.load(run).notes
    assert not notes["message"].str.contains(_TOLD).any()


@pytest.mark.slow
@pytest.mark.parametrize("cut_bytes", [1, 3, 8])
def test_frequency_cut_costs_only_its_samples(tmp_path: Path, cut_bytes: int) -> None:
    run = synthesise(tmp_path, launches=20)
    path = run / "device_0/data/lpmFreqConv.data.0.slice_0"
    path.with_name(f"{path.name}.done").unlink()
    before = npuprof.load(run)
    whole = path.read_bytes()
    changes = _frequencies(before)
    assert len(changes) > 1
    for at in (0, 8, 24, 24 + 16 * len(changes), len(whole) - cut_bytes):
        path.write_bytes(whole[:at] + whole[at + cut_bytes :])
        after = npuprof.load(run)
        assert len(_frequencies(after)) >= len(changes) - 1, at
        assert after.notes["message"].str.contains(_TOLD).any()
        for column in [name for name in map(str, before.kernels) if name.endswith("_time_ns")]:
            altered = (after.kernels[column] != before.kernels[column]).fillna(value=False)
            assert not altered.any() or at in (8, 24), (column, at)


def _frequencies(run: npuprof.Profile) -> list[float]:
    counters = run.counters
    values: list[float] = counters.loc[counters["counter"] == "AI Core Freq", "value"].tolist()
    return values
