"""Whatever stands in a field of a small file, reading raises none but our errors, and what is left out is told."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof.errors import NpuprofError
from npuprof.notes import Notes
from npuprof.profiles import Profile, open_path
from npuprof.ranks.profile_set import ProfileSet
from npuprof.recording import FILE_NAME, Recording
from npuprof.sources import raw, saved
from npuprof.sources.base import Decoded
from tests import factories

_Place = tuple[Any, ...]
_ABSENT = object()
_WRONG = {
    "nothing": _ABSENT,
    "null": None,
    "true": True,
    "a negative number": -1,
    "a number of 70 bits": 1 << 70,
    "a fraction": 1.5,
    "text": "x",
    "half a character": "\ud800",
    "a list": [],
    "a list of a list": [[None]],
    "an object": {},
}


_MARKS = factories.profile(3)["marks"]


def _recorded(path: Path) -> None:
    """What a session leaves: its own file beside a directory of native data."""
    start = factories.START_NS
    (path / "PROF_1").mkdir(parents=True)
    Recording(
        path,
        "a run",
        "acl",
        False,
        options={"level": 1, "activities": ["npu"]},
        started_ns=start,
        stopped_ns=start + 100_000,
        raw_clock_epoch_ns=start,
        steps=[(0, start, start + 50_000), (1, start + 50_000, start + 90_000)],
        domains=[("epoch 3", "mine", 0)],
        metadata={"parallel_group_info": {"g": {"global_ranks": [0, 1]}}, "world_size": 2},
        versions={"cann": "8.3"},
        environment={"hostname": "a host"},
        problems=["one"],
    ).write()


def _saved(path: Path) -> None:
    notes = Notes()
    notes.warning("somewhere", "something")
    info = factories.info(
        rank=1,
        stopped_ns=factories.START_NS + 100_000,
        versions={"cann": "8.3"},
        environment={"host": "a host"},
        metadata={"parallel_group_info": {"g": {"global_ranks": [0, 1]}}, "world_size": 2},
        recording=Path("/somewhere"),
        selection={"start_ns": factories.START_NS},
    )
    statistics = {"op_statistic": pd.DataFrame({"OP Type": ["Add"]})}
    Profile(Decoded({"marks": _MARKS}, info, notes, statistics)).save(path)


_MAKERS = {FILE_NAME: _recorded, saved.FILE_NAME: _saved}


def _places(plain: Any, place: _Place = ()) -> Iterator[_Place]:
    children = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, value in children:
        yield (*place, key)
        yield from _places(value, (*place, key))


def _damaged(plain: Any, place: tuple[Any, ...], value: Any) -> Any:
    damaged = around = copy.deepcopy(plain)
    for key in place[:-1]:
        around = around[key]
    if value is _ABSENT:
        del around[place[-1]]
    else:
        around[place[-1]] = value
    return damaged


def _tried(places: list[_Place]) -> Iterator[tuple[_Place, str]]:
    """Iterate over fields and damages: each field and each damage at least once; all pairs with NPUPROF_HEAVY=1."""
    if os.environ.get("NPUPROF_HEAVY"):
        return product(places, _WRONG)
    return islice(zip(cycle(places), cycle(_WRONG), strict=False), max(len(places), len(_WRONG)))


def _use(path: Path, *, in_a_set: bool) -> None:
    run = npuprof.load(path)
    repr(run)
    json.dumps(run.info.to_dict())
    if in_a_set:
        runs = open_path(path.parent)
        assert isinstance(runs, ProfileSet)
        repr(runs)
        assert runs.notes is not None


@pytest.mark.parametrize("name", _MAKERS)
def test_a_damaged_field_is_told_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(raw, "read", lambda path, part: Decoded({"marks": _MARKS}))
    for copy_ in ("damaged", "whole"):
        _MAKERS[name](tmp_path / copy_)
    path = tmp_path / "damaged"
    plain = json.loads((path / name).read_bytes())
    wrong = []
    for place, words in _tried(list(_places(plain))):
        (path / name).write_text(json.dumps(_damaged(plain, place, _WRONG[words])))
        try:
            _use(path, in_a_set=len(place) < 2)
        except NpuprofError as error:
            if str(path) not in str(error):
                wrong.append((place, words, str(error)))
        except Exception as error:  # noqa: BLE001 - each of them is a find
            wrong.append((place, words, repr(error)))
    assert not wrong


def test_a_damaged_fact_of_a_recording_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "read", lambda path, part: Decoded({"marks": _MARKS}))
    _recorded(tmp_path / "run")
    plain = json.loads((tmp_path / "run" / FILE_NAME).read_bytes())
    (tmp_path / "run" / FILE_NAME).write_text(json.dumps(plain | {"steps": [[1, 2]], "options": None, "name": 7}))
    run = npuprof.load(tmp_path / "run")
    told = " ".join(run.notes["message"])
    assert all(f"{FILE_NAME}: {field} is damaged" in told for field in ("steps", "options", "name"))
    assert run.info.versions == {"cann": "8.3"}
    assert run.marks["domain"].tolist() == ["mine", "default"]


@pytest.mark.parametrize("simulated", [_ABSENT, "x", None, 0])
def test_a_recording_that_no_longer_tells_whether_it_was_simulated_is_refused(tmp_path: Path, simulated: Any) -> None:
    _recorded(tmp_path / "run")
    plain = json.loads((tmp_path / "run" / FILE_NAME).read_bytes())
    (tmp_path / "run" / FILE_NAME).write_text(json.dumps(_damaged(plain, ("simulated",), simulated)))
    with pytest.raises(NpuprofError, match="does not tell whether the NPU was simulated"):
        npuprof.load(tmp_path / "run")
