"""A profile: the tables of a run, facts about it, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from npuprof import interactive
from npuprof.errors import NpuprofError
from npuprof.files import atomic
from npuprof.parameters import checked
from npuprof.profiles.annotations import ProfileAnnotations
from npuprof.profiles.exports import Exports
from npuprof.profiles.figures import ProfileFigures
from npuprof.profiles.replay import ProfileReplay
from npuprof.profiles.selection import ProfileSelection, SelectedRows, decoded_part
from npuprof.sources.base import Decoded
from npuprof.sources.lazy_tables import LazyTables, completed
from npuprof.tables.info import DeviceClock, Info
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted
from npuprof.words.texts import LongText

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from ipywidgets import Widget

    from npuprof.advice.finding import Finding
    from npuprof.advice.findings import Advice
    from npuprof.analysis.accounting import Accounting
    from npuprof.analysis.by import Key
    from npuprof.analysis.chip_limits import ChipLimits
    from npuprof.analysis.summary import Summary
    from npuprof.arrays import Int64
    from npuprof.exports.chrome_trace import TracedRun
    from npuprof.profiles.comparison import Comparison
    from npuprof.report.code import AnnotatedCode
    from npuprof.report.lines import UserCode
    from npuprof.report.model import Report
    from npuprof.sources.unread import UnreadRun

_ADVICE_BYTES, _ADVICE_BYTES_OF_KERNELS = 100, 400  # for each row, and more for a kernel: half was measured at the peak


@checked
class Profile(LongText, ProfileAnnotations, ProfileSelection, ProfileReplay, ProfileFigures, Exports):
    """A run: its tables as attributes (``run.kernels``), ``info``, ``notes`` and figures.

    Every table that :func:`npuprof.explain` knows is present; a table without data is empty. Tables of some formats are
    made when they are first touched, and their notes with them; whatever shows notes makes all tables first.

    Attributes
    ----------
    tables
        The tables by name.
    """

    def __init__(
        self, decoded: Decoded | UnreadRun, code_root: Path | None = None, whole: Accounting | None = None
    ) -> None:
        self.tables: MutableMapping[str, pd.DataFrame] = completed(decoded.tables)
        self._decoded = decoded
        self._code_root = code_root
        self._whole_accounting = whole  # of the run whose rows these are a selection of

    def _named(self, name: str) -> pd.DataFrame:
        return self.tables[name]

    @cached_property
    def info(self) -> Info:
        """Facts about the run, such as ``info.chip``, ``info.collector`` and ``info.simulated``; shown, a line each."""
        return self._decoded.info

    @cached_property
    def statistics(self) -> dict[str, pd.DataFrame]:
        """Tables that the vendor has already summed, by file name without suffix."""
        return self._decoded.statistics

    @property
    def _notes(self) -> Notes:
        if isinstance(self.tables, LazyTables):
            self.tables.make_all()  # each table may have notes
        return self._decoded.notes

    @property
    def notes(self) -> pd.DataFrame:
        """Repaired, skipped and unknown data: severity, source, message, count, lacks, missing_rows."""
        return self._notes.to_frame()

    @property
    def ledger(self) -> pd.DataFrame:
        """How each input's rows were used: input, rows, in_tables, used (for other rows), left_out (in notes)."""
        return self._notes.ledger.to_frame()

    @property
    def _clocks(self) -> list[DeviceClock]:
        """The clocks of the devices, which lazy tables have not told yet where no notes were shown."""
        if not self.info.clocks:
            from npuprof.analysis.device_clocks import device_clocks

            self.info.clocks = device_clocks(self.tables)
        return self.info.clocks

    @cached_property
    def aligned(self) -> Mapping[str, pd.DataFrame]:
        """The tables with the times of devices on the host's clock, and durations that do not run over the next row.

        They are :attr:`tables` where nothing needs a correction; notes tell of each that does.
        """
        from npuprof.analysis.device_clocks import on_host_clock
        from npuprof.analysis.examination import without_overruns

        return without_overruns(on_host_clock(self.tables, self._clocks))

    @cached_property
    def summary(self) -> Summary:
        """The key figures of the run."""
        from npuprof.analysis.summary import summarise

        return summarise(self.aligned, self.info, self.accounting)

    @cached_property
    def accounting(self) -> Accounting:
        """Each nanosecond of each step by part and cause; :meth:`breakdown` is its table.

        Returns
        -------
        npuprof.analysis.accounting.Accounting
            ``steps`` has ``rank``, ``device_id``, ``step``, ``duration_ns``, ``basis`` (what its ends are of),
            ``complete`` (whether no record of its device is lost),
            ``head_known`` (whether the device was idle before its first task, and not busy with an earlier step) and
            ``closed`` (whether the next step follows); ``intervals`` has ``row`` (of ``steps``), ``part``, ``cause``,
            ``start_ns`` and ``duration_ns``.
        """
        from npuprof.analysis.accounting import account
        from npuprof.analysis.coverage import covered
        from npuprof.analysis.device_clocks import apart

        if self._whole_accounting is not None:
            return covered(self._whole_accounting, self.aligned)
        if isinstance(self.tables, LazyTables):
            self.tables.make_all()  # what is missing in any of them is known then
        info = self.info
        without_host = apart(self._clocks)
        of_run = info.executed, info.examination, info.recorded
        return account(self.aligned, info.rank, info.selection, without_host, *of_run)

    def _single_rows(self) -> Int64:
        basis = self.accounting.basis
        return np.setdiff1d(basis.rows, self.advice().judged_rows) if basis.outliers else basis.rows[:0]

    def _step_parts(self) -> pd.DataFrame:
        return self.accounting.by_part()

    def breakdown(self) -> pd.DataFrame:
        """Return the time of each step by part and cause: rank, device_id, step, part, cause and duration_ns.

        The rows of a step add up exactly to its duration: the time of its mark that no later step covers, and the
        work of the device between it and the next consecutive step. The parts are ``computing``, exposed
        communication (``waiting``, ``moving``, or ``communication`` where neither is known), ``copy``, idle time
        before, between and after the work of a step (``idle_head``, ``idle_inside``, ``idle_tail``),
        ``between_steps``, and ``host`` of a run without a device.
        Of a selection of rows the parts are of the time that its rows cover, and the rest is ``not selected``.
        """
        from npuprof.analysis.coverage import with_rest

        shown = self.accounting.breakdown()
        return shown if self._whole_accounting is None else with_rest(shown, self.accounting, self._whole_accounting)

    def _like(self, decoded: Decoded) -> Profile:
        return type(self)(decoded, self._code_root)

    def _part(self, selected: SelectedRows) -> Profile:
        whole = None if selected.rows is None else self.accounting
        return type(self)(decoded_part(self.tables, self.info, selected), self._code_root, whole)

    def advice(self) -> Advice:
        """Return the findings: what makes a step slow, what that costs and what to do, greatest gain first.

        Iterate over it, index it by rule (``advice["host_bound"]``), or use ``to_frame()`` and ``to_json()``.
        """
        return self._advice

    @cached_property
    def _advice(self) -> Advice:
        return self._advised(self.accounting)

    def _advised(self, accounting: Accounting) -> Advice:
        """Return the findings by an accounting: one of a job has its outliers."""
        from npuprof.advice.facts import Facts
        from npuprof.advice.findings import Advice, advise
        from npuprof.report.advice import render_advice
        from npuprof.sources.files.memory_limit import left_out

        rows = sum(map(len, self.tables.values()))
        needed_bytes = _ADVICE_BYTES * rows + _ADVICE_BYTES_OF_KERNELS * len(self.kernels)
        if problem := left_out("findings and lines of the code are", needed_bytes):
            facts = Facts(self.aligned, self.info, accounting)
            return Advice(facts, [], self.explore, render=render_advice, left_out=problem)
        return advise(
            self.tables,
            self.info,
            accounting,
            self.explore,
            render_advice,
            aligned=self.aligned,
            replay=lambda: self._replay,
        )

    def code(self) -> AnnotatedCode:
        """Return the user's code with the costs of each line; show it, or take the table with ``.to_frame()``.

        The costs of a line are device time (with that of the backward pass), idle time of the device meanwhile, host
        time, launches, and memory at the peak. The text is that of the recording, or of the files below the folder
        ``code_root`` of :func:`npuprof.load`.

        Returns
        -------
        npuprof.report.code.AnnotatedCode
            Its table has ``file``, ``line``, ``text``, ``device_ns``, ``idle_ns``, ``host_ns``, ``launches`` and
            ``peak_bytes``; the last row has no line, so that device time, idle time and launches add up to the run.
        """
        return self._code

    @cached_property
    def _code(self) -> AnnotatedCode:
        from npuprof.report.code import annotate

        return annotate(self.advice(), self._code_root)

    @cached_property
    def _user_code(self) -> UserCode | None:
        from npuprof.analysis.code_lines import has_lines
        from npuprof.report.code import texts_of
        from npuprof.report.lines import UserCode

        if not has_lines(self.tables) or self.advice().left_out:
            return None
        return UserCode(self.advice().facts, texts_of(self.info, self._code_root))

    @cached_property
    def _report(self) -> Report:
        """Return the unfolded report; folded parts are made where they are shown."""
        from npuprof.report.run import report_of_run

        return report_of_run(self, lambda: self._user_code)

    @cached_property
    def launches(self) -> pd.DataFrame:
        """Each kernel with the operator, the CANN call and the line of Python that launched it.

        Returns
        -------
        pandas.DataFrame
            A row per row of ``kernels``, in the same order:

            * ``device_id``, ``stream_id``, ``start_ns`` and ``duration_ns`` (as recorded), ``name`` and ``op_type`` of
              the kernel, and ``step``: the one in which it started, as :meth:`breakdown` counts it;
            * ``operator`` and ``operator_row``: the innermost operator that launched the kernel, if recorded, and its
              row in ``operators``; ``outer_operator``: the outermost operator; ``op`` and ``op_row``: the innermost
              operator of the framework's library, such as ``aten::mul`` where ``operator`` is ``aclnnMuls``;
            * ``api``, ``api_row``, ``thread_id`` and ``launch_ns``: the CANN call, its thread and its start (of the
              launching operator, for a kernel without a call), and ``launch_delay_ns``: the time from then to the start
              of the kernel on the host's clock, absent where that is negative: the clocks of host and device are then
              further apart than the launch took;
            * ``file``, ``line``, ``function`` and ``module`` of the user's code that launched it, of a kernel of the
              backward pass those of its forward pass; ``entered``: whether the line is only the start of the function;
              and ``known``: how the line is known.
        """
        from npuprof.analysis.launches import launches

        return launches(self.tables, self._clocks)

    def step_statistics(self) -> pd.DataFrame:
        """Compare the steps: median, 95th percentile and outliers, for the step and each of its parts.

        Returns
        -------
        pandas.DataFrame
            ``rank``, ``device_id``, ``part``, ``steps``, ``median_ns``, ``p95_ns``, ``max_ns`` and ``outliers`` (step
            numbers).
        """
        from npuprof.analysis.step_statistics import step_statistics

        return step_statistics(self.accounting)

    def by(self, *keys: Key) -> pd.DataFrame:
        """Sum kernels by their callers and kinds: ``run.by("line")``, ``run.by("op", "shapes")``.

        Of a run without a device, operators are summed, by their own time on the host: without what they called.

        Parameters
        ----------
        keys
            One or more, in any order: ``"line"`` and ``"module"`` of the user's code, ``"op"`` (the framework's
            operator), ``"op_type"``, ``"kernel"`` (the kernel's name), ``"shapes"`` and ``"dtypes"`` of the inputs,
            ``"core"``, ``"step"``, ``"stream"``, ``"device"`` and ``"rank"``. Backward kernels have the line of their
            forward pass. Where only samples tell lines, a kernel that was launched between samples of different
            functions has the line ``between samples``, as have all where functions come and go between two samples;
            ``launches["known"]`` says how each line is known.

        Returns
        -------
        pandas.DataFrame
            A row per combination, greatest total first: the keys, ``count``, ``total_ns``, ``mean_ns``, ``std_ns``,
            ``min_ns``, ``median_ns``, ``p95_ns`` and ``max_ns`` on the device, ``share`` of all kernel time (0..1),
            ``host_ns`` (host time of the operators that launched the kernels) and ``launch_delay_ns`` (median time from
            the call to the start, on the host's clock). Kernels without a value for a key are summed under ``<NA>``,
            shown as a dash, so that nothing is left out. ``step`` is that of :meth:`breakdown`. Means and medians are
            rounded down, ``std_ns`` is of the population (divided by the count), and ``p95_ns`` a value that occurred
            (nearest rank).
            ``count`` and ``rank`` are methods of a DataFrame: write ``run.by("op")["count"]``. By ``line``, where
            samples tell lines, the true share is within ``share_error`` of ``share`` with a probability of 95 %: 0
            where lines are certain. ``overruns`` is the number of kernels whose recorded duration runs over the next
            one of their stream, and is wrong; without any, there is no such column.

        Raises
        ------
        OptionsError
            If a key is unknown or repeated, or no key is given.
        """
        from npuprof.analysis.by import checked_keys, sums, with_overruns, with_share_errors

        chosen = checked_keys(keys)
        rows = self._summed_rows(chosen)
        return with_overruns(with_share_errors(sums(rows, chosen), rows, chosen), rows, chosen)

    def with_detected_steps(self) -> Profile:
        """Return the run with steps of a sequence of kernels that comes again and again: a guess, called detected.

        Raises
        ------
        NpuprofError
            If the run has steps, or no sequence makes up most of its kernels.
        """
        from npuprof.sources.detected import with_steps

        tables, notes = with_steps(self.tables, self.accounting, self.notes)
        return Profile(Decoded(tables, self.info, notes, dict(self.statistics)), self._code_root)

    def _summed_rows(self, keys: Sequence[Key], rank: int | None = None) -> pd.DataFrame:
        """Return the rows that :meth:`by` sums: kernels, or without a device operators; `rank` is for a run without."""
        from npuprof.analysis.by import kernel_rows, operator_rows
        from npuprof.analysis.host_accounting import is_of_host

        rank = rank if self.info.rank is None else self.info.rank
        if is_of_host(self.tables):
            return operator_rows(self.tables, keys, rank)
        return kernel_rows(self.tables, self.launches, keys, rank)

    def efficiency(
        self, each: Literal["shapes", "kernel"] = "shapes", *, limits: ChipLimits | None = None
    ) -> pd.DataFrame:
        """Compare the operations and bytes of kernels with the limits of the chip.

        Parameters
        ----------
        each
            What a row stands for: all kernels of one type, shapes and data types, or one kernel.
        limits
            The limits of the chip; by default from the kernels' counters and the name in ``info.chip``.

        Returns
        -------
        pandas.DataFrame
            What kernels they are (``op_type``, ``core``, ``input_shapes``, ``input_dtypes``, ``hf32``), ``count``,
            ``total_ns``, ``share`` of all kernel time, and per kernel ``mean_ns``, ``flops`` (at least; ``flops_most``
            without a mask), ``bytes`` (at least), their origin (``flops_from``, ``bytes_from``: ``counted`` or ``from
            shapes``), the achieved ``flops_per_s`` and ``bytes_per_s``, ``roof_ns`` (the time at the chip's limits),
            ``efficiency`` (``roof_ns`` over the mean, 0..1), ``bound`` (``cube``, ``vector`` or ``memory``; empty where
            operations are unknown), ``of_best`` (the rate relative to the best in the run) and ``note`` (why a figure
            is doubtful). ``attrs`` has the chip and the share of kernel time covered.

        Raises
        ------
        OptionsError
            If `each` is neither ``"shapes"`` nor ``"kernel"``.
        """
        from npuprof.analysis.efficiency import efficiency

        return efficiency(self.tables, self.info.chip, each=each, limits=limits)

    def memory_peak(self) -> pd.DataFrame:
        """Return the owners of each device's memory at its peak.

        Returns
        -------
        pandas.DataFrame
            ``device_id``, ``time_ns``, ``category`` (``allocated before this run``, ``temporary``, ``optimizer``,
            ``backward``, ``forward`` or ``unknown``), ``line``, ``module``, ``op``, ``blocks``, ``size_bytes`` and
            ``share``, largest first; sizes add up to the peak.
        """
        from npuprof.analysis.memory_peak import memory_peak

        return memory_peak(self.tables)

    def memory_leaks(self) -> pd.DataFrame:
        """Return the call sites whose memory grew from step to step, for at least three steps up to the last.

        Returns
        -------
        pandas.DataFrame
            ``device_id``, ``line``, ``op``, ``steps``, ``growth_bytes`` and ``bytes_per_step``; ``attrs["state"]`` is
            ``fires``, ``clean`` or ``cannot tell``, with the reason in ``attrs["why"]``.
        """
        from npuprof.analysis.memory_peak import memory_leaks

        return memory_leaks(self.tables)

    def __sub__(self, other: Profile) -> Comparison:
        """Return the difference of a step of this run and a step of `other`: its size, and where that time is spent."""
        from npuprof.profiles.comparison import Comparison

        if not isinstance(other, Profile):
            return NotImplemented
        return Comparison.of([[self]], [[other]])

    def explore(
        self,
        finding: Finding | None = None,
        *,
        window: tuple[int, int] | None = None,
        beside: Profile | None = None,
        saved_bytes: int = 1_000_000,
        tracks: Mapping[str, pd.DataFrame] | None = None,
    ) -> Widget:
        """Return the explorer, a live view with a tab for each kind of data; make it the last line of a cell.

        The output that a notebook saves holds the run, too, so that it can be explored without a kernel: in a trusted
        notebook and in what nbconvert makes of it.

        Parameters
        ----------
        finding
            A finding of :meth:`advice` whose evidence is shown first; ``finding.show()`` does the same.
        window
            Start and end of the timeline's window in epoch nanoseconds; the timeline tab is opened.
        beside
            Another run, whose timeline is shown below this run's timeline and moves with it, with their difference.
            Ranks that ran together are aligned by their clocks, other runs by their first step.
        saved_bytes
            The size of what the output holds of the run; 0 for nothing. Columns of details that do not fit are left
            out, and then the shortest slices share bars, and the view says how many.
        tracks
            Frames by title that become tracks of the timeline, such as ``{"long copies": run.sql("select ...")}``:
            slices with ``start_ns``, ``duration_ns`` and ``name``, or samples of a counter with ``time_ns`` and
            ``value``.

        Raises
        ------
        OptionsError
            If a track has neither, or its times are no whole nanoseconds.
        """
        return interactive.explorer(self, finding, window, beside, saved_bytes, tracks)

    def to_html(self, path: str | PathLike[str], *, beside: Profile | None = None) -> Path:
        """Write a self-contained page with the report, the explorer and the notes; return its path.

        The explorer needs no kernel: it has the timeline at any zoom, the flame graph with callers and callees of a
        frame, tables, and the details of each slice. Beyond about 8 bytes a slice, columns of details are left out.
        `beside` is another run, such as :meth:`replayed`, whose explorer is below and moves with it.
        """
        from npuprof.exports.explorer import explorers

        return atomic.write_text(path, self._page({}, explorers(self, *([] if beside is None else [beside]))))

    def to_markdown(self) -> str:
        """Return the report as at most 60 lines of Markdown, for an issue, a pull request or an assistant.

        It has what was recorded, and what is missing, and the findings with their gain, evidence and lines. Home
        folders, users and hosts are shortened, and names from the recording stand as data.
        """
        return f"{self._described()}\n\n{self._advised_text()}"

    def _described(self) -> str:
        """Return the recorded data as Markdown."""
        from npuprof.report.markdown import described_run

        return described_run(self.info, self.tables, self.notes)

    def _advised_text(self, first: int = 1) -> str:
        """Return the findings from number `first` on, as Markdown."""
        from npuprof.report.markdown import advised

        return advised(self.advice(), self._report.codes, first=first)

    @property
    def _table_names(self) -> Sequence[str]:
        return [*{**self.statistics, **self.tables, "launches": None, "notes": None}]

    def _table(self, name: str) -> pd.DataFrame:
        if name not in self._table_names:
            raise NpuprofError(f"there is no table {name!r}; the tables are {', '.join(self._table_names)}")
        if name in ("notes", "launches"):
            return getattr(self, name)
        return self.tables[name] if name in self.tables else self.statistics[name]

    def _page(self, figures: Mapping[str, go.Figure], explorer: str = "") -> str:
        from npuprof.exports.html import page_html

        return page_html(self._whole_report(), figures, explorer=explorer)

    def _whole_report(self) -> Report:
        from npuprof.report.run import folds_of_run

        return replace(self._report, folds=folds_of_run(self, lambda: self._user_code))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the profile as a directory of Parquet files, which ``npuprof.load`` reads back; return its path.

        :meth:`save` is the same method.

        Raises
        ------
        NpuprofError
            If the directory exists and is not empty.
        """
        from npuprof.sources import saved

        directory = atomic.empty_directory(path)
        saved.write(directory, self._whole())
        return directory

    def _whole(self) -> Decoded:
        return Decoded(dict(self.tables), self.info, self._notes, self.statistics)

    def _runs_to_write(self) -> list[TracedRun]:
        from npuprof.exports.chrome_trace import TracedRun

        return [TracedRun(self._whole())]

    def _one_line(self) -> str:
        """Return the name of the run, its front end, and how much was recorded."""
        by = f" of {self.info.collector or self.info.source}" if self.info.collector or self.info.source else ""
        much = ", ".join(counted(len(frame), word) for frame, word in ((self.kernels, "kernel"), (self.steps, "step")))
        return f"{self.info.name}{by}: {much}; print() shows its report"

    def __str__(self) -> str:
        from npuprof.report.text import report_text

        return report_text(self._report)

    def _repr_html_(self) -> str:
        from npuprof.report.html import report_html

        interactive.keep_keys()
        return report_html(self._whole_report())
