"""The last slice of a stream is gone without a trace of its own: what another stream shows of it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuprof
from npuprof.simulator import synthesise
from tests.sources.raw.conftest import raw_sample, writable_copy

_LAUNCHES = 120
_STREAMS = {
    "device_0/data/stars_soc.data.0": (64, "kernels that the host launched last did not run on the device"),
    "host/data/aging.api_event.data": (40, "kernels that were launched last are in no call"),
}


@pytest.mark.slow
@pytest.mark.parametrize("stream", _STREAMS)
def test_the_missing_end_of_a_stream_is_reported(tmp_path: Path, stream: str) -> None:
    run = synthesise(tmp_path, launches=_LAUNCHES)
    path = run / f"{stream}.slice_0"
    record_bytes, words = _STREAMS[stream]
    whole = npuprof.load(run)
    assert whole.notes.empty
    records = path.stat().st_size // record_bytes
    with path.open("r+b") as file:  # the first half, as if the second had been a slice of its own
        file.truncate(records // 2 * record_bytes)
    for mark in run.rglob("*.slice_*.done"):
        mark.unlink()
    notes = npuprof.load(run).notes
    told = notes[notes["message"].str.startswith(words)]
    assert told["severity"].tolist() == ["warning"]
    assert told["count"].between(_LAUNCHES // 4, _LAUNCHES * 3 // 4).all()
    assert told["message"].str.endswith(f"the last slices of {told['source'].iloc[0]} may be missing").all()


@pytest.mark.slow
def test_a_part_of_a_run_lacks_no_end(tmp_path: Path) -> None:
    run = synthesise(tmp_path, launches=_LAUNCHES)
    whole = npuprof.load(run)
    part = npuprof.load(run, end=int(whole.kernels["start_ns"].iloc[_LAUNCHES // 2]))
    assert not part.notes["message"].str.contains("may be missing").any()


@pytest.mark.slow
def test_the_last_slice_of_a_sample_is_missed(samples: Path, tmp_path: Path) -> None:
    run = writable_copy(raw_sample(samples, "sliced_2k"), tmp_path / "PROF_x")
    kernels = len(npuprof.load(run).kernels)
    for path in run.glob("device_0/data/stars_soc.data.0.slice_3*"):
        path.unlink()
    after = npuprof.load(run)
    told = after.notes[after.notes["message"].str.contains("did not run on the device")]
    assert told["count"].tolist() == [kernels - len(after.kernels)]


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["host/data/aging.api_event.data", "device_0/data/stars_soc.data.0"])
def test_full_last_slice_is_noted(samples: Path, tmp_path: Path, stream: str) -> None:
    words = "its last slice is as full as those before it: later ones may be missing"
    run = writable_copy(raw_sample(samples, "sliced_2k"), tmp_path / "PROF_x")
    whole = npuprof.load(run)
    assert not whole.notes["message"].str.contains("may be missing").any()
    for path in run.glob(f"{stream}.slice_3*"):
        path.unlink()
    after = npuprof.load(run)
    told = after.notes[after.notes["message"].str.contains(words)]
    assert told[["severity", "count"]].to_numpy().tolist() == [["warning", 1]]
    assert len(after.api) + len(after.tasks) < len(whole.api) + len(whole.tasks)


@pytest.mark.parametrize("chip", ["5", "4"])
def test_a_device_without_any_task_is_reported(tmp_path: Path, chip: str) -> None:
    run = synthesise(tmp_path, launches=_LAUNCHES)
    for path in run.rglob("stars_soc*"):
        path.unlink()
    for path in run.rglob("info.json*"):
        path.write_text(path.read_text().replace('"platform_version": "5"', f'"platform_version": "{chip}"'))
    found = npuprof.load(run)
    assert not len(found.kernels)
    told = found.notes[found.notes["message"].str.startswith("kernels that the host launched have no task")]
    assert told[["severity", "source", "count"]].to_numpy().tolist() == [["warning", "device 0", _LAUNCHES]]
