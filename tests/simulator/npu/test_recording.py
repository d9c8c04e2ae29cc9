"""A recording of a program shows what it launched, with the shapes and copies that it had."""

from __future__ import annotations

import numpy as np
import pytest

import npuprof
from npuprof.simulator import Simulator, npu
from tests.simulator.conftest import Record
from tests.simulator.npu.strategies import Values


@pytest.mark.slow
def test_a_recorded_program_is_read_back_as_it_was_launched(record: Record, host: Values) -> None:
    def program(_: Simulator) -> None:
        x = npu.array(host)
        y = np.exp(x @ x.T)
        npu.to_host(y / y.sum(axis=-1, keepdims=True))

    run = npuprof.load(record(program))
    assert run.info.simulated
    kernels = run.kernels.sort_values("start_ns")
    assert kernels["op_type"].tolist() == ["Transpose", "MatMulV3", "Exp", "ReduceSum", "RealDiv"]
    product = kernels.iloc[1]
    assert product["core"] == "AI_CORE"
    assert product["input_shapes"] == "8,16;16,8"
    assert (run.tasks["task_type"] == "MEMCPY_ASYNC").sum() == 2
    assert "aclnnMatmul" in set(run.api["name"])
