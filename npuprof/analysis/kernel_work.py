"""Operations and bytes of kernels: what hardware counters tell, else what their shapes say they need at least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from npuprof.arrays import Float64, Int64

Shape: TypeAlias = tuple[int, ...]

COUNTED, FROM_SHAPES = "counted", "from shapes"
"""Where a figure comes from: the counters of the hardware, or shapes and data types."""

_KEYS = ("op_type", "core", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes")
_FLOPS = ("aic_cube_fops", "aiv_vector_fops")
_TRANSFERS = tuple(f"{core}_{way}_main_memory_kb" for core in ("aic", "aiv") for way in ("read", "write"))
_OWN_BLOCKS = {"aic": ("AI_CORE", "MIX_AIC", "AICORE", "AIC"), "aiv": ("AI_VECTOR_CORE", "MIX_AIV", "AIVECTOR", "AIV")}
_MOST_BLOCKS = {"aic": 25, "aiv": 50}  # of more blocks than cores the time is of several rounds, nobody tells how many

_BYTES = {
    **dict.fromkeys(("FLOAT16", "BF16", "BFLOAT16", "INT16", "UINT16"), 2),
    **dict.fromkeys(("FLOAT", "FLOAT32", "INT32", "UINT32"), 4),
    **dict.fromkeys(("INT8", "UINT8", "BOOL", "HIFLOAT8", "FLOAT8_E4M3FN", "FLOAT8_E5M2"), 1),
    **dict.fromkeys(("INT64", "UINT64", "DOUBLE", "COMPLEX64"), 8),
    "COMPLEX128": 16,
}
_MATRIX = ("matmul", "batchmatmul", "mm", "gemm", "linear", "fullyconnection")
_CONVOLUTION = ("conv2d", "conv3d", "depthwiseconv2d")
# Operations for each element, as the definition of the operator has them: what a kernel really does may be more.
_EACH_OUTPUT = {
    **dict.fromkeys(("add", "adds", "sub", "subs", "mul", "muls", "realdiv", "div", "maximum", "minimum", "neg"), 1.0),
    **dict.fromkeys(("abs", "relu", "relugrad", "exp", "log", "sqrt", "rsqrt", "tanh", "square", "pow"), 1.0),
    **dict.fromkeys(("greater", "less", "equal", "notequal", "select", "selectv2", "addn"), 1.0),
    **dict.fromkeys(("sigmoid", "swish", "silu"), 4.0),
    **dict.fromkeys(("axpy", "addcmul"), 2.0),
}
_EACH_INPUT = {
    **dict.fromkeys(("reducesum", "reducemax", "reducemin", "reducemean", "reduceprod", "argmax"), 1.0),
    **dict.fromkeys(("softmax",), 5.0),
    **dict.fromkeys(("layernorm",), 7.0),
    **dict.fromkeys(("rmsnorm",), 4.0),
}
_NO_WORK = (
    "transdata transpose cast memset zeroslike oneslike tensormove identity concat concatd split slice stridedslice "
    "gather gatherv2 pad tile broadcastto fill viewcopy"
)
_WITHOUT = frozenset(_NO_WORK.split())


@dataclass(frozen=True)
class _Call:
    """Shapes and data types of a launch, operands in order."""

    op_type: str
    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    formats: Sequence[str]


def kernel_work(kernels: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return what kernels that are alike computed and moved.

    Parameters
    ----------
    kernels
        The table of that name. Rows of one type, core, shapes and data types are one row of the result.
    most
        How many to tell of: those with the most time in all.

    Returns
    -------
    pandas.DataFrame
        ``op_type, core, input_shapes, input_dtypes`` and what else makes kernels alike, ``launches``, ``total_ns``,
        and of one launch on average ``mean_ns``, ``flops``, ``bytes`` (NaN where not known), with ``flops_from`` and
        ``bytes_from``, :data:`COUNTED` or :data:`FROM_SHAPES` or empty. Counters tell of operations in a run with
        ``aic_metrics=ArithmeticUtilization``, of bytes with ``Memory`` or ``MemoryAccess``. From shapes, operations are
        those of the operator's definition, bytes all of its operands once: the least that it can do.
    """
    keys = list(_KEYS)
    codes = kernels.groupby(keys, observed=True, dropna=False, sort=False).ngroup().to_numpy()
    groups = int(codes.max()) + 1 if len(codes) else 0
    total = np.zeros(groups, np.int64)
    np.add.at(total, codes, kernels["duration_ns"].to_numpy(np.int64))
    number = np.bincount(codes, minlength=groups)
    first = np.full(groups, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    kept = np.argsort(-total, kind="stable")[:most]
    work: pd.DataFrame = kernels.iloc[first[kept]][keys].reset_index(drop=True)
    work["launches"], work["total_ns"] = number[kept], total[kept]
    work["mean_ns"] = total[kept] / np.maximum(number[kept], 1)
    for name, measured, estimate in (
        ("flops", _sum_of(kernels, _FLOPS), flops_from_shapes),
        ("bytes", _counted_bytes(kernels), bytes_from_shapes),
    ):
        counted = _mean_of(measured, codes, groups)[kept]
        shaped = np.array([estimate(row) for row in work[keys].to_dict("records")], np.float64)
        work[name] = np.where(counted > 0, counted, shaped)
        origin = np.where(np.isnan(shaped), "", FROM_SHAPES)
        work[f"{name}_from"] = np.where(counted > 0, COUNTED, origin)
    return work


def flops_from_shapes(kernel: Mapping[str, object]) -> float:
    """Return the operations of a kernel by its definition; NaN for an operator or shapes that are not known.

    Parameters
    ----------
    kernel
        A row of ``kernels``, by column name. A multiply-add of a matrix product counts as two.
    """
    op_type = _plain_type(kernel.get("op_type"))
    inputs, outputs = shapes(kernel.get("input_shapes")), shapes(kernel.get("output_shapes"))
    call = _Call(op_type, inputs, outputs, _texts(kernel.get("input_formats")))
    if op_type in _WITHOUT:
        return 0.0
    if not outputs or not inputs:
        return math.nan
    if op_type in _MATRIX:
        return _matrix_flops(call)
    if op_type in _CONVOLUTION:
        return _convolution_flops(call)
    if op_type in _EACH_OUTPUT:
        return _EACH_OUTPUT[op_type] * math.prod(outputs[0])
    if op_type in _EACH_INPUT:
        return _EACH_INPUT[op_type] * math.prod(inputs[0])
    return math.nan


def bytes_from_shapes(kernel: Mapping[str, object]) -> float:
    """Return the bytes of all operands of a kernel, each once; NaN where a shape or data type is not known."""
    moved = 0
    for side in ("input", "output"):
        sizes = shapes(kernel.get(f"{side}_shapes"))
        types = _texts(kernel.get(f"{side}_dtypes"))
        if not sizes or len(types) < len(sizes):
            return math.nan
        for shape, dtype in zip(sizes, types, strict=False):
            width = _BYTES.get(dtype.upper().removeprefix("DT_"))
            if width is None and math.prod(shape) > 1:
                return math.nan
            moved += math.prod(shape) * (width or 0)
    return float(moved)


def shapes(text: object) -> list[Shape]:
    """Read shapes such as ``32,9216;4096,9216``; a scalar has none; empty where anything is no size."""
    if not isinstance(text, str) or not text.strip('"; '):
        return []
    found = []
    for part in text.strip('"').split(";"):
        sizes = part.strip("[]() ").split(",") if part.strip("[]() ") else []
        if not all(size.strip().isascii() and size.strip().isdecimal() and len(size) < 16 for size in sizes):
            return []
        found.append(tuple(int(size) for size in sizes))
    return found


def _texts(text: object) -> list[str]:
    return text.strip('"').split(";") if isinstance(text, str) else []


def _plain_type(op_type: object) -> str:
    """Return an operator's type without the version at its end: ``MatMulV3`` is ``matmul``."""
    name = op_type.lower() if isinstance(op_type, str) else ""
    head, mark, version = name.rpartition("v")
    return head if mark and version.isdecimal() else name


def _matrix_flops(call: _Call) -> float:
    """Return 2 m n k for each product of a batch, whichever of the operands is transposed.

    The sizes of the three matrices, m k, k n and m n, multiply to the square of m n k.
    """
    if len(call.inputs) < 2 or min(len(call.inputs[0]), len(call.inputs[1]), len(call.outputs[0])) < 2:
        return math.nan
    matrices = []
    for place, shape in enumerate((call.inputs[0], call.inputs[1], call.outputs[0])):
        tiled = place < len(call.formats) and place < 2 and call.formats[place] == "FRACTAL_NZ"
        matrices.append(math.prod(shape[-4:] if tiled else shape[-2:]))
    square = math.prod(matrices)
    root = math.isqrt(square)
    if not square:
        return 0.0
    if root * root != square or any(root % matrix for matrix in matrices):
        return math.nan
    return 2.0 * root * (math.prod(call.outputs[0]) // matrices[2])


def _convolution_flops(call: _Call) -> float:
    """Return two operations for each weight and place of the output (5 dimensions: channels are split in two)."""
    if len(call.inputs) < 2 or len(call.outputs[0]) not in (4, 5):
        return math.nan
    if call.formats[:1] not in (["NCHW"], ["NC1HWC0"]):
        return math.nan
    output = call.outputs[0]
    return 2.0 * output[0] * output[2] * output[3] * math.prod(call.inputs[1])


def _counted_bytes(kernels: pd.DataFrame) -> Float64:
    """Return the bytes between the cores and memory; 0 where they were not counted.

    A bandwidth is in units of 2**30 bytes a second and of one core, whose time is that of all blocks over their
    number. Source: raw/FORMAT.md section 9.
    """
    moved = 1_024.0 * _sum_of(kernels, _TRANSFERS)
    cores = kernels["core"].astype(str)
    for core, kinds in _OWN_BLOCKS.items():
        speed = _sum_of(kernels, [f"{core}_main_mem_{way}_bw_gb_s" for way in ("read", "write")])
        own = cores.isin(kinds).to_numpy(bool)
        blocks = np.where(own, _values(kernels, "block_num"), _values(kernels, "mix_block_num"))
        blocks[blocks > _MOST_BLOCKS[core]] = 0
        moved = moved + speed * 2**30 / 1e9 * _sum_of(kernels, [f"{core}_total_time_ns"]) * blocks
    return moved


def _sum_of(kernels: pd.DataFrame, columns: Sequence[str]) -> Float64:
    total = np.zeros(len(kernels), np.float64)
    for name in columns:
        if name in kernels:
            total += _values(kernels, name)
    return total


def _values(kernels: pd.DataFrame, column: str) -> Float64:
    values: Float64 = kernels[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, 0.0)


def _mean_of(values: Float64, codes: Int64, groups: int) -> Float64:
    """Average over those rows that have a value."""
    weight = np.bincount(codes, weights=values > 0, minlength=groups)
    mean: Float64 = np.bincount(codes, weights=values, minlength=groups) / np.maximum(weight, 1)
    return mean
