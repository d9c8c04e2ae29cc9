"""Launches: which kernel, on which operands, with how many operations; and copies between host and device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.catalogue import CAST, Kernel
from npuprof.simulator.launches import Launch
from npuprof.simulator.npu.streams import device_of, launch_stream
from npuprof.simulator.streams import CopyKind
from npuprof.simulator.tensors import Tensor


def tensor(values: Records | np.generic) -> Tensor:
    """Describe an operand."""
    return Tensor(values.shape, values.dtype.name)


def launch(
    kernel: Kernel, inputs: Iterable[Tensor], outputs: Iterable[Tensor], *, device_id: int, flops: int | None = None
) -> None:
    """Launch a kernel in the calling thread's stream; by default it visits each element of its largest operand once."""
    device = device_of(device_id)
    launched = Launch.elementwise(kernel, inputs, outputs)
    (launched if flops is None else launched._replace(flops=flops)).run(device, launch_stream(device))


def launch_on(
    kernel: Kernel, inputs: Iterable[Records | np.generic], outputs: Sequence[Records], device_id: int
) -> None:
    """Launch a kernel on values."""
    launch(kernel, map(tensor, inputs), map(tensor, outputs), device_id=device_id)


def cast(values: Records, dtype: np.dtype[Any], device_id: int) -> Tensor:
    """Launch the cast that brings an operand to the type an operator computes in, if it needs one.

    Returns
    -------
    Tensor
        The operand from then on. What cannot be cast without loss is left as it is: the operator takes it so.
    """
    if values.dtype == dtype or not np.can_cast(values.dtype, dtype):
        return tensor(values)
    converted = Tensor(values.shape, dtype.name)
    launch(CAST, [tensor(values)], [converted], device_id=device_id)
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
