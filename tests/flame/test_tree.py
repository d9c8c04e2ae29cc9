from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.flame.tree import call_tree, has_modules, merged_calls
from tests import factories
from tests.analysis.test_launches import training
from tests.budget import examples
from tests.flame.trees import callers


@pytest.mark.slow
def test_kernels_hang_below_the_call_that_launched_them() -> None:
    tree = call_tree(factories.profile(60))

    paths = _paths(tree)
    assert (
        "train.py(1): main > train.py(20): step > model.py(7): forward > layers.py(3): call > blocks.py(9): mlp"
        " > aten::softmax > launch > SoftmaxV2"
    ) in paths
    assert "aten::copy_ > launch > TransData" in paths  # the other thread has no Python stack
    assert tree["self_device_ns"].sum() == factories.profile(60)["kernels"]["duration_ns"].sum()


def test_host_time_is_of_outermost_slices() -> None:
    run = factories.profile(60)
    main = run["python"]["duration_ns"].iloc[0]
    other_thread = run["operators"].query("thread_id == 101")["duration_ns"].sum()

    tree = call_tree(run)

    assert tree.query("depth == 0")["host_ns"].sum() == main + other_thread


@pytest.mark.slow
def test_equal_paths_merge_and_keep_their_count() -> None:
    tree = call_tree(factories.profile(600))

    assert tree["count"].sum() == sum(
        len(factories.profile(600)[name]) for name in ("python", "operators", "api", "kernels")
    )
    assert not tree.duplicated(["parent", "layer", "name"]).any()


@pytest.mark.slow
def test_links_find_kernels_of_tasks() -> None:
    run = factories.profile(60)
    to_kernels = call_tree(run)
    reversed_tasks = run["tasks"].iloc[::-1].reset_index(drop=True)
    links = run["links"].assign(
        target_table=factories.names(["tasks"], np.zeros(60, np.int64)), target_row=59 - run["links"]["target_row"]
    )

    to_tasks = call_tree(run | {"tasks": reversed_tasks, "links": links})

    pd.testing.assert_frame_equal(to_tasks, to_kernels)


@pytest.mark.slow
def test_kernels_without_a_known_launch_are_not_lost() -> None:
    tree = call_tree(factories.profile(20) | {"links": tables.empty("links")})

    assert set(tree.query("layer == 'kernels'")["depth"]) == {0}
    assert tree["self_device_ns"].sum() == factories.profile(20)["kernels"]["duration_ns"].sum()


def test_links_to_rows_that_do_not_exist_are_ignored() -> None:
    run = factories.profile(20)

    broken = run["links"].assign(source_row=10**9)

    assert len(call_tree(run | {"links": broken})) == len(call_tree(run | {"links": tables.empty("links")}))


def test_queued_work_hangs_below_its_operator() -> None:
    operators = _host("operators", [(0, 10, "add", 1), (2, 3, "Enqueue", 1), (20, 10, "Dequeue", 2)])
    api = _host("api", [(22, 5, "launch", 2)])
    links = _links([("enqueue", "operators", 1, "operators", 2)])

    tree = call_tree(factories.all_tables(operators=operators, api=api, links=links))

    assert _paths(tree)[-1] == "add > Enqueue > Dequeue > launch"
    assert tree.query("depth == 0")["host_ns"].tolist() == [20]


def test_loose_call_hangs_below_its_kernels_operator() -> None:
    operators = _host("operators", [(0, 10, "add", 1)])
    api = _host("api", [(50, 5, "launch", 2)])
    kernels = factories.profile(1)["kernels"]
    links = _links([("operator_api", "operators", 0, "kernels", 0), ("api_task", "api", 0, "kernels", 0)])

    tree = call_tree(factories.all_tables(operators=operators, api=api, kernels=kernels, links=links))

    assert _paths(tree)[-1] == "add > launch > MatMulV3_ND_FP16"


def test_coroutine_hangs_below_its_own_caller() -> None:
    python = _python([(0, 100, "main", None), (10, 60, "first", 0), (20, 10, "second", 0)])

    tree = call_tree(factories.all_tables(python=python))

    assert _paths(tree) == ["main", "main > first", "main > second"]
    assert tree["self_host_ns"].sum() == 100


def test_self_parented_call_does_not_loop() -> None:
    python = _python([(0, 10, "root", 0), (20, 10, "a", 2), (40, 10, "b", 1)])

    tree = call_tree(factories.all_tables(python=python))

    assert _paths(tree) == ["root", "a", "b"]


def test_a_run_without_any_slice_has_an_empty_tree() -> None:
    assert call_tree(factories.all_tables()).empty


def test_times_stay_exact_where_a_float_would_not() -> None:
    api = _host("api", [(0, 2**53 + 1, "long", 1)])

    assert call_tree(factories.all_tables(api=api))["host_ns"].tolist() == [2**53 + 1]


slices = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.sampled_from("abc"), st.integers(1, 2)), max_size=25
)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(slices, slices, st.lists(st.integers(-1, 30), max_size=12))
def test_self_values_add_up_to_totals(
    operators: list[tuple[int, int, str, int]], api: list[tuple[int, int, str, int]], launchers: list[int]
) -> None:
    links = _links([("api_task", "api", row, "kernels", kernel) for kernel, row in enumerate(launchers)])
    run = factories.all_tables(
        operators=_host("operators", operators),
        api=_host("api", api),
        kernels=factories.profile(len(launchers))["kernels"],
        links=links,
    )

    tree = call_tree(run)

    parents = tree["parent"].to_numpy()
    assert (parents < np.arange(len(tree))).all()
    for own, total in (("count", "total_count"), ("self_host_ns", "host_ns"), ("self_device_ns", "device_ns")):
        expected = tree[own].tolist()
        for row in range(len(tree) - 1, -1, -1):
            if parents[row] >= 0:
                expected[parents[row]] += expected[row]
        assert tree[total].tolist() == expected
        assert (tree[own] >= 0).all()
    assert tree["count"].sum() == len(operators) + len(api) + len(launchers)
    assert tree["self_device_ns"].sum() == run["kernels"]["duration_ns"].sum()


def _paths(tree: pd.DataFrame) -> list[str]:
    paths: list[str] = []
    for parent, name in zip(tree["parent"], tree["name"], strict=True):
        paths.append(name if parent < 0 else f"{paths[parent]} > {name}")
    return paths


def _host(table: str, rows: Sequence[tuple[int, int, str, int]]) -> pd.DataFrame:
    start, duration, name, thread = ([row[i] for row in rows] for i in range(4))
    columns = {
        "start_ns": np.array(start, np.int64),
        "duration_ns": np.array(duration, np.int64),
        "name": pd.Series(name, dtype="object"),
        "thread_id": np.array(thread, np.int64),
    }
    if table == "operators":
        columns["id"] = np.arange(len(rows))
    return tables.build(table, columns)


def _python(rows: Sequence[tuple[int, int, str, int | None]]) -> pd.DataFrame:
    return tables.build(
        "python",
        {
            "start_ns": [row[0] for row in rows],
            "duration_ns": [row[1] for row in rows],
            "name": [row[2] for row in rows],
            "thread_id": [1] * len(rows),
            "id": list(range(len(rows))),
            "parent_id": pd.array([row[3] for row in rows], dtype="Int64"),
            "depth": [0] * len(rows),
        },
    )


def _links(rows: Sequence[tuple[str, str, int, str, int]]) -> pd.DataFrame:
    keys = ("kind", "source_table", "source_row", "target_table", "target_row")
    columns = {key: pd.Series([row[i] for row in rows], dtype="object") for i, key in enumerate(keys)}
    for key in ("source_row", "target_row"):
        columns[key] = columns[key].astype("int64")
    return tables.build("links", columns)


def test_backward_operators_lie_below_forward_ones() -> None:
    run = training()
    forward, backward = (run["operators"]["name"].iloc[row] for row in (1, 4))
    below = [path for path in _paths(call_tree(run)) if f"{backward}" in path]
    assert below
    assert all(f"{forward} > {backward}" in path for path in below)
    self_cause = tables.build(
        "links",
        {
            "kind": ["forward_backward"],
            "source_table": ["operators"],
            "source_row": np.array([4]),
            "target_table": ["operators"],
            "target_row": np.array([1]),
        },
    )
    looped = call_tree(run | {"links": pd.concat([run["links"], self_cause], ignore_index=True)})
    assert looped["self_device_ns"].sum() == run["kernels"]["duration_ns"].sum()  # a damaged link costs no time


def test_by_module_other_python_calls_belong_to_the_module_around_them() -> None:
    run = training()
    calls, every = merged_calls(run, by_module=True), merged_calls(run)

    shown = [calls.name(path) for path in range(len(calls)) if calls.layer(path) == "python"]
    assert sorted(shown) == ["(outside of modules)", "nn.Module: Linear_0"]
    grad = int(calls.kernel_path[1])
    assert [calls.name(path) for path in callers(calls, grad)][:3] == [
        "nn.Module: Linear_0",
        "aten::linear",
        "aten::addmm",
    ]
    for weight, sums in calls.whole(run).items():
        assert sums.exclusive.sum() == every.whole(run)[weight].exclusive.sum()
    assert (calls.kernel_path >= 0).all()
    assert has_modules(run)
    assert not has_modules(factories.profile(5))


@pytest.mark.slow
def test_of_real_training_nearly_all_time_of_kernels_is_below_python(samples: Path) -> None:
    tree = call_tree(npuprof.load(samples / "torch_npu/text/level1/rank0_ascend_pt").tables)
    top = tree[tree["depth"] == 0]
    assert top["device_ns"][top["layer"] == "python"].sum() > 0.9 * top["device_ns"].sum()
