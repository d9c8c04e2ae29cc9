"""Operations and bytes of a kernel by the definition of its operator: from shapes, data types and formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

Shape: TypeAlias = tuple[int, ...]

_BYTES = {
    **dict.fromkeys(("FLOAT16", "BF16", "BFLOAT16", "INT16", "UINT16"), 2),
    **dict.fromkeys(("FLOAT", "FLOAT32", "INT32", "UINT32"), 4),
    **dict.fromkeys(("INT8", "UINT8", "BOOL", "HIFLOAT8", "FLOAT8_E4M3FN", "FLOAT8_E5M2"), 1),
    **dict.fromkeys(("INT64", "UINT64", "DOUBLE", "COMPLEX64"), 8),
    "COMPLEX128": 16,
    "UNDEFINED": 0,  # an omitted operand
}
_PRODUCTS = (
    "matmul batchmatmul mm gemm linear fullyconnection quantbatchmatmul weightquantbatchmatmul transposebatchmatmul "
    "allgathermatmul matmulreducescatter matmulallreduce"
)
_MATRIX = frozenset(_PRODUCTS.split())
_GROUPED = frozenset(("groupedmatmul", "groupedmatmulfinalizerouting", "groupedmatmulswigluquant"))
_CONVOLUTION = frozenset(("conv2d", "conv3d", "depthwiseconv2d"))
_CONVOLUTION_GRADS = {"conv2dbackpropfilter": "filter", "conv2dbackpropinput": "input"}
_ATTENTION = {"flashattentionscore": 1.0, "flashattentionscoregrad": 2.5}
# Operations per element by the operator's definition; a kernel may execute more.
_EACH_OUTPUT = {
    **dict.fromkeys(("add", "adds", "sub", "subs", "mul", "muls", "realdiv", "div", "maximum", "minimum", "neg"), 1.0),
    **dict.fromkeys(("abs", "relu", "relugrad", "exp", "log", "sqrt", "rsqrt", "tanh", "square", "pow", "pows"), 1.0),
    **dict.fromkeys(("greater", "less", "equal", "notequal", "greaterequal", "lessequal", "select", "selectv2"), 1.0),
    **dict.fromkeys(("addn", "cos", "sin", "foreachmulscalar", "foreachdivscalar", "foreachmullist"), 1.0),
    **dict.fromkeys(("clipbyvalue", "masked_fill", "maskedfill", "dropoutdomask", "reciprocal", "thresholdgrad"), 1.0),
    **dict.fromkeys(("sigmoid", "swish", "silu", "gelu", "fastgelu"), 4.0),
    **dict.fromkeys(("swiglu",), 5.0),
    **dict.fromkeys(("swiglugrad",), 5.0),  # about ten per gradient element; the output has two of them
    **dict.fromkeys(("axpy", "addcmul", "addcdiv", "foreachaddlist", "foreachsublist", "lerp"), 2.0),
    **dict.fromkeys(("foreachaddcmullist", "foreachaddcdivlist"), 3.0),
    **dict.fromkeys(("rotarypositionembedding", "rotarypositionembeddinggrad", "rotarymul", "applyrotaryposemb"), 3.0),
    **dict.fromkeys(("softmaxgrad", "logsoftmaxgrad"), 4.0),
}
_EACH_INPUT = {
    **dict.fromkeys(("reducesum", "reducemax", "reducemin", "reducemean", "reduceprod", "argmax"), 1.0),
    **dict.fromkeys(("argmaxwithvalue", "argminwithvalue", "reduceany", "reduceall"), 1.0),
    **dict.fromkeys(("lpnorm", "foreachnorm", "squaresum"), 2.0),
    **dict.fromkeys(("softmax", "logsoftmax"), 5.0),
    **dict.fromkeys(("layernorm",), 7.0),
    **dict.fromkeys(("layernormgrad", "layernormxbackprop"), 14.0),
    **dict.fromkeys(("rmsnorm", "addrmsnorm"), 4.0),
    **dict.fromkeys(("rmsnormgrad",), 8.0),
    **dict.fromkeys(("applyadamw", "applyadam", "applyfusedadamw", "npuapplyadam"), 14.0),
    **dict.fromkeys(("applymomentum", "sgd", "applykerasmomentum"), 4.0),
}
# Optimizers update their first operands in place, and have no outputs: the number of those operands.
_IN_PLACE = {
    **dict.fromkeys(("applyadamw", "applyadam", "applyfusedadamw", "npuapplyadam"), 3),
    **dict.fromkeys(("applymomentum", "sgd", "applykerasmomentum"), 2),
}
# These operators read no more of their first operand than they write, and those read nothing of it.
_READ_A_PART = frozenset(("gather", "gathernd", "gatherelements", "index", "embedding", "slice", "stridedslice"))
_ONLY_WRITE = frozenset(["zeroslike", "oneslike", "fill", "memset"])
_CHANGE_A_PART = frozenset(["indexput", "scatterupdate", "scatternd", "scatterelements", "inplaceupdate", "viewcopy"])
_NO_WORK = (
    "transdata transpose cast memset zeroslike oneslike tensormove identity concat concatd split splitd slice "
    "stridedslice gather gatherv2 pad padv3 tile broadcastto fill viewcopy range index indexput scatterupdate"
)
_WITHOUT = frozenset(_NO_WORK.split())
_DEFINED = _WITHOUT.union(_EACH_INPUT, _EACH_OUTPUT, _MATRIX, _GROUPED, _CONVOLUTION, _CONVOLUTION_GRADS, _ATTENTION)
_OF_CUBE = _MATRIX | _GROUPED | _CONVOLUTION | {*_CONVOLUTION_GRADS, *_ATTENTION}


@dataclass(frozen=True)
class _Call:
    """Shapes and formats of a launch, in operand order; `framework` has the shapes of the framework's operator."""

    op_type: str
    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    formats: Sequence[str]
    framework: Sequence[Shape]


def flops_range(kernel: Mapping[str, object]) -> tuple[float, float]:
    """Return the least and the most operations of a kernel by its operator's definition; NaN if unknown.

    Parameters
    ----------
    kernel
        A row of ``kernels``, by column name. A multiply-add of a matrix product counts as two.
        ``framework_shapes`` may hold the input shapes of the framework's operator, whose channels are not padded.
    """
    op_type = plain_type(kernel.get("op_type"))
    if op_type not in _DEFINED:
        return math.nan, math.nan
    inputs, outputs = shapes(kernel.get("input_shapes")), shapes(kernel.get("output_shapes"))
    framework = shapes(kernel.get("framework_shapes"))
    call = _Call(op_type, inputs, outputs, _texts(kernel.get("input_formats")), framework)
    if op_type in _ATTENTION:
        return _attention_flops(call)
    flops = _exact_flops(call)
    return flops, flops


def _exact_flops(call: _Call) -> float:
    op_type, inputs, outputs = call.op_type, call.inputs, call.outputs
    if op_type in _WITHOUT:
        return 0.0
    if not inputs:
        return math.nan
    if op_type in _EACH_INPUT:
        return _EACH_INPUT[op_type] * math.prod(inputs[0])
    if not outputs:
        return math.nan
    if op_type in _MATRIX:
        return _matrix_flops(call)
    if op_type in _GROUPED:
        return 2.0 * sum(math.prod(x) * (y[-1] if y else 1) for x, y in zip(inputs, outputs, strict=False))
    if op_type in _CONVOLUTION or op_type in _CONVOLUTION_GRADS:
        return _convolution_flops(call)
    if op_type in _EACH_OUTPUT:
        several = op_type.startswith("foreach")
        return _EACH_OUTPUT[op_type] * (sum(map(math.prod, outputs)) if several else math.prod(outputs[0]))
    return math.nan


def is_of_cube(op_type: object) -> bool:
    """Return whether an operator runs on the cube: all kinds of matrix products."""
    return plain_type(op_type) in _OF_CUBE


def bytes_from_shapes(kernel: Mapping[str, object]) -> float:
    """Return the bytes of all operands of a kernel, each counted once; NaN if a shape or data type is unknown.

    This is the least that a kernel moves. A kernel without outputs updates its first operands in place if it is an
    optimizer; for other kernels without outputs, outputs are not counted.
    """
    inputs, outputs = (operand_bytes(kernel, side) for side in ("input", "output"))
    absent = kernel.get("output_shapes")
    if isinstance(absent, str) and absent.strip('"; ') and not outputs:
        return math.nan
    if not inputs or any(math.isnan(size) for size in [*inputs, *outputs]):
        return math.nan
    op_type = plain_type(kernel.get("op_type"))
    if op_type in _READ_A_PART and outputs:
        return float(2 * sum(outputs) + sum(inputs[1:]))
    if op_type in _CHANGE_A_PART:
        return float(2 * sum(inputs[1:]))
    if op_type in _ONLY_WRITE and outputs:
        inputs = []
    if not outputs:
        outputs = inputs[: _IN_PLACE.get(op_type, 0)]
    return float(sum(inputs) + sum(outputs))


def operand_bytes(kernel: Mapping[str, object], side: str) -> list[float]:
    """Return the bytes of each ``input`` or ``output`` of a kernel; NaN if its data type is unknown."""
    sizes, types = shapes(kernel.get(f"{side}_shapes")), _texts(kernel.get(f"{side}_dtypes"))
    if len(types) < len(sizes):
        return [math.nan]
    return [_size(shape, dtype) for shape, dtype in zip(sizes, types, strict=False)]


def _size(shape: Shape, dtype: str) -> float:
    width = _BYTES.get(dtype.upper().removeprefix("DT_"))
    if width is None:
        return math.nan if math.prod(shape) > 1 else 0.0
    return float(math.prod(shape) * width)


@lru_cache(maxsize=1_024)  # a kernel's are asked for several times in a row
def shapes(text: object) -> Sequence[Shape]:
    """Parse shapes such as ``32,9216;4096,9216``; a scalar has no sizes. Empty if a part is not a size."""
    if not isinstance(text, str) or not text.strip('"; '):
        return []
    parsed = []
    for part in text.strip('"').split(";"):
        sizes = part.strip("[]() ").split(",") if part.strip("[]() ") else []
        if not all(size.strip().isascii() and size.strip().isdecimal() and len(size) < 16 for size in sizes):
            return []
        parsed.append(tuple(int(size) for size in sizes))
    return parsed


def _texts(text: object) -> list[str]:
    return text.strip('"').split(";") if isinstance(text, str) else []


def plain_type(op_type: object) -> str:
    """Return an operator's type without its version: ``MatMulV3`` is ``matmul``."""
    name = op_type.lower() if isinstance(op_type, str) else ""
    head, mark, version = name.rpartition("v")
    return head if mark and version.isdecimal() else name


def _matrix_flops(call: _Call) -> float:
    """Return 2 m n k per product of a batch, whichever operands are transposed.

    The sizes of the three matrices, m k, k n and m n, multiply to (m n k) squared. Tiled operands (FRACTAL_NZ) are
    padded, by less than a tile, so the root need not be an integer.
    """
    if len(call.inputs) < 2 or min(len(call.inputs[0]), len(call.inputs[1]), len(call.outputs[0])) < 2:
        return math.nan
    matrices: list[int] = []
    tiled = [place < len(call.formats) and call.formats[place] == "FRACTAL_NZ" for place in range(2)]
    output_tiled = all(tiled) and len(call.outputs[0]) >= 4
    for shape, is_tiled in zip((*call.inputs[:2], call.outputs[0]), (*tiled, output_tiled), strict=True):
        matrices.append(math.prod(shape[-4:] if is_tiled else shape[-2:]))
    square = math.prod(matrices)
    root = math.isqrt(square)
    if not square:
        return 0.0
    exact = root * root == square and not any(root % matrix for matrix in matrices)
    if not exact and not any(tiled):
        return math.nan
    return 2.0 * root * (math.prod(call.outputs[0]) // matrices[2])


def _convolution_flops(call: _Call) -> float:
    """Return two operations per weight and output position, or gradient position.

    The framework's operator has the true weight sizes; the kernel's weights may be padded and have their channels split
    in two (5 dimensions).
    """
    way = _CONVOLUTION_GRADS.get(call.op_type)
    if len(call.inputs) < (3 if way else 2):
        return math.nan
    if way is None and call.formats[:1] not in (["NCHW"], ["NC1HWC0"]):
        return math.nan
    output = call.inputs[2] if way else call.outputs[0]
    weights = {None: call.inputs[1], "filter": call.outputs[0], "input": call.inputs[1]}[way]
    if len(output) not in (4, 5):
        return math.nan
    known = call.framework[2 if way else 1] if len(call.framework) > (2 if way else 1) else ()
    places = output[0] * output[2] * output[3]
    return 2.0 * places * math.prod(known if len(known) == 4 else weights)


def _attention_flops(call: _Call) -> tuple[float, float]:
    """Return 2 b n q k (d + d') of flash attention, 2.5 times that for backward; half of it if a mask may be causal.

    The shape of the row maxima (b, n, q, 8) gives the number of heads, which flat layouts merge with their size.
    Kernels do not name the mask, and with sequences of several lengths they do not give the lengths.
    """
    unknown = math.nan, math.nan
    statistics = next((s for s in (*call.outputs, *call.inputs[4:]) if len(s) == 4 and s[3] == 8), None)
    if statistics is None or len(call.inputs) < 3:
        return unknown
    batch, heads, queries, _ = statistics
    query, key, value = call.inputs[:3]
    rows = batch * heads * queries
    if not rows or not query or len(key) != len(query) or len(query) < 3 or math.prod(query) % rows:
        return unknown
    size = math.prod(query) // rows
    length = _length(query, key, batch, queries)
    if not size or not length or not math.prod(key) or math.prod(key) % (batch * length * size):
        return unknown
    value_size = size * math.prod(value) / math.prod(key)
    most = 2.0 * rows * length * (size + value_size) * _ATTENTION[call.op_type]
    masked = any(len(shape) >= 2 and shape[-2] > 1 and shape[-1] == shape[-2] for shape in call.inputs[4:])
    return (most / 2 if masked else most), most


def _length(query: Shape, key: Shape, batch: int, queries: int) -> int:
    """Return the length of the keys: their size in the dimension in which the query has its own length."""
    for place in range(len(query) - 1):
        if query[place] == queries and (place == 0 or query[0] == batch) and (place > 0 or query[1] == batch):
            return key[place]
    return 0
