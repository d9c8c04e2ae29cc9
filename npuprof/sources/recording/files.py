"""Files of a recording: missing and changed files, steps of the session, and domains of markers."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from npuprof.recordings.recording import FILE_NAME, stored_message
from npuprof.sources.columns.builders import missing
from npuprof.sources.columns.steps import assign_steps, step_of
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted

_SOURCE = "recording"
_MAX_NAMED = 5
_LOST = "rows may be missing or wrong; copy the recording again"


def note_changes(directory: Path, sizes: Mapping[str, int], notes: Notes) -> None:
    """Warn of each kind of change: files that are missing, shorter or longer, or have become links."""
    leads_away = _leads_away(directory)
    missing, shorter, longer, linked = (dict[str, int]() for _ in range(4))
    for name, size in sizes.items():
        if not name or name.startswith("/") or ".." in name.split("/") or "\0" in name:
            notes.warning(_SOURCE, "a path in the list of its files is none of the recording's; left out")
            continue
        try:
            status = os.lstat(f"{directory}/{name}")  # faster than pathlib, for thousands of paths
        except OSError:
            missing[name] = size
            continue
        if stat.S_ISLNK(status.st_mode) or leads_away(name.rpartition("/")[0]):
            linked[name] = size
        elif not stat.S_ISREG(status.st_mode):
            missing[name] = size
        elif status.st_size < size:
            shorter[name] = size - status.st_size
        elif status.st_size > size:
            longer[name] = status.st_size - size
    _note(notes, missing, "missing, with {}", _LOST)
    _note(notes, shorter, "shorter than they were recorded, by {}", _LOST)
    _note(notes, longer, "longer than they were recorded, by {}", _LOST)
    _note(notes, linked, "links now instead of the {} that were recorded", "what they lead to is read")


def _leads_away(directory: Path) -> Callable[[str], bool]:
    """Return a predicate: whether a path of the recording leads through a link."""

    @cache
    def leads_away(inner: str) -> bool:
        path = PurePosixPath(inner)
        return any((directory / outer).is_symlink() for outer in (path, *path.parents)[:-1])

    return leads_away


def _note(notes: Notes, changed: Mapping[str, int], subject: str, effect: str) -> None:
    if changed:
        message = (
            f"files are {subject.format(counted(sum(changed.values()), 'byte'))} ({_name_list(changed)}): {effect}"
        )
        notes.warning(_SOURCE, message, len(changed))


def _name_list(names: Iterable[str]) -> str:
    every = sorted(names)
    remainder = len(every) - _MAX_NAMED
    return ", ".join(every[:_MAX_NAMED]) + (f" and {remainder} more" if remainder > 0 else "")


_ON_HOST, _ON_DEVICE = "operators", ("kernels", "communication")
# Their first step begins with the window, even if no step ever ends.
_MARK_THE_WINDOW = ("torch_npu", "kineto", "mindspore")


def take_steps(
    frames: MutableMapping[str, pd.DataFrame],
    steps: pd.DataFrame,
    collector: str,
    notes: Notes,
    source: str = FILE_NAME,
) -> None:
    """Put the steps that the session ended into the tables of its recording.

    Parameters
    ----------
    frames
        The recording's tables; `steps` and the column ``step`` of operators, kernels and communication are replaced.
    collector
        The front end. Where no step was ended, that of torch_npu, torch or MindSpore is the whole window, and no step.
    """
    if len(steps):
        notes.ledger.replace("steps")
        notes.ledger.read(source, len(steps))
        notes.ledger.keep(source, "steps", len(steps))
        frames["steps"] = steps
        assign_steps(frames, _ON_DEVICE)
        operators = frames.get(_ON_HOST)
        if operators is not None and len(operators):
            operators["step"] = step_of(steps, operators["start_ns"].to_numpy(dtype=np.int64))
    elif collector in _MARK_THE_WINDOW and "steps" in frames:
        del frames["steps"]
        notes.ledger.replace("steps")
        for name in (_ON_HOST, *_ON_DEVICE):
            if name in frames and "step" in frames[name]:
                frames[name]["step"] = missing(len(frames[name]))


def assign(marks: pd.DataFrame, domains: Sequence[tuple[str, str, int]], notes: Notes) -> pd.DataFrame:
    """Set the domain of markers from the calls that made them.

    Parameters
    ----------
    domains
        Message, domain and place of each call with a domain; the place counts from 0 among all markers of the
        message.
    """
    kept = marks["message"].astype(object).map(lambda message: stored_message(str(message)))
    rows_of = kept.groupby(kept).indices
    named = marks["domain"].astype(object)
    lost_count = 0
    for message, domain, place in domains:
        rows = rows_of.get(stored_message(message), ())
        if 0 <= place < len(rows):
            named.iloc[rows[place]] = domain
        else:
            lost_count += 1
    notes.ledger.read(FILE_NAME, len(domains))
    notes.ledger.use(FILE_NAME, len(domains) - lost_count)
    notes.leave_out(
        FILE_NAME, "a marker with a domain was not recorded by the front end", lost_count, affects=("marks",)
    )
    return marks.assign(domain=named.astype("category"))
