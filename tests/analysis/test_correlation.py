"""Callers of callers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof.analysis import correlation
from npuprof.analysis.correlation import nearest
from tests.sources.kineto.traces import KinetoTrace


@st.composite
def _callers(draw: st.DrawFn) -> list[int]:
    count = draw(st.integers(0, 30))
    return [draw(st.integers(-1, row - 1)) for row in range(count)]


@pytest.mark.parametrize("steps", [0, 2, 16])
@given(callers=_callers(), chosen=st.sets(st.integers(0, 29)))
def test_the_nearest_caller_is_the_first_wanted_on_the_way_up(steps: int, callers: list[int], chosen: set[int]) -> None:
    wanted = np.array([row in chosen for row in range(len(callers))], bool)
    asked = np.arange(-1, len(callers))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(correlation, "_MOST_STEPS", steps)
        reached = nearest(np.array(callers, np.int64), asked, wanted)
    for row, found in zip(asked.tolist(), reached.tolist(), strict=True):
        while row >= 0 and not wanted[row]:
            row = callers[row]
        assert found == row


@pytest.mark.parametrize("seed", range(6))
def test_kernels_that_begin_together_keep_operators(tmp_path: Path, seed: int) -> None:
    chosen, trace = random.Random(seed), KinetoTrace()
    expected: Counter[tuple[str, int]] = Counter()
    for number in range(40):
        name = f"aten::op{number % 5}"
        trace.operator(name, number * 10, 8, number + 1)
        launch = {"correlation": 900 + number, "External id": number + 1}
        trace.slice("cuda_runtime", "cudaLaunchKernel", number * 10 + 1, 2, **launch)
        moment, lasting = 1000 + number // chosen.choice([1, 2, 4]) * 40, chosen.choice([0, 1, 2])
        kind, kernel = chosen.choice([("kernel", "k0"), ("kernel", "k1"), ("gpu_memcpy", "copy")])
        trace.on_gpu(kind, kernel, moment, lasting, 0, stream=7, **launch)
        expected[name, lasting * 1000] += kind == "kernel"
    chosen.shuffle(trace.events)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    by = run.by("op")
    counts, times = (Counter[str]() for _ in range(2))
    for (name, lasting), count in expected.items():
        counts[name] += count
        times[name] += count * lasting
    assert dict(zip(by["op"], by["count"], strict=True)) == +counts
    assert dict(zip(by["op"], by["total_ns"], strict=True)) == {name: times[name] for name in +counts}
