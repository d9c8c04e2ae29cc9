"""Readers of device records by chip family.

Source: raw/FORMAT.md sections 1, 5 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from npuprof.sources.raw.chips import core_pmu, hwts, nano, pmu_v6, stars_v6
from npuprof.sources.raw.chips.training_trace import read_training_trace
from npuprof.sources.raw.device import pmu, tasks
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.device.tasks import DeviceTasks, Track
from npuprof.sources.raw.metadata.chip_families import Family


def track_of(of: RawDevice) -> Track:
    """Read step tags and task id wraps."""
    if of.family is Family.STARS_V6:
        return stars_v6.read_track(of)
    track = tasks.read_track(of)
    older = read_training_trace(of)
    if not len(older):
        return track
    steps = np.concatenate((track.steps, older))
    return replace(track, steps=steps[np.argsort(steps["counter"], kind="stable")])


def tasks_of(of: RawDevice, track: Track) -> DeviceTasks:
    """Read the tasks of a device."""
    if of.family is Family.HWTS:
        return hwts.read_tasks(of, track)
    if of.family is Family.STARS_V6:
        return stars_v6.read_tasks(of)
    if of.family is Family.NANO:
        return nano.read_tasks(of)
    return tasks.read_tasks(of, track)


def counters_of(devices: Sequence[RawDevice], frequencies: Sequence[pmu.Frequencies]) -> list[pmu.Counters]:
    """Return the performance counters of each device."""
    return [_counters_of(*each) for each in zip(devices, frequencies, strict=True)]


def _counters_of(of: RawDevice, frequencies: pmu.Frequencies) -> pmu.Counters:
    if of.family is Family.HWTS:
        return pmu.Counters(of.id, lambda kernels: core_pmu.read_counters(of, kernels, frequencies))
    if of.family is Family.STARS_V6:
        return pmu.Counters(of.id, lambda kernels: pmu_v6.read_counters(of, kernels, frequencies))
    if of.family is Family.NANO:
        return pmu.Counters(of.id, lambda kernels: nano.read_counters(of, kernels))
    return pmu.read_counters(of, frequencies)


def have_unique_ids(devices: Sequence[RawDevice]) -> bool:
    """Return whether task ids have 32 bits and are unique on a device."""
    return any(of.family is Family.STARS_V6 for of in devices)


def read_details(devices: Sequence[RawDevice]) -> dict[str, pd.DataFrame]:
    """Read the parts of tasks, for families that record them."""
    parts = [stars_v6.read_details(of) for of in devices if of.family is Family.STARS_V6]
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: pd.concat([part[name] for part in parts if name in part], ignore_index=True) for name in names}
