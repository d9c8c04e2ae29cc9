"""A saved profile is read as it was saved, or an error names the file that is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof.errors import SourceError
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.sources.base import Decoded
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
