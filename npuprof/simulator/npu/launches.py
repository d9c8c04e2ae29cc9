"""Launches: which kernel, on which operands, with how many operations; and copies between host and device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from npuprof.simulator.cost_model import Core
from npuprof.simulator.npu.storage import Values
from npuprof.simulator.npu.streams import device_of, launch_stream
from npuprof.simulator.streams import CopyKind
from npuprof.simulator.tensors import Tensor


class Kernel(NamedTuple):
    """An operator of CANN as single-operator calls launch it.

    Attributes
    ----------
    op_type, api
        Its type (``Add``) and the acl call (``aclnnAdd``).
    core
        The cores that it runs on.
    operations
        Operations for each element of its largest operand: 1 for arithmetic, for which the vector unit has
        an instruction, 0 for what only moves data.
    variant
        What the node's name has after the type: ``AiCore``, or ``Common`` for matrix products.
    reads_part
        Whether it reads no more of its first operand than it writes, as a slice does.
    """

    op_type: str
    api: str
    core: Core = "AI_VECTOR_CORE"
    operations: int = 1
    variant: str = "AiCore"
    reads_part: bool = False

    @property
    def node(self) -> str:
        """The node's name as profiles show it, such as ``aclnnAdd_AddAiCore_Add``."""
        return f"{self.api}_{self.op_type}{self.variant}_{self.op_type}"


CAST = Kernel("Cast", "aclnnCast")


def tensor(values: Values | np.generic) -> Tensor:
    """Describe an operand."""
    return Tensor(values.shape, values.dtype.name)


def launch(
    kernel: Kernel,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    *,
    device_id: int,
    flops: int,
) -> None:
    """Launch a kernel in the calling thread's stream; traffic is every operand once, or the part that is read."""
    device = device_of(device_id)
    read = (*outputs, *inputs[1:]) if kernel.reads_part else inputs
    device.launch(
        kernel.op_type,
        core=kernel.core,
        inputs=inputs,
        outputs=outputs,
        flops=flops,
        read_bytes=sum(operand.size_bytes for operand in read),
        name=kernel.node,
        api=kernel.api,
        stream=launch_stream(device),
    )


def launch_on(kernel: Kernel, inputs: Iterable[Values | np.generic], outputs: Sequence[Values], device_id: int) -> None:
    """Launch a kernel that visits each element of its largest operand once."""
    operands = tuple(inputs)
    elements = max((values.size for values in (*operands, *outputs)), default=0)
    launch(
        kernel,
        [tensor(values) for values in operands],
        [tensor(values) for values in outputs],
        device_id=device_id,
        flops=kernel.operations * elements,
    )


def cast(values: Values, dtype: np.dtype[Any], device_id: int) -> Tensor:
    """Launch the cast that brings an operand to the type an operator computes in, if it needs one.

    Returns
    -------
    Tensor
        The operand from then on. What cannot be cast without loss is left as it is: the operator takes it so.
    """
    if values.dtype == dtype or not np.can_cast(values.dtype, dtype):
        return tensor(values)
    converted = Tensor(values.shape, dtype.name)
    launch(CAST, [tensor(values)], [converted], device_id=device_id, flops=values.size)
    return converted


def copy(kind: CopyKind, size_bytes: int, device_id: int) -> None:
    """Copy in the calling thread's stream, without waiting for it."""
    device = device_of(device_id)
    device.copy(kind, size_bytes, launch_stream(device))


def read_back(size_bytes: int, device_id: int) -> None:
    """Copy to the host and wait for the stream, as every look at values on the device has to."""
    device = device_of(device_id)
    stream = launch_stream(device)
    device.copy("device_to_host", size_bytes, stream)
    device.synchronize(stream)
