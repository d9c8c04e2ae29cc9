"""The floating-point operations of operators, which Kineto's trace leaves out: the recording keeps them beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.notes import Notes
from npuprof.sources.columns.nullable import ABSENT, optional
from npuprof.sources.kineto.rows import row_of

_MAX_BYTES = 256 << 20  # some ten million operators


def add_flops(operators: pd.DataFrame, path: Path, notes: Notes) -> pd.DataFrame:
    """Add the column `flops` to ``operators``, estimated by torch from the shapes; <NA> where it has no formula.

    Parameters
    ----------
    operators
        The table, with the column `external_id`.
    path
        The file: a JSON object of two lists of whole numbers, ``external_id`` and ``flops``.
    notes
        Told where the file cannot be read.

    Returns
    -------
    pandas.DataFrame
        The table; as it was where the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            plain = json.loads(file.read(_MAX_BYTES))
        ids, flops = (_whole_numbers(plain[name]) for name in ("external_id", "flops"))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        notes.warning(path.name, f"the operators' flops cannot be read ({error}), and are left out")
        return operators
    if len(ids) != len(flops):
        notes.warning(path.name, "the operators' flops are not one for each operator, and are left out")
        return operators
    own = operators["external_id"].to_numpy(dtype=np.int64, na_value=ABSENT)
    row = row_of(ids, own)
    known = np.concatenate((flops, [ABSENT]))[row]  # -1, for no row, takes the last
    result: pd.DataFrame = operators.assign(flops=optional(known))
    return result


def _whole_numbers(values: object) -> Int64:
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise ValueError("it must hold lists of whole numbers")
    return np.array(values, np.int64)
