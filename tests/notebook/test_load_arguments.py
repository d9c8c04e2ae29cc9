"""The arguments of ``%npuprof load``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from IPython.core.error import UsageError

from npuprof.notebook.arguments import parse_load


@pytest.mark.parametrize(
    ("line", "path", "wanted"),
    [
        ("PROF_1", "PROF_1", {"source": None}),
        ("'my results' --steps 3,5-6", "my results", {"source": None, "steps": [3, 5, 6]}),
        ("--source parsed a.json", "a.json", {"source": "parsed"}),
        ("a --start 17 --end 19", "a", {"source": None, "start": 17, "end": 19}),
    ],
)
def test_a_path_and_what_of_it_to_read(line: str, path: str, wanted: dict[str, Any]) -> None:
    assert parse_load(line) == (path, wanted)


def test_a_time_since_the_beginning_is_understood() -> None:
    _, wanted = parse_load("a --start +1.5s")
    assert wanted["start"] == np.timedelta64(1_500_000_000, "ns")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "needs the path"),
        ("a b", "unrecognized arguments: b"),
        ("a --steps x", "numbers or ranges"),
        ("a --source both", "raw"),
        ("'a", "quotation"),
    ],
)
def test_what_is_not_understood_is_a_usage_error(line: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_load(line)
