"""The account of raw records: rows of tables, used for others, or left out by a note, whatever happens to the bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.raw.correlation.launch_tables import DecodedLaunches
from tests.sources.raw.writers.directory import RawDirectory
from tests.sources.test_ledger import unaccounted

from .conftest import raw_sample, writable_copy

_LAUNCHES = 60


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    return synthesise(tmp_path, launches=_LAUNCHES)


def _slices(run: Path) -> list[Path]:
    return sorted(path for path in run.glob("*/data/*.slice_*") if path.suffix != ".done" and path.stat().st_size)


def _unaccounted(run: Path) -> list[str]:
    decoded = raw.read(run)
    decoded.settle()
    return unaccounted(decoded)


@pytest.mark.slow
def test_every_stream_of_a_simulated_recording_is_an_input(simulated: Path) -> None:
    run = npuprof.load(simulated)
    accounts = run.ledger.set_index("input")
    assert accounts.loc["host/api_event", ["rows", "in_tables"]].tolist() == [len(run.api)] * 2
    assert accounts.loc["device_0/stars_soc", "in_tables"] == 2 * len(run.tasks)  # a start and an end each
    assert accounts.loc["host/compact.task_track", "used"] >= _LAUNCHES
    assert (accounts["rows"] == accounts[["in_tables", "used", "left_out"]].sum(axis=1)).all()
    assert not _unaccounted(simulated)


@pytest.mark.slow
def test_records_cut_from_any_slice_are_accounted_for(simulated: Path) -> None:
    chance = random.Random(5)
    gaps = {}
    for path in _slices(simulated):
        whole = path.read_bytes()
        for kind in ("cut", "flipped", "twice"):
            content = bytearray(whole)
            at = chance.randrange(len(content))
            if kind == "cut":
                del content[at : at + chance.randrange(1, 200)]
            elif kind == "flipped":
                for _ in range(20):
                    content[chance.randrange(len(content))] ^= 0xFF
            else:
                content *= 2
            path.write_bytes(content)
            if wrong := _unaccounted(simulated):
                gaps[path.name, kind] = wrong
        path.write_bytes(whole)
    assert not gaps


@pytest.mark.slow
def test_damaged_records_of_every_kind_are_accounted_for(samples: Path, tmp_path: Path) -> None:
    run = writable_copy(raw_sample(samples, "everything"), tmp_path / "PROF_x")
    chance = random.Random(7)
    gaps = {}
    for path in _slices(run):
        whole = path.read_bytes()
        content = bytearray(whole)
        for _ in range(max(2, len(content) // 40)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
        if wrong := _unaccounted(run):
            gaps[path.name] = wrong
        path.write_bytes(whole)
    assert not gaps


@pytest.mark.slow
def test_a_part_of_a_run_is_accounted_for(simulated: Path) -> None:
    whole = npuprof.load(simulated)
    start = int(whole.kernels["start_ns"].iloc[_LAUNCHES // 2])
    part = npuprof.load(simulated, start=start)
    assert 0 < len(part.kernels) < len(whole.kernels)
    assert not whole.notes["message"].tolist()
    assert ["only a part of the run was asked for" in message for message in part.notes["message"]] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["lpmFreqConv.data.0", "ffts_profile.data.0", "npu_mem.data.0"])
def test_an_emptied_slice_is_reported(simulated: Path, stream: str) -> None:
    path = simulated / f"device_0/data/{stream}.slice_0"
    path.write_bytes(b"")
    path.with_name(f"{path.name}.done").unlink(missing_ok=True)
    notes = npuprof.load(simulated).notes.set_index("message")
    assert notes.loc[f"{stream}: slices are empty: what was recorded in them is missing", "severity"] == "warning"


def test_calls_of_points_and_of_unknown_levels_balance(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_x")
    directory.launch(0, "Add", 3, 0)
    directory.api(20000, 1, 400, None, thread=7)
    directory.api(20000, 1, 450, None, thread=7)
    directory.api(20000, 1, 460, None, thread=9)
    for level in range(60, 90):
        directory.api(level, 1, 500, 510)
    path = directory.finish()
    decoded = raw.read(path)
    decoded.settle()
    assert not unaccounted(decoded)
    accounts = decoded.notes.ledger.to_frame().set_index("input")
    assert accounts.loc["host/api_event"].tolist() == [36, 5, 0, 31]


@pytest.mark.slow
def test_a_record_that_a_reader_forgets_is_reported(simulated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = raw.launch_tables.api_table

    def forgetful(run: DecodedLaunches, communication: pd.DataFrame) -> pd.DataFrame:
        kept: pd.DataFrame = built(run, communication).iloc[:-3].reset_index(drop=True)
        return kept

    monkeypatch.setattr(raw.launch_tables, "api_table", forgetful)
    notes = npuprof.load(simulated).notes
    lost = notes[notes["message"].str.contains("were lost after they were read")]
    assert lost[["severity", "source", "count"]].to_numpy().tolist() == [["warning", "api", 3]]
