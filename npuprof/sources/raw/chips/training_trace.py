"""Iterations of older recordings (``training_trace``), in the form of ``ts_track``'s step tags.

Source: raw/FORMAT.md sections 5.4 and 7.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Records, taken
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.records import chip_layouts, layouts
from npuprof.sources.raw.records.framing import frame

STREAM = "training_trace"
_STEP = 0x0A
_FORWARD, _ITERATION_END = 1, 255  # tags in the form of 2020
_TAG_START, _TAG_FORWARD, _TAG_BACKWARD, _TAG_END = 0, 2, 3, 4  # tags in today's form
_BACKWARD = 2
_NO_MODEL = 0xFFFFFFFF


def read_training_trace(device: RawDevice) -> Records:
    """Read step tags in order of time as records of ``ts_track``: today's form (40 bytes) or that of 2020 (20)."""
    name = f"{STREAM}.data.{device.id}"
    content = device.streams.read_bytes(name)
    if not len(content):
        return np.empty(0, layouts.TS_TRACK)
    today = frame(content, layouts.TS_TRACK).records
    # A record in today's form has its function code in the second byte; in the form of 2020 that is the middle of a
    # tag.
    if len(today) and 2 * int((today["function"] == _STEP).sum()) > len(today):
        steps = device.streams.read(name, layouts.TS_TRACK)
        tagged = steps["function"] == _STEP
        device.skip(STREAM, "records of other functions are not decoded", int((~tagged).sum()), info=True)
        steps = device.keep_sound(taken(steps, tagged), STREAM)
        device.use(STREAM, len(steps))
        return steps[np.argsort(steps["counter"], kind="stable")]
    records = device.read(STREAM, chip_layouts.TRACE_2020)
    return _from_2020(device, records[np.argsort(records["counter"], kind="stable")])


def _from_2020(device: RawDevice, records: Records) -> Records:
    """Return numbered iterations: each starts at the end of the previous one, the first with its forward pass."""
    ends = np.flatnonzero(records["tag"] == _ITERATION_END)
    is_known = np.isin(records["tag"], (_FORWARD, _BACKWARD, _ITERATION_END))
    device.skip(STREAM, "other tags than of iterations skipped", int((~is_known).sum()), info=True)
    device.use(STREAM, int(is_known.sum()))
    if not len(ends):
        return np.empty(0, layouts.TS_TRACK)
    first = int(np.flatnonzero(is_known)[0])
    # The duration of a first iteration is unknown if only its end is recorded.
    starts, ends = (np.concatenate(([first], ends[:-1])), ends) if first < ends[0] else (ends[:-1], ends[1:])
    iteration = np.arange(1, len(ends) + 1)
    within = np.flatnonzero((records["tag"] == _FORWARD) | (records["tag"] == _BACKWARD))
    number = np.searchsorted(ends, within) + 1
    within, number = within[number <= len(ends)], number[number <= len(ends)]
    passes = np.where(records["tag"][within] == _FORWARD, _TAG_FORWARD, _TAG_BACKWARD)
    parts = ((starts, iteration, _TAG_START), (within, number, passes), (ends, iteration, _TAG_END))
    rows = np.concatenate([rows for rows, _, _ in parts])
    steps = np.zeros(len(rows), layouts.TS_TRACK)
    steps["function"], steps["model"] = _STEP, _NO_MODEL
    steps["counter"], steps["stream"], steps["task"] = (records[key][rows] for key in ("counter", "stream", "task"))
    steps["index"] = np.concatenate([numbers for _, numbers, _ in parts])
    steps["tag"] = np.concatenate([np.broadcast_to(tags, len(numbers)) for _, numbers, tags in parts])
    return steps[np.argsort(steps["counter"], kind="stable")]
