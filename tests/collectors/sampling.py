"""What the tests of the Python stack sampler share."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from npuprof import tables
from npuprof.collectors.python_stacks import PythonStacks
from npuprof.sources.recording.python_stacks import read
from npuprof.tables.notes import Notes
from tests import pace

_PATIENCE_S = 30.0  # only a failure takes that long


def has_looked(stacks: PythonStacks, times: int = 2) -> Callable[[], bool]:
    enough = stacks.sample_count + times
    return lambda: stacks.sample_count >= enough


def patience_s() -> float:
    """Return how long to wait for what another thread does."""
    return pace.seconds(_PATIENCE_S)


def spin(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience_s()
    while not done():
        assert time.monotonic() < deadline, "the sampler does not sample"


def failures(problems: list[str]) -> list[str]:
    """Leave out what depends on the machine: its load, and threads that the test runner has of its own."""
    return [problem for problem in problems if "on average" not in problem and "threading" not in problem]


def table_of(stacks: PythonStacks, folder: Path) -> pd.DataFrame:
    assert failures(stacks.stop()) == []
    path = folder / "stacks.parquet"
    stacks.write(path)
    table = read(path, Notes())["python"]
    tables.check("python", table)
    return table


def functions(table: pd.DataFrame) -> set[str]:
    return {name.rpartition(": ")[2] for name in table["name"]}


def callers(table: pd.DataFrame, function: str) -> set[str]:
    """Return the functions above any call of a function."""
    by_id = table.set_index("id")
    found: set[str] = set()
    for parent in table.loc[table["name"].str.endswith(f": {function}"), "parent_id"]:
        above = parent
        while not pd.isna(above):
            found.add(by_id.at[above, "name"].rpartition(": ")[2])
            above = by_id.at[above, "parent_id"]
    return found
