"""What the vendor's parser made of a raw sample, with our tables of the same bytes, to compare row by row."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from npuprof.sources import raw
from npuprof.sources.base import Decoded

from .conftest import raw_sample

Check = Callable[["Sample"], int]
"""Compares every row of an item with ours; gives how many rows of the vendor's it has accounted for."""

NAMES = ("minimal", "sliced_2k", "model_step", "everything")
ROUNDED_NS = 128  # half the grain of a float64 near today's epoch, in which the vendor keeps some stamps
_NONE = 4294967295


@dataclass(frozen=True)
class Sample:
    """One sample directory."""

    folder: Path

    @cached_property
    def decoded(self) -> Decoded:
        return raw.read(raw_sample(self.folder.parents[1], self.folder.name))

    def table(self, name: str) -> pd.DataFrame:
        return self.decoded.tables[name]

    @cached_property
    def items(self) -> dict[str, int]:
        """Every csv file, database table and layer of a timeline, with its number of rows."""
        found = {f"csv {file_kind(path)}": len(self._frame(path)) for path in self._files("csv")}
        for path in self._files("json"):
            for layer, events in _layers(path).items():
                found[f"{file_kind(path)}.json {layer}"] = len(events)
        if self._files("db"):
            tables = self.query("SELECT name FROM sqlite_master WHERE type = 'table'")
            found |= {f"db {name}": self.query(f"SELECT count(*) FROM {name}")[0][0] for (name,) in tables}
        return found

    def files(self) -> list[Path]:
        return sorted((self.folder / "expected").iterdir())

    def csv(self, kind: str) -> list[dict[str, str]]:
        """Rows of a file as text: its numbers keep all their digits."""
        path = next(path for path in self._files("csv") if file_kind(path) == kind)
        rows = self._frame(path).to_dict("records")
        return [{str(key): value.strip() for key, value in row.items()} for row in rows]

    def layer(self, name: str, kind: str = "msprof") -> list[dict[str, Any]]:
        path = next(path for path in self._files("json") if file_kind(path) == kind)
        return _layers(path)[name]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(f"{self._files('db')[0].as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    @cached_property
    def strings(self) -> dict[int, str]:
        return dict(self.query("SELECT id, value FROM STRING_IDS"))

    def _files(self, suffix: str) -> list[Path]:
        return [path for path in self.files() if path.suffix == f".{suffix}"]

    @staticmethod
    def _frame(path: Path) -> pd.DataFrame:
        frame: pd.DataFrame = pd.read_csv(path, dtype=str, keep_default_na=False)
        return frame


@cache
def _layers(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Events by process and phase; slices of a category are a layer of their own."""
    events = json.loads(path.read_text())
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    layers: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        name = f"{processes[event['pid']]} {event['ph']} {event.get('cat', '')}".strip()
        layers.setdefault("names" if event["ph"] == "M" else name, []).append(event)
    return layers


def file_kind(path: Path) -> str:
    """The name of a result without its time."""
    match = re.fullmatch(r"(\w+?)_\d{14}\.\w+", path.name)
    return match[1] if match else path.name


def ns(text: str | float) -> int:
    """Nanoseconds of a decimal number of microseconds, exactly."""
    value = Decimal(str(text)) * 1000
    assert value == int(value), text
    return int(value)


def number(text: Any) -> Any:
    """A cell as a number; None where the vendor writes none."""
    return None if text in ("N/A", _NONE, str(_NONE)) else float(text)


def rows(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Rows as plain Python values; an absent one is None."""
    chosen = frame[list(columns)].astype(object)
    return [tuple(row) for row in chosen.where(chosen.notna(), None).to_numpy().tolist()]


def text_or_none(text: str) -> str | None:
    return None if text in ("N/A", "") else text.strip('"')
