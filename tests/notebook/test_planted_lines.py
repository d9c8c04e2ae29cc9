"""A small part of ``bench_lines``: planted functions that alternate, each with its own kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from tests.benchmarks.bench_lines import planted
from tests.notebook.cells import Cells


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    made.run("from npuprof.simulator import npu\nx = npu.ones((64, 64))")
    yield made
    made.magics.uninstall()


@pytest.mark.parametrize(
    ("where", "way", "known"),
    [
        ("cell", "stacks", "stack"),
        ("file", "stacks", "stack"),
        ("thread", "stacks", "stack"),
        ("cell", "statements", "statement"),
        ("file", "statements", "statement"),
    ],
)
@pytest.mark.parametrize("us", [20, 1_000])
def test_every_kernel_is_on_its_line(cells: Cells, where: str, way: str, known: str, us: int) -> None:
    judged = planted(cells, where, us, way, seconds=0.05)
    assert judged.right == 1
    assert set(judged.known) == {known}


def test_what_is_only_sampled_says_so(cells: Cells) -> None:
    known = planted(cells, "cell", 200, "samples", seconds=0.1).known
    assert set(known) <= {"sample", "between samples"}


def test_shares_of_sampled_lines_have_an_error(cells: Cells) -> None:
    planted(cells, "cell", 200, "samples", seconds=0.1)
    table = npuprof.last().by("line")
    assert table.columns[table.columns.tolist().index("share") + 1] == "share_error"
    assert (table["share_error"] > 0).any()
    assert (table["share_error"] <= 1).all()
    planted(cells, "cell", 1_000, "stacks", seconds=0.05)
    assert "share_error" not in npuprof.last().by("line")
