"""Lowering: the kernels, operands and operations of a call of an aten operator.

Lowering works on descriptions of tensors, without torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from npuprof.simulator import catalogue
from npuprof.simulator.catalogue import Kernel, generic, kernels_of
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.launches import Launch

_CUBE_DTYPES = frozenset({"float16", "bfloat16", "float32", "int8"})
_FOREACH = "_foreach_"
_VOLUMES = 5  # axes of a convolution operand with three dimensions
# Operators without a kernel, in addition to views.
_NOTHING = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize set _unsafe_view _reshape_alias
    lift_fresh lift alias detach view _conj is_same_size unsafe_split unsafe_split_with_sizes unsafe_chunk
    record_stream _has_compatible_shallow_copy_type is_pinned _nested_tensor_size sym_size sym_stride sym_numel
    sym_storage_offset stride size dim numel is_contiguous
"""
NOTHING = frozenset(_NOTHING.split())
# Operators that copy a value to the host and wait for it.
READS_A_VALUE = frozenset({"_local_scalar_dense", "item", "is_nonzero"})


class Call(NamedTuple):
    """A call of an aten operator: ``aten::add.Tensor`` has the name ``add`` and the overload ``Tensor``.

    `args` are positional, then named arguments, with tensors as :class:`~npuprof.simulator.Tensor` and lists as tuples.
    """

    name: str
    overload: str
    args: tuple[Any, ...]
    outputs: tuple[Tensor, ...]
    in_place: bool = False

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments, with those in lists, in order."""
        return tuple(_tensors(self.args))


class Lowered(NamedTuple):
    """The launches of a call; `known` is whether the operator is in the catalogue."""

    launches: tuple[Launch, ...]
    known: bool = True


def lower(call: Call) -> Lowered:
    """Return the launches of a call that is not a view.

    An operator outside the catalogue becomes one kernel with its capitalised name and one operation per element of its
    largest operand.
    """
    if call.name in NOTHING:
        return Lowered(())
    if (special := _SPECIAL.get(call.name)) is not None:
        try:
            return Lowered(tuple(special(call)))
        except (LookupError, ValueError, TypeError):  # another version of torch passes other arguments
            return Lowered((_elementwise(generic(call.name), call),), known=False)
    if call.name.startswith(_FOREACH):
        return Lowered((Launch(_foreach_kernel(call), call.inputs, call.outputs, sum(map(_count, call.inputs))),))
    if (fused := catalogue.FUSED_OPTIMIZERS.get(call.name)) is not None:
        return Lowered(tuple(_optimizer(fused, call)))
    scalar = len([each for each in call.inputs if each.shape]) < 2
    kernels = kernels_of(call.name, scalar=scalar, in_place=call.in_place)
    return Lowered(tuple(_elementwise(each, call) for each in kernels or (generic(call.name),)), known=bool(kernels))


def _elementwise(kernel: Kernel, call: Call) -> Launch:
    return Launch.elementwise(kernel, call.inputs, call.outputs)


# -- matrix products -----------------------------------------------------------------------------------------------


def _on_cube(kernel: Kernel, dtype: str) -> Kernel:
    return kernel if dtype in _CUBE_DTYPES else kernel._replace(op_type=kernel.op_type[:-2], core="AI_VECTOR_CORE")


def _product(kernel: Kernel, first: int) -> Callable[[Call], Iterator[Launch]]:
    def launches(call: Call) -> Iterator[Launch]:
        left, right = call.inputs[first : first + 2]
        flops = 2 * _count(left) * (right.shape[-1] if len(right.shape) > 1 else 1)
        yield Launch(_on_cube(kernel, left.dtype), call.inputs, call.outputs, flops)

    return launches


def _linear(call: Call) -> Iterator[Launch]:
    source, weight = call.inputs[:2]
    yield Launch(
        _on_cube(catalogue.MATMUL, source.dtype), call.inputs, call.outputs, 2 * _count(source) * weight.shape[0]
    )


# -- convolutions --------------------------------------------------------------------------------------------------


def _convolution(call: Call) -> Iterator[Launch]:
    source, weight = call.inputs[:2]
    kernel = _convolution_kernel(catalogue.CONVOLUTION, source)
    output = call.outputs[0]
    # A transposed convolution spreads each element of its input, any other gathers each element of its output.
    transposed = len(call.args) > 6 and call.args[6] is True
    spread = source if transposed else output
    yield Launch(kernel, call.inputs, call.outputs, 2 * _count(spread) * math.prod(weight.shape[1:]))


def _convolution_backward(call: Call) -> Iterator[Launch]:
    gradient, source, weight = call.inputs[:3]
    mask = next((value for value in reversed(call.args) if _is_mask(value)), (True, True, True))
    transposed = len(call.args) > 7 and call.args[7] is True
    flops = 2 * _count(source if transposed else gradient) * math.prod(weight.shape[1:])
    if mask[0]:
        yield Launch(_convolution_kernel(catalogue.CONVOLUTION_INPUT, source), (weight, gradient), (source,), flops)
    if mask[1]:
        yield Launch(_convolution_kernel(catalogue.CONVOLUTION_WEIGHT, source), (source, gradient), (weight,), flops)
    if mask[2]:
        bias = Tensor(gradient.shape[1:2], gradient.dtype)
        yield Launch(catalogue.BIAS_GRADIENT, (gradient,), (bias,), _count(gradient))


def _convolution_kernel(kernel: Kernel, source: Tensor) -> Kernel:
    """Return the kernel of a convolution with these axes; CANN runs one dimension as two."""
    if len(source.shape) < _VOLUMES:
        return kernel
    return kernel._replace(op_type=kernel.op_type.replace("2D", "3D"))


def _is_mask(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(flag, bool) for flag in value)


# -- attention -----------------------------------------------------------------------------------------------------


def _attention(call: Call) -> Iterator[Launch]:
    query, key, value = call.inputs[:3]
    yield Launch(catalogue.ATTENTION, call.inputs, call.outputs[:1], _attention_flops(query, key, value))


def _attention_backward(call: Call) -> Iterator[Launch]:
    query, key, value = call.inputs[1:4]
    # The scores are recomputed, and each of the two products has two gradients.
    flops = 5 * _attention_flops(query, key, value) // 2
    yield Launch(catalogue.ATTENTION_GRADIENT, call.inputs, call.outputs, flops)


def _attention_flops(query: Tensor, key: Tensor, value: Tensor) -> int:
    rows, columns = math.prod(query.shape[:-1]), key.shape[-2]
    return 2 * rows * columns * (query.shape[-1] + value.shape[-1])


# -- recurrent layers ----------------------------------------------------------------------------------------------


def _recurrent(kernel: Kernel, passes: int) -> Callable[[Call], Iterator[Launch]]:
    def launches(call: Call) -> Iterator[Launch]:
        source, of_input, of_hidden = call.inputs[:3]
        flops = 2 * math.prod(source.shape[:-1]) * (_count(of_input) + _count(of_hidden))
        yield Launch(kernel, call.inputs, call.outputs, passes * flops)

    return launches


# -- operators that need more than their name -------------------------------------------------------------------------


def _copy(call: Call) -> Iterator[Launch]:
    source = call.inputs[-1] if call.name == "copy" else call.inputs[0]
    (output,) = call.outputs[:1]
    (kernel,) = (catalogue.CAST,) if source.dtype != output.dtype else catalogue.KERNELS[call.name]
    yield Launch(kernel, (source,), (output,), kernel.operations * _count(output))


def _index(call: Call) -> Iterator[Launch]:
    for mask in (operand for operand in call.inputs[1:] if operand.dtype in ("bool", "uint8")):
        positions = Tensor((_count(call.outputs[0]), len(mask.shape)), "int64")
        yield Launch(catalogue.KERNELS["nonzero"][0], (mask,), (positions,), _count(mask))
    yield _elementwise(catalogue.KERNELS["index"][0], call)


def _batch_norm(call: Call) -> Iterator[Launch]:
    # Input, weight, bias, running mean and variance, and then whether these are updated.
    is_training = len(call.args) <= 5 or call.args[5] is not False
    name = call.name if is_training else "_native_batch_norm_legit_no_training"
    for kernel in catalogue.KERNELS[name]:
        yield _elementwise(kernel, call)


def _foreach_kernel(call: Call) -> Kernel:
    words = call.name[len(_FOREACH) :]
    kind = "".join(part.capitalize() for part in words.split("_"))
    suffix = call.overload if call.overload in ("Scalar", "List", "ScalarList", "Tensor") else ""
    return Kernel(f"Foreach{kind}{suffix}", f"aclnnForeach{kind}{suffix}", operations=1, variant="")


def _optimizer(kernel: Kernel, call: Call) -> Iterator[Launch]:
    """Yield a launch for each parameter, with its gradient and states."""
    lists = [
        tensors
        for tensors in call.args
        if isinstance(tensors, tuple) and tensors and all(isinstance(tensor, Tensor) for tensor in tensors)
    ]
    for number, parameter in enumerate(lists[0] if lists else ()):
        operands = tuple(tensors[number] for tensors in lists if number < len(tensors) and tensors[number].shape)
        changed = operands[:1] + operands[2:]
        yield Launch(kernel, operands, changed, kernel.operations * _count(parameter))


def _count(operand: Tensor) -> int:
    return math.prod(operand.shape)


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors(value)


_SPECIAL: Mapping[str, Callable[[Call], Iterator[Launch]]] = {
    "mm": _product(catalogue.MATMUL, 0),
    "addmm": _product(catalogue.MATMUL._replace(api="aclnnAddmm"), 1),
    "mv": _product(catalogue.MATMUL._replace(api="aclnnMv"), 0),
    "addmv": _product(catalogue.MATMUL._replace(api="aclnnAddmv"), 1),
    "dot": _product(catalogue.MATMUL._replace(api="aclnnDot"), 0),
    "bmm": _product(catalogue.BATCHED, 0),
    "baddbmm": _product(catalogue.BATCHED._replace(api="aclnnBaddbmm"), 1),
    "addbmm": _product(catalogue.BATCHED._replace(api="aclnnAddbmm"), 1),
    "linear": _linear,
    "convolution": _convolution,
    "_convolution": _convolution,
    "convolution_overrideable": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_scaled_dot_product_flash_attention_backward": _attention_backward,
    "_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "mkldnn_rnn_layer": _recurrent(catalogue.RECURRENT, 1),
    "mkldnn_rnn_layer_backward": _recurrent(catalogue.RECURRENT_GRADIENT, 2),
    "copy": _copy,
    "_to_copy": _copy,
    "index": _index,
    "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit": _batch_norm,
}
