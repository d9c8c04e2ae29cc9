"""Read the databases of a result into one set of tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping
from functools import partial
from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Int64, first_rows
from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, PartReader, ResultReading
from npuprof.sources.columns.builders import ABSENT
from npuprof.sources.columns.steps import assign_steps
from npuprof.sources.database import analyzer, counters
from npuprof.sources.database.communication import read_communication
from npuprof.sources.database.connection import Database, open_database
from npuprof.sources.database.device import Tasks, kernels_table, read_tasks
from npuprof.sources.database.host import HostCalls, api_table, read_framework
from npuprof.sources.database.known_tables import KNOWN
from npuprof.sources.database.layout import DatabaseFiles, add_facts, describe_directory, kind_of
from npuprof.sources.database.links import links_table
from npuprof.sources.database.lost_tables import note_lost_sums, note_lost_tables
from npuprof.sources.database.marks import marks_table
from npuprof.sources.database.memory import allocations_table, memory_table
from npuprof.sources.database.names import UNNAMED, TextsById
from npuprof.sources.database.overlap import overlap_of
from npuprof.sources.database.passthrough import rest_of
from npuprof.sources.database.processes import read_processes
from npuprof.sources.database.references import (
    kernels_of_tasks,
    note_gaps,
    note_lacking,
    note_undescribed,
    note_unlaunched,
)
from npuprof.sources.database.versions import ReportDatabase, is_report, note_shape
from npuprof.sources.text.vendor_sums import add_listed_operators, check_collectives
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_Read: TypeAlias = Callable[[Database, TextsById], Mapping[str, pd.DataFrame | None]]
_ALONE: tuple[tuple[tuple[str, ...], _Read], ...] = (
    (
        ("operators", "python", "steps"),
        lambda database, strings: read_framework(database, strings, read_processes(database)).tables,
    ),
    (("tasks",), lambda database, strings: {"tasks": read_tasks(database, strings, read_processes(database)).table}),
    (("memory",), lambda database, strings: {"memory": memory_table(database, strings)}),
    (("allocations",), lambda database, strings: {"allocations": allocations_table(database, strings)}),
    (("counters",), lambda database, strings: {"counters": counters.counters_table(database, strings)}),
)


class DatabaseReading(ResultReading):
    """Reader of the databases of a result."""

    def __init__(self, layout: DatabaseFiles) -> None:
        super().__init__(Decoded())
        self._layout = layout

    def run(self) -> Decoded:
        """Read the newest profile and the analyses.

        Raises
        ------
        SourceError
            If none can be read: the first error.
        """
        self.decoded.info = describe_directory(self._layout, self.notes)
        if self._layout.profile:
            path = self._layout.profile[0]
            with self.skip_unreadable(path), open_database(path, self.notes) as database:
                self._read_profile(database)
        for earlier in self._layout.profile[1:]:
            self.notes.info(earlier.name, "an older database of the same result is not shown: load it by itself")
        for path in self._layout.analysis:
            with self.skip_unreadable(path), open_database(path, self.notes) as database:
                self._read_analysis(database)
        root = self._layout.root
        empty = f"{root} holds databases whose tables are all empty; export the result again"
        self.refuse_nothing(lambda: SourceError(empty))
        add_listed_operators(self.decoded)
        check_collectives(self.decoded)
        self.name_devices()
        return self.decoded

    def parts(self) -> dict[str, PartReader]:
        """Return the tables that need no other table, as :meth:`run` makes them."""

        def read(names: tuple[str, ...], make: _Read, notes: Notes, _: Collection[str]) -> dict[str, pd.DataFrame]:
            frames = {name: tables.empty(name) for name in names}
            for path in self._layout.profile[:1]:
                with open_database(path, notes) as opened:
                    database = _versioned(opened)
                    _put(frames, make(database, TextsById(database, "STRING_IDS", "value")))
            return frames

        return {name: PartReader(partial(read, names, of)) for names, of in _ALONE for name in names} | {
            "step_times": PartReader(self._step_times)
        }

    def _step_times(self, notes: Notes, _: Collection[str]) -> dict[str, pd.DataFrame]:
        frames = {"step_times": tables.empty("step_times")}
        info = describe_directory(self._layout, notes)
        for path in (*self._layout.profile[:1], *self._layout.analysis):
            with open_database(path, notes) as opened:
                database = _versioned(opened)
                if path not in self._layout.analysis:
                    add_facts(info, database)
                _put(frames, {"step_times": analyzer.step_times_table(database, _only_device(info))})
        return frames

    def _read_profile(self, database: Database) -> None:
        _refuse_others(database)
        database = _versioned(database)
        note_shape(database)
        note_lacking(database)
        add_facts(self.decoded.info, database)
        strings = TextsById(database, "STRING_IDS", "value")
        if not len(strings):
            self.notes.warning(database.path.name, f"STRING_IDS is missing or empty: {UNNAMED}")
        by_name = self.decoded.tables
        processes = read_processes(database)
        calls = read_framework(database, strings, processes)
        by_name.update(calls.tables)
        tasks = read_tasks(database, strings, processes)
        communication = read_communication(database, strings, tasks, processes)
        marks, connections = marks_table(database, strings, tasks)
        _put(by_name, {"api": api_table(database, strings, processes), "marks": marks, **communication})
        if len(tasks.table):
            by_name["tasks"] = tasks.table
        self._device_tables(database, strings, tasks)
        _put(
            by_name,
            {
                "overlap": overlap_of(database, by_name),
                "memory": memory_table(database, strings),
                "allocations": allocations_table(database, strings),
                "counters": counters.counters_table(database, strings),
            },
        )
        self._links(calls, connections)
        self.decoded.statistics.update(rest_of(database, strings, KNOWN))
        self._sums(database)
        note_gaps(database, KNOWN)
        note_lost_tables(database, self.decoded.info)
        database.note_unread(KNOWN)

    def _device_tables(self, database: Database, strings: TextsById, tasks: Tasks) -> None:
        by_name = self.decoded.tables
        note_unlaunched(database, tasks)
        collectives = by_name.get("communication")
        kernels = kernels_table(database, strings, tasks, collectives)
        if len(kernels):
            by_name["kernels"] = kernels
            note_undescribed(database, tasks)
        else:
            kernels_of_tasks(database, self.decoded)
        _name_items(by_name)

    def _links(self, calls: HostCalls, marks: Int64) -> None:
        links = links_table(self.decoded.tables, calls, marks, self.notes)
        if len(links):
            self.decoded.tables["links"] = links
        if "steps" in self.decoded.tables:
            assign_steps(self.decoded.tables, ("kernels", "communication"))

    def _read_analysis(self, database: Database) -> None:
        note_shape(database)
        note_gaps(database, KNOWN)
        level, collectives = self.decoded.info.options.get("level"), self.decoded.tables.get("communication")
        note_lost_sums(database, communicates=level in (1, 2) and collectives is not None)
        self._sums(database)

    def _sums(self, database: Database) -> None:
        device = _only_device(self.decoded.info)
        _put(self.decoded.tables, {"step_times": analyzer.step_times_table(database, device)})
        self.decoded.statistics.update(analyzer.communication_statistics(database))


def _only_device(info: Info) -> int | None:
    return info.devices[0] if info.devices else None


def _versioned(database: Database) -> Database:
    """Return a database in the present form."""
    return ReportDatabase(database) if is_report(database.tables) else database


def _refuse_others(database: Database) -> None:
    kind = kind_of(database.tables)
    path = database.path
    if kind == "cluster":
        raise SourceError(f"{path} is a database of a cluster's analysis, not of one run; load the rank's own result")
    if not kind:
        raise SourceError(
            f"{path} is an SQLite database without any table of a profile ({counted(len(database.tables), 'table')}); "
            "if its tables were dropped, export the result again"
        )


def _put(by_name: MutableMapping[str, pd.DataFrame], made_tables: Mapping[str, pd.DataFrame | None]) -> None:
    by_name.update({name: frame for name, frame in made_tables.items() if frame is not None})


def _name_items(by_name: MutableMapping[str, pd.DataFrame]) -> None:
    """Set the column `item` of launch calls to the operator's name."""
    api = by_name.get("api")
    if api is None:
        return
    launches = api["level"].isin(("node", "communication")).to_numpy()
    calls = np.where(launches, api["connection_id"].to_numpy(np.int64, na_value=ABSENT), ABSENT)
    names = np.full(len(api), None, object)
    for name in ("communication", "kernels"):
        if (frame := by_name.get(name)) is not None and len(frame):
            row = first_rows(frame["connection_id"].to_numpy(np.int64, na_value=ABSENT), calls)
            is_known = (row >= 0) & (calls != ABSENT)
            names[is_known] = frame["name"].astype(object).to_numpy()[row[is_known]]
    api["item"] = pd.Categorical(names)
