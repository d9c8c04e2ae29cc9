"""A witness of what the arrays launch, in place of the machine's recorder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from npuprof.simulator import Device, Simulator, Task
from npuprof.simulator.cost_model import Operator


class Launch(NamedTuple):
    """An operator and the task that runs it."""

    operator: Operator
    task: Task

    @property
    def types(self) -> tuple[list[str], list[str]]:
        """Data types of the inputs and of the outputs."""
        return [each.dtype for each in self.operator.inputs], [each.dtype for each in self.operator.outputs]

    @property
    def shapes(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Shapes of the inputs and of the outputs."""
        return [each.shape for each in self.operator.inputs], [each.shape for each in self.operator.outputs]


class Witness:
    """Notes launches, copies and calls, in order."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.copies: list[tuple[str, int]] = []
        self.copy_streams: list[int] = []
        self.calls: list[str] = []
        self.memory: list[int] = []

    @property
    def types(self) -> list[str]:
        """The operators' types; asking forgets what was noted before."""
        types = [launch.operator.op_type for launch in self.launches]
        self.clear()
        return types

    def clear(self) -> None:
        self.launches.clear()
        self.copies.clear()
        self.copy_streams.clear()
        self.calls.clear()
        self.memory.clear()

    # what the machine calls

    def operator_launched(self, device: Device, task: Task, operator: Operator, *_: Any) -> None:
        self.launches.append(Launch(operator, task))

    def copied(self, device: Device, tasks: tuple[Task, ...], kind: str, size_bytes: int, *_: Any) -> None:
        self.copies.append((kind, size_bytes))
        self.copy_streams.append(tasks[0].stream_id)

    def runtime_call(self, name: str, *_: Any) -> None:
        self.calls.append(name)

    def memory_changed(self, device: Device, address: int, size_bytes: int, *_: Any) -> None:
        self.memory.append(size_bytes)

    def event_recorded(self, *_: Any) -> None:
        self.calls.append("record")

    def event_awaited(self, *_: Any) -> None:
        self.calls.append("wait")

    def stream_destroyed(self, *_: Any) -> None:
        self.calls.append("destroy")

    def open_device(self, device: Device) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def seen(machine: Simulator) -> Witness:
    witness = Witness()
    machine.recorder = witness  # type: ignore[assignment]  # a double with the methods that are called
    return witness


@pytest.fixture
def host() -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(7).standard_normal((8, 16)).astype(np.float32)
