"""Inputs of rules: the tables of a run, and values derived from them that several rules use, computed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice import to_collect
from npuprof.advice.gains import Gain, Replayed, Saves, gain_of
from npuprof.analysis.accounting import (
    BETWEEN_STEPS,
    IDLE,
    PARTS,
    RUNS_OVER,
    Accounting,
    of_every_kind,
    unrecorded,
)
from npuprof.analysis.backlog import Backlog, backlog
from npuprof.analysis.balanced_steps import by_rank, complete
from npuprof.analysis.basis import Basis
from npuprof.analysis.cell_lines import CellLines, cell_lines
from npuprof.analysis.chip_limits import ChipLimits, measured_limits
from npuprof.analysis.code_lines import CodeLines, has_lines
from npuprof.analysis.correlation import Causes
from npuprof.analysis.device_clocks import apart, to_device
from npuprof.analysis.device_words import DeviceName, device_of, runtime_of
from npuprof.analysis.efficiency import efficiency
from npuprof.analysis.host_accounting import ACTIVITY_LABELS, HOST
from npuprof.analysis.idle_causes import NOT_OF_THE_HOST
from npuprof.analysis.intervals import Spans, covering, executed_spans, union, within
from npuprof.analysis.places import BETWEEN, GUESSED, Places, lines
from npuprof.analysis.rank_kernels import Savings, of_kernels, together
from npuprof.analysis.replay import Change, Replay
from npuprof.analysis.what_if import compared, predicted, replay_of, task_durations
from npuprof.arrays import Bools, Float64, Int64
from npuprof.errors import NpuprofError
from npuprof.tables.info import Info

_GRAPH = re.compile(r"aclmdl(RI)?Execute|ModelExecute|GraphLaunch")
_MOSTLY = 0.5  # of the kernels
_MOST_LINED = 200_000  # kernels: of more, lines take longer than all findings
_WHOLE = 0.8  # of all launches
_OF_EVIDENCE = 0.1
_MOST_TASKS = 200_000  # above this, a replay per finding takes longer than everything else


class Facts:
    """A run as rules see it.

    Attributes
    ----------
    tables
        Every table of the schema by name, with times of devices on the host's clock, as in the accounting.
    info
        The metadata of the run.
    accounting
        The breakdown of its steps.
    """

    def __init__(
        self,
        tables: Mapping[str, pd.DataFrame],
        info: Info,
        accounting: Accounting,
        replay: Callable[[], Replay] | None = None,
    ) -> None:
        self.tables = tables
        self.info = info
        self.accounting = accounting
        self.unranked = 0  # runs beside this one that have no rank; of a job
        self._prepared = replay if replay is not None else lambda: replay_of(tables, info)

    @property
    def basis(self) -> Basis:
        """The steps that figures per step rest on."""
        return self.accounting.basis

    @property
    def step_ns(self) -> int:
        """The time of a step: the mean of the basis, which is the usual step and the excess."""
        return self.basis.mean_ns

    @property
    def usual_ns(self) -> int:
        """The time of the usual step, which findings price."""
        return self.basis.usual_ns

    @property
    def excess_ns(self) -> int:
        """What outliers add to the mean step."""
        return self.basis.excess_ns

    def taking(self, row: int) -> tuple[int | None, Facts, int]:
        """Return the rank that makes an outlier long, given its row of the longest rank, with its facts and row."""
        return None, self, row

    @cached_property
    def backlog(self) -> Backlog | None:
        """How far the device was behind when the last step ended, if that makes the steps too short."""
        of_marks = (self.accounting.steps["basis"] == "steps").any()
        return backlog(self.tables, self.step_ns) if of_marks and self.joined else None

    @cached_property
    def device(self) -> DeviceName:
        """The name of the run's devices; empty without a device."""
        return device_of(self.info, self.tables)

    @cached_property
    def runtime(self) -> str:
        """The runtime that the host calls: ``CANN``, ``CUDA`` ..."""
        return runtime_of(self.tables["api"]["name"].cat.categories, self.info)

    @property
    def stacks(self) -> bool:
        """Whether Python calls were recorded, which makes the host slower."""
        return bool(len(self.tables["python"]))

    @cached_property
    def joined(self) -> bool:
        """Whether the times of any device can be compared with those of the host."""
        without = apart(self.info.clocks)
        return not without or not self.accounting.steps["device_id"].dropna().isin(without).all()

    @property
    def host_known(self) -> bool:
        """Whether the host was recorded, so that causes of idle time can be known."""
        return self.joined and any(len(self.tables[name]) for name in ("operators", "api"))

    @cached_property
    def captured(self) -> bool:
        """Whether captured graphs were launched, so that most kernels have no launch call."""
        graphs = schema.matching(self.tables["api"]["name"], lambda name: bool(_GRAPH.search(name))).any()
        return bool(graphs) and float((self.causes.launchers < 0).mean()) > _MOSTLY

    def needs(self, *options: str, level: str = "", instead: str = "") -> str:
        """Return the advice of a rule that cannot tell: what to collect or to load.

        Parameters
        ----------
        level
            The rows of level 1 that this run lacks. If it was recorded with that level and these options, its result is
            incomplete.
        """
        return to_collect.needed(self._recorded, options, level, instead)

    def needs_operators(self, *options: str) -> str:
        """Return the advice of a rule that cannot tell without a framework's operators; see :meth:`needs`."""
        return to_collect.needed_operators(self._recorded, options)

    def needs_limits(self) -> str:
        """Return the advice of a rule that cannot tell without the limits of the chip."""
        return to_collect.needed_for_limits(self._recorded, known=self.limits is not None)

    def needs_counters(self, what: str) -> str:
        """Return the advice of a rule that cannot tell without some counters of kernels."""
        return to_collect.needed_counters(self._recorded, what)

    def needs_steps(self) -> str:
        """Return the advice of a rule that cannot tell from so few steps."""
        return to_collect.more_steps(self._recorded)

    def what_tells(self, cause: str) -> str:
        """Return what to do so that idle time without a known cause has one."""
        return to_collect.what_tells(self._recorded, cause)

    @property
    def _recorded(self) -> to_collect.Recorded:
        return to_collect.Recorded(self.tables, self.info, self.device, self.joined)

    @cached_property
    def limits(self) -> ChipLimits | None:
        """The limits of the chip, from the kernels' counters and its name."""
        return measured_limits(self.tables["kernels"], self.info.chip, self.tables["counters"])[0]

    @cached_property
    def efficiency(self) -> pd.DataFrame:
        """Achieved rates of each kernel, in table order; see :func:`npuprof.analysis.efficiency.efficiency`."""
        return efficiency(self.tables, self.info.chip, each="kernel", limits=self.limits)

    @cached_property
    def steps(self) -> int:
        """The number of steps with counted kernels, at least 1."""
        steps = self.accounting.steps
        usual = np.zeros(len(steps), np.bool_)
        usual[self.basis.usual_rows] = True
        timed = steps["device_id"].isin(list(self._windows)).to_numpy(bool)
        return max(1, int((usual | ~timed).sum()))

    @cached_property
    def _windows(self) -> dict[int, Spans]:
        """The time of the usual steps of each device whose steps have a position in time."""
        rows = self.accounting.intervals
        timed = rows["start_ns"].notna().to_numpy(bool)
        owners = self.accounting.steps["device_id"].to_numpy(np.int64, na_value=-1)[rows["row"].to_numpy()]
        usual = np.zeros(len(self.accounting.steps), np.bool_)
        usual[self.basis.usual_rows] = True
        counts = usual[rows["row"].to_numpy()]
        windows = {}
        for device in np.unique(owners[timed]).tolist():
            of_device = rows[timed & counts & (owners == device)]
            windows[device] = covering(of_device["start_ns"].to_numpy(np.int64), of_device["duration_ns"].to_numpy())
        return windows

    def starts_in_steps(self, table: str) -> Bools:
        """Return the rows of a table of a device that start in a usual step; all where steps have no position."""
        starts, devices = (
            self.tables[table][name].to_numpy(np.int64, na_value=-1) for name in ("start_ns", "device_id")
        )
        inside = np.ones(len(starts), np.bool_)
        for device, spans in self._windows.items():
            of_device = devices == device
            inside[of_device] = within(spans, starts[of_device], starts[of_device] + 1) > 0
        return inside

    @cached_property
    def in_steps(self) -> Bools:
        """Which kernels started in a usual step; all where the steps have no position in time."""
        return self.starts_in_steps("kernels")

    @cached_property
    def kernels_ns(self) -> int:
        """The sum of the durations of kernels that started in a usual step."""
        return int(self.tables["kernels"]["duration_ns"].to_numpy(np.int64)[self.in_steps].sum())

    def kernels_per_step(self, times_ns: Int64 | Float64) -> int:
        """Return the sum of times of kernels of the usual steps for each of them.

        Of kernels that run beside each other, it is at most the time in which any runs.
        """
        return min(self.sum_per_step(times_ns), self.per_step(["computing"]))

    def sum_per_step(self, amounts: Int64 | Float64) -> int:
        """Return the sum of what kernels of the usual steps have, such as operations, for each of these steps."""
        return round(float(amounts.sum())) // self.steps

    def per_step(self, parts: Sequence[str], causes: Sequence[str] = ()) -> int:
        """Return the mean over the usual steps of the time of some parts, and causes if any are named.

        The parts, and the causes of a part, add up to :attr:`usual_ns`.
        """
        return sum(time for part, cause, time in self.usual_causes if part in parts and (not causes or cause in causes))

    @cached_property
    def sums(self) -> Int64:
        """The time of each step by part and cause, ``int64`` of shape (steps, parts, 1 + causes): first no cause."""
        rows = self.accounting.intervals
        codes = [rows["row"].to_numpy(), *(rows[name].cat.codes.to_numpy(np.int64) for name in ("part", "cause"))]
        codes[2] = codes[2] + 1
        shape = (len(self.accounting.steps), len(rows["part"].cat.categories), 1 + len(rows["cause"].cat.categories))
        sums = np.zeros(shape, np.int64)
        np.add.at(sums, tuple(codes), rows["duration_ns"].to_numpy())
        return sums

    def _of(self, parts: Sequence[str], causes: Sequence[str] = ()) -> Bools:
        """Return a mask of the accounting's intervals with some parts, and with causes if any are named."""
        rows = self.accounting.intervals
        is_selected = schema.matching(rows["part"], lambda name: name in parts)
        return is_selected & schema.matching(rows["cause"], lambda name: name in causes) if causes else is_selected

    def mean_step(self, parts: Sequence[str]) -> int:
        """Return the mean over the basis of the time of some parts; all parts add up to the step."""
        return sum(time for part, _, time in self.mean_causes if part in parts)

    @cached_property
    def mean_causes(self) -> list[tuple[str, str, int]]:
        """Part, cause and time of a mean step, rounded so that their sum is the mean step rounded down."""
        return self.means(self.basis.rows)

    @cached_property
    def usual_causes(self) -> list[tuple[str, str, int]]:
        """Part, cause and time of the mean of the usual steps, rounded so that their sum is it rounded down."""
        return self.means(self.basis.usual_rows)

    def means(self, steps: Int64) -> list[tuple[str, str, int]]:
        """Return part, cause and time of the mean of some steps, rounded so that their sum is it rounded down."""
        sums = np.cumsum(self.sums[steps].sum(axis=0))
        means = np.diff(sums // max(len(steps), 1), prepend=0).tolist()
        causes = ["", *self.accounting.intervals["cause"].cat.categories]
        pairs = [(part, cause) for part in PARTS for cause in causes]
        return [(*pair, time) for pair, time in zip(pairs, means, strict=True) if time]

    def times(self, steps: Int64, parts: Sequence[str], activity: str = "") -> Int64:
        """Return the time of some parts, or of one activity of the host, in each of some steps."""
        rows = self.accounting.intervals
        of_part = [name in parts for name in rows["part"].cat.categories]
        sums = self.sums[steps][:, of_part]
        causes = [None, *rows["cause"].cat.categories]
        return sums[:, :, [not activity or cause == activity for cause in causes]].sum(axis=(1, 2))

    def balanced(self, steps: Int64) -> Int64:
        """Return which of some steps all ranks and devices have, of shape (ranks, steps)."""
        table = complete(by_rank(self.accounting.steps.iloc[steps]))
        return table.to_numpy(np.int64)

    @cached_property
    def activities(self) -> dict[str, int]:
        """The host's activities in a mean step of a run without a device, the longest first."""
        times = dict.fromkeys(ACTIVITY_LABELS, 0)
        for part, cause, time in self.mean_causes:
            if part == HOST:
                times[cause] += time
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    @cached_property
    def idle_causes(self) -> dict[str, int]:
        """The idle time of a step by cause, the greatest first, without unexplained time."""
        return {name: time for name, time in self.causes_of(IDLE).items() if name not in NOT_OF_THE_HOST}

    def causes_of(self, parts: Sequence[str]) -> dict[str, int]:
        """Return the time of some parts of a step by cause, the greatest first."""
        times: dict[str, int] = {}
        for part, cause, time in self.usual_causes:
            if part in parts and cause:
                times[cause] = times.get(cause, 0) + time
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    def spans(self, parts: Sequence[str], causes: Sequence[str] = (), steps: Int64 | None = None) -> Spans:
        """Return the time of some parts in some steps, by default the usual ones, as disjoint intervals."""
        rows = self.accounting.intervals
        of_step = np.zeros(len(self.accounting.steps), np.bool_)
        of_step[self.basis.usual_rows if steps is None else steps] = True
        is_selected = (
            self._of(parts, causes) & of_step[rows["row"].to_numpy()] & rows["start_ns"].notna().to_numpy(bool)
        )
        starts = rows["start_ns"][is_selected].to_numpy(np.int64)
        return union(starts, starts + rows["duration_ns"][is_selected].to_numpy(np.int64))

    def overlapping(self, table: str, spans: Spans, rows: Int64 | None = None) -> Int64:
        """Return for rows of a table, by default all rows, the overlap of each with disjoint intervals."""
        starts, durations = (self.tables[table][name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        if rows is not None:
            starts, durations = starts[rows], durations[rows]
        return within(spans, starts, starts + durations)

    @cached_property
    def code_lines(self) -> CodeLines:
        """The costs of the lines of the user's code, in steps of every kind."""
        steps = of_every_kind(self.accounting, self.tables, self.info)
        cells, (begin, end) = executed_spans(self.info.executed), self.info.recorded
        if self.accounting.of_host and not len(cells[0]) and begin is not None and end is not None:
            cells = np.array([begin], np.int64), np.array([end], np.int64)
        return CodeLines(self.tables, steps, self._places, self.info.code, cells)

    @cached_property
    def cell_lines(self) -> CellLines:
        """The costs of the lines of the profiled cell over the basis, including their calls."""
        return self.cell_lines_over(self.basis.rows)

    def cell_lines_over(self, steps: Int64) -> CellLines:
        """Return the same costs over other rows of the accounting's steps."""
        return cell_lines(self.tables, self.accounting, self._places, self.code_lines, steps)

    @cached_property
    def has_lines(self) -> bool:
        """Whether the run names lines of the user's code, and not so many kernels that they would take too long."""
        return has_lines(self.tables) and len(self.tables["kernels"]) <= _MOST_LINED

    @cached_property
    def whole_lines(self) -> frozenset[int]:
        """The lines of the cell that launch most kernels through functions, such as ``trainer.train()``.

        They are rows of the costs of lines. What they call is named instead.
        """
        if not self.has_lines or not self.cell_lines.is_inclusive:
            return frozenset()
        sums = self.cell_lines.callees().groupby(["caller_file", "caller_line"])["launches"].sum()
        least = _WHOLE * self.cell_lines.parts["launches"].fillna(0).sum()
        whole = {place for place, count in sums.items() if pd.notna(count) and count > least}
        places = zip(self.code_lines.names["file"], self.code_lines.names["line"], strict=True)
        return frozenset(number for number, place in enumerate(places) if place in whole)

    def lines_around(self, table: str, rows: Int64) -> tuple[Int64, Int64]:
        """Return the innermost line and the cell's line of rows of a host table or ``kernels``; -1 for none.

        Both are rows of the costs of lines.
        """
        at = self.causes.launchers[rows] if table == "kernels" else rows + self.causes.first_row[table]
        callers = np.append(self.code_lines.of_statements, -1)[self._places.statements(at)[0]]
        return self.code_lines.of_rows(table, rows), callers

    def lines_of_evidence(self, table: str, rows: Int64, times: Int64) -> tuple[tuple[str, int], ...]:
        """Return the lines of the cell with at least a tenth of the time of some rows, the costliest first.

        Without a cell, and where one line of it calls everything, they are the innermost ones of the user's code.
        """
        if not self.has_lines or table not in ("python", "operators", "api", "kernels") or not len(rows):
            return ()
        innermost, callers = self.lines_around(table, rows)
        is_deep = (callers < 0) | (np.isin(callers, list(self.whole_lines)) & (innermost >= 0))
        numbers = np.where(is_deep, innermost, callers)
        sums = pd.Series(times).groupby(numbers).sum().sort_values(ascending=False, kind="stable")
        least = _OF_EVIDENCE * max(int(sums.sum()), 1)
        return tuple(
            self.code_lines.place(int(number)) for number, time in sums.items() if number >= 0 and time >= least
        )

    def lines_of(self, table: Literal["python", "operators", "api"], rows: Int64) -> pd.Categorical:
        """Return the source line of each row, ``main.py:350``; absent if unknown."""
        return lines(self._places.of(table, rows))

    def lines_of_kernels(self, rows: Int64) -> pd.Categorical:
        """Return the source line that launched each kernel, with ``about`` where that is a guess; absent if unknown."""
        places = self._places.at(self.causes.launchers[rows])
        certain = lines(places)
        named = pd.Series(certain)
        guessed = (places["known"].isin(GUESSED) & named.notna() & (named != BETWEEN)).to_numpy(bool)
        if not guessed.any():
            return certain
        return pd.Categorical(named.astype(object).where(~guessed, "about " + named.astype(object)))

    def gain(
        self,
        limit_ns: int,
        *,
        saved_ns: pd.Series[int] | None = None,
        surely: pd.Series[bool] | None = None,
        cause: Sequence[str] = (),
        part: Sequence[str] = (),
    ) -> Gain:
        """Predict by a replay how much shorter a step would be without a problem.

        Parameters
        ----------
        limit_ns
            The largest possible gain. It is also the upper limit if a replay cannot tell, because it differs from the
            recording or the run waits for ranks that were not recorded.
        """
        if saved_ns is not None:  # kernels of several streams may take longer than the time in which they run
            limit_ns = min(limit_ns, self.per_step(["computing"]))
        return self.replayed(Saves(saved_ns, surely, cause, part), limit_ns, self._replayed_gain)

    def replayed(self, saves: Saves, limit_ns: int, replay: Callable[[Saves], Replayed | None]) -> Gain:
        """Return the gain that a replay predicts; see :meth:`gain`.

        Recorded stacks make the host slower: of host time only the upper limit is known then.
        """
        prediction = replay(saves)
        if prediction is None:
            return gain_of(0, limit_ns, saves=saves)
        sure = prediction if saves.surely is None else replay(saves.least())
        least = 0 if sure is None or (saves.cause and self.stacks) else sure.gain_ns
        low, high = min(least, limit_ns), min(prediction.gain_ns, limit_ns)  # other streams may gain, too
        by_step = tuple(min(gain, limit_ns) for gain in prediction.gains_ns)
        return gain_of(
            low, high, predicted=True, checked=self.is_serial, sound=self.sound, saves=saves, gains_ns=by_step
        )

    @property
    def is_serial(self) -> bool:
        """Whether a replay keeps the order of work; the lanes of one rank do."""
        return True

    @cached_property
    def sound(self) -> bool:
        """Whether the records of all steps that figures are of are complete, as far as the examination tells."""
        complete = self.accounting.steps["complete"].to_numpy(bool)[self.basis.rows].all()
        return bool(complete) and not any(each.kind == "lost_rows" for each in self.info.examination)

    def touches_doubt(self, table: str, rows: pd.DataFrame) -> bool:
        """Return whether evidence has wrong durations, or lies where records are missing."""
        of_table = self.tables.get(table)
        if of_table is None or not len(rows) or not rows.index.isin(of_table.index).all():
            return False
        evidence = of_table.loc[rows.index]
        if RUNS_OVER in evidence and (evidence[RUNS_OVER] > 0).any():
            return True
        if not self.info.examination or not {"start_ns", "duration_ns"} <= set(evidence):
            return False
        starts, lengths = (evidence[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        devices = evidence["device_id"].to_numpy(np.int64, na_value=-1) if "device_id" in evidence else None
        for device in self.accounting.steps["device_id"].dropna().unique().tolist():
            of_device = slice(None) if devices is None else devices == device
            spans = unrecorded(self.info.examination, device)
            if within(spans, starts[of_device], starts[of_device] + lengths[of_device]).any():
                return True
        return False

    def _replayed_gain(self, saves: Saves) -> Replayed | None:
        try:
            if self._replay is None:
                return None
            factors = self.kernel_factors([saves])
            if BETWEEN_STEPS in saves.part and not self._replay.windows.between.any():
                return None  # only the host's marks tell when a step ends
            durations = task_durations(self.tables, self._replay.device, factors, dict.fromkeys(saves.part, 0))
            change = Change(durations, dict.fromkeys(saves.cause, 0), 0 if BETWEEN_STEPS in saves.part else 1)
            usual = compared(self._replay, self.accounting, self.basis.usual_rows)
            prediction = predicted(self._replay, change, [], usual)
            return Replayed(max(0, prediction.gain_ns), prediction.gains_ns)
        except NpuprofError:
            return None

    def kernel_factors(self, saves: Iterable[Saves]) -> Float64:
        """Return the factor on the duration of each kernel; where several save time of a kernel, the least counts."""
        durations = self.tables["kernels"]["duration_ns"].to_numpy(np.int64)
        factors = np.ones(len(durations))
        for saved_ns in (each.kernels_ns for each in saves):
            if saved_ns is not None:
                rows = saved_ns.index.to_numpy(np.int64)
                recorded_ns = np.maximum(durations[rows], 1)
                left = 1 - np.clip(saved_ns.to_numpy(np.int64), 0, recorded_ns) / recorded_ns
                factors[rows] = np.minimum(factors[rows], left)
        return factors

    def savings(self, saves: Iterable[Saves]) -> Savings:
        """Return when time would be saved in all steps, on the clock of the first device, as it was recorded."""
        every, saves = np.arange(len(self.accounting.steps)), list(saves)
        spans = [self.spans(IDLE, each.cause, every) for each in saves if each.cause]
        spans += [self.spans(each.part, steps=every) for each in saves if each.part]
        whole = [Savings(starts, ends, np.ones(len(starts))) for starts, ends in spans]
        saved = together([of_kernels(self.tables["kernels"], self.kernel_factors(saves)), *whole])
        clock = next(iter(self.info.clocks), None)
        if clock is None:
            return saved
        return saved._replace(starts=to_device(clock, saved.starts), ends=to_device(clock, saved.ends))

    @cached_property
    def _replay(self) -> Replay | None:
        """The replay of the run; None if other ranks determine how long it waits, or it is too large."""
        kernels, tasks, communication = (len(self.tables[name]) for name in ("kernels", "tasks", "communication"))
        with suppress(NpuprofError):
            return None if kernels + tasks > _MOST_TASKS or communication else self._prepared()
        return None

    @property
    def causes(self) -> Causes:
        """Callers of host rows, and launchers of kernels."""
        return self._places.causes

    @cached_property
    def _places(self) -> Places:
        return Places.build(self.tables)
