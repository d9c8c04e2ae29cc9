"""Records are found again behind what was cut, inserted or overwritten."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

from npuprof.sources.raw.records import chip_layouts, layouts
from npuprof.sources.raw.records.framing import frame

_COUNT = 400
_TICKS = 1_823_550_000_000
_NUMBERS = random.Random(7)


def _stars(number: int) -> bytes:
    head = (number % 2 | (number % 16) << 6, 0x6BD3, 3, number // 2, _TICKS + 1234 * number)
    return struct.pack("<HHHHQ", *head).ljust(64, b"\0")


def _call(number: int) -> bytes:
    begin = 2 * _TICKS + 900 * number
    return struct.pack("<HHIIIQQQ", 0x5A5A, 20000, number % 7, 4242, 0, begin, begin + 500, 0)


def _mark(number: int) -> bytes:
    """A marker, whose payload has the magic word too, at the same place in every record."""
    head = struct.pack("<HHIIIQHHI", 0x5A5A, 20500, 0, 4242, 232, 2 * _TICKS + 900 * number, 0, 0, 0)
    return (head + struct.pack("<HHIII", 0x5A5A, 120, 77, 4242, 0) + b"step").ljust(256, b"\0")


def _track(number: int) -> bytes:
    tag = (0, 2, 3, 4, 60000)[number % 5]
    return struct.pack("<BBHIQQQHHHH", 0, 10, 40, 0, _TICKS + 51_234 * number, number // 5, 7, 3, number, tag, 0)


def _hbm(number: int) -> bytes:
    return struct.pack("<QQII", 20_000 * (number // 16), _NUMBERS.randrange(1 << 20), number % 2, number // 2 % 8)


def _memory(number: int) -> bytes:
    return struct.pack("<IIQQQ", 20_000 * (number // 2), number % 2, 0, 0, 30 << 30 | _NUMBERS.randrange(1 << 30))


def _cache(number: int) -> bytes:
    return struct.pack("<HHHH8Q", 0, 3, number, 0, *(_NUMBERS.randrange(1 << 22) for _ in range(8)))


def _pmu(number: int) -> bytes:
    counters = [_NUMBERS.randrange(1 << 18) for _ in range(8)]
    return struct.pack("<BBHHHII10Q8I", number % 16 << 4, 0, 0, 0, number, 0, 0, 5000, 0, *counters, 3, *[0] * 7)


_WITH_MAGIC = {"stars": (layouts.STARS, _stars), "api": (layouts.API, _call), "msproftx": (layouts.MSPROFTX, _mark)}
_WITHOUT = {
    "ts_track": (layouts.TS_TRACK, _track),
    "hbm": (layouts.HBM, _hbm),
    "npu_mem": (layouts.NPU_MEMORY, _memory),
    "l2_cache": (layouts.L2_CACHE, _cache),
    "aicore": (chip_layouts.CORE_PMU, _pmu),
}
_ALL = {**_WITH_MAGIC, **_WITHOUT}


def _content(kind: str) -> tuple[np.dtype[np.void], bytes]:
    record, make = _ALL[kind]
    _NUMBERS.seed(kind)  # the same records in whatever order the tests run
    return record, b"".join(map(make, range(_COUNT)))


def _read(kind: str, content: bytes) -> tuple[list[bytes], int]:
    size = _ALL[kind][0].itemsize
    framed = frame(np.frombuffer(content, np.uint8), _ALL[kind][0], [len(content)])
    found = framed.records.tobytes()
    return [found[at : at + size] for at in range(0, len(found), size)], framed.lost


def _compare(kind: str, whole: bytes, damaged: bytes, most_lost: int, most_wrong: int = 0) -> None:
    size = _ALL[kind][0].itemsize
    expected = {whole[at : at + size] for at in range(0, len(whole), size)}
    found, lost = _read(kind, damaged)
    wrong = len(set(found) - expected)
    assert len(expected & set(found)) >= len(expected) - most_lost - wrong
    assert wrong <= most_wrong
    assert lost >= len(expected) - len(found) > 0 or len(damaged) > len(whole)


@pytest.mark.parametrize("kind", _ALL)
def test_whole_records_are_all_there_is(kind: str) -> None:
    _, content = _content(kind)
    found, lost = _read(kind, content)
    assert (b"".join(found), lost) == (content, 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", _ALL)
def test_a_cut_byte_costs_the_record_that_it_cuts(kind: str) -> None:
    record, content = _content(kind)
    inside = [number * record.itemsize + number % record.itemsize for number in range(5, _COUNT - 5, 31)]
    for at in (0, len(content) - 1, len(content) // 2, *inside):
        # Without a magic word, what is cut near a border of its fields may look like a record, or hide the one beside.
        doubtful = int(kind in _WITHOUT)
        _compare(kind, content, content[:at] + content[at + 1 :], 1 + doubtful, most_wrong=doubtful)


@pytest.mark.parametrize("kind", _WITH_MAGIC)
def test_many_cuts_cost_a_record_each(kind: str) -> None:
    record, content = _content(kind)
    damaged = bytearray(content)
    places = [number * record.itemsize + 9 for number in range(20, _COUNT, 20)]
    for at in reversed(places):
        del damaged[at : at + 3]
    _compare(kind, content, bytes(damaged), len(places))


# By kind: how many bytes are replaced, and by what, of records of a size.
_DAMAGE: dict[str, Callable[[int], tuple[int, bytes]]] = {
    "bytes between records": lambda size: (0, b"\x7f" * 100),
    "an overwritten page": lambda size: (4096, bytes(4096)),
    "noise": lambda size: (999, _NUMBERS.randbytes(1100)),
    "lost magic words": lambda size: (2 * size + 4, bytes(2 * size + 4)),
}


@pytest.mark.parametrize("damage", _DAMAGE)
@pytest.mark.parametrize("kind", _WITH_MAGIC)
def test_damage_costs_the_records_that_it_touches(kind: str, damage: str) -> None:
    record, content = _content(kind)
    replaced, by = _DAMAGE[damage](record.itemsize)
    for number in (0, 100, _COUNT - 80):
        at = number * record.itemsize
        most = -(-replaced // record.itemsize)
        _compare(kind, content, content[:at] + by + content[at + replaced :], most)


@pytest.mark.parametrize("kind", _ALL)
def test_anything_may_be_given(kind: str) -> None:
    record, _ = _ALL[kind]
    rest = record.itemsize // 2
    for content in (
        b"",
        b"\x5a",
        bytes(rest),
        b"\x5a" * 3000,
        b"\xd3\x6b" * 3000,
        bytes(9999),
        _NUMBERS.randbytes(9999),
    ):
        found, lost = _read(kind, content)
        assert len(found) + lost >= len(content) // record.itemsize


def test_records_begin_at_the_marks_of_slices() -> None:
    """Two cuts that make up a whole record: only the sizes that were written show them."""
    record, content = _content("hbm")
    half, size = _COUNT // 2 * record.itemsize, record.itemsize
    damaged = content[: half - 10] + content[half : 10 - size]
    framed = frame(np.frombuffer(damaged, np.uint8), record, [half - 10, len(damaged)], [0, -10, -size])
    assert framed.records.tobytes() == content[: half - size] + content[half:-size]
    assert framed.lost == 2
