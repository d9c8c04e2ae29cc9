"""A launch: a kernel with its operands, operations and memory traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from npuprof.simulator.catalogue import Kernel
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import Stream


class Launch(NamedTuple):
    """A kernel with its operands and number of operations."""

    kernel: Kernel
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: int

    @classmethod
    def elementwise(cls, kernel: Kernel, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> Launch:
        """Return the launch of a kernel whose operations are counted per element of its largest operand."""
        taken, given = tuple(inputs), tuple(outputs)
        elements = max((math.prod(operand.shape) for operand in (*taken, *given)), default=0)
        return cls(kernel, taken, given, kernel.operations * elements)

    @property
    def read_bytes(self) -> int:
        """Bytes read: each operand once, and only a part of the first operand if the kernel `reads_part`."""
        read = (*self.outputs, *self.inputs[1:]) if self.kernel.reads_part else self.inputs
        return sum(operand.size_bytes for operand in read)

    def run(self, device: Device, stream: Stream) -> None:
        """Launch the kernel on a device."""
        device.launch(
            self.kernel.op_type,
            core=self.kernel.core,
            inputs=self.inputs,
            outputs=self.outputs,
            flops=self.flops,
            read_bytes=self.read_bytes,
            name=self.kernel.node,
            api=self.kernel.api,
            stream=stream,
        )
