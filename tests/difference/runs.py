"""Made runs that tests compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories

BASE = factories.START_NS
STEP_NS = 10_000_000


def run(steps: Sequence[Sequence[tuple[str, str, int]]], *, name: str = "made", **about: object) -> Profile:
    """Return a run whose steps each have kernels of a type, shapes and a duration, one behind the other.

    A last step without kernels ends the one before it.
    """
    rows = []
    for number, kernels in enumerate(steps):
        at = BASE + number * STEP_NS + 1_000
        for kind, shapes, duration in kernels:
            rows.append((at, duration, kind, shapes))
            at += duration + 100
    starts, durations, kinds, inputs = zip(*rows, strict=True)
    ran = tables.build(
        "kernels",
        {
            "start_ns": np.array(starts, np.int64),
            "duration_ns": np.array(durations, np.int64),
            "device_id": np.zeros(len(rows), np.int64),
            "name": list(kinds),
            "op_type": list(kinds),
            "input_shapes": list(inputs),
        },
    )
    made = tables.build(
        "steps",
        {
            "step": list(range(len(steps) + 1)),
            "start_ns": BASE + np.arange(len(steps) + 1, dtype=np.int64) * STEP_NS,
            "duration_ns": np.append(np.full(len(steps), STEP_NS, np.int64), 1),
        },
    )
    return profile({"kernels": ran, "steps": made}, name=name, **about)


def profile(given: dict[str, pd.DataFrame], **about: object) -> Profile:
    """Return a profile of some tables."""
    return Profile(Decoded(given, Info(**about), Notes(), {}))  # type: ignore[arg-type]


def noisy(
    kernels: Sequence[tuple[str, str, int]],
    count: int,
    random: np.random.Generator,
    *,
    noise: float = 0.02,
    slower: tuple[str, float] = ("", 1.0),
) -> list[list[tuple[str, str, int]]]:
    """Return steps of the same kernels, each duration with noise, and those of one type slower."""
    return [
        [
            (kind, shapes, round(time * (slower[1] if kind == slower[0] else 1) * random.normal(1, noise)))
            for kind, shapes, time in kernels
        ]
        for _ in range(count)
    ]
