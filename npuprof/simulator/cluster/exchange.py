"""Values exchanged by ranks (NumPy arrays, arrays of the simulated NPU, tensors of torch), and their rendezvous."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np

from npuprof.errors import NpuprofError
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.npu.streams import DeviceArray, wrap

ReduceOperator: TypeAlias = Literal["sum", "prod", "max", "min"]

_NUMPY: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
)
_TORCH: Mapping[str, str] = MappingProxyType({"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"})


def describe(value: Any) -> Tensor:
    """Return the shape and data type of an array or tensor; raise a TypeError for anything else."""
    if _is_tensor(value):
        return Tensor(tuple(value.shape), str(value.dtype).rpartition(".")[2])
    values = _values(value)
    return Tensor(values.shape, values.dtype.name)


def snapshot(value: Any) -> Any:
    """Return a copy of the values, as a plain NumPy array or tensor."""
    with _unseen(value):
        return value.detach().clone() if _is_tensor(value) else _values(value).copy()


def reduced(values: Sequence[Any], operator: ReduceOperator) -> Any:
    """Reduce values in rank order, so that every rank gets the same bits; raise a ValueError for another operator."""
    if operator not in _NUMPY:
        raise ValueError(f"ranks cannot reduce with {operator!r}: choose from {', '.join(_NUMPY)}")
    first = values[0]
    if _is_tensor(first):
        function = getattr(sys.modules["torch"], _TORCH[operator])
        with _unseen(first):
            return reduce(function, values)
    return reduce(_NUMPY[operator], values)


def part(value: Any, number: int, count: int) -> Any:
    """Return a copy of one of `count` equal parts along the first axis; raise a ValueError if it is not divisible."""
    shape = tuple(value.shape)
    if not shape or shape[0] % count:
        raise ValueError(f"an array of shape {shape} has no {count} equal parts along its first axis")
    length = shape[0] // count
    with _unseen(value):
        return snapshot(value[number * length : (number + 1) * length])


def store(target: Any, values: Any) -> None:
    """Copy plain values into an array or tensor of the same shape."""
    if _is_tensor(target):
        with _unseen(target), sys.modules["torch"].no_grad():
            target.copy_(values)
    else:
        np.copyto(_values(target), values)


def like(pattern: Any, values: Any) -> Any:
    """Return plain values in the array type of the pattern."""
    return wrap(pattern, values) if isinstance(pattern, DeviceArray) else values


def _values(value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    plain = value._values if isinstance(value, DeviceArray) else value
    if not isinstance(plain, np.ndarray):
        raise TypeError(
            f"ranks exchange NumPy arrays, arrays of the simulated NPU and tensors, not {type(value).__name__}"
        )
    return plain


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _unseen(value: Any) -> AbstractContextManager[Any]:
    """Disable the torch front, so that it records the collective and not its arithmetic."""
    if not _is_tensor(value):
        return nullcontext()
    return sys.modules["torch.utils._python_dispatch"]._disable_current_modes()


class RankError(NpuprofError, RuntimeError):
    """A simulated rank failed, or waits for a rank that cannot arrive."""


@dataclass
class _Meeting:
    expected: tuple[int, ...]
    offers: dict[int, Any] = field(default_factory=dict)
    fetched: int = 0

    @property
    def is_complete(self) -> bool:
        return len(self.offers) == len(self.expected)


class Exchange:
    """Rendezvous of ranks, each of which runs in its own thread."""

    def __init__(self, size: int) -> None:
        self._condition = threading.Condition()
        self._meetings: dict[Hashable, _Meeting] = {}
        self._waiting: dict[int, str] = {}
        self._running = set(range(size))
        self._failure = ""

    def meet(self, key: Hashable, rank: int, expected: Sequence[int], offer: Any, subject: str) -> list[Any]:
        """Offer a value; when the last expected rank has arrived, return the offers of all, in their order.

        `subject` names the rank's current call, for error messages.
        """
        with self._condition:
            meeting = self._meetings.setdefault(key, _Meeting(tuple(expected)))
            meeting.offers[rank] = offer
            self._waiting[rank] = subject
            if meeting.is_complete:
                for member in meeting.expected:
                    self._waiting.pop(member, None)
                self._condition.notify_all()
            self._look_for_deadlock()
            self._condition.wait_for(lambda: meeting.is_complete or self._failure)
            if not meeting.is_complete:
                raise RankError(self._failure)
            meeting.fetched += 1
            if meeting.fetched == len(meeting.expected):
                del self._meetings[key]
            return [meeting.offers[member] for member in meeting.expected]

    def leave(self, rank: int, failure: str = "") -> None:
        """Remove a rank; a failure ends the waits of all other ranks."""
        with self._condition:
            self._running.discard(rank)
            self._failure = self._failure or failure
            self._look_for_deadlock()
            self._condition.notify_all()

    def _look_for_deadlock(self) -> None:
        if self._running and not self._failure and self._running <= self._waiting.keys():
            calls = "; ".join(f"rank {rank} is in {self._waiting[rank]}" for rank in sorted(self._running))
            gone = "" if len(self._running) == len(self._waiting) else ", the other ranks have ended"
            self._failure = (
                f"no rank can go on: {calls}{gone}. All ranks of a group must call the same collectives in the same "
                "order, and each send needs its recv"
            )
            self._condition.notify_all()
