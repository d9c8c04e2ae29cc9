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


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("way", "known"), [("stacks", "stack"), ("statements", "statement")])
def test_every_kernel_of_the_backward_pass_is_on_its_line(cells: Cells, way: str, known: str) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    judged = planted(cells, "backward", 200, way, seconds=0.05)
    assert judged.right == 1
    assert set(judged.known) == {known}


@pytest.mark.slow
@pytest.mark.parametrize("us", [20, 200, 5_000])
def test_sampled_values_state_their_errors(cells: Cells, us: int) -> None:
    for _ in range(3):  # an error of 95 % may be exceeded now and then
        judged = planted(cells, "cell", us, "samples", seconds=0.1)
        assert set(judged.known) <= {"sample", "between samples"}
        if judged.is_covered:
            return
    pytest.fail("three shares in turn are farther from the truth than their errors")


@pytest.mark.long
def test_shares_of_sampled_lines_have_an_error(cells: Cells) -> None:
    loops = "".join(f"def {name}(x):\n    for _ in range(8000): np.{name}(x)\n" for name in ("sin", "cos"))
    cells.run(f"import numpy as np\n{loops}")
    run = cells.profile("for _ in range(3):\n    sin(x)\n    cos(x)", "--level 1 --stacks --no-lines --no-steps")
    table = run.by("line")
    assert table.columns[table.columns.tolist().index("share") + 1] == "share_error"
    errors = table.assign(line=table["line"].astype(object)).set_index("line")["share_error"]
    assert (errors[["In [2]: sin", "In [2]: cos"]] > 0).all()
    assert (errors <= 1).all()
    assert "± " in repr(table[["line", "share_error"]])
    assert "known from samples" in str(run.code())
    planted(cells, "cell", 1_000, "stacks", seconds=0.05)
    assert "share_error" not in npuprof.last().by("line")


def test_a_line_that_sleeps_between_two_calls_has_the_idle_time(cells: Cells) -> None:
    code = "import time\nimport numpy as np\ndef f(x):\n    time.sleep(0.02)\n    return np.sin(x)"
    cells.run(code + "\ndef g(x):\n    return np.cos(x)")
    table = cells.profile("for i in range(8): y = f(x); z = g(x)", "--level 1 --stacks").code().to_frame()
    idle = table.set_index(table["text"].str.strip())["idle_ns"]
    assert idle["time.sleep(0.02)"] > 0.9 * table["idle_ns"].sum()
