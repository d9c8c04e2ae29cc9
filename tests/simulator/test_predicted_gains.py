"""What a replay of a simulated run predicts is what the run without the planted fault shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof import simulator
from npuprof.profiles.profile import Profile
from npuprof.simulator import npu
from npuprof.simulator.cluster.ranks import Rank

_LAYERS, _STEPS, _SIZE = 4, 3, (512, 4096)


def train(
    rank: Rank, *, item: bool = False, wait: bool = False, loader_s: float = 0.0, slow: bool = False, copies: int = 0
) -> None:
    """Steps of a few layers, in which the host has as much to do as the device, with faults of some kinds."""
    batch = np.ones(_SIZE, np.float32)
    inputs, weight = npu.zeros(_SIZE), npu.zeros((_SIZE[1], _SIZE[1])) if slow else None
    rank.step()
    for step in range(_STEPS):
        rank.host_work(loader_s)
        values = inputs
        for _ in range(_LAYERS):
            rank.host_work(60e-6)
            for _ in range(4):
                values = values + inputs
            if weight is not None:
                values = values @ weight
            total = np.sum(values)
            if item:
                total.item()
        for _ in range(copies):
            npu.array(batch)
        if wait or step == _STEPS - 1:
            npu.synchronize()
        rank.step()


def recorded(folder: Path, **faults: Any) -> tuple[Profile, int]:
    """The run, and the time of all its steps."""
    simulator.ranks(1).run(lambda rank: train(rank, **faults), folder)
    run = npuprof.load_set(folder)[0]
    return run, int(run.accounting.steps["duration_ns"].sum())


_FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an .item() in each layer": ({"item": True}, {"cause": {"sync_call": 0}, "part": {"copy": 0}}),
    "an .item() in each layer, and a synchronisation of each step": (
        {"item": True, "wait": True},
        {"cause": {"sync_call": 0}, "part": {"copy": 0}},
    ),
    "a slow loader": ({"loader_s": 3e-3}, {"cause": {"unexplained": 0}}),
    "a slow kernel": ({"slow": True}, {"kernel": {"MatMulV3": 0}}),
    "copies": ({"copies": 3}, {"part": {"copy": 0}}),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", _FAULTS)
def test_the_gain_without_a_planted_fault_is_predicted(tmp_path: Path, fault: str) -> None:
    planted, change = _FAULTS[fault]
    run, slow_ns = recorded(tmp_path / "planted", **planted)
    _, fast_ns = recorded(tmp_path / "mended")
    predicted = run.what_if(**change).steps
    assert predicted["replayed_ns"].tolist() == predicted["recorded_ns"].tolist()
    assert slow_ns - fast_ns > 0.05 * slow_ns
    assert predicted["gain_ns"].sum() == pytest.approx(slow_ns - fast_ns, rel=0.1)
