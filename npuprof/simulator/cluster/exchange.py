"""What ranks exchange (NumPy arrays, arrays of the simulated NPU, tensors of torch), and where they meet."""

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
    """Describe an array or tensor.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if _is_tensor(value):
        return Tensor(tuple(value.shape), str(value.dtype).rpartition(".")[2])
    values = _values(value)
    return Tensor(values.shape, values.dtype.name)


def snapshot(value: Any) -> Any:
    """Copy the values, as plain NumPy array or tensor, so that their owner may change them."""
    with _unseen(value):
        return value.detach().clone() if _is_tensor(value) else _values(value).copy()


def reduced(values: Sequence[Any], operator: ReduceOperator) -> Any:
    """Put values together one by one, in their order, so that every rank gets the same bits.

    Raises
    ------
    ValueError
        If there is no such operator.
    """
    if operator not in _NUMPY:
        raise ValueError(f"ranks cannot reduce with {operator!r}: choose from {', '.join(_NUMPY)}")
    first = values[0]
    if _is_tensor(first):
        function = getattr(sys.modules["torch"], _TORCH[operator])
        with _unseen(first):
            return reduce(function, values)
    return reduce(_NUMPY[operator], values)


def part(value: Any, number: int, count: int) -> Any:
    """Return one of `count` equal parts along the first axis, as plain values of its own.

    Raises
    ------
    ValueError
        If the axis cannot be divided evenly.
    """
    shape = tuple(value.shape)
    if not shape or shape[0] % count:
        raise ValueError(f"an array of shape {shape} has no {count} equal parts along its first axis")
    length = shape[0] // count
    with _unseen(value):
        return snapshot(value[number * length : (number + 1) * length])


def store(target: Any, values: Any) -> None:
    """Replace the values of an array or tensor of the same shape by plain ones."""
    if _is_tensor(target):
        with _unseen(target), sys.modules["torch"].no_grad():
            target.copy_(values)
    else:
        np.copyto(_values(target), values)


def like(pattern: Any, values: Any) -> Any:
    """Return plain values as what the caller works with: an array of the NPU where the pattern is one."""
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
    """Keep what is done with tensors from the simulated device: the collective is what it runs."""
    if not _is_tensor(value):
        return nullcontext()
    manager: AbstractContextManager[Any] = sys.modules["torch.utils._python_dispatch"]._disable_current_modes()
    return manager


class RankError(NpuprofError, RuntimeError):
    """A simulated rank failed, or waits for another one that will not come."""


@dataclass
class _Meeting:
    expected: tuple[int, ...]
    offers: dict[int, Any] = field(default_factory=dict)
    fetched: int = 0

    @property
    def is_complete(self) -> bool:
        return len(self.offers) == len(self.expected)


class Exchange:
    """The meetings of some ranks, each in a thread of its own.

    Parameters
    ----------
    size
        How many ranks there are.
    """

    def __init__(self, size: int) -> None:
        self._condition = threading.Condition()
        self._meetings: dict[Hashable, _Meeting] = {}
        self._waiting: dict[int, str] = {}
        self._running = set(range(size))
        self._failure = ""

    def meet(self, key: Hashable, rank: int, expected: Sequence[int], offer: Any, what: str) -> list[Any]:
        """Wait for all that are expected; gives their offers in the order of `expected`.

        Parameters
        ----------
        key
            Which meeting it is, the same for all of them.
        rank
            Who comes.
        expected
            Who must come.
        offer
            What the others get.
        what
            What the rank is doing, for messages.

        Raises
        ------
        RankError
            If a rank has failed, or every rank that still runs waits for one that cannot come.
        """
        with self._condition:
            meeting = self._meetings.setdefault(key, _Meeting(tuple(expected)))
            meeting.offers[rank] = offer
            self._waiting[rank] = what
            if meeting.is_complete:
                for one in meeting.expected:
                    self._waiting.pop(one, None)
                self._condition.notify_all()
            self._look_for_deadlock()
            self._condition.wait_for(lambda: meeting.is_complete or self._failure)
            if not meeting.is_complete:
                raise RankError(self._failure)
            meeting.fetched += 1
            if meeting.fetched == len(meeting.expected):
                del self._meetings[key]
            return [meeting.offers[one] for one in meeting.expected]

    def leave(self, rank: int, failure: str = "") -> None:
        """Note that a rank comes no more; a failure ends the waiting of all others."""
        with self._condition:
            self._running.discard(rank)
            self._failure = self._failure or failure
            self._look_for_deadlock()
            self._condition.notify_all()

    def _look_for_deadlock(self) -> None:
        if self._running and not self._failure and self._running <= self._waiting.keys():
            told = "; ".join(f"rank {rank} is in {self._waiting[rank]}" for rank in sorted(self._running))
            gone = "" if len(self._running) == len(self._waiting) else ", the others have ended"
            self._failure = (
                f"no rank can go on: {told}{gone}. All ranks of a group must call the same collectives in the same "
                "order, and each send needs its recv"
            )
            self._condition.notify_all()
