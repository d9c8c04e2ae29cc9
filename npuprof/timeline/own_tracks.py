"""Tracks of the user's own: rows of a query with times become slices, rows with values become counters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.errors import OptionsError
from npuprof.words.quantities import printable
from npuprof.words.texts import encodable

TRACK = "track"
"""The column of ``marks`` with the title of the user's own track; absent for recorded markers."""

_NAMES = ("name", "message", "op_name", "op_type", "task_type")
_MOST_ROWS = 1_000_000
_LONGEST_TITLE, _LONGEST_UNIT = 100, 20


def with_tracks(tables: Mapping[str, pd.DataFrame], tracks: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of a run with the user's own tracks after the run's rows.

    Parameters
    ----------
    tracks
        Frames by title: slices with ``start_ns``, ``duration_ns`` and a column of names, or samples of a counter with
        ``time_ns`` and ``value``.
    """
    marks, counters = [tables["marks"].assign(**{TRACK: None})], [tables["counters"]]
    for title, frame in tracks.items():
        if len(frame) > _MOST_ROWS:
            raise OptionsError(f"the track {title!r} has {len(frame):,} rows, and may have {_MOST_ROWS:,}", "tracks")
        shown = printable(title, _LONGEST_TITLE)
        if "start_ns" in frame and "duration_ns" in frame:
            marks.append(_slices(shown, frame))
        elif "time_ns" in frame and "value" in frame:
            counters.append(_samples(shown, frame))
        else:
            raise OptionsError(
                f"the track {title!r} needs start_ns, duration_ns and name, or time_ns and value; "
                f"it has {', '.join(map(str, frame.columns))}",
                "tracks",
            )
    return {**tables, "marks": _joined(marks), "counters": _joined(counters)}


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate frames; texts stay categories."""
    if len(frames) == 1:
        return frames[0]
    joined: pd.DataFrame = pd.concat([frame.astype(object) for frame in frames], ignore_index=True)
    for column in joined.columns:
        dtype = frames[0][column].dtype if column in frames[0] and column != TRACK else pd.CategoricalDtype()
        is_text = isinstance(dtype, pd.CategoricalDtype)
        joined[column] = joined[column].astype("category") if is_text else joined[column].astype(dtype)
    return joined


def _slices(title: str, frame: pd.DataFrame) -> pd.DataFrame:
    name = next((column for column in _NAMES if column in frame), None)
    names = [title] * len(frame) if name is None else frame[name].astype(object).tolist()
    texts = [title if not isinstance(text, str) and pd.isna(text) else encodable(str(text)) for text in names]
    lengths = _whole(title, frame, "duration_ns")
    if (lengths < 0).any():
        raise OptionsError(f"the track {title!r} has durations below 0", "tracks")
    columns = {"start_ns": _whole(title, frame, "start_ns"), "duration_ns": lengths, "message": pd.Categorical(texts)}
    rows = schema.build("marks", {**columns, "thread_id": np.full(len(frame), -1)})  # of no thread
    return rows.assign(**{TRACK: title})


def _samples(title: str, frame: pd.DataFrame) -> pd.DataFrame:
    unit = printable(str(frame["unit"].iloc[0]), _LONGEST_UNIT) if "unit" in frame and len(frame) else ""
    return schema.build(
        "counters",
        {
            "time_ns": _whole(title, frame, "time_ns"),
            "counter": pd.Categorical([title] * len(frame)),
            "value": pd.to_numeric(frame["value"], errors="coerce").to_numpy(np.float64),
            "unit": pd.Categorical([unit] * len(frame)),
        },
    )


def _whole(title: str, frame: pd.DataFrame, column: str) -> pd.Series:
    values = frame[column]
    if not pd.api.types.is_integer_dtype(values.dtype) or values.isna().any():
        raise OptionsError(
            f"{column} of the track {title!r} must be whole nanoseconds of the epoch without gaps, as run.sql() "
            "returns them: a float has lost some of them already",
            "tracks",
        )
    return values.astype("int64").reset_index(drop=True)
