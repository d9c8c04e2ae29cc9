"""A cell that launches nothing gets one sentence that says so, why and what to do, and no empty plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from npuprof.errors import CollectorError
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.recordings.clock import SystemClock
from npuprof.session.active import ActiveRun
from tests.fakes import FakeCollector
from tests.notebook.cells import Cells


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    yield made
    made.magics.uninstall()


def _report(run: Profile) -> tuple[str, str]:
    return " ".join(str(run).split()), run._repr_html_()


def test_numpy_cell_says_nothing_was_recorded(cells: Cells) -> None:
    run = cells.profile("import numpy as np\nnp.ones(3).sum()", "--activities npu")
    for shown in _report(run):
        assert "Nothing was recorded of the simulated NPU: use arrays of npuprof.simulator.npu." in shown
        assert "computing" not in shown


def test_a_cell_that_raised_before_its_first_launch_says_that(cells: Cells) -> None:
    with pytest.raises(ZeroDivisionError):
        cells.profile("1 / 0")
    for shown in _report(npuprof.last()):
        assert "the code raised ZeroDivisionError before its first launch." in shown


def test_a_cell_that_launches_says_nothing_of_this(cells: Cells) -> None:
    run = cells.profile("import numpy as np\nfrom npuprof.simulator import npu\nnp.sin(npu.ones((8, 8)))")
    assert not [shown for shown in _report(run) if "Nothing was recorded" in shown]


def test_host_only_cell_is_not_blamed(cells: Cells) -> None:
    run = cells.profile("import time\ntime.sleep(0.02)", "--activities cpu")
    assert not [shown for shown in _report(run) if "Nothing was recorded" in shown]


def test_python_cell_skips_device_rules(cells: Cells) -> None:
    run = cells.profile(
        "import time\nbegin = time.time()\nwhile time.time() < begin + 0.2:\n    sum(range(100))", "--stacks"
    )
    assert run.advice().cannot_tell
    for shown in _report(run):
        assert "Nothing was recorded of the simulated NPU" in shown
        assert "cannot tell" not in shown
        assert "no finding" not in shown


def test_a_front_end_that_failed_is_the_cause(tmp_path: Path) -> None:
    collector = FakeCollector(fail={"stop": CollectorError("acl.prof.stop returned 500005")})
    run = ActiveRun(collector, Options(output=tmp_path), "a test", SystemClock())
    run.start()
    run.stop()
    for shown in _report(run.result()):
        assert "Nothing was recorded of the device: fake failed, as its error says." in " ".join(shown.split())
        assert "acl.prof.stop returned 500005" in " ".join(shown.split())
        assert "move the model and its inputs" not in shown
