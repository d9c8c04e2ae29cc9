"""Completion of a typed path."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.notebook.panel.files import complete


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("recordings", "results", ".hidden"):
        (tmp_path / name).mkdir()
    for name in ("reading.csv", "readme.md", "trace_view.json"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_directories_come_first_and_then_files_that_could_be_results(folder: Path) -> None:
    assert complete("re") == ["recordings/", "results/", "reading.csv"]
    assert complete(f"{folder}/tr") == [f"{folder}/trace_view.json"]


def test_hidden_names_come_after_a_dot(folder: Path) -> None:
    assert ".hidden/" not in complete("")
    assert complete(".h") == [".hidden/"]


def test_home_is_completed_as_it_was_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert complete("~/resu") == ["~/results/"]


@pytest.mark.parametrize("typed", ["nowhere/x", "\0", "reading.csv/", "~nobody_of_that_name/x"])
def test_what_cannot_be_completed_has_no_completions(folder: Path, typed: str) -> None:
    assert complete(typed) == []


def test_completions_are_bounded(folder: Path) -> None:
    for number in range(80):
        (folder / f"many_{number}").mkdir()
    assert len(complete("many")) == 50
