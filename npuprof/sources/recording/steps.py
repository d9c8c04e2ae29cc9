"""The steps of a session stand over those that its front end numbered, so that no step counts twice."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.notes import Notes
from npuprof.recording import FILE_NAME
from npuprof.sources.columns.nullable import missing
from npuprof.sources.columns.steps import assign_steps, step_of

_ON_HOST, _ON_DEVICE = "operators", ("kernels", "communication")
# Their first step begins with the window, whether or not one ever ends.
_MARK_THE_WINDOW = ("torch_npu", "kineto", "mindspore")


def take_steps(frames: dict[str, pd.DataFrame], steps: pd.DataFrame, collector: str, notes: Notes) -> None:
    """Put the steps that a session ended into the tables of its recording.

    Parameters
    ----------
    frames
        The recording's tables; `steps`, and the column ``step`` of operators, kernels and communication, change.
    steps
        The table ``steps`` of the session; empty where ``step()`` was never called.
    collector
        The front end. Where no step was ended, that of torch_npu, torch or MindSpore is the whole window, and no step.
    notes
        Its ledger has the session's steps, and no longer those that they replace.
    """
    if len(steps):
        notes.ledger.replace("steps")
        notes.ledger.read(FILE_NAME, len(steps))
        notes.ledger.keep(FILE_NAME, "steps", len(steps))
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
