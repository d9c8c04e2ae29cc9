"""Rows of ours against rows of the vendor's: equal ones, and each way of being different."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from npuprof.verification import checks
from npuprof.verification.checks import compare, export
from tests.sources.raw.conftest import raw_sample, writable_copy


@pytest.fixture
def both(samples: Path, tmp_path: Path) -> Path:
    """A real ``PROF_*`` directory with the result that the vendor's tool made of it."""
    source = raw_sample(samples, "minimal")
    path = writable_copy(source, tmp_path / source.name)
    output = path / "mindstudio_profiler_output"
    output.mkdir(exist_ok=True)
    for file in (samples / "raw" / "minimal" / "expected").iterdir():
        if file.suffix != ".db":
            shutil.copyfile(file, output / file.name)
    return path


@pytest.mark.slow
def test_real_export_equals_decoded_rows(both: Path) -> None:
    checks = compare(both)
    assert {check.name for check in checks} >= {"kernels as the vendor's", "api as the vendor's"}
    assert all(check.passed for check in checks), checks


@pytest.mark.slow
def test_a_row_that_differs_is_shown_from_both_sides(both: Path) -> None:
    (summary,) = both.glob("mindstudio_profiler_output/op_summary*.csv")
    head, first, *rest = summary.read_text().splitlines(keepends=True)
    name = first.split(",")[head.split(",").index("Op Name")]
    summary.write_text("".join([head, first.replace(name, "another"), *rest]))
    (kernels,) = (check for check in compare(both) if check.name.startswith("kernels"))
    assert not kernels.passed
    assert f"op_name: ours '{name}', the vendor's 'another'" in kernels.detail


@pytest.mark.slow
def test_a_row_that_is_missing_is_counted(both: Path) -> None:
    (summary,) = both.glob("mindstudio_profiler_output/op_summary*.csv")
    lines = summary.read_text().splitlines(keepends=True)
    summary.write_text("".join(lines[:-1]))
    (kernels,) = (check for check in compare(both) if check.name.startswith("kernels"))
    assert not kernels.passed
    assert "2 of 3 rows equal" in kernels.detail  # the timeline still lists the third


@pytest.mark.slow
def test_raw_data_without_a_result_cannot_be_compared(samples: Path, tmp_path: Path) -> None:
    source = raw_sample(samples, "minimal")
    (check,) = compare(writable_copy(source, tmp_path / source.name))
    assert not check.passed


@pytest.mark.parametrize(
    ("one", "other", "counted", "same"),
    [
        (1, 1, False, True),
        (1, 2, False, False),
        (0.1234, 0.123, False, True),
        (0.125, 0.123, False, False),
        (None, 0, True, True),
        (None, 0, False, False),
        (None, "x", False, False),
    ],
)
def test_what_counts_as_the_same(one: object, other: object, counted: bool, same: bool) -> None:
    assert checks._same(one, other, counted=counted) is same


@pytest.mark.parametrize(("status", "passed"), [(0, True), (255, False)])
def test_the_tool_is_asked_to_export(tmp_path: Path, status: int, passed: bool) -> None:
    tool = tmp_path / "msprof"
    tool.write_text(f'#!/bin/sh\necho "$@"\nexit {status}\n')
    tool.chmod(0o700)
    check = export(tool, tmp_path)
    assert check.passed is passed
    assert f"status {status}: --export=on --output={tmp_path}" in check.detail
    assert not export(tmp_path / "missing", tmp_path).passed
