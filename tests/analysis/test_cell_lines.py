"""The inclusive costs of a cell's lines: exact sums, callees, steps and other threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.advice.facts import Facts
from npuprof.analysis.accounting import account
from npuprof.analysis.cell_lines import COSTS, CellLines
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_code_lines import cell, kernel, sampled, statements
from tests.analysis.test_launches import call, link, table
from tests.budget import examples

_HELPERS = """
import time
def a():
    time.sleep(0.03)
def b():
    time.sleep(0.006)
"""


def facts(run: Mapping[str, pd.DataFrame]) -> Facts:
    return Facts(run, Info(), account(run))


def by_line(frame: pd.DataFrame, column: str) -> dict[Any, int]:
    names = [None if pd.isna(line) else int(line) for line in frame["line"]]
    return {name: int(value) for name, value in zip(names, frame[column], strict=True) if value}


def test_line_includes_its_calls() -> None:
    run = cell()
    run["sampled_lines"] = sampled((300, 21), (500, 22))
    costs = facts(run).cell_lines
    lines = costs.lines()
    assert by_line(lines, "device_ns") == {3: 50, 5: 80}
    assert by_line(lines, "launches") == {3: 1, 5: 1}
    assert by_line(lines, "idle_ns") == {3: 40, 4: 400, 5: 100}
    assert by_line(costs.callees(), "idle_ns") == {21: 200, 22: 200, 7: 70}
    assert costs.callees()["caller_line"].tolist() == [4, 4, 5]


def test_lines_within_a_statement_are_its_own() -> None:
    run = cell()
    run["statements"] = run["statements"].assign(last_line=[3, 4, 9])
    run["api"]["stack"] = tables.categorical(np.array([-1, 0]), ["<cell [3]>(8): <module>"])
    costs = facts(run).cell_lines
    assert by_line(costs.lines(), "device_ns") == {3: 50, 5: 80}
    assert not len(costs.callees())


def test_without_statements_each_line_has_its_own_costs() -> None:
    run = cell()
    run["statements"] = run["statements"].iloc[:0]
    costs = facts(run).cell_lines
    assert not costs.is_inclusive
    assert by_line(costs.lines(), "device_ns") == {7: 80, None: 50}


def test_kernels_of_other_threads_belong_to_the_statement() -> None:
    run = cell()
    run["api"] = run["api"].assign(thread_id=[1, 9])
    assert by_line(facts(run).cell_lines.lines(), "device_ns") == {3: 50, 5: 80}


@settings(max_examples=examples(40))
@given(st.data())
def test_costs_add_up_to_the_steps(data: st.DataObject) -> None:
    moments = st.integers(0, 900)
    launches = data.draw(st.lists(st.tuples(moments, st.integers(1, 200), moments), max_size=6))
    begins = sorted(data.draw(st.sets(moments, min_size=1, max_size=5)))
    ends = [*begins[1:], 1_000]
    steps = sorted(data.draw(st.sets(moments, max_size=4)))
    run = factories.all_tables(
        statements=statements(*((start, end - start, 1 + start % 3) for start, end in zip(begins, ends, strict=True))),
        api=table("api", [call("launch", start, 20, row) for row, (_, _, start) in enumerate(launches)]),
        kernels=table("kernels", [kernel(start, length, row) for row, (start, length, _) in enumerate(launches)]),
        links=table("links", [link("api_task", ("api", row), ("kernels", row)) for row in range(len(launches))]),
        steps=table(
            "steps",
            [
                {"start_ns": start, "duration_ns": end - start, "step": number}
                for number, (start, end) in enumerate(zip(steps, [*steps[1:], 1_000], strict=False))
            ],
        ),
    )
    seen = facts(run)
    costs = seen.cell_lines
    parts = {
        name: int(seen.times(seen.basis.rows, [name]).sum())
        for name in seen.accounting.intervals["part"].cat.categories
    }
    sums = costs.parts[list(COSTS)].sum()
    if len(launches):
        assert sums["device_ns"] == parts["computing"]
        assert sums["idle_ns"] == sum(parts[name] for name in parts if name.startswith(("idle", "between")))
        assert sums["host_ns"] == sum(parts.values())
    per_step = costs.per_step()
    assert_rounded_down(costs, per_step)


def assert_rounded_down(costs: CellLines, per_step: pd.DataFrame) -> None:
    for name in COSTS:
        if costs.parts[name].notna().all() and len(costs.parts):
            whole = int(costs.parts[name].sum())
            assert int(costs.lines(per_step)[name].sum()) == whole // costs.steps
            assert ((per_step[name] * costs.steps - costs.parts[name]).abs() < costs.steps).all()


def test_a_cell_that_only_calls_functions_has_lines(shell: Any) -> None:
    shell.run_line_magic("load_ext", "npuprof")
    shell.run_cell(_HELPERS)
    shell.run_cell("%%npuprof\nfor i in range(6):\n    a()\n    b()\n")
    run = npuprof.last()
    lines = run.advice().facts.cell_lines.lines()
    times = by_line(lines, "host_ns")
    assert times[3] > 1.5 * times[4] > 30_000_000
