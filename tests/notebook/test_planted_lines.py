"""A small part of ``bench_lines``: planted functions that alternate, each with its own kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
