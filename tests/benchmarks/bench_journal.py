"""What it costs to keep steps, markers and Python stacks in files as they end, beside a run that does not.

Run by hand: ``python -m tests.benchmarks.bench_journal``. Both ways take turns, and the processor's time counts: the
medians, and the median of the ratios of the pairs.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import npuprof
from npuprof.collectors.python_stacks import PythonStacks
from npuprof.options import Options
from npuprof.recordings.journal import Journal
from npuprof.session.session import Session
from npuprof.simulator import npu

_CALLS = 2_000
_ROUNDS = 7
_CELLS = 20
_WORK_S = 2.0


def _session(output: Path) -> Session:
    return Session(Options(collector="simulator", output=output))


def _calls_us(call: Callable[[Session], object]) -> float:
    """What a call costs within a run of the simulated NPU, in microseconds."""
    with tempfile.TemporaryDirectory() as output, _session(Path(output)) as session:
        begin_ns = time.process_time_ns()
        for _ in range(_CALLS):
            call(session)
        return (time.process_time_ns() - begin_ns) / _CALLS / 1e3


def _cell_us() -> float:
    """What a profiled cell of ten steps with a marker each costs, from its start to the end of its recording."""
    begin_ns = time.process_time_ns()
    for _ in range(_CELLS):
        with tempfile.TemporaryDirectory() as output, _session(Path(output)) as session:
            for number in range(10):
                npuprof.mark(f"step {number}")
                _step(session)
    return (time.process_time_ns() - begin_ns) / _CELLS / 1e3


def _nothing(journal: Journal, entry: object) -> None:
    """What a mock would do in more time."""


def _step(session: Session) -> None:
    (npu.ones((64, 64)) @ npu.ones((64, 64))).sum()
    session.step()


def _sampling_share(journal: bool) -> float:
    """The share of its time that a busy process spends on sampling its stacks."""
    with tempfile.TemporaryDirectory() as output:
        stacks = PythonStacks(journal=Path(output) / "journal" if journal else None)
        stacks.start()
        busy_ns, end = time.thread_time_ns(), time.perf_counter() + _WORK_S
        whole_ns = time.process_time_ns()
        while time.perf_counter() < end:
            sorted(range(100))
        busy_ns, whole_ns = time.thread_time_ns() - busy_ns, time.process_time_ns() - whole_ns
        stacks.stop()
    return (whole_ns - busy_ns) / whole_ns


def _with_and_without(measure: Callable[[], float]) -> Callable[[bool], float]:
    def either(journal: bool) -> float:
        if journal:
            return measure()
        with mock.patch.object(Journal, "write", _nothing):
            return measure()

    return either


def _told(name: str, measure: Callable[[bool], float], unit: str) -> None:
    measure(True)  # imports what is imported late
    pairs = [(measure(True), measure(False)) for _ in range(_ROUNDS)]
    kept, lost = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{name:32} {kept:8.2f} {unit} kept, {lost:8.2f} {unit} not: ratio {ratio:.2f}", flush=True)


def main() -> None:
    """Print what each costs with the files and without, and the ratio."""
    forms: dict[str, Callable[[Session], object]] = {
        "mark": lambda _: npuprof.mark("tick", "data"),
        "range": lambda _: npuprof.range_end(npuprof.range_start("load")),
        "step()": lambda session: session.step(),
        "a step of two small operators": _step,
    }
    for name, call in forms.items():

        def calls(call: Callable[[Session], object] = call) -> float:
            return _calls_us(call)

        _told(name, _with_and_without(calls), "us")
    _told("a cell of ten steps", _with_and_without(_cell_us), "us")
    _told("sampling, share of CPU time", lambda journal: 100 * _sampling_share(journal), "%")


if __name__ == "__main__":
    main()
