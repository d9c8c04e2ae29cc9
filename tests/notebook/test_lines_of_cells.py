"""In a shell of this process: each kernel on the line that launched it, and each statement with its time."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import LINES_JOURNAL_FILE_NAME, Recording
from npuprof.timeline import layers
from npuprof.timeline.slices import Slices
from tests.notebook.cells import Cells, output

_FUNCTIONS = "def f(x):\n    return np.sin(x)\ndef g(x):\n    return np.cos(x)"
_LOOP = "for i in range(20):\n    y = f(x); z = g(x)\n    if i % 5 == 0:\n        np.exp(y)\n"


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    made.run("import numpy as np\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))")
    yield made
    made.magics.uninstall()


def _lines(run: Profile) -> dict[str, int]:
    sums = run.by("line")
    return {str(line): int(count) for line, count in zip(sums["line"], sums["count"], strict=True)}


@pytest.mark.parametrize("options", ["--level 1 --stacks", "--level 1", "--level 0", "--level 2 --activities npu"])
def test_each_kernel_is_on_the_line_that_launched_it(cells: Cells, options: str) -> None:
    cells.run(_FUNCTIONS)
    run = cells.profile(_LOOP, options)
    assert _lines(run) == {"In [2], line 2": 20, "In [2], line 4": 20, "In [3], line 5": 4}
    assert set(run.launches["known"]) == {"stack"}


def test_kernel_without_stack_has_its_statement(cells: Cells) -> None:
    cells.run(_FUNCTIONS)
    run = cells.profile("for i in range(20):\n    y = f(x)\n    z = g(x)\n    if i % 5 == 0:\n        np.exp(y)\n")
    run.tables["api"] = run.tables["api"].drop(columns="stack")
    assert _lines(run) == {"In [3], line 3": 20, "In [3], line 4": 20, "In [3], line 6": 4}
    assert set(run.launches["known"]) == {"statement"}


def test_statements_have_their_lines_and_follow_each_other(cells: Cells) -> None:
    run = cells.profile("a = 1\nfor i in range(3):\n    b = np.sin(x)\nc = 2")
    rows = run.statements
    assert rows["line"].tolist() == [2, 3, 4, 3, 4, 3, 4, 3, 5]
    assert rows["loop"].fillna(0).tolist() == [0, 0, 3, 0, 3, 0, 3, 0, 0]
    assert rows["iteration"].dropna().tolist() == [0, 1, 2]
    ends = rows["start_ns"] + rows["duration_ns"]
    assert (ends[:-1].to_numpy() <= rows["start_ns"][1:].to_numpy()).all()
    assert (ends[1:7].to_numpy() == rows["start_ns"][2:8].to_numpy()).all()  # within the loop
    assert run.info.started_ns is not None
    assert run.info.stopped_ns is not None
    assert run.info.started_ns <= rows["start_ns"].min()
    assert ends.max() == run.info.stopped_ns
    assert set(rows["file"]) == {"<cell [2]>"}


def test_the_statements_of_launches_lie_around_them(cells: Cells) -> None:
    run = cells.profile("for i in range(5):\n    a = np.sin(x)\n    b = np.cos(a)")
    of_line = {3: "aclnnSin", 4: "aclnnCos"}
    for line, name in of_line.items():
        calls = run.api[run.api["name"] == name]
        rows = run.statements[run.statements["line"] == line]
        assert len(calls) == len(rows) == 5
        assert (rows["start_ns"].to_numpy() <= calls["start_ns"].to_numpy()).all()
        ends = (rows["start_ns"] + rows["duration_ns"]).to_numpy()
        assert ((calls["start_ns"] + calls["duration_ns"]).to_numpy() <= ends).all()


def test_a_thread_of_the_cell_has_its_own_lines(cells: Cells) -> None:
    cells.run(_FUNCTIONS)
    run = cells.profile(
        "import threading\ndef work():\n    for _ in range(4):\n        f(x)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()"
    )
    assert _lines(run) == {"In [2], line 2": 4}


def test_cell_text_is_kept_unless_unwanted(cells: Cells) -> None:
    kept = cells.profile("a = 1")
    recording = kept.info.recording
    assert recording is not None
    assert Recording.read(recording).code["<cell [2]>"].endswith("\na = 1")
    assert kept.info.options["code"] is True
    cells.profile("a = 1", "--no-code")
    recording = npuprof.last().info.recording
    assert recording is not None
    assert Recording.read(recording).code == {}


def test_a_cell_that_is_to_stay_untouched_does(cells: Cells) -> None:
    run = cells.profile("for i in range(3):\n    np.sin(x)", "--no-lines --no-steps")
    assert not len(run.statements)
    assert not len(run.iterations)


def test_nothing_is_left_behind(cells: Cells) -> None:
    before = set(cells.shell.user_ns)
    run = cells.profile("for i in range(3):\n    np.sin(x)")
    assert set(cells.shell.user_ns) - before <= {"i", "_i2"}
    assert set(vars(builtins)) == cells.builtins
    assert run.info.recording is not None
    assert not (run.info.recording / LINES_JOURNAL_FILE_NAME).exists()


def test_a_cell_that_runs_unprofiled_after_all_runs(cells: Cells) -> None:
    cells.magics.controller.begin(npuprof.Options(collector="simulator", output=cells.folder), "another", report=False)
    try:
        line = f"%%npuprof --collector simulator --if-unavailable run {output(cells.folder)}"
        assert cells.run(f"{line}\ntotal = 0\nfor i in range(5):\n    total += i\ntotal") == 10
    finally:
        cells.magics.controller.end()
    assert set(vars(builtins)) == cells.builtins


def test_the_rest_of_a_cell_whose_run_was_stopped_runs(cells: Cells) -> None:
    line = f"%%npuprof --collector simulator --no-report {output(cells.folder)}"
    code = (
        "total = 0\nfor i in range(5):\n    total += i\n    if i == 2:\n"
        "        get_ipython().run_line_magic('npuprof', 'stop')\ntotal"
    )
    assert cells.run(f"{line}\n{code}") == 10
    assert npuprof.last().statements["line"].tolist().count(4) == 3


def test_time_above_and_below_are_stamped_at_most_once(cells: Cells) -> None:
    options = f"--collector simulator --no-report {output(cells.folder)}"
    cells.run(f"%%time\n%%npuprof {options}\nfor i in range(3):\n    np.sin(x)")
    above = npuprof.last()
    assert len(above.statements) == 7
    cells.run(f"%%npuprof {options}\n%%time\nfor i in range(3):\n    np.sin(x)")
    assert len(npuprof.last().statements) == 1


def test_an_exception_has_its_own_line(cells: Cells) -> None:
    line = f"%%npuprof --collector simulator --no-report {output(cells.folder)}"
    result = cells.shell.run_cell(f"{line}\na = 1\nfor i in range(3):\n    b = 1 / (1 - i)\n", store_history=True)
    error = result.error_in_exec
    assert isinstance(error, ZeroDivisionError)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    assert traceback is not None
    assert traceback.tb_lineno == 4
    rows = npuprof.last().statements
    assert rows["line"].tolist() == [2, 3, 4, 3, 4]


def _steps_note(run: Profile) -> str:
    return str(run.notes[run.notes["source"] == "steps"]["message"].iloc[0])


def test_the_iterations_of_a_loop_are_steps(cells: Cells) -> None:
    run = cells.profile("a = 1\nfor i in range(5):\n    b = np.sin(x)\n    c = np.cos(b)\nnp.exp(x)")
    assert run.steps["step"].tolist() == [0, 1, 2, 3, 4]
    assert set(run.steps["kind"]) == {"loop of line 3"}
    assert run.steps["outer_iteration"].isna().all()
    assert run.launches["step"].value_counts().to_dict() == dict.fromkeys(range(5), 2)
    assert _steps_note(run) == "the loop of line 3, 5 iterations"
    assert run.accounting.steps["basis"].tolist() == ["steps"] * 5


def test_epochs_are_groups_and_another_loop_can_be_chosen(cells: Cells) -> None:
    code = (
        "for epoch in range(3):\n    for i in range(4):\n        optimizer.step()\n"
        "    for i in range(2):\n        np.sin(x)"
    )
    cells.run("class Optimizer:\n    def step(self):\n        np.sin(x)\noptimizer = Optimizer()")
    run = cells.profile(code)
    assert run.steps["counted"].sum() == 12
    assert run.steps["kind"].value_counts().to_dict() == {"loop of line 3": 12, "loop of line 5": 6}
    assert run.steps["outer_iteration"].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert _steps_note(run) == (
        "the loop of line 3, 12 iterations; those of line 5, 6 iterations, are a kind of their own; "
        "--step-line chooses another: 2 (3), 5 (6)"
    )
    counts = run.iterations.groupby("loop")["iteration"].agg(["size", "max"])
    assert counts.to_dict("index") == {
        2: {"size": 3, "max": 2},
        3: {"size": 12, "max": 11},
        5: {"size": 6, "max": 5},
    }
    assert len(cells.profile(code, "--step-line 2").steps) == 3
    run = cells.profile(code, "--step-line 4")
    assert not len(run.steps)
    assert _steps_note(run) == "no loop of the cell begins in line 4: loops that ran begin in 2, 3, 5"


def test_step_figures_leave_epochs_out(cells: Cells) -> None:
    cells.run("class Optimizer:\n    def step(self):\n        np.sin(x)\noptimizer = Optimizer()")
    run = cells.profile(
        "for epoch in range(3):\n    for i in range(4):\n        optimizer.step()\n"
        "    for i in range(3):\n        np.exp(x)"
    )
    numbers = run.steps["step"][run.steps["counted"]].tolist()
    assert run.accounting.steps["step"].tolist() == numbers == [0, 1, 2, 3, 7, 8, 9, 10, 14, 15, 16, 17]
    assert run.accounting.steps["closed"].all()  # an evaluation ends the step before it
    assert run.advice().step_ns == run.accounting.steps["duration_ns"].iloc[1:].sum() // 11
    told = r"11 steps[,:].* the loop of line 3; 9 of the loop of line 5 take"  # a median may stand between
    assert re.search(told, run.advice().headline())
    assert run.launches["step"].value_counts().sort_index().tolist() == [1] * 21
    assert run.accounting.basis.rows.tolist() == list(range(1, 12))
    costs = run.code().to_frame().set_index("line")
    assert costs.loc[6, "idle_ns"] > 0  # in the evaluation, too
    groups = layers.groups(Slices(run.tables))
    assert [group.title for group in groups[:2]] == ["Loops", "Steps"]
    (epochs,) = groups[0].layers
    names = Slices(run.tables).names(epochs.slices)
    assert names == ["line 2: iteration 0", "line 2: iteration 1", "line 2: iteration 2"]
    # Chosen alone, the evaluation has all figures per step.
    assert run.info.recording is not None
    alone = npuprof.load(run.info.recording, steps=run.steps["step"][~run.steps["counted"]].tolist())
    assert alone.accounting.steps["step"].tolist() == alone.steps["step"].tolist()
    assert "the loop of line 5" in alone.advice().headline()


def test_statements_and_steps_are_independent(cells: Cells) -> None:
    run = cells.profile("for i in range(3):\n    np.sin(x)", "--no-steps")
    assert not len(run.steps)
    assert len(run.statements) == 7
    run = cells.profile("for i in range(3):\n    np.sin(x)", "--no-lines")
    assert len(run.steps) == 3
    assert not len(run.statements)


def test_a_loop_of_host_code_is_a_step_too(cells: Cells) -> None:
    run = cells.profile("total = 0\nfor i in range(4):\n    total += sum(range(1000))", "--activities cpu")
    assert len(run.steps) == 4


def test_memory_has_the_line_that_allocated_it(cells: Cells) -> None:
    cells.run("def wave(x):\n    return np.sin(x)")
    run = cells.profile(
        "kept = []\nfor i in range(4):\n    kept.append(np.exp(x))\n    kept.append(wave(x))", "--memory"
    )
    costs = run.code().to_frame()
    block = 64 * 64 * 4
    lines = costs[costs["line"].notna().to_numpy(bool)].set_index(["file", "line"])["peak_bytes"]
    assert lines.loc["<cell [3]>", 4] >= 4 * block
    assert lines.loc["<cell [2]>", 2] >= 4 * block
    assert costs["peak_bytes"].sum() == run.memory_peak()["size_bytes"].sum()
    assert {"In [3], line 4", "In [2], line 2"} <= set(run.memory_leaks()["line"])


def test_a_part_of_a_run_can_be_chosen_by_its_steps(cells: Cells) -> None:
    run = cells.profile("for i in range(5):\n    b = np.sin(x)")
    assert run.info.recording is not None
    part = npuprof.load(run.info.recording, steps=[2, 3])
    assert part.steps["step"].tolist() == [2, 3]
    assert len(part.kernels) == 2


def test_steps_that_a_function_marks_are_the_steps(cells: Cells) -> None:
    cells.run("import npuprof\ndef train():\n    for _ in range(4):\n        np.sin(x)\n        npuprof.step()")
    npuprof.step()  # no run collects
    run = cells.profile("for i in range(3):\n    a = np.cos(x)\ntrain()")
    assert run.steps["step"].tolist() == [0, 1, 2, 3]
    assert "kind" not in run.steps
    assert not (run.notes["source"] == "steps").any()


@pytest.mark.torch
@pytest.mark.slow
def test_simulated_backward_pass_has_forward_lines(cells: Cells) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    cells.run(
        "import torch\nfrom npuprof import simulator\nmodel = torch.nn.Linear(8, 8)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nx = torch.ones(4, 8)"
    )
    cells.run("def loss_of(x):\n    y = model(x)\n    return (y * y).mean()")
    run = cells.profile(
        "with simulator.torch():\n    for _ in range(5):\n        optimizer.zero_grad()\n"
        "        loss = loss_of(x)\n        loss.backward()\n        optimizer.step()"
    )
    of_op = {op: set(rows["line"]) for op, rows in run.by("op", "line").groupby("op", observed=True)}
    assert of_op["aten::mm"] == of_op["aten::addmm"] == {"In [3], line 2"}
    assert of_op["aten::mul"] == {"In [3], line 3"}
    assert of_op["aten::add_"] == {"In [4], line 7"}
    assert len(run.steps) == 5


def test_the_finding_of_idle_time_names_its_lines(cells: Cells) -> None:
    run = cells.profile(
        "import time\nfor i in range(8):\n    time.sleep(0.01)\n    y = np.sin(x)\n    time.sleep(0.005)\n"
    )
    found = [each for each in run.advice() if each.cause == "sleep"]
    assert [each.title for each in found] == [
        "Line 4 keeps the NPU waiting: `time.sleep(0.01)`",
        "Line 6 keeps the NPU waiting: `time.sleep(0.005)`",
    ]


@pytest.mark.parametrize(
    ("when", "title"),
    [
        ("i % 10 == 5", r"Every 10th step takes \d\d\.\d ms longer: line 6"),
        ("i in (5, 11)", "2 of 38 steps take .*line 6"),
    ],
)
def test_outliers_name_their_line(cells: Cells, when: str, title: str) -> None:
    run = cells.profile(
        f"import time\nfor i in range(40):\n    y = np.sin(x)\n    if {when}:\n        time.sleep(0.02)\n"
        "    z = np.cos(x)\n"
    )
    found = run.advice()
    first = found.fired[0]
    assert re.match(title, first.title)
    assert first.place == "In [2], line 6"
    assert first.gain_hi_ns > 0.8 * found.excess_ns
    assert all("line 6" not in f"{each.title} {each.detail}" for each in found.fired if not each.of_outliers)


def test_a_single_outlier_names_its_line(cells: Cells) -> None:
    run = cells.profile(
        "import time\nfor i in range(24):\n    y = np.sin(x)\n    if i == 5:\n        time.sleep(0.05)\n"
    )
    found = run.advice()["outliers"]
    assert re.match(r"Step 5 takes \d\d\.\d ms longer: line 6", found.title)
    assert (found.state, found.gain_hi_ns) == ("fires", 0)


@pytest.mark.torch
@pytest.mark.slow
def test_a_function_that_torch_compiles_in_the_cell_is_compiled_whole(cells: Cells) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    cells.run("import torch\ntorch._dynamo.reset()\ntorch._dynamo.utils.counters.clear()")
    cells.profile(
        "@torch.compile(backend='eager')\ndef f(x):\n    for _ in range(3):\n        x = x + 1\n    return x\n"
        "for i in range(4):\n    y = f(torch.ones(2))\n"
    )
    assert cells.run("y.tolist()") == [4.0, 4.0]
    assert cells.run("torch._dynamo.utils.counters['stats']['unique_graphs']") == 1
    assert not cells.run("dict(torch._dynamo.utils.counters['graph_break'])")
    cells.run("torch._dynamo.reset()")


def test_names_a_line_and_others(cells: Cells) -> None:
    body = "\n".join(f"    y{number} = np.sin(x)" for number in range(12))
    run = cells.profile(f"for step in range(10):\n{body}")
    (first, *_) = [found for found in run.advice() if found.cause == "launches"]
    assert " and others launch 12 small kernels a step" in first.title


_AWAITED_NS = 6 * 30_000_000
_ASYNC = """
async def waits(count):
    for _ in range(count):
        y = x @ x
        await asyncio.sleep(0.03)
        z = y + x
    return z
async def delegates():
    return await waits(6)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("out = await waits(6)", 6),
        ("out = asyncio.run(waits(6))", 6),
        ("out = await delegates()", 6),
        ("for i in range(6):\n    out = await waits(1)", 6),
        ("out = await asyncio.create_task(delegates())", 6),
        ("out = await asyncio.gather(waits(6), waits(6))", 11),  # which of them waits is not one line
        ("for i in range(6):\n    y = x @ x\n    await asyncio.sleep(0.03)\n    z = y + x", 13),
    ],
)
def test_awaited_time_belongs_to_the_awaiting_line(cells: Cells, call: str, line: int) -> None:
    cells.run("import asyncio")
    run = cells.profile(_ASYNC + call)  # the cell runs within this test, whose lines are none of the cell's
    table = run.code().to_frame()
    cell = next(name for name, code in run.info.code.items() if "async def waits" in code)
    table = table[(table["file"] == cell).to_numpy(bool, na_value=False)].set_index("line")
    text = f"%%npuprof\n{_ASYNC}{call}".split("\n")
    assert table.index.dropna().max() <= len(text)
    assert "await" in text[line - 1]
    callers = {number for number, written in enumerate(text, 1) if "waits(" in written or "delegates(" in written}
    assert table["host_ns"][line] > 0.8 * _AWAITED_NS
    others = table["host_ns"][~table.index.isin({line, *callers})]  # a line that calls it may count the time, too
    assert int(others.sum()) < 0.2 * _AWAITED_NS
    assert set(run.tables["sampled_lines"]["file"].astype(str)) == {cell}
    assert set(run.tables["sampled_lines"]["line"]) <= set(range(1, len(text) + 1))
    assert run.notes[run.notes["source"] == "lines"]["message"].tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(0.005); y = x + x; v = float(y.sum())",
        "y = x + x; v = float(y.sum()); time.sleep(0.005)",
        "v = [time.sleep(0.005), float((x + x).sum())]",
        "time.sleep(0.005)\n    y = x + x\n    v = float(y.sum())",
    ],
)
def test_a_wait_costs_no_more_than_its_calls(cells: Cells, body: str) -> None:
    cells.run("import time")
    run = cells.profile(f"for i in range(8):\n    {body}")
    found = {each.cause: each for each in run.advice() if each.rule == "host_bound"}
    assert "time.sleep(0.005)" in found["sleep"].title
    assert found["sleep"].cost_ns > 4_500_000
    calls = run.api[run.api["name"].str.contains("Synchronize")]
    waited = int(calls["duration_ns"].sum()) // 8
    if "wait" in found:
        assert found["wait"].gain_hi_ns <= waited + 100_000  # and until the next launch
