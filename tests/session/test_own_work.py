"""A front end that records Python calls records those of the user, not what npuprof does at the end of a run."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest

import npuprof
from npuprof.lines.cell_stamps import RunningCell
from npuprof.options import Options
from npuprof.recordings.clock import SystemClock
from npuprof.recordings.recording import TRACE_FILE_NAME
from npuprof.session.active import ActiveRun
from tests.fakes import FakeCollector

_MOST_OWN = 250  # what opens at the start, and leads to the stop
_OWN = str(Path(npuprof.__file__).parent)


class TracingCollector(FakeCollector):
    """A front end that counts every Python call from its start to its stop, on all threads that begin later."""

    def __init__(self, records_stacks: bool) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()
        self._records_stacks = records_stacks

    def records_stacks(self, options: Options) -> bool:
        return self._records_stacks

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.counted[frame.f_code.co_filename] += 1

    def start(self, options: Options, directory: Path) -> None:
        super().start(options, directory)
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        super().stop()


def _work(rounds: int) -> int:
    return sum(_part(number) for number in range(rounds))


def _part(number: int) -> int:
    return number * number


@pytest.mark.slow
@pytest.mark.parametrize("given", ["cell", "no cell"])
@pytest.mark.parametrize("records_stacks", [True, False])
def test_the_end_of_a_run_is_not_recorded(tmp_path: Path, records_stacks: bool, given: str) -> None:
    collector = TracingCollector(records_stacks)
    cell = RunningCell(file="<cell>", text="work()") if given == "cell" else None
    run = ActiveRun(collector, Options(output=tmp_path, stacks=records_stacks), "a test", SystemClock(), cell=cell)
    run.start()
    _work(1000)
    run.stop()
    own = sum(count for file, count in collector.counted.items() if file.startswith(_OWN))
    others = sum(count for file, count in collector.counted.items() if not file.startswith((_OWN, __file__)))
    assert collector.counted[__file__] >= 1000
    assert own < _MOST_OWN, collector.counted.most_common(5)
    assert others < _MOST_OWN, collector.counted.most_common(5)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:with_modules is deprecated")
@pytest.mark.parametrize("asked", [{"stacks": True}, {"modules": True}, {"stacks": True, "modules": True}])
def test_the_trace_of_torch_holds_no_work_of_ours(tmp_path: Path, asked: dict[str, bool]) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(8, 1)
    prof = npuprof.profile(collector="kineto", activities=["cpu"], output=tmp_path, **asked)  # type: ignore[arg-type]
    prof.start()
    for _ in range(2):
        model(torch.ones(4, 8)).sum().backward()
    prof.stop()
    trace = next(tmp_path.rglob(TRACE_FILE_NAME)).read_text()
    assert trace.count("npuprof/") < _MOST_OWN
