"""Kernels joined with the operators and the lines that launched them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.launches import launches
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.tables.schema import SCHEMA
from tests import factories


def table(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns: dict[str, Any] = {}
    for column in SCHEMA[name].columns:
        values = [row.get(column.name) for row in rows]
        if column.kind == "name":
            columns[column.name] = pd.Categorical(values)
        elif column.kind == "int":
            columns[column.name] = np.array([value or 0 for value in values], np.int64)
        else:
            columns[column.name] = pd.array(values, dtype="Int64" if column.kind == "int?" else None)
    return tables.build(name, columns)


def call(name: str, start: int, length: int, thread: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "start_ns": start, "duration_ns": length, "thread_id": thread, **more}


def link(kind: str, source: tuple[str, int], target: tuple[str, int]) -> dict[str, Any]:
    ends = {"source_table": source[0], "source_row": source[1], "target_table": target[0], "target_row": target[1]}
    return {"kind": kind, **ends}


def training(**more: list[dict[str, Any]]) -> dict[str, pd.DataFrame]:
    """Return a forward operator with a queue on another thread, its backward pass, and kernels of unknown cause."""
    python = [
        call("/home/me/main.py(10): train", 0, 1_000, 1, id=0, depth=0),
        call("nn.Module: Linear_0", 10, 300, 1, id=1, parent_id=0, depth=1),
        call("/opt/site-packages/torch/nn/linear.py(5): forward", 20, 280, 1, id=2, parent_id=1, depth=2),
    ]
    operators = [
        call("aten::linear", 30, 200, 1, kind="op", id=0),
        call("aten::addmm", 40, 180, 1, kind="op", id=1),
        call("Enqueue@addmm", 50, 20, 1, kind="enqueue", id=2),
        call("Dequeue@addmm", 400, 60, 2, kind="dequeue", id=3),
        call("AddmmBackward0", 600, 200, 3, kind="op", id=4),
        call("aten::mm", 620, 100, 3, kind="op", id=5),
    ]
    api = [call("launch", 410, 20, 2), call("launch", 630, 20, 3), call("launch", 900, 20, 9)]
    kernels = [
        {"start_ns": at, "duration_ns": length, "device_id": 0, "stream_id": 2, "task_id": at, "name": name}
        for at, length, name in ((500, 70, "MatMul"), (700, 80, "MatMulGrad"), (950, 90, "Cast"), (990, 5, "Lost"))
    ]
    links = [
        *(link("api_task", ("api", row), ("kernels", row)) for row in range(3)),
        link("enqueue", ("operators", 2), ("operators", 3)),
        link("forward_backward", ("operators", 1), ("operators", 4)),
    ]
    given = {"python": python, "operators": operators, "api": api, "kernels": kernels, "links": links}
    return factories.all_tables(**{name: table(name, rows + more.get(name, [])) for name, rows in given.items()})


def test_kernel_has_operator_call_and_line() -> None:
    joined = launches(training())
    forward, backward, other, lost = (row for _, row in joined.iterrows())
    assert [forward["operator"], forward["operator_row"], forward["outer_operator"]] == [
        "aten::addmm",
        1,
        "aten::linear",
    ]
    assert [forward["api"], forward["api_row"], forward["thread_id"], forward["launch_ns"]] == ["launch", 0, 2, 410]
    assert [forward["file"], forward["line"], forward["function"]] == ["/home/me/main.py", 10, "train"]
    assert forward["module"] == "Linear_0"
    assert [backward["operator"], backward["outer_operator"]] == ["aten::mm", "AddmmBackward0"]
    assert [backward["file"], backward["line"], backward["module"]] == ["/home/me/main.py", 10, "Linear_0"]
    assert [other["api"], other["launch_ns"]] == ["launch", 900]
    assert other[["operator", "operator_row", "outer_operator", "file", "line", "function", "module"]].isna().all()
    assert lost[["operator", "api", "api_row", "thread_id", "launch_ns", "line"]].isna().all()
    assert [str(joined[name].dtype) for name in ("start_ns", "launch_ns", "operator_row", "line")] == [
        "int64",
        *["Int64"] * 3,
    ]


def test_without_user_code_the_innermost_line_counts() -> None:
    run = training()
    names = run["python"]["name"].astype(object).replace({"/home/me/main.py(10): train": "torch/run.py(3): main"})
    run["python"]["name"] = names.astype("category")
    assert launches(run)["file"].tolist()[0] == "/opt/site-packages/torch/nn/linear.py"


def test_stacks_and_modules_of_operators_are_used_without_python_calls() -> None:
    run = training() | {"python": tables.empty("python")}
    stack = "torch/nn/linear.py(5): forward\nmain.py(7): train\nmain.py(1): <module>"
    run["operators"]["stack"] = pd.Categorical([stack, *[None] * 5])
    run["operators"]["modules"] = pd.Categorical(["Net/Linear_0", *[None] * 5])
    joined = launches(run)
    assert joined["file"].tolist()[:2] == ["main.py"] * 2
    assert joined["line"].tolist()[:2] == [7, 7]
    assert joined["module"].tolist()[:2] == ["Net/Linear_0"] * 2


@pytest.mark.slow
def test_every_kernel_is_a_row_so_that_sums_hold() -> None:
    for count in (0, 1, 500):
        run = Profile(Decoded(factories.profile(count) if count else factories.all_tables(), factories.info(), Notes()))
        joined = run.launches
        kernels = run.kernels
        assert len(joined) == len(kernels)
        assert joined["duration_ns"].equals(kernels["duration_ns"].reset_index(drop=True))
        assert joined["operator"].notna().sum() == count  # each has one operator in this run
        assert (joined["operator_row"].dropna().to_numpy() == np.arange(count)).all()
        told = int(joined.groupby("operator", observed=True)["duration_ns"].sum().sum())
        assert told == int(kernels["duration_ns"].sum())


@pytest.mark.slow
def test_links_of_damaged_files_end(tmp_path: Path) -> None:
    wild = [
        link("forward_backward", ("operators", 4), ("operators", 1)),
        link("forward_backward", ("operators", 10**12), ("operators", -5)),
        link("api_task", ("api", 99), ("kernels", 77)),
    ]
    run = training(links=wild)
    assert len(launches(run)) == len(run["kernels"])
    saved = Profile(Decoded(run, factories.info(), Notes())).save(tmp_path / "saved")
    assert len(npuprof.load(saved).launches) == len(run["kernels"])


@pytest.mark.slow
def test_real_kernels_have_line_and_module(samples: Path) -> None:
    """The training loop of this sample calls the model in line 354 of its script and nothing else on the device."""
    folder = samples / "torch_npu" / "text" / "level1"
    run = next(iter(npuprof.load_set(folder)))
    joined = run.launches
    assert len(joined) == len(run.kernels)
    assert joined["operator"].notna().all()
    grad = joined[joined["op_type"] == "Conv2DBackpropInput"]
    assert len(grad) > 0
    assert grad["module"].str.startswith("Conv2d_").all()
    told = joined["line"].notna()
    assert int(told.sum()) > len(joined) // 2
    assert joined.loc[told, "file"].str.endswith("main.py").all()


def test_a_sampled_call_between_operator_and_cann_call_hides_no_operator() -> None:
    sampled = [call("torch/_ops.py(3): leaf", 625, 60, 3, id=9, parent_id=0, depth=1)]
    run = training(python=sampled, links=[link("operator_api", ("operators", 5), ("api", 1))])
    backward = launches(run).iloc[1]
    assert [backward["operator"], backward["outer_operator"]] == ["aten::mm", "AddmmBackward0"]
