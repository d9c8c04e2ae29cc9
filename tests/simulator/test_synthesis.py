"""Recordings made in bulk: the same kind of data as the recorder's."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from npuprof.simulator import synthesise
from tests.simulator import reading


@pytest.mark.slow
def test_streams_run_in_order_and_calls_are_nested(tmp_path: Path) -> None:
    recording = synthesise(tmp_path, launches=2000, streams=3, threads=2)
    by_stream: dict[int, list[reading.Soc]] = defaultdict(list)
    rows = reading.soc(recording)
    assert [row.counter for row in rows] == [number % 16 for number in range(4000)]
    for row in rows:
        by_stream[row.stream].append(row)
    assert set(by_stream) == {0, 1, 2}
    for tasks in by_stream.values():
        assert [row.function for row in tasks] == [0, 1] * (len(tasks) // 2)
        assert [row.tick for row in tasks] == sorted(row.tick for row in tasks)
    calls = np.array(reading.apis(recording), dtype=object).reshape(2000, 3, 8)
    assert (calls[:, 0, 5] < calls[:, 1, 5]).all()
    assert (calls[:, 1, 6] < calls[:, 0, 6]).all()
    tracks = reading.tracks(recording)
    assert {track.thread for track in tracks} == {1000, 1001}
    starts = {(row.stream, row.task): reading.device_ns(recording, row.tick) for row in rows if row.function == 0}
    assert all(starts[track.stream, track.task] > track.time for track in tracks)
    names = reading.dictionary(recording, "hash_dic")
    assert all(str(track.name) in names for track in tracks)


@pytest.mark.slow
def test_task_ids_wrap_as_often_as_needed(tmp_path: Path) -> None:
    recording = synthesise(tmp_path, launches=140_000, streams=1, threads=1)
    data = np.frombuffer(reading.stream(recording, "aging.compact.task_track"), np.uint8).reshape(-1, 64)
    types = data[:, 32].astype(int)
    task_ids = data[:, 28:30].copy().view("<u2")[:, 0]
    assert (types == 98).sum() == 2
    tasks = task_ids[types != 98]
    assert np.array_equal(tasks, np.arange(140_000) % 65536)
    flips = reading.cut(reading.stream(recording, "ts_track.data.0"), 40)
    assert [struct.unpack_from("<HH", flip, 16) for flip in flips] == [(0, 1), (0, 2)]
    soc = np.frombuffer(reading.stream(recording, "stars_soc.data.0"), np.uint8).reshape(-1, 64)
    ticks = soc[:, 8:16].copy().view("<u8")[:, 0]
    for number, flip in enumerate(flips, start=1):
        (tick,) = struct.unpack_from("<Q", flip, 8)
        assert ticks[2 * 65536 * number - 1] < tick < ticks[2 * 65536 * number]
    for name, size in (("aging.api_event.data", 40), ("aging.additional.tensor_info", 256)):
        paths = reading.slices(recording, name)
        assert len(paths) > 1
        assert all(path.stat().st_size % size == 0 and path.stat().st_size <= 2 << 20 for path in paths)


def test_the_seed_decides(tmp_path: Path) -> None:
    def data(seed: int) -> bytes:
        return reading.stream(synthesise(tmp_path, launches=100, seed=seed), "stars_soc.data.0")

    assert data(1) == data(1) != data(2)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        synthesise(tmp_path, launches=0)
