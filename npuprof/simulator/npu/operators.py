"""Which operator of CANN a function of NumPy becomes, as data.

Types and calls are those that profiles of CANN show. A ufunc that is not listed gets NumPy's own name in
capitals, on the vector cores. Cube cores compute half, bfloat16 and single precision; vector cores the rest.
CANN gives double precision, complex numbers and some integer operators to the AI CPU: the simulated device
has none, and runs them on the vector cores at the rate of its model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from npuprof.simulator.npu.launches import Kernel

# name in NumPy: type, call without "aclnn", call with a scalar operand (where it has another name)
_UFUNCS: Mapping[str, str] = {
    "add": "Add Add Adds",
    "subtract": "Sub Sub Subs",
    "multiply": "Mul Mul Muls",
    "true_divide": "RealDiv Div Divs",
    "floor_divide": "FloorDiv FloorDivide FloorDivides",
    "remainder": "FloorMod RemainderTensorTensor RemainderTensorScalar",
    "fmod": "Mod FmodTensor FmodScalar",
    "power": "Pow PowTensorTensor PowTensorScalar",
    "negative": "Neg Neg",
    "absolute": "Abs Abs",
    "sign": "Sign Sign",
    "exp": "Exp Exp",
    "exp2": "Exp2 Exp2",
    "expm1": "Expm1 Expm1",
    "log": "Log Log",
    "log2": "Log2 Log2",
    "log10": "Log10 Log10",
    "log1p": "Log1p Log1p",
    "sqrt": "Sqrt Sqrt",
    "square": "Square Square",
    "reciprocal": "Reciprocal Reciprocal",
    "sin": "Sin Sin",
    "cos": "Cos Cos",
    "tan": "Tan Tan",
    "arcsin": "Asin Asin",
    "arccos": "Acos Acos",
    "arctan": "Atan Atan",
    "arctan2": "Atan2 Atan2",
    "sinh": "Sinh Sinh",
    "cosh": "Cosh Cosh",
    "tanh": "Tanh Tanh",
    "arcsinh": "Asinh Asinh",
    "arccosh": "Acosh Acosh",
    "arctanh": "Atanh Atanh",
    "floor": "Floor Floor",
    "ceil": "Ceil Ceil",
    "trunc": "Trunc Trunc",
    "rint": "Round Round",
    "maximum": "Maximum Maximum",
    "minimum": "Minimum Minimum",
    "greater": "Greater GtTensor GtScalar",
    "greater_equal": "GreaterEqual GeTensor GeScalar",
    "less": "Less LtTensor LtScalar",
    "less_equal": "LessEqual LeTensor LeScalar",
    "equal": "Equal EqTensor EqScalar",
    "not_equal": "NotEqual NeTensor NeScalar",
    "logical_and": "LogicalAnd LogicalAnd",
    "logical_or": "LogicalOr LogicalOr",
    "logical_not": "LogicalNot LogicalNot",
    "logical_xor": "LogicalXor LogicalXor",
    "bitwise_and": "BitwiseAnd BitwiseAndTensor BitwiseAndScalar",
    "bitwise_or": "BitwiseOr BitwiseOrTensor BitwiseOrScalar",
    "bitwise_xor": "BitwiseXor BitwiseXorTensor BitwiseXorScalar",
    "invert": "Invert BitwiseNot",
    "left_shift": "LeftShift LeftShift",
    "right_shift": "RightShift RightShift",
    "isnan": "IsNan IsNan",
    "isinf": "IsInf IsInf",
    "isfinite": "IsFinite IsFinite",
    "conjugate": "Conj Conj",
}

_REDUCE: Mapping[str, str] = {
    "add": "ReduceSum ReduceSum",
    "multiply": "ReduceProd Prod",
    "maximum": "ReduceMax Amax",
    "minimum": "ReduceMin Amin",
    "logical_and": "ReduceAll All",
    "logical_or": "ReduceAny Any",
}

_ACCUMULATE: Mapping[str, str] = {
    "add": "Cumsum Cumsum",
    "multiply": "Cumprod Cumprod",
    "maximum": "Cummax Cummax",
    "minimum": "Cummin Cummin",
}

_SCATTER: Mapping[str, str] = {
    "add": "ScatterNdAdd ScatterNdAdd",
    "subtract": "ScatterNdSub ScatterNdSub",
    "maximum": "ScatterNdMax ScatterNdMax",
    "minimum": "ScatterNdMin ScatterNdMin",
}


class Rule(NamedTuple):
    """What a function of NumPy launches.

    Attributes
    ----------
    kernel
        The operator.
    promotes
        Whether operands are cast to the result's type first.
    reads_back
        Whether the host has to wait for a count, because the result's shape depends on values.
    """

    kernel: Kernel
    promotes: bool = False
    reads_back: bool = False


# name in NumPy: type, call without "aclnn"
_REDUCTIONS: Mapping[str, str] = {
    "sum": "ReduceSum ReduceSum",
    "prod": "ReduceProd Prod",
    "mean": "ReduceMean Mean",
    "var": "ReduceVar Var",
    "std": "ReduceStd Std",
    "cumsum": "Cumsum Cumsum",
    "cumprod": "Cumprod Cumprod",
    "trace": "Trace Trace",
    "diff": "Sub Sub",
}

_ARITHMETIC: Mapping[str, str] = {
    "max": "ReduceMax Amax",
    "amax": "ReduceMax Amax",
    "min": "ReduceMin Amin",
    "amin": "ReduceMin Amin",
    "all": "ReduceAll All",
    "any": "ReduceAny Any",
    "argmax": "ArgMaxV2 ArgMax",
    "argmin": "ArgMin ArgMin",
    "clip": "ClipByValueV2 Clamp",
    "around": "Round Round",
    "round": "Round Round",
    "isclose": "IsClose IsClose",
    "nan_to_num": "NanToNum NanToNum",
    "sort": "Sort Sort",
    "argsort": "Sort Argsort",
    "outer": "Mul Mul",
}

_JOINS: Mapping[str, str] = {
    "concatenate": "ConcatD Cat",
    "vstack": "ConcatD Cat",
    "hstack": "ConcatD Cat",
    "dstack": "ConcatD Cat",
    "column_stack": "ConcatD Cat",
    "stack": "Pack Stack",
    "append": "ConcatD Cat",
}

_MOVES: Mapping[str, str] = {
    "transpose": "Transpose Permute",
    "swapaxes": "Transpose Permute",
    "moveaxis": "Transpose Permute",
    "rollaxis": "Transpose Permute",
    "matrix_transpose": "Transpose Permute",
    "split": "SplitV SplitWithSize",
    "array_split": "SplitV SplitWithSize",
    "hsplit": "SplitV SplitWithSize",
    "vsplit": "SplitV SplitWithSize",
    "unstack": "Unpack Unbind",
    "broadcast_to": "BroadcastTo Expand",
    "tile": "Tile Repeat",
    "repeat": "RepeatInterleave RepeatInterleave",
    "roll": "Roll Roll",
    "flip": "ReverseV2 Flip",
    "flipud": "ReverseV2 Flip",
    "fliplr": "ReverseV2 Flip",
    "pad": "PadV3 ConstantPadNd",
    "tril": "Tril Tril",
    "triu": "Triu Triu",
    "diag": "Diag Diag",
    "copy": "TensorMove InplaceCopy",
    "zeros_like": "ZerosLike InplaceZero",
    "ones_like": "OnesLike InplaceOne",
    "full_like": "Fill InplaceFillScalar",
}

_PARTS: Mapping[str, str] = {
    "take": "GatherV2 IndexSelect",
    "take_along_axis": "GatherElements Gather",
    "diagonal": "DiagPart Diag",
}

_READ_BACK: Mapping[str, str] = {
    "nonzero": "NonZero NonzeroV2",
    "argwhere": "NonZero NonzeroV2",
    "flatnonzero": "NonZero NonzeroV2",
    "unique": "UniqueConsecutive Unique2",
}

# Without a kernel, unless NumPy has to copy.
_VIEWS = (
    *("reshape", "ravel", "squeeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d"),
    *("real", "imag", "broadcast_arrays"),
)

# Answered from the description of the operands.
_DESCRIPTIONS = (
    *("shape", "ndim", "size", "result_type", "can_cast", "common_type", "min_scalar_type"),
    *("iscomplexobj", "isrealobj", "may_share_memory", "shares_memory"),
)

SELECT = Kernel("SelectV2", "aclnnSWhere", operations=0)
NON_ZERO = Kernel("NonZero", "aclnnNonzeroV2", operations=0)
POWER_OF_SCALAR = Kernel("Pows", "aclnnPowTensorScalar")
MOVE = Kernel("TensorMove", "aclnnInplaceCopy", operations=0)


def _kernel(words: str, operations: int = 1) -> Kernel:
    op_type, call, *_ = words.split()
    return Kernel(op_type, f"aclnn{call}", operations=operations)


def _named(names: Mapping[str, str]) -> Iterator[tuple[Callable[..., Any], str]]:
    """Give the functions that this NumPy has, with what is said of them."""
    for name, words in names.items():
        if (function := getattr(np, name, None)) is not None:
            yield function, words


def _scalar_kernels() -> Iterator[tuple[Callable[..., Any], Kernel]]:
    for function, words in _named(_UFUNCS):
        op_type, _, *scalar_call = words.split()
        if scalar_call:
            yield function, Kernel(op_type, f"aclnn{scalar_call[0]}")


def _rules() -> Iterator[tuple[Callable[..., Any], Rule]]:
    for function, words in _named(_REDUCTIONS):
        yield function, Rule(_kernel(words), promotes=True)
    for function, words in _named(_ARITHMETIC):
        yield function, Rule(_kernel(words))
    for function, words in _named(_JOINS):
        yield function, Rule(_kernel(words, 0), promotes=True)
    for function, words in _named(_MOVES):
        yield function, Rule(_kernel(words, 0))
    for function, words in _named(_PARTS):
        yield function, Rule(_kernel(words, 0)._replace(reads_part=True))
    for function, words in _named(_READ_BACK):
        yield function, Rule(_kernel(words, 0), reads_back=True)
    yield np.linalg.norm, Rule(Kernel("LpNormV2", "aclnnLinalgVectorNorm", "MIX_AIV", 2, variant=""), promotes=True)


_ELEMENTWISE = {function: _kernel(words) for function, words in _named(_UFUNCS)}
_WITH_SCALAR: dict[Callable[..., Any], Kernel] = dict(_scalar_kernels())
_WITH_SCALAR[np.power] = POWER_OF_SCALAR

REDUCE = {function: _kernel(words) for function, words in _named(_REDUCE)}
ACCUMULATE = {function: _kernel(words) for function, words in _named(_ACCUMULATE)}
SCATTER = {function: _kernel(words) for function, words in _named(_SCATTER)}
FUNCTIONS: Mapping[Callable[..., Any], Rule] = dict(_rules())
VIEWS = frozenset(getattr(np, name) for name in _VIEWS)
DESCRIPTIONS = frozenset(getattr(np, name) for name in _DESCRIPTIONS)


def elementwise(ufunc: np.ufunc, *, scalar: bool, in_place: bool) -> Kernel:
    """Give the operator of a ufunc.

    Parameters
    ----------
    ufunc
        What is computed.
    scalar
        Whether the last operand is a scalar, for which some operators have a call of their own.
    in_place
        Whether the result replaces the first operand.
    """
    kernel = _WITH_SCALAR.get(ufunc) if scalar else None
    if kernel is None:
        kernel = _ELEMENTWISE.get(ufunc) or generic(ufunc)
    return kernel._replace(api=f"aclnnInplace{kernel.api[5:]}") if in_place else kernel


def generic(ufunc: np.ufunc, prefix: str = "") -> Kernel:
    """Give an operator of NumPy's own name, for a ufunc that the tables do not have."""
    op_type = prefix + "".join(word.capitalize() for word in ufunc.__name__.split("_"))
    return Kernel(op_type, f"aclnn{op_type}")
