"""The device's streams are the same however they are cut into slices."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.files import memory_limit
from tests.budget import examples
from tests.sources.raw.conftest import raw_sample, writable_copy
from tests.sources.raw.records.slicing import take_streams

_RECORD_BYTES = {"stars_soc": 64, "ffts_profile": 128, "ts_track": 40}


def _write(folder: Path, name: str, content: bytes, cuts: list[int], numbers: list[int]) -> None:
    ends = [*sorted(cuts), len(content)]
    for number, start, end in zip(sorted(numbers), [0, *ends], ends, strict=False):
        (folder / f"{name}.slice_{number}").write_bytes(content[start:end])


def _check(path: Path) -> None:
    whole = raw.read(path)
    folder = path / "device_0" / "data"
    streams = take_streams(folder)

    @settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
    @given(data=st.data())
    def cut_and_read(data: st.DataObject) -> None:
        for old in folder.glob("*.slice_*"):
            old.unlink()
        padded = 0
        for name, content in streams.items():
            kind = name.partition(".")[0]
            # A ring of slices that has lost its oldest one begins within a record.
            lost = data.draw(st.integers(0, _RECORD_BYTES[kind] - 1)) if kind in _RECORD_BYTES else 0
            padded += lost > 0
            cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=12, unique=True))
            numbers = data.draw(st.lists(st.integers(0, 2000), min_size=13, max_size=13, unique=True))
            _write(folder, name, b"\x7f" * lost + content, [lost + cut for cut in cuts], numbers)
        decoded = raw.read(path)
        assert len(decoded.tables["kernels"])
        for table, frame in whole.tables.items():
            pd.testing.assert_frame_equal(decoded.tables[table], frame)
        damaged = decoded.notes.to_frame()["message"].str.contains("cut or damaged")
        assert int(damaged.sum()) == padded

    cut_and_read()


@pytest.mark.slow
def test_slices_of_a_simulated_run_may_be_cut_anywhere(tmp_path: Path) -> None:
    _check(synthesise(tmp_path, launches=300))


@pytest.mark.long
@pytest.mark.parametrize("name", ["sliced_2k", "model_step"])
def test_slices_of_a_sample_may_be_cut_anywhere(name: str, samples: Path, tmp_path: Path) -> None:
    _check(writable_copy(raw_sample(samples, name), tmp_path / "PROF_x"))


@pytest.mark.slow
def test_oversized_slice_is_left_out_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = synthesise(tmp_path, launches=20)
    whole = raw.read(path)
    for side, name in (("device_0", "stars_soc.data.0.slice_9"), ("host", "unaging.additional.hash_dic.slice_9")):
        with (path / side / "data" / name).open("wb") as file:
            file.truncate(8 << 20)  # set up for writing, and never filled
    monkeypatch.setattr(memory_limit, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 2 << 20)
    decoded = raw.read(path)
    notes = decoded.notes.to_frame()
    told = notes[notes["message"].str.contains("slice_9 is not read: 8 MiB do not fit")]
    assert set(told["source"]) == {"device_0", "host"}
    for table in ("tasks", "kernels", "api"):
        pd.testing.assert_frame_equal(decoded.tables[table], whole.tables[table])
