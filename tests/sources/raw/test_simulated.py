"""What the simulated NPU writes comes back; its writer shares no record definitions with the decoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuprof.simulator import synthesise
from npuprof.sources import raw


@pytest.mark.long
def test_many_launches_of_a_stream_join(tmp_path: Path) -> None:
    # GIVEN 16-bit task ids that wrap twice
    count = 140_000
    decoded = raw.read(synthesise(tmp_path, launches=count, streams=1))
    tasks, kernels = decoded.tables["tasks"], decoded.tables["kernels"]
    number = np.arange(count)
    # THEN each task is in its turn and connected to the launch of its own number
    assert (tasks["batch_id"] == number >> 16).all()
    assert (tasks["task_id"] == number & 0xFFFF).all()
    calls = decoded.tables["api"]
    launches = np.flatnonzero((calls["level"] == "node").to_numpy())
    assert (tasks["connection_id"].to_numpy(np.int64) - 1 == launches).all()
    assert len(kernels) == count
    assert kernels["op_type"].notna().all()
    assert kernels["input_shapes"].notna().all()
    assert decoded.notes.to_frame().empty


@pytest.mark.slow
def test_a_simulated_run_says_so(tmp_path: Path) -> None:
    decoded = raw.read(synthesise(tmp_path, launches=10))
    assert decoded.info.simulated
    assert decoded.info.chip == "Ascend 910B2"  # its member of the family: real recordings do not name one
    assert len(decoded.tables["kernels"]) == 10
