"""Steps of a cell that take longer than the others: where, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from npuprof import simulator
from tests.notebook.cells import Cells


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    simulator.reset()
    monkeypatch.chdir(tmp_path)
    made = Cells(tmp_path)
    made.run("import numpy as np, subprocess, time\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))")
    yield made
    made.magics.uninstall()


_LOOP = "for i in range({steps}):\n    y = x + x\n    if i in {at}:\n        {line}"


@pytest.mark.parametrize(
    ("at", "line", "which", "action"),
    [
        (range(9, 40, 10), "time.sleep(0.02)", "Every 10th step takes", "Remove the wait, or make it shorter."),
        (range(5, 40, 9), "np.save('out.npy', y.to_host())", "Every 9th step takes", "save less often"),
        ((7, 12, 30), "subprocess.run(['sleep', '0.02'])", "3 of 38 steps take", "once, outside the loop"),
    ],
)
def test_outliers_name_line_and_action(cells: Cells, at: object, line: str, which: str, action: str) -> None:
    run = cells.profile(_LOOP.format(steps=40, at=at, line=line))
    first = run.advice().fired[0]
    assert first.title.startswith(which)
    assert first.title.endswith("line 5")
    assert action in first.action
    assert [number for _, number in first.lines] == [5]
    marked = next(text for text in str(run).splitlines() if text.endswith(line))
    assert marked.split()[-len(line.split()) - 2 :][:2] == ["1", "5"]  # the finding's number, the line's


def test_single_outlier_stands_beside_the_mean(cells: Cells) -> None:
    run = cells.profile(_LOOP.format(steps=40, at=[20], line="time.sleep(0.03)"))
    (headline,) = (text for text in str(run).splitlines() if " a step  usually " in text)
    assert re.search(r"; step 20 takes 3\d\.\d ms longer: line 5$", headline)
