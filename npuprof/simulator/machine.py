"""The simulated machine of this process: its clock, its devices, and what is being recorded."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from npuprof.clock import Clock, SystemClock
from npuprof.simulator.chips import CHIPS
from npuprof.simulator.device import Device
from npuprof.simulator.handles import Handles
from npuprof.simulator.marker import Marker
from npuprof.simulator.models import Model
from npuprof.simulator.profiler import NativeProfiler
from npuprof.simulator.subscriptions import Subscriptions

if TYPE_CHECKING:
    from npuprof.simulator.recorder import Recorder


@dataclass
class Runtime:
    """What the runtime calls keep: states, the context of each thread, and memory of the host."""

    initialised: bool = False
    finalised: bool = False
    contexts: dict[int, int] = field(default_factory=dict)
    host_buffers: dict[int, object] = field(default_factory=dict)


Semantics: TypeAlias = Literal["current", "legacy"]


class Simulator:
    """One simulated host with its NPUs.

    Parameters
    ----------
    semantics
        How the profiling calls answer when they are repeated or come in the wrong order: ``current`` as the
        library of today does, ``legacy`` as older ones and their documentation do.
    chip
        A key of :data:`npuprof.simulator.chips.CHIPS`.
    devices
        How many NPUs there are.
    clock
        What the host's stamps come from and what synchronising waits on.
    busy
        Make every start of the profiler fail as if another process held it (100042).
    rank_id
        Its number among the processes that work together, -1 when it is alone.
    """

    def __init__(
        self,
        *,
        semantics: Semantics = "current",
        chip: str = "910B",
        devices: int = 1,
        clock: Clock | None = None,
        busy: bool = False,
        rank_id: int = -1,
    ) -> None:
        if chip not in CHIPS:
            raise ValueError(f"no chip {chip!r} is simulated: choose from {', '.join(CHIPS)}")
        self.lock = threading.RLock()
        self.clock: Clock = SystemClock() if clock is None else clock
        self.chip_key = chip
        self.chip = CHIPS[chip]
        self.semantics: Semantics = semantics
        self.busy = busy
        self.rank_id = rank_id
        self.recorder: Recorder | None = None
        self.handles = Handles()
        self.profiler = NativeProfiler(self)
        self.marker = Marker(self)
        self.runtime = Runtime()
        self.models: dict[int, Model] = {}
        self.subscriptions = Subscriptions(self)
        self._active: set[int] = set()
        self.devices = tuple(Device(self, number, self.chip) for number in range(devices))

    def device(self, device_id: int = 0) -> Device:
        """Give a device by number."""
        return self.devices[device_id]

    @property
    def active_devices(self) -> tuple[Device, ...]:
        """The devices that this process has opened, by setting or using them."""
        return tuple(self.devices[number] for number in sorted(self._active))

    def activate(self, device: Device) -> None:
        """Open a device for this process; a running recording takes it in."""
        if device.device_id in self._active:
            return
        with self.lock:
            self._active.add(device.device_id)
            if self.recorder is not None:
                self.recorder.open_device(device)

    def synchronize(self) -> None:
        """Wait until every opened device has run what it holds."""
        for device in self.active_devices:
            device.synchronize()

    def drain(self) -> None:
        """Wait until every device has run what it holds, as no call of the user's."""
        with self.lock:
            ends_ns = [device.ns_at(stream.end_tick) for device in self.devices for stream in device.streams]
        self.clock.sleep_until_ns(max(ends_ns, default=0))

    def after_fork(self) -> None:
        """Start anew in the child of a fork: the recording and whoever held the lock are the parent's."""
        self.lock = threading.RLock()
        self.profiler.after_fork()
        self.subscriptions = Subscriptions(self)
