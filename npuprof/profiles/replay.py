"""Replays of a profile: predicted times after a change, and the critical path."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from npuprof.parameters import checked
from npuprof.profiles.table_attributes import RunFacts

if TYPE_CHECKING:
    from npuprof.analysis.accounting import Accounting
    from npuprof.analysis.prediction import Prediction
    from npuprof.analysis.replay import Replay
    from npuprof.sources.base import Decoded

_Run = TypeVar("_Run", bound="ProfileReplay")


@checked
class ProfileReplay(RunFacts):
    """Predictions and the critical path from the replay of a run."""

    tables: MutableMapping[str, pd.DataFrame]

    @property
    @abstractmethod
    def accounting(self) -> Accounting:
        """The breakdown of the run's steps."""

    @property
    @abstractmethod
    def aligned(self) -> Mapping[str, pd.DataFrame]:
        """The tables on the host's clock."""

    @cached_property
    def _replay(self) -> Replay:
        from npuprof.analysis.what_if import replay_of

        return replay_of(self.aligned, self.info)

    def what_if(
        self,
        *,
        transfer: float = 1.0,
        kernel: Mapping[str, float] | None = None,
        cause: Mapping[str, float] | None = None,
        part: Mapping[str, float] | None = None,
    ) -> Prediction:
        """Predict the time of a step if parts of it were faster or slower, by replaying the run.

        Host threads and streams keep their recorded order; a task or call starts once everything that it waits for has
        ended. Collectives take their recorded time: other ranks are not in the run.

        Parameters
        ----------
        transfer
            Factor on the time in which collectives move data: 0 for infinitely fast links.
        kernel
            Factors by name or type of kernel: ``{"Cast": 0, "MatMulV3": 0.8}``.
        cause
            Factors on host time, by cause of idle time as in :meth:`breakdown`: ``{"dataloader": 0}``. With
            ``sync_call`` at 0 the host does not wait for the device.
        part
            Factors on ``computing``, ``copy``, ``communication`` or its parts ``waiting`` and ``moving``.

        Returns
        -------
        Prediction
            ``predicted_ns`` of a step, ``gain_ns``, a table of the ``steps``, and as a check ``replayed_ns`` without
            changes, next to ``recorded_ns``.

        Raises
        ------
        OptionsError
            If a name is unknown, or a factor is negative.
        NpuprofError
            If the replay of the unchanged run is off by more than 1 % of the recorded time.
        """
        from npuprof.analysis.what_if import what_if

        factors = {"kernel": kernel, "cause": cause, "part": part}
        return what_if(self.tables, self._replay, self.accounting, transfer=transfer, **factors)

    @abstractmethod
    def _like(self: _Run, decoded: Decoded) -> _Run:
        """Return a run of other tables, with the same place of code."""

    def replayed(
        self: _Run,
        *,
        transfer: float = 1.0,
        kernel: Mapping[str, float] | None = None,
        cause: Mapping[str, float] | None = None,
        part: Mapping[str, float] | None = None,
    ) -> _Run:
        """Return the run as it would be after a change, to show it with this run: ``run.explore(beside=...)``.

        The parameters are those of :meth:`what_if`. Host calls, markers, steps, kernels, collectives, copies and events
        are moved as the replay moves them; what it does not move, such as counters, is left out.

        Raises
        ------
        OptionsError
            If a name is unknown, or a factor is negative.
        NpuprofError
            If the replay of the unchanged run is off by more than 1 % of the recorded time.
        """
        from npuprof.analysis.ghost import replayed_tables
        from npuprof.analysis.what_if import change_of
        from npuprof.sources.base import Decoded
        from npuprof.tables.notes import Notes

        change, words = change_of(self.tables, self._replay, transfer=transfer, kernel=kernel, cause=cause, part=part)
        name = f"as it would be: {', '.join(words) or 'unchanged'} (replayed, not recorded)"
        examination = [replace(each, spans=()) for each in self.info.examination]  # whose times are those recorded
        name = f"{self.info.name}, {name}" if self.info.name else name
        info = replace(self.info, name=name, recording=None, examination=examination)
        return self._like(Decoded(replayed_tables(self.tables, self._replay, change), info, Notes()))

    def critical_path(self) -> pd.DataFrame:
        """Return the critical path of each step, traced from the end of the step back to its start.

        Returns
        -------
        pandas.DataFrame
            ``segment``, ``rank``, ``step``, ``lane`` (a thread or a stream), ``kind``, ``start_ns``, ``duration_ns``,
            ``name``, ``table`` and ``row`` of the call or task; the durations of a step add up to it exactly.

        Raises
        ------
        NpuprofError
            If the replay of the unchanged run is off by more than 1 % of the recorded time.
        """
        from npuprof.analysis.replay_path import critical_path

        return critical_path(self._replay, self.tables, self.info.rank)
