"""What a terminal shows of a run holds no character that acts on the terminal, whatever the names are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories

_ACTING = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")
_HOSTILE = "evil\x1b[31m\x1b]0;title\x07\x9b2J\r\u202edlrow\x7f"
_NAMED = {"api": "name", "operators": "name", "python": "name", "marks": "message", "communication": "name"}


@pytest.fixture(scope="module")
def run() -> Profile:
    """A run whose names act on a terminal."""
    tables = factories.profile(60, kernel_names=[_HOSTILE, f"{_HOSTILE} 2"])
    for name, column in _NAMED.items():
        texts = tables[name][column]
        if isinstance(texts.dtype, pd.CategoricalDtype):
            texts = texts.cat.rename_categories(lambda text: f"{_HOSTILE}{text}")
            tables[name] = tables[name].assign(**{column: texts})
    notes = Notes()
    notes.warning(_HOSTILE, f"a message of {_HOSTILE}")
    info = replace(factories.info(name=_HOSTILE, chip=_HOSTILE), collector=_HOSTILE, metadata={_HOSTILE: _HOSTILE})
    return Profile(Decoded(tables, info, notes))


_PARTS: dict[str, Callable[[Profile], object]] = {
    "run": lambda run: run,
    "info": lambda run: run.info,
    "summary": lambda run: run.summary,
    "accounting": lambda run: run.accounting,
    "advice": lambda run: run.advice(),
    "finding": lambda run: list(run.advice()),
    "by op": lambda run: run.by("op"),
    "by op and step": lambda run: run.by("op", "step"),
    "rows of by": lambda run: run.by("op").sort_values("count").head(3),
    "code": lambda run: run.code(),
    "difference": lambda run: run - run,
    "error": lambda run: npuprof.NpuprofError(_HOSTILE),
}


@pytest.mark.parametrize("part", _PARTS)
def test_texts_pass_no_control_characters_on(run: Profile, part: str) -> None:
    shown = _PARTS[part](run)
    with pd.option_context("display.width", 1000, "display.max_columns", 100, "display.max_colwidth", 200):
        for text in (str(shown), repr(shown), f"{shown}"):
            assert not _ACTING.search(text)


def test_name_stays_in_the_table(run: Profile) -> None:
    named = run.by("op")
    assert any(_HOSTILE in str(value) for column in named for value in named[column])
    assert "evil" in str(named)
