"""Every time of a step that a run states, wherever it states it, is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof.advice.gate import check, figures
from npuprof.notebook.panel.runs import ListedRuns
from npuprof.words.quantities import duration
from tests.notebook.cells import Cells, output

_STALLS = (
    "import time\nfor i in range(22):\n    y = x * 2\n    time.sleep(0.003)\n    if i in ({at}):\n"
    "        time.sleep(0.04)\n    z = x + 1\n"
)
_SHORT = "for i in range(10):\n    y = x * 2\n    time.sleep(0.004)\n"
_HOST = "import time\nfor i in range(12):\n    time.sleep(0.004)\n    if i in (4, 8):\n        time.sleep(0.03)\n"


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    made = Cells(tmp_path)
    made.run("from npuprof.simulator import npu\nx = npu.ones((64, 64))")
    yield made
    made.magics.uninstall()


@pytest.mark.parametrize("code", [_STALLS.format(at="5, 15"), _STALLS.format(at="9,"), _HOST])
def test_every_stated_step_time_agrees(cells: Cells, code: str) -> None:
    cells.run(f"%%npuprof --collector simulator {output(cells.folder)} --name one\n{code}")
    run = npuprof.last()
    advice, comparison = run.advice(), run - run
    plain, budget = json.loads(advice.to_json()), advice.budget()
    basis = run.accounting.basis
    steps = run.breakdown().groupby("step")["duration_ns"].sum()
    counted = run.accounting.steps["step"].iloc[basis.rows]
    lines = advice.facts.cell_lines.per_step()
    history = npuprof.history(cells.folder)
    stated = {
        "breakdown()": int(steps.loc[counted].sum()) // len(counted),
        "advice": advice.step_ns,
        "usual and excess": advice.usual_ns + advice.excess_ns,
        "JSON": plain["step_ns"],
        "JSON, usual and excess": plain["usual_ns"] + plain["excess_ns"],
        "parts": sum(advice.facts.mean_step([part]) for part in run.breakdown()["part"].unique()),
        "budget": int(budget["time_ns"].sum()),
        "summary": run.summary.step_ns,
        "a": comparison.a_ns,
        "b": comparison.b_ns,
        "rows of a - b": int(comparison.rows.loc[comparison.rows["depth"] == 0, "a_ns"].sum()),
        "JSON of a - b": comparison.to_dict()["usual_ns"][0] + comparison.to_dict()["excess_ns"][0],
        "lines": int(lines["host_ns"].sum()),
        "history": int(history["step_ns"].iloc[-1]),
    }
    assert set(stated.values()) == {basis.mean_ns}, stated
    assert int(budget["usual_ns"].sum()) == advice.usual_ns == basis.usual_ns

    text = duration(advice.step_ns)
    page = ListedRuns().page()
    named = [heading.name for heading in page.columns]
    texts = {
        "headline": advice.headline().partition(" a step")[0],
        "report": next((line.partition(" a step")[0] for line in str(run).splitlines() if " a step" in line), text),
        "panel": page.rows[0][named.index("step")],
    }
    assert set(texts.values()) == {text}, texts

    assert len(run.kernels) or duration(run.summary.wall_ns) in str(run).splitlines()

    single = basis.outliers == 1
    (judged,) = check("step < 1s", figures(advice))
    assert judged.left_ns == (advice.usual_ns if single else advice.judged_ns)


def test_a_rerun_says_the_means(cells: Cells) -> None:
    means = []
    for at in ("5, 15", "5, 15, 18"):
        cells.run(f"%%npuprof --collector simulator {output(cells.folder)} --name one\n{_STALLS.format(at=at)}")
        means.append(npuprof.last().advice().step_ns)
    history = npuprof.history(cells.folder)
    assert history["step_ns"].tolist() == means
    assert history["change"].iloc[1] == pytest.approx((means[1] - means[0]) / means[0])


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            "for i in range(10):\n    y = x * 2\n    time.sleep(0.004)\ntime.sleep(0.03)\n",
            "; line 6 takes most of the rest.",
        ),
        ("for i in range(10):\n    y = x * 2\n    time.sleep(0.004)\n", ""),
    ],
)
def test_the_rest_of_a_cell_is_told(cells: Cells, code: str, sentence: str) -> None:
    told = cells.profile(f"import time\n{code}").advice().outside_steps()
    assert told.startswith("The steps cover " if sentence else "")
    assert told.endswith(sentence)
    assert bool(told) == bool(sentence)


def test_a_run_without_a_device_has_one_time(cells: Cells) -> None:
    run = cells.profile("import time\ntime.sleep(0.02)\n" + "s = sum(range(200_000))\n" * 3)
    wall = run.summary.wall_ns
    assert run.advice().step_ns == wall
    assert sum(run.advice().parts().values()) == wall == run.summary.host.span_ns
    assert int(run.code().to_frame()["host_ns"].sum()) == wall
    assert run.info.started_ns is not None
    assert wall == (run.info.stopped_ns or 0) - run.info.started_ns
