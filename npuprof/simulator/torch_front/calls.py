"""Calls of a framework's operators while they are open, and the nodes of autograd around those of a backward pass."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from npuprof.simulator.framework import OperatorCall
from npuprof.simulator.host import Host

_NODE = "autograd::engine::evaluate_function: "


class Node(NamedTuple):
    """A node of autograd's graph that is being evaluated: its name, and its sequence number (-1 for none)."""

    name: str
    sequence: int


@dataclass
class _OpenNode:
    node: Node
    graph_task: int
    begin_ns: int
    calls: list[OperatorCall] = field(default_factory=list)


class Calls:
    """The calls of one thread.

    Parameters
    ----------
    host
        The host of the device that they launch on: its clock gives the time, its recorder takes the calls.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._thread_id = threading.get_native_id()
        self._sequence = 0
        self._node: _OpenNode | None = None
        self._ranges: list[tuple[str, int]] = []

    def sees(self, sequence: int) -> int:
        """Return the number of the node that a call has just made, by the counter after it; -1 where it made none."""
        made = sequence - 1 if sequence > self._sequence else -1
        self._sequence = sequence
        return made

    def starts_at(self, sequence: int) -> None:
        """Begin with the counter of autograd's nodes at `sequence`."""
        self._sequence = sequence

    def inside(self, node: Node | None, graph_task: int, begin_ns: int) -> None:
        """Be inside a node of the backward pass, or in none, from a moment on."""
        known = self._node
        if known is not None and (node != known.node or graph_task != known.graph_task):
            self.close_node()
            known = None
        if node is not None and known is None:
            self._node = _OpenNode(node, graph_task, begin_ns)

    def called(self, call: OperatorCall) -> None:
        """Take a call that has ended."""
        if self._node is None:
            self._host.record_call(call)
        else:  # the number belongs to the node then
            self._node.calls.append(call._replace(sequence=-1))

    def close_node(self) -> None:
        """End the node that is open: autograd tells when it comes to the next one."""
        known, self._node = self._node, None
        if known is None or not known.calls:
            return
        span = (self._thread_id, known.begin_ns, max(call.end_ns for call in known.calls))
        self._host.record_call(OperatorCall(_NODE + known.node.name, *span))
        if known.node.sequence >= 0:
            self._host.record_call(OperatorCall(known.node.name, *span, known.node.sequence, self._thread_id))
        # After what is around them: rows with equal times stay in this order.
        for call in known.calls:
            self._host.record_call(call)

    def open_range(self, name: str) -> None:
        """Open a range of the user's or of an optimizer's."""
        self.close_node()
        self._ranges.append((name, self._host.clock.monotonic_raw_ns()))

    def close_range(self) -> None:
        """Close the newest range; one that was open before the context is none of its."""
        self.close_node()
        if self._ranges:
            name, begin_ns = self._ranges.pop()
            self._host.record_call(OperatorCall(name, self._thread_id, begin_ns, self._host.clock.monotonic_raw_ns()))
