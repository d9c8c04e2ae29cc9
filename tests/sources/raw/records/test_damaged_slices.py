"""A recording whose slices were cut, damaged, lost or doubled: what that costs, and that it is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest

from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from tests.sources.raw.records.slicing import reslice

_LAUNCHES = 60
# By stream: the bytes of a slice (records of a device may straddle two), and the records that one cut may cost.
_STREAMS = {
    "aging.api_event.data": 40 * 45,
    "aging.compact.node_basic_info": 64 * 15,
    "aging.compact.task_track": 64 * 15,
    "aging.additional.tensor_info": 256 * 15,
    "stars_soc.data.0": 2000,
    "ffts_profile.data.0": 2000,
}
_CUTS: dict[str, Callable[[bytes], bytes]] = {
    "front": lambda content: content[1:],
    "middle": lambda content: content[: len(content) // 2] + content[len(content) // 2 + 1 :],
    "end": lambda content: content[:-1],
}
_OF_OTHERS = ["wait_ns", "connection_id"]  # they tell of the rows before, too


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesise(tmp_path_factory.mktemp("whole"), launches=_LAUNCHES)


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / whole.name)


def _changed_rows(decoded: Decoded, expected: Decoded, table: str) -> int:
    """Count the rows of a table that the other does not have."""
    keys = [
        set(map(str, frame.drop(columns=_OF_OTHERS, errors="ignore").astype(object).to_numpy().tolist()))
        for frame in (decoded.tables[table], expected.tables[table])
    ]
    return len(keys[0] - keys[1])


def _warnings(decoded: Decoded) -> pd.DataFrame:
    notes = decoded.notes.to_frame()
    warnings: pd.DataFrame = notes[notes["severity"] != "info"]
    return warnings


@pytest.mark.long
@pytest.mark.parametrize("place", _CUTS)
@pytest.mark.parametrize("stream", _STREAMS)
def test_cut_byte_costs_only_its_record(stream: str, place: str, run: Path) -> None:
    slices = reslice(run, stream, _STREAMS[stream])
    expected = raw.read(run)
    assert len(slices) > 3
    assert not len(_warnings(expected))
    for path in (slices[0], slices[len(slices) // 2], slices[-1]):
        content = path.read_bytes()
        path.write_bytes(_CUTS[place](content))
        decoded = raw.read(run)
        for table in ("kernels", "tasks", "api"):
            assert len(decoded.tables[table]) >= len(expected.tables[table]) - 1, (path.name, table)
            assert _changed_rows(decoded, expected, table) <= 1, (path.name, table)
        told = _warnings(decoded).set_index("message")["count"]
        assert told[f"{stream}: cut or damaged records skipped"] == 1
        assert told[f"{stream}: bytes are missing in its slices, by their .done marks"] == 1
        path.write_bytes(content)


@pytest.mark.slow
def test_bytes_cut_off_every_slice_cost_a_record_each(run: Path) -> None:
    slices = reslice(run, "stars_soc.data.0", 64 * 20, marks=False)
    for number, path in enumerate(slices):
        content = path.read_bytes()
        path.write_bytes(content[: 64 * number + 5] + content[64 * number + 5 + number :])
    decoded = raw.read(run)
    assert len(decoded.tables["tasks"]) == _LAUNCHES - len(slices) + 1  # nothing is cut off the first one


def _unmarked(path: Path) -> Path:
    path.with_name(f"{path.name}.done").unlink()
    return path


def _without(path: Path) -> None:
    _unmarked(path).unlink()


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


_LOSSES: dict[str, tuple[Callable[[list[Path]], object], str, int]] = {
    "one between": (lambda slices: _without(slices[1]), "slices between its first and its last one are missing", 1),
    "the first one": (lambda slices: _without(slices[0]), "slices before its first one are missing", 1),
    "all but a mark": (lambda slices: slices[-1].unlink(), "with 640 bytes by their .done marks", 1),
    "half of one": (lambda slices: _half(slices[1]), "bytes are missing in its slices, by their .done marks", 640),
    "a mark": (lambda slices: _unmarked(slices[1]), "slices without a .done mark", 1),
    "nothing, but there is more": (
        lambda slices: slices[1].write_bytes(slices[1].read_bytes() + bytes(64)),
        "bytes more than in the .done marks of its slices",
        64,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", _LOSSES)
def test_what_slices_lack_is_reported(loss: str, run: Path) -> None:
    slices = reslice(run, "stars_soc.data.0", 64 * 20)
    slices[-1].write_bytes(slices[-1].read_bytes()[:640])
    slices[-1].with_name(f"{slices[-1].name}.done").write_text("filesize:640\n")
    damage, message, count = _LOSSES[loss]
    damage(slices)
    told = _warnings(raw.read(run))
    assert told["message"].str.contains(message, regex=False).sum() == 1
    assert told.loc[told["message"].str.contains(message, regex=False), "count"].item() == count


def _free(path: Path) -> Path:
    """Return a name for one more slice."""
    numbers = (path.with_name(f"{path.name.rpartition('_')[0]}_{number}") for number in range(1000))
    return next(name for name in numbers if not name.exists())


def _copies(path: Path) -> Iterator[Callable[[], object]]:
    target = _free(path)
    yield lambda: shutil.copyfile(path, target)
    yield lambda: target.symlink_to(path)
    yield lambda: os.link(path, target)
    yield lambda: target.write_bytes(path.read_bytes()[:-70])
    yield lambda: shutil.copyfile(path, path.with_name(path.name.replace("slice_", "slice_00")))


@pytest.mark.slow
@pytest.mark.parametrize("stream", ["stars_soc.data.0", "aging.compact.task_track", "aging.api_event.data"])
def test_a_slice_that_is_there_twice_counts_once(stream: str, run: Path) -> None:
    slices = reslice(run, stream, _STREAMS[stream], marks=False)
    expected = raw.read(run)
    for path in (slices[0], slices[-2]):
        for make_copy in _copies(path):
            make_copy()
            decoded = raw.read(run)
            for table, frame in expected.tables.items():
                pd.testing.assert_frame_equal(decoded.tables[table], frame)
            told = _warnings(decoded).set_index("message")["count"]
            assert told[f"{stream}: bytes of a slice that is present twice, counted once"] > path.stat().st_size - 71
            for copy in set(path.parent.glob(f"{stream}.slice_*")) - set(slices):
                copy.unlink()


@pytest.mark.slow
def test_a_copy_under_the_other_age_of_a_stream_counts_once(run: Path) -> None:
    expected = raw.read(run)
    aging = run / "host/data/aging.compact.task_track.slice_0"
    shutil.copyfile(aging, aging.with_name("unaging.compact.task_track.slice_0"))
    decoded = raw.read(run)
    pd.testing.assert_frame_equal(decoded.tables["tasks"], expected.tables["tasks"])
    assert _warnings(decoded)["message"].str.contains("present twice").any()


@pytest.mark.slow
def test_a_whole_slice_behind_its_cut_copy_counts_once(run: Path) -> None:
    slices = reslice(run, "stars_soc.data.0", 64 * 20, marks=False)
    expected = raw.read(run)
    content = slices[1].read_bytes()
    shutil.move(slices[2], _free(slices[2]))
    slices[2].write_bytes(content)
    slices[1].write_bytes(content[: 64 * 7 + 9])
    decoded = raw.read(run)
    pd.testing.assert_frame_equal(decoded.tables["tasks"], expected.tables["tasks"])
