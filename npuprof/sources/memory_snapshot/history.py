"""The tables ``allocations`` and ``memory`` of a snapshot: its blocks, and the allocator's history before it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.lines.frames import Frame
from npuprof.sources.allocator_totals import note_reused
from npuprof.tables.notes import Notes

_MAX_ROWS = 5_000_000  # lists of a pickle may share elements, so that a few bytes can expand to very many rows
_MAX_FRAMES = 200
_MAX_DEVICES = 1 << 12
_MAX_WHOLE = 1 << 62
_MAX_ADDRESS = 1 << 64  # the upper half is the kernel's, or of a driver with unified addresses
_MAX_SIZE = 1 << 40  # the sum over all blocks then fits an int64
_LONGEST = 1_000
_PYTHON = (".py", ">")
_ACTIVE = ("active_allocated", "active_awaiting_free", "active_pending_free")
_ALLOCATED, _FREED, _FREE, _GROWN, _SHRUNK = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
)
_GROWS = {_GROWN: 1, "segment_map": 1, _SHRUNK: -1, "segment_unmap": -1}
_NO_SIZE = ("oom", "snapshot", "workspace_snapshot")
_COMPONENT = "PTA"
_LATEST_US = (1 << 63) // 1000


@dataclass
class History:
    """The tables of a snapshot, and their counts."""

    tables: dict[str, pd.DataFrame]
    devices: list[int]
    started_ns: int | None
    stopped_ns: int | None
    has_history: bool


class _Moment(NamedTuple):
    """A place in a device's history: the number of the entry, and its time; None if absent."""

    sequence: int | None = None
    time_ns: int | None = None


_UNKNOWN = _Moment()


@dataclass
class _Blocks:
    """Blocks as columns."""

    name: list[str] = field(default_factory=list)
    stack: list[str | None] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    allocated: list[_Moment] = field(default_factory=list)
    released: list[_Moment] = field(default_factory=list)
    device: list[int] = field(default_factory=list)
    address: list[int] = field(default_factory=list)

    def add(self, size: int, stack: str, device: int, address: int, allocated: _Moment, released: _Moment) -> int:
        self.name.append(_name(stack))
        self.stack.append(stack or None)
        self.size.append(size)
        self.allocated.append(allocated)
        self.released.append(released)
        self.device.append(device)
        self.address.append(address if address < _MAX_ADDRESS // 2 else address - _MAX_ADDRESS)
        return len(self.size) - 1


class _Stacks:
    """Texts of stacks, each built once: blocks and entries share their lists of frames."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def text(self, frames: Any) -> str:
        if not isinstance(frames, list):
            return ""
        if id(frames) not in self._known:  # the whole snapshot stays in memory until it is read
            parts = (_frame(frame) for frame in frames[:_MAX_FRAMES])
            self._known[id(frames)] = "\n".join(filter(None, parts))
        return self._known[id(frames)]


class _Samples:
    """The memory change of each history entry, in the order of the history."""

    def __init__(self) -> None:
        self.moments: dict[int, list[_Moment]] = {}
        self.rows: dict[int, list[tuple[int, int, int]]] = {}  # per device: allocated, reserved, active
        self.below_zero = 0

    def add(self, device: int, moment: _Moment, allocated: int = 0, reserved: int = 0, active: int = 0) -> None:
        self.moments.setdefault(device, []).append(moment)
        self.rows.setdefault(device, []).append((allocated, reserved, active))

    def table(self, ends: dict[int, tuple[int, int, int]]) -> pd.DataFrame:
        """Build the table ``memory``: the sizes at the end, minus the changes after each entry."""
        names = ("allocated_bytes", "reserved_bytes", "active_bytes")
        columns: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in ("device_id", *names)}
        for device, rows in self.rows.items():
            samples = np.array(rows, np.int64)
            levels = np.array(ends.get(device, (0, 0, 0))) - samples.sum(axis=0) + np.cumsum(samples, axis=0)
            columns["device_id"].append(np.full(len(samples), device))
            self.below_zero += int(np.count_nonzero((levels < 0).any(axis=1)))
            for place, name in enumerate(names):
                columns[name].append(np.maximum(levels[:, place], 0))
        if not self.rows:
            return schema.empty("memory")
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        component = schema.categorical(np.zeros(len(joined["device_id"]), np.int8), [_COMPONENT])
        moments = [moment for device in self.rows for moment in self.moments[device]]
        times, numbers = (pd.array([moment[at] for moment in moments], "Int64") for at in (1, 0))
        frame = schema.build("memory", {"time_ns": times, **joined, "component": component, "sequence": numbers})
        return frame if frame["time_ns"].isna().any() else schema.sort_by_time(frame)


class _History:
    """Converter of a snapshot: the rows read so far."""

    def __init__(self, notes: Notes, source: str) -> None:
        self.notes, self.source = notes, source
        self.blocks, self.samples, self.stacks = _Blocks(), _Samples(), _Stacks()
        self.alive: dict[tuple[int, int], int] = {}
        self.awaited: set[tuple[int, int]] = set()
        self.rows = self.timeless = self.reused = 0

    def take(self, given: Any) -> list[Any]:
        """Return the elements of a list up to the limit of rows, and register them."""
        elements: list[Any] = given if isinstance(given, list) else []
        taken = elements[: max(0, _MAX_ROWS - self.rows)]
        self.rows += len(taken)
        self.notes.ledger.read(self.source, len(elements))
        more = len(elements) - len(taken)
        self.notes.leave_out(self.source, f"an element is beyond the {_MAX_ROWS:,} that are read", more)
        return taken

    def read_entry(self, device: int, number: int, entry: Any) -> str:
        """Read a history entry; return its outcome: ``kept``, ``used``, or the reason why it is left out.

        Entries are in the order in which they happened, so that one without a time still has its place.
        """
        if not isinstance(entry, dict) or not isinstance(action := entry.get("action"), str):
            return "an entry is no action of the allocator"
        size, address, time_us = _size(entry.get("size")), _address(entry.get("addr")), _whole(entry.get("time_us"))
        if action in _NO_SIZE:
            return "used"
        if size is None or address is None:
            return "an entry has no readable size or address"
        self.timeless += (timeless := time_us is None or time_us > _LATEST_US)
        moment, key = _Moment(number, None if timeless or time_us is None else time_us * 1000), (device, address)
        if action in _GROWS:
            self.samples.add(device, moment, reserved=_GROWS[action] * size)
        elif action == _ALLOCATED:
            more = size
            if (before := self.alive.get(key)) is not None:  # its release is missing
                self.reused += 1
                self.blocks.released[before] = moment
                more -= self.blocks.size[before]
            stack = self.stacks.text(entry.get("frames"))
            self.alive[key] = self.blocks.add(size, stack, *key, moment, _UNKNOWN)
            self.samples.add(device, moment, allocated=more, active=more)
            return "kept"
        elif action == _FREE and key in self.awaited:
            self.awaited.discard(key)
            self.samples.add(device, moment, active=-size)
        elif action in (_FREED, _FREE):
            self.samples.add(device, moment, allocated=-size, active=-size * (action == _FREE))
            if action == _FREED:
                self.awaited.add(key)
            if key not in self.alive:
                self.blocks.add(size, "", *key, _UNKNOWN, moment)
                return "kept"
            self.blocks.released[self.alive.pop(key)] = moment
        else:
            return f"an entry has the unknown action {action[:40]!r}"
        return "used"

    def read_segment(self, segment: Any) -> None:
        """Read the blocks of a segment at the time of the snapshot."""
        if not isinstance(segment, dict) or not isinstance(segment.get("blocks"), list):
            self.notes.warning(self.source, "a segment has no readable blocks: allocations are missing")
            return
        device, address = _whole(segment.get("device")) or 0, _address(segment.get("address")) or 0
        outcomes: Counter[str] = Counter()
        for block in self.take(segment.get("blocks")):
            size = _size(block.get("size")) if isinstance(block, dict) else None
            if size is None:
                outcomes["a block has no readable size"] += 1
                continue
            at = _address(block.get("address"))
            key = device, address if at is None else at
            address = key[1] + size
            state = block.get("state")
            if not isinstance(state, str) or not state.startswith(("active", "inactive")):
                outcomes["a block has no known state"] += 1
                continue
            if state not in _ACTIVE or key in self.alive:
                outcomes["used"] += 1
                continue
            self.blocks.add(size, self.stacks.text(_frames_of(block)), *key, _UNKNOWN, _UNKNOWN)
            outcomes["kept"] += 1
        self.account(outcomes)

    def account(self, outcomes: Counter[str]) -> None:
        """Register elements in the ledger by their outcome."""
        self.notes.ledger.keep(self.source, "allocations", outcomes.pop("kept", 0))
        self.notes.ledger.use(self.source, outcomes.pop("used", 0))
        for reason, count in outcomes.items():
            self.notes.leave_out(self.source, reason, count, affects=("memory", "allocations"))


def read_history(segments: list[Any], traces: list[Any], notes: Notes, source: str) -> History:
    """Build the tables of a snapshot.

    A block whose allocation is not in the history is older: it has neither ``allocated_ns`` nor
    ``allocated_sequence``, the number of its entry in the history of its device. Entries of older versions of torch
    have no times; ``sequence`` orders all.
    Column ``stack`` of ``allocations`` is its Python stack, the innermost frame first.
    """
    read = _History(notes, source)
    for device, trace in enumerate(traces[:_MAX_DEVICES]):
        entries = enumerate(read.take(trace))
        read.account(Counter(read.read_entry(device, number, entry) for number, entry in entries))
    for segment in segments[:_MAX_ROWS]:
        read.read_segment(segment)
    memory = read.samples.table(_sizes(segments[:_MAX_ROWS]))
    notes.ledger.make(source, "memory", len(memory))
    if read.timeless:
        notes.warning(
            source,
            "an entry of the history has no time, as in older versions of torch: its place in the history is kept in "
            "the column sequence, over which memory is drawn",
            read.timeless,
        )
    note_reused(read.reused, notes, source)
    if read.samples.below_zero:
        notes.warning(
            source,
            "by the sizes at the end and the entries after it, less than nothing was in use; taken as 0: entries of "
            "the history are missing, and the memory peak may be another",
            read.samples.below_zero,
            lacks=("memory", "allocations"),
        )
    times = memory["time_ns"].dropna()
    devices = {*read.blocks.device, *memory["device_id"].dropna().tolist()}
    return History(
        {"allocations": _allocations(read.blocks), "memory": memory},
        sorted(int(device) for device in devices),
        int(times.min()) if len(times) else None,
        int(times.max()) if len(times) else None,
        has_history=any(isinstance(trace, list) and len(trace) for trace in traces),
    )


def _sizes(segments: list[Any]) -> dict[int, tuple[int, int, int]]:
    """Return the allocated, reserved and active bytes of each device at the time of the snapshot."""
    sizes: dict[int, tuple[int, int, int]] = {}
    for segment in segments:
        if isinstance(segment, dict):
            device = _whole(segment.get("device")) or 0
            added = [_size(segment.get(name)) or 0 for name in ("allocated_size", "total_size", "active_size")]
            allocated, reserved, active = sizes.get(device, (0, 0, 0))
            sizes[device] = allocated + added[0], reserved + added[1], active + added[2]
    return sizes


def _allocations(blocks: _Blocks) -> pd.DataFrame:
    columns = {
        "name": blocks.name,
        "size_bytes": np.array(blocks.size, np.int64),
        "allocated_ns": pd.array([moment.time_ns for moment in blocks.allocated], "Int64"),
        "released_ns": pd.array([moment.time_ns for moment in blocks.released], "Int64"),
        "device_id": np.array(blocks.device, np.int64),
        "stack": pd.Categorical(blocks.stack),
        "address": np.array(blocks.address, np.int64),
        "allocated_sequence": pd.array([moment.sequence for moment in blocks.allocated], "Int64"),
        "released_sequence": pd.array([moment.sequence for moment in blocks.released], "Int64"),
    }
    return schema.build("allocations", columns)


def _whole(value: Any) -> int | None:
    """Return a size, address or time; None for any other value."""
    return value if type(value) is int and 0 <= value < _MAX_WHOLE else None


def _address(value: Any) -> int | None:
    """Return an address, which some versions write as a signed number; None for any other value."""
    return value % _MAX_ADDRESS if type(value) is int and -_MAX_ADDRESS // 2 <= value < _MAX_ADDRESS else None


def _size(value: Any) -> int | None:
    whole = _whole(value)
    return whole if whole is not None and whole <= _MAX_SIZE else None


def _frames_of(block: Any) -> Any:
    history = block.get("history")
    first = history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else {}
    return block.get("frames") or first.get("frames")


def _frame(frame: Any) -> str:
    """Return a frame in the form of operator stacks, ``main.py(7): train``; empty for a frame outside Python."""
    if not isinstance(frame, dict):
        return ""
    file, line, function = frame.get("filename"), _whole(frame.get("line")), frame.get("name")
    if not isinstance(file, str) or not isinstance(function, str) or not line or not file.endswith(_PYTHON):
        return ""
    return f"{file[:_LONGEST]}({line % 10**9}): {function[:_LONGEST]}".replace("\n", " ")


def _name(stack: str) -> str:
    """Return the name of a block: the user function that allocated it, else the innermost function."""
    frames = [frame for text in stack.split("\n") if (frame := Frame.parse(text))]
    return next((frame for frame in frames if frame.is_users), frames[0]).function if frames else "no stack"
