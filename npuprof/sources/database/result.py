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
from npuprof.sources.database.analyzer import communication_statistics, step_times_table
from npuprof.sources.database.checks import (
    note_gaps,
    note_lacking,
    note_lost_sums,
    note_lost_tables,
    note_shape,
)
from npuprof.sources.database.communication import read_communication
from npuprof.sources.database.connection import open_database
from npuprof.sources.database.counters import counters_table
from npuprof.sources.database.device import (
    Tasks,
    kernels_of_tasks,
    kernels_table,
    note_undescribed,
    note_unlaunched,
    read_tasks,
)
from npuprof.sources.database.host import HostCalls, read_framework
from npuprof.sources.database.layout import DatabaseFiles, add_facts, describe_directory, kind_of
from npuprof.sources.database.links import links_table
from npuprof.sources.database.marks import marks_table
from npuprof.sources.database.memory import allocations_table, memory_table
from npuprof.sources.database.overlap import overlap_of
from npuprof.sources.database.passthrough import rest_of
from npuprof.sources.database.reader import UNNAMED, Reader
from npuprof.sources.text.vendor_sums import add_listed_operators, check_collectives
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_Read: TypeAlias = Callable[[Reader], Mapping[str, pd.DataFrame | None]]
_ALONE: tuple[tuple[tuple[str, ...], _Read], ...] = (
    (("operators", "python", "steps"), lambda reader: read_framework(reader).tables),
    (("tasks",), lambda reader: {"tasks": read_tasks(reader).table}),
    (("memory",), lambda reader: {"memory": memory_table(reader)}),
    (("allocations",), lambda reader: {"allocations": allocations_table(reader)}),
    (("counters",), lambda reader: {"counters": counters_table(reader)}),
)


class DatabaseReading(ResultReading):
    """Reader of the databases of a result."""

    def __init__(self, layout: DatabaseFiles) -> None:
        super().__init__(Decoded())
        self._layout = layout

    def run(self) -> Decoded:
        """Read the newest profile and the analyses."""
        self.decoded.info = describe_directory(self._layout, self.notes)
        if self._layout.profile:
            path = self._layout.profile[0]
            with self.skip_unreadable(path), open_database(path, self.notes) as database:
                self._read_profile(Reader(database))
        for earlier in self._layout.profile[1:]:
            self.notes.info(earlier.name, "an older database of the same result is not shown: load it by itself")
        for path in self._layout.analysis:
            with self.skip_unreadable(path), open_database(path, self.notes) as database:
                self._read_analysis(Reader(database))
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
                    _put(frames, make(Reader(opened)))
            return frames

        return {name: PartReader(partial(read, names, of)) for names, of in _ALONE for name in names} | {
            "step_times": PartReader(self._step_times)
        }

    def _step_times(self, notes: Notes, _: Collection[str]) -> dict[str, pd.DataFrame]:
        frames = {"step_times": tables.empty("step_times")}
        info = describe_directory(self._layout, notes)
        for path in (*self._layout.profile[:1], *self._layout.analysis):
            with open_database(path, notes) as opened:
                reader = Reader(opened)
                if path not in self._layout.analysis:
                    add_facts(info, reader)
                _put(frames, {"step_times": step_times_table(reader, _only_device(info))})
        return frames

    def _read_profile(self, reader: Reader) -> None:
        _refuse_others(reader)
        note_shape(reader)
        note_lacking(reader)
        add_facts(self.decoded.info, reader)
        if not len(reader.strings):
            reader.warn(f"STRING_IDS is missing or empty: {UNNAMED}")
        by_name = self.decoded.tables
        calls = read_framework(reader)
        by_name.update(calls.tables)
        tasks = read_tasks(reader)
        if len(tasks.table):
            by_name["tasks"] = tasks.table
        marks, connections = marks_table(reader, tasks)
        api = reader.rows("CANN_API").in_order().build("api")
        _put(by_name, {**read_communication(reader, tasks), "api": api, "marks": marks})
        self._device_tables(reader, tasks)
        _put(
            by_name,
            {
                "overlap": overlap_of(reader, by_name),
                "memory": memory_table(reader),
                "allocations": allocations_table(reader),
                "counters": counters_table(reader),
            },
        )
        self._links(calls, connections)
        self.decoded.statistics.update(rest_of(reader))
        self._sums(reader)
        note_gaps(reader)
        note_lost_tables(reader, self.decoded.info)
        reader.note_unread()

    def _device_tables(self, reader: Reader, tasks: Tasks) -> None:
        by_name = self.decoded.tables
        note_unlaunched(reader, tasks)
        kernels = kernels_table(reader, tasks, by_name.get("communication"))
        if len(kernels):
            by_name["kernels"] = kernels
            note_undescribed(reader, tasks)
        else:
            kernels_of_tasks(reader, self.decoded)
        _name_items(by_name)

    def _links(self, calls: HostCalls, marks: Int64) -> None:
        links = links_table(self.decoded.tables, calls, marks, self.notes)
        if len(links):
            self.decoded.tables["links"] = links
        if "steps" in self.decoded.tables:
            assign_steps(self.decoded.tables, ("kernels", "communication"))

    def _read_analysis(self, reader: Reader) -> None:
        note_shape(reader)
        note_gaps(reader)
        level, collectives = self.decoded.info.options.get("level"), self.decoded.tables.get("communication")
        note_lost_sums(reader, communicates=level in (1, 2) and collectives is not None)
        self._sums(reader)

    def _sums(self, reader: Reader) -> None:
        _put(self.decoded.tables, {"step_times": step_times_table(reader, _only_device(self.decoded.info))})
        self.decoded.statistics.update(communication_statistics(reader))


def _only_device(info: Info) -> int | None:
    return info.devices[0] if info.devices else None


def _refuse_others(reader: Reader) -> None:
    kind, path = kind_of(reader.database.tables), reader.database.path
    if kind == "cluster":
        raise SourceError(f"{path} is a database of a cluster's analysis, not of one run; load the rank's own result")
    if not kind:
        raise SourceError(
            f"{path} is an SQLite database without any table of a profile ({counted(len(reader.tables), 'table')}); "
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
