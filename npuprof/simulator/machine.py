"""The simulated machine: host, devices and profiler; and the current machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from npuprof.recordings.clock import Clock
from npuprof.simulator import clock as clocks
from npuprof.simulator.clock import EmulationClock
from npuprof.simulator.device import Device
from npuprof.simulator.host import Host, Semantics
from npuprof.simulator.marker import Marker
from npuprof.simulator.models import Model
from npuprof.simulator.profiler import NativeProfiler
from npuprof.simulator.subscriptions import Subscriptions


@dataclass
class Runtime:
    """State of the runtime calls: initialisation, context of each thread, host memory."""

    initialised: bool = False
    finalised: bool = False
    contexts: dict[int, int] = field(default_factory=dict)
    host_buffers: dict[int, object] = field(default_factory=dict)


class Simulator(Host):
    """A simulated host with `devices` NPUs.

    The other parameters are those of :class:`~npuprof.simulator.host.Host`.
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
        with_stack: bool = False,
    ) -> None:
        super().__init__(semantics=semantics, chip=chip, clock=clock, busy=busy, rank_id=rank_id, with_stack=with_stack)
        self.devices = tuple(Device(self, number) for number in range(devices))
        self.runtime = Runtime()
        self.models: dict[int, Model] = {}
        self.marker = Marker(self)
        self.profiler = NativeProfiler(self, self.devices)
        self.subscriptions = Subscriptions(self, self.profiler, self.models)

    def device(self, device_id: int = 0) -> Device:
        """Return a device by number."""
        return self.devices[device_id]

    def synchronize(self) -> None:
        """Wait for all tasks of the opened devices."""
        for device in self.opened:
            self.devices[device.device_id].synchronize()

    def after_fork(self) -> None:
        """Reset the machine in the child of a fork: the recording and the holder of the lock are the parent's."""
        self.lock = threading.RLock()
        if isinstance(self.clock, EmulationClock):
            self.clock.after_fork()
        self.profiler.after_fork()
        self.subscriptions = Subscriptions(self, self.profiler, self.models)


_of_process = Simulator()
_of_thread: ContextVar[Simulator | None] = ContextVar("npuprof_machine", default=None)


def current() -> Simulator:
    """Return the machine of this process, or of the simulated rank of the calling thread."""
    return _of_thread.get() or _of_process


emulated = clocks.emulated(lambda *_: current().clock)
"""Decorate a call that the current machine emulates, so that its clock stands still meanwhile."""


@contextmanager
def using(machine: Simulator) -> Iterator[Simulator]:
    """Make `machine` the current one of this thread (and asynchronous task) in the ``with`` block."""
    token = _of_thread.set(machine)
    try:
        yield machine
    finally:
        _of_thread.reset(token)


def configure(
    *,
    semantics: Semantics | None = None,
    chip: str | None = None,
    devices: int | None = None,
    clock: Clock | None = None,
    busy: bool | None = None,
) -> Simulator:
    """Change the simulated machine; omitted parameters keep their value.

    Setting a chip, a number of devices or a clock makes a fresh machine, without streams, memory or profiler state, and
    completes a running recording. `semantics` and `busy` change the existing machine.

    Returns
    -------
    Simulator
        The current machine.
    """
    before = _of_process
    semantics = before.semantics if semantics is None else semantics
    busy = before.busy if busy is None else busy
    if chip is None and devices is None and clock is None:
        before.semantics, before.busy = semantics, busy
        return before
    return _replace(
        Simulator(
            semantics=semantics,
            chip=before.chip_key if chip is None else chip,
            devices=len(before.devices) if devices is None else devices,
            clock=before.clock if clock is None else clock,
            busy=busy,
        )
    )


def reset() -> Simulator:
    """Replace the machine by one with default parameters."""
    return _replace(Simulator())


def _replace(machine: Simulator) -> Simulator:
    """Complete the recording of the current machine and replace the machine."""
    global _of_process
    _of_process.profiler.complete()
    _of_process = machine
    return machine


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _of_process.after_fork())
