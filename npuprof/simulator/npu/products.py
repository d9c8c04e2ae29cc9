"""Matrix products: on the cube cores where the data type allows, with their true number of operations.

Two operations (a multiplication and an addition) for each of ``batch * m * k * n``. Half, bfloat16 and
single precision run on the cube; the rest runs as ``MatMul`` on the vector cores, where CANN would use the
AI CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.catalogue import BATCHED, DOT, MATMUL, Kernel
from npuprof.simulator.npu.launches import cast, launch
from npuprof.simulator.npu.operands import Operands, delivered, target_of, unsupported
from npuprof.simulator.npu.storage import DeviceArray
from npuprof.simulator.tensors import Tensor

_CUBE_DTYPES = ("float16", "bfloat16", "float32")


class Extent(NamedTuple):
    """Lengths of a product of `batch` matrices, each of m x k with one of k x n."""

    batch: int
    m: int
    k: int
    n: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.k * self.n


def launch_product(extent: Extent, inputs: tuple[Tensor, Tensor], dtype: str, device_id: int) -> Tensor:
    """Launch the operator of a matrix product.

    Parameters
    ----------
    extent
        Its lengths.
    inputs
        Operands that have been cast; one that is broadcast along the batch has fewer elements.
    dtype
        Name of the type it computes in.
    device_id
        The device.

    Returns
    -------
    Tensor
        The result, with its batch as one axis.
    """
    batch, m, k, n = extent
    kernel = product_kernel(extent, dtype)
    if kernel.op_type == "Dot":
        shapes = [(k,), (k,), ()] if batch == 1 else [(batch, k), (batch, k), (batch,)]
    else:
        # A shared operand is read once, not once for each matrix of the batch.
        lead = [
            () if batch == 1 else (_lead(tensor, m * k if not side else k * n),) for side, tensor in enumerate(inputs)
        ]
        shapes = [(*lead[0], m, k), (*lead[1], k, n), (m, n) if batch == 1 else (batch, m, n)]
    first, second, result = (Tensor(shape, dtype) for shape in shapes)
    launch(kernel, [first, second], [result], device_id=device_id, flops=extent.flops)
    return result


def _lead(tensor: Tensor, matrix_elements: int) -> int:
    return max(1, math.prod(tensor.shape) // matrix_elements) if matrix_elements else 0


def product_kernel(extent: Extent, dtype: str) -> Kernel:
    """Choose the operator of a product by its lengths and its type."""
    if extent.m == extent.n == 1:
        return DOT
    call = "aclnnMatmul" if extent.batch == 1 else "aclnnBatchMatMul"
    if dtype not in _CUBE_DTYPES:
        return Kernel(call[5:].replace("Matmul", "MatMul"), call)
    op_type = "MatMulV2" if 1 in (extent.m, extent.n) else "MatMulV3"
    op_type = op_type if extent.batch == 1 else "BatchMatMulV2"
    return (MATMUL if extent.batch == 1 else BATCHED)._replace(op_type=op_type)


def apply_ufunc(
    like: DeviceArray, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Compute the ufuncs that are products: ``np.matmul``, and the three of vectors that newer NumPy has.

    Raises
    ------
    TypeError
        For another method than the call, for ``axes`` and ``axis``, and for other generalised ufuncs.
    """
    extent_of = _UFUNC_EXTENTS.get(ufunc.__name__)
    if method != "__call__" or extent_of is None or options.keys() & {"axes", "axis", "keepdims"}:
        raise unsupported(f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}"))
    out = options.pop("out", (None,))[0]
    return compute(like, ufunc, inputs, options, extent_of, out)


def compute(
    like: DeviceArray,
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    options: Mapping[str, Any],
    extent_of: Callable[[Records, Records, Records], Extent],
    out: Any = None,
) -> Any:
    """Compute a product of two operands by NumPy and launch its operator.

    Parameters
    ----------
    like
        An array of the call.
    function, inputs, options
        What NumPy is asked for.
    extent_of
        Gives the lengths for both operands and the result.
    out
        Where the result is to go.
    """
    operands = Operands(like._device_id)
    first, second = (np.asarray(operands.take_operand(value)) for value in inputs)
    written = {} if out is None else {"out": target_of(out, like._device_id)}
    result = np.asarray(function(first, second, **options, **written))
    device_id = like._device_id
    made = like._make(result, device_id) if out is None else out
    operands.upload()
    dtype = np.result_type(first, second) if out is not None else result.dtype
    inputs_cast = (cast(first, dtype, device_id), cast(second, dtype, device_id))
    launch_product(extent_of(first, second, result), inputs_cast, dtype.name, device_id)
    return delivered(made, device_id)


# -- lengths -------------------------------------------------------------------------------------------------


def _matmul_extent(first: Records, second: Records, result: Records) -> Extent:
    k = first.shape[-1]
    if second.ndim <= 2:
        # The leading axes of the first operand are rows of one matrix.
        n = second.shape[1] if second.ndim == 2 else 1
        return Extent(1, math.prod(first.shape[:-1]), k, n)
    m = first.shape[-2] if first.ndim > 1 else 1
    n = second.shape[-1]
    batch = result.shape[: result.ndim - (2 if first.ndim > 1 else 1)]
    return Extent(math.prod(batch), m, k, n)


def _dot_extent(first: Records, second: Records, _: Records) -> Extent:
    k = first.shape[-1]
    n = math.prod(second.shape[:-2]) * (second.shape[-1] if second.ndim > 1 else 1)
    return Extent(1, math.prod(first.shape[:-1]), k, n)


def _inner_extent(first: Records, second: Records, _: Records) -> Extent:
    return Extent(1, math.prod(first.shape[:-1]), first.shape[-1], math.prod(second.shape[:-1]))


def _vdot_extent(first: Records, _second: Records, _: Records) -> Extent:
    return Extent(1, 1, first.size, 1)


def _vecdot_extent(first: Records, _second: Records, result: Records) -> Extent:
    return Extent(result.size, 1, first.shape[-1], 1)


def _matvec_extent(first: Records, _second: Records, result: Records) -> Extent:
    return Extent(math.prod(result.shape[:-1]), first.shape[-2], first.shape[-1], 1)


def _vecmat_extent(first: Records, second: Records, result: Records) -> Extent:
    return Extent(math.prod(result.shape[:-1]), 1, first.shape[-1], second.shape[-1])


_UFUNC_EXTENTS: Mapping[str, Callable[[Records, Records, Records], Extent]] = {
    "matmul": _matmul_extent,
    "vecdot": _vecdot_extent,
    "matvec": _matvec_extent,
    "vecmat": _vecmat_extent,
}


# -- functions -----------------------------------------------------------------------------------------------


def dot(like: DeviceArray, a: Any, b: Any, out: Any = None) -> Any:
    """Compute ``np.dot``; with a scalar it is a multiplication."""
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b, out=out)
    return compute(like, np.dot, (a, b), {}, _dot_extent, out)


def inner(like: DeviceArray, a: Any, b: Any) -> Any:
    """Compute ``np.inner``; with a scalar it is a multiplication."""
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b)
    return compute(like, np.inner, (a, b), {}, _inner_extent)


def vdot(like: DeviceArray, a: Any, b: Any) -> Any:
    """Compute ``np.vdot``."""
    return compute(like, np.vdot, (a, b), {}, _vdot_extent)


def tensordot(like: DeviceArray, a: Any, b: Any, axes: Any = 2) -> Any:
    """Compute ``np.tensordot``, one matrix product of the flattened operands."""

    def extent_of(first: Records, second: Records, _: Records) -> Extent:
        summed = first.shape[first.ndim - axes :] if isinstance(axes, int) else _lengths(first, axes[0])
        k = math.prod(summed)
        return Extent(1, first.size // k if k else 0, k, second.size // k if k else 0)

    return compute(like, np.tensordot, (a, b), {"axes": axes}, extent_of)


def _lengths(values: Records, axes: Any) -> tuple[int, ...]:
    return tuple(values.shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes))
