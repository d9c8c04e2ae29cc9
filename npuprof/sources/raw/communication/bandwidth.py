"""Bandwidth of the steps of communication operators.

Source: raw/FORMAT.md section 8.9.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Bools, Float64, Int64

_CLOSING_STEPS = 4  # after RDMA payloads: the notifications that tell their arrival, and a barrier
_CLOSING_STEPS_POINT_TO_POINT = 2  # without the barrier


def bandwidth_gb_s(
    start_ns: Int64, end_ns: Int64, size: Float64, lane: Int64, payload: Bools, point_to_point: Bools
) -> Float64:
    """Return the bandwidth of each step in GB/s: 10**9 bytes a second.

    Parameters
    ----------
    start_ns, end_ns
        When each step ran; steps are in order of time.
    size
        Bytes that it moved, NaN where unknown.
    lane
        Number of the operator's plane that it ran on.
    payload
        Whether it is an RDMA payload. Sending only hands it over: payloads in a row last until the last of the
        steps that close them.
    point_to_point
        Whether its operator sends or receives.

    Returns
    -------
    The bandwidths; NaN for a step without a size or without a duration.
    """
    result = _ratio(size, end_ns - start_ns)
    if not bool(payload.any()):
        return result
    order = np.argsort(lane, kind="stable")
    ordered, is_payload = lane[order], payload[order]
    same = np.concatenate(([False], (ordered[1:] == ordered[:-1]) & (is_payload[1:] == is_payload[:-1])))
    first = np.flatnonzero(~same & is_payload)
    last = np.append(np.flatnonzero(~same), len(order))
    last = last[np.searchsorted(last, first, side="right")] - 1
    closing = last + np.where(point_to_point[order][first], _CLOSING_STEPS_POINT_TO_POINT, _CLOSING_STEPS)
    closed = closing < np.searchsorted(ordered, ordered[first], side="right")
    first, last, closing = first[closed], last[closed], closing[closed]
    total = np.concatenate(([0.0], np.cumsum(np.where(is_payload, np.nan_to_num(size[order]), 0))))
    together = _ratio(total[last + 1] - total[first], end_ns[order][closing] - start_ns[order][first])
    counts = last - first + 1
    rows = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(counts.sum())
    result[order[rows]] = np.repeat(together, counts)
    return result


def _ratio(size: Float64, duration_ns: Int64) -> Float64:
    return size / np.where(duration_ns > 0, duration_ns.astype(np.float64), np.nan)
