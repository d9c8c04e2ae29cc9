"""Check from other streams whether the last slices of a stream are missing.

The last slice of a stream can be lost together with its mark, without a gap in the slice numbers. Kernels that were
launched last but did not run reveal this, and so do launches outside any call. For streams without a counterpart
(marks, counters, tensor shapes, memory) it cannot be detected.

Source: raw/FORMAT.md section 2.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuprof.sources.raw.correlation.launch_tables import DecodedLaunches
from npuprof.sources.raw.records import enums
from npuprof.sources.raw.records.folders import tables_of
from npuprof.tables.notes import Notes

_FEW = 16  # at the end of the collection a few tasks may lack a host or device record


def note_missing_ends(run: DecodedLaunches, notes: Notes) -> None:
    """Warn of the last launched kernels without a device task or a call."""
    tracks, kernels = run.tracks, _are_kernels(run)
    ran = np.zeros(len(tracks.stamp_ns), bool)
    ran[run.launches.track[run.launches.track >= 0]] = True
    of_devices = kernels & np.isin(tracks.device, run.tasks.device)
    for stream, subject, is_joined, is_selected in (
        ("stars_soc", "kernels that the host launched last did not run on the device", ran, of_devices),
        ("api_event", "kernels that were launched last are in no call", tracks.call >= 0, kernels),
    ):
        count = _count_after_last(is_joined[is_selected][np.argsort(tracks.stamp_ns[is_selected], kind="stable")])
        if count > _FEW:
            notes.warning(
                stream, f"{subject}: the last slices of {stream} may be missing", count, lacks=tables_of(stream)
            )


def note_idle_devices(run: DecodedLaunches, notes: Notes) -> None:
    """Warn of devices without any task on which the host launched kernels."""
    devices, counts = np.unique(run.tracks.device[_are_kernels(run)], return_counts=True)
    for device, count in zip(devices.tolist(), counts.tolist(), strict=True):
        if not ((run.tasks.device == device) & (run.launches.mark < 0)).any():
            message = (
                "kernels that the host launched have no task: its task records are missing or not decoded, and with "
                "them tasks, kernels and collectives"
            )
            notes.warning(f"device {device}", message, count, lacks=("tasks", "kernels", "communication"))


def _are_kernels(run: DecodedLaunches) -> npt.NDArray[np.bool_]:
    """Return the launched tasks that are kernels."""
    types = run.tracks.task_type
    named = [name in enums.KERNEL_TASK_TYPES or name.startswith("KERNEL_") for name in types.names]
    return np.array([*named, False], bool)[types.codes]


def _count_after_last(is_joined: npt.NDArray[np.bool_]) -> int:
    """Return the number of rows after the last joined row; 0 if no row is joined."""
    return int(np.argmax(is_joined[::-1])) if bool(is_joined.any()) else 0
