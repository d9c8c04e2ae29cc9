"""Arrays on the embedded simulated NPU, for ordinary NumPy code.

>>> import numpy as np
>>> from npuprof.simulator import npu
>>> x = npu.array(np.random.rand(256, 512).astype(np.float32))
>>> w = npu.default_rng(0).standard_normal((512, 128))
>>> scores = np.exp(x @ w)
>>> scores / np.sum(scores, axis=-1, keepdims=True)     # a MatMul, an Exp, a ReduceSum and a RealDiv

Values are NumPy's, computed by the host as each operator is launched; when and how long the operators
run is the simulated device's. While a recording runs, the time that the host takes to compute them does not count.
Every array says in its text that it is simulated.
"""

from __future__ import annotations

from npuprof.simulator.npu.array import (
    Generator,
    NpuArray,
    arange,
    array,
    asarray,
    default_rng,
    empty,
    full,
    ones,
    synchronize,
    to_host,
    zeros,
)
from npuprof.simulator.npu.fused import adam_w, gelu, gelu_backward
from npuprof.simulator.npu.streams import Event, Stream, current_stream, stream

__all__ = [
    "Event",
    "Generator",
    "NpuArray",
    "Stream",
    "adam_w",
    "arange",
    "array",
    "asarray",
    "current_stream",
    "default_rng",
    "empty",
    "full",
    "gelu",
    "gelu_backward",
    "ones",
    "stream",
    "synchronize",
    "to_host",
    "zeros",
]
