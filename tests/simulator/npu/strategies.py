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


def assert_same(found: Any, expected: Any, *, roundings: int = 0) -> None:
    """Check the type of container, the shapes, the data types and the values.

    Parameters
    ----------
    found, expected
        Of the device and of NumPy: arrays, or sequences of them.
    roundings
        By how many units in the last place of the largest value floating values may differ: BLAS and NumPy choose
        their code by the processor and by the layout of the operands, and add and multiply in another order. 0
        compares bits, for values that are only moved or that every order computes exactly.
    """
    if isinstance(expected, (list, tuple)):
        assert type(found) is type(expected)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, roundings=roundings)
        return
    assert isinstance(found, NpuArray)
    values = np.asarray(expected)
    assert (found.shape, found.dtype) == (values.shape, values.dtype)
    if not roundings or values.dtype.kind not in "fc":
        np.testing.assert_array_equal(found.to_host(), values)
        return
    largest = np.max(np.abs(values), where=np.isfinite(values), initial=0)
    limit = roundings * float(np.finfo(values.dtype).eps) * float(largest)
    np.testing.assert_allclose(found.to_host(), values, rtol=0, atol=limit)
