"""From a call of an aten operator to what it launches: kernels with their operands and operations.

Nothing here needs torch: a call's tensors are descriptions of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from npuprof.simulator.npu.launches import Kernel
from npuprof.simulator.tensors import Tensor
from npuprof.simulator.torch_front import table

_CUBE_DTYPES = frozenset({"float16", "bfloat16", "float32", "int8"})
_VOLUMES = 5  # axes of an operand of a convolution over three dimensions


class Call(NamedTuple):
    """A call of an aten operator.

    Attributes
    ----------
    name, overload
        As in ``aten::add.Tensor``: ``add`` and ``Tensor``.
    args
        Positional and then named arguments, tensors as :class:`~npuprof.simulator.Tensor`, lists as tuples.
    outputs
        The tensors that it gave, in order.
    in_place
        Whether it changed its first operand.
    """

    name: str
    overload: str
    args: tuple[Any, ...]
    outputs: tuple[Tensor, ...]
    in_place: bool = False

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments, those in lists too, in order."""
        return tuple(_tensors(self.args))


class Launch(NamedTuple):
    """One kernel with its operands and the operations that it makes."""

    kernel: Kernel
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: int

    @property
    def read_bytes(self) -> int:
        """Bytes that it reads: each operand once, or the part of the first that it gives."""
        read = (*self.outputs, *self.inputs[1:]) if self.kernel.reads_part else self.inputs
        return sum(operand.size_bytes for operand in read)


class Lowered(NamedTuple):
    """What a call launches; `known` tells whether the table has its operator, else it is an estimate."""

    launches: tuple[Launch, ...]
    known: bool = True


def lower(call: Call) -> Lowered:
    """Give what a call launches.

    Parameters
    ----------
    call
        The call; one that only gives views should not come here.

    Returns
    -------
    Lowered
        The kernels in order, none for what takes no device. An operator that is in no table becomes one kernel of
        its own name in capitals, with one operation for each element of its largest operand.
    """
    if call.name in table.NOTHING:
        return Lowered(())
    if (special := _SPECIAL.get(call.name)) is not None:
        try:
            return Lowered(tuple(special(call)))
        except (LookupError, ValueError, TypeError):  # another torch gives it other arguments
            return Lowered((_elementwise(generic(call.name), call),), known=False)
    if call.name.startswith(table.FOREACH):
        return Lowered((_elementwise(_foreach_kernel(call), call),))
    if call.name.startswith(table.FUSED) and (fused := _fused_kernel(call.name)) is not None:
        return Lowered(tuple(_optimizer(fused, call)))
    kernels = table.KERNELS.get(call.name)
    if kernels is None:
        return Lowered((_elementwise(generic(call.name), call),), known=False)
    return Lowered(tuple(_elementwise(_variant(kernel, call), call) for kernel in kernels))


def generic(name: str) -> Kernel:
    """Give the kernel of an operator that no table has."""
    op_type = "".join(word[:1].upper() + word[1:] for word in name.split("_") if word) or "Unknown"
    return Kernel(op_type, f"aclnn{op_type}")


def _variant(kernel: Kernel, call: Call) -> Kernel:
    api = kernel.api
    if call.name in table.WITH_SCALAR and len([one for one in call.inputs if one.shape]) < 2:
        api = table.WITH_SCALAR[call.name]
    if call.in_place and not api.startswith("aclnnInplace"):
        api = f"aclnnInplace{api[5:]}"
    return kernel._replace(api=api)


def _elementwise(kernel: Kernel, call: Call) -> Launch:
    elements = max((_count(operand) for operand in (*call.inputs, *call.outputs)), default=0)
    if call.name.startswith(table.FOREACH):
        elements = sum(map(_count, call.inputs))
    return Launch(kernel, call.inputs, call.outputs, kernel.operations * elements)


# -- matrix products -----------------------------------------------------------------------------------------------


def _on_cube(kernel: Kernel, dtype: str) -> Kernel:
    return kernel if dtype in _CUBE_DTYPES else kernel._replace(op_type=kernel.op_type[:-2], core="AI_VECTOR_CORE")


def _product(kernel: Kernel, first: int) -> Callable[[Call], Iterator[Launch]]:
    def launches(call: Call) -> Iterator[Launch]:
        one, other = call.inputs[first : first + 2]
        flops = 2 * _count(one) * (other.shape[-1] if len(other.shape) > 1 else 1)
        yield Launch(_on_cube(kernel, one.dtype), call.inputs, call.outputs, flops)

    return launches


def _linear(call: Call) -> Iterator[Launch]:
    one, weight = call.inputs[:2]
    yield Launch(_on_cube(table.MATMUL, one.dtype), call.inputs, call.outputs, 2 * _count(one) * weight.shape[0])


# -- convolutions --------------------------------------------------------------------------------------------------


def _convolution(call: Call) -> Iterator[Launch]:
    source, weight = call.inputs[:2]
    kernel = _of_axes(table.CONVOLUTION, source)
    output = call.outputs[0]
    # A transposed convolution spreads each element of its input, another one gathers each element of its output.
    transposed = len(call.args) > 6 and call.args[6] is True
    spread = source if transposed else output
    yield Launch(kernel, call.inputs, call.outputs, 2 * _count(spread) * math.prod(weight.shape[1:]))


def _convolution_backward(call: Call) -> Iterator[Launch]:
    gradient, source, weight = call.inputs[:3]
    mask = next((one for one in reversed(call.args) if _is_mask(one)), (True, True, True))
    transposed = len(call.args) > 7 and call.args[7] is True
    flops = 2 * _count(source if transposed else gradient) * math.prod(weight.shape[1:])
    if mask[0]:
        yield Launch(_of_axes(table.CONVOLUTION_INPUT, source), (weight, gradient), (source,), flops)
    if mask[1]:
        yield Launch(_of_axes(table.CONVOLUTION_WEIGHT, source), (source, gradient), (weight,), flops)
    if mask[2]:
        bias = Tensor(gradient.shape[1:2], gradient.dtype)
        yield Launch(table.BIAS_GRADIENT, (gradient,), (bias,), _count(gradient))


def _of_axes(kernel: Kernel, source: Tensor) -> Kernel:
    """Name a convolution by its axes: what has one is run with two, as CANN does."""
    if len(source.shape) < _VOLUMES:
        return kernel
    return kernel._replace(op_type=kernel.op_type.replace("2D", "3D"))


def _is_mask(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(one, bool) for one in value)


# -- attention -----------------------------------------------------------------------------------------------------


def _attention(call: Call) -> Iterator[Launch]:
    query, key, value = call.inputs[:3]
    yield Launch(table.ATTENTION, call.inputs, call.outputs[:1], _attention_flops(query, key, value))


def _attention_backward(call: Call) -> Iterator[Launch]:
    query, key, value = call.inputs[1:4]
    # The scores are computed again, and each of the two products has two gradients.
    flops = 5 * _attention_flops(query, key, value) // 2
    yield Launch(table.ATTENTION_GRADIENT, call.inputs, call.outputs, flops)


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


# -- the others that a name does not settle ------------------------------------------------------------------------


def _copy(call: Call) -> Iterator[Launch]:
    source = call.inputs[-1] if call.name == "copy" else call.inputs[0]
    (output,) = call.outputs[:1]
    (kernel,) = (table.CAST,) if source.dtype != output.dtype else table.KERNELS[call.name]
    yield Launch(kernel, (source,), (output,), kernel.operations * _count(output))


def _index(call: Call) -> Iterator[Launch]:
    for mask in (one for one in call.inputs[1:] if one.dtype in ("bool", "uint8")):
        positions = Tensor((_count(call.outputs[0]), len(mask.shape)), "int64")
        yield Launch(table.KERNELS["nonzero"][0], (mask,), (positions,), _count(mask))
    yield _elementwise(table.KERNELS["index"][0], call)


def _batch_norm(call: Call) -> Iterator[Launch]:
    # Input, weight, bias, both running values, and then whether they are to be learnt.
    is_training = len(call.args) <= 5 or call.args[5] is not False
    name = call.name if is_training else "_native_batch_norm_legit_no_training"
    for kernel in table.KERNELS[name]:
        yield _elementwise(kernel, call)


def _foreach_kernel(call: Call) -> Kernel:
    words = call.name[len(table.FOREACH) :]
    kind = "".join(part.capitalize() for part in words.split("_"))
    suffix = call.overload if call.overload in ("Scalar", "List", "ScalarList", "Tensor") else ""
    return Kernel(f"Foreach{kind}{suffix}", f"aclnnForeach{kind}{suffix}", operations=1, variant="")


def _fused_kernel(name: str) -> Kernel | None:
    return table.FUSED_OPTIMIZERS.get(name[len(table.FUSED) :])


def _optimizer(kernel: Kernel, call: Call) -> Iterator[Launch]:
    """Launch once for each parameter, with its gradient and states."""
    lists = [one for one in call.args if isinstance(one, tuple) and one and all(isinstance(x, Tensor) for x in one)]
    for number, parameter in enumerate(lists[0] if lists else ()):
        operands = tuple(one[number] for one in lists if number < len(one) and one[number].shape)
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
    "mm": _product(table.MATMUL, 0),
    "addmm": _product(table.MATMUL._replace(api="aclnnAddmm"), 1),
    "mv": _product(table.MATMUL._replace(api="aclnnMv"), 0),
    "addmv": _product(table.MATMUL._replace(api="aclnnAddmv"), 1),
    "dot": _product(table.MATMUL._replace(api="aclnnDot"), 0),
    "bmm": _product(table.BATCHED, 0),
    "baddbmm": _product(table.BATCHED._replace(api="aclnnBaddbmm"), 1),
    "addbmm": _product(table.BATCHED._replace(api="aclnnAddbmm"), 1),
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
    "mkldnn_rnn_layer": _recurrent(table.RECURRENT, 1),
    "mkldnn_rnn_layer_backward": _recurrent(table.RECURRENT_GRADIENT, 2),
    "copy": _copy,
    "_to_copy": _copy,
    "index": _index,
    "native_batch_norm": _batch_norm,
    "_native_batch_norm_legit": _batch_norm,
}
