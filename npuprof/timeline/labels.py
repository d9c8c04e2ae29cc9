"""Names and colours of slices as numbers: a browser gets each name once, and a few bytes per slice."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof.arrays import Int64, Uint8
from npuprof.figures.colours import FAMILIES, SHADES, device_family
from npuprof.lines.frames import frame_text
from npuprof.timeline.slices import NAME_COLUMNS, NUMBERED, ONE_FAMILY, TABLES, Slices

FAMILY_KEYS: tuple[str, ...] = tuple(FAMILIES)
"""The colour families; their indices are the families of slices."""

ABSENT = 0
"""The label of a slice without a name."""


class Labels:
    """Numbers for names and colour families.

    Slices of a table with the same name share a label. The colour family of device tasks is computed once for each
    combination of operator type, task type and name.
    """

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        sizes = [_distinct(table, slices.tables[table]) for table in TABLES]
        self._bounds = np.cumsum([ABSENT + 1, *sizes])
        self._known: dict[tuple[str, str, str], int] = {}
        self._of_table: dict[str, Uint8] = {}

    def of(self, numbers: Int64) -> Int64:
        """Return the label of each slice."""
        labels = np.zeros(len(numbers), np.int64)
        for table, places, rows in self._slices.by_table(numbers):
            first = int(self._bounds[TABLES.index(table)])
            codes = rows if table in NUMBERED else _codes(self._slices.tables[table], NAME_COLUMNS[table], rows)
            labels[places] = np.where(codes >= 0, codes + first, ABSENT)
        return labels

    def texts(self, labels: Sequence[int]) -> list[str]:
        """Return the names of labels, not escaped; empty for :data:`ABSENT`."""
        asked = np.asarray(labels, np.int64)
        texts = np.full(len(asked), "", object)
        table_of = np.searchsorted(self._bounds, asked, side="right") - 1
        for code in np.unique(table_of[asked != ABSENT]).tolist():
            table, places = TABLES[code], np.flatnonzero((table_of == code) & (asked != ABSENT))
            texts[places] = self._texts_of(table, asked[places] - self._bounds[code])
        return texts.tolist()

    def _texts_of(self, table: str, codes: Int64) -> list[str]:
        if table in NUMBERED:
            return self._slices.names(self._slices.first[table] + codes)
        names = map(str, self._slices.tables[table][NAME_COLUMNS[table]].cat.categories.take(codes))
        return [name.replace("_", " ") if table == "overlap" else frame_text(name) for name in names]

    def families(self, numbers: Int64) -> Uint8:
        """Return the index of each slice's colour family in :data:`FAMILY_KEYS`."""
        families = np.zeros(len(numbers), np.uint8)
        for table, places, rows in self._slices.by_table(numbers):
            if table in ONE_FAMILY:
                families[places] = FAMILY_KEYS.index(ONE_FAMILY[table])
            else:
                if table not in self._of_table:
                    self._of_table[table] = self._device_families(table)
                families[places] = self._of_table[table][rows]
        return families

    def _device_families(self, table: str) -> Uint8:
        frame = self._slices.tables[table]
        rows = np.arange(len(frame))
        if table == "overlap":
            computing = (frame["kind"] == "computing").to_numpy(bool)
            return np.where(computing, FAMILY_KEYS.index("computing"), FAMILY_KEYS.index("communication")).astype(
                np.uint8
            )
        columns = [_coded(frame, column, rows) for column in ("op_type", "task_type", "name")]
        key = np.zeros(len(rows), np.int64)
        for codes, texts in columns:
            key = key * (len(texts) + 1) + codes + 1
        _, first, back = np.unique(key, return_index=True, return_inverse=True)
        looks = [self._family(*(_at(texts, int(codes[at])) for codes, texts in columns)) for at in first.tolist()]
        return np.array(looks, np.uint8)[back]

    def _family(self, op_type: str, task_type: str, name: str) -> int:
        key = op_type, task_type, name
        if key not in self._known:
            self._known[key] = FAMILY_KEYS.index(device_family(*key))
        return self._known[key]


def shade_of(name: str) -> int:
    """Return the shade of a name within its colour family, the same in every run."""
    return zlib.crc32(name.encode("utf-8", "surrogatepass")) % len(SHADES)


def _distinct(table: str, frame: pd.DataFrame) -> int:
    return len(frame) if table in NUMBERED else len(frame[NAME_COLUMNS[table]].cat.categories)


def _codes(frame: pd.DataFrame, column: str, rows: Int64) -> Int64:
    return frame[column].cat.codes.to_numpy()[rows].astype(np.int64)


def _coded(frame: pd.DataFrame, column: str, rows: Int64) -> tuple[Int64, list[str]]:
    """Return the category codes of a column's rows, -1 for absent values, and the categories."""
    if column not in frame:
        return np.full(len(rows), -1, np.int64), []
    return _codes(frame, column, rows), [str(text) for text in frame[column].cat.categories]


def _at(texts: list[str], code: int) -> str:
    return texts[code] if code >= 0 else ""
