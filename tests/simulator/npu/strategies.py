"""Arrays to compute with, and how results are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from npuprof.simulator.npu import NpuArray

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.uint8, np.int32, np.int64)

Values = np.ndarray[Any, np.dtype[Any]]


def dtypes(*kinds: Any) -> st.SearchStrategy[np.dtype[Any]]:
    return st.sampled_from([np.dtype(kind) for kind in kinds or (*FLOATS, *INTEGERS, np.bool_)])


def elements(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
    if dtype.kind == "f":
        return st.integers(-40, 40).map(lambda number: number / 8)
    return st.booleans() if dtype.kind == "b" else st.integers(0, 9)


def arrays(
    shape: Any = None, kinds: tuple[Any, ...] = (), min_side: int = 0, min_dims: int = 0
) -> st.SearchStrategy[Values]:
    shape = hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=min_side, max_side=4) if shape is None else shape
    made: st.SearchStrategy[Values] = dtypes(*kinds).flatmap(
        lambda dtype: hnp.arrays(dtype, shape, elements=elements(dtype))
    )
    return made


def assert_same(found: Any, expected: Any) -> None:
    """The same type of container, shapes, data types and bits."""
    if isinstance(expected, (list, tuple)):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    assert isinstance(found, NpuArray)
    assert found.shape == np.shape(expected)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(found.to_host(), expected)
