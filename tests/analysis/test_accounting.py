"""Every nanosecond of a step has one part and one cause, and the parts add up to the step."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.analysis.accounting import BETWEEN_STEPS, BUBBLE, PARTS, SPLIT_UNKNOWN, Accounting, account
from npuprof.analysis.idle_causes import CAUSES, UNEXPLAINED, UNKNOWN
from npuprof.profiles.profile import Profile
from tests import factories

_Pairs = list[tuple[int, int]]
_spans = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=12)
_windows = st.lists(st.tuples(st.integers(0, 350), st.integers(0, 200)), min_size=1, max_size=5)
_BASE = factories.START_NS
_DEFAULTS: dict[str, dict[str, Any]] = {
    "kernels": {"device_id": 0, "name": "MatMul"},
    "communication": {"device_id": 0, "name": "hcom_allReduce_", "op_type": "hcom_allReduce_"},
    "communication_tasks": {"device_id": 0, "op_id": 0, "task_type": "Memcpy"},
    "tasks": {"device_id": 0, "name": "MEMCPY_ASYNC", "task_type": "SDMA_SQE"},
    "api": {"name": "aclrtSynchronizeStream", "level": "runtime", "thread_id": 1},
    "operators": {"name": "aten::add", "kind": "op", "thread_id": 1, "id": 0},
    "python": {"name": "train.py(1): main", "thread_id": 1, "id": 0, "depth": 0},
}


def table(of: str, pairs: _Pairs, /, **columns: Any) -> pd.DataFrame:
    """Rows at `pairs` of start and duration, the other columns the same in each row."""
    values = {column: [value] * len(pairs) for column, value in {**_DEFAULTS.get(of, {}), **columns}.items()}
    starts, durations = (np.array([pair[at] for pair in pairs], np.int64) for at in (0, 1))
    if of == "steps":
        values["step"] = list(range(len(pairs)))
    return tables.build(of, {"start_ns": starts + _BASE, "duration_ns": durations, **values})


def moments(pairs: _Pairs) -> set[int]:
    return {moment for start, length in pairs for moment in range(start, start + length)}


def innermost(windows: _Pairs) -> list[set[int]]:
    """The moments of each step: of several that hold one, it belongs to the one that began last, then the shortest."""
    owned: list[set[int]] = [set() for _ in windows]
    for moment in moments(windows):
        holders = [
            (start, -length, -row) for row, (start, length) in enumerate(windows) if start <= moment < start + length
        ]
        owned[-max(holders)[2]].add(moment)
    return owned


def until_the_next(windows: _Pairs, owned: list[set[int]]) -> list[set[int]]:
    """The moments between each step and the next consecutive one; none of steps that overlap."""
    between: list[set[int]] = [set() for _ in windows]
    reached = 0
    for start, length in sorted(windows, key=lambda window: (window[0], -window[1])):
        if start < reached:
            return between
        reached = max(reached, start + length)
    marked = [number for number in sorted(range(len(windows)), key=windows.__getitem__) if owned[number]]
    for number, after in itertools.pairwise(marked):
        if after == number + 1:
            between[number] = set(range(sum(windows[number]), windows[after][0]))
    return between


def by_step(accounting: Accounting) -> dict[tuple[int, str, str], int]:
    rows = accounting.breakdown()
    columns = (rows[name].tolist() for name in ("step", "part", "cause", "duration_ns"))
    return {(step, part, cause): time for step, part, cause, time in zip(*columns, strict=True)}


@pytest.mark.slow
@given(_windows, _spans, _spans, _spans, _spans, _spans, _spans)
def test_each_moment_of_each_step_is_counted_once(
    windows: _Pairs, computing: _Pairs, collectives: _Pairs, moves: _Pairs, copies: _Pairs, syncs: _Pairs, calls: _Pairs
) -> None:
    run = factories.all_tables(
        steps=table("steps", windows),
        kernels=table("kernels", computing),
        communication=table("communication", collectives),
        communication_tasks=table("communication_tasks", moves, op_id=None),
        tasks=table("tasks", copies),
        api=table("api", syncs),
        operators=table("operators", calls),
    )
    result = account(run)
    told = by_step(result)
    if not computing + copies:  # collectives alone do not tell whether the device was idle
        of_host = calls and not collectives + moves
        assert {part for _, part, _ in told} <= ({"host"} if of_host else set())
        return
    totals = result.by_part()
    assert (totals[list(PARTS)].sum(axis=1) == totals["duration_ns"]).all()
    assert (result.intervals["duration_ns"] > 0).all()
    kernels, moved, copied = moments(computing), moments(moves), moments(copies)
    exposed = moments(collectives) - kernels
    split = exposed if moves else set()
    owned = innermost(windows)
    for step, (mark, after) in enumerate(zip(owned, until_the_next(windows, owned), strict=True)):
        own = mark | after
        expected = {
            ("computing", "kernels"): own & kernels,
            ("waiting", "other ranks"): own & split - moved,
            ("moving", "transfer"): own & split & moved,
            ("communication", SPLIT_UNKNOWN): own & exposed - split,
            ("copy", "copies"): own & copied - kernels - exposed,
        }
        for (part, cause), when in expected.items():
            assert told.get((step, part, cause), 0) == len(when), (step, part)
        busy = own & (kernels | exposed | copied)
        idle = own - busy
        assert sum(time for (number, part, _), time in told.items() if number == step and part in PARTS[5:]) == len(
            idle
        )
        assert sum(time for (number, part, _), time in told.items() if (number, part) == (step, BETWEEN_STEPS)) == len(
            idle & after
        )
        waited = moments(syncs)
        assert told.get((step, BETWEEN_STEPS, "sync_call"), 0) == len(idle & after & waited)
        inside = {moment for moment in idle & mark if not busy or min(busy) < moment < max(busy)}
        assert told.get((step, "idle_inside", "sync_call"), 0) == len(inside & waited)
        assert told.get((step, "idle_inside", "other_operators"), 0) == len((inside - waited) & moments(calls))
        assert told.get((step, "idle_inside", UNEXPLAINED), 0) == len(inside - waited - moments(calls))


@pytest.mark.slow
def test_idle_head_is_known_without_earlier_work() -> None:
    steps, kernels = [(0, 100), (100, 100)], [(20, 10), (120, 10)]
    run = factories.all_tables(steps=table("steps", steps), kernels=table("kernels", kernels))
    assert account(run).steps["head_known"].tolist() == [False, True]
    told = by_step(account(run))
    assert told[0, "idle_head", UNKNOWN] == told[1, "idle_head", UNEXPLAINED] == 20
    waits = table("api", [(25, 50)])  # the host waits in step 0 until after its last task
    assert account({**run, "api": waits}).steps["head_known"].tolist() == [True, True]
    early = table("api", [(2, 3)])
    assert account({**run, "api": early}).steps["head_known"].tolist() == [False, True]


def test_causes_take_idle_time_in_their_order() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 100)]),
        kernels=table("kernels", [(0, 1), (99, 1)]),
        api=pd.concat([table("api", [(10, 20)], name="aclopCompileAndExecute"), table("api", [(20, 20)])]),
        operators=pd.concat(
            [table("operators", [(50, 10)], name="enumerate(DataLoader)#next"), table("operators", [(55, 10)])]
        ),
        python=pd.concat([table("python", [(5, 70)]), table("python", [(62, 10)], name="nn.Module: Net_0")]),
        marks=tables.build(
            "marks",
            {
                "start_ns": np.array([_BASE + 44]),
                "duration_ns": np.array([4]),
                "message": ["GC"],
                "thread_id": np.array([1]),
            },
        ),
    )
    for name in ("api", "operators", "python"):
        run[name] = run[name].astype({"name": "category", **({"kind": "category"} if name == "operators" else {})})
    told = {cause: time for (_, part, cause), time in by_step(account(run)).items() if part == "idle_inside"}
    assert told == {
        "op_compile": 20,
        "sync_call": 10,
        "dataloader": 10,
        "python_gc": 4,
        "forward_dispatch": 10,
        "other_operators": 2,
        "python": 14,
        UNEXPLAINED: 28,
    }


def test_nested_step_takes_its_time_from_the_outer() -> None:
    run = factories.all_tables(steps=table("steps", [(0, 100), (40, 20)]), kernels=table("kernels", [(30, 40)]))
    assert account(run).steps["duration_ns"].tolist() == [80, 20]
    told = by_step(account(run))
    assert (told[0, "computing", "kernels"], told[1, "computing", "kernels"]) == (20, 20)


def test_without_marked_steps_kernels_define_them() -> None:
    kernels = pd.concat([table("kernels", [(10, 5), (30, 10)], step=3), table("kernels", [(60, 5)], step=4)])
    collectives = table("communication", [(40, 10)], step=3)
    run = factories.all_tables(kernels=kernels.astype({"name": "category"}), communication=collectives)
    steps = account(run).steps
    assert steps[["step", "duration_ns", "basis"]].to_numpy().tolist() == [[3, 50, "kernels"], [4, 5, "kernels"]]
    assert not {"idle_head", "idle_tail"} & set(account(run).intervals["part"])
    assert by_step(account(run))[3, BETWEEN_STEPS, UNEXPLAINED] == 10


@pytest.mark.parametrize(
    ("marks", "numbers", "lengths", "closed"),
    [
        ([(0, 8), (30, 8), (60, 8)], [0, 1, 2], [30, 30, 8], [True, True, False]),
        ([(0, 8), (30, 8), (60, 8)], [0, 1, 5], [30, 8, 8], [True, False, False]),
        ([(0, 8), (30, 8), (60, 8)], [0, 1, 1], [8, 8, 8], [True, True, True]),
        ([(0, 40), (30, 8), (60, 8)], [0, 1, 2], [32, 8, 8], [True, True, True]),
        ([(0, 8), (8, 8)], [3, 4], [8, 8], [True, False]),
        ([(0, 8)], [3], [8], [False]),
    ],
    ids=["consecutive", "a gap in the numbers", "a number twice", "nested", "without time between", "alone"],
)
def test_a_step_lasts_to_the_start_of_the_next_consecutive_one(
    marks: _Pairs, numbers: list[int], lengths: list[int], closed: list[bool]
) -> None:
    steps = table("steps", marks)
    steps["step"] = pd.array(numbers, "Int64")
    kernels = table("kernels", [(start, 8) for start, _ in marks])
    result = account(factories.all_tables(steps=steps, kernels=kernels))
    assert result.steps["duration_ns"].tolist() == lengths
    assert result.steps["closed"].tolist() == closed
    own = (result.steps["duration_ns"] - result.by_part()[BETWEEN_STEPS]).tolist()
    assert own == [32 if length == 40 else 8 for _, length in marks]


def test_time_between_cells_is_outside_steps() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 10), (100, 10), (130, 10)]), kernels=table("kernels", [(0, 12), (100, 10), (130, 10)])
    )
    cells = [("In [1]", _BASE, _BASE + 20), ("In [2]", _BASE + 90, _BASE + 140)]
    steps = account(run, executed=cells).by_part()
    assert steps["duration_ns"].tolist() == [30, 30, 10]  # without the 70 ns between both cells
    assert steps[BETWEEN_STEPS].tolist() == [18, 20, 0]


def test_step_marked_twice_is_one() -> None:
    steps, kernels = table("steps", [(0, 100), (0, 100), (100, 100)]), table("kernels", [(10, 5), (110, 5)])
    accounted = account(factories.all_tables(steps=steps, kernels=kernels)).steps
    assert accounted["duration_ns"].tolist() == [100, 100]
    instant = factories.all_tables(kernels=table("kernels", [(10, 0)]))
    assert account(instant).steps["duration_ns"].tolist() == [0]


def test_a_run_without_steps_has_one_window_of_all_its_slices() -> None:
    run = factories.all_tables(kernels=table("kernels", [(10, 5)]), python=table("python", [(0, 40)]))
    steps = account(run).steps
    assert steps[["basis", "duration_ns"]].to_numpy().tolist() == [["run", 40]]
    assert steps["step"].isna().all()


@pytest.mark.slow
def test_each_device_has_its_own_account_of_the_same_steps() -> None:
    kernels = pd.concat([table("kernels", [(0, 30)]), table("kernels", [(10, 10)], device_id=1)])
    run = factories.all_tables(steps=table("steps", [(0, 50)]), kernels=kernels.astype({"name": "category"}))
    assert account(run).by_part()[["device_id", "computing", "duration_ns"]].to_numpy().tolist() == [
        [0, 30, 50],
        [1, 10, 50],
    ]


def test_collectives_without_tasks_are_not_split_beside_others_that_have_some() -> None:
    run = factories.all_tables(
        steps=table("steps", [(0, 100)]),
        kernels=table("kernels", [(90, 5)]),
        communication=table("communication", [(0, 20), (50, 20)]),
        communication_tasks=table("communication_tasks", [(5, 10)], op_id=0),
    )
    told = by_step(account(run))
    assert told[0, "waiting", "other ranks"] == told[0, "moving", "transfer"] == 10
    assert told[0, "communication", SPLIT_UNKNOWN] == 20


def test_a_negative_step_time_of_the_vendor_is_no_time() -> None:
    times = {"computing_ns": [-5], "communication_not_overlapped_ns": [30], "free_ns": [10]}
    vendor = tables.build("step_times", {"step": [7], "device_id": [2], **times})
    result = account(factories.all_tables(step_times=vendor))
    assert result.steps["duration_ns"].tolist() == [40]
    assert result.breakdown()["duration_ns"].tolist() == [30, 10]


def test_the_vendors_step_times_serve_a_device_without_kernels() -> None:
    vendor = tables.build(
        "step_times",
        {
            "step": pd.array([7], "Int64"),
            "device_id": pd.array([0], "Int64"),
            "computing_ns": pd.array([50], "Int64"),
            "communication_not_overlapped_ns": pd.array([30], "Int64"),
            "free_ns": pd.array([20], "Int64"),
            "bubble_ns": pd.array([10], "Int64"),
        },
    )
    result = account(factories.all_tables(step_times=vendor), rank=4)
    assert result.steps[["rank", "step", "duration_ns", "basis"]].to_numpy().tolist() == [[4, 7, 100, "step_times"]]
    assert by_step(result) == {
        (7, "computing", "kernels"): 50,
        (7, "communication", BUBBLE): 10,
        (7, "communication", SPLIT_UNKNOWN): 20,
        (7, "idle_inside", UNKNOWN): 20,
    }
    assert result.intervals["start_ns"].isna().all()


def test_a_stage_of_a_cluster_is_not_added_to_its_ranks() -> None:
    vendor = tables.build(
        "step_times",
        {
            "computing_ns": pd.array([50, 60], "Int64"),
            "communication_not_overlapped_ns": pd.array([1, 1], "Int64"),
            "free_ns": pd.array([1, 1], "Int64"),
            "kind": pd.Categorical(["rank", "stage"]),
            "rank": pd.array([3, None], "Int64"),
        },
    )
    assert account(factories.all_tables(step_times=vendor)).steps["rank"].tolist() == [3]


def test_a_run_without_a_device_or_a_host_has_no_account() -> None:
    run = factories.all_tables(steps=table("steps", [(0, 50)]))
    assert not len(account(run).steps)
    run["python"] = table("python", [(0, 40)])
    assert by_step(account(run)) == {(0, "host", "python"): 40, (0, "host", UNEXPLAINED): 10}
    assert account(run).breakdown().columns.tolist() == ["rank", "device_id", "step", "part", "cause", "duration_ns"]


_AS_MS = ("computing", "waiting", "moving", "communication", "copy", "idle_head", "idle_inside", "idle_tail")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "duration_ms", "parts_ms"),
    [
        ("text/level1/rank0_ascend_pt", 155.986, (8.874, 98.027, 3.936, 0, 0.853, 13.319, 29.474, 1.502)),
        ("text/level1/rank1_ascend_pt", 153.888, (8.878, 92.412, 3.947, 0, 1.285, 15.157, 30.666, 1.543)),
        ("db/level1/rank0_ascend_pt", 151.889, (8.903, 94.005, 4.066, 0, 0.842, 12.370, 30.102, 1.600)),
        ("text/level0/rank0_ascend_pt", 136.898, (8.827, 0, 0, 81.516, 1.010, 14.901, 29.355, 1.288)),
        ("llm_4ranks/rank_0_ascend_pt", 810.022, (231.29, 0, 0, 420.17, 0, 0, 158.56, 0)),
        ("llm_4ranks/rank_1_ascend_pt", 809.43, (230.90, 0, 0, 441.71, 0, 0, 136.82, 0)),
    ],
)
def test_steps_of_real_runs(samples: Path, name: str, duration_ms: float, parts_ms: tuple[float, ...]) -> None:
    run = one(samples, name)
    (row,) = account(run.tables).by_part().to_dict("records")
    assert row["duration_ns"] / 1e6 == pytest.approx(duration_ms, abs=0.001 if "level" in name else 0.01)
    assert [row[part] / 1e6 for part in _AS_MS] == pytest.approx(parts_ms, abs=0.001 if "level" in name else 0.01)
    # On the host's clock a device moves by some microseconds, from the head of its step to the tail or back.
    (moved,) = run.accounting.by_part().to_dict("records")
    assert moved["duration_ns"] == row["duration_ns"]
    near = pytest.approx([row[part] for part in _AS_MS], rel=0.01 if "rank1" not in name else 0.015)
    assert [moved[part] for part in _AS_MS] == near


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "causes_ms"),
    [
        ("text/level1/rank0_ascend_pt", (0, 5.00, 6.17, 3.33, 0, 0, 0.40, 0.26, 1.49, 13.87, 8.17, 5.61)),
        ("db/level1/rank0_ascend_pt", (0, 8.48, 4.41, 3.78, 0, 0, 0.43, 0.24, 1.58, 10.65, 8.57, 5.93)),
    ],
)
def test_causes_of_idle_time_of_real_runs(samples: Path, name: str, causes_ms: tuple[float, ...]) -> None:
    rows = one(samples, name).breakdown()
    idle = rows[rows["part"].isin(["idle_head", "idle_inside", "idle_tail"])]
    sums = idle.groupby("cause", observed=True)["duration_ns"].sum()
    told = [sums.get(cause.name, 0) / 1e6 for cause in CAUSES]
    assert told == pytest.approx(causes_ms, rel=0.01, abs=0.01)
    assert UNEXPLAINED not in sums


def one(samples: Path, name: str) -> Profile:
    run = npuprof.load(samples / "torch_npu" / name)
    assert isinstance(run, Profile)
    return run
