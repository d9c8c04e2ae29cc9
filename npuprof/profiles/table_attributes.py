"""The tables of a run or of a set of ranks as attributes, and the facts about a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, overload

from npuprof.tables.schema import SCHEMA

if TYPE_CHECKING:
    import pandas as pd

    from npuprof.tables.info import Info


class _Table:
    """The table with the name of the attribute; one that is made when it is touched is made then."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self.__doc__ = f"A row for each {SCHEMA[name].row}; `npuprof.explain({name!r})` explains the columns."

    @overload
    def __get__(self, run: None, owner: type) -> _Table: ...

    @overload
    def __get__(self, run: TableAttributes, owner: type) -> pd.DataFrame: ...

    def __get__(self, run: TableAttributes | None, owner: type) -> Any:
        return self if run is None else run._named(self._name)


class RunFacts(ABC):
    """The attributes that the parts of a profile read."""

    @property
    @abstractmethod
    def info(self) -> Info:
        """Facts about the run."""


class TableAttributes(ABC):
    """The tables of :data:`npuprof.tables.schema.SCHEMA` as attributes."""

    steps = _Table()
    python = _Table()
    sampled_lines = _Table()
    statements = _Table()
    iterations = _Table()
    operators = _Table()
    api = _Table()
    tasks = _Table()
    kernels = _Table()
    communication = _Table()
    communication_tasks = _Table()
    links = _Table()
    overlap = _Table()
    step_times = _Table()
    memory = _Table()
    allocations = _Table()
    counters = _Table()
    marks = _Table()

    @abstractmethod
    def _named(self, name: str) -> pd.DataFrame:
        """Return a table by its name."""
