"""Actions that are followed: a run in which each finding fires, and one that does what its action says."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

import npuprof
from npuprof import advice as package
from npuprof import tables
from npuprof.advice import actions, counterparts, host_causes
from npuprof.advice.causes import BY_NAME, of_idle_cause
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice, advise
from npuprof.advice.rules import fusible_repeats
from npuprof.analysis.accounting import account
from npuprof.analysis.device_words import GPU, NPU, DeviceName
from npuprof.analysis.idle_causes import PROFILER, UNEXPLAINED
from npuprof.simulator import npu
from npuprof.simulator.jobs import SIZES, Faults, simulate
from npuprof.tables.info import Info
from tests import factories
from tests.advice.generated import RULES, facts_of
from tests.advice.test_between_steps import run_of
from tests.advice.test_findings import _transfers, advice, ring
from tests.advice.test_job import advice_of
from tests.advice.test_kernel_rules import _FORWARD, kernels, memory, norms, product
from tests.advice.test_kernel_rules import finding as of_kernels
from tests.advice.test_kernel_rules import operators as shaped
from tests.advice.test_more_rules import (
    _RMS_NORM,
    beside_kernels,
    finding,
    optimizer,
    program,
    transfers,
    with_cycles,
)
from tests.advice.test_outliers import found_of
from tests.advice.test_pipeline_bubble import played
from tests.advice.test_small_comm_and_environment import blocked, collectives
from tests.analysis.test_accounting import table
from tests.analysis.test_rank_waits import synchronised
from tests.pace import seconds

_US, _MS = 1_000, 1_000_000


class Trial(NamedTuple):
    """A finding of a rule, what its action says among others, and the finding where that was done."""

    says: str
    before: Callable[[], Finding]
    after: Callable[[], Finding]


def _step(**given: pd.DataFrame) -> Advice:
    return advice(steps=table("steps", [(0, 1000)]), **given)


def _captured(*, launched: bool) -> Finding:
    starts = [(5, 10), (15, 10), (90, 10)]
    name = "aclrtLaunchKernel" if launched else "aclmdlRIExecuteAsync"
    calls = table("api", [(start - 3, 2) for start, _ in starts], name=name, thread_id=1)
    return advice(steps=table("steps", [(0, 100)]), kernels=table("kernels", starts), api=calls)["host_bound"]


def _of_ranks(own: list[list[int]], moving: int = 50) -> Advice:
    return advice_of(synchronised(own, [moving] * len(own)))


def _recomputed(second: tuple[str, ...]) -> Finding:
    calls = shaped(
        *[(name, 10 * at, 10) for at, name in enumerate(_FORWARD)],
        ("autograd::engine::evaluate_function: CheckpointBackward", 100, 30),
        *[(name, 100 + 10 * at, 10) for at, name in enumerate(second)],
    )
    links = {
        "kind": ["api_task"] * 6,
        "source_table": ["operators"] * 6,
        "source_row": [0, 1, 2, 4, 5, 6],
        "target_table": ["kernels"] * 6,
        "target_row": list(range(6)),
    }
    rows = kernels(("MatMulV3", 10), ("Gelu", 10), ("MatMulV3", 10), *[("Again", 20)] * 3)
    return of_kernels("recompute", kernels=rows, operators=calls, links=tables.build("links", links))


def _fused_optimizer() -> dict[str, pd.DataFrame]:
    return program(("npu::npu_apply_adam_w", "ApplyAdamWV2", 200), within="Optimizer.step#NpuFusedAdamW.step")


def _first(times: int) -> Finding:
    lengths = [100 * times, 100, 100, 100]
    spans = [(sum(lengths[:at]), length) for at, length in enumerate(lengths)]
    return advice(steps=table("steps", spans), kernels=table("kernels", [(at, 90) for at, _ in spans]))["first_step"]


def _in_pieces(allocated: float, reserved: float) -> Finding:
    return of_kernels("memory_peak", memory=memory(("PTA", allocated, reserved)), kernels=kernels(("Add", 900)))


def _set(**variables: str) -> Finding:
    return blocked({"executable": "python", **variables})["environment"]


def _allocating(collector: str = "torch_npu", **variables: str) -> Finding:
    run = factories.all_tables(
        steps=table("steps", [(0, 100)]),
        kernels=table("kernels", [(0, 20), (90, 10)]),
        api=table("api", [(20, 60)], name="aclrtMalloc"),
    )
    return advise(run, Info(collector=collector, environment={"executable": "python", **variables}), account(run))[
        "environment"
    ]


def _of_step(length_us: int) -> Finding:
    shape = {"core": "AI_CORE", "input_shapes": "8192,8192;8192,8192", "input_dtypes": "FLOAT16;FLOAT16"}
    rows = kernels(("MatMulV3", 3_900), output_shapes="8192,8192", **shape)
    return finding("utilization", length_us=length_us, kernels=rows)


def _products(time_us: int) -> Finding:
    rows = [("MatMulV3", 4_000), ("MatMulV3", 4_000), ("MatMulV3", time_us)]
    return of_kernels("cube_efficiency", length_us=30_000, kernels=kernels(*rows, **product(8192, 8192, 8192)))


def _moving(time: int) -> Finding:
    return advice(
        steps=table("steps", [(0, 100)]),
        kernels=table("kernels", [(0, 40)]),
        communication=table("communication", [(40, 50)]),
        communication_tasks=table("communication_tasks", [(60, time)]),
    )["exposed_communication"]


def _synchronised_norms(*, alone: bool) -> Finding:
    if alone:
        return finding("sync_batch_norm", run=program(("aten::batch_norm", "BatchNorm", 20)))
    return finding("sync_batch_norm", run=program(("aten::batch_norm_gather_stats", "SyncBatchNormGatherStats", 20)))


def _experts(sizes: list[int], times: list[int]) -> Finding:
    return finding("expert_imbalance", run=transfers(sizes, times, op_type="hcom_alltoallv_", peers=[1, 2, 3, 4]))


def _short(time: int) -> Finding:
    rows = table("kernels", [(at, time) for at in range(0, 1000, 50)])
    return _step(kernels=rows, operators=table("operators", [(0, 1000)]))["small_kernels"]


_ALIGNED, _ODD = 1 << 20, (1 << 20) + 36
_TRIALS: dict[str, list[Trial]] = {
    "host_bound": [
        Trial("without capturing", lambda: _captured(launched=False), lambda: _captured(launched=True)),
    ],
    "between_steps": [
        Trial(
            "DataLoader workers",
            lambda: run_of(22 * _MS).advice()["between_steps"],
            lambda: run_of(0).advice()["between_steps"],
        ),
    ],
    "waiting": [
        Trial(
            "profile member 2 of the group",
            lambda: ring((0, 6_300_000), (2, 43_100_000))["waiting"],
            lambda: _of_ranks([[1_000, 1_000, 44_000]] * 4)["waiting"],
        ),
        Trial(
            "load all ranks together",
            lambda: ring((0, 20_000_000), (2, 20_000_010))["waiting"],
            lambda: _of_ranks([[20_000, 1_000, 20_000]] * 4)["waiting"],
        ),
    ],
    "exposed_communication": [Trial("overlap it with the backward pass", lambda: _moving(20), lambda: _moving(4))],
    "slow_link": [
        Trial(
            "check its ports",
            lambda: _transfers([18, 18, 9, 18])["slow_link"],
            lambda: _transfers([18, 18, 18, 18])["slow_link"],
        ),
    ],
    "copies": [
        Trial(
            "non_blocking=True",
            lambda: _step(kernels=table("kernels", [(0, 40)]), tasks=table("tasks", [(30, 30)]))["copies"],
            lambda: _step(kernels=table("kernels", [(0, 40)]), tasks=table("tasks", [(5, 30)]))["copies"],
        ),
    ],
    "ai_cpu": [
        Trial(
            "another dtype",
            lambda: _step(kernels=table("kernels", [(0, 40)], task_type="AI_CPU"))["ai_cpu"],
            lambda: _step(kernels=table("kernels", [(0, 40)], task_type="AI_CORE"))["ai_cpu"],
        ),
    ],
    "layout_and_casts": [
        Trial(
            "keep one dtype",
            lambda: of_kernels("layout_and_casts", kernels=kernels(("Cast", 90), ("MatMulV3", 90))),
            lambda: of_kernels("layout_and_casts", kernels=kernels(("MatMulV3", 90), ("MatMulV3", 90))),
        ),
    ],
    "fusible_repeats": [
        Trial(
            "torch_npu.npu_rms_norm",
            lambda: of_kernels("fusible_repeats", kernels=norms(6, "MatMulV3")),
            lambda: of_kernels("fusible_repeats", kernels=kernels(*[("RmsNorm", 40), ("MatMulV3", 20)] * 6)),
        ),
    ],
    "fused_counterparts": [
        Trial(
            "torch_npu.npu_rms_norm",
            lambda: finding("fused_counterparts", run=program(*_RMS_NORM)),
            lambda: finding("fused_counterparts", run=program(("npu::npu_rms_norm", "RmsNorm", 40))),
        ),
    ],
    "unfused_optimizer": [
        Trial(
            "NpuFusedAdamW",
            lambda: finding("unfused_optimizer", length_us=2_000, run=optimizer(20)),
            lambda: finding("unfused_optimizer", length_us=2_000, run=_fused_optimizer()),
        ),
    ],
    "cube_efficiency": [Trial("", lambda: _products(20_000), lambda: _products(4_000))],
    "unused_cores": [
        Trial(
            "larger batches",
            lambda: of_kernels("unused_cores", kernels=kernels(("Add", 100), block_num=12)),
            lambda: of_kernels("unused_cores", kernels=kernels(("Add", 100), block_num=48)),
        ),
    ],
    "frequency_drop": [
        Trial(
            "npu-smi info -t common",
            lambda: finding("frequency_drop", length_us=5_000, kernels=with_cycles([1.0] * 20 + [0.8] * 20)),
            lambda: finding("frequency_drop", length_us=5_000, kernels=with_cycles([1.0] * 40)),
        ),
    ],
    "recompute": [
        Trial(
            "checkpoint fewer layers",
            lambda: _recomputed(_FORWARD),
            lambda: _recomputed(("aten::mm", "aten::gelu_backward", "aten::mm")),
        ),
    ],
    "small_kernels": [Trial("fused operators", lambda: _short(5), lambda: _short(50))],
    "small_comm": [
        Trial(
            "fewer, larger messages",
            lambda: collectives([18 << 20] + [1 << 16] * 100, [1_048] + [50] * 100),
            lambda: collectives([18 << 20, 100 << 16], [1_048, 370]),
        ),
    ],
    "unaligned_messages": [
        Trial(
            "multiples of 512 bytes",
            lambda: finding("unaligned_messages", run=transfers([_ALIGNED] * 4 + [_ODD] * 4, [50] * 4 + [100] * 4)),
            lambda: finding("unaligned_messages", run=transfers([_ALIGNED] * 4 + [_ALIGNED + 512] * 4, [50] * 8)),
        ),
    ],
    "contention": [
        Trial(
            "beside matrix products",
            lambda: finding("contention", length_us=3_000, run=beside_kernels(200)),
            lambda: finding("contention", length_us=3_000, run=beside_kernels(100, op_type="MatMulV3")),
        ),
    ],
    "expert_imbalance": [
        Trial(
            "balancing loss",
            lambda: _experts([4 << 20, 1 << 20, 1 << 20, 1 << 20], [400, 100, 100, 100]),
            lambda: _experts([1800 << 10, 1792 << 10, 1780 << 10, 1810 << 10], [176, 175, 174, 177]),
        ),
    ],
    "sync_batch_norm": [
        Trial("GroupNorm", lambda: _synchronised_norms(alone=False), lambda: _synchronised_norms(alone=True)),
    ],
    "memory_peak": [
        Trial("recompute activations", lambda: _in_pieces(58.0, 60.0), lambda: _in_pieces(38.0, 40.0)),
        Trial("expandable_segments:True", lambda: _in_pieces(30.0, 40.0), lambda: _in_pieces(30.0, 31.0)),
    ],
    "first_step": [Trial("warmup=2", lambda: _first(9), lambda: _first(1))],
    "outliers": [
        Trial(
            "what else ran then",
            lambda: found_of([1_000] * 6 + [9_000] + [1_000] * 5)["outliers"],
            lambda: found_of([1_000] * 12)["outliers"],
        ),
    ],
    "utilization": [Trial("larger batches", lambda: _of_step(40_000), lambda: _of_step(4_000))],
    "environment": [
        Trial("`unset ASCEND_LAUNCH_BLOCKING`", lambda: _set(ASCEND_LAUNCH_BLOCKING="1"), _set),
        Trial(
            "export ASCEND_GLOBAL_LOG_LEVEL=3",
            lambda: _set(ASCEND_GLOBAL_LOG_LEVEL="1"),
            lambda: _set(ASCEND_GLOBAL_LOG_LEVEL="3"),
        ),
        Trial(
            "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True",
            _allocating,
            lambda: _allocating(PYTORCH_NPU_ALLOC_CONF="expandable_segments:True"),
        ),
    ],
}
"""By rule; where an action depends on the cause, as of idle time, each cause has a trial below."""

_PLAN = replace(SIZES[8], steps=4, microbatches=4, layers=2, ranks_per_host=2)


def _job(rule: str, faults: Faults) -> Finding:
    facts = facts_of(simulate(_PLAN, faults, 3))
    return next(each for each in RULES if each.name == rule).check(facts)


def _uneven(first: int) -> Finding:
    sends = synchronised([[first, 1_000]] * 8, [10] * 8).assign(op_type="hcom_batchSendRecv_")
    return advice_of(sends)["pipeline_imbalance"]


def _in_turn(late: int) -> Finding:
    own = [[1_000 + late * (at % 4 == rank) for rank in range(4)] for at in range(12)]
    return advice_of(synchronised(own, [50] * 12))["waiting"]


def _hanging(*, hangs: bool) -> Advice:
    """Findings of three ranks, of which rank 1 may never come to the last collective."""
    whole = synchronised([[500, 600, 700]] * 4, [50_000] * 4)
    is_last = whole["start_ns"] >= whole.groupby("rank")["start_ns"].transform("max")
    hung = whole.assign(duration_ns=whole["duration_ns"] + 10**9 * is_last)[~(is_last & (whole["rank"] == 1))]
    return advice_of(hung if hangs else whole, groups={"g": ("dp", (0, 1, 2))})


_OF_JOB: dict[str, list[Trial]] = {
    "absent_ranks": [
        Trial(
            "load the whole results of rank 3 too",
            lambda: _job("absent_ranks", Faults(slow_ranks={3: 0.5}, absent=frozenset({3}))),
            lambda: _job("absent_ranks", Faults(slow_ranks={3: 0.5})),
        ),
        Trial(
            "see what rank 1 did instead",
            lambda: _hanging(hangs=True)["absent_ranks"],
            lambda: _hanging(hangs=False)["absent_ranks"],
        ),
    ],
    "late_host": [
        Trial(
            "see what it does meanwhile",
            lambda: _job("late_host", Faults(late_hosts={0: 60_000_000})),
            lambda: _job("late_host", Faults()),
        ),
    ],
    "stall": [
        Trial(
            "the host of rank 5",
            lambda: _job("stall", Faults(stalls={(5, 12): 200_000_000})),
            lambda: _job("stall", Faults()),
        ),
    ],
    "slow_rank": [
        Trial(
            "check the clock, temperature and power of its card",
            lambda: _job("slow_rank", Faults(slow_ranks={5: 0.2})),
            lambda: _job("slow_rank", Faults()),
        ),
    ],
    "fast_rank": [
        Trial(
            "compare their kernels",
            lambda: _of_ranks([[1_150, 1_150, 1_150, 1_000]] * 8, 50)["fast_rank"],
            lambda: _of_ranks([[1_150] * 4] * 8, 50)["fast_rank"],
        ),
    ],
    "pipeline_imbalance": [
        Trial("see whether the same kernels take longer", lambda: _uneven(300), lambda: _uneven(1_000))
    ],
    "pipeline_bubble": [
        Trial(
            "more micro-batches",
            lambda: advice_of(played("1F1B", 2, 4))["pipeline_bubble"],
            lambda: advice_of(played("1F1B", 2, 40))["pipeline_bubble"],
        ),
    ],
    "slow_link": [
        Trial(
            "check its ports",
            lambda: _job("slow_link", Faults(slow_links={(2, 3): 6.0})),
            lambda: _job("slow_link", Faults()),
        ),
    ],
    "waiting": [Trial("give every rank the same batch shapes", lambda: _in_turn(800), lambda: _in_turn(0))],
    "exposed_communication": [
        Trial(
            "overlap it with the backward pass",
            lambda: _of_ranks([[1_000, 1_000]] * 5, 500)["exposed_communication"],
            lambda: _of_ranks([[1_000, 1_000]] * 5, 10)["exposed_communication"],
        ),
    ],
}

_PACKAGE = Path(str(package.__file__)).parent


def _trials() -> Iterator[Any]:
    for kind, trials in (("one", _TRIALS), ("job", _OF_JOB)):
        for rule, some in trials.items():
            for at, trial in enumerate(some):
                yield pytest.param(trial, id=f"{kind}-{rule}-{at}")


@pytest.mark.long
@pytest.mark.parametrize("trial", list(_trials()))
def test_followed_actions_silence_their_finding(trial: Trial) -> None:
    before, after = trial.before(), trial.after()
    assert before.state == "fires"
    assert trial.says.lower() in before.action.lower()
    assert after.state == "clean" or before.action != after.action


def _sites(word: str) -> set[tuple[str, int]]:
    """Return where findings with an action are made: the file and the line of each call of `Finding`."""
    return {
        (path.name if path.parent.name != "job_rules" else f"job_rules/{path.name}", node.lineno)
        for folder in ("rules", "job_rules")
        for path in (_PACKAGE / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
        if any(keyword.arg == word for keyword in node.keywords)
    }


@pytest.mark.long
def test_each_action_of_a_rule_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: set[tuple[str, int]] = set()
    make = Finding.__init__

    def made(self: Finding, *words: Any, **fields: Any) -> None:
        make(self, *words, **fields)
        code = sys._getframe(1)
        path = Path(code.f_code.co_filename)
        name = path.name if path.parent.name != "job_rules" else f"job_rules/{path.name}"
        if self.action:
            reached.add((name, code.f_lineno))

    monkeypatch.setattr(Finding, "__init__", made)
    for trials in (*_TRIALS.values(), *_OF_JOB.values()):
        for trial in trials:
            trial.before()
    assert _sites("action") - reached == set(), "a finding with an action has a trial in _TRIALS or _OF_JOB"


# -- causes of idle time -------------------------------------------------------------------------------------------

_CAUSES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "op_compile": ("api", {"name": "opCompile"}),
    "sync_call": ("api", {"name": "aclrtSynchronizeStream"}),
    "dataloader": ("operators", {"name": "enumerate(DataLoader)#_Iter.__next__"}),
    "python_gc": ("marks", {"message": "GC", "thread_id": 1}),
    "alloc": ("api", {"name": "aclrtMalloc"}),
    "copy_call": ("operators", {"name": "aten::copy_"}),
    "optimizer": ("operators", {"name": "Optimizer.step#AdamW.step"}),
    "backward_dispatch": ("operators", {"name": "autograd::engine::evaluate_function: MmBackward0"}),
    "forward_dispatch": ("operators", {"name": "DistributedDataParallel.forward"}),
    "other_operators": ("operators", {"name": "aten::add"}),
    "python": ("python", {"name": "train.py(1): main"}),
}
"""Rows of each cause of idle time that has an action."""


def idle_for(cause: str, time: int, info: Info) -> Finding:
    """The host finding of a step of 1,000 ns whose device is idle for some time because of a cause."""
    name, columns = _CAUSES[cause]
    rows = {name: table(name, [(900 - time, time)], **columns)} if time else {}
    busy = table("kernels", [(0, 900 - time), (900, 100)])
    calls = {"api": table("api", [(0, 1)], name="aclrtLaunchKernel")} if name != "api" or not time else {}
    run = factories.all_tables(steps=table("steps", [(0, 1000)]), kernels=busy, **{**calls, **rows})
    return advise(run, info, account(run))["host_bound"]


_INFOS: Mapping[DeviceName, Info] = {NPU: Info(collector="torch_npu"), GPU: Info(collector="kineto")}


def test_each_cause_with_an_action_has_rows() -> None:
    assert set(_CAUSES) == set(host_causes.LABELS) - {UNEXPLAINED, PROFILER}
    assert {name for name in _CAUSES if of_idle_cause(name)} == set(_CAUSES) - {"python"}  # which lines tell


@pytest.mark.long
@pytest.mark.parametrize("device", list(_INFOS))
@pytest.mark.parametrize("cause", _CAUSES)
def test_the_action_of_a_cause_goes_away_with_it(cause: str, device: DeviceName) -> None:
    before = idle_for(cause, 500, _INFOS[device])
    assert before.state == "fires"
    assert before.cause == (of_idle_cause(cause) or "short")
    assert before.action == BY_NAME[before.cause].action_for(device, _INFOS[device])
    assert idle_for(cause, 50, _INFOS[device]).state == "clean"
    assert idle_for(cause, 0, _INFOS[device]).state == "clean"


_OF_TORCH = re.compile(
    r"torch|DataLoader|TASK_QUEUE|(?<!asnumpy\(\) and )\bitem\(\)|foreach|non_blocking|pinned|pin_memory|bucket_cap|"
    r"DDP|ZeRO|PYTORCH"
)
_FRAMEWORKS = {"mindspore": "mindspore", "tensorflow": "tf.data"}


def _of_torch(told: list[str]) -> list[str]:
    """Return what has words of torch, or the rest of a list whose parts were taken out."""
    return [
        action for action in told if _OF_TORCH.search(action) or not action.strip() or action != action.strip(",; ")
    ]


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_the_actions_of_causes_have_the_words_of_the_framework(framework: str) -> None:
    info = Info(collector=framework)
    told = [idle_for(cause, 500, info).action for cause in _CAUSES if of_idle_cause(cause)]
    told += [actions.for_framework(f"`{call}`", info) for _, call in fusible_repeats._FUSED]
    told += [actions.for_framework(f"`{each.call}`", info) for each in counterparts.COUNTERPARTS]
    assert _of_torch(told) == []
    assert any(_FRAMEWORKS[framework] in action for action in told)


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_a_framework_is_not_told_to_set_variables_of_another(framework: str) -> None:
    assert _allocating().state == "fires"
    assert _allocating(framework).state == "clean"


@pytest.mark.long
@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_the_actions_of_rules_have_the_words_of_the_framework(framework: str) -> None:
    made = [trial.before() for trials in (*_TRIALS.values(), *_OF_JOB.values()) for trial in trials]
    assert _of_torch([finding.action for finding in made]) != []
    chosen = ("environment", "memory_peak")  # ask the collector for variables: see above
    made = [made_of for made_of in made if made_of.rule not in chosen]
    assert [made_of.title for made_of in made if _OF_TORCH.search(f"{made_of.title} {made_of.detail}")] == []
    info = Info(collector=framework)
    found = [actions.for_framework(made_of.action, info) for made_of in made if made_of.cause not in BY_NAME]
    found += [BY_NAME[made_of.cause].action_for(NPU, info) for made_of in made if made_of.cause in BY_NAME]
    assert _of_torch(found) == []


@pytest.mark.parametrize(
    ("cause", "variable"),
    [
        ("forward_dispatch", {"TASK_QUEUE_ENABLE": "2"}),
        ("alloc", {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"}),
    ],
)
def test_set_variable_is_not_named(cause: str, variable: dict[str, str]) -> None:
    (name,) = variable
    unset = idle_for(cause, 500, Info(collector="torch_npu")).action
    action = idle_for(cause, 500, Info(collector="torch_npu", environment=variable)).action
    assert (name in unset, name in action) == (True, False)
    assert action.strip(", ;") == action != ""
    other = Info(collector="torch_npu", environment={name: "1"})
    assert name in idle_for(cause, 500, other).action


# -- in a cell -----------------------------------------------------------------------------------------------------

_CELL = {"<cell [3]>": "train()"}


def test_variables_of_a_kernel_are_set_where_it_starts_anew() -> None:
    environment = {"executable": "python", "ASCEND_LAUNCH_BLOCKING": "1", "ASCEND_GLOBAL_LOG_LEVEL": "0"}
    facts = blocked(environment).facts
    facts.info.code = _CELL
    action = advise(facts.tables, facts.info, facts.accounting)["environment"].detail
    assert "Restart the kernel, and begin with `%env ASCEND_LAUNCH_BLOCKING=0`" in action
    assert "Restart the kernel, and begin with `%env ASCEND_GLOBAL_LOG_LEVEL=3`" in action
    assert _set(ASCEND_LAUNCH_BLOCKING="0", ASCEND_GLOBAL_LOG_LEVEL="3").state == "clean"


def test_short_loop_needs_no_step_marks() -> None:
    kernels_of = table("kernels", [(0, 90), (100, 90)])
    run = factories.all_tables(steps=table("steps", [(0, 100), (100, 100)]), kernels=kernels_of)
    told = advise(run, Info(code=_CELL), account(run))
    assert told["outliers"].collect == "let the loop run for more iterations than 2: at least 6"
    first = factories.all_tables(steps=table("steps", [(0, 900), (900, 90), (990, 90)]), kernels=kernels_of)
    assert advise(first, Info(code=_CELL), account(first))["first_step"].action.startswith("Run two steps in a cell")


@pytest.mark.parametrize("active", [5, 6])
def test_as_many_steps_as_are_named_are_enough(active: int, tmp_path: Path) -> None:
    with npuprof.profile(
        collector="simulator", output=tmp_path, schedule=npuprof.schedule(wait=0, warmup=2, active=active)
    ) as session:
        x = npu.ones((64, 64))
        for _ in range(2 + active):
            x = x * 1.0
            session.step()
    told = [finding.collect for finding in session.result.advice().cannot_tell]
    assert any(text.startswith("record more steps") for text in told) == (active < 6)


@pytest.mark.long
def test_the_command_of_a_script_is_run_as_it_stands(tmp_path: Path) -> None:
    script = tmp_path / "my train.py"
    script.write_text(
        "import time, npuprof\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))\n"
        "for _ in range(6):\n    x = x * 1.0\n    time.sleep(0.005)\n    npuprof.step()\n"
    )
    command = shlex.join(
        ["npuprof", "run", "--collector", "simulator", "--level", "0", "--activities", "npu", str(script)]
    )
    told: list[str] = []
    for _ in range(2):
        output = tmp_path / f"{len(told)}"
        words = [*shlex.split(command)[1:-1], "--no-report", "--output", str(output), shlex.split(command)[-1]]
        subprocess.run([sys.executable, "-m", "npuprof", *words], check=True, timeout=seconds(60), capture_output=True)
        (recorded,) = output.iterdir()
        told.append(npuprof.load(recorded).advice().idle_lines()[0])
        command = told[0].partition("collect with ")[2]
    asked = "npuprof run --collector simulator --level 0 --activities cpu,npu"
    assert told[0].endswith(f"cause not recorded: collect with {asked} {shlex.quote(str(script))}")
    assert "collect with" not in told[1]
