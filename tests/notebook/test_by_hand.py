"""A run that is started by hand counts the time of cells, and a profiled cell in it is a part of it."""

from __future__ import annotations

import ast
import builtins
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from IPython.core.error import UsageError

import npuprof
from npuprof import simulator
from npuprof.errors import OptionsError
from npuprof.notebook.panel.controller import PanelController
from npuprof.notebook.panel.runs import ListedRuns
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import Recording
from npuprof.words.quantities import duration
from tests.notebook.cells import Cells, output

_START = "%npuprof start --collector simulator --no-report {}"


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    made.run("import numpy as np, time\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))")
    yield made
    made.magics.uninstall()


def _recording(run: Profile) -> Recording:
    assert run.info.recording is not None
    return Recording.read(run.info.recording)


def test_the_time_between_cells_is_left_out_and_sums_add_up(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.run("for i in range(4):\n    y = np.sin(x)")
    time.sleep(0.3)
    cells.run("for i in range(4):\n    y = np.cos(x)")
    time.sleep(0.3)
    cells.run("%npuprof stop")
    run = npuprof.last()
    names = [name for name, _, _ in run.info.executed]
    assert names == ["cell [2]", "cell [3]", "cell [4]", "cell [5]"]
    assert run.info.started_ns is not None
    assert run.info.stopped_ns is not None
    assert run.info.started_ns <= run.info.executed[0][1]
    assert run.info.executed[-1][2] == run.info.stopped_ns
    thinking_ns = run.info.thinking_ns
    assert thinking_ns >= 600_000_000
    covered = sum(end - start for _, start, end in run.info.executed)
    after_ns = sum(each.end_ns - each.start_ns for each in run.info.afterwards)
    assert covered + after_ns + thinking_ns == run.info.stopped_ns - run.info.started_ns
    assert run.summary.wall_ns == covered
    steps = run.accounting.steps
    assert steps["duration_ns"].sum() <= covered
    parts = run.accounting.by_part()
    assert parts[list(run.summary.devices[0].parts)].sum(axis=1).tolist() == steps["duration_ns"].tolist()
    assert 0 < parts["computing"].sum() <= run.kernels["duration_ns"].sum()
    assert set(run.by("line")["line"]) == {"In [3], line 2", "In [4], line 2"}
    assert _recording(run).cell == {}
    assert {"<cell [3]>", "<cell [4]>"} <= set(_recording(run).code)
    assert "thinking time, " in run._repr_html_()


def test_cell_loops_make_steps(cells: Cells) -> None:
    loop = "for i in range(4):\n    y = np.sin(x)\n    z = np.cos(y)"
    cells.run(_START.format(output(cells.folder)))
    cells.run(loop)
    cells.run("def work(x):\n    return np.exp(x)")
    cells.run("for i in range(3):\n    y = work(x)")
    time.sleep(0.3)
    cells.run(loop)  # again: its loop goes on
    cells.run("%npuprof stop")
    run = npuprof.last()
    steps = run.steps
    # No step lasts from one cell to the next: a number is left out.
    assert steps["step"].tolist() == [*range(4), *range(5, 8), *range(9, 13)]
    kinds = [f"loop of line 1 of cell [{number}]" for number in (3, 5)]
    assert steps["kind"].tolist() == [kinds[0]] * 4 + [kinds[1]] * 3 + [kinds[0]] * 4
    assert steps["counted"].tolist() == [True] * 4 + [False] * 3 + [True] * 4
    statements = run.statements
    places = Counter(zip(statements["file"], statements["line"], strict=True))
    assert {place: times for place, times in places.items() if place[0] != "<cell [4]>"} == {
        **{(f"<cell [{number}]>", line): times for number in (3, 6) for line, times in ((1, 5), (2, 4), (3, 4))},
        **{("<cell [5]>", line): times for line, times in ((1, 4), (2, 3))},
    }
    spans = [(start, end) for _, start, end in run.info.executed]
    ends = statements["start_ns"] + statements["duration_ns"]
    for start, end in zip(statements["start_ns"], ends, strict=True):
        assert any(begin <= start <= end <= last for begin, last in spans)
    assert set(run.by("line")["line"]) == {
        *(f"In [{cell}], line {line}" for cell in (3, 6) for line in (2, 3)),
        "In [4], line 2",
    }
    recording = _recording(run)
    assert recording.code["<cell [3]>"] == recording.code["<cell [6]>"] == loop
    assert f"the {kinds[0]}, 8 iterations" in run.notes.to_string()
    assert "--step-line" not in run.notes.to_string()  # which is an option of profiled cells


def test_killed_run_has_text_and_last_time(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.run("for i in range(3):\n    y = np.sin(x)")
    killed = cells.folder / "killed"
    cells.shell.user_ns["keep"] = lambda: shutil.copytree(next(cells.folder.glob("run_*")), killed)
    cells.run("for i in range(4):\n    time.sleep(0.05)\ntime.sleep(0.3)\nkeep()")
    cells.run("%npuprof stop")
    run = npuprof.load(killed)
    frame = run.code().to_frame()
    lasting = frame.set_index(["file", "line"])["host_ns"]
    assert lasting["<cell [4]>", 2] >= 200_000_000
    of_cells = frame["file"].isin(["<cell [3]>", "<cell [4]>"])  # threads of other tests may run lines of others
    assert of_cells.sum() >= 5
    assert frame.loc[of_cells, "text"].notna().all(), frame.to_string()
    assert "--step-line" not in run.notes.to_string()


def test_part_time_is_of_its_cells(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.run("y = np.sin(x)")
    time.sleep(0.1)
    cells.run("y = np.cos(x)")
    cells.run("%npuprof stop")
    run = npuprof.last()
    path, (_, first, second, _) = run.info.recording, [(start, end) for _, start, end in run.info.executed]
    assert path is not None
    for start_ns, end_ns, expected_ns in (
        (first[0], second[1], first[1] - first[0] + second[1] - second[0]),
        (first[1], second[0], 0),
        (second[1] + 10**12, None, 0),  # after the run
    ):
        assert npuprof.load(path, start=start_ns, end=end_ns).summary.wall_ns == expected_ns


def test_code_of_many_cells_is_that_which_ran(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    for number in range(14):
        cells.run(f"a = sum(range(100_000))\nb{number} = a")
    cells.run("%npuprof stop")
    code = npuprof.last().code()
    assert code.to_frame()["text"].iloc[:-1].notna().all()
    assert "fewer lines" not in str(code)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("for i in range(3):\n    if i == 1:\n        raise ValueError('mine')", None),
        ("values = [i for i in range(3)]\nvalues", [0, 1, 2]),
        ("%%time\nfor i in range(3):\n    y = np.sin(x)", None),
        ("get_ipython().run_cell('for i in range(3):\\n    y = np.sin(x)');", None),
        ("from __future__ import annotations\n'a text'", "a text"),
        ("import asyncio\nfor i in range(2):\n    await asyncio.sleep(0)\ni", 1),
    ],
)
def test_cells_run_as_they_do_without_it(cells: Cells, code: str, value: object) -> None:
    cells.run(_START.format(output(cells.folder)))
    result = cells.magics.shell.run_cell(code)
    after = cells.magics.shell.run_cell("i = 7\ni")
    cells.run("%npuprof stop")
    assert result.result == value
    assert ("raise" in code) == (result.error_in_exec is not None)
    assert after.result == 7
    notes = npuprof.last().notes
    assert notes[(notes["severity"] != "info") & notes["source"].isin(["lines", "steps"])]["message"].tolist() == []


_OTHER_CONSTANTS = """
import ast, fractions
class Exact(ast.NodeTransformer):
    def visit_Constant(self, node):
        exact = ast.Call(ast.Name("Exact", ast.Load()), [node], [])
        return exact if type(node.value) is int else node
def Exact_of(shell):
    shell.ast_transformers.append(Exact())
Exact_of(get_ipython())
Exact = fractions.Fraction
"""


def test_cells_run_as_without_the_profiler(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.run("get_ipython = None")
    assert cells.run("first = 7\nfirst") == 7
    cells.run("del get_ipython")
    cells.run("__builtins__ = {'range': range}")
    assert cells.run("for i in range(3):\n    j = i\nj") == 2
    cells.shell.user_ns["__builtins__"] = builtins
    cells.run(_OTHER_CONSTANTS)
    try:
        assert cells.run("for each in 'abc':\n    third = 1 / 3\nthird") == Fraction(1, 3)
    finally:
        cells.shell.ast_transformers.pop()
    cells.run("%npuprof stop")
    lines = npuprof.last().statements[["file", "line"]].drop_duplicates()
    stamped = lines.groupby("file", observed=True)["line"].apply(sorted).to_dict()
    assert stamped["<cell [4]>"] == [1, 2]
    assert stamped["<cell [7]>"] == stamped["<cell [9]>"] == [1, 2, 3]


def test_compiling_thread_keeps_stamps(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.shell.user_ns["other"] = lambda: cells.shell.transform_ast(ast.parse("c = 3"))
    cells.run("import threading\nthread = threading.Thread(target=other)\nthread.start()\nthread.join()\nd = 4")
    cells.run("%npuprof stop")
    statements = npuprof.last().statements
    assert statements["line"][(statements["file"] == "<cell [3]>").to_numpy(bool)].tolist() == [1, 2, 3, 4, 5]


def test_cells_profiled_within_a_statement_are_its_part(cells: Cells) -> None:
    inner = "for i in range(3):\n    y = np.tan(x)\n"
    cells.run(_START.format(output(cells.folder)))
    cells.run(
        f"z = 1\nget_ipython().run_cell_magic('npuprof', '--no-report', {inner!r})\nfor i in range(4):\n    y = -x"
    )
    cells.run(f"get_ipython().run_cell_magic('npuprof', '--no-report', {inner!r})")  # it is not stamped itself
    cells.run("%npuprof stop")
    statements, wall_ns = npuprof.last().statements, npuprof.last().summary.wall_ns
    assert wall_ns is not None
    assert statements["start_ns"].is_monotonic_increasing
    assert statements["duration_ns"].sum() <= wall_ns
    counts = statements[statements["loop"].notna()].groupby("line").size()
    assert counts.to_dict() == {3: 3, 4: 4}
    assert len(npuprof.last().steps) in (0, 4)


@pytest.mark.slow
def test_the_host_time_of_sampled_lines_stays_within_the_cells(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    for function in ("sin", "cos"):
        cells.run(
            f"def work():\n    y = np.{function}(x)\n    end = time.perf_counter() + 0.1\n"
            "    while time.perf_counter() < end:\n        pass\nfor _ in range(3):\n    work()"
        )
        time.sleep(1.2)  # a sample stands for the time since the one before it, which may lie in here
    cells.run("%npuprof stop")
    run = npuprof.last()
    spans = [(start, end) for _, start, end in run.info.executed]
    python = run.python
    ends = python["start_ns"] + python["duration_ns"]
    assert all(
        any(start <= begin and end <= stop for start, stop in spans)
        for begin, end in zip(python["start_ns"], ends, strict=True)
    )
    host = run.advice().facts.code_lines.host_of_threads()
    wall_ns = run.summary.wall_ns
    assert wall_ns is not None
    assert host.groupby("thread_id")["host_ns"].sum().max() <= wall_ns
    frame = run.code().to_frame()
    assert host["host_ns"].sum() == frame["host_ns"].sum()
    loops = frame[frame["text"].str.contains("while|pass", na=False)]
    assert set(loops["file"]) == {"<cell [3]>", "<cell [4]>"}
    assert loops["host_ns"].sum() > 0
    assert "tests" not in " ".join(python["name"].cat.categories)


def test_a_loop_cannot_be_chosen_where_no_cell_is_rewritten(cells: Cells) -> None:
    with pytest.raises(UsageError, match=r"leave it out.*npuprof\.step\(\)"):
        cells.run(_START.format(output(cells.folder)) + " --step-line 1")
    with pytest.raises(OptionsError, match=r"call npuprof\.step\(\) instead"):
        npuprof.profile(step_line=1)
    cells.run(_START.format(output(cells.folder)))
    cells.run("for _ in range(5):\n    y = np.sin(x)\nfor _ in range(5):\n    y = np.cos(x)")
    cells.run("%npuprof stop")
    assert "--step-line" not in f"{npuprof.last().advice()}{npuprof.last().notes.to_string()}"
    cells.run(_START.format(output(cells.folder)))
    cells.run("import npuprof\nfor _ in range(5):\n    y = np.sin(x)\n    npuprof.step()")
    cells.run("%npuprof stop")
    assert len(npuprof.last().steps) == 5  # what it is told instead


def test_profiled_cell_by_hand_is_a_part(cells: Cells, capsys: pytest.CaptureFixture[str]) -> None:
    cells.run(_START.format(output(cells.folder)).replace(" --no-report", ""))
    cells.run("y = np.sin(x)")
    assert cells.run("%%npuprof --level 2\nfor i in range(3):\n    y = np.cos(x)\ni") == 2
    assert "cell [4] is recorded as a part of the run that collects already" in "".join(capsys.readouterr())
    cells.run("y = np.tan(x)")
    assert "npuprof" in cells.shell.magics_manager.magics["line"]
    cells.run("%npuprof stop")
    run = npuprof.last()
    assert len(run.kernels) == 5
    assert _recording(run).parts == ["cell [4]"]
    shown = "".join(capsys.readouterr())
    report = shown[shown.index("cell [4] of ") :]
    assert "np.cos(x)" in report
    assert "np.tan(x)" not in report


def test_wrong_options_of_a_part_are_refused_as_ever(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    try:
        with pytest.raises(UsageError):
            cells.run("%%npuprof --level 7\nz = 1")
    finally:
        cells.run("%npuprof stop")
    assert "z" not in cells.shell.user_ns


def test_cells_that_run_cells_count_once_and_a_failing_cell_ends(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.run("get_ipython().run_cell('y = np.sin(x)')\ny = np.cos(x)")
    with pytest.raises(ZeroDivisionError):
        cells.run("1 / 0")
    time.sleep(0.05)
    cells.run("%npuprof stop")
    spans = [span for _, *span in npuprof.last().info.executed]
    assert len(spans) == 4
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert npuprof.last().info.thinking_ns >= 50_000_000


def test_profiled_cell_has_no_thinking_time(cells: Cells) -> None:
    assert not cells.profile("y = np.sin(x)").info.executed
    with npuprof.profile(collector="simulator", output=cells.folder) as session:
        pass
    assert session.result.info.thinking_ns == 0


def test_the_panel_opens_the_parts_with_the_run(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = PanelController(cells.magics.controller, lambda: None)
    monkeypatch.setattr(panel, "_in_background", lambda act: act())
    cells.run(_START.format(output(cells.folder)).replace(" --no-report", ""))
    cells.run("%%npuprof\ny = np.cos(x)")
    panel.stop()
    assert panel.opened is not None
    assert [run.info.name for run in panel.opened.parts] == [f"cell [3] of {npuprof.last().info.name}"]
    assert len(panel.opened.parts[0].kernels) == 1


def test_the_list_of_runs_has_the_wall_time_of_the_report(cells: Cells) -> None:
    cells.run(_START.format(output(cells.folder)))
    cells.run("y = np.cos(x)")
    time.sleep(0.5)
    cells.run("%npuprof stop")
    wall_ns = npuprof.last().summary.wall_ns
    assert wall_ns is not None
    newest = ListedRuns().page().rows[0]
    assert newest[0] == npuprof.last().info.name
    assert newest[3] == duration(wall_ns)


def test_a_report_says_how_its_run_is_opened_in_another_kernel(
    cells: Cells, monkeypatch: pytest.MonkeyPatch, displayed: list[dict[str, str]]
) -> None:
    monkeypatch.chdir(cells.folder)
    cells.run("%%npuprof --collector simulator --output recordings\ny = np.cos(x)")
    path = npuprof.last().info.recording
    assert path is not None
    assert f"npuprof.load(&#x27;recordings/{path.name}&#x27;)</code> opens it" in displayed[1]["text/html"]


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What reports display."""
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("npuprof.notebook.report.display", lambda bundle, raw: shown.append(bundle))
    return shown
