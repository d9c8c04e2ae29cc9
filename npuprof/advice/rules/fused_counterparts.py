"""Operators of PyTorch that torch_npu has one fused operator for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.advice.counterparts import COUNTERPARTS, IGNORED, LETTERS
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.outer_calls import host_rows, outer_calls
from npuprof.advice.wording import code, joined_words, most_lines
from npuprof.analysis.correlation import forward_operators, nearest
from npuprof.analysis.device_words import NPU
from npuprof.analysis.kernel_flops import is_of_cube
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import counted, duration

NAME = "fused_counterparts"
_THRESHOLD = 0.01  # of the step
_ENGINE = "autograd::engine"
_MOST = 3
_OTHER = "."
_END = "\n"


def check(facts: Facts) -> Finding:
    """Fire if operators with a fused counterpart would save more than 1 % of the step.

    The fused kernel takes at least as long as the longest kernel that it replaces, and products keep their time. The
    backward pass of the operators counts too.
    """
    kernels, operators = facts.tables["kernels"], facts.tables["operators"]
    names = operators["name"].cat.categories
    if not len(kernels) or not any("::" in name for name in names):
        return Finding(NAME, "cannot tell", collect=facts.needs_operators())
    kind, place = _occurrences(facts)
    if not (place >= 0).any():
        return Finding(NAME, "clean")
    table = _kernels(facts, place)
    table["kind"] = kind[table["place"].to_numpy(np.int64) // 2]
    saved = table.groupby("kind")["saved_ns"].sum().sort_values(ascending=False)
    cost = facts.kernels_per_step(table["saved_ns"].to_numpy(np.int64))
    if cost <= _THRESHOLD * facts.usual_ns:
        return Finding(NAME, "clean", cost_ns=cost)
    worth = saved.index[(saved > 0).to_numpy(bool)].tolist()[:_MOST]
    rows = kernels.loc[table.index].assign(saved_ns=table["saved_ns"])
    return Finding(
        NAME,
        "fires",
        title=f"One fused operator replaces {COUNTERPARTS[worth[0]].replaces}"
        if len(worth) == 1
        else f"Fused operators replace {joined_words([COUNTERPARTS[number].replaces for number in worth])}",
        cost_ns=facts.kernels_per_step(rows["duration_ns"].to_numpy(np.int64)),
        **facts.gain(cost, saved_ns=rows["saved_ns"], surely=pd.Series(False, rows.index)),
        detail="; ".join([_described(facts, table, number) for number in worth]),
        action=f"Call {joined_words([code(COUNTERPARTS[number].call) for number in worth])}.",
        table="kernels",
        rows=rows,
    )


def _described(facts: Facts, table: pd.DataFrame, kind: int) -> str:
    of_kind = table[(table["kind"] == kind).to_numpy(bool)]
    lines = most_lines(
        facts.lines_of_kernels(of_kind.index.to_numpy(np.int64)), of_kind["duration_ns"].to_numpy(np.int64)
    )
    where = f" at {' and '.join(lines)}" if lines else ""
    saved = facts.kernels_per_step(of_kind["saved_ns"].to_numpy(np.int64))
    times = counted((of_kind["place"] // 2).nunique(), "time")
    replaced = COUNTERPARTS[kind].replaces
    return f"{replaced[:1].upper()}{replaced[1:]}{where} ({times}): at most {duration(saved)} a step less"


def _occurrences(facts: Facts) -> tuple[Int64, Int64]:
    """Return the counterpart of each place where one could stand, and for each host row its place; -1 for most.

    The n-th place has the number 2 n at the operators of the forward pass, and 2 n + 1 at those of the backward pass.
    """
    operators, causes = facts.tables["operators"], facts.causes
    engine = np.zeros(len(causes.callers), bool)
    engine[host_rows(facts)] = schema.matching(operators["name"], lambda name: _ENGINE in name)
    letter_of = {name: letter for letter, names in LETTERS.items() for name in names}
    letters = np.array([*(letter_of.get(name, _OTHER) for name in operators["name"].cat.categories), _OTHER])
    rows = outer_calls(facts)
    first = causes.first_row["operators"]
    kept = ~schema.matching(operators["name"], lambda name: name in IGNORED)[rows]
    rows = rows[kept & (nearest(causes.callers, rows + first, engine) < 0)]
    thread = operators["thread_id"].to_numpy(np.int64)[rows]
    order = np.lexsort((operators["start_ns"].to_numpy(np.int64)[rows], thread))
    rows, thread = rows[order], thread[order]
    ends = np.flatnonzero(np.diff(thread)) + 1
    spelled = "".join(np.insert(letters[operators["name"].cat.codes.to_numpy()[rows]], ends, _END).tolist())
    rows = np.insert(rows, ends, -1)
    place = np.full(len(causes.callers), -1, np.int64)
    kinds: list[int] = []
    taken = np.zeros(len(rows), bool)
    for kind, counterpart in enumerate(COUNTERPARTS):
        for match in counterpart.operators.finditer(spelled):
            here = slice(*match.span())
            if not taken[here].any():
                taken[here] = True
                place[rows[here] + first] = 2 * len(kinds)
                kinds.append(kind)
    forward = forward_operators(facts.tables, causes.first_row, len(causes.callers))
    derived = np.flatnonzero(forward >= 0)
    origin = nearest(causes.callers, forward[derived], place >= 0)
    is_known = (origin >= 0) & (place[derived] < 0)
    place[derived[is_known]] = place[origin[is_known]] + 1
    return np.array(kinds, np.int64), place


def _kernels(facts: Facts, place: Int64) -> pd.DataFrame:
    """Return the kernels of the places with their time, and how much of it one fused kernel would save."""
    kernels, causes = facts.tables["kernels"], facts.causes
    origin = nearest(causes.callers, causes.launchers, place >= 0)
    rows = np.flatnonzero((origin >= 0) & facts.in_steps)
    duration_ns = kernels["duration_ns"].to_numpy(np.int64)[rows]
    of_cube: Bools = schema.matching(kernels["op_type"], is_of_cube)[rows]
    table: pd.DataFrame = pd.DataFrame({"place": place[origin[rows]], "duration_ns": duration_ns}, index=rows)
    others = np.where(of_cube, 0, duration_ns)
    order = np.lexsort((-others, table["place"].to_numpy(np.int64)))
    longest = order[~table["place"].iloc[order].duplicated().to_numpy(bool)]
    others[longest] = 0
    return table.assign(saved_ns=others)


RULE = Rule(NAME, "operators for which a fused one exists", check, frozenset({NPU}))
