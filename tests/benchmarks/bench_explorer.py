"""How long the explorer takes to answer: run with ``python -m tests.benchmarks.bench_explorer [SLICES ...]``.

For runs of a million and of ten million slices, or as many as are given: building the index once; the first answer;
then, at each zoom from the whole run to single slices, the answer to a page (three screens, one level finer), the
median and the slowest of some windows, and its size.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from npuprof.notebook.explorer.timeline import TimelineView
from npuprof.timeline.state import Timeline
from tests import factories

_SLICES = (1_000_000, 10_000_000)
_LIMITS_MS = {1_000_000: 50, 10_000_000: 100}
_WINDOWS = 9


def _measured_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _measure(slices: int) -> None:
    tables = factories.profile(slices * 100 // 530)  # a launch draws 5.3 slices on the average
    timeline: Timeline
    began = time.perf_counter()
    timeline = Timeline(tables, factories.info())
    built_s = time.perf_counter() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, end = timeline.whole
    counted = int(timeline.answer(start, end, 3_000).columns.count.sum())
    print(f"{counted:,} slices: index built in {built_s:.2f} s, {peak_mb:,.0f} MB peak with the tables")
    print(f"first answer, as a page gets it: {_measured_ms(lambda: TimelineView(timeline)):.0f} ms")
    print(f"{'window':>12}{'bars':>8}{'answer ms':>11}{'slowest':>9}{'kB':>8}")
    slowest = 0.0
    for zoom in range(0, 22, 3):
        length = max((end - start) >> zoom, 20)
        answer_ms, bars, size = [], 0, 0
        for at in range(_WINDOWS):
            begin = start + (end - start - length) * at // _WINDOWS
            ask = partial(timeline.answer, begin - length, begin + 2 * length, 7_200)
            answer_ms.append(_measured_ms(ask))
            columns = ask().columns
            bars, size = max(bars, len(columns)), max(size, sum(one.nbytes for one in columns.arrays().values()))
        slowest = max(slowest, *answer_ms)
        median = statistics.median(answer_ms)
        print(f"{length / 1e6:>9,.3f} ms{bars:>8,}{median:>11.1f}{max(answer_ms):>9.1f}{size / 1e3:>8.0f}")
    timeline.show_all()
    print(f"search {_measured_ms(lambda: timeline.search('Softmax')):.0f} ms")
    print(f"next match {_measured_ms(timeline.next_match):.0f} ms")
    print(f"overview {_measured_ms(lambda: timeline.overview(*timeline.whole)):.0f} ms")
    print(f"sums of the whole run {_measured_ms(lambda: timeline.summary(start, end)):.0f} ms")
    print(f"arrows, first time {_measured_ms(timeline.arrows):.0f} ms")
    timeline.step(1)
    print(f"arrows, then {_measured_ms(timeline.arrows):.0f} ms")
    if limit := _LIMITS_MS.get(slices):
        print(f"slowest answer {slowest:.1f} ms; the limit is {limit} ms: {'kept' if slowest <= limit else 'MISSED'}")


def main() -> None:
    """Measure and print."""
    for slices in [int(word) for word in sys.argv[1:]] or _SLICES:
        _measure(slices)


if __name__ == "__main__":
    main()
