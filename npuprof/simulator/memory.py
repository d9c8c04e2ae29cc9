"""The memory of a simulated device: addresses are given out and counted, contents exist once written."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

_ALIGNMENT = 512
_PAGE_BYTES = 64 << 10
_BASE_ADDRESS = 0x12C0_0000_0000  # of the kind that devices give; no address of this process


class DeviceMemory:
    """Allocations of one device.

    Parameters
    ----------
    device_id
        Keeps the addresses of several devices apart.
    size_bytes
        What there is in all.
    """

    def __init__(self, device_id: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.allocated_bytes = 0
        self._next = _BASE_ADDRESS + (device_id << 40)
        self._addresses: list[int] = []
        self._sizes: dict[int, int] = {}
        self._contents: dict[int, dict[int, bytearray]] = {}

    def allocate(self, size_bytes: int) -> int:
        """Return the address of a new block, or 0 when the memory is used up."""
        rounded = -(-max(size_bytes, 1) // _ALIGNMENT) * _ALIGNMENT
        if self.allocated_bytes + rounded > self.size_bytes:
            return 0
        address = self._next
        self._next += rounded
        self._addresses.append(address)  # they only grow, so the list stays sorted
        self._sizes[address] = rounded
        self.allocated_bytes += rounded
        return address

    def release(self, address: int) -> int:
        """Release a block; gives its size, or 0 when there is none at this address."""
        size = self._sizes.pop(address, 0)
        if size:
            del self._addresses[bisect.bisect_left(self._addresses, address)]
            self._contents.pop(address, None)
            self.allocated_bytes -= size
        return size

    def size_of(self, address: int) -> int:
        """Return the size of the block at an address, or 0."""
        return self._sizes.get(address, 0)

    def holds(self, address: int, size_bytes: int) -> bool:
        """Return whether a range lies in one block."""
        return self._block(address, size_bytes) is not None

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the contents of a range that :meth:`holds`; zeros where nothing was written."""
        start = self._start(address, size_bytes)
        pages = self._contents.get(start, {})
        parts = []
        for number, first, last in _pieces(address - start, size_bytes):
            page = pages.get(number)
            parts.append(bytes(last - first) if page is None else bytes(page[first:last]))
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Change the contents of a range that :meth:`holds`; takes host memory only for what is written."""
        start = self._start(address, len(data))
        pages = self._contents.setdefault(start, {})
        view = memoryview(data)
        for number, first, last in _pieces(address - start, len(data)):
            page = pages.get(number)
            if page is None:
                page = pages[number] = bytearray(_PAGE_BYTES)
            page[first:last] = view[: last - first]
            view = view[last - first :]

    def _block(self, address: int, size_bytes: int) -> int | None:
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0 or size_bytes < 0:
            return None
        start = self._addresses[index]
        return start if address + size_bytes <= start + self._sizes[start] else None

    def _start(self, address: int, size_bytes: int) -> int:
        start = self._block(address, size_bytes)
        if start is None:
            raise ValueError(f"no block of the device holds {size_bytes} bytes at {address:#x}")
        return start


def _pieces(offset: int, size_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Cut a range of a block at its pages: number of the page, first and last offset in it."""
    end = offset + size_bytes
    while offset < end:
        number, first = divmod(offset, _PAGE_BYTES)
        last = min(_PAGE_BYTES, first + end - offset)
        yield number, first, last
        offset += last - first
