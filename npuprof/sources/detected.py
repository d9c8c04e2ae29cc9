"""Steps that a repeated sequence of kernels suggests, put into the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.accounting import Accounting
from npuprof.analysis.detected_steps import detected_steps
from npuprof.errors import NpuprofError
from npuprof.sources.columns.builders import missing
from npuprof.sources.columns.steps import step_of
from npuprof.tables.notes import Notes
from npuprof.words.quantities import counted


def with_steps(
    tables: Mapping[str, pd.DataFrame], accounting: Accounting, notes: pd.DataFrame
) -> tuple[dict[str, pd.DataFrame], Notes]:
    """Return the tables of a run without steps with detected ones, and its notes, which call them so."""
    if accounting.has_steps:
        raise NpuprofError("this run has steps: run.steps, run.step_times or run.kernels['step'] tell which")
    steps = detected_steps(tables["kernels"])
    if steps is None:
        raise NpuprofError("no sequence of kernels comes again and again in this run, so no steps can be told")
    made = {name: tables[name] for name in schema.NAMES} | {"steps": steps}
    for name in ("kernels", "communication"):
        number = pd.Series(missing(len(made[name])))
        for device in steps["device_id"].unique().tolist():
            rows = (made[name]["device_id"] == device).to_numpy(bool)
            of_device = steps[(steps["device_id"] == device).to_numpy(bool)]
            number[rows] = step_of(of_device, made[name]["start_ns"].to_numpy()[rows])
        made[name] = made[name].assign(step=number.array)
    of_run, kinds = Notes.from_frame(notes), ", ".join(steps["kind"].unique().astype(str))
    of_run.info("steps", f"none was recorded; each is a {kinds}, which comes {counted(len(steps), 'time')}")
    return made, of_run
