"""The host's work while a device is idle: by line of the user's code and by cause, with times."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.causes import (
    BY_NAME,
    HOST_WORK,
    LAUNCHES,
    NOTEBOOK,
    OTHER,
    SHORT,
    WAIT,
    Cause,
    Statements,
    call_of,
    calls_of,
    cause_of,
    is_of_host,
    of_idle_cause,
    of_text,
)
from npuprof.advice.facts import Facts
from npuprof.analysis.accounting import BETWEEN_STEPS, IDLE, PARTS
from npuprof.analysis.idle_causes import NOT_OF_THE_HOST
from npuprof.analysis.intervals import Spans, union, within
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.sampled_functions import paths
from npuprof.arrays import Bools, Int64, rows_by_key
from npuprof.lines.frames import Frame

LABELS = {
    "op_compile": "compiling operators",
    "sync_call": "synchronising",
    "dataloader": "data loader",
    "python_gc": "garbage collection",
    "profiler": "the profiler itself",
    "alloc": "allocating memory",
    "copy_call": "copy calls",
    "optimizer": "optimizer",
    "backward_dispatch": "backward dispatch",
    "forward_dispatch": "forward dispatch",
    "other_operators": "other operators",
    "python": "Python",
    "unexplained": "unexplained",
}
"""The causes of idle time as findings call them."""

_MOST_SAMPLES = 50_000
_SHORT_NS = 250_000  # idle time between two launches that the launches themselves take
_TRIFLE_NS = 30_000
_TAIL_NS = 1_000_000  # after the last call of a statement: its line has no more
_MOSTLY = 0.8  # of the time of a line: what is called there takes it
_MOST_LINES, _OF_LINES = 3, 0.2
_LONGEST_CALL = 40
_OTHERS = 0.5
_CERTAIN = frozenset(
    {"compile", WAIT, "gc", "subprocess", "save", "read", "output", "sleep", "lock"}
)  # by a line's text
_BUSY = tuple(part for part in PARTS if part not in (*IDLE, BETWEEN_STEPS))
Place = tuple[str, int]
_NO_ROWS: Int64 = np.zeros(0, np.int64)
_NOTHING: Spans = (_NO_ROWS,) * 2


@dataclass(frozen=True)
class HostTime:
    """Idle time of a device with one cause, at one place."""

    cause: Cause  # the entry of the table
    time_ns: int  # nanoseconds of a step in which the device has no work
    busy_ns: int = 0  # nanoseconds of a step in which the host waits while it works
    lines: tuple[Place, ...] = ()  # the lines that are named, the costliest first; none without lines
    has_others: bool = False  # whether lines that are not named take more than a fifth of the time
    deepest: Place | None = None  # the line of the user's code that takes most of it, and its share
    share: float = 0.0
    call: str = ""  # the code that is called there
    launches: int = 0  # kernels of a step that these lines launch
    spans: Spans = field(default=_NOTHING, compare=False, repr=False)  # when


class HostTimes:
    """Finds causes and lines of the idle time of some parts of the usual steps."""

    def __init__(self, facts: Facts, parts: Sequence[str]) -> None:
        self._facts = facts
        rows = facts.accounting.intervals
        is_usual = np.zeros(len(facts.accounting.steps), bool)
        is_usual[facts.basis.usual_rows] = True
        self._is_idle: Bools = schema.matching(rows["part"], lambda name: name in parts)
        self._is_idle &= is_usual[rows["row"].to_numpy()]
        self._is_idle &= ~schema.matching(rows["cause"], lambda name: name in NOT_OF_THE_HOST)
        self._texts: dict[str, Statements] = {}

    @cached_property
    def cell(self) -> str:
        """The name of the only profiled cell; empty for none, or several."""
        files = self._facts.tables["statements"]["file"].unique()
        return str(files[0]) if len(files) == 1 else ""

    def statements(self, place: Place | None) -> list[ast.stmt]:
        """Return the statements of a line; none where its text is not known."""
        if place is None:
            return []
        return self._text_of(place[0]).at(place[1])

    def _text_of(self, file: str) -> Statements:
        if file not in self._texts:
            self._texts[file] = Statements(self._facts.info.code.get(file, "").splitlines())
        return self._texts[file]

    # -- pieces of idle time ---------------------------------------------------------------------------------------

    @cached_property
    def _with_lines(self) -> bool:
        return self._facts.has_lines

    @cached_property
    def pieces(self) -> pd.DataFrame:
        """The idle time: ``start``, ``end``, ``row`` (of the accounting's intervals), ``line``, ``caller``, ``name``.

        Lines are rows of the costs of lines, -1 for none; the caller is the line of the profiled cell. The name is that
        of the cause, which samples may still divide where it is empty.
        """
        facts, rows = self._facts, self._facts.accounting.intervals
        lengths = rows["duration_ns"].to_numpy(np.int64)
        causes = [of_idle_cause(str(name)) for name in rows["cause"].cat.categories]
        if self._with_lines:
            start, end, line, row = facts.code_lines.idle_pieces(facts.accounting, self._is_idle)
            statement = facts.code_lines.statement_at(facts.code_lines.main_thread, start)
            caller = np.append(facts.code_lines.of_statements, -1)[statement]
        else:
            start, end, line, row, caller = (np.zeros(0, np.int64),) * 5
        placed = np.bincount(row, end - start, minlength=len(rows)).astype(np.int64)
        rest = np.flatnonzero(self._is_idle & (lengths > placed))  # without a line, or without a position in time
        begin = rows["start_ns"].to_numpy(np.int64, na_value=0)[rest]
        none = np.full(len(rest), -1, np.int64)
        pieces: pd.DataFrame = pd.DataFrame(
            {
                "start": np.concatenate([start, begin]),
                "end": np.concatenate([end, begin + (lengths - placed)[rest]]),
                "row": np.concatenate([row, rest]),
                "line": np.concatenate([line, none]),
                "caller": np.concatenate([caller, none]),
            }
        )
        called, after_wait = self._last_called(pieces)
        is_own = ((pieces["line"] < 0) | (pieces["line"] == pieces["caller"])) & (pieces["caller"] >= 0)
        pieces["line"] = pieces["line"].where(~is_own, called)
        names = np.array([*causes, ""], object)
        pieces["name"] = names[rows["cause"].cat.codes.to_numpy(np.int64)[pieces["row"].to_numpy()]]
        pieces["name"] = pieces["name"].where((pieces["name"] != "") | ~self._between_statements(pieces), NOTEBOOK)
        is_drained = after_wait & (pieces["line"] == called) & pieces["name"].isin(["", LAUNCHES])
        pieces["name"] = pieces["name"].where(~is_drained, WAIT)
        return pieces[(pieces["end"] > pieces["start"]).to_numpy(bool)].reset_index(drop=True)

    def _between_statements(self, pieces: pd.DataFrame) -> Bools:
        """Return which pieces lie between the statements of the cell, while IPython compiles the next one."""
        if not self._with_lines or not self.cell:
            return np.zeros(len(pieces), bool)
        statements = self._facts.tables["statements"]
        begins, lengths = (statements[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        start, end, line, caller = (pieces[name].to_numpy(np.int64) for name in ("start", "end", "line", "caller"))
        is_outside = within(union(begins, begins + lengths), start, end) == 0
        return (line < 0) & (caller < 0) & is_outside

    def _last_called(self, pieces: pd.DataFrame) -> tuple[Int64, Bools]:
        """Return the line of a call shortly before each piece in the same statement, and if it waited for the device.

        Without such a call, the line is that of the statement.
        """
        caller = pieces["caller"].to_numpy(np.int64)
        api = self._facts.tables["api"]
        if not self._with_lines or not len(api):
            return caller, np.zeros(len(pieces), bool)
        lines = self._facts.code_lines
        begins = api["start_ns"].to_numpy(np.int64)
        order = np.flatnonzero((api["thread_id"] == lines.main_thread).to_numpy(bool))
        order = order[np.argsort(begins[order], kind="stable")]
        moments = pieces["start"].to_numpy(np.int64)
        at = np.searchsorted(begins[order], moments, side="right") - 1
        is_short = ((pieces["end"] - pieces["start"]).to_numpy(np.int64) < _TAIL_NS) & (at >= 0)
        statements = (lines.statement_at(lines.main_thread, each) for each in (begins[order], moments))
        of_call, of_piece = (np.append(each, -1) for each in statements)
        line = np.append(lines.of_rows("api", order), -1)[at]
        line = np.where(line >= 0, line, np.append(lines.of_statements, -1)[of_call[at]])
        is_within = is_short & (of_call[at] == of_piece[:-1]) & (line >= 0)
        waited = np.append(schema.matching(api["name"], lambda name: "Synchronize" in name)[order], False)[at]
        return np.where(is_within, line, caller), is_within & waited

    @cached_property
    def _launched(self) -> Counter[tuple[int, int]]:
        """The kernels of the usual steps by the line of the cell and the innermost line that launch them."""
        line, caller = self._facts.lines_around("kernels", np.flatnonzero(self._facts.in_steps))
        line = np.where(line >= 0, line, caller)
        pairs, counts = np.unique(np.stack((caller, line)), axis=1, return_counts=True)
        return Counter(dict(zip(zip(*pairs.tolist(), strict=True), counts.tolist(), strict=True)))

    def _launched_by(self, lines: set[int]) -> dict[tuple[int, int], int]:
        """Return those launches that are of some lines, or called by them."""
        return {pair: self._launched[pair] for line in lines for pair in self._launching.get(line, ())}

    @cached_property
    def _launching(self) -> dict[int, list[tuple[int, int]]]:
        """The keys of :attr:`_launched`, by line."""
        pairs: dict[int, list[tuple[int, int]]] = {}
        for pair in self._launched:
            for line in {*pair}:
                pairs.setdefault(line, []).append(pair)
        return pairs

    @cached_property
    def _launches(self) -> Int64:
        """The kernels that each line launches in the usual steps; last those without a line."""
        sums = np.zeros(len(self._facts.code_lines.names) + 1, np.int64)
        for (_, line), count in self._launched.items():
            sums[line] += count
        return sums

    @cached_property
    def _waits(self) -> pd.DataFrame:
        """Calls that wait for the device, in the usual steps: ``line``, ``caller`` and ``busy_ns``.

        The time is that in which the device works meanwhile.
        """
        facts, lines = self._facts, self._facts.code_lines
        api = facts.tables["api"]
        rows = np.flatnonzero(schema.matching(api["name"], lambda name: "Synchronize" in name))
        starts = api["start_ns"].to_numpy(np.int64)[rows]
        ends = starts + api["duration_ns"].to_numpy(np.int64)[rows]
        statement = lines.statement_at(lines.main_thread, starts)
        waits: pd.DataFrame = pd.DataFrame(
            {
                "line": lines.of_rows("api", rows),
                "caller": np.append(lines.of_statements, -1)[statement],
                "busy_ns": within(facts.spans(_BUSY), starts, ends),
                "start": starts,
                "end": ends,
            }
        )
        waits["line"] = waits["line"].where(waits["line"] >= 0, waits["caller"])
        return waits

    def _syncs(self, line: int) -> bool | None:
        """Return whether a line called what waits for the device; None where no calls were recorded."""
        if line < 0 or not len(self._facts.tables["api"]):
            return None
        return line in self._syncing

    @cached_property
    def _syncing(self) -> frozenset[int]:
        return frozenset(self._waits["line"].tolist())

    # -- what samples saw ------------------------------------------------------------------------------------------

    @cached_property
    def _samples(self) -> pd.DataFrame:
        """What samples saw: ``line``, ``caller``, ``name`` of the cause, ``function`` below the cell, and ``count``."""
        facts, lines = self._facts, self._facts.code_lines
        samples = facts.tables["sampled_lines"]
        every = np.arange(0, len(samples), max(1, len(samples) // _MOST_SAMPLES))
        moments, threads = (samples[name].to_numpy(np.int64)[every] for name in ("time_ns", "thread_id"))
        path, frames = _stacks(facts.tables["python"], moments, threads)
        seen: pd.DataFrame = pd.DataFrame(
            {
                "line": lines.of_samples[every],
                "caller": np.append(lines.of_statements, -1)[lines.statement_at(lines.main_thread, moments)],
                "path": path,
            }
        )
        counts = seen[(seen["line"] >= 0)].groupby(["line", "caller", "path"]).size().rename("count").reset_index()
        rows = zip(*(counts[name].tolist() for name in ("line", "caller", "path")), strict=True)
        told = [self._told(frames.get(path, []), line, caller) for line, caller, path in rows]
        return counts.assign(name=[name for name, _ in told], function=[function for _, function in told])

    @cached_property
    def _samples_of(self) -> dict[int, Int64]:
        """The rows of :attr:`_samples` by line."""
        return rows_by_key(self._samples["line"].to_numpy(np.int64))

    def _told(self, frames: Sequence[Frame], line: int, caller: int) -> tuple[str, str]:
        """Return the name of the cause that a stack tells, and the function that the profiled cell called."""
        shown = [f"{frame.file}:{frame.function}" for frame in frames]
        own = next((at for at, frame in enumerate(frames) if frame.is_users), len(frames))
        name = self._cause_of(shown[:own], shown[own:], line, caller)
        cell = next((at for at, frame in enumerate(frames) if frame.is_of_cell), 0)
        return name, frames[cell - 1].function if cell else ""

    def _cause_of(self, inner: Sequence[str], outer: Sequence[str], line: int, caller: int) -> str:
        texts = self.statements(self.place(line)), self.statements(self.place(caller))
        place = self.place(line)
        in_generator = place is not None and self._text_of(place[0]).in_generator(place[1])
        return cause_of(inner, outer, *texts, syncs=self._syncs(line), in_generator=in_generator)

    def place(self, line: int) -> Place | None:
        """Return file and line of a row of the costs of lines; None for -1."""
        return self._facts.code_lines.place(line) if line >= 0 else None

    # -- causes ----------------------------------------------------------------------------------------------------

    def cause_at(self, place: Place) -> tuple[Cause, str]:
        """Return the main activity of a line, by samples or its text, and the code that it calls."""
        lines = self._facts.code_lines
        line = next(row for row in range(len(lines.names)) if lines.place(row) == place)
        names, shares = self._shares(line, line)
        name = names[int(np.argmax(shares))]
        return BY_NAME[name], self._call(name, line, line)

    @cached_property
    def _rows(self) -> pd.DataFrame:
        """The idle time in all usual steps by ``caller``, ``line`` and ``name`` of the cause: ``time`` and ``busy``."""
        pieces = self.pieces
        time = (pieces["end"] - pieces["start"]).to_numpy(np.int64)
        keys = pieces[["caller", "line", "name"]].assign(time=time, busy=0)
        known = (pieces["name"] != "").to_numpy(bool)
        if not self._with_lines:
            keys["name"] = keys["name"].where(known, OTHER)
            return keys.groupby(["caller", "line", "name"], as_index=False)[["time", "busy"]].sum()
        lengths = self._facts.accounting.intervals["duration_ns"].to_numpy(np.int64)
        line = pieces["line"].to_numpy(np.int64)
        launches = self._launches[line]
        of_line = np.zeros(len(self._launches), np.int64)
        np.add.at(of_line, line, time)
        spread = (launches > 0) & (of_line[line] < _SHORT_NS * np.maximum(launches, 1))
        is_short = (lengths[pieces["row"].to_numpy()] < _SHORT_NS) & ((launches > 0) | (time < _TRIFLE_NS))
        launching = ~known & (spread | is_short)
        is_certain = np.zeros(len(self._launches), bool)
        for at in np.unique(line[launching]).tolist():
            is_certain[at] = of_text(self.statements(self.place(at)), syncs=self._syncs(at)) in _CERTAIN
        launching &= ~is_certain[line]
        keys["name"] = keys["name"].where(~launching, LAUNCHES)
        launches_none = (keys["name"] == LAUNCHES).to_numpy(bool) & (line >= 0) & (launches == 0)
        keys["name"] = keys["name"].where(~launches_none, "")
        sums = keys.groupby(["caller", "line", "name"], as_index=False)[["time", "busy"]].sum()
        shared: list[tuple[int, int, str, int, int]] = []
        for caller, at, _, spent, _ in sums[(sums["name"] == "").to_numpy(bool)].itertuples(index=False):
            names, shares = self._shares(int(caller), int(at))
            times = np.diff(np.cumsum(shares) * int(spent) // int(shares.sum()), prepend=0).tolist()
            named = self._bounded_waits(int(caller), int(at), zip(names, times, strict=True))
            shared += [(caller, at, name, time, 0) for name, time in named]
        shared_rows = pd.DataFrame(shared, columns=sums.columns).astype(sums.dtypes)
        sums = pd.concat([sums[(sums["name"] != "").to_numpy(bool)], shared_rows])
        at = sums["line"].to_numpy(np.int64)
        count = np.bincount(line + 1, minlength=len(self._launches) + 1)[1:]
        is_short = (at >= 0) & (of_line[at] < _TRIFLE_NS * count[at]) & (sums["name"] == OTHER).to_numpy(bool)
        sums["name"] = sums["name"].where(~is_short, SHORT)
        is_own = np.append(self._launches[:-1], 0)[at] >= len(self._facts.basis.usual_rows)  # a launch in each step
        is_own &= sums["name"].isin([OTHER, SHORT, HOST_WORK]).to_numpy(bool)
        is_own[is_own] = [not is_of_host(self.statements(self.place(line))) for line in at[is_own].tolist()]
        sums["name"] = sums["name"].where(~is_own, LAUNCHES)
        waits = self._waits[["line", "caller"]].assign(name=WAIT, time=0, busy=self._waits["busy_ns"])
        waits = waits[(waits["line"] >= 0) & (waits["busy"] > 0)]
        return pd.concat([sums, waits]).groupby(["caller", "line", "name"], as_index=False)[["time", "busy"]].sum()

    def _bounded_waits(self, caller: int, line: int, named: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Limit the wait of a line to the time of its calls; the rest is its other work."""
        kept = dict(named)
        if self._syncs(line) and (excess := kept.get(WAIT, 0) - self._idle_waits.get((caller, line), 0)) > 0:
            texts = (self.statements(self.place(each)) for each in (line, caller))
            other = next((name for text in texts if (name := of_text(text, syncs=False)) not in ("", WAIT)), OTHER)
            kept[WAIT] -= excess
            kept[other] = kept.get(other, 0) + excess
        return [(name, time) for name, time in kept.items() if time]

    @cached_property
    def _idle_waits(self) -> dict[tuple[int, int], int]:
        """For how long calls that wait take while the device has no work, by line of the cell and innermost line."""
        waits = self._waits
        idle = waits["end"] - waits["start"] - waits["busy_ns"]
        sums = idle.groupby([waits["caller"], waits["line"]]).sum()
        return {(int(key[0]), int(key[1])): int(time) for key, time in sums.items()}  # type: ignore[index]

    def _shares(self, caller: int, line: int) -> tuple[list[str], Int64]:
        """Return the causes of a line's time and how many samples saw each; by its text where none did."""
        rows = self._samples_of.get(line)
        if rows is None:
            return [self._cause_of((), (), line, caller)], np.ones(1, np.int64)
        of_line = self._samples.iloc[rows]
        exactly = of_line[(of_line["caller"] == caller).to_numpy(bool)]
        counts = (exactly if len(exactly) else of_line).groupby("name")["count"].sum()
        return counts.index.tolist(), counts.to_numpy(np.int64)

    def found(self) -> list[HostTime]:
        """Return the causes with the lines that they are of, the costliest first."""
        rows, steps = self._rows, max(1, len(self._facts.basis.usual_rows))
        names = self._facts.code_lines.names if self._with_lines else pd.DataFrame({"file": [], "function": []})
        functions = list(zip(names["file"].tolist(), names["function"].tolist(), strict=True))
        groups: dict[tuple[Any, ...], list[tuple[int, int, int, int]]] = {}
        for caller, line, name, time, busy in rows.itertuples(index=False):
            deep = caller < 0 or caller in self._facts.whole_lines
            place: Any = line if deep or line < 0 else caller
            if deep and line >= 0:
                place = line if functions[line][1].startswith("<") else functions[line]
            key = (name,) if name in (LAUNCHES, SHORT) else (name, place)
            groups.setdefault(key, []).append((line if deep else caller, line, time, busy))
        merged: dict[tuple[Any, ...], list[tuple[int, int, int, int]]] = {}
        for key, parts in groups.items():  # several lines may call the same function
            of_line = _sums((line, time + busy) for _, line, time, busy in parts)
            first = next(iter(of_line))
            called = first not in {place for place, *_ in parts} and of_line[first] > _MOSTLY * sum(of_line.values())
            merged.setdefault((key[0], "calls", first) if called else key, []).extend(parts)
        found = _bounded([self._host_time(key[0], parts, steps) for key, parts in merged.items()])
        return sorted(
            (each for each in found if each.time_ns or each.busy_ns), key=lambda each: -each.time_ns - each.busy_ns
        )

    def _host_time(self, name: str, parts: Sequence[tuple[int, int, int, int]], steps: int) -> HostTime:
        places = _sums((place, time + busy) for place, _, time, busy in parts)
        lines = _sums((line, time + busy) for _, line, time, busy in parts)
        whole = max(sum(places.values()), 1)
        shown = [place for place, time in places.items() if place >= 0 and time >= _OF_LINES * whole][:_MOST_LINES]
        if not shown and next(iter(places)) >= 0:
            shown = [next(iter(places))]
        deepest = next(iter(lines))
        known = {place: time for place, time in places.items() if place >= 0}
        has_others = bool(shown) and sum(known[place] for place in shown) < _MOSTLY * sum(known.values())
        launching = {*known} if has_others else {*shown}
        return HostTime(
            BY_NAME[name],
            time_ns=sum(time for *_, time, _ in parts) // steps,
            busy_ns=sum(busy for *_, busy in parts) // steps,
            lines=tuple(self._facts.code_lines.place(place) for place in shown),
            has_others=has_others,
            deepest=self.place(deepest),
            share=lines[deepest] / whole,
            call=self._call(name, shown[0], deepest if lines[deepest] > _OTHERS * whole else shown[0]) if shown else "",
            launches=sum(self._launched_by(launching).values()) // steps,
            spans=self._spans(set(lines)),
        )

    def _spans(self, lines: set[int]) -> Spans:
        rows = np.concatenate([self._pieces_of.get(line, _NO_ROWS) for line in lines])
        return union(*(self.pieces[edge].to_numpy(np.int64)[rows] for edge in ("start", "end")))

    @cached_property
    def _pieces_of(self) -> dict[int, Int64]:
        """The rows of :attr:`pieces` by line."""
        return rows_by_key(self.pieces["line"].to_numpy(np.int64))

    def _call(self, name: str, place: int, deepest: int) -> str:
        """Return the call of a line that takes the time: ``next_batch()``, or the line's text."""
        statements = self.statements(self.place(place))
        calls = calls_of(statements)
        rows = self._samples_of.get(deepest, _NO_ROWS) if place != deepest else _NO_ROWS
        seen = self._samples.iloc[rows]
        functions = seen[(seen["caller"] == place).to_numpy(bool)]["function"].tolist()
        functions.append(str(self._facts.code_lines.names["function"].iloc[deepest]))
        if place != deepest:
            for call in calls:
                if ast.unparse(call.func).rpartition(".")[2] in functions:
                    return _short(f"{ast.unparse(call.func)}()")
        if (found := call_of(name, statements)) is not None:
            whole = ast.unparse(found)
            return whole if len(whole) <= _LONGEST_CALL else _short(f"{ast.unparse(found.func)}(…)")
        heads = [each for each in statements if isinstance(each, (ast.For, ast.AsyncFor))]
        if heads:
            return _short(f"for {ast.unparse(heads[0].target)} in {ast.unparse(heads[0].iter)}")
        if len(calls) == 1:
            return _short(f"{ast.unparse(calls[0].func)}()")
        file, line = self._facts.code_lines.place(place)
        texts = self._text_of(file).lines
        return _short(texts[line - 1].partition("#")[0].strip()) if line <= len(texts) else ""

    def elsewhere(self, found: HostTime) -> Place | None:
        """Return the line that another thread mostly ran meanwhile, None if no sample saw one."""
        facts, lines = self._facts, self._facts.code_lines
        if not self._with_lines or found.deepest is None:
            return None
        samples = facts.tables["sampled_lines"]
        moments = samples["time_ns"].to_numpy(np.int64)
        is_other = (within(found.spans, moments - 1, moments) > 0) & (lines.of_samples >= 0)
        is_other &= (samples["thread_id"] != lines.main_thread).to_numpy(bool)
        numbers, counts = np.unique(lines.of_samples[is_other], return_counts=True)
        return lines.place(int(numbers[np.argmax(counts)])) if len(numbers) else None


def _bounded(found: list[HostTime]) -> list[HostTime]:
    """Limit waits to the idle time that a step without them would save."""
    waits = sum(each.busy_ns for each in found)
    most = sum(each.time_ns for each in found) - sum(each.time_ns for each in found if each.busy_ns)
    if waits <= most:
        return found
    return [replace(each, busy_ns=each.busy_ns * most // waits) for each in found]


def _stacks(python: pd.DataFrame, moments: Int64, threads: Int64) -> tuple[Int64, dict[int, list[Frame]]]:
    """Return the number of the stack at each moment of a thread, and the frames of each, the innermost first."""
    start, duration, thread = (python[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns", "thread_id"))
    nesting = Nesting.build(start, start + duration, thread)
    codes = python["name"].cat.codes.to_numpy(np.int64)[nesting.order]
    at = nesting.innermost(moments, threads)
    path = np.append(paths(nesting.parents, nesting.depths(), codes), -1)[at]
    texts = python["name"].cat.categories
    frames: dict[int, list[Frame]] = {}
    for stack, place in zip(path.tolist(), at.tolist(), strict=True):
        if stack < 0 or stack in frames:
            continue
        frames[stack] = []
        while place >= 0:
            frame = Frame.parse(str(texts[codes[place]]))
            frames[stack] += [frame] if frame is not None else []
            place = int(nesting.parents[place])
    return path, frames


def _sums(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the sum of each number's times, the greatest first."""
    sums: dict[int, int] = {}
    for number, time in pairs:
        sums[number] = sums.get(number, 0) + time
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_CALL else f"{text[: _LONGEST_CALL - 1]}…"
