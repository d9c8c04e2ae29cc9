"""Lines of cells read as ``In [12], line 14``, with the number that the cell had, wherever people see them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from npuprof import simulator
from npuprof.exports import speedscope
from npuprof.exports.stacks import folded_stacks
from npuprof.exports.text import summary_text
from npuprof.flame.state import FlameGraph
from npuprof.profiles import Profile
from npuprof.timeline.slices import Slices, search
from tests.notebook.cells import Cells


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Profile]:
    """A profiled cell that calls a function of the cell before."""
    simulator.reset()
    cells = Cells(tmp_path)
    cells.run("import numpy as np, time\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))")
    cells.run("def f(x):\n    time.sleep(0.03)\n    return np.sin(x)")
    yield cells.profile("for i in range(4):\n    y = f(x)\n", "--level 1 --stacks")
    cells.magics.uninstall()


def test_no_text_has_the_name_that_tables_keep(run: Profile) -> None:
    assert set(run.by("line")["line"]) == {"In [2], line 3"}
    flame = FlameGraph(run.tables, run.info)
    names = set(flame.calls.names)
    assert "In [2], line 1: f" in names
    slices = Slices(run.tables)
    python = slices.names(slices.of_table("python"))
    assert "In [2], line 1: f" in python
    details = {
        column: text
        for column, text, _ in slices.details(int(slices.of_table("python")[python.index("In [2], line 1: f")]))
    }
    assert details["name"] == "In [2], line 1: f"
    assert len(search(slices, "in [2], line 1: f"))
    hovers = slices.facts(np.flatnonzero(run.api["stack"].notna()) + slices.first["api"])
    assert all(facts[0] == "In [2], line 3: f" for facts in hovers)
    out = io.StringIO()
    speedscope.write(out, run.tables, run.info)
    files = {frame.get("file", "") for frame in json.loads(out.getvalue())["shared"]["frames"]}
    assert "In [2]" in files
    shown = [*names, *python, *folded_stacks(run.tables), *folded_stacks(run.tables, "device"), *files]
    shown.append(summary_text(run.summary, run.info, run.notes, run.advice()))
    assert not [text for text in shown if "<cell" in text]
