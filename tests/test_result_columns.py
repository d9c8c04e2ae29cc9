"""The columns of every table that a method returns are named on a page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import simulator
from npuprof.simulator import npu
from npuprof.tables.schema import SCHEMA
from tests.api_page import public_members

_PAGES = Path(__file__).parents[1] / "notebooks" / "reference"
_ARGUMENTS: dict[str, tuple[Any, ...]] = {"by": ("line", "op_type")}
_NOT_TABLES = (
    "explore",
    "plot_",
    "to_",
    "save",
    "read",
    "refresh",
    "sql",
    "table",
    "at",
    "annotate",
    "select",
    "timeline",
    "with_",
)


def _train(rank: Any) -> None:
    left = npu.ones((256, 256))
    rank.step()
    for _ in range(3):
        left = left @ left / 256
        rank.all_reduce(left.mean()).item()
        rank.step()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> npuprof.ProfileSet:
    folder = tmp_path_factory.mktemp("job")
    simulator.ranks(2).run(_train, folder, memory=True, stacks=True)
    return npuprof.load_set(folder)


def _tables(of: Any) -> dict[str, pd.DataFrame]:
    """Return the tables that the methods and properties of a run, a set or a difference return without arguments."""
    found: dict[str, pd.DataFrame] = {}
    for name in public_members(type(of)):
        if name.startswith(_NOT_TABLES) or name == "flamegraph":
            continue
        value = getattr(of, name)
        if inspect.ismethod(value):
            given = _ARGUMENTS.get(name, ())
            needed = [each for each in inspect.signature(value).parameters.values() if each.default is each.empty]
            if len(needed) > len(given) and name not in _ARGUMENTS:
                continue
            value = value(*given)
        for each in (value, getattr(value, "steps", None)):
            if isinstance(each, pd.DataFrame) and name not in SCHEMA:
                found[name] = each
        if hasattr(value, "to_frame") and not isinstance(value, (pd.DataFrame, pd.Series)):
            found[f"{name}.to_frame"] = value.to_frame()
    return found


def _named() -> set[str]:
    pages = "".join(path.read_text("utf-8") for path in _PAGES.glob("*.md"))
    return {word for quoted in re.findall(r"`([^`\n]+)`", pages) for word in re.findall(r"\w+", quoted)} | set(
        re.findall(r"\w+", "".join(re.findall(r"^- `runs?\..*$", pages, re.MULTILINE)))
    )


@pytest.mark.long
def test_every_column_of_a_result_is_on_a_page(job: npuprof.ProfileSet) -> None:
    named, missing = _named(), {}
    for label, of in (("run", job[0]), ("runs", job), ("difference", job[0] - job[1])):
        for name, table in _tables(of).items():
            unnamed = [column for column in table.columns if str(column) not in named]
            if unnamed:
                missing[f"{label}.{name}"] = unnamed
    assert missing == {}


def test_the_tables_that_are_looked_at_have_columns(job: npuprof.ProfileSet) -> None:
    assert sum(len(table.columns) > 1 for of in (job, job[0]) for table in _tables(of).values()) >= 20
