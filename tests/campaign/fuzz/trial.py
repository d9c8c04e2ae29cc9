"""One target of the fuzzer at work: its inputs, damaged in place and mended again, and what comes of each."""

from __future__ import annotations

import gc
import resource
import signal
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.campaign.fuzz import mutations, oracle
from tests.campaign.fuzz.mutations import Mutation
from tests.campaign.fuzz.oracle import Find, Outcome
from tests.campaign.fuzz.targets import TARGETS, Case
from tests.campaign.speed import slowness

_PER_INPUT_S = 20.0  # of processor time, on a machine of usual speed
_MORE_MIB = 512  # than the process held before, for one input
_ROAD_EVERY = 20


class Hang(BaseException):
    """An input took too long."""


@dataclass(frozen=True)
class Damaged:
    """One damaged input: which case, how, and whether it goes the whole road."""

    case: str
    damage: tuple[Mutation, ...]
    goes_road: bool = False


class Trial:
    """The inputs of a target, each in a folder of its own, and how many rows they have as long as they are sound.

    Parameters
    ----------
    target
        A key of :data:`~tests.campaign.fuzz.targets.TARGETS`.
    folder
        An empty folder, best in memory.
    only
        The case to judge; all by default.
    """

    def __init__(self, target: str, folder: Path, only: str = "") -> None:
        self._folder = folder
        self.cases: Mapping[str, Case] = TARGETS[target].write(folder)
        self._content = {name: mutations.content_of(folder / name) for name in self.cases}
        self._sound: dict[tuple[str, bool], Outcome] = {}
        for name, case in [(name, case) for name, case in self.cases.items() if only in ("", name)]:
            for goes_road in (False, True)[: 1 + (case.road is not None)]:
                load = case.road if goes_road and case.road is not None else case.load
                load(case.path)  # once more: what is imported late, and caches
                self._sound[name, goes_road] = load(case.path)
        self._limit_s = _PER_INPUT_S * slowness()
        self._limit_kib = _used_kib() + (_MORE_MIB << 10)
        gc.collect()
        gc.freeze()

    def chosen(self, drawn: bytes, *, goes_road: bool = False) -> Damaged:
        """Return what some drawn bytes stand for; of those that may, each twentieth goes the whole road."""
        first, *others = mutations.drawn(drawn)
        name = [*self.cases][first.file % len(self.cases)]
        within = Mutation(first.kind, first.file // len(self.cases), first.place, first.length, first.value)
        can = self.cases[name].road is not None
        return Damaged(name, (within, *others), can and (goes_road or zlib.crc32(drawn) % _ROAD_EVERY == 0))

    def judge(self, one: Damaged) -> Find | None:
        """Damage an input, load it, mend it; None where all is well."""
        case, before = self.cases[one.case], self._content[one.case]
        after: dict[str, bytes] = mutations.damaged(before, one.damage)
        find = self._tried(one, after)
        if find is None or find.kind != "loss":
            return find
        untold = {name for name in before if before[name] != after.get(name)}
        untold = {name for name in untold if case.is_untold(name, before[name], after.get(name))}
        if not untold:
            return find
        told = {name: before[name] if name in untold else after[name] for name in before if name in {*after, *untold}}
        return None if told == before else self._tried(one, told)

    def _tried(self, one: Damaged, after: Mapping[str, bytes]) -> Find | None:
        folder, before = self._folder / one.case, self._content[one.case]
        mutations.write(folder, before, after)
        try:
            return self._judged(self.cases[one.case], one)
        finally:
            mutations.write(folder, after, before)

    def changed(self) -> list[str]:
        """Return the cases whose files are not those that were written: loading changes none, and adds none."""
        return [name for name in self.cases if mutations.content_of(self._folder / name) != self._content[name]]

    def _judged(self, case: Case, one: Damaged) -> Find | None:
        load = case.road if one.goes_road and case.road is not None else case.load
        signal.setitimer(signal.ITIMER_PROF, self._limit_s)
        try:
            find = oracle.judge(load, case.path, self._sound[one.case, one.goes_road])
        except Hang:
            return Find("hang", f"{one.case}: an input takes more than {_PER_INPUT_S:.0f} s")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if (used := _used_kib()) > self._limit_kib:
            self._limit_kib = used + (_MORE_MIB << 10)
            return Find("hang", f"{one.case}: an input takes more than {_MORE_MIB} MiB")
        return find


def stop_hangs() -> None:
    """End what takes too long by the timer of :class:`Trial`; for the main thread of a process."""
    signal.signal(signal.SIGPROF, _hang)


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise Hang


def _used_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
