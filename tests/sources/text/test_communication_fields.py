"""No damage to a field of the JSON files of communication is taken for a value, or goes unsaid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.errors import SourceError
from npuprof.sources.cluster import text_files
from npuprof.sources.text import communication_json
from npuprof.tables.notes import Notes
from tests.field_damage import WRONG, damaged, places
from tests.sources.cluster import maker

_OPERATOR = maker.communication_json()["collective"]["step3"][maker.REDUCE]["0"]
_ALIKE = {"1", "RDMA"}  # others like them are damaged
_FILES: dict[str, tuple[Any, Callable[[Path, Notes], Any]]] = {
    "communication": (
        {"step3": {"p2p": {}, "collective": {maker.REDUCE: _OPERATOR}}},
        communication_json.read_communication,
    ),
    "matrix": ({"step3": maker.matrix_json()["collective"]}, communication_json.read_communication_matrix),
    "cluster communication": (maker.communication_json(), text_files.read_communication),
    "cluster matrix": (maker.matrix_json(), text_files.read_matrix),
    "groups": (maker.groups_json(), text_files.read_groups),
    "old groups": (maker.groups_json(new=False), text_files.read_groups),
}
_NO_NUMBERS = ("true", "a number of 70 bits", "a number beyond all", "text", "a list", "a list of a list", "an object")
_NO_TEXTS = ("true", "a fraction", "a list", "an object")
_NO_CONTAINERS = ("true", "a negative number", "a fraction", "text", "null")


def _damages(plain: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    for place in places(plain):
        if not _ALIKE.isdisjoint(place):
            continue
        value = plain
        for key in place:
            value = value[key]
        kinds = _NO_CONTAINERS if isinstance(value, (dict, list)) else _NO_TEXTS if type(value) is str else _NO_NUMBERS
        yield from ((place, kind) for kind in kinds)


@pytest.mark.long
@pytest.mark.parametrize("name", _FILES)
def test_a_field_of_another_type_is_reported_or_refused(tmp_path: Path, name: str) -> None:
    plain, read = _FILES[name]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(plain))
    notes = Notes()
    read(path, notes)
    assert not len(notes)
    silent = []
    for place, kind in _damages(plain):
        path.write_text(damaged(plain, place, WRONG[kind]))
        notes = Notes()
        try:
            read(path, notes)
        except SourceError:
            continue
        if not len(notes):
            silent.append((place, kind))
    assert not silent


def test_damaged_values_are_absent(tmp_path: Path) -> None:
    plain = maker.communication_json()
    times = plain["collective"]["step3"][maker.REDUCE]["0"]["Communication Time Info"]
    changed = times | {"Wait Time(ms)": "a while", "Elapse Time(ms)": [0.9], "Later Time(ms)": 7, "Later": {"x": 1}}
    plain["collective"]["step3"][maker.REDUCE]["0"] = {"Communication Time Info": changed}
    path, notes = tmp_path / "x.json", Notes()
    path.write_text(json.dumps(plain))
    frame = text_files.read_communication(path, notes)["communication"].set_index("rank")
    assert frame["start_ns"].tolist() == [1_736_408_883_674_584_800] * 2  # the digits of the file
    assert frame.loc[0, "Later Time(ms)"] == 7
    assert pd.isna(frame.loc[0, ["Wait Time(ms)", "Elapse Time(ms)"]]).all()
    assert frame.loc[1, ["Wait Time(ms)", "Elapse Time(ms)"]].tolist() == [0.2, 0.9]
    told = " ".join(notes.to_frame()["message"])
    assert all(f"{key} is " in told for key in ("Wait Time(ms)", "Elapse Time(ms)", "Later"))
