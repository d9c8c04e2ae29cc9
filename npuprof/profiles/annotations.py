"""Notes that a user writes on a profile, kept with its recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof.errors import NpuprofError, OptionsError, describe_failure
from npuprof.files import atomic
from npuprof.files.small_files import read_json
from npuprof.parameters import checked
from npuprof.profiles.table_attributes import RunFacts
from npuprof.recordings.recording import FILE_NAME as RECORDING
from npuprof.words.texts import encodable

FILE_NAME = "annotations.json"
"""The file of a recording with the notes."""

_MOST_BYTES = 4 << 20
_MOST_NOTES = 10_000
_LONGEST_NOTE = 2_000
_LIMIT = 1 << 63


@dataclass
class _Annotations:
    """The notes of a run, and who shows them."""

    rows: list[tuple[int, int, str]]
    followers: list[Callable[[], None]] = field(default_factory=list)


@checked
class ProfileAnnotations(RunFacts):
    """The notes on a run."""

    @property
    def annotations(self) -> pd.DataFrame:
        """The notes that were written on the run: ``start_ns``, ``duration_ns`` and ``text``, in order of time."""
        rows = sorted(self._annotations.rows)
        starts, lengths, texts = zip(*rows, strict=True) if rows else ((), (), ())
        return pd.DataFrame(
            {
                "start_ns": np.array(starts, np.int64),
                "duration_ns": np.array(lengths, np.int64),
                "text": np.array(texts, object),
            }
        )

    def annotate(self, text: str, *, start: int, end: int | None = None) -> None:
        """Write a note on a moment or a range; views show it, and a recording of npuprof keeps it.

        Parameters
        ----------
        text
            The note; an empty one removes the notes on that range.
        start, end
            The range in nanoseconds of the epoch, such as those of a row of ``run.kernels``; without an end a moment.

        Raises
        ------
        OptionsError
            If the note is too long, the range ends before it begins, or there are too many notes.
        NpuprofError
            If the recording cannot keep it; the note then lasts as long as this run is open.
        """
        start = int(start)  # one of a table's row has no more than 64 bits
        length = 0 if end is None else int(end) - start
        text = encodable(text)
        if length < 0 or not 0 <= start < _LIMIT or length >= _LIMIT - start:
            raise OptionsError(f"a note from {start} to {end} ns is on no range of time", "start")
        if len(text) > _LONGEST_NOTE:
            raise OptionsError(f"a note has at most {_LONGEST_NOTE:,} characters, this one {len(text):,}", "text")
        held = self._annotations
        if not text.strip():
            held.rows[:] = [row for row in held.rows if row[:2] != (start, length)]
        elif len(held.rows) >= _MOST_NOTES:
            raise OptionsError(f"a run has at most {_MOST_NOTES:,} notes", "text")
        else:
            held.rows.append((start, length, text))
        for follower in list(held.followers):
            follower()
        self._keep(held.rows)

    @property
    def _annotations(self) -> _Annotations:
        if "_annotations_of_run" not in vars(self):
            path = self._annotations_file
            vars(self)["_annotations_of_run"] = _Annotations([] if path is None else _read(path))
        return vars(self)["_annotations_of_run"]

    @property
    def _annotations_file(self) -> Path | None:
        """The file that keeps the notes; None for results of others, which nothing is written to."""
        if self.info.recording is None:
            return None
        directory = Path(self.info.recording)
        return directory / FILE_NAME if (directory / RECORDING).is_file() else None

    def _keep(self, rows: list[tuple[int, int, str]]) -> None:
        path = self._annotations_file
        if path is None:
            return
        notes = [{"start_ns": start, "duration_ns": length, "text": text} for start, length, text in sorted(rows)]
        try:
            atomic.write_text(path, json.dumps({"notes": notes}, indent=1))
        except OSError as error:
            reason = describe_failure(error)
            raise NpuprofError(
                f"the note cannot be kept in {path} ({reason}): it lasts while this run is open"
            ) from error


def _read(path: Path) -> list[tuple[int, int, str]]:
    """Return the notes in a file, as far as they are notes."""
    try:
        content = read_json(path, _MOST_BYTES)
    except (OSError, ValueError):
        return []
    listed = content.get("notes") if isinstance(content, dict) else None
    rows = [_row(each) for each in (listed if isinstance(listed, list) else [])[:_MOST_NOTES]]
    return [row for row in rows if row is not None]


def _row(note: Any) -> tuple[int, int, str] | None:
    if not isinstance(note, dict):
        return None
    start, length, text = note.get("start_ns"), note.get("duration_ns"), note.get("text")
    if type(start) is not int or type(length) is not int or not isinstance(text, str):
        return None
    is_range = 0 <= start < _LIMIT and 0 <= length < _LIMIT - start
    return (start, length, text[:_LONGEST_NOTE]) if is_range else None
