"""The window that a timeline opens on: the steps, or else the work of the device."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.arrays import Int64

_DEVICE = ("kernels", "tasks", "communication")
_MARGIN = 50  # on each side, as a fraction (1/50) of the window
_MOST = 0.9  # a window that is nearly the whole is the whole


def opening(tables: Mapping[str, pd.DataFrame], whole: tuple[int, int]) -> tuple[int, int]:
    """Return the window that a timeline opens on, with a margin.

    It holds all steps, with the device tasks that began in them, or without steps all device tasks. What lies before
    and after, such as samples of memory or Python, is seen on request.

    Parameters
    ----------
    whole
        From the first slice or sample to the last, epoch nanoseconds; returned where the window is nearly that.
    """
    device = [_span(tables[name]) for name in _DEVICE if len(tables[name])]
    spans = [_span(tables["steps"])] if len(tables["steps"]) else device
    if not spans:
        return whole
    start, end = min(int(begins.min()) for begins, _ in spans), max(int(ends.max()) for _, ends in spans)
    for begins, ends in device:
        end = max(end, int(ends[(begins >= start) & (begins <= end)].max(initial=end)))
    margin = (end - start) // _MARGIN
    start, end = max(start - margin, whole[0]), min(end + margin, whole[1])
    return (start, end) if start < end < start + _MOST * (whole[1] - whole[0]) else whole


def _span(frame: pd.DataFrame) -> tuple[Int64, Int64]:
    start = frame["start_ns"].to_numpy(np.int64)
    return start, start + frame["duration_ns"].to_numpy(np.int64)
