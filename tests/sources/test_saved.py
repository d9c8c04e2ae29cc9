"""A saved profile is read as it was saved, or an error names the file that is not."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


@pytest.fixture
def path(tmp_path: Path) -> Path:
    statistics = {"op_statistic": pd.DataFrame({"OP Type": ["Add"], "Count": [1]})}
    return Profile(Decoded(factories.profile(5), factories.info(), Notes(), statistics)).save(tmp_path / "saved")


def _edit(path: Path, **changes: Any) -> None:
    plain = json.loads((path / "profile.json").read_bytes())
    for name, value in changes.items():
        plain.pop(name, None)
        plain |= {} if value is None else {name: value}
    (path / "profile.json").write_text(json.dumps(plain))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernels.parquet", "statistics/op_statistic.parquet"])
def test_a_missing_file_is_named(path: Path, name: str) -> None:
    (path / name).unlink()
    with pytest.raises(SourceError, match=rf"damaged profile \({name} is missing\): save it again"):
        npuprof.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kernels.parquet", "statistics/op_statistic.parquet"])
def test_a_file_of_another_profile_is_named(path: Path, tmp_path: Path, name: str) -> None:
    statistics = {"op_statistic": pd.DataFrame({"OP Type": ["Mul"], "Count": [1]})}
    other = Profile(Decoded(factories.profile(6), factories.info(), Notes(), statistics)).save(tmp_path / "other")
    shutil.copy(other / name, path / name)
    with pytest.raises(SourceError, match=rf"damaged profile \({name} is not as it was saved\)"):
        npuprof.load(path)


@pytest.mark.slow
def test_a_file_that_was_added_is_noted(path: Path) -> None:
    shutil.copy(path / "steps.parquet", path / "step_times.parquet")
    run = npuprof.load(path)
    assert not len(run.step_times)
    assert "step_times.parquet" in run.notes["source"].tolist()


@pytest.mark.slow
def test_a_profile_of_the_first_form_is_read_with_a_note(path: Path) -> None:
    _edit(path, version=1, files=None)
    run = npuprof.load(path)
    assert len(run.kernels) == 5
    assert len(run.statistics["op_statistic"]) == 1
    assert "without a list of its files" in run.notes["message"].iloc[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"files": None}, "lists no files"),
        ({"files": {"../kernels.parquet": {"rows": 1, "sha256": ""}}}, "which is no file of a profile"),
        ({"files": {"statistics/../../a.parquet": {"rows": 1, "sha256": ""}}}, "which is no file of a profile"),
        ({"files": {"nothing.parquet": {"rows": 1, "sha256": ""}}}, "which is no file of a profile"),
        ({"version": 3}, "saved by a newer npuprof"),
    ],
)
def test_a_list_that_cannot_be_right_is_refused(path: Path, changes: dict[str, Any], told: str) -> None:
    _edit(path, **changes)
    with pytest.raises(SourceError, match=told):
        npuprof.load(path)


@pytest.mark.slow
def test_every_row_is_accounted_for(path: Path) -> None:
    run = npuprof.load(path)
    rows = run.ledger.set_index("input")["in_tables"]
    assert {name: rows[f"{name}.parquet"] for name, frame in run.tables.items() if len(frame)} == {
        name: len(frame) for name, frame in run.tables.items() if len(frame)
    }


def test_nameless_columns_keep_their_dtype(tmp_path: Path) -> None:
    tables = factories.profile(5)
    tables["api"] = tables["api"].assign(item=factories.names([], np.full(len(tables["api"]), -1)))
    again = npuprof.load(Profile(Decoded(tables, factories.info(), Notes())).save(tmp_path / "saved"))
    assert again.api.dtypes.astype(str).equals(tables["api"].dtypes.astype(str))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "stored"),
    [
        ([1, "b", None, {"x": 1}, b"\xff", 1 << 80], ["1", "b", None, "{'x': 1}", "b'\\xff'", str(1 << 80)]),
        (["\ud800", "b"], ["\\ud800", "b"]),
        ([1.5, [2]], ["1.5", "[2]"]),
    ],
)
def test_a_statistic_of_mixed_types_is_saved_as_text(tmp_path: Path, column: list[Any], stored: list[Any]) -> None:
    frame = pd.DataFrame({"a": pd.Series(column, dtype=object), "b": 1, "c": 2}).set_axis(["a", "b", "b"], axis=1)
    run = Profile(Decoded(factories.profile(5), factories.info(), Notes(), {"communication": frame}))
    again = npuprof.load(run.save(tmp_path / "again")).statistics["communication"]
    assert list(again) == ["a", "b", "b (2)"]
    assert [None if value is np.nan else value for value in again["a"].tolist()] == stored


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../../outside", "/outside", "a/b", ".", "..", "", "\ud800", "x" * 300])
def test_the_name_of_a_statistic_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"a": [1]})
    run = Profile(Decoded(factories.profile(5), factories.info(), Notes(), {name: frame, "_" + name[1:]: frame}))
    saved = run.save(tmp_path / "one" / "two" / "saved")
    assert len(npuprof.load(saved).statistics) == len(run.statistics)
    assert all(path.is_relative_to(saved) for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_file_that_was_set_up_for_more_takes_no_memory(path: Path) -> None:
    with (path / "kernels.parquet").open("r+b") as file:
        file.truncate(256 << 20)
    tracemalloc.start()
    with pytest.raises(SourceError, match=r"kernels\.parquet is not as it was saved"):
        npuprof.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 128 << 20  # of which the bound of profile.json is half
