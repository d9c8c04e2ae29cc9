"""Whether the end of a stream is missing, as another stream shows: slices that nothing else tells of.

The last slice of a stream can be gone without a trace: the numbers before it are whole, and its mark is gone too. What
the host launched last and no device ran shows it, and so do launches that no call holds. What is in one stream only
(marks, counters, shapes of tensors, memory) shows nothing: such a run is as one that was shorter.

Source: raw/FORMAT.md section 2.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuprof.notes import Notes
from npuprof.sources.raw.correlation.launch_tables import Run
from npuprof.sources.raw.records import enums

_FEW = 16  # what ran when the collection ended may have only one of both sides


def note_missing_ends(run: Run, notes: Notes) -> None:
    """Warn of kernels launched last without a task on the device, or without a call."""
    tracks, kernels = run.tracks, _are_kernels(run)
    ran = np.zeros(len(tracks.stamp_ns), bool)
    ran[run.launches.track[run.launches.track >= 0]] = True
    of_devices = kernels & np.isin(tracks.device, run.tasks.device)
    for stream, what, found, chosen in (
        ("stars_soc", "kernels that the host launched last did not run on the device", ran, of_devices),
        ("api_event", "kernels that were launched last are in no call", tracks.call >= 0, kernels),
    ):
        count = _behind_the_last(found[chosen][np.argsort(tracks.stamp_ns[chosen], kind="stable")])
        if count > _FEW:
            notes.warning(stream, f"{what}: the last slices of {stream} may be missing", count)


def note_idle_devices(run: Run, notes: Notes) -> None:
    """Warn of devices on which the host launched kernels, and of which there is no task at all."""
    devices, counts = np.unique(run.tracks.device[_are_kernels(run)], return_counts=True)
    for device, count in zip(devices.tolist(), counts.tolist(), strict=True):
        if not (run.tasks.device == device).any():
            told = "kernels that the host launched have no task: its records of tasks are missing, or not decoded"
            notes.warning(f"device {device}", told, count)


def _are_kernels(run: Run) -> npt.NDArray[np.bool_]:
    """Return which of the launched tasks are kernels."""
    types = run.tracks.task_type
    named = [name in enums.KERNEL_TASK_TYPES or name.startswith("KERNEL_") for name in types.names]
    kernels: npt.NDArray[np.bool_] = np.array([*named, False], bool)[types.codes]
    return kernels


def _behind_the_last(found: npt.NDArray[np.bool_]) -> int:
    """Return how many come after the last one that was found; 0 where none was."""
    return int(np.argmax(found[::-1])) if bool(found.any()) else 0
