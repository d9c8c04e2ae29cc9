"""How long a kernel waited, of what started last before it on its device."""

from __future__ import annotations

import numpy as np

from npuprof.sources.columns.steps import waits


def _waits(kernels: list[tuple[int, int, int]], collectives: list[tuple[int, int, int]]) -> list[int]:
    device, start, length = (np.array(column) for column in zip(*kernels, *collectives, strict=True))
    return [int(one) for one in waits(device, start, start + length, len(kernels))]


def test_kernel_waits_since_the_last_start() -> None:
    assert _waits([(0, 100, 50), (0, 160, 10), (1, 165, 5)], [(0, 155, 3)]) == [0, 2, 0]


def test_kernel_ignores_simultaneous_collective() -> None:
    assert _waits([(0, 100, 100), (0, 400, 10), (0, 420, 5)], [(0, 400, 1_000)]) == [0, 200, 0]


def test_overlapping_start_has_not_waited() -> None:
    assert _waits([(0, 0, 100), (0, 30, 10), (0, 50, 1)], [(0, 200, 1)]) == [0, 0, 10]
