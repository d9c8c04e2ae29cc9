"""Matrix products and ``np.einsum``, with their exact number of operations.

A product has two operations for each of ``batch * m * k * n``. Half, bfloat16 and single precision run on the cube;
other types run as ``MatMul`` on the vector cores, where CANN would use the AI CPU. ``np.einsum`` is a single NumPy
call; its kernels are those of a contraction from left to right.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.catalogue import BATCHED, DOT, MATMUL, Kernel
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.npu.operands import Operands, cast, delivered, launch, target_of, unsupported
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.streams import DeviceArray, wrap

_CUBE_DTYPES = ("float16", "bfloat16", "float32")


class Extent(NamedTuple):
    """Dimensions of a product of `batch` matrices, m x k and k x n."""

    batch: int
    m: int
    k: int
    n: int

    @property
    def flops(self) -> int:
        """The number of multiplications and additions."""
        return 2 * self.batch * self.m * self.k * self.n


def launch_product(extent: Extent, inputs: tuple[Tensor, Tensor], dtype: str, device_id: int) -> Tensor:
    """Launch a product of cast operands, one of which may be shared by the batch; return the result."""
    batch, m, k, n = extent
    kernel = product_kernel(extent, dtype)
    if kernel.op_type == "Dot":
        shapes = [(k,), (k,), ()] if batch == 1 else [(batch, k), (batch, k), (batch,)]
    else:
        # A shared operand is read once, not once per matrix of the batch.
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
    """Return the kernel of a product of these dimensions and type."""
    if extent.m == extent.n == 1:
        return DOT
    call = "aclnnMatmul" if extent.batch == 1 else "aclnnBatchMatMul"
    if dtype not in _CUBE_DTYPES:
        return Kernel(call[5:].replace("Matmul", "MatMul"), call)
    op_type = "MatMulV2" if 1 in (extent.m, extent.n) else "MatMulV3"
    op_type = op_type if extent.batch == 1 else "BatchMatMulV2"
    return (MATMUL if extent.batch == 1 else BATCHED)._replace(op_type=op_type)


def apply_generalised(
    like: DeviceArray, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Compute the ufuncs that are products: ``np.matmul``, and products of vectors in newer NumPy."""
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
    """Compute a product with NumPy and launch its kernel; `extent_of` returns its dimensions."""
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
    """Compute ``np.dot``; a product with a scalar is a multiplication."""
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b, out=out)
    return compute(like, np.dot, (a, b), {}, _dot_extent, out)


def inner(like: DeviceArray, a: Any, b: Any) -> Any:
    """Compute ``np.inner``; a product with a scalar is a multiplication."""
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b)
    return compute(like, np.inner, (a, b), {}, _inner_extent)


def vdot(like: DeviceArray, a: Any, b: Any) -> Any:
    """Compute ``np.vdot``."""
    return compute(like, np.vdot, (a, b), {}, _vdot_extent)


def tensordot(like: DeviceArray, a: Any, b: Any, axes: Any = 2) -> Any:
    """Compute ``np.tensordot`` as one matrix product of the flattened operands."""

    def extent_of(first: Records, second: Records, _: Records) -> Extent:
        summed = first.shape[first.ndim - axes :] if isinstance(axes, int) else _lengths(first, axes[0])
        k = math.prod(summed)
        return Extent(1, first.size // k if k else 0, k, second.size // k if k else 0)

    return compute(like, np.tensordot, (a, b), {"axes": axes}, extent_of)


def _lengths(values: Records, axes: Any) -> tuple[int, ...]:
    return tuple(values.shape[axis] for axis in ((axes,) if isinstance(axes, int) else axes))


class _Term(NamedTuple):
    """An operand with a letter for each of its axes."""

    labels: str
    tensor: Tensor


def einsum(like: DeviceArray, subscripts: Any, *inputs: Any, out: Any = None, **how: Any) -> Any:
    """Compute ``np.einsum``; raise a TypeError if the subscripts are not a string."""
    if not isinstance(subscripts, str):
        raise TypeError("np.einsum on the simulated NPU needs its subscripts as a string, such as 'ij,jk->ik'")
    operands = Operands(like._device_id)
    values = [np.asarray(operands.take_operand(value)) for value in inputs]
    if out is not None:
        how["out"] = target_of(out, like._device_id)
    result = np.asarray(np.einsum(subscripts, *values, **how))
    # The result of a single operand may be a view, which belongs to its base.
    made = wrap(like, result, operands.arrays) if out is None else out
    operands.upload()
    _Contraction(like._device_id, subscripts, values, result.dtype).launch()
    return delivered(made, like._device_id)


class _Contraction:
    """The kernels of one ``np.einsum``, with subscripts that NumPy has accepted."""

    def __init__(self, device_id: int, subscripts: str, values: Sequence[Records], dtype: np.dtype[Any]) -> None:
        self._device_id = device_id
        self._dtype = dtype.name
        labels, self._output = parse(subscripts, [value.ndim for value in values])
        self._lengths: dict[str, int] = {}
        for term, value in zip(labels, values, strict=True):
            for label, length in zip(term, value.shape, strict=True):
                self._lengths[label] = max(length, self._lengths.get(label, 0))
        self._terms = [_Term(term, cast(value, dtype, device_id)) for term, value in zip(labels, values, strict=True)]

    def launch(self) -> None:
        """Launch them."""
        first, *remaining = self._terms
        for index, second in enumerate(remaining):
            needed = self._output + "".join(term.labels for term in remaining[index + 1 :])
            first = self._pair(
                self._single(first, second.labels + needed), self._single(second, first.labels + needed), needed
            )
        self._arrange(self._single(first, self._output), self._output)

    def _single(self, term: _Term, needed: str) -> _Term:
        """Take the diagonal of repeated axes, and sum axes that no other term needs."""
        distinct = "".join(dict.fromkeys(term.labels))
        if distinct != term.labels:
            term = self._kernel("diagonal_copy", [term], distinct)
        kept = "".join(label for label in term.labels if label in needed)
        return term if kept == term.labels else self._kernel("sum", [term], kept)

    def _pair(self, first: _Term, second: _Term, needed: str) -> _Term:
        """Contract two operands; sum their shared axes that no other term needs."""
        shared = [label for label in first.labels if label in second.labels]
        k = "".join(label for label in shared if label not in needed)
        batch = "".join(label for label in shared if label in needed)
        m = "".join(label for label in first.labels if label not in shared)
        n = "".join(label for label in second.labels if label not in shared)
        if not k:
            return self._kernel("mul", [first, second], batch + m + n)
        first = self._arrange(first, batch + m + k, batch + k + m)
        second = self._arrange(second, batch + k + n, batch + n + k)
        extent = Extent(*(math.prod(self._shape(labels)) for labels in (batch, m, k, n)))
        launch_product(extent, (first.tensor, second.tensor), self._dtype, self._device_id)
        return _Term(batch + m + n, self._tensor(batch + m + n))

    def _arrange(self, term: _Term, *orders: str) -> _Term:
        """Permute the axes to the first of the orders, unless they match one already."""
        return term if term.labels in orders else self._kernel("permute", [term], orders[0])

    def _kernel(self, operator: str, inputs: Sequence[_Term], labels: str) -> _Term:
        result = self._tensor(labels)
        launch(kernel(operator), [term.tensor for term in inputs], [result], device_id=self._device_id)
        return _Term(labels, result)

    def _shape(self, labels: str) -> tuple[int, ...]:
        return tuple(self._lengths[label] for label in labels)

    def _tensor(self, labels: str) -> Tensor:
        return Tensor(self._shape(labels), self._dtype)


def parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Parse subscripts that NumPy has accepted, such as ``'...ij,...jk->...ik'``; the output may be absent.

    Returns
    -------
    list of str, str
        A letter for each axis of each operand, and of the output; the axes of an ellipsis have letters too.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    spare = [letter for letter in string.ascii_letters if letter not in subscripts]
    hidden = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    ellipsis = "".join(spare[: max(hidden)])
    terms = [term.replace("...", ellipsis[len(ellipsis) - count :]) for term, count in zip(terms, hidden, strict=True)]
    if arrow:
        return terms, output.replace("...", ellipsis)
    counts: Mapping[str, int] = {label: "".join(terms).count(label) for label in "".join(terms)}
    once = sorted(label for label, count in counts.items() if count == 1 and label not in ellipsis)
    return terms, ellipsis + "".join(once)
