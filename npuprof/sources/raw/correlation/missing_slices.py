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
    tracks = run.tracks
    types = [name in enums.KERNEL_TASK_TYPES or name.startswith("KERNEL_") for name in tracks.task_type.names]
    kernels = np.array([*types, False], bool)[tracks.task_type.codes]
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


def _behind_the_last(found: npt.NDArray[np.bool_]) -> int:
    """Return how many come after the last one that was found; 0 where none was."""
    return int(np.argmax(found[::-1])) if bool(found.any()) else 0
