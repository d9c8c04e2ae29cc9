"""Repeated sequences of small vector kernels that could be fused into one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.causes import FUSED
from npuprof.advice.counterparts import COUNTERPARTS
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.wording import code, most_lines
from npuprof.analysis.accounting import IDLE
from npuprof.analysis.device_words import NPU
from npuprof.analysis.kernel_flops import is_of_cube, operand_bytes
from npuprof.analysis.repeats import repeats
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import duration

NAME = "fusible_repeats"
_THRESHOLD = 0.01  # of the step
_HOST_BOUND = 0.1  # of the step: idle time above which gaps between kernels count
_AT_LEAST = 5
_START_NS = 5_000  # kernel time besides moving data
_GAP_NS = 100_000  # longer gaps have another cause than an additional launch
_MOST = 2
_MOST_KERNELS = 200_000  # in longer runs, the last kernels stand for all
_CORES = ("AI_VECTOR_CORE", "AIVECTOR", "AIV", "MIX_AIV", "AI_CORE", "AICORE")
_ALIKE = ["op_type", "input_shapes", "input_dtypes"]
_FUSED = (
    *((each.kernels, each.call) for each in COUNTERPARTS if each.kernels),
    (("tanh", "mul", "add"), "torch.nn.functional.gelu"),
    (("sqrt", "div"), "torch_npu.optim.NpuFusedAdamW"),
)


@dataclass(frozen=True)
class _Repeat:
    """A sequence: the kernels of each occurrence in a row of `rows`, their time, and the saving of a single kernel.

    It saves `saved_ns` if it takes at least as long as the longest of them, and at most `most_ns` without what that
    moves beyond the first operands and the last results.
    """

    rows: Int64
    total_ns: int
    saved_ns: float
    most_ns: float


def check(facts: Facts) -> Finding:
    """Fire if sequences of vector kernels that occur at least five times would save 1 % of a step as single kernels."""
    kernels = facts.tables["kernels"]
    if facts.limits is None or not kernels["input_shapes"].notna().any():
        return Finding(NAME, "cannot tell", collect=facts.needs_limits())
    gaps = facts.host_known and facts.per_step(IDLE) > _HOST_BOUND * facts.usual_ns
    sequences = [inside for rows in _sequences(kernels) if len(inside := rows[facts.in_steps[rows[:, 0]]])]
    of_all = max(1.0, len(kernels) / _MOST_KERNELS)
    at_most = np.array([_time(kernels, rows, gaps=gaps) for rows in sequences], np.int64)
    if of_all * facts.sum_per_step(at_most) <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean")
    saving = [_repeat(facts, rows, int(most)) for rows, most in zip(sequences, at_most, strict=True)]
    saving = sorted((repeat for repeat in saving if repeat.saved_ns > 0), key=lambda repeat: -repeat.saved_ns)
    saved = facts.sum_per_step(of_all * np.array([repeat.saved_ns for repeat in saving]))
    if saved <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=saved)
    most = facts.sum_per_step(of_all * np.array([repeat.most_ns for repeat in saving]))
    types = [kernels["op_type"].iloc[repeat.rows[0]].astype(str).tolist() for repeat in saving[:_MOST]]
    texts = [
        f"{', '.join(names)} ({'; '.join([f'{len(repeat.rows):,} times', *_lines(facts, repeat)])})"
        for names, repeat in zip(types, saving, strict=False)
    ]
    fused = next(filter(None, map(_fused_name, types)), "")
    return Finding(
        NAME,
        "fires",
        cause=FUSED if fused else "",
        title=f"One line of code is {len(types[0])} small kernels",
        cost_ns=facts.kernels_per_step(of_all * np.array([repeat.total_ns for repeat in saving])),
        gain_hi_ns=most,
        detail=f"As one kernel each, these would take up to {duration(most)} a step less: {'; '.join(texts)}",
        action=f"Use one operator: {code(fused)}."
        if fused
        else "Fuse them: graph mode, one library operator, or a kernel in Triton.",
        table="kernels",
        rows=kernels.iloc[np.sort(np.concatenate([repeat.rows.ravel() for repeat in saving]))],
    )


def _sequences(kernels: pd.DataFrame) -> list[Int64]:
    """Return the rows of each sequence of vector kernels that occurs often enough, one row per occurrence."""
    stream = kernels[["device_id", "stream_id"]].fillna(-1).to_numpy(np.int64)
    order = np.lexsort((kernels["start_ns"].to_numpy(np.int64), stream[:, 1], stream[:, 0]))[-_MOST_KERNELS:]
    alike = kernels.groupby(_ALIKE, observed=True, dropna=False, sort=False).ngroup().to_numpy(np.int64)
    codes = np.where(_fusible(kernels), alike, -1)[order]
    same_stream = (stream[order][1:] == stream[order][:-1]).all(axis=1)
    ends = np.flatnonzero(~(same_stream & _are_connected(kernels, order, codes))) + 1
    apart, place = np.insert(codes, ends, -1), np.insert(order, ends, -1)  # no sequence continues across an end
    sequences = repeats(apart, at_least=_AT_LEAST)
    return [place[begins[:, np.newaxis] + np.arange(length)] for length, begins in sequences]


def _are_connected(kernels: pd.DataFrame, order: Int64, codes: Int64) -> Bools:
    """Return whether each kernel may read the output of the previous one: an operand has the shape of its result."""
    pairs, number = np.unique(codes[:-1] * (codes.max() + 2) + codes[1:], return_index=True, return_inverse=True)[1:]
    written_rows = kernels["output_shapes"].to_numpy()[order[pairs]]
    read = kernels["input_shapes"].to_numpy()[order[pairs + 1]]
    fits = [
        isinstance(result, str) and result.strip('"').split(";")[0] in str(operands).strip('"').split(";")
        for result, operands in zip(written_rows, read, strict=True)
    ]
    return np.array(fits, bool)[number] & (codes[:-1] >= 0) & (codes[1:] >= 0)


def _fusible(kernels: pd.DataFrame) -> Bools:
    of_cube = schema.matching(kernels["op_type"], lambda name: is_of_cube(name) or name.lower().startswith("hcom"))
    return kernels["core"].isin(_CORES).to_numpy(bool) & ~of_cube & kernels["op_type"].notna().to_numpy(bool)


def _time(kernels: pd.DataFrame, rows: Int64, *, gaps: bool) -> int:
    """Return the time of the kernels of a sequence, including short gaps between them if `gaps`."""
    start, took = (kernels[name].to_numpy(np.int64)[rows] for name in ("start_ns", "duration_ns"))
    between = start[:, 1:] - start[:, :-1] - took[:, :-1]
    return int(took.sum()) + (int(between[(between > 0) & (between < _GAP_NS)].sum()) if gaps else 0)


def _repeat(facts: Facts, rows: Int64, at_most: int) -> _Repeat:
    """Return the saving of a sequence as one kernel that moves the first operands and the last results once.

    It takes at least as long as the longest kernel of the sequence, whose own work remains; of that, at most what it
    moves beyond them goes.
    """
    kernels = facts.tables["kernels"]
    every: list[Any] = kernels.iloc[rows[0]].to_dict("records")
    moved = _moved(every[0], every[-1])
    times = kernels["duration_ns"].to_numpy(np.int64)[rows]
    remains = np.fmin(1.0, moved / np.maximum([_moved(each, each) for each in every], 1.0))
    fused_ns = len(rows) * (1e9 * moved / _bytes_per_s(facts) + _START_NS)
    least = [max(fused_ns, float((times * share).max(axis=1).sum())) for share in (np.ones(len(every)), remains)]
    saved, most = (0.0 if np.isnan(taken) else at_most - taken for taken in least)
    return _Repeat(rows, int(times.sum()), saved, most)


def _moved(first: Any, last: Any) -> float:
    """Return the bytes of the operands of a kernel and of the results of one; NaN where the shapes are unknown."""
    return float(sum(operand_bytes(first, "input")) + sum(operand_bytes(last, "output")))


def _lines(facts: Facts, repeat: _Repeat) -> list[str]:
    """Return the lines that launch most of a sequence's kernels."""
    rows = repeat.rows.ravel()
    return most_lines(facts.lines_of_kernels(rows), facts.tables["kernels"]["duration_ns"].to_numpy(np.int64)[rows])


def _bytes_per_s(facts: Facts) -> float:
    """Return the highest memory bandwidth of a kernel in the run, or the chip's if no kernel ran long enough."""
    best = float(facts.efficiency.attrs["best_bytes_per_s"])
    return facts.limits.memory_bytes_per_s if np.isnan(best) and facts.limits is not None else best


def _fused_name(names: list[str]) -> str:
    """Return a fused replacement for a sequence; empty if none is known."""
    text = " ".join(names).lower()
    known = (action for words, action in _FUSED if all(word in text for word in words))
    return next(known, "")


RULE = Rule(NAME, "sequences of vector kernels that one kernel could replace", check, frozenset({NPU}))
