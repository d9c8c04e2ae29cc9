"""The costs of lines: exact sums, the lines of idle time, and the host time of each thread."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.analysis.accounting import IDLE, account
from npuprof.analysis.code_lines import CodeLines
from npuprof.analysis.intervals import covering, total
from npuprof.analysis.memory_peak import memory_peak
from npuprof.analysis.places import Places
from tests import factories
from tests.analysis.test_launches import call, link, table, training

_CELL, _OTHER = "<cell [3]>", "/home/me/model.py"
_INSTALLED = "/opt/site-packages/torch/nn/linear.py"


def code_lines(run: Mapping[str, pd.DataFrame]) -> CodeLines:
    return CodeLines(run, account(run), Places.build(run))


def _idle_ns(run: Mapping[str, pd.DataFrame]) -> int:
    intervals = account(run).intervals
    return int(intervals["duration_ns"][intervals["part"].isin(IDLE)].sum())


def by_line(lines: CodeLines, column: str) -> dict[Any, int]:
    rows = lines.table()
    names = [None if pd.isna(line) else int(line) for line in rows["line"]]
    return {name: int(value) for name, value in zip(names, rows[column], strict=True) if value}


def statements(*rows: tuple[int, int, int]) -> pd.DataFrame:
    """Return statements of thread 1 from start, duration and line."""
    return table(
        "statements",
        [
            {"start_ns": start, "duration_ns": length, "file": _CELL, "line": line, "last_line": line, "thread_id": 1}
            for start, length, line in rows
        ],
    )


def kernel(start: int, length: int, task: int) -> dict[str, Any]:
    return {
        "start_ns": start,
        "duration_ns": length,
        "device_id": 0,
        "stream_id": 2,
        "task_id": task,
        "name": f"kernel {task}",
    }


def cell() -> dict[str, pd.DataFrame]:
    """Return a cell whose line 4 sleeps, and whose line 5 calls a function that launches on its line 7."""
    api = [call("launch", 110, 20, 1), call("launch", 650, 20, 1)]
    stack = f"{_OTHER}(7): forward\n{_CELL}(5): <module>"
    return factories.all_tables(
        statements=statements((100, 100, 3), (200, 400, 4), (600, 300, 5)),
        api=table("api", api).assign(stack=tables.categorical(np.array([-1, 0]), [stack])),
        kernels=table("kernels", [kernel(150, 50, 1), kernel(700, 80, 2)]),
        links=table("links", [link("api_task", ("api", row), ("kernels", row)) for row in range(2)]),
    )


def test_the_line_that_lets_the_device_idle_has_the_idle_time() -> None:
    lines = code_lines(cell())
    assert by_line(lines, "device_ns") == {3: 50, 7: 80}
    assert by_line(lines, "launches") == {3: 1, 7: 1}
    # Idle before 150, and from 200 to 700: the sleep; what leads to the call of line 7; and after it the statement.
    assert by_line(lines, "idle_ns") == {3: 40, 4: 400, 5: 30, 7: 70}
    assert by_line(lines, "host_ns") == {3: 100, 4: 400, 5: 230, 7: 70}


def sampled(*rows: tuple[int, int]) -> pd.DataFrame:
    """Return samples of thread 1 from times and lines of the other file."""
    return table(
        "sampled_lines",
        [{"time_ns": time, "file": _OTHER, "line": line, "function": "f", "thread_id": 1} for time, line in rows],
    )


def test_sampled_line_between_calls_has_the_time() -> None:
    run = cell()
    # In the sleep two lines, in equal parts; what follows the call of line 7; and one within that call.
    run["sampled_lines"] = sampled((300, 21), (500, 22), (660, 23), (690, 24))
    lines = code_lines(run)
    assert by_line(lines, "idle_ns") == {3: 40, 21: 200, 22: 200, 7: 70, 24: 30}
    assert by_line(lines, "host_ns") == {3: 100, 21: 200, 22: 200, 7: 70, 24: 230}


def test_unsampled_gaps_have_the_usual_line() -> None:
    starts, stack = [150, 250, 350, 450], f"{_OTHER}(7): forward\n{_CELL}(3): <module>"
    api = [call("launch", start, 20, 1) for start in starts]
    run = factories.all_tables(
        statements=statements((100, 500, 3)),
        api=table("api", api).assign(stack=tables.categorical(np.zeros(4, np.int64), [stack])),
        sampled_lines=sampled((300, 21)),
    )
    # Before the first call nothing of the kind was seen.
    assert by_line(code_lines(run), "host_ns") == {7: 50 + 4 * 20, 21: 3 * 80, 3: 130}


def test_sampled_call_before_the_cell_has_no_time() -> None:
    run = cell()
    early = {"start_ns": 0, "duration_ns": 900, "name": f"{_OTHER}(7): forward", "thread_id": 1, "id": 0, "depth": 0}
    run["python"] = table("python", [early])
    assert by_line(code_lines(run), "host_ns") == by_line(code_lines(cell()), "host_ns")


def test_backward_kernels_count_for_their_forward_line() -> None:
    lines = code_lines(training())
    assert by_line(lines, "device_ns") == {10: 150, None: 95}
    assert by_line(lines, "launches") == {10: 2, None: 2}


def test_entered_operators_belong_to_statements() -> None:
    run = cell()
    operators = table("operators", [call("aten::mul", 120, 10, 1, kind="op", id=0)])
    stack = tables.categorical(np.zeros(1, np.int64), ["<ipython-input-3-5d0dc31129a5>(0): <module>"])
    run["operators"] = operators.assign(stack=stack, entered=True)
    assert by_line(code_lines(run), "operators") == {3: 1}


def test_first_line_has_only_its_own_work() -> None:
    python = [
        call("<cell [4]>(1): <module>", 0, 300, 1, id=0, depth=0),
        call("<cell [4]>(2): f", 100, 50, 1, id=1, depth=1, parent_id=0),
    ]
    operators = [call("aten::mul", 20, 30, 1, kind="op", id=0), call("aten::mul", 110, 30, 1, kind="op", id=1)]
    run = factories.all_tables(python=table("python", python), operators=table("operators", operators))
    assert by_line(code_lines(run), "operators") == {2: 1, None: 1}
    assert by_line(code_lines(run), "host_ns") == {2: 50, None: 250}


def test_files_of_installed_packages_are_no_code_of_the_users() -> None:
    run = training()
    names = run["python"]["name"].astype(object).replace({"/home/me/main.py(10): train": f"{_INSTALLED}(3): main"})
    run["python"]["name"] = names.astype("category")
    assert list(by_line(code_lines(run), "device_ns")) == [None]


def test_without_a_device_lines_have_host_time_and_operators() -> None:
    run = training() | {name: tables.empty(name) for name in ("kernels", "links")}
    table_ = code_lines(run).table()
    assert table_[["device_ns", "idle_ns", "launches", "peak_bytes"]].isna().all(axis=None)
    assert by_line(code_lines(run), "operators") == {10: 2, None: 2}
    assert int(table_["host_ns"].sum()) == 1_000 + 60 + 200 + 20


def test_rows_of_tables_have_their_lines() -> None:
    lines = code_lines(cell())
    numbers = lines.table()["line"].tolist()
    assert [numbers[row] for row in lines.of_rows("kernels", np.array([0, 1]))] == [3, 7]
    assert [numbers[row] for row in lines.of_rows("api", np.array([1]))] == [7]


_NAMES = st.sampled_from([f"{_CELL}(4): <module>", f"{_OTHER}(7): forward", f"{_OTHER}(3): f", f"{_INSTALLED}(5): f"])
_TIMES = st.integers(0, 60)


@st.composite
def _runs(draw: st.DrawFn) -> dict[str, pd.DataFrame]:
    threads = st.integers(1, 3)
    operators = [
        call("aten::mul", draw(_TIMES), draw(_TIMES), draw(threads), kind="op", id=number)
        for number in range(draw(st.integers(0, 6)))
    ]
    api = [call("launch", draw(_TIMES), draw(_TIMES), draw(threads)) for _ in range(draw(st.integers(0, 5)))]
    python = [
        call(draw(_NAMES), draw(_TIMES), draw(_TIMES), draw(threads), id=number, depth=0)
        for number in range(draw(st.integers(0, 3)))
    ]
    starts = sorted(draw(st.lists(_TIMES, max_size=5)))
    ran = [
        (start, draw(st.integers(0, end - start)), draw(st.integers(1, 4)))
        for start, end in zip(starts, [*starts[1:], 70], strict=False)
    ]
    kernels = [
        kernel(draw(_TIMES), draw(_TIMES), number) | {"device_id": draw(st.integers(0, 1))}
        for number in range(draw(st.integers(0, 5)))
    ]
    links = [
        link("api_task", ("api", draw(st.integers(0, len(api) - 1))), ("kernels", row))
        for row in range(len(kernels))
        if len(api) > 0 and draw(st.booleans())
    ]
    if len(operators) > 1 and draw(st.booleans()):
        links.append(link("forward_backward", ("operators", 0), ("operators", 1)))
    steps: list[dict[str, Any]] = [
        {"step": number, "start_ns": 20 * number, "duration_ns": 15} for number in range(draw(st.integers(0, 3)))
    ]
    stacks = {
        name: tables.categorical(np.array([draw(st.integers(-1, 3)) for _ in rows], np.int64), list(_FRAMES))
        for name, rows in (("operators", operators), ("api", api))
    }
    return factories.all_tables(
        operators=table("operators", operators).assign(stack=stacks["operators"]),
        api=table("api", api).assign(stack=stacks["api"]),
        python=table("python", python),
        sampled_lines=sampled(*sorted(draw(st.lists(st.tuples(_TIMES, st.integers(1, 9)), max_size=6)))),
        statements=statements(*ran),
        kernels=table("kernels", kernels),
        links=table("links", links),
        steps=table("steps", steps),
    )


_FRAMES = (f"{_CELL}(4): <module>", f"{_OTHER}(7): forward", f"{_OTHER}(3): f", f"{_INSTALLED}(5): f")


@pytest.mark.slow
@given(_runs())
def test_the_lines_add_up_to_the_run(run: dict[str, pd.DataFrame]) -> None:
    lines = code_lines(run)
    sums = lines.table()
    if len(run["kernels"]):
        assert int(sums["device_ns"].sum()) == int(run["kernels"]["duration_ns"].sum())
        assert int(sums["launches"].sum()) == len(run["kernels"])
        assert int(sums["idle_ns"].sum()) == _idle_ns(run)
    assert sums["line"].isna().tolist() == [False] * (len(sums) - 1) + [True]
    assert (sums.drop(columns=["file", "line"]).fillna(0) >= 0).all(axis=None)
    host = lines.host_of_threads().groupby("thread_id")["host_ns"].sum()
    for thread, time in host.items():
        # On the thread of the cell, Python runs in statements.
        of_cell = run["statements"]["thread_id"].iloc[:1].tolist() == [thread]
        names = ("operators", "api", "statements" if of_cell else "python")
        rows = [frame[(frame["thread_id"] == thread).to_numpy(bool)] for frame in (run[name] for name in names)]
        edges = (np.concatenate([frame[name].to_numpy(np.int64) for frame in rows]) for name in _EDGES)
        assert time == total(covering(*edges))
    assert int(sums["host_ns"].fillna(0).sum()) == int(host.sum())


_EDGES = ("start_ns", "duration_ns")


@pytest.mark.slow
def test_the_lines_of_real_results_add_up(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt")
    lines = CodeLines(run.aligned, run.accounting, Places.build(run.aligned))
    sums = lines.table()
    assert int(sums["device_ns"].sum()) == int(run.kernels["duration_ns"].sum())
    assert int(sums["launches"].sum()) == len(run.kernels)
    intervals = run.accounting.intervals
    assert int(sums["idle_ns"].sum()) == int(intervals["duration_ns"][intervals["part"].isin(IDLE)].sum())
    peak = memory_peak(run.tables)
    assert int(sums["peak_bytes"].fillna(0).sum()) == int(peak["size_bytes"].sum())
    by_name = run.by("line").set_index("line")["total_ns"]
    names = {f"{str(file).rsplit('/', 1)[-1]}:{line}": int(time) for file, line, time in _timed(sums)}
    assert names["main.py:354"] == int(by_name["main.py:354"])


def _timed(sums: pd.DataFrame) -> list[tuple[Any, Any, Any]]:
    known = sums[sums["line"].notna()]
    return list(known[["file", "line", "device_ns"]].itertuples(index=False, name=None))
