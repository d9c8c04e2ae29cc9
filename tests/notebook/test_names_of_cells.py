"""Lines of cells read as ``In [12], line 14``, with the number that the cell had, wherever people see them."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import npuprof
from npuprof import simulator
from npuprof.exports import speedscope
from npuprof.exports.stacks import folded_stacks
from npuprof.flame.tree import merged_calls
from npuprof.profiles.profile import Profile
from npuprof.tables.info import common_cells
from npuprof.timeline.slices import Slices, search
from npuprof.words.texts import cell_classes
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
    names = set(merged_calls(run.tables).names)
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
    shown.append(str(run))
    assert not [text for text in shown if "<cell" in text]


def test_a_report_tells_which_cells_its_numbers_stand_for(tmp_path: Path) -> None:
    """GIVEN a front end that names cells THEN a run knows the cells whose code ran, and what is drawn of it tells."""
    simulator.reset()
    cells = Cells(tmp_path)
    shell = cells.shell
    try:
        shell.run_cell("import numpy as np\nfrom npuprof.simulator import npu", store_history=True, cell_id="imports")
        shell.run_cell("x = npu.ones((8, 8))\ndef f(): return np.sin(x)", store_history=True, cell_id="one-1_A")
        options = f"--collector simulator --no-report --output {shlex.quote(str(tmp_path))}"
        shell.run_cell(f"%%npuprof {options}\nfor i in range(4): f()", store_history=True, cell_id="the cell")
        shell.run_cell(
            f"%%npuprof {options}\nfor i in range(4): f()", store_history=True, cell_id="three"
        ).raise_error()
    finally:
        cells.magics.uninstall()
    run = npuprof.last()
    assert run.info.cells == {"2": "one-1_A", "4": "three"}
    assert npuprof.load(run.save(tmp_path / "saved")).info.cells == run.info.cells
    shown = [run._repr_html_(), run.advice()._repr_html_(), run.code()._repr_html_(), (run - run)._repr_html_()]
    assert all("npuprof-cell-2-one-1_A npuprof-cell-4-three" in (html or "") for html in shown)
    assert "three" not in str(run.info)


def test_run_stopped_in_its_cell_knows_it(tmp_path: Path) -> None:
    simulator.reset()
    cells = Cells(tmp_path)
    try:
        code = "from npuprof.simulator import npu\nx = npu.ones((8, 8)) + 1\n"
        code += "get_ipython().run_line_magic('npuprof', 'stop')"
        options = f"--collector simulator --no-report --output {shlex.quote(str(tmp_path))}"
        cells.shell.run_cell(f"%%npuprof {options}\n{code}", store_history=True, cell_id="own").raise_error()
    finally:
        cells.magics.uninstall()
    assert npuprof.last().info.cells == {"1": "own"}


def test_only_ids_and_numbers_become_classes() -> None:
    assert cell_classes({"1": 'a" onclick="', "x": "a", "2": "", "3": "b" * 65, "4": "c-_9"}) == ["npuprof-cell-4-c-_9"]
    assert len(cell_classes({str(number): "a" for number in range(1000)})) < 1000


def test_a_number_that_stands_for_several_cells_is_not_told() -> None:
    assert common_cells([{"1": "a", "2": "b"}, {"1": "a", "2": "c"}, {}]) == {"1": "a"}
