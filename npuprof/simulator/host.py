"""The host of a simulated machine: its clock, its calls, the devices it has opened, and the running recording."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from npuprof.lines import call_stacks
from npuprof.recordings.clock import Clock
from npuprof.simulator.clock import PROCESS_CLOCK, wait_past_ns
from npuprof.simulator.cost_model import CHIPS
from npuprof.simulator.device_view import DeviceView, HostCall
from npuprof.simulator.framework import Block, OperatorCall

if TYPE_CHECKING:
    from npuprof.simulator.recorder import Recorder


_T = TypeVar("_T")
_FIRST = 0x5500_0000_0000
_STEP = 0x40


class Handles:
    """Objects by handle: the integers that pyACL returns for configurations, streams, events ...; 0 means failure."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}
        self._numbers = itertools.count(_FIRST + _STEP, _STEP)

    def add(self, value: object) -> int:
        """Register an object and return its handle."""
        handle = next(self._numbers)
        self._objects[handle] = value
        return handle

    def get(self, handle: int, kind: type[_T]) -> _T | None:
        """Return the object of a handle, or ``None`` if it is of another kind."""
        value = self._objects.get(handle)
        return value if isinstance(value, kind) else None

    def remove(self, handle: int, kind: type[_T]) -> _T | None:
        """Remove a handle and return its object."""
        value = self.get(handle, kind)
        if value is not None:
            del self._objects[handle]
        return value


Semantics: TypeAlias = Literal["current", "legacy"]


class Host:
    """The state that the devices and the profiler of one machine share.

    Parameters
    ----------
    semantics
        Results of repeated or misplaced profiling calls: ``current`` for those of today's library, ``legacy`` for those
        of older ones and their documentation.
    chip
        A key of :data:`npuprof.simulator.cost_model.CHIPS`.
    clock
        The source of the host's timestamps, by default the clock of this process, which leaves emulation time out.
    busy
        Make every start of the profiler fail as if another process held it (100042).
    rank_id
        The rank of this process, -1 for a single one.
    with_stack
        Whether calls of array functions are recorded, as those of a framework's operators, with the user's line.
    """

    def __init__(
        self, *, semantics: Semantics, chip: str, clock: Clock | None, busy: bool, rank_id: int, with_stack: bool
    ) -> None:
        if chip not in CHIPS:
            raise ValueError(f"no chip {chip!r} is simulated: choose from {', '.join(CHIPS)}")
        self.lock = threading.RLock()
        self.clock: Clock = PROCESS_CLOCK if clock is None else clock
        self.chip_key = chip
        self.chip = CHIPS[chip]
        self.semantics: Semantics = semantics
        self.busy = busy
        self.rank_id = rank_id
        self.with_stack = with_stack
        self.recorder: Recorder | None = None
        self.handles = Handles()
        self._opened: dict[int, DeviceView] = {}

    @property
    def opened(self) -> tuple[DeviceView, ...]:
        """The devices that this process has set or used, by number."""
        return tuple(self._opened[number] for number in sorted(self._opened))

    def activate(self, device: DeviceView) -> None:
        """Open a device for this process and the running recording."""
        if device.device_id in self._opened:
            return
        with self.lock:
            self._opened[device.device_id] = device
            if self.recorder is not None:
                self.recorder.open_device(device)

    # -- calls ---------------------------------------------------------------------------------------------

    def call_now(self) -> HostCall:
        """Begin a call of this thread that takes as long as a launch."""
        begin_ns = self.clock.monotonic_raw_ns()
        call_stacks.take(begin_ns)
        return HostCall(threading.get_native_id(), begin_ns, begin_ns + self.chip.launch_host_ns)

    def end_call(self, call: HostCall) -> None:
        """Wait until the call has ended, so that two calls of a thread never touch; usually it has ended already."""
        wait_past_ns(self.clock, call.end_ns)

    # -- frameworks ----------------------------------------------------------------------------------------

    @property
    def takes_calls(self) -> bool:
        """Whether calls of framework operators are recorded."""
        return self.recorder is not None and self.recorder.takes_framework

    def record_call(self, call: OperatorCall) -> None:
        """Record a call of a framework operator."""
        with self.lock:
            if self.recorder is not None:
                self.recorder.operator_called(call)

    def record_block(self, block: Block) -> None:
        """Record an allocation or release of a framework's allocator."""
        with self.lock:
            if self.recorder is not None:
                self.recorder.block_changed(block)
