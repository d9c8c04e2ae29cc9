"""How long each kernel waited since what started last before it on its device.

Source: raw/FORMAT.md section 9 (op_summary); there in steps of 0.25 µs, here exact.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64


def waits(device: Int64, start: Int64, end: Int64, kernels: int) -> Int64:
    """Return the time from the end of what started last before each kernel on its device to the kernel's start.

    Parameters
    ----------
    device, start, end
        Of kernels in order of time, and after them of collectives. What starts at the same moment counts in this
        order, so that a kernel does not wait for the collective that starts with it.
    kernels
        How many of them are kernels.

    Returns
    -------
    Of each kernel; 0 for the first of a device, and where what started before still runs.
    """
    order = np.lexsort((start, device))
    gap = np.zeros(len(order), np.int64)
    same = device[order][1:] == device[order][:-1]
    gap[1:] = np.where(same, np.maximum(start[order][1:] - end[order][:-1], 0), 0)
    waited = np.empty(len(order), np.int64)
    waited[order] = gap
    return waited[:kernels]
