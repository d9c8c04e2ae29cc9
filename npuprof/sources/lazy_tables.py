"""Tables that are made when they are first touched, with the notes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from threading import RLock
from typing import Any, TypeAlias

import pandas as pd

from npuprof import tables as schema
from npuprof.tables.notes import Contents, Notes

Make: TypeAlias = Callable[[], pd.DataFrame]
Check: TypeAlias = Callable[[Mapping[str, pd.DataFrame]], None]


class LazyTables(MutableMapping[str, pd.DataFrame]):
    """The tables of a run, of which some are made when they are first touched, by any thread.

    The notes of a table are kept apart until all tables are made; then they are added in the order of the tables, and
    the checks run. Tables and notes are thus the same in whatever order the tables are touched. A table whose making is
    interrupted is made anew at the next touch.

    Parameters
    ----------
    notes
        The run's notes, into which those who make tables write. They are complete after :meth:`make_all`.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._made: dict[str, pd.DataFrame] = {}
        self._pending: dict[str, Make] = {}
        self._noted: dict[str, Notes] = {}
        self._as_made: dict[str, pd.DataFrame] = {}  # checks see tables as they were made, whatever is done to them
        self._checks: list[Check] = []
        self._names: dict[str, None] = {}
        self._within: Callable[[], AbstractContextManager[None]] = nullcontext
        self._before: Contents | None = None
        self._timed: dict[str, Make] = {}
        self._lock = RLock()

    def later(self, name: str, make: Make, times: Make | None = None) -> None:
        """Add a table that `make` returns when it is touched.

        Parameters
        ----------
        make
            Called once, unless it raises. It touches no other table, which a caller may have changed meanwhile.
        """
        with self._lock:
            self._made.pop(name, None)
            self._names[name] = None
            self._pending[name] = make
            if times is not None:
                self._timed[name] = times

    def times(self, name: str) -> pd.DataFrame | None:
        """Return at least the times of a table as they were read; None of one that is not made, and has none before."""
        with self._lock:
            return self._timed[name]() if name in self._timed else self._as_made.get(name)

    def then(self, name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
        """Change a table, if the run has it, as soon as it is made."""
        with self._lock:
            make = self._pending.get(name)
            if make is not None:
                self.later(name, lambda: change(make()), self._timed.get(name))
            elif name in self._made:
                self[name] = change(self._made[name])

    def within(self, within: Callable[[], AbstractContextManager[None]]) -> None:
        """Make tables within a context, which words their errors."""
        self._within = within

    def at_last(self, check: Check) -> None:
        """Call `check` with all tables when they are made."""
        self._checks.append(check)

    @property
    def pending(self) -> tuple[str, ...]:
        """The names of tables that are not made yet."""
        return tuple(self._pending)

    def complete(self) -> None:
        """Add the tables of the schema that the run does not have, and sort all tables by it."""
        with self._lock:
            for name in schema.NAMES:
                if name not in self._names:
                    self[name] = schema.empty(name)
            self._names = dict.fromkeys([*schema.NAMES, *self._names])

    def make_all(self) -> None:
        """Make the tables that were not touched yet, so that the notes are complete."""
        with self._lock:
            for name in self.pending:
                self[name]
            self._put_back()
            if not self._checks and not self._noted:
                return
            with self._within():
                self._before = deepcopy(self._notes.contents())
                for name in self._names:
                    if name in self._noted:
                        self._notes.extend(self._noted[name])
                for check in self._checks:
                    check({name: self._as_made[name] for name in self._names})
            self._noted, self._as_made, self._timed, self._checks, self._before = {}, {}, {}, [], None

    def __getitem__(self, name: str) -> pd.DataFrame:
        with self._lock:
            make = self._pending.get(name)
            if make is not None:
                self._put_back()
                noted = Notes()
                with self._within():
                    self._before = self._notes.contents()
                    self._notes.put(noted.contents())
                    frame = make()
                self._put_back()
                self._noted[name], self._as_made[name] = noted, frame.copy(deep=False)
                self._made[name] = frame
                del self._pending[name]
            return self._made[name]

    def _put_back(self) -> None:
        """Put back the notes from before a table that was not made, or checks that did not end: an interrupt came."""
        if self._before is not None:
            self._notes.put(self._before)
            self._before = None

    def __setitem__(self, name: str, frame: pd.DataFrame) -> None:
        with self._lock:
            self._names[name] = None
            self._pending.pop(name, None)
            self._timed.pop(name, None)
            self._made[name], self._as_made[name] = frame, frame.copy(deep=False)

    def __delitem__(self, name: str) -> None:
        with self._lock:
            del self._names[name]
            for kept in (self._pending, self._made, self._noted, self._as_made, self._timed):
                kept.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} tables: {', '.join(self)}; not made yet: {', '.join(self._pending) or 'none'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the tables as a plain dictionary for a pickle or a copy, which has all of them."""
        self.make_all()
        return dict, (dict(self),)


def completed(given_tables: MutableMapping[str, pd.DataFrame]) -> MutableMapping[str, pd.DataFrame]:
    """Return all tables of the schema in its order, empty where they are not given."""
    if isinstance(given_tables, LazyTables):
        given_tables.complete()
        return given_tables
    return {name: given_tables[name] if name in given_tables else schema.empty(name) for name in schema.NAMES}
