"""Events of an allocator that are missing, told by its totals and by operators without a block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources.allocator_totals import note_lost_events
from npuprof.tables.notes import Notes
from npuprof.words.quantities import size
from tests.sources.framework.conftest import Reader
from tests.sources.framework.conftest import read as read
from tests.sources.framework.writer import ALLOCATED, IDLE, RELEASED, Framework
from tests.sources.kineto.traces import KinetoTrace

_UNEXPLAINED = "total is not that of the event before it"
_SILENT = "has no block before the first event of memory or after the last"


def _noted(changes: Sequence[int], totals: Sequence[int], devices: Sequence[int] = ()) -> list[tuple[int, str]]:
    notes = Notes()
    keys = [np.array(devices or [0] * len(changes), np.int64)]
    note_lost_events(keys, np.array(changes, np.int64), np.array(totals, np.int64), notes, "memory")
    frame = notes.to_frame()
    return list(zip(frame["count"].tolist(), frame["message"].tolist(), strict=True))


_CHANGES = [10, 20, -10, 40, -20, 5, 7, -40]
_TOTALS = [100 + total for total in accumulate(_CHANGES)]


def test_totals_that_follow_from_each_other_are_no_loss() -> None:
    assert _noted(_CHANGES, _TOTALS) == []
    assert _noted([], []) == []
    assert _noted([10, 20, -10], [0, 0, 0]) == []  # of an allocator that keeps no total


@pytest.mark.parametrize("gone", range(1, len(_CHANGES) - 1))
def test_missing_event_has_its_share_of_bytes(gone: int) -> None:
    left = [at for at in range(len(_CHANGES)) if at != gone]
    ((count, message),) = _noted([_CHANGES[at] for at in left], [_TOTALS[at] for at in left])
    assert count == 1
    assert _UNEXPLAINED in message
    assert f"of {abs(_CHANGES[gone])} B (" in message


def test_reordered_events_are_no_loss() -> None:
    order = [0, 2, 1, 3, 5, 4, 7, 6]
    assert _noted([_CHANGES[at] for at in order], [_TOTALS[at] for at in order]) == []
    order = [0, 2, 1, 5, 4, 7, 6]
    assert len(_noted([_CHANGES[at] for at in order], [_TOTALS[at] for at in order])) == 1


def test_each_device_has_its_total() -> None:
    changes = [change for change in _CHANGES for _ in range(2)]
    totals = [total for one in _TOTALS for total in (one, one + 7)]
    devices = [0, 1] * len(_CHANGES)
    assert _noted(changes, totals, devices) == []
    ((count, _),) = _noted(changes[:4] + changes[5:], totals[:4] + totals[5:], devices[:4] + devices[5:])
    assert count == 1


def test_random_half_of_events_is_estimated() -> None:
    random = np.random.default_rng(11)
    changes = random.integers(1, 1 << 20, 100_000) * random.choice([1, -1], 100_000)
    totals = (1 << 40) + np.cumsum(changes)
    left = np.sort(random.choice(100_000, 50_000, replace=False))
    ((count, message),) = _noted(changes[left].tolist(), totals[left].tolist())
    assert 24_000 < count < 26_000
    lost = sum(abs(int(gone.sum())) for gone in np.split(np.delete(changes, left), _places(left)))
    assert f"of {size(lost)} (" in message


def _places(left: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where what is between two rows that are left begins among those that are not."""
    return left - np.arange(len(left))


# -- the files ---------------------------------------------------------------------------------------------------


def _raw(*, gone: int | None = None, until: int = 99) -> Framework:
    """Write ten operators that each take a block; the device's use ends before or after the release, or once."""
    run = Framework()
    events = []
    for number in range(10):
        run.op("aten::empty", 1000 * number, 1000 * number + 500)
        ends = ((IDLE, RELEASED), (RELEASED, IDLE), (RELEASED,))[number % 3]
        events.append((1000 * number + 100, ALLOCATED, number % 2, 64 + number))
        events += [(1000 * number + 600 + at, kind, number % 2, -64 - number) for at, kind in enumerate(ends)]
    total = 4096
    is_held = dict.fromkeys(range(2), False)
    for at, (time, kind, block, change) in enumerate(events):
        total += change if (kind == ALLOCATED) or is_held[block] else 0
        is_held[block] = kind == ALLOCATED
        if at != gone and at < until:
            run.block(time, kind, 0x1000 + block, change, (total, 1 << 20, total))
    return run


def _of_memory(read: Reader, run: Framework) -> list[str]:
    notes = read(run).notes.to_frame()
    return [text for text in notes["message"] if _UNEXPLAINED in text or _SILENT in text]


def test_released_blocks_explain_the_totals(read: Reader) -> None:
    assert _of_memory(read, _raw()) == []
    run = Framework()  # a block of before the recording, released before it too
    run.block(10, IDLE, 0x1000, -64, (500, 2048, 436))
    run.block(20, ALLOCATED, 0x1000, 32, (532, 2048, 468))
    run.block(30, IDLE, 0x2000, -100, (432, 2048, 468))  # and one that is released now
    run.block(31, RELEASED, 0x2000, -100, (432, 2048, 468))
    assert _of_memory(read, run) == []


@pytest.mark.parametrize("gone", [3, 11])
def test_a_lost_allocation_of_torch_npu_is_told(read: Reader, gone: int) -> None:
    (message,) = _of_memory(read, _raw(gone=gone))
    assert _UNEXPLAINED in message


def test_allocating_operators_reveal_a_short_file(read: Reader) -> None:
    (message,) = _of_memory(read, _raw(until=15))
    assert _SILENT in message


def _trace(tmp_path: Path, chosen: slice) -> list[str]:
    trace, total, events = KinetoTrace(), 0, []
    for number in range(12):
        trace.operator("aten::empty", 100 * number, 50, number)
        total += 64 + number
        events.append((100 * number + 10, 64 + number, 256 * (number + 1), total))
    for event in events[chosen]:
        trace.memory(*event)
    run = npuprof.load(trace.write(tmp_path / "trace.json"))
    return [text for text in run.notes["message"] if _UNEXPLAINED in text or _SILENT in text]


def test_lost_torch_events_are_told(tmp_path: Path) -> None:
    assert _trace(tmp_path, slice(None)) == []
    (unexplained,) = _trace(tmp_path, slice(0, None, 2))
    assert _UNEXPLAINED in unexplained
    for part in (slice(0, 6), slice(6, None)):
        (silent,) = _trace(tmp_path, part)
        assert _SILENT in silent


_PUBLISHED = ("text/level1/rank0_ascend_pt", "llm_4ranks/rank_0_ascend_pt", "llm_4ranks/rank_2_ascend_pt")


@pytest.mark.parametrize("place", _PUBLISHED)
def test_published_totals_follow_from_the_blocks(samples: Path, place: str) -> None:
    """Its blocks of before the recording are not listed: their releases are the only steps without a block."""
    run = npuprof.load(samples / "torch_npu" / place)
    assert isinstance(run, Profile)
    memory, blocks = run.memory[(run.memory["component"] == "PTA").to_numpy(bool)], run.allocations
    memory = memory.sort_values("time_ns", kind="stable")
    ended = blocks[["released_ns", "active_released_ns"]].min(axis=1)
    sizes = blocks["size_bytes"]
    moments = pd.concat([blocks["allocated_ns"], ended]).reset_index(drop=True)
    change = pd.concat([sizes, -sizes], ignore_index=True).groupby(moments).sum().reindex(memory["time_ns"]).fillna(0)
    totals = memory["allocated_bytes"].to_numpy(np.int64)
    change_bytes = change.to_numpy(np.int64)
    change_bytes[0] += totals[0]
    is_earlier = (change_bytes == 0) & (np.diff(totals, prepend=0) < 0)
    change_bytes[is_earlier] = np.diff(totals, prepend=0)[is_earlier]
    assert np.count_nonzero(is_earlier) <= 0.1 * len(totals)
    notes = Notes()
    note_lost_events([np.zeros(len(totals), np.int64)], change_bytes, totals, notes, "memory")
    assert not len(notes)
