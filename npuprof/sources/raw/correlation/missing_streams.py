"""Check from records of other streams, and from the switches in ``sample.json``, which records a raw directory lacks.

A stream that is gone with its marks leaves no trace of its own. What depends on it does: a task that ran has a launch,
a launch of a node its operator, and an operator has operands where others of its type have some.

Source: raw/FORMAT.md sections 2.3 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from npuprof.arrays import Bools
from npuprof.sources.raw.correlation.launch_tables import DecodedLaunches
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.reader import RawHost
from npuprof.sources.raw.metadata.control_files import RecordedSide
from npuprof.sources.raw.records import enums
from npuprof.sources.raw.records.folders import tables_of
from npuprof.tables.notes import Notes
from npuprof.words.quantities import share

_SMALL = 0.01  # of the time of kernels
_FEW = 16  # tasks that were launched before the collection began may run beside later ones
_SWITCHES = {
    "l2CacheTaskProfiling": "l2_cache.data.{}",
    "hbmProfiling": "hbm.data.{}",
    "hccsProfiling": "hccs.data.{}",
    "nicProfiling": "nic.data.{}",
    "roceProfiling": "roce.data.{}",
    "pcieProfiling": "pcie.data.{}",
}  # by the key in sample.json: the stream of a device that it switches on
_OF_HOST = {"host_cpu_profiling": "host_cpu.data", "host_mem_profiling": "host_mem.data"}
_ON = "on"


def note_lost_partners(run: DecodedLaunches, marks: pd.DataFrame, level: object, notes: Notes) -> None:
    """Warn of tasks without a launch, kernels without an operator or operands, and device sides of marks alone."""
    _note_unlaunched(run, notes)
    _note_undescribed(run, level, notes)
    on_device = run.launches.mark[run.launches.mark >= 0]
    if count := int(np.count_nonzero(~np.isin(on_device, marks["id"].to_numpy(np.int64, na_value=-1)))):
        notes.warning(
            "msproftx", "device sides of marks have no mark of the host: marks are missing", count, lacks=("marks",)
        )


def _note_unlaunched(run: DecodedLaunches, notes: Notes) -> None:
    """Warn of tasks without a launch; those before the first one with a launch were launched before the collection."""
    if not len(run.api):
        return
    launches, tasks = run.launches, run.tasks
    unknown = (launches.track < 0) & (launches.mark < 0) & (launches.model < 0) & (launches.operator < 0)
    for device in np.unique(tasks.device[unknown]).tolist():
        of = tasks.device == device
        known = tasks.start_ns[of & (launches.track >= 0)]
        unknown &= ~of | (tasks.start_ns >= (known.min() if len(known) else np.iinfo(np.int64).min))
    if count := int(np.count_nonzero(unknown)):
        of_kernels = _share(unknown & launches.is_kernel, launches.is_kernel, run)
        message = f"device tasks have no launch in task_track ({of_kernels} of kernel time): their calls and names are"
        time, whole = (
            int(run.tasks.duration_ns[rows & launches.is_kernel].sum()) for rows in (unknown, launches.is_kernel)
        )
        few = count <= _FEW and time <= _SMALL * whole
        is_lawful = few or bool((run.api.level == enums.MODEL).any())
        if is_lawful and len(run.tracks.stamp_ns):
            notes.info("task_track", f"{message} missing, and operators", count)
        else:
            notes.warning("task_track", f"{message} missing, and operators", count, lacks=("api", "operators", "links"))


def _note_undescribed(run: DecodedLaunches, level: object, notes: Notes) -> None:
    launches, operators = run.launches, run.operators
    launched = launches.is_kernel & (take(run.tracks.launch, launches.track) >= 0)
    undescribed = launched & (launches.operator < 0)
    is_due = level in (1, 2) or bool((launched & ~undescribed).any())
    if is_due and (count := int(np.count_nonzero(undescribed))):
        of = _share(undescribed, launches.is_kernel, run)
        message = f"kernels have no record in node_basic_info ({of} of kernel time): their types and shapes are missing"
        notes.warning("node_basic_info", message, count)
    described = np.flatnonzero(launched & ~undescribed)
    operator = launches.operator[described]
    lacks = np.logical_and.reduce([names.codes[operator] < 0 for names in operators.tensors.values()])
    types = operators.op_type.codes[operator]
    lacks &= np.isin(types, types[~lacks]) | (level in (1, 2) and bool(lacks.all()))
    if count := int(np.count_nonzero(lacks)):
        is_lacking = np.zeros(len(launches.operator), bool)
        is_lacking[described[lacks]] = True
        of = _share(is_lacking, launches.is_kernel, run)
        notes.warning("tensor_info", f"kernels have no operands in tensor_info ({of} of kernel time): no shapes", count)


def _share(rows: Bools, of: Bools, run: DecodedLaunches) -> str:
    return share(int(run.tasks.duration_ns[rows].sum()), int(run.tasks.duration_ns[of].sum()))


def note_lost_descriptions(frames: Mapping[str, pd.DataFrame], level: object, notes: Notes) -> None:
    """Warn of rows of communication, and of kernels, that lack what is recorded of others of their kind."""
    for stream, name, column, lost in (
        ("hccl_info", "communication_tasks", "plane_id", "their members, sizes and links are unknown"),
        ("hccl_op_info", "communication", "algorithm", "their data types and sizes are unknown"),
    ):
        frame = frames[name]
        lacking = frame[column].isna().to_numpy(bool)
        if lacking.any() and (not lacking.all() or (level in (1, 2) and stream == "hccl_info")):
            of = share(int(frame["duration_ns"][lacking].sum()), int(frame["duration_ns"].sum()))
            message = f"rows have no record in {stream} ({of} of the time of {name}): {lost}"
            notes.warning(stream, message, int(np.count_nonzero(lacking)))


def note_switched_on(
    devices: Sequence[RawDevice], host: RawHost, side: RecordedSide | None, run: DecodedLaunches
) -> None:
    """Warn of streams that ``sample.json`` switches on and and that are not there, of devices that ran kernels.

    `side` has the control files of the host.
    """
    notes = host.notes
    for device in devices:
        names = {*device.streams.names()}
        if (run.tasks.device[run.launches.is_kernel] == device.id).any():  # else it may not have been used
            for stream, switch in _due(device):
                if stream.format(device.id) not in names:
                    _note(notes, f"device {device.id}", stream.format(device.id), switch)
    if side is not None:
        names = {*host.streams.names()}
        for key, stream in _OF_HOST.items():
            if side.sample.get(key) == _ON and stream not in names:
                _note(notes, "host", stream, f"{key}=on")


def _due(device: RawDevice) -> Iterator[tuple[str, str]]:
    sample = device.side.sample
    metrics = sample.get("ai_core_metrics")
    if metrics and sample.get("ai_core_profiling_mode") == "task-based":
        yield "ffts_profile.data.{}", f"ai_core_metrics={metrics}"
    if llc := sample.get("llc_profiling"):
        yield "llc.data.{}", f"llc_profiling={llc}"
    if "SMMU:" in str(sample.get("npuEvents")):
        yield "socpmu.data.{}", "events of SMMU in npuEvents"
    for key, stream in _SWITCHES.items():
        if sample.get(key) == _ON:
            yield stream, f"{key}=on"


def _note(notes: Notes, label: str, stream: str, switch: str) -> None:
    message = f"{stream} is missing, though sample.json has {switch}: nothing was measured, or its slices are lost"
    notes.warning(label, message, lacks=tables_of(stream))
