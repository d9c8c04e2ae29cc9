"""Whatever stands where a key, cell or column is read, reading gives an answer or one of npuprof's own errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.fuzz.wrong_types import finds
from tests.campaign.types import INPUTS

_FEW = 8  # of each input in the usual lane


def _wrong(folder: Path, name: str, most: int = 0) -> list[str]:
    write, load = INPUTS[name]
    path = write(folder)
    tried = list(finds(path, load, load(path), each=1, most=most))
    assert tried
    return [f"{find} ({wrong.file} {wrong.place}: {wrong.value})" for wrong, find in tried if find]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if place % 4 else ()) for place, name in enumerate(INPUTS)]
)
def test_some_values_of_a_wrong_type(tmp_path: Path, name: str) -> None:
    assert not _wrong(tmp_path, name, _FEW)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", INPUTS)
def test_a_value_of_a_wrong_type_in_each_place(tmp_path: Path, name: str) -> None:
    assert not _wrong(tmp_path, name)
