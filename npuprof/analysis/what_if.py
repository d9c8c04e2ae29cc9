"""Predicted times of steps with faster kernels, copies, transfers or host, by replays with factors on time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import Accounting, moves_data
from npuprof.analysis.device_clocks import apart
from npuprof.analysis.device_lanes import COMMUNICATION, COPY, KERNEL, DeviceLanes
from npuprof.analysis.device_words import runtime_of
from npuprof.analysis.idle_causes import CAUSES, UNEXPLAINED, unmeasured_causes
from npuprof.analysis.intervals import covering, within
from npuprof.analysis.prediction import Prediction, checked_factor, checked_factors
from npuprof.analysis.replay import Change, Replay
from npuprof.analysis.step_windows import step_windows
from npuprof.arrays import Bools, Float64, Int64
from npuprof.errors import NpuprofError, OptionsError
from npuprof.tables.info import Info
from npuprof.words.quantities import counted, duration

_UNLINKED = 0.5  # of all kernels

HOST_CAUSES = (*(cause.name for cause in CAUSES), UNEXPLAINED)
"""Activities of host threads."""
TASK_PARTS = ("computing", "waiting", "moving", "communication", "copy")
"""Parts of a step that consist of device tasks."""


def replay_of(tables: Mapping[str, pd.DataFrame], info: Info) -> Replay:
    """Prepare the replay of a run, on all its devices, with the steps of the first device."""
    if apart(info.clocks):
        raise NpuprofError(
            "device and host times cannot be joined, see run.notes: nothing can be predicted from the run"
        )
    devices = pd.concat([tables["kernels"]["device_id"], tables["tasks"]["device_id"]])
    if not len(devices):
        raise NpuprofError("there is nothing to replay: the run has no kernels")
    selection = info.selection or {}
    device_id = int(devices.min())
    windows = step_windows(tables, device_id).clipped(selection.get("start_ns"), selection.get("end_ns"))
    return Replay(tables, windows, device_id)


def what_if(
    tables: Mapping[str, pd.DataFrame],
    replay: Replay,
    accounting: Accounting,
    *,
    transfer: float = 1.0,
    kernel: Mapping[str, float] | None = None,
    cause: Mapping[str, float] | None = None,
    part: Mapping[str, float] | None = None,
) -> Prediction:
    """Predict the time of a step; see :meth:`npuprof.Profile.what_if`."""
    change, changes = change_of(tables, replay, transfer=transfer, kernel=kernel, cause=cause, part=part)
    return predicted(replay, change, changes, compared(replay, accounting, accounting.basis.rows))


def compared(replay: Replay, accounting: Accounting, rows: Int64) -> Bools:
    """Return which steps of a replay, which are those of the first device, are some rows of an accounting."""
    of_device = np.flatnonzero((accounting.steps["device_id"] == replay.device_id).to_numpy(bool, na_value=False))
    if len(of_device) == len(replay.windows.steps):
        return np.isin(of_device, rows)
    numbers = accounting.steps["step"].iloc[rows]
    mask: Bools = np.isin(pd.array(replay.windows.steps, "Int64").to_numpy(np.int64, na_value=-1), numbers.dropna())
    return mask if mask.any() else ~mask


def change_of(
    tables: Mapping[str, pd.DataFrame],
    replay: Replay,
    *,
    transfer: float = 1.0,
    kernel: Mapping[str, float] | None = None,
    cause: Mapping[str, float] | None = None,
    part: Mapping[str, float] | None = None,
) -> tuple[Change, list[str]]:
    """Return the change that factors make, and it in words."""
    kernel, cause, part = kernel or {}, cause or {}, dict(part or {})
    checked_factor("transfer", transfer)
    if transfer != 1:
        if "moving" in part:
            raise OptionsError("transfer and part={'moving': ...} are the same factor: pass only one of them")
        part["moving"] = transfer
    factors = kernel_factors(tables["kernels"], kernel)
    checked_factors("cause", cause, dict.fromkeys(HOST_CAUSES))
    if any(word.startswith("idle") for word in part):
        raise OptionsError("idle time has a factor for each of its causes, such as cause={'sync_call': 0}")
    checked_factors("part", part, dict.fromkeys(TASK_PARTS))
    for word, option in unmeasured_causes(tables).items():
        if word in cause:
            raise NpuprofError(f"the run has no rows of {word!r}, so its factor has no effect; {option} records it")
    changes = kernel_changes(tables["kernels"], kernel)
    changes += [
        f"{subject} {word!r} x {factor:g}"
        for subject, of in (("cause", cause), ("part", part))
        for word, factor in of.items()
    ]
    durations = task_durations(tables, replay.device, factors, part)
    return Change(durations, dict(cause)), changes


def predicted(replay: Replay, change: Change, changes: list[str], rows: Bools) -> Prediction:
    """Replay a run with a change, and compare some of its steps with the recorded ones."""
    kernels = replay.device.caller[replay.device.kind == KERNEL]
    if change.of_host and (kernels < 0).sum() > _UNLINKED * len(kernels):
        raise NpuprofError(
            f"the launches of {(kernels < 0).sum():,} of {counted(len(kernels), 'kernel')} are not recorded, so the "
            "host cannot be replayed: collect with level=1, without captured graphs"
        )
    after = replay.step_times(change)
    times = (replay.recorded_ns, replay.replayed_ns, after)
    recorded, unchanged, changed = (int(step_ns[rows].sum()) // max(1, len(step_ns[rows])) for step_ns in times)
    whole, before = int(after.sum()), int(replay.replayed_ns.sum())
    if whole > before and _is_less(replay, change):
        raise NpuprofError(
            f"a replay with less to do takes longer ({duration(whole)} instead of {duration(before)} for all steps), "
            "so that the recorded times contradict each other: nothing can be predicted from the run"
        )
    names = ("recorded_ns", "replayed_ns", "predicted_ns")
    steps: pd.DataFrame = pd.DataFrame({"step": replay.windows.steps, **dict(zip(names, times, strict=True))})
    gains = replay.replayed_ns - after
    by_step = tuple(gains[rows].tolist())
    return Prediction(recorded, unchanged, changed, tuple(changes), steps.assign(gain_ns=gains), by_step)


def _is_less(replay: Replay, change: Change) -> bool:
    """Return whether a change lengthens nothing."""
    recorded = replay.device.ends - replay.device.starts
    tasks = change.durations is None or bool((change.durations <= recorded).all())
    return tasks and change.between <= 1 and all(factor <= 1 for factor in change.host.values())


def kernel_rows(kernels: pd.DataFrame, words: Mapping[str, float]) -> dict[str, Bools]:
    """Return for each name which kernels have it as their name or type."""
    columns = [kernels[name].astype("category") for name in ("name", "op_type")]
    known = {str(word): None for column in columns for word in column.cat.categories}
    checked_factors("kernel", words, known)
    by_word: dict[str, Bools] = {}
    for word in words:
        rows = np.zeros(len(kernels), bool)
        for column in columns:
            rows |= (column == word).to_numpy(bool)
        by_word[word] = rows
    return by_word


def kernel_factors(kernels: pd.DataFrame, words: Mapping[str, float]) -> Float64:
    """Return the factor on the duration of each kernel; factors of several names are multiplied."""
    factors = np.ones(len(kernels))
    for word, rows in kernel_rows(kernels, words).items():
        factors[rows] *= words[word]
    return factors


def kernel_changes(kernels: pd.DataFrame, words: Mapping[str, float]) -> list[str]:
    """Return texts that describe factors on kernels."""
    by_word = kernel_rows(kernels, words)
    return [
        f"kernel {word!r} x {words[word]:g}: {counted(int(rows.sum()), 'kernel')}" for word, rows in by_word.items()
    ]


def task_durations(
    tables: Mapping[str, pd.DataFrame], device: DeviceLanes, kernels: Float64, part: Mapping[str, float]
) -> Int64:
    """Return the durations of all tasks with factors on kernels, by row, and on parts of a step."""
    durations = device.ends - device.starts
    factors = np.ones(len(durations))
    of_kernel = device.kind == KERNEL
    factors[of_kernel] = kernels[device.row[of_kernel]] * part.get("computing", 1)
    factors[device.kind == COPY] = part.get("copy", 1)
    collective = device.kind == COMMUNICATION
    factors[collective] = part.get("communication", 1)
    scaled: Int64 = np.where(factors == 1, durations, np.rint(durations * factors).astype(np.int64))
    waiting, moving = part.get("waiting", 1), part.get("moving", 1)
    if waiting == moving == 1 or not collective.any():
        return scaled
    tasks = tables["communication_tasks"]
    if not len(tasks):
        is_npu = runtime_of(tables["api"]["name"].cat.categories) == "CANN"
        how = "collect with level=1" if is_npu else "load all ranks together, and ask the set"
        raise NpuprofError(f"waiting and moving of collectives cannot be separated: {how}")
    moves = tasks[moves_data(tasks)]
    spans = covering(moves["start_ns"].to_numpy(np.int64), moves["duration_ns"].to_numpy(np.int64))
    moved = within(spans, device.starts[collective], device.ends[collective])
    waited = durations[collective] - moved
    less = np.rint(waited * (1 - waiting) + moved * (1 - moving)).astype(np.int64)
    scaled[collective] = np.maximum(scaled[collective] - less, 0)
    return scaled
