"""The line and the module of any host row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.places import Places, lines
from tests.analysis.test_launches import call, link, training

_STACK = "torch/nn/linear.py(5): forward\n/home/me/model.py(7): forward\n/home/me/main.py(1): <module>"


def test_line_comes_from_the_operators_stack() -> None:
    run = training()
    run["operators"]["stack"] = pd.Categorical([_STACK, *[None] * 5])
    operators = Places.build(run).of("operators")
    assert operators["line"].tolist() == [7] * 6
    assert operators["file"].tolist() == ["/home/me/model.py"] * 6
    assert not operators["entered"].any()
    python = Places.build(run).of("python")
    assert python["line"].tolist() == [10] * 3
    assert python["entered"].all()


def test_backward_rows_go_to_the_forward_pass_once() -> None:
    """The backward pass of a backward pass has the line of that pass, not of the operator two passes before."""
    run = training(
        operators=[call("Grad2", 1_200, 50, 3, kind="op", id=6)],
        links=[link("forward_backward", ("operators", 4), ("operators", 6))],
    ) | {"python": tables.empty("python")}
    run["operators"]["stack"] = pd.Categorical([_STACK, *[None] * 6])
    told = Places.build(run).of("operators", np.array([5, 6, -1]))
    assert told["line"].tolist() == [7, pd.NA, pd.NA]


def test_an_absent_table_or_no_rows_are_no_error() -> None:
    run = {name: tables.empty(name) for name in tables.NAMES}
    assert len(Places.build(run).of("api")) == 0
    told = Places.build(run).of("api", np.array([-1, -1]))
    assert told[["file", "line", "function", "module"]].isna().all(axis=None)
    assert lines(told).isna().all()


def test_lines_distinguish_files_of_one_name() -> None:
    places: Any = pd.DataFrame(
        {
            "file": pd.Categorical(["/a/one/x.py", "/a/two/x.py", "/a/y.py", None]),
            "line": pd.array([1, 2, 3, None], dtype="Int64"),
            "function": pd.Categorical(["f", "g", "h", None]),
            "entered": [False, False, True, False],
        }
    )
    assert list(lines(places))[:3] == ["one/x.py:1", "two/x.py:2", "y.py: h"]
    assert list(lines(places).isna()) == [False, False, False, True]


@pytest.mark.slow
def test_real_copies_and_waits_have_their_line(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt")
    rows = np.flatnonzero(run.api["name"].astype(str).str.contains("Synchronize").to_numpy(bool))
    places = Places.build(run.tables)
    waits = places.of("api", rows).assign(duration_ns=run.api["duration_ns"].to_numpy()[rows])
    waited = waits.assign(place=lines(waits)).groupby("place", observed=True)["duration_ns"].sum()
    assert waited.to_dict() == {
        "main.py:350": 6_089_620,
        "main.py:351": 47_110,
        "main.py:359": 43_760,
        "main.py:485": 91_706_750,
    }
    whole = int(run.kernels["duration_ns"].sum())
    absent = {name: run.launches[name].isna().to_numpy() for name in ("line", "module")}
    shares = {name: run.launches["duration_ns"].to_numpy()[rows].sum() / whole for name, rows in absent.items()}
    assert shares == {"line": pytest.approx(0.0953, abs=0.0005), "module": pytest.approx(0.3577, abs=0.0005)}


def _sampled(launched_ns: int, *samples_ms: float) -> pd.DataFrame:
    """Return the launch of a kernel, by a call at a time within a function that was sampled from 10 ms on.

    `samples_ms` are the times of the thread's samples, if they are known.
    """
    made = training()
    count = len(samples_ms)
    made["sampled_lines"] = tables.build(
        "sampled_lines",
        {
            "time_ns": (np.array(samples_ms) * 1e6).astype(np.int64),
            "file": pd.Categorical(["main.py"] * count),
            "line": np.full(count, 31),
            "function": pd.Categorical(["step"] * count),
            "thread_id": np.ones(count, np.int64),
        },
    )
    made["python"] = tables.build(
        "python",
        {
            "start_ns": np.array([0, 0, 10_000_000], np.int64),
            "duration_ns": np.array([90_000_000, 10_000_000, 40_000_000], np.int64),
            "name": pd.Categorical(["main.py(1): train", "main.py(20): before", "main.py(30): step"]),
            "thread_id": np.ones(3, np.int64),
            "id": np.arange(3),
            "parent_id": pd.array([None, 0, 0], "Int64"),
            "depth": np.array([0, 1, 1], np.int64),
            "sampled": np.ones(3, bool),
        },
    )
    made["api"] = tables.build(
        "api",
        {
            "start_ns": np.array([launched_ns], np.int64),
            "duration_ns": np.array([1_000], np.int64),
            "name": pd.Categorical(["launch"]),
            "level": pd.Categorical(["acl"]),
            "thread_id": np.ones(1, np.int64),
        },
    )
    return Places.build(made).of("api")


def test_call_after_another_function_is_between_samples() -> None:
    places = _sampled(12_000_000)
    assert places["known"].tolist() == ["between samples"]
    assert places["line"].isna().all()
    assert lines(places).tolist() == ["between samples"]


@pytest.mark.parametrize(
    ("launched_ms", "samples_ms", "known"),
    [
        (12, (5, 10, 11, 17), "sample"),  # samples were nearer than the usual interval
        (16, (5, 10, 19, 24), "between samples"),  # the function was first seen at 19 ms
        (30, (5, 10, 15, 20, 45), "between samples"),  # 10 ms after the last sample, and before the next one
        (24, (5, 10, 15, 20, 45), "sample"),
        (41, (5, 10, 15, 20, 45), "sample"),
        (49, (5, 10, 15, 20), "between samples"),  # long after the last one
    ],
)
def test_sample_times_decide_between_them(launched_ms: int, samples_ms: tuple[float, ...], known: str) -> None:
    assert _sampled(launched_ms * 1_000_000, *samples_ms)["known"].tolist() == [known]


def test_call_between_equal_samples_joins_them() -> None:
    places = _sampled(16_000_000)
    assert places["known"].tolist() == ["sample"]
    assert lines(places).tolist() == ["main.py: step"]
