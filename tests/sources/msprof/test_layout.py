"""Which files of a result are read: the newest export, its slices in order, old layouts by device."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.sources.msprof.layout import find, find_files
from tests.sources.msprof.results import old_result, result


def _touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("x")


def _names(root: Path) -> list[str]:
    layout = find(root)
    assert layout is not None
    return [file.path.name for part in layout.parts for file in part.files]


def test_a_result_is_known_from_its_root_and_from_its_folder(tmp_path: Path) -> None:
    root = result(tmp_path / "renamed by a user")
    for path in (root, root / "mindstudio_profiler_output"):
        layout = find(path)
        assert layout is not None
        assert layout.root == root
        assert not layout.is_old


def test_the_newest_export_of_each_module_is_taken(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    _touch(output, "op_summary_20260101000000.csv", "op_summary_20260102000000.csv", "api_statistic_20260101000000.csv")
    _touch(output, "msprof_20260101000003.json", "README.txt")
    assert _names(tmp_path) == [
        "api_statistic_20260101000000.csv",
        "msprof_20260101000003.json",
        "op_summary_20260102000000.csv",
    ]
    layout = find(tmp_path)
    assert layout is not None
    assert layout.older == 1


def test_slices_of_the_newest_export_follow_in_number(tmp_path: Path) -> None:
    output = tmp_path / "mindstudio_profiler_output"
    _touch(output, *(f"op_summary_slice_{number}_20260102000005.csv" for number in (10, 2, 0)))
    _touch(output, "op_summary_slice_1_20260102000006.csv", "op_summary_slice_1_20260101000000.csv")
    _touch(output, "op_summary_slice_0_20260101000000.csv", "op_summary_slice_11_20260101000000.csv")
    assert [name.split("_")[3] for name in _names(tmp_path)] == ["0", "1", "2", "10"]


def test_an_old_layout_has_a_part_for_each_device(tmp_path: Path) -> None:
    layout = find(old_result(tmp_path / "PROF_1", devices=(0, 3), iterations=(2, 10)))
    assert layout is not None
    assert layout.is_old
    assert [part.device for part in layout.parts] == [0, 3]
    assert [file.numbers for file in layout.parts[1].of("msprof", "json")] == ["3_2_2", "3_2_10"]


@pytest.mark.parametrize("names", [(), ("readme.txt",), ("op_summary.csv",)])
def test_other_folders_are_no_result(tmp_path: Path, names: tuple[str, ...]) -> None:
    _touch(tmp_path / "mindstudio_profiler_output", *names)
    assert find(tmp_path) is None
    assert find(tmp_path / "absent") is None


def test_exported_files_without_their_result_are_found_where_they_lie(tmp_path: Path) -> None:
    _touch(tmp_path, "op_summary_20260101000000.csv")
    assert find(tmp_path) is None
    layout = find_files(tmp_path)
    assert layout is not None
    assert [file.module for file in layout.parts[0].files] == ["op_summary"]
