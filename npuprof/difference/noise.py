"""How sure the rows of a difference are: each is tested by itself, and beside the rows of its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.difference.balance import balance
from npuprof.difference.side import Side
from npuprof.noise import rows as many
from npuprof.noise.model import LEVEL, Estimate, Floats, difference
from npuprof.noise.ratios import Ratios, ratios
from npuprof.tables import categorical

KINDS = ("kernels", "host", "communication")
"""The kinds of rows that something may slow down alike."""

FIRED = ("", "difference", "ratio", "both")
"""What tells that a row changed: its time, its ratio to the rows of its kind, or both."""

KIND_OF_PART = {"computing": 0, "idle": 1, "between_steps": 1, "waiting": 2, "moving": 2, "communication": 2}
"""The kind of the rows of a part."""

_EACH = LEVEL / 2  # a row has two tests
_FEW_STEPS = 5
_LEAST_COMMON = 0.005  # relative: less is not worth a sentence


@dataclass(frozen=True)
class Common:
    """What all rows of a kind have in common: the relative change from `b` to `a`, and its 95 % interval."""

    kind: str
    change: float
    low: float
    high: float


class Noise:
    """The noise of a difference.

    Attributes
    ----------
    total
        The difference of the whole steps that gates judge: one value.
    common
        The kinds of rows that changed together.
    """

    def __init__(self, a: Side, b: Side) -> None:
        self._balanced = balance(a, b, lambda side: side.steps)
        judged = balance(a, b, lambda side: side.judged)
        whole = [side.judged["duration_ns"].to_numpy(np.int64)[None] for side in (a, b)]
        self._tables = judged.tables(whole[0], whole[1])
        noise = difference(*self._tables, paired=judged.paired, in_sequence=judged.in_sequence)
        self.total = Estimate(whole[0].mean(axis=1) - whole[1].mean(axis=1), noise.error, noise.freedom)
        self.common: list[Common] = []

    @property
    def is_known(self) -> bool:
        """Whether both sides have several steps, or runs, that tell of noise."""
        return not np.isnan(self.total.error).any()

    @property
    def of_runs(self) -> bool:
        """Whether a side has several runs, so that the variation between runs is known, not only between steps."""
        return not self._balanced.in_sequence

    def columns(self, nodes: pd.DataFrame, a: Int64, b: Int64, delta: Int64) -> dict[str, Any]:
        """Return the noise columns of the rows of a difference, and their common part."""
        if not self.is_known:
            absent = pd.array([pd.NA] * len(delta), dtype="Int64")
            no_float = np.full(len(delta), np.nan)
            return {
                "low_ns": absent, "high_ns": absent.copy(), "p_value": no_float, "ratio": no_float.copy(),
                "ratio_low": no_float.copy(), "ratio_high": no_float.copy(), "ratio_p_value": no_float.copy(),
                "significant": pd.array([pd.NA] * len(delta), "boolean"),
                "fired": pd.Categorical([""] * len(delta), FIRED),
            }  # fmt: skip
        x, y = self._balanced.tables(a, b)
        kinds = nodes["part"].map(KIND_OF_PART).fillna(-1).to_numpy(np.int64)
        kinds = np.where(nodes["depth"].to_numpy() == 0, -1, kinds)  # a part is not one of its own rows
        inner = np.isin(np.arange(len(delta)), nodes["parent"].to_numpy(np.int64))
        alike = ratios(x, y, kinds, ~inner, paired=self._balanced.paired, in_sequence=self._balanced.in_sequence)
        self.common = _common(alike)
        weights, same = (x.mean(axis=(1, 2)) + y.mean(axis=(1, 2))) / 2, many.same_values(x, y)
        by_row = self._difference(x, y)
        of_time = Estimate(delta.astype(np.float64), by_row.error, by_row.freedom)
        by_time, by_ratio = _Judged(of_time, weights, same), _Judged(alike.rows, weights, same)
        low, high = by_time.whole_numbers()
        fired = by_time.significant + 2 * by_ratio.significant
        return {
            "low_ns": pd.array(low, dtype="Int64"),
            "high_ns": pd.array(high, dtype="Int64"),
            "p_value": by_time.p_values,
            "significant": pd.array(fired > 0, "boolean"),
            "ratio": np.expm1(alike.rows.value),
            "ratio_low": np.expm1(by_ratio.low),
            "ratio_high": np.expm1(by_ratio.high),
            "ratio_p_value": by_ratio.p_values,
            "fired": categorical(fired, list(FIRED)),
        }

    def caveats(self) -> list[str]:
        """Return what limits the statement about noise, a phrase each."""
        counts = [table.shape[2] for table in self._tables]
        what = "steps" if self._balanced.in_sequence else "runs"
        phrases = []
        if any(left_out := self._balanced.left_out):
            phrases.append(f"noise without {left_out[0]} and {left_out[1]} ranks, which lack steps or a counterpart")
        if self.is_known and not self.of_runs:
            phrases.append("variation between runs is unknown")
        if self.is_known and min(counts) < _FEW_STEPS:
            unequal = ", and unequal numbers tell less" if counts[0] != counts[1] else ""
            phrases.append(f"{min(counts)} {what} tell little of noise{unequal}")
        return phrases

    def _difference(self, a: Floats, b: Floats) -> Estimate:
        return difference(a, b, paired=self._balanced.paired, in_sequence=self._balanced.in_sequence)


class _Judged:
    """The rows of a report under one test: p-values, which are significant, and the intervals that say so."""

    def __init__(self, estimate: Estimate, weights: Floats, same: Int64) -> None:
        self.p_values = estimate.p_values()
        levels = many.levels(self.p_values, weights, same, _EACH)
        self.significant = many.significant(self.p_values, levels)
        self.low, self.high = estimate.bounds(levels)

    def whole_numbers(self) -> tuple[Int64, Int64]:
        """Return the bounds as integers, which exclude 0 exactly if the row is significant."""
        low, high = (np.rint(bound).astype(np.int64) for bound in (self.low, self.high))
        upwards = self.low + self.high > 0
        low[upwards] = np.where(self.significant, np.maximum(low, 1), np.minimum(low, 0))[upwards]
        high[~upwards] = np.where(self.significant, np.minimum(high, -1), np.maximum(high, 0))[~upwards]
        return low, high


def _common(alike: Ratios) -> list[Common]:
    low, high = alike.common.bounds()
    return [
        Common(KINDS[kind], float(np.expm1(value)), float(np.expm1(low[kind])), float(np.expm1(high[kind])))
        for kind, value in enumerate(alike.common.value)
        if low[kind] * high[kind] > 0 and abs(value) >= _LEAST_COMMON
    ]
