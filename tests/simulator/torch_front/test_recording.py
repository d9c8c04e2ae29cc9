"""What a profile of simulated torch shows: operators, what they launched, steps, memory; and that it is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof import simulator
from npuprof.profiles.profile import Profile
from npuprof.simulator import Simulator

from .conftest import Profiled

pytestmark = pytest.mark.torch


def step(torch: Any, layer: Any, optimizer: Any) -> None:
    layer(torch.ones(32, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def run(torch: Any, virtual: Simulator, profiled: Profiled) -> Profile:
    """Two steps of a linear layer."""
    layer = torch.nn.Linear(64, 16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def work() -> None:
        for _ in range(2):
            step(torch, layer, optimizer)

    return profiled(work, memory=True)


def linked(run: Profile, kind: str, source: pd.DataFrame, target: pd.DataFrame) -> pd.DataFrame:
    links = run.links[run.links["kind"] == kind]
    left = source.iloc[links["source_row"]].reset_index(drop=True).add_prefix("source_")
    right = target.iloc[links["target_row"]].reset_index(drop=True).add_prefix("target_")
    both: pd.DataFrame = pd.concat([left, right], axis=1)
    return both


def test_it_says_that_it_is_simulated(run: Profile) -> None:
    assert run.info.simulated
    assert run.info.collector == "simulator"
    assert run.info.source == "recording, raw files of simulated torch"
    assert not len(run.notes)


def test_every_kernel_goes_back_to_the_operator_that_launched_it(run: Profile) -> None:
    launched = linked(run, "operator_api", run.operators, run.api)
    tasks = linked(run, "api_task", run.api, run.tasks)
    assert len(launched) == len(tasks) == len(run.tasks)
    inside = (launched["source_start_ns"] <= launched["target_start_ns"]) & (
        launched["target_start_ns"] <= launched["source_start_ns"] + launched["source_duration_ns"]
    )
    assert inside.all()
    by_operator = launched.groupby("source_name", observed=True).size()
    assert by_operator["aten::addmm"] == 2 * 1 + 2  # a kernel each time, and copies of the two parameters
    assert by_operator["aten::mm"] == 2


def test_operators_have_shapes_and_types(run: Profile) -> None:
    (row, *_) = run.operators[run.operators["name"] == "aten::addmm"].to_dict("records")
    assert (row["input_shapes"], row["input_dtypes"]) == ("16;32,64;64,16", "float32;float32;float32")


def test_the_backward_pass_is_linked_to_the_forward_pass(run: Profile) -> None:
    passes = linked(run, "forward_backward", run.operators, run.operators)
    pairs = set(zip(passes["source_name"], passes["target_name"], strict=True))
    assert {("aten::addmm", "AddmmBackward0"), ("aten::pow", "PowBackward0"), ("aten::mean", "MeanBackward0")} <= pairs
    assert (passes["source_start_ns"] < passes["target_start_ns"]).all()


def test_autograd_node_contains_its_calls(run: Profile) -> None:
    operators = run.operators
    (node, *_) = operators.index[operators["name"] == "AddmmBackward0"]
    assert operators["name"][node - 1] == "autograd::engine::evaluate_function: AddmmBackward0"
    end = operators["start_ns"] + operators["duration_ns"]
    inside = operators[(operators.index > node) & (end <= end[node])]
    assert "aten::mm" in set(inside["name"])


def test_an_optimizers_step_is_a_range_around_its_operators(run: Profile) -> None:
    names = run.operators["name"].astype(str)
    assert (names == "Optimizer.step#SGD.step").sum() == 2


def test_allocations_are_named_and_memory_adds_up(run: Profile) -> None:
    assert run.memory["component"].eq("PTA").any()
    blocks = run.allocations[run.allocations["name"] == "aten::addmm"]
    assert 32 * 16 * 4 in set(blocks["size_bytes"])
    assert blocks["released_ns"].notna().any()
    held = run.memory[run.memory["component"] == "PTA"]
    assert (held["reserved_bytes"] >= held["allocated_bytes"]).all()


def test_a_run_on_the_virtual_clock_comes_out_the_same(torch: Any, tmp_path: Path) -> None:
    tables = []
    for number in range(2):

        def work(rank: Any) -> None:
            layer = torch.nn.Linear(64, 16)
            with simulator.torch():
                step(torch, layer, torch.optim.SGD(layer.parameters(), lr=0.1))

        simulator.ranks(1).run(work, tmp_path / str(number))
        kernels = npuprof.load(tmp_path / str(number) / "rank_0").kernels
        tables.append((kernels["start_ns"] - kernels["start_ns"].iloc[0], kernels["duration_ns"], kernels["op_name"]))
    for one, other in zip(*tables, strict=True):
        assert one.tolist() == other.tolist()
    assert len(tables[0][0]) > 5


def test_steps_and_ranges_of_a_session(torch: Any, tmp_path: Path) -> None:
    simulator.reset()
    x = torch.ones(8)
    with npuprof.profile(collector="simulator", level=1, output=str(tmp_path)) as session, simulator.torch():
        for _ in range(3):
            with torch.profiler.record_function("forward"):
                (x + 1).sum().item()
            session.step()
    run = session.result
    assert run.steps["step"].tolist() == [0, 1, 2]
    assert (run.operators["name"] == "forward").sum() == 3
    assert run.operators.loc[run.operators["name"] == "aten::sum", "step"].tolist() == [0, 1, 2]
    assert run.kernels.loc[run.kernels["op_type"] == "ReduceSum", "step"].tolist() == [0, 1, 2]
    assert len(run.python)


def test_operators_are_left_out_where_only_the_device_is_asked_for(torch: Any, profiled: Profiled) -> None:
    simulator.reset()
    run = profiled(lambda: torch.ones(8) + 1, activities=["npu"])
    assert len(run.kernels)
    assert not len(run.operators)


def test_a_recording_without_torch_has_no_framework_folder(tmp_path: Path) -> None:
    simulator.reset()
    with npuprof.profile(collector="simulator", level=1, output=str(tmp_path), stacks=False):
        simulator.current().device(0).launch("Add")
    assert not list(tmp_path.rglob("FRAMEWORK"))
