"""Steps of a run that has none: a sequence of kernels that comes again and again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.arrays import Int64

_LEAST_TIMES = 3
_ALIKE = 0.9  # of the sequences that begin with the same kernel
_LEAST_COVERED = 0.8  # of all kernels
_MOST_TRIED = 16  # numbers of steps


@dataclass(frozen=True)
class RepeatedSequence:
    """A sequence of kernels that comes again and again."""

    begins: Int64  # the positions of its first kernels
    length: int  # the number of its kernels, at least 2

    @property
    def covers(self) -> tuple[int, int]:
        """The number of kernels in it, and how often it comes: what a better one has more of."""
        return len(self.begins) * self.length, len(self.begins)


def repeated_sequence(codes: Int64, gaps_ns: Int64) -> RepeatedSequence | None:
    """Return the sequence that most of the kernels are repetitions of, which a step would be; None without one.

    A step has kernels that occur once in it. Each number of occurrences is tried as the number of steps, and the one
    counts that leaves the fewest kernels out; of several, the greatest. A step begins where the longest gap is.
    """
    if len(codes) < 2 * _LEAST_TIMES:
        return None
    occurrences = np.bincount(codes)
    numbers, weights = np.unique(occurrences[occurrences >= _LEAST_TIMES], return_counts=True)
    best: RepeatedSequence | None = None
    for number in numbers[np.argsort(-weights, kind="stable")][:_MOST_TRIED].tolist():
        sequence = _beginning_with(np.flatnonzero(occurrences == number), codes, gaps_ns)
        if sequence is not None and (best is None or sequence.covers > best.covers):
            best = sequence
    return best if best is not None and best.covers[0] >= _LEAST_COVERED * len(codes) else None


def _beginning_with(firsts: Int64, codes: Int64, gaps_ns: Int64) -> RepeatedSequence | None:
    """Return the sequence that begins with one of some kernels of which there are equally many."""
    every = np.flatnonzero(np.isin(codes, firsts))
    places = every[np.argsort(codes[every], kind="stable")].reshape(len(firsts), -1)
    begins: Int64 = places[int(np.argmax(np.median(gaps_ns[places], axis=1)))]
    lengths = np.diff(begins)
    length = int(np.bincount(lengths).argmax())
    whole = begins[begins + length <= len(codes)]
    if length < 2 or not len(whole):
        return None
    followed = np.append(lengths == length, True)[: len(whole)]
    usual = whole[followed]
    if not len(usual):
        return None
    middle = codes[usual[len(usual) // 2] :][:length]
    kept = usual[(codes[usual[:, np.newaxis] + np.arange(length)] == middle).all(axis=1)]
    return RepeatedSequence(kept, length) if len(kept) >= max(_LEAST_TIMES, _ALIKE * len(begins)) else None


def detected_steps(kernels: pd.DataFrame) -> pd.DataFrame | None:
    """Return the table ``steps`` of the repeated sequence of each device's kernels; None if no device has one.

    It has the columns ``device_id`` and ``kind``, which calls them detected.
    """
    parts = []
    for device in np.unique(kernels["device_id"].to_numpy(np.int64)).tolist():
        of_device = kernels[(kernels["device_id"] == device).to_numpy(bool)]
        of_device = of_device.iloc[np.argsort(of_device["start_ns"].to_numpy(np.int64), kind="stable")]
        starts, durations = (of_device[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns"))
        ends = np.maximum.accumulate(starts + durations) if len(starts) else starts
        gaps = np.maximum(starts - np.append(starts[:1], ends[:-1]), 0)
        names = (
            of_device["op_type"].astype(object).where(of_device["op_type"].notna(), of_device["name"].astype(object))
        )
        sequence = repeated_sequence(pd.factorize(names, use_na_sentinel=False)[0].astype(np.int64), gaps)
        if sequence is not None:
            last = ends[sequence.begins + sequence.length - 1]
            parts.append((device, starts[sequence.begins], last, sequence.length))
    if not parts:
        return None
    counts = [len(begins) for _, begins, _, _ in parts]
    kinds = [f"detected sequence of {length:,} kernels" for *_, length in parts]
    distinct = list(dict.fromkeys(kinds))
    begins, ends = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
    steps: pd.DataFrame = schema.build(
        "steps",
        {
            "step": np.concatenate([np.arange(count, dtype=np.int64) for count in counts]),
            "start_ns": begins,
            "duration_ns": ends - begins,
            "device_id": np.repeat([device for device, *_ in parts], counts).astype(np.int64),
            "kind": schema.categorical(np.repeat([distinct.index(kind) for kind in kinds], counts), distinct),
        },
    )
    return schema.sort_by_time(steps)
