"""What of a result to read, as a user types it."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.errors import OptionsError
from npuprof.options.load_arguments import add_load_arguments, load_arguments, moment, step_numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1763600000000000123", 1763600000000000123),
        ("+1.5s", np.timedelta64(1_500_000_000, "ns")),
        ("+ 200 ms", np.timedelta64(200_000_000, "ns")),
        ("+0.001us", np.timedelta64(1, "ns")),
        ("-3min", np.timedelta64(-180_000_000_000, "ns")),
        ("2026-01-31T12:30:00.000000123", pd.Timestamp("2026-01-31T12:30:00.000000123")),
    ],
)
def test_moments_are_exact(text: str, expected: Any) -> None:
    assert moment("start", text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1.5", "+1.5", "+0.5ns", "+1h", "NaT", "2026-99-01", f"+{'9' * 18}min"])
def test_malformed_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(OptionsError, match=r"--end is .*give"):
        moment("end", text)


@pytest.mark.parametrize(("text", "expected"), [("3", [3]), ("3,4", [3, 4]), (" 3-5, 9 ", [3, 4, 5, 9])])
def test_steps_are_numbers_and_ranges(text: str, expected: list[int]) -> None:
    assert step_numbers(text) == expected


@pytest.mark.parametrize("text", ["", "3,", "a", "5-3", "-1", "3;4", "0-999999999999999"])
def test_what_are_no_steps_is_refused(text: str) -> None:
    with pytest.raises(OptionsError, match="--steps"):
        step_numbers(text)


@pytest.mark.slow
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (step_numbers, lambda given_text: moment("start", given_text)):
        with contextlib.suppress(OptionsError):
            read(text)


def test_only_what_is_given_becomes_an_argument() -> None:
    parser = argparse.ArgumentParser()
    add_load_arguments(parser)
    assert load_arguments(parser.parse_args([])) == {"source": None}
    given_words = parser.parse_args(["--source", "parsed", "--steps", "3-4", "--end", "+1s"])
    assert load_arguments(given_words) == {"source": "parsed", "steps": [3, 4], "end": np.timedelta64(10**9, "ns")}
