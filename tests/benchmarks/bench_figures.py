"""How long a timeline takes, beside drawing every slice: run with ``python -m tests.benchmarks.bench_figures``.

Compares the timeline of 100,000 and of 1,000,000 slices with one ``go.Bar`` of 10,000 labelled slices, each up
to the JSON that a notebook gets, in one process; then what else a report needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pandas as pd

from npuprof.analysis.summary import summarise
from npuprof.flame.figure import flamegraph
from npuprof.flame.tree import call_tree
from npuprof.timeline.figure import timeline
from npuprof.timeline.layers import layers
from npuprof.timeline.slices import Slices
from tests import factories

_NAIVE_SLICES = 10_000


def _best_s(work: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def _naive(kernels: pd.DataFrame) -> str:
    """Draw every kernel as a labelled bar of its own."""
    import plotly.graph_objects as go

    figure = go.Figure(
        go.Bar(
            orientation="h",
            base=((kernels["start_ns"] - kernels["start_ns"].iloc[0]) / 1e6).tolist(),
            x=(kernels["duration_ns"] / 1e6).tolist(),
            y=[f"stream {stream}" for stream in kernels["stream_id"]],
            text=kernels["name"].tolist(),
            hovertext=kernels["name"].tolist(),
        )
    )
    return str(figure.to_json())


def _run_of(slices: int) -> tuple[Mapping[str, pd.DataFrame], int]:
    """Make a run with about so many slices to draw, and count them."""
    launches = slices * 100 // 530  # a launch draws 5.3 slices on the average
    run = factories.profile(launches)
    return run, sum(len(frame) for layer in layers(Slices(run)) for frame in layer.frames)


def main() -> None:
    """Measure and print, ratios to the naive figure last."""
    info = factories.info()
    kernels = factories.profile(_NAIVE_SLICES)["kernels"]
    naive_s = _best_s(lambda: _naive(kernels))
    naive_bytes = len(_naive(kernels))
    print(f"{'':34}{'slices':>12}{'seconds':>10}{'kB':>8}{'time ratio':>12}{'time a slice':>14}")
    print(
        f"{'naive go.Bar, every slice':34}{_NAIVE_SLICES:12,}{naive_s:10.3f}{naive_bytes / 1000:8.0f}{1:12.2f}{1:14.3f}"
    )
    for wanted in (100_000, 1_000_000):
        run, slices = _run_of(wanted)
        for name, work in (
            ("timeline", lambda run=run: timeline(run, info).to_json()),
            ("flamegraph", lambda run=run: flamegraph(run, info).to_json()),
            ("call_tree", lambda run=run: call_tree(run)),
            ("summarise", lambda run=run: summarise(run, info)),
        ):
            taken_s = _best_s(work)
            result = work()
            size = f"{len(result) / 1000:8.0f}" if isinstance(result, str) else " " * 8
            ratio, each = taken_s / naive_s, taken_s / slices / (naive_s / _NAIVE_SLICES)
            print(f"{name:34}{slices:12,}{taken_s:10.3f}{size}{ratio:12.2f}{each:14.3f}")


if __name__ == "__main__":
    main()
