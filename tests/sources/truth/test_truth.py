"""Every number that is known of the samples and that a table can answer is what npuprof reads."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.profiles.profile import Profile
from tests.sources.truth import csv_files, databases, timelines
from tests.sources.truth.facts import Family

FAMILIES = (*csv_files.FAMILIES, *timelines.FAMILIES, *databases.FAMILIES)
ELSEWHERE = re.compile(r"cluster/.*")
"""Results of many ranks together have tests of their own."""


@cache
def _truth(samples: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((samples / "TRUTH.json").read_bytes())
    return truth


@cache
def _load(path: Path) -> Profile:
    return npuprof.load(path)


def _facts(told: Any) -> dict[str, Any]:
    return told if isinstance(told, dict) else {"": told}


def test_every_fact_is_checked_or_has_a_reason_why_not(samples: Path) -> None:
    for path, told in _truth(samples).items():
        if ELSEWHERE.fullmatch(path):
            continue
        known = [family for family in FAMILIES if re.fullmatch(family.pattern, path)]
        assert len(known) == 1, path
        assert not set(_facts(told)) - set(known[0].facts), path


def test_reasons_are_given_in_words() -> None:
    for family in FAMILIES:
        for check in family.facts.values():
            assert callable(check) or len(check.split()) > 3


@pytest.mark.slow
@pytest.mark.parametrize("family", [pytest.param(family, id=family.pattern) for family in FAMILIES])
def test_the_tables_agree(samples: Path, family: Family) -> None:
    checked = 0
    for path, told in _truth(samples).items():
        if not re.fullmatch(family.pattern, path):
            continue
        run = _load((samples / path).parents[1] if family.whole else samples / path)
        for key, value in _facts(told).items():
            check = family.facts[key]
            if not callable(check):
                continue
            try:
                check(run, value)
            except AssertionError as error:
                raise AssertionError(f"{path}: {key}: {error}") from error
            checked += 1
    assert checked
