"""Runs of a made-up machine: one thread of Python, perhaps a queue that launches for it, and streams of kernels.

The machine takes one event after the other and knows nothing of replays. A change is made to its program, which it then
runs anew: what a replay of the first recording predicts has to be what the second one shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

MAIN, QUEUE, AUTOGRAD = 100, 101, 102
ON_CPU = ("Unique",)
"""Kernels that run on the AI CPU."""


@dataclass(frozen=True)
class Do:
    """One thing that the program does: its name, the host's time, and the device's."""

    what: Literal["operator", "compile", "launch", "copy", "sync", "backward", "python"]
    name: str = ""
    host: int = 0
    device: int = 0
    stream: int = 2
    inner: tuple[Do, ...] = ()


@dataclass
class _Rows:
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **row: Any) -> int:
        self.rows.append(row)
        return len(self.rows) - 1


class Machine:
    """Runs programs, and records what it does."""

    def __init__(self, *, queue: bool = False, latency: int = 0) -> None:
        self.queue, self.latency = queue, latency
        self.now = dict.fromkeys((MAIN, QUEUE, AUTOGRAD), factories.START_NS)
        self.free: dict[int, int] = {}
        self.rows = {name: _Rows() for name in ("operators", "api", "kernels", "tasks", "links", "steps")}

    def run(self, steps: Sequence[Sequence[Do]]) -> Profile:
        """Run the steps one after the other, and return what was recorded."""
        for number, program in enumerate(steps):
            begin = self.now[MAIN]
            for one in program:
                self._do(one, MAIN)
            self.rows["steps"].add(step=number, start_ns=begin, duration_ns=self.now[MAIN] - begin)
        built = {}
        for name, rows in self.rows.items():
            if rows.rows:
                frame = pd.DataFrame(rows.rows)
                built[name] = tables.build(name, {column: frame[column].array for column in frame})
        return Profile(Decoded(factories.all_tables(**built), factories.info(), Notes()))

    def _do(self, one: Do, thread: int) -> None:
        begin = self.now[thread]
        if one.what == "backward":
            self.now[AUTOGRAD] = begin
            for inner in one.inner:
                self._do(inner, AUTOGRAD)
            self.now[thread] = self.now[AUTOGRAD]
        elif one.what == "python":
            self.now[thread] += one.host
        elif one.what == "operator":
            self.now[thread] += one.host
            self._operator(one.name, thread, begin, self.now[thread])
        elif one.what == "compile":
            self.now[thread] += one.host
            self._api("aclopCompileAndExecute", thread, begin, self.now[thread])
        elif one.what == "sync":
            self._sync(one, thread)
        else:
            self._launch(one, thread)

    def _launch(self, one: Do, thread: int) -> None:
        if self.queue:
            begin = self.now[thread]
            self.now[thread] += 1
            source = self._operator("Enqueue", thread, begin, self.now[thread], "enqueue")
            begin = max(self.now[QUEUE], self.now[thread])
            target = self._operator("Dequeue@" + one.name, QUEUE, begin, begin + one.host, "dequeue")
            self.rows["links"].add(
                kind="enqueue",
                source_table="operators",
                source_row=source,
                target_table="operators",
                target_row=target,
            )
            thread, self.now[QUEUE] = QUEUE, begin
        begin = self.now[thread]
        self.now[thread] += one.host
        row = self._api("launch", thread, begin, self.now[thread])
        start = max(self.free.get(one.stream, 0), self.now[thread] + self.latency)
        self.free[one.stream] = start + one.device
        table = "tasks" if one.what == "copy" else "kernels"
        names = {"name": "MEMCPY_ASYNC", "task_type": "SDMA_SQE"} if one.what == "copy" else {"name": one.name}
        common = {"start_ns": start, "duration_ns": one.device, "device_id": 0, "stream_id": one.stream}
        extra = (
            {"op_type": one.name, "task_type": "AI_CPU" if one.name in ON_CPU else "AI_CORE"}
            if one.what == "launch"
            else {}
        )
        target = self.rows[table].add(**common, **names, **extra)
        self.rows["links"].add(
            kind="api_task", source_table="api", source_row=row, target_table=table, target_row=target
        )

    def _sync(self, one: Do, thread: int) -> None:
        self.now[thread] = max(self.now[thread], self.now[QUEUE] if self.queue else 0)
        begin = self.now[thread]
        self.now[thread] = max(begin, self.free.get(one.stream, 0)) + one.host
        self._api(one.name or "aclrtSynchronizeStream", thread, begin, self.now[thread])

    def _operator(self, name: str, thread: int, begin: int, end: int, kind: str = "op") -> int:
        rows = self.rows["operators"]
        return rows.add(
            name=name, thread_id=thread, start_ns=begin, duration_ns=end - begin, kind=kind, id=len(rows.rows)
        )

    def _api(self, name: str, thread: int, begin: int, end: int) -> int:
        return self.rows["api"].add(name=name, thread_id=thread, start_ns=begin, duration_ns=end - begin, level="acl")


def changed(steps: Sequence[Sequence[Do]], change: Callable[[Do], Do | None]) -> list[list[Do]]:
    """The same steps with each thing changed, or left out where the change is None."""
    return [_changed(program, change) for program in steps]


def _changed(program: Sequence[Do], change: Callable[[Do], Do | None]) -> list[Do]:
    found = [change(replace(one, inner=tuple(_changed(one.inner, change)))) for one in program]
    return [one for one in found if one is not None]


def scaled(factors: Mapping[str, float]) -> Callable[[Do], Do]:
    """A change of the device's time by name."""
    return lambda one: replace(one, device=int(np.rint(one.device * factors.get(one.name, 1))))
