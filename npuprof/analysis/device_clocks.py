"""The clock of each device beside that of its host: what causality shows of it, and tables on the host's clock.

Recorded times of a device may be a little too early or too late, so that kernels start before the calls that launched
them. Every analysis that joins host and device takes the device's times as :func:`on_host_clock` returns them; the
tables of a run keep what was recorded.

The least shift is taken that :mod:`npuprof.analysis.causality` allows. Where no single one does, the clock drifts, and
a line in time is taken; where that fails too, or the times are off by more than a second, nothing is guessed: host and
device cannot be joined. Times that are too late are seen only by calls that waited for the device: without any, they
cannot be told.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from npuprof.analysis.causality import LaunchedTasks, Waits, are_in_order, launches_of, waits_for
from npuprof.arrays import Bools, Int64
from npuprof.tables.info import DeviceClock
from npuprof.words.quantities import counted, duration

_MOST_SHIFT_NS = 1_000_000_000
_MOST_DELAY_NS = 10_000_000_000  # no queue of a stream is that deep during a whole run
_MOST_DRIFT_PPB = 500_000  # ten times what a poor crystal does
_FEW = 20  # launches or waits, of which none may contradict the others
_MAY_CONTRADICT = 1_000  # one of so many
_BEYOND = 10  # times the 95th percentile of early launches: not the same cause

_ON_DEVICE_CLOCK = ("tasks", "kernels", "communication", "communication_tasks", "overlap", "steps")


def device_clocks(tables: Mapping[str, pd.DataFrame]) -> list[DeviceClock]:
    """Return the clock of each device of a run that has launches to compare."""
    if not any(len(tables[name]) for name in ("tasks", "kernels", "communication")):
        return []  # of many small cells, this is what takes time
    launches = launches_of(tables)
    return [
        _clock(device, launches.taken(launches.device == device), waits_for(tables, launches, device))
        for device in np.unique(launches.device).tolist()
    ]


def _clock(device: int, launches: LaunchedTasks, waits: Waits) -> DeviceClock:
    early = launches.early_ns
    is_evidence = _are_evidence(launches, early)
    late = waits.spare_ns < 0
    clock = DeviceClock(
        device_id=device,
        launches=len(launches),
        early=int((early > 0).sum()),
        earliest_ns=int(max(early.max(), 0)),
        waits=len(waits.spare_ns),
        late=int(late.sum()),
        latest_ns=int(-waits.spare_ns.min(initial=0)),
        left_out=int((~is_evidence & (early > 0)).sum()),
    )
    kept, of_waits = np.flatnonzero(is_evidence), np.arange(len(waits.spare_ns))
    kept = kept[_without_extremes(early[kept])]
    of_waits = of_waits[_without_extremes(-waits.spare_ns)]
    bounds = _Bounds(launches.start_ns[kept], early[kept], waits.end_ns[of_waits], waits.spare_ns[of_waits])
    return _aligned(clock, bounds)


def _are_evidence(launches: LaunchedTasks, early: Int64) -> Bools:
    """Return which launches bound the clock: not those with a wrong link, by the order of their stream or by far."""
    if not (early > 0).any():
        return np.ones(len(early), bool)
    kept = are_in_order(launches)
    amounts = np.sort(early[kept & (early > 0)])
    if len(amounts):
        kept &= early // _BEYOND <= amounts[-(len(amounts) // 20) - 1]  # times may be zero
    return kept


def _without_extremes(amounts: Int64) -> Int64:
    """Return the positions of all amounts but the few largest, which may contradict the others."""
    if len(amounts) < _FEW:
        return np.arange(len(amounts))
    kept = len(amounts) - max(1, len(amounts) // _MAY_CONTRADICT)
    return np.argpartition(amounts, kept)[:kept]


class _Bounds:
    """Bounds of what is added to the device's times: at least `least` at some times, at most `most` at others."""

    def __init__(self, least_at: Int64, least: Int64, most_at: Int64, most: Int64) -> None:
        self.since_ns = int(min(least_at.min(initial=_NONE), most_at.min(initial=_NONE)))
        self.until_ns = int(max(least_at.max(initial=-_NONE), most_at.max(initial=-_NONE)))
        self.least_at, self.least = least_at - self.since_ns, least
        self.most_at, self.most = most_at - self.since_ns, most

    def of(self, drift_ppb: int) -> tuple[int, int | None]:
        """Return the bounds of the shift at `since_ns` for a drift; the second is None without waits."""
        least = int((self.least - _grown(self.least_at, drift_ppb)).max(initial=-_NONE))
        most = int((self.most - _grown(self.most_at, drift_ppb)).min(initial=_NONE))
        return least, most if len(self.most) else None

    def room(self, drift_ppb: int) -> int:
        """Return how far apart the bounds are for a drift; negative if they cross."""
        least, most = self.of(drift_ppb)
        return _NONE if most is None else most - least

    def drift_ppb(self) -> int | None:
        """Return the least drift for which the bounds do not cross; None if there is none."""
        low, high = -_MOST_DRIFT_PPB, _MOST_DRIFT_PPB
        while high - low > 2:  # the room has one maximum
            third = (high - low) // 3
            low, high = (low + third, high) if self.room(low + third) < self.room(high - third) else (low, high - third)
        widest = max(range(low, high + 1), key=self.room)
        if self.room(widest) < 0:
            return None
        crossed, free = 0, widest
        while abs(free - crossed) > 1:
            middle = (free + crossed) // 2
            crossed, free = (middle, free) if self.room(middle) < 0 else (crossed, middle)
        return free


_NONE = 1 << 62


def _aligned(clock: DeviceClock, bounds: _Bounds) -> DeviceClock:
    """Return the clock with the least shift that the bounds allow."""
    drift = 0 if bounds.room(0) >= 0 else bounds.drift_ppb()
    if drift is None:
        # Launches are named by links, and waits only inferred: where launches alone need no shift, none is needed.
        least, most = bounds.of(0)
        crossed = replace(clock, least_ns=least, most_ns=most)
        return crossed if least <= 0 else replace(crossed, joined=False)
    least, most = bounds.of(drift)
    shift = least if least > 0 else 0 if most is None else min(most, 0)
    last = shift + int(_grown(np.array([bounds.until_ns - bounds.since_ns]), drift)[0])
    moved = replace(clock, shift_ns=shift, drift_ppb=drift, since_ns=bounds.since_ns, least_ns=least, most_ns=most)
    far = max(abs(shift), abs(last)) > _MOST_SHIFT_NS or least < -_MOST_DELAY_NS
    return replace(moved, shift_ns=0, drift_ppb=0, joined=False) if far else moved


def _grown(elapsed_ns: Int64, drift_ppb: int) -> Int64:
    """Return the drift after some time; the product of nanoseconds would not fit 64 bits after hours."""
    return elapsed_ns // 1_000 * drift_ppb // 1_000_000


def to_host(clock: DeviceClock, times_ns: Int64) -> Int64:
    """Return times of the device on the host's clock."""
    moved: Int64 = times_ns + clock.shift_ns
    return moved + _grown(times_ns - clock.since_ns, clock.drift_ppb) if clock.drift_ppb else moved


def to_device(clock: DeviceClock, times_ns: Int64) -> Int64:
    """Return times of the host's clock as the device recorded them, with a drift to within a few nanoseconds."""
    moved: Int64 = times_ns - clock.shift_ns
    for _ in range(2 if clock.drift_ppb else 0):  # the drift is that of the device's time, which is not known yet
        moved = times_ns - clock.shift_ns - _grown(moved - clock.since_ns, clock.drift_ppb)
    return moved


def on_host_clock(tables: Mapping[str, pd.DataFrame], clocks: Collection[DeviceClock]) -> Mapping[str, pd.DataFrame]:
    """Return the tables with the times of devices on the host's clock; the same tables where nothing has to be moved.

    Durations change with a drift, as the distance of their ends does. Tables without device times are shared.
    """
    moving = [clock for clock in clocks if clock.shift_ns or clock.drift_ppb]
    if not moving:
        return tables
    moved = dict(tables)
    for name in _ON_DEVICE_CLOCK:
        if "device_id" in moved[name] and len(moved[name]):  # steps have a device only where it recorded them
            moved[name] = _moved(moved[name], moving)
    return moved


def _moved(frame: pd.DataFrame, clocks: Collection[DeviceClock]) -> pd.DataFrame:
    starts, lengths = (frame[name].to_numpy(np.int64, copy=True) for name in ("start_ns", "duration_ns"))
    devices = frame["device_id"].to_numpy(np.int64, na_value=-1)
    for clock in clocks:
        rows = devices == clock.device_id
        begin, end = (to_host(clock, moments) for moments in (starts[rows], starts[rows] + lengths[rows]))
        starts[rows], lengths[rows] = begin, end - begin
    columns = {"start_ns": starts, "duration_ns": lengths}
    return frame.assign(**columns)


def apart(clocks: Collection[DeviceClock]) -> frozenset[int]:
    """Return the devices whose times cannot be joined with those of the host."""
    return frozenset(clock.device_id for clock in clocks if not clock.joined)


def clock_text(clock: DeviceClock) -> str:
    """Return what is wrong with the clock of a device, and what follows from it; empty if nothing is."""
    on, tasks = f"of device {clock.device_id}", counted(clock.launches, "task")
    early = f"{clock.early:,} of {tasks} {on} start before the calls that launched them, by up to"
    if clock.early == 1:
        early = f"1 of {tasks} {on} starts before the call that launched it, by"
    early = f"{early} {duration(clock.earliest_ns)}"
    waits = f"{counted(clock.waits, 'call')} that waited for device {clock.device_id}"
    late = f"{clock.late:,} of {waits} {'returns' if clock.late == 1 else 'return'} before its tasks end, by up to"
    late = f"{late} {duration(clock.latest_ns)}"
    seen = ", and ".join([early] * bool(clock.early) + [late] * bool(clock.late))
    if not clock.joined:
        delayed = f"every task of device {clock.device_id} starts {duration(-(clock.least_ns or 0))} after its launch"
        return (
            f"device and host times cannot be joined: {seen or delayed}. Kernels belong to the step that launched "
            "them; launch delays and causes of idle time are unknown"
        )
    if clock.left_out:
        seen += f", of which {clock.left_out:,} do not count: their links contradict the order of their stream"
    if clock.shift_ns or clock.drift_ppb:
        return f"{seen}. {_correction(clock)}; tables keep the recorded times"
    return f"{seen}. These are too few to move the times of the device" if clock.early else ""


def _correction(clock: DeviceClock) -> str:
    verb, preposition = ("add", "to") if clock.shift_ns >= 0 else ("subtract", "from")
    text = f"Analyses {verb} {duration(abs(clock.shift_ns))} {preposition} the device's times"
    if not clock.drift_ppb:
        return text
    same = (clock.drift_ppb > 0) == (clock.shift_ns >= 0)
    return f"{text}, and {duration(abs(clock.drift_ppb))} {'more' if same else 'less'} each second"
