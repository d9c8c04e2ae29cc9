"""The streams of one group on one device: what its operators run on, beside the streams that compute.

An operator is launched in two halves. The first tells when this rank could begin. When all ranks have told, the second
puts the tasks into the streams: they wait for the slowest rank, and then take what the plan says.
"""

from __future__ import annotations

from dataclasses import dataclass

from npuprof.simulator.communication import Collective, Step, call_duration_ns, steps_of
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import HostCall
from npuprof.simulator.streams import Event, Stream, Task

NOTIFY_NS = 100


@dataclass(frozen=True)
class Begun:
    """The first half of a launch: the call, its steps, and when all streams of this rank could begin."""

    call: HostCall
    steps: list[Step]
    ready_ns: int


class Channel:
    """The streams of a group, one for each plane, made when they are first needed.

    Parameters
    ----------
    device
        The device.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._planes: list[Stream] = []

    def begin(self, collective: Collective, after: Stream) -> Begun:
        """Take the call, and order what comes after what `after` holds so far."""
        while len(self._planes) < collective.plan.planes:
            self._planes.append(self._device.create_stream())
        arrived = Event()
        self._device.record_event(arrived, after)
        for plane in range(collective.plan.planes):
            self._device.wait_event(arrived, self._planes[plane])
        steps = steps_of(collective.plan, NOTIFY_NS)
        call = self._device.begin_communication(call_duration_ns(len(steps)))
        ready_ns = self._device.ready_ns(self._planes[: collective.plan.planes], call)
        # It tells the others first that it is ready, and to hear from them takes as long.
        return Begun(call, steps, ready_ns + 2 * NOTIFY_NS)

    def finish(self, begun: Begun, collective: Collective, start_ns: int) -> tuple[list[Task], Event]:
        """Put the tasks into the streams.

        Parameters
        ----------
        begun
            The first half.
        collective
            The operator.
        start_ns
            When the slowest rank is ready, on the clock that all of them share.

        Returns
        -------
        The tasks, and an event that happens when the operator has ended.
        """
        planes = self._planes[: collective.plan.planes]
        tasks = self._device.communicate(collective, begun.steps, planes, begun.call, start_ns)
        ended = Event()
        self._device.record_event(ended, planes[0])
        return tasks, ended

    def wait(self, ended: Event, stream: Stream) -> None:
        """Make a stream wait for the end of an operator."""
        self._device.wait_event(ended, stream)
