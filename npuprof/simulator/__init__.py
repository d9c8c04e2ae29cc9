"""The embedded NPU: a simulated device behind an ``acl`` that looks like pyACL, for machines without one.

Use
---
>>> from npuprof import simulator
>>> acl = simulator.acl                      # what ``import acl`` gives on a machine with an NPU
>>> simulator.configure(semantics="legacy")  # or chip=, devices=, clock=, busy=
>>> device = simulator.current().device(0)
>>> task = device.launch("Add", inputs=[simulator.Tensor((1024,), "float16")])
>>> device.synchronize()

Arrays that work like NumPy's are in :mod:`npuprof.simulator.npu`. Ordinary torch code runs on it in a ``with`` block:

>>> with simulator.torch():
...     loss.backward()

and several ranks, each in a thread with a device of its own, talk to each other and leave a recording each:

>>> simulator.ranks(8).run(lambda rank: rank.all_reduce(gradient), "runs")

Whatever it writes says that it is simulated (``"simulated": true`` in ``info.json``).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from npuprof.clock import Clock
from npuprof.simulator.device import Device
from npuprof.simulator.machine import Semantics, Simulator
from npuprof.simulator.streams import Event, Stream, Task
from npuprof.simulator.tensors import Tensor

if TYPE_CHECKING:
    from npuprof.simulator import acl
    from npuprof.simulator.cluster.ranks import Ranks as ranks  # noqa: N813 - called as a function is
    from npuprof.simulator.synthesis import synthesise
    from npuprof.simulator.torch_front import simulated_torch as torch

__all__ = [
    "Device",
    "Event",
    "Simulator",
    "Stream",
    "Task",
    "Tensor",
    "acl",
    "configure",
    "current",
    "ranks",
    "reset",
    "synthesise",
    "torch",
    "using",
]

_current = Simulator()


_of_thread: ContextVar[Simulator | None] = ContextVar("npuprof_machine", default=None)


def current() -> Simulator:
    """Give the simulated machine of this process, or of the simulated rank that the calling thread is."""
    return _of_thread.get() or _current


@contextmanager
def using(machine: Simulator) -> Iterator[Simulator]:
    """Let `machine` be the current one of this thread (and asynchronous task) in the ``with`` block."""
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
    """Change the simulated machine; what is not given stays as it is.

    A new chip, number of devices or clock makes a fresh machine, without streams, memory or profiler state.
    The other two take effect on the one there is.

    Returns
    -------
    Simulator
        The machine from now on, as :func:`current` gives it.
    """
    global _current
    before = _current
    semantics = before.semantics if semantics is None else semantics
    busy = before.busy if busy is None else busy
    if chip is None and devices is None and clock is None:
        before.semantics, before.busy = semantics, busy
        return before
    _discard(before)
    _current = Simulator(
        semantics=semantics,
        chip=before.chip_key if chip is None else chip,
        devices=len(before.devices) if devices is None else devices,
        clock=before.clock if clock is None else clock,
        busy=busy,
    )
    return _current


def reset() -> Simulator:
    """Start again from the defaults, as if the process had just begun."""
    global _current
    _discard(_current)
    _current = Simulator()
    return _current


def _discard(simulator: Simulator) -> None:
    """Complete what a machine that is given up still records."""
    simulator.profiler.complete()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _current.after_fork())


def __getattr__(name: str) -> Any:
    # Loaded when asked for: none of them is needed to import the package quickly.
    if name == "acl":
        return importlib.import_module("npuprof.simulator.acl")
    if name == "synthesise":
        return importlib.import_module("npuprof.simulator.synthesis").synthesise
    if name == "ranks":
        return importlib.import_module("npuprof.simulator.cluster.ranks").Ranks
    if name == "torch":
        return importlib.import_module("npuprof.simulator.torch_front").simulated_torch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
