"""A Profile: its tables, its figures, saving and loading."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import NpuprofError, SourceError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.sources.files import memory_limit
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories


@pytest.fixture
def profile() -> Profile:
    notes = Notes()
    notes.warning("hbm.data", "a cut record was left out")
    statistics = {"op_statistic": pd.DataFrame({"OP Type": ["Add"], "Count": [1]})}
    return Profile(Decoded(factories.profile(20), factories.info(), notes, statistics))


def test_every_table_is_an_attribute(profile: Profile) -> None:
    for name in tables.NAMES:
        tables.check(name, getattr(profile, name))
    empty = Profile(Decoded())
    assert all(len(getattr(empty, name)) == 0 for name in tables.NAMES)


@pytest.mark.slow
def test_a_saved_profile_loads_the_same(profile: Profile, tmp_path: Path) -> None:
    loaded = npuprof.load(profile.save(tmp_path / "saved"))
    for name in tables.NAMES:
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(profile, name), check_categorical=False)
    assert loaded.info == Info(**{**vars(profile.info), "recording": tmp_path / "saved"})
    pd.testing.assert_frame_equal(loaded.notes, profile.notes)
    pd.testing.assert_frame_equal(loaded.statistics["op_statistic"], profile.statistics["op_statistic"])
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o700


def test_saving_over_something_is_refused(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(NpuprofError, match="not empty"):
        profile.save(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut json", "other json", "cut table", "other table", "no notes"])
def test_a_damaged_profile_says_so(profile: Profile, tmp_path: Path, damage: str) -> None:
    saved = profile.save(tmp_path / "saved")
    kernels, plain = saved / "kernels.parquet", saved / "profile.json"
    if damage == "cut json":
        plain.write_text(plain.read_text()[:50])
    elif damage == "other json":
        plain.write_text("{}")
    elif damage == "cut table":
        os.truncate(kernels, kernels.stat().st_size // 2)
    elif damage == "other table":
        pd.DataFrame({"a": [1]}).to_parquet(kernels)
    else:
        plain.write_text(json.dumps({"format": "npuprof-profile", "info": {}}))
    with pytest.raises(SourceError, match=r"damaged profile|not written by Profile.save"):
        npuprof.load(saved)


@pytest.mark.slow
def test_a_table_of_more_rows_than_fit_into_memory_is_refused(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = profile.save(tmp_path / "saved")
    monkeypatch.setattr(memory_limit, "ALWAYS_BYTES", 0)
    monkeypatch.setattr(memory_limit, "free_memory", lambda: 100)
    with pytest.raises(SourceError, match=r"\.parquet is too large: .* memory that are free"):
        npuprof.load(saved)


@pytest.mark.slow
def test_reading_beyond_memory_says_what_to_do(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> Decoded:
        raise MemoryError("Unable to allocate 60 GiB")

    saved = profile.save(tmp_path / "saved")
    monkeypatch.setattr("npuprof.sources.saved._read_frame", exhausted)
    with pytest.raises(SourceError, match=r"needs more memory than there is \(Unable to allocate 60 GiB\): .* steps="):
        npuprof.load(saved)


@pytest.mark.slow
def test_the_page_is_one_file_that_refers_to_nothing_else(profile: Profile, tmp_path: Path) -> None:
    page = profile.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "SIMULATED" in page.upper()
    assert "<script src" not in page
    assert "<link" not in page


@pytest.mark.slow
def test_text_and_html_say_what_ran(profile: Profile) -> None:
    assert "training step" in str(profile)
    assert "training step" in profile._repr_html_()


@pytest.mark.slow
def test_figures_are_plotly_figures(profile: Profile) -> None:
    import plotly.graph_objects as go

    assert isinstance(profile.timeline(), go.Figure)
    assert isinstance(profile.flamegraph(), go.Figure)
