"""The operators of NumPy's functions, as data.

In the lists, ``subtract=sub`` is a function and its operator; a single word is both. The operator of a ufunc outside
the lists has the ufunc's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from npuprof.simulator import catalogue
from npuprof.simulator.catalogue import Kernel, generic, kernels_of


def _listed(words: str) -> dict[str, str]:
    """Parse a list into NumPy names and operator names of the catalogue."""
    pairs = (word.partition("=") for word in words.split())
    return {name: operator or name for name, _, operator in pairs}


UFUNCS = _listed("""
    add subtract=sub multiply=mul true_divide=div floor_divide remainder fmod power=pow negative=neg absolute=abs sign
    exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal sin cos tan arcsin=asin arccos=acos arctan=atan
    arctan2=atan2 sinh cosh tanh arcsinh=asinh arccosh=acosh arctanh=atanh floor ceil trunc rint=round maximum minimum
    greater=gt greater_equal=ge less=lt less_equal=le equal=eq not_equal=ne logical_and logical_or logical_not
    logical_xor bitwise_and bitwise_or bitwise_xor invert=bitwise_not left_shift right_shift isnan isinf isfinite
    conjugate=conj
""")
_REDUCE = _listed("add=sum multiply=prod maximum=amax minimum=amin logical_and=all logical_or=any")
_ACCUMULATE = _listed("add=cumsum multiply=cumprod maximum=cummax minimum=cummin")
_SCATTER = _listed("add=scatter_nd_add subtract=scatter_nd_sub maximum=scatter_nd_max minimum=scatter_nd_min")

# Functions that first cast their operands to the result's type.
_PROMOTING = _listed("""
    sum prod mean var std cumsum cumprod trace diff=sub concatenate=cat vstack=cat hstack=cat dstack=cat
    column_stack=cat stack append=cat
""")
# Functions that take operands of any type.
_OTHERS = _listed("""
    max=amax amax min=amin amin all any argmax argmin clip=clamp around=round round isclose nan_to_num sort argsort
    outer=mul transpose=permute swapaxes=permute moveaxis=permute rollaxis=permute matrix_transpose=permute
    split=split_with_sizes_copy array_split=split_with_sizes_copy hsplit=split_with_sizes_copy
    vsplit=split_with_sizes_copy unstack=unbind_copy broadcast_to=expand tile=repeat repeat=repeat_interleave roll flip
    flipud=flip fliplr=flip pad=constant_pad_nd tril triu diag=diag_embed copy zeros_like ones_like full_like
    take=index_select take_along_axis=gather diagonal=diagonal_copy nonzero argwhere=nonzero flatnonzero=nonzero
    unique=_unique2
""")
# No kernel, unless NumPy has to copy.
_VIEWS = (
    *("reshape", "ravel", "squeeze", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d"),
    *("real", "imag", "broadcast_arrays"),
)

# Answered from the description of the operands.
_DESCRIPTIONS = (
    *("shape", "ndim", "size", "result_type", "can_cast", "common_type", "min_scalar_type"),
    *("iscomplexobj", "isrealobj", "may_share_memory", "shares_memory"),
)


class Rule(NamedTuple):
    """The kernel of a function, whether its operands are cast to the result's type, and whether the host waits."""

    kernel: Kernel
    promotes: bool = False
    reads_back: bool = False


def kernel(operator: str, *, scalar: bool = False, in_place: bool = False) -> Kernel:
    """Return the single kernel of an operator; arguments as for :func:`kernels_of`."""
    (only,) = kernels_of(operator, scalar=scalar, in_place=in_place)
    return only


def _functions(names: Mapping[str, str]) -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield the functions of this NumPy version with their operators."""
    for name, operator in names.items():
        if (function := getattr(np, name, None)) is not None:
            yield function, operator


def _rules() -> Iterator[tuple[Callable[..., Any], Rule]]:
    for promotes, names in ((True, _PROMOTING), (False, _OTHERS)):
        for function, operator in _functions(names):
            yield function, Rule(kernel(operator), promotes, operator in catalogue.READ_BACK)
    yield np.linalg.norm, Rule(catalogue.VECTOR_NORM, promotes=True)


_OPERATOR_OF = dict(_functions(UFUNCS))

REDUCE = {function: kernel(operator) for function, operator in _functions(_REDUCE)}
ACCUMULATE = {function: kernel(operator) for function, operator in _functions(_ACCUMULATE)}
SCATTER = {function: kernel(operator) for function, operator in _functions(_SCATTER)}
FUNCTIONS: Mapping[Callable[..., Any], Rule] = dict(_rules())
VIEWS = frozenset(getattr(np, name) for name in _VIEWS)
DESCRIPTIONS = frozenset(getattr(np, name) for name in _DESCRIPTIONS)
POWER_OF_SCALAR = kernel("pow_scalar")


def elementwise(ufunc: np.ufunc, *, scalar: bool, in_place: bool) -> Kernel:
    """Return the kernel of a ufunc, by its scalar or in-place call."""
    operator = _OPERATOR_OF.get(ufunc)
    if operator is None:
        return generic(ufunc.__name__).in_place() if in_place else generic(ufunc.__name__)
    return kernel("pow_scalar" if scalar and operator == "pow" else operator, scalar=scalar, in_place=in_place)
