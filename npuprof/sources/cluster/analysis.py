"""Read the analysis of a cluster, file by file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.errors import SourceError
from npuprof.sources.base import Decoded, ResultReading
from npuprof.sources.cluster import database as tables_of
from npuprof.sources.cluster.layout import ClusterFiles, Kind, kind_of_name
from npuprof.sources.cluster.text_files import ranks_of, read_communication, read_groups, read_matrix, read_steps
from npuprof.sources.database.checks import note_views
from npuprof.sources.database.connection import Database, open_database
from npuprof.sources.text.csv_table import read_statistic
from npuprof.tables.info import Info
from npuprof.words.texts import json_or_text

CLUSTER_ANALYSIS = "cluster analysis"
"""The ``info.source`` of such a profile."""
GROUPS = "communication_groups"
_COMMUNICATION: tuple[Kind, ...] = ("communication", "matrix")
_STAMP = re.compile(r"_\d{14,17}$")  # time stamp of the export
_MAX_PARALLEL = 100  # kinds of parallelism that a summary names


class ClusterReading(ResultReading):
    """Reader of the files of a cluster analysis."""

    def __init__(self, layout: ClusterFiles) -> None:
        info = Info(name=layout.root.name, source=CLUSTER_ANALYSIS, recording=layout.root)
        super().__init__(Decoded(info=info))
        self._layout = layout

    def run(self, *, whole: bool = True) -> None:
        """Read every file, or only the small ones for a description."""
        files, statistics = self._layout.files, self.decoded.statistics
        readers: dict[Kind, Callable[[Path], object]] = {
            "steps": lambda path: self._keep_steps(read_steps(path, self.notes)),
            "groups": lambda path: self._keep({GROUPS: read_groups(path, self.notes)}),
            "communication": lambda path: self._keep(read_communication(path, self.notes)),
            "matrix": lambda path: self._keep(read_matrix(path, self.notes)),
            "database": lambda path: self._database(path, whole=whole),
        }
        for kind, read in readers.items():
            if kind in files and (whole or kind not in _COMMUNICATION):
                with self.skip_unreadable(files[kind]):
                    read(files[kind])
        if whole:
            self._recipes()
        if self.failed and len(self.failed) == len(files):
            raise self.failed[0]
        self._note_no_groups()
        for kind, path in files.items():
            if kind_of_name(path.name) not in (kind, None):
                self.notes.warning(
                    path.name, f"it holds {kind}, not the kind that its name states, whose data is missing"
                )
        for path in self._layout.others:
            self.notes.info(path.name, "another file of the same kind is read; load this file to see it")
        self._add_ranks(self.decoded.tables.get("step_times"), statistics.get(GROUPS, tables_of.empty_groups()))

    def _note_no_groups(self) -> None:
        """Warn if communication was written but the file of groups, which precedes it, is missing."""
        if self._layout.root.is_dir() and "groups" not in self._layout.files and GROUPS not in self.decoded.statistics:
            written_names = [path.name for kind in _COMMUNICATION if (path := self._layout.files.get(kind)) is not None]
            if written_names:
                message = (
                    f"missing, though {' and '.join(written_names)} is there: which ranks form a group is not known"
                )
                self.notes.warning("communication_group.json", message)

    def _keep(self, frames: dict[str, pd.DataFrame]) -> list[str]:
        """Keep new frames and those with more rows than the kept frame; return the names of the rejected frames."""
        statistics = self.decoded.statistics
        known_names = [
            name for name, frame in frames.items() if name in statistics and len(frame) <= len(statistics[name])
        ]
        statistics.update({name: frame for name, frame in frames.items() if name not in known_names})
        return known_names

    def _keep_steps(self, steps: pd.DataFrame) -> None:
        self.decoded.tables["step_times"] = steps
        devices = steps["device_id"].dropna().unique().tolist()
        self.decoded.info.devices = sorted(int(device) for device in devices)

    def _database(self, path: Path, *, whole: bool) -> None:
        repeated = []
        with open_database(path, self.notes) as database:
            note_views(database, database.unread)
            steps, groups = tables_of.read_steps(database), tables_of.read_groups(database)
            if steps is not None and len(steps) <= len(self.decoded.tables.get("step_times", ())):
                repeated.append("step_times")
                database.accounts.replace(tables_of.STEPS, "step_times")
            elif steps is not None:
                for file in self._layout.files.values():
                    self.notes.ledger.replace("step_times", file.name)
                self._keep_steps(steps)
            if groups is not None:
                repeated += self._keep({GROUPS: groups})
            if whole:
                repeated += self._keep(tables_of.read_communication(database, groups))
                repeated += self._keep(tables_of.read_unknown(database))
            self._add_facts(database)
        if repeated:
            self.notes.info(
                path.name, f"the text files have at least as many rows and are shown: {', '.join(repeated)}"
            )

    def _recipes(self) -> None:
        """Read the CSV files of recipes, named after folder and file."""
        for path in self._layout.recipes:
            name = f"{path.parent.name}_{_STAMP.sub('', path.stem)}"
            try:
                self._keep({name: read_statistic(path, self.notes)})
            except SourceError as error:
                self.notes.fail(path.name, str(error))

    def _add_facts(self, database: Database) -> None:
        info = self.decoded.info
        for key, text in tables_of.read_base(database).items():
            info.metadata[key] = json_or_text(text)
        devices = tables_of.read_devices(database)
        if devices:
            info.metadata["rank_devices"] = devices

    def _add_ranks(self, steps: pd.DataFrame | None, groups: pd.DataFrame) -> None:
        """Add ranks, groups of ranks and the vendor's stages to `metadata`."""
        metadata = self.decoded.info.metadata
        sets = [ranks_of(text) for text in groups["ranks"]]
        ranks = {rank for group in sets for rank in group} | {
            entry["rank"] for entry in metadata.get("rank_devices", [])
        }
        stages: list[list[int]] = []
        if steps is not None:
            ranks |= {int(rank) for rank in steps["rank"].dropna().unique()}
            stages = [ranks_of(text) for text in steps["ranks"].dropna().unique()]
        parallel: dict[str, list[list[int]]] = {}
        for name, group in zip(groups["parallel"], sets, strict=True):
            if isinstance(name, str) and (name in parallel or len(parallel) < _MAX_PARALLEL):
                parallel.setdefault(name, []).append(group)
        facts: dict[str, Any] = {"ranks": sorted(ranks), "stages": stages, "parallel_groups": parallel}
        metadata.update({key: value for key, value in facts.items() if value})
