"""Ordinary torch code on the embedded simulated NPU: ``npuprof.simulator.torch``.

>>> import torch
>>> import npuprof
>>> with npuprof.profile(collector="simulator") as session, npuprof.simulator.torch():
...     loss = loss_of(model(batch), target)
...     loss.backward()
...     optimizer.step()

Tensors stay on the CPU, with torch's values. In addition, every aten operator launches the kernels of an Ascend NPU on
the simulated device.
"""

from __future__ import annotations

from npuprof.simulator.torch_front.front import Front, load_torch

__all__ = ["simulated_torch"]


def simulated_torch(device: int = 0) -> Front:
    """Return a context in which this thread's torch code launches its kernels on the simulated NPU.

    Every aten operator of forward pass, backward pass and optimizers is computed by torch on the CPU, and launches the
    kernels of torch_npu, in the stream of :func:`npuprof.simulator.npu.stream`. A tensor that is new to the device is
    copied there first; ``item()`` and other reads of values copy back and wait. Views cost nothing.

    While the simulator's profiler collects, operator calls and allocator blocks are recorded as by torch_npu, in
    `operators`, `memory` and `allocations`. Host times are those of this computer, which also computes the values;
    device times are the model's.

    Parameters
    ----------
    device
        Number of the simulated device.

    Returns
    -------
    Front
        A context manager for one thread at a time, which may be entered again. It counts launched kernels, and
        operators outside the catalogue, with an estimated time.

    Raises
    ------
    FrontEndAbsentError
        If torch is not installed.
    ValueError
        If there is no such device.
    """
    load_torch()
    return Front(device)
