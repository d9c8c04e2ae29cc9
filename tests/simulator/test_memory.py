"""The memory of a device behaves as one long row of bytes in blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.simulator.device_view import DeviceMemory

SIZE = 200_000


@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.binary(max_size=70_000)), max_size=6))
def test_what_was_written_last_is_read(writes: list[tuple[int, bytes]]) -> None:
    memory, expected = DeviceMemory(0, 1 << 20), bytearray(SIZE)
    address = memory.allocate(SIZE)
    for offset, data in writes:
        part = data[: SIZE - offset]
        memory.write(address + offset, part)
        expected[offset : offset + len(part)] = part
    assert memory.read(address, SIZE) == expected


def test_blocks_do_not_overlap_and_are_counted() -> None:
    memory = DeviceMemory(0, 4096)
    first, second = memory.allocate(1), memory.allocate(600)
    assert second - first == 512
    assert memory.allocated_bytes == 512 + 1024
    assert memory.holds(second, 1024)
    assert not memory.holds(second, 1025)
    assert not memory.holds(first - 1, 1)
    assert memory.allocate(4096) == 0
    assert [memory.release(first), memory.release(first)] == [512, 0]
    with pytest.raises(ValueError, match="no block"):
        memory.read(first, 1)
