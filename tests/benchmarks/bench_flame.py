"""How long the flame graph takes to answer: run with ``python -m tests.benchmarks.bench_flame [CALLS ...]``.

For runs of a million calls and kernels, or as many as are given, with a few names and with one for each kernel: merging
once, summing up the whole, a step and a thread, and then what a zoom takes: the frames, what is told of them, and the
figure; the slowest of some.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from npuprof.flame.scope import Scope
from npuprof.flame.state import FlameGraph
from npuprof.flame.view import flame_columns
from npuprof.notebook.explorer.flame_graph import FlameFigure
from tests import factories

_CALLS = (1_000_000,)
_ZOOMS = 8
_LIMIT_MS = 100


def _measured_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _measure(calls: int, *, own_names: bool) -> None:
    launches = calls * 10 // 31  # a launch is 3.1 calls and kernels
    names = tuple(f"MatMulV3_ND_FP16_{i}" for i in range(launches)) if own_names else factories.KERNELS
    tables = factories.profile(launches, kernel_names=names)
    flame = FlameGraph(tables, factories.info())
    merged_ms = _measured_ms(lambda: flame.calls)
    whole_ms = _measured_ms(flame.picture)
    step_ms = _measured_ms(lambda: flame.look_at(Scope(step=1)))
    thread_ms = _measured_ms(lambda: flame.look_at(Scope(thread=100)))
    print(
        f"{sum(len(tables[name]) for name in ('python', 'operators', 'api', 'kernels')):,} calls and kernels, "
        f"{len(flame.calls):,} paths: merged in {merged_ms:,.0f} ms; the whole {whole_ms:.0f} ms, a step {step_ms:.0f} "
        f"ms, a thread {thread_ms:.0f} ms"
    )
    flame.look_at(Scope())
    flame.weigh("device")
    figure = FlameFigure(flame, lambda _: None, lambda _: None)
    taken = []
    for at in range(_ZOOMS):
        frames_ms = _measured_ms(flame.picture)
        view_ms = _measured_ms(lambda: flame_columns(flame.picture(), flame.frame_matches()))
        figure_ms = _measured_ms(figure.draw)  # with the view once more
        taken.append(frames_ms + figure_ms)
        picture = flame.picture()
        print(
            f"{len(picture.frames):>8,} frames {frames_ms:6.1f} ms, texts {view_ms:6.1f} ms, figure with them "
            f"{figure_ms:6.1f} ms, {figure.size_bytes / 1e3:5.0f} kB"
        )
        folded = [frame for frame in range(len(picture.frames)) if picture.frames.folded[frame]]
        if at % 2 and folded:
            flame.zoom(folded[0])
        elif len(picture.frames) > 1:
            flame.zoom(1)
        else:
            flame.show_all()
    search_ms, share_ms = _measured_ms(lambda: flame.search("fp16")), _measured_ms(flame.frame_matches)
    print(f"search {search_ms:.0f} ms, its share {share_ms:.0f} ms")
    slowest = max(taken)
    kept = "kept" if slowest <= _LIMIT_MS else "MISSED"
    print(f"slowest answer to a zoom {slowest:.0f} ms; the limit is {_LIMIT_MS} ms: {kept}")


def main() -> None:
    """Measure and print."""
    for calls in [int(word.replace(",", "")) for word in sys.argv[1:]] or _CALLS:
        for own_names in (False, True):
            _measure(calls, own_names=own_names)


if __name__ == "__main__":
    main()
