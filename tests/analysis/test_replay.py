"""A run that is replayed: what it predicts is what a machine shows on which the program was changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.replay import Change
from npuprof.errors import NpuprofError, OptionsError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_accounting import table
from tests.budget import examples
from tests.played import Do, Machine, changed, scaled

_things = st.one_of(
    st.builds(Do, st.just("operator"), st.sampled_from(["aten::add", "DataLoader"]), st.integers(1, 60)),
    st.builds(Do, st.just("compile"), host=st.integers(1, 60)),
    st.builds(Do, st.just("python"), host=st.integers(1, 60)),
    st.builds(Do, st.just("launch"), st.sampled_from(["Cast", "MatMul"]), st.integers(1, 30), st.integers(0, 90)),
    st.builds(Do, st.just("copy"), host=st.integers(1, 30), device=st.integers(0, 90)),
    st.builds(Do, st.just("sync"), host=st.integers(1, 5)),
)
_ended = Do("sync", host=1)
_programs = st.lists(_things, max_size=12).map(
    lambda inner: [Do("operator", "DataLoader", 2), Do("launch", "MatMul", 5, 20), *inner, _ended]
)
_steps = st.lists(_programs, min_size=1, max_size=3)
_ZERO = dict.fromkeys(("op_compile", "dataloader"), 0)


def times(run: Profile) -> list[int]:
    return run.tables["steps"]["duration_ns"].tolist()


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(_steps, st.booleans())
def test_faster_kernels_gain_like_the_machine(steps: list[list[Do]], queue: bool) -> None:
    recorded = Machine(queue=queue).run(steps)
    faster = Machine(queue=queue).run(changed(steps, scaled({"MatMul": 0.5})))
    predicted = recorded.what_if(kernel={"MatMul": 0.5}).steps
    assert predicted["replayed_ns"].tolist() == predicted["recorded_ns"].tolist() == times(recorded)
    assert predicted["predicted_ns"].tolist() == times(faster)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(_steps, st.booleans())
def test_faster_host_gains_like_the_machine(steps: list[list[Do]], queue: bool) -> None:
    recorded = Machine(queue=queue).run(steps)
    faster = Machine(queue=queue).run(
        changed(steps, lambda one: None if one.name == "DataLoader" or one.what == "compile" else one)
    )
    assert recorded.what_if(cause=_ZERO).steps["predicted_ns"].tolist() == times(faster)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(_steps, st.booleans(), st.floats(0, 1), st.sampled_from(["kernel", "cause", "part", "all"]))
def test_less_time_never_takes_longer(steps: list[list[Do]], queue: bool, factor: float, where: str) -> None:
    steps = changed(steps, lambda one: replace(one, stream=2 + one.device % 3) if one.what == "launch" else one)
    recorded = Machine(queue=queue, latency=7).run(steps)
    less: dict[str, Any] = {
        "kernel": {"kernel": {"MatMul": factor}},
        "cause": {"cause": {"sync_call": factor, "dataloader": factor}},
        "part": {"part": {"copy": factor}},
        "all": {"kernel": {"MatMul": factor}, "cause": {"other_operators": factor}, "part": {"computing": factor}},
    }[where]
    predicted = recorded.what_if(**less).steps
    assert predicted["replayed_ns"].tolist() == times(recorded)
    assert predicted["predicted_ns"].sum() <= predicted["recorded_ns"].sum()
    same = recorded.what_if(kernel={"MatMul": 1.0}, cause={"sync_call": 1, "dataloader": 1.0}, part={"copy": 1}).steps
    assert same["predicted_ns"].tolist() == times(recorded)


_unended = st.lists(
    st.lists(_things, max_size=8).map(lambda inner: [Do("launch", "MatMul", 5, 200), *inner]), min_size=2, max_size=5
)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(_unended, st.booleans(), st.sampled_from([0, 0.3, 0.9]), st.sampled_from(["kernel", "cause", "part"]))
def test_asynchronous_steps_may_lengthen(steps: list[list[Do]], queue: bool, factor: float, where: str) -> None:
    steps = changed(steps, lambda one: replace(one, stream=2 + one.device % 3) if one.what == "launch" else one)
    recorded = Machine(queue=queue, latency=7).run(steps)
    less: dict[str, dict[str, float]] = {
        "kernel": {"MatMul": factor},
        "cause": {"sync_call": factor, "dataloader": factor, "unexplained": factor},
        "part": {"computing": factor, "copy": factor},
    }
    predicted = recorded.what_if(
        kernel=less["kernel"] if where == "kernel" else None,
        cause=less["cause"] if where == "cause" else None,
        part=less["part"] if where == "part" else None,
    )
    assert predicted.steps["predicted_ns"].sum() <= predicted.steps["replayed_ns"].sum()


def test_step_taking_over_work_is_accepted() -> None:
    """The host is faster, so that the second step waits for what the first one launched."""
    steps = [
        [Do("launch", "MatMul", 5, 1000), Do("operator", "DataLoader", 600)],
        [Do("launch", "MatMul", 5, 10), Do("sync", host=1)],
        [Do("launch", "MatMul", 5, 10), Do("sync", host=1)],
    ]
    predicted = Machine().run(steps).what_if(cause={"dataloader": 0})
    assert predicted.steps["gain_ns"].tolist()[0] == 600
    assert predicted.steps["gain_ns"].min() < 0 <= predicted.steps["gain_ns"].sum()
    assert predicted.gain_ns < 0  # of the mean, which leaves out the first step


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(_steps, st.booleans())
def test_the_critical_path_of_a_step_adds_up_to_it(steps: list[list[Do]], queue: bool) -> None:
    steps = changed(steps, lambda one: replace(one, stream=2 + one.device % 3) if one.what == "launch" else one)
    run = Machine(queue=queue, latency=3).run(steps)
    path = run.critical_path()
    sums = path.groupby("step")["duration_ns"].sum().reindex(range(len(steps)), fill_value=0)
    assert sums.tolist() == times(run)
    assert (path["duration_ns"] > 0).all()
    ends = path["start_ns"] + path["duration_ns"]
    assert path["start_ns"].tolist()[1:] == ends.tolist()[:-1]  # without a hole
    for name, of_table, row in path[["name", "table", "row"]].dropna(subset=["row"]).itertuples(index=False):
        of = run.tables[of_table].iloc[row]
        assert name == of["name"] or (pd.isna(of["name"]) and name == of["task_type"])


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 90), st.integers(0, 3)), min_size=1, max_size=20))
def test_any_rows_come_out_as_recorded(rows: list[tuple[int, int, int]]) -> None:
    kernels = table("kernels", [(start, length) for start, length, _ in rows], op_type="MatMul")
    kernels["stream_id"] = pd.array([stream for *_, stream in rows], "Int64")
    steps = table("steps", [(0, 300), (300, 400)])
    run = profile(kernels=kernels, steps=steps, operators=table("operators", [(0, 50), (100, 30)]))
    replay = run._replay
    assert replay.replayed_ns.tolist() == [300, 400]
    assert run.critical_path()["duration_ns"].sum() == 700
    assert replay.step_times(Change(np.zeros(len(rows), np.int64))).sum() <= 700


def profile(**given: pd.DataFrame) -> Profile:
    return Profile(Decoded(factories.all_tables(**given), factories.info(), Notes()))


_LAYER = [Do("operator", "aten::linear", 10), Do("launch", "MatMul", 12, 200), Do("launch", "Cast", 6, 15)]
_GRADIENT = (Do("operator", "autograd::engine::Mul", 9), Do("launch", "MatMulGrad", 10, 60))
_BACKWARD = Do("backward", inner=_GRADIENT * 6)
_FETCHED = [Do("copy", host=2, device=3), Do("sync", "aclrtMemcpy", host=2)]  # a blocking copy of the loss
_PLAIN = [Do("operator", "DataLoader.__next__", 40), *_LAYER * 8, _BACKWARD, Do("launch", "Adam", 8, 90), _ended]
_SMALL = [one for _ in range(100) for one in (Do("operator", "aten::mul", 9), Do("launch", "Mul", 7, 4))]
_FAULTS: dict[str, tuple[list[Do], Callable[[Do], Do | None], dict[str, Any]]] = {
    "a synchronisation in each layer": (
        [Do("operator", "DataLoader.__next__", 40), *[*_LAYER, Do("sync", host=30)] * 8, _BACKWARD, *_FETCHED],
        lambda one: None if one.what == "sync" and one.host == 30 else one,
        {"cause": {"sync_call": 0}},
    ),
    "a slow loader": (
        [Do("operator", "DataLoader.__next__", 3_000), *_PLAIN[1:]],
        lambda one: None if one.name.startswith("DataLoader") else one,
        {"cause": {"dataloader": 0}},
    ),
    "operators that are compiled": (
        [one for some in _PLAIN for one in (Do("compile", host=60), some)],
        lambda one: None if one.what == "compile" else one,
        {"cause": {"op_compile": 0}},
    ),
    "small kernels": (
        [*_PLAIN[:-1], *_SMALL, _ended],
        lambda one: None if one.name in ("aten::mul", "Mul") else one,
        {"kernel": {"Mul": 0}, "cause": {"other_operators": 0}},
    ),
    "a kernel on the AI CPU": (
        [*_PLAIN[:-1], Do("launch", "Unique", 9, 2_500), _ended],
        lambda one: replace(one, device=0) if one.name == "Unique" else one,
        {"kernel": {"Unique": 0}},
    ),
    "a slow kernel": (_PLAIN, scaled({"MatMul": 0.25}), {"kernel": {"MatMul": 0.25}}),
    "copies": (
        [*[*_LAYER, Do("copy", host=5, device=300)] * 8, _ended],
        lambda one: replace(one, device=0) if one.what == "copy" else one,
        {"part": {"copy": 0}},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("queue", [False, True])
@pytest.mark.parametrize("fault", [name for name in _FAULTS if name != "small kernels"])
def test_the_gain_without_a_planted_fault_is_predicted(fault: str, queue: bool) -> None:
    program, without, change = _FAULTS[fault]
    recorded = Machine(queue=queue, latency=4).run([program] * 3)
    better = Machine(queue=queue, latency=4).run(changed([program] * 3, without))
    gain = np.mean(times(recorded)[1:]) - np.mean(times(better)[1:])
    assert recorded.what_if(**change).gain_ns == pytest.approx(gain, rel=0.1)
    assert gain > 0 or (fault, queue) == ("operators that are compiled", True)


@pytest.mark.slow
def test_last_awaited_work_is_on_the_path() -> None:
    run = Machine(latency=4).run([_PLAIN] * 2)
    path = run.critical_path()
    kinds = path.groupby("kind", observed=True)["duration_ns"].sum()
    assert kinds["kernel"] > 0.7 * sum(times(run))  # the device has more to do than the host
    kernels = path[path["kind"] == "kernel"]
    assert set(kernels["table"]) == {"kernels"}
    assert kernels["row"].is_unique
    slow = Machine().run([[Do("operator", "DataLoader.__next__", 3_000), *_PLAIN[1:]]])
    first = slow.critical_path().iloc[0]
    assert (first["lane"], first["kind"], first["table"]) == ("thread 100", "host", "api")
    assert first["duration_ns"] >= 3_000


def test_first_step_is_not_in_the_mean() -> None:
    first = [Do("compile", host=9_000), *_PLAIN]
    run = Machine().run([first, _PLAIN, _PLAIN])
    predicted = run.what_if(cause={"op_compile": 0})
    assert predicted.steps["gain_ns"].tolist()[0] > 8_000
    assert predicted.gain_ns == 0
    assert "3 steps" in str(predicted)


def test_unknown_words_suggest_near_ones() -> None:
    run = Machine().run([_PLAIN])
    with pytest.raises(OptionsError, match="no kernel 'MatMull'; similar names: MatMul"):
        run.what_if(kernel={"MatMull": 0})
    with pytest.raises(OptionsError, match="no cause 'loader'; similar names: dataloader"):
        run.what_if(cause={"loader": 0})
    with pytest.raises(OptionsError, match="cause="):
        run.what_if(part={"idle_inside": 0})
    with pytest.raises(OptionsError, match="is -1"):
        run.what_if(part={"copy": -1})
    with pytest.raises(OptionsError, match="same factor"):
        run.what_if(transfer=0, part={"moving": 0})
    with pytest.raises(NpuprofError, match="gc_detect_threshold=1"):
        run.what_if(cause={"python_gc": 0})
    assert "kernel 'Cast' x 0: 8 kernels" in str(run.what_if(kernel={"Cast": 0}))


def test_what_cannot_be_played_again_is_refused() -> None:
    with pytest.raises(NpuprofError, match="nothing to replay"):
        profile().what_if(kernel={})
    run = Machine().run([_PLAIN])
    late = run.tables["api"].assign(start_ns=run.tables["api"]["start_ns"] + 2 * 10**9)
    early = Profile(Decoded({**run.tables, "api": late}, factories.info(), Notes()))
    with pytest.raises(NpuprofError, match="device and host times cannot be joined"):
        early.critical_path()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text/level1/rank0_ascend_pt", "db/level1/rank0_ascend_pt"])
def test_a_real_run(samples: Path, name: str) -> None:
    run = npuprof.load(samples / "torch_npu" / name)
    assert isinstance(run, Profile)
    predicted = run.what_if(part={"copy": 0})
    step = int(run.accounting.steps["duration_ns"].iloc[0])
    assert predicted.recorded_ns == predicted.replayed_ns == step
    assert predicted.gain_ns == pytest.approx(run.breakdown().query("part == 'copy'")["duration_ns"].sum(), rel=0.01)
    # What hides behind a wait for another rank gains nothing; what the host has to do before it, does.
    assert run.what_if(kernel={"MatMulV2": 0}).gain_ns == 0
    loader = run.what_if(cause={"dataloader": 0}).gain_ns
    assert loader == pytest.approx(
        run.tables["operators"].query("name.str.contains('DataLoader')")["duration_ns"].sum()
    )
    path = run.critical_path()
    assert path["duration_ns"].sum() == step
    assert path[path["kind"] == "communication"]["row"].tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_real_run_of_kernels_alone(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/llm_4ranks/rank_0_ascend_pt")
    assert isinstance(run, Profile)
    kernels = run.tables["kernels"]["duration_ns"].sum()
    assert run.what_if(part={"computing": 0}).gain_ns == kernels
    path = run.critical_path()
    assert path["duration_ns"].sum() == run.accounting.steps["duration_ns"].iloc[0]
    assert path[path["kind"] == "kernel"]["duration_ns"].sum() == kernels
