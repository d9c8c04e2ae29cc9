"""Copies of a real step with noise do not differ, and what is planted in them is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof.arrays import Int64
from npuprof.profiles.comparison import Comparison
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests.budget import examples

_NOISE = 0.02
_ALEXNET, _LLM = "text/level1", "llm_4ranks"


class _Copies:
    """Copies of a run, in which all that the device did and all its pauses take a little longer or shorter."""

    def __init__(self, run: Profile) -> None:
        self._run = run
        tables = [run.tables[name] for name in ("steps", "kernels", "communication", "tasks")]
        starts, ends = (
            np.concatenate([(table["start_ns"] + more * table["duration_ns"]).to_numpy(np.int64) for table in tables])
            for more in (0, 1)
        )
        self._edges = np.unique(np.concatenate((starts, ends)))

    def one(self, random: np.random.Generator, slower: tuple[str, float] = ("", 1.0)) -> Profile:
        """Return a copy; `slower` is a type of kernel, and by what factor it takes longer."""
        factors = random.normal(1, _NOISE, len(self._edges) - 1)
        kernels = self._run.kernels
        for start, length in kernels[(kernels["op_type"] == slower[0]).to_numpy(bool, na_value=False)][
            ["start_ns", "duration_ns"]
        ].to_numpy(np.int64):
            first, last = np.searchsorted(self._edges, (start, start + length))
            factors[first:last] *= slower[1]
        lengths = np.rint(np.diff(self._edges) * factors).astype(np.int64)
        self._moved = self._edges[0] + np.concatenate(([0], np.cumsum(lengths)))
        tables = {name: self._shifted(table) for name, table in self._run.tables.items()}
        return Profile(Decoded(tables, Info(), Notes(), {}))

    def _shifted(self, table: pd.DataFrame) -> pd.DataFrame:
        if "start_ns" not in table or not len(table):
            return table
        starts = table["start_ns"].to_numpy(np.int64)
        begins, ends = (self._at(moments) for moments in (starts, starts + table["duration_ns"].to_numpy(np.int64)))
        shifted: pd.DataFrame = table.assign(start_ns=begins, duration_ns=ends - begins)
        return shifted

    def _at(self, moments: Int64) -> Int64:
        """Return when the copy is where the run was at some moments."""
        within = np.interp(moments - self._edges[0], self._edges - self._edges[0], self._moved - self._edges[0])
        before, after = np.minimum(moments - self._edges[0], 0), np.maximum(moments - self._edges[-1], 0)
        moved: Int64 = self._edges[0] + np.rint(within).astype(np.int64) + before + after
        return moved


def _copies(samples: Path, name: str) -> _Copies:
    return _Copies(npuprof.load_set(samples / "torch_npu" / name)[0])


def _compared(copies: _Copies, random: np.random.Generator, of_each: int, slower: Any = ("", 1.0)) -> Comparison:
    slow = [copies.one(random, slower) for _ in range(of_each)]
    return Comparison.of([[run] for run in slow], [[copies.one(random)] for _ in range(of_each)])


@pytest.mark.long
@pytest.mark.parametrize("name", [_ALEXNET, _LLM])
def test_four_copies_of_a_real_run_with_noise_do_not_differ(samples: Path, name: str) -> None:
    copies, random = _copies(samples, name), np.random.default_rng(41)
    draws = examples(8)
    found = 0
    for _ in range(draws):
        difference = _compared(copies, random, 2)
        assert abs(difference.delta_ns) > 0
        found += bool(len(difference.significant))
    assert found <= 0.05 * draws


@pytest.mark.slow
def test_real_slower_operator_is_found(samples: Path) -> None:
    copies, random = _copies(samples, _LLM), np.random.default_rng(42)
    draws = examples(2)
    for _ in range(draws):
        difference = _compared(copies, random, 10, ("FlashAttentionScoreGrad", 1.05))
        rows = difference.significant
        (row,) = rows[rows["name"].str.startswith("FlashAttentionScoreGrad")].to_dict("records")
        assert row["b_ns"] >= 0.05 * difference.b_ns
        assert row["delta_ns"] == pytest.approx(0.05 * row["b_ns"], rel=0.3)
        assert row["why"] == "slower"
