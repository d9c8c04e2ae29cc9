"""Walking through directories: bounded, and never in circles."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.sources.files.walk import walk


def _make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True)


def _named_run(directory: Path) -> list[str]:
    return [directory.name] if directory.name.startswith("run") else []


@pytest.mark.slow
def test_runs_are_found_at_any_level_and_not_looked_into(tmp_path: Path) -> None:
    _make(tmp_path, "b/run2/run_inside", "a/x/run1", "run0")
    assert walk(tmp_path, _named_run).results == ["run0", "run2", "run1"]


@pytest.mark.slow
def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    _make(tmp_path, "a/run1")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "a" / "run1")
    result = walk(tmp_path, _named_run)
    assert len(result.results) == 0 or result.results.count("run1") <= 1
    assert not result.problems


@pytest.mark.slow
def test_a_link_to_itself_hides_nothing_beside_it(tmp_path: Path) -> None:
    _make(tmp_path, "a/run1")
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    result = walk(tmp_path, _named_run)
    assert result.results == ["run1"]
    assert not result.problems


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "found"), [({"max_depth": 1}, 1), ({"max_results": 2}, 2), ({"max_directories": 4}, 1)]
)
def test_it_stops_at_its_limits_and_says_so(tmp_path: Path, limits: dict[str, int], found: int) -> None:
    _make(tmp_path, "a/run2", "a/run3", "b", "run1")
    result = walk(tmp_path, _named_run, lambda _: True, **limits)
    assert len(result.results) == found
    assert bool(result.problems) == ("max_depth" not in limits)


@pytest.mark.slow
def test_what_cannot_be_listed_is_reported(tmp_path: Path) -> None:
    _make(tmp_path, "bad", "run1")

    def refuse(directory: Path) -> list[str]:
        if directory.name == "bad":
            raise PermissionError(13, "Permission denied")
        return _named_run(directory)

    result = walk(tmp_path, refuse)
    assert result.results == ["run1"]
    assert "Permission denied" in result.problems[0]


@pytest.mark.slow
def test_walk_looks_into_the_rest(tmp_path: Path) -> None:
    _make(tmp_path, "run1/run2/run3")
    found = walk(tmp_path, lambda directory: [directory.name], lambda name: name != "run1").results
    assert found == ["run1", "run2"]
