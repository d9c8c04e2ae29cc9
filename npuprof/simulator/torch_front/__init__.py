"""Ordinary torch code on the embedded simulated NPU: what ``npuprof.simulator.torch`` is.

>>> import torch
>>> import npuprof
>>> with npuprof.profile(collector="simulator") as session, npuprof.simulator.torch():
...     loss = loss_of(model(batch), target)
...     loss.backward()
...     optimizer.step()

Tensors stay tensors of the CPU, and their values those that torch computes. Beside that, every aten operator launches
the kernels that an Ascend NPU would run, on the device model.
"""

from __future__ import annotations

from npuprof.simulator.torch_front.front import Front, load_torch

__all__ = ["simulated_torch"]


def simulated_torch(device: int = 0) -> Front:
    """Return a context in which this thread's torch code launches its kernels on the simulated NPU.

    Inside it, every aten operator of the forward and the backward pass and of optimizers is computed by torch on the
    CPU as always, and launches the operators of CANN that torch_npu would, on the stream that
    :func:`npuprof.simulator.npu.stream` has chosen. A tensor that the device has not seen is copied to it first;
    ``item()`` and other looks at values copy back and wait. Views cost nothing.

    While the simulator's profiler collects, calls of operators and the allocator's blocks are recorded as torch_npu
    records them, and can be found in `operators`, `memory` and `allocations`. Host times are those of this computer,
    which computes the values too; device times are the model's.

    Parameters
    ----------
    device
        Number of the simulated device.

    Returns
    -------
    Front
        To be entered with ``with``, by one thread at a time; may be entered again. It counts what it launched, and
        names the operators that it could only estimate.

    Raises
    ------
    FrontEndAbsentError
        If torch is not installed.
    ValueError
        If there is no such device.
    """
    load_torch()
    return Front(device)
