"""Rules about fused operators, the clock, messages, experts and utilization: a run that fires, a clean one, neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables as schema
from npuprof.advice.counterparts import COUNTERPARTS, IGNORED, LETTERS
from npuprof.advice.finding import Finding
from npuprof.advice.findings import advise
from npuprof.analysis.accounting import account
from npuprof.tables.info import Info
from tests import factories
from tests.advice.test_kernel_rules import kernels
from tests.analysis.test_accounting import _BASE, table

_US = 1_000
_CHIP = "Ascend 910B2"
_KERNEL = table("kernels", [(0, 9)])


def finding(
    rule: str, *, run: dict[str, pd.DataFrame] | None = None, chip: str = _CHIP, length_us: int = 1_000, **given: Any
) -> Finding:
    """Return the finding of a rule about a step with some tables, as a dictionary or by name."""
    tables = factories.all_tables(steps=table("steps", [(0, length_us * _US)]), **(run or {}), **given)
    return advise(tables, Info(chip=chip), account(tables))[rule]


# -- operators that launch a kernel each ---------------------------------------------------------------------------


def program(*calls: tuple[str, str, int], within: str = "") -> dict[str, pd.DataFrame]:
    """Operators of 1 us on the host one after the other, and their kernels, of a type and a time in us, behind them."""
    count = len(calls)
    launched = [(name, op_type, time) for name, op_type, time in calls if op_type]
    begins = np.arange(count, dtype=np.int64) * _US + _BASE + 10
    names = [name for name, *_ in calls]
    starts, durations = begins, np.full(count, 900)
    if within:
        starts, durations = np.append(_BASE, starts), np.append(_US * (count + 1), durations)
        names = [within, *names]
    host = {"start_ns": starts, "duration_ns": durations, "name": names}
    rows = len(names)
    operators = schema.build(
        "operators", {**host, "kind": ["op"] * rows, "thread_id": [1] * rows, "id": list(range(rows))}
    )
    run = kernels(*((op_type, time) for _, op_type, time in launched))
    run = run.assign(start_ns=run["start_ns"] + _US * count)
    source = [row + bool(within) for row, (_, op_type, _) in enumerate(calls) if op_type]
    links = schema.build(
        "links",
        {
            "kind": ["operator_api"] * len(source),
            "source_table": ["operators"] * len(source),
            "source_row": source,
            "target_table": ["kernels"] * len(source),
            "target_row": list(range(len(source))),
        },
    )
    return {"operators": operators, "kernels": run, "links": links}


_RMS_NORM = (
    ("aten::to", "Cast", 10),
    ("aten::pow", "Pows", 40),
    ("aten::mean", "ReduceMean", 30),
    ("aten::add", "Adds", 5),
    ("aten::rsqrt", "Rsqrt", 5),
    ("aten::mul", "Mul", 35),
    ("aten::mul", "Mul", 35),
)
_ATTENTION = (
    ("aten::matmul", "BatchMatMul", 100),
    ("aten::mul", "Muls", 30),
    ("aten::masked_fill", "MaskedFill", 30),
    ("aten::softmax", "SoftmaxV2", 50),
    ("aten::matmul", "BatchMatMul", 100),
)


_SWIGLU = (("aten::silu", "Swish", 40), ("aten::linear", "MatMul", 90), ("aten::mul", "Mul", 30))


@pytest.mark.parametrize(
    ("calls", "action", "saved_us"),
    [
        (_RMS_NORM, "torch_npu.npu_rms_norm", 40 + 30 + 5 + 5 + 35 + 35 - 40),
        (_ATTENTION, "torch_npu.npu_fusion_attention", 30 + 30),  # products keep their time, as the longest other
        (
            (("aten::silu", "Swish", 40), ("aten::linear", "MatMul", 90), ("aten::mul", "Mul", 30)),
            "torch_npu.npu_swiglu",
            30,
        ),
    ],
)
def test_operators_with_a_fused_counterpart_are_named(
    calls: tuple[tuple[str, str, int], ...], action: str, saved_us: int
) -> None:
    found = finding("fused_counterparts", run=program(*calls))
    assert (found.state, found.action, found.gain_lo_ns) == ("fires", f"Call `{action}`.", 0)
    assert found.rows["saved_ns"].sum() == saved_us * _US
    assert found.gain_hi_ns <= saved_us * _US  # what a replay of the kernels without that time gains


def test_fused_operators_and_others_need_no_counterpart() -> None:
    fused = (("npu::npu_rms_norm", "RmsNorm", 40), ("npu::npu_fusion_attention", "FlashAttentionScore", 90))
    assert finding("fused_counterparts", run=program(*fused)).state == "clean"
    apart = tuple(call for pair in zip(_RMS_NORM, fused * 4, strict=False) for call in pair)
    assert finding("fused_counterparts", run=program(*apart)).state == "clean"
    assert finding("fused_counterparts", kernels=kernels(("Mul", 40))).state == "cannot tell"


def test_the_backward_pass_of_such_operators_counts_too() -> None:
    run = program(*_RMS_NORM, ("autograd::engine::evaluate_function: MulBackward0", "", 0), ("aten::mul", "Mul", 60))
    operators = run["operators"]
    operators.loc[len(_RMS_NORM), "duration_ns"] = 2 * _US  # the engine's node holds the last operator
    derived = (
        run["links"]
        .iloc[:1]
        .assign(kind="forward_backward", source_row=2, target_table="operators", target_row=len(_RMS_NORM) + 1)
    )
    links = schema.build("links", pd.concat([run["links"].astype(object), derived.astype(object)]).to_dict("list"))
    found = finding("fused_counterparts", run=(run | {"links": links}))
    assert len(found.rows) == 7  # without the cast before
    assert found.rows["saved_ns"].iloc[-1] == 0  # the only kernel of the backward pass is its longest


def test_letters_of_counterparts_exist() -> None:
    names = [name for of_letter in LETTERS.values() for name in of_letter]
    assert len(set(names)) == len(names)
    assert not set(names) & IGNORED
    assert all(set(each.operators.pattern) <= {*LETTERS, *"[]?+|"} for each in COUNTERPARTS)


_ADAM = (("aten::mul_", "Mul"), ("aten::add_", "Axpy"), ("aten::sqrt", "Sqrt"), ("aten::addcdiv_", "Addcdiv"))


def optimizer(tensors: int) -> dict[str, pd.DataFrame]:
    calls = [(name, kind, 2) for _ in range(tensors) for name, kind in _ADAM]
    run = program(*calls, within="Optimizer.step#AdamW.step")
    shapes = [f"{64 + at // len(_ADAM)},32" for at in range(len(calls))]
    run["kernels"]["input_shapes"] = pd.Categorical(shapes)
    return run


def test_optimizer_of_many_kernels_is_told() -> None:
    found = finding("unfused_optimizer", length_us=2_000, run=optimizer(20))
    assert (found.state, len(found.rows), found.cost_ns >= 160 * _US) == ("fires", 80, True)
    assert "NpuFusedAdamW" in found.action
    assert finding("unfused_optimizer", run=optimizer(2)).state == "clean"


def test_an_optimizer_is_also_known_by_its_kernels_alone() -> None:
    alone = optimizer(20)["kernels"]
    assert finding("unfused_optimizer", kernels=alone).state == "fires"
    layers = alone.assign(input_shapes=pd.Categorical(["64,32"] * len(alone)))  # a norm, the same in each layer
    assert finding("unfused_optimizer", kernels=layers).state == "clean"
    fused = kernels(*[("ForeachAddList", 100), ("ApplyAdamWV2", 100)] * 10)
    assert finding("unfused_optimizer", kernels=fused).state == "clean"
    assert (
        finding("unfused_optimizer", kernels=alone.assign(op_type=pd.Categorical([None] * 80))).state == "cannot tell"
    )


def test_synchronising_batch_norms_are_told() -> None:
    run = program(("SyncBatchNorm", "", 0), ("aten::batch_norm_gather_stats", "SyncBatchNormGatherStats", 20))
    collective = table("communication", [(50 * _US, 300 * _US)])
    links = schema.build(
        "links",
        {
            "kind": ["operator_api"] * 2,
            "source_table": ["operators"] * 2,
            "source_row": [1, 0],
            "target_table": ["kernels", "communication"],
            "target_row": [0, 0],
        },
    )
    found = finding("sync_batch_norm", run=(run | {"links": links, "communication": collective}))
    assert (found.state, found.cost_ns) == ("fires", 320 * _US)
    assert "1 kernel of `SyncBatchNorm`" in found.detail
    assert "1 collective take 300 µs while no kernel runs" in found.detail
    assert finding("sync_batch_norm", run=program(("aten::batch_norm", "BatchNorm", 100))).state == "clean"
    assert finding("sync_batch_norm", tasks=table("tasks", [(0, 9)])).state == "cannot tell"


# -- the clock -----------------------------------------------------------------------------------------------------


def with_cycles(clock: list[float], **columns: Any) -> pd.DataFrame:
    """Kernels of equal cycles at these clocks, relative to 1.8 GHz."""
    rows = kernels(*(("MatMulV3", round(100 / each)) for each in clock), block_num=24, **columns)
    frame: pd.DataFrame = rows.assign(aic_total_cycles=pd.array([100 * 1800 * 24] * len(clock), "Int64"))
    return frame


def test_cycles_reveal_a_dropping_clock() -> None:
    found = finding("frequency_drop", length_us=5_000, kernels=with_cycles([1.0] * 20 + [0.8] * 20))
    assert (found.state, len(found.rows)) == ("fires", 20)
    assert found.cost_ns == pytest.approx(20 * 25 * _US, rel=0.01)
    assert found.gain_hi_ns <= found.cost_ns
    assert "at 80 % of the run's best clock" in found.detail


def test_single_slow_kernel_is_no_clock_drop() -> None:
    clock = [1.0] * 20
    clock[7] = 0.5  # one kernel of its kind began late
    assert finding("frequency_drop", length_us=5_000, kernels=with_cycles(clock)).state == "clean"
    rows = with_cycles([1.0] * 10 + [0.8] * 10)
    stalled = rows.assign(aic_total_cycles=rows["duration_ns"] * 43)  # as many cycles more as it takes longer
    assert finding("frequency_drop", length_us=5_000, kernels=stalled).state == "clean"
    assert finding("frequency_drop", kernels=kernels(("Mul", 100))).state == "cannot tell"


def samples_of_clock(*pairs: tuple[int, float]) -> pd.DataFrame:
    moments, values = zip(*pairs, strict=True)
    count = len(pairs)
    return schema.build(
        "counters",
        {
            "time_ns": np.array(moments, np.int64) * _US + _BASE,
            "device_id": [0] * count,
            "counter": ["AI Core Freq"] * count,
            "instance": [None] * count,
            "value": list(values),
            "unit": ["MHz"] * count,
        },
    )


def test_samples_of_the_clock_count_within_kernels_alone() -> None:
    rows = kernels(*[("MatMulV3", 100)] * 8)
    slow = samples_of_clock(*((100 * at + 50, 1800 if at < 4 else 900) for at in range(8)))
    found = finding("frequency_drop", kernels=rows, counters=slow)
    assert (found.state, found.cost_ns, "samples of the clock" in found.detail) == ("fires", 200 * _US, True)
    idle = samples_of_clock(*((100 * at + 50, 1800) for at in range(8)), (820, 800), (870, 800), (110, 800))
    assert finding("frequency_drop", kernels=rows, counters=idle).state == "clean"


# -- messages between ranks ----------------------------------------------------------------------------------------


def transfers(
    sizes: list[int], times_us: list[int], *, op_type: str = "hcom_allReduce_", peers: list[int] | None = None
) -> dict[str, pd.DataFrame]:
    """A collective with a transfer after the other, to these peers."""
    count = len(sizes)
    lengths = np.array(times_us, np.int64) * _US
    starts = np.cumsum(lengths) - lengths
    whole = [(0, int(lengths.sum()))]
    moves = schema.build(
        "communication_tasks",
        {
            "start_ns": starts + _BASE,
            "duration_ns": lengths,
            "device_id": [0] * count,
            "op_id": [0] * count,
            "task_type": ["Memcpy"] * count,
            "src_rank": [0] * count,
            "dst_rank": peers or [1] * count,
            "transport": ["SDMA"] * count,
            "size_bytes": sizes,
        },
    )
    of_device = table("tasks", [(0, 1)], name="EVENT", task_type="EVENT")
    return {
        "communication": table("communication", whole, op_type=op_type, group="g"),
        "communication_tasks": moves,
        "tasks": of_device,
    }


def test_unaligned_messages_cost_their_extra_time() -> None:
    aligned, odd = 1 << 20, (1 << 20) + 36
    found = finding("unaligned_messages", run=transfers([aligned] * 4 + [odd] * 4, [50] * 4 + [100] * 4))
    assert (found.state, found.cost_ns, len(found.rows)) == ("fires", 400 * _US, 4)
    assert found.gain_hi_ns == pytest.approx(200 * _US, rel=0.01)
    assert "the largest of 1,048,612 bytes" in found.detail


def test_small_remainders_of_buffers_are_no_unaligned_messages() -> None:
    assert finding("unaligned_messages", run=transfers([1 << 20] * 9 + [1000], [100] * 9 + [10])).state == "clean"
    assert finding("unaligned_messages", run=transfers([4] * 8, [100] * 8)).state == "clean"
    assert (
        finding("unaligned_messages", kernels=_KERNEL, communication=table("communication", [(0, 9)])).state
        == "cannot tell"
    )
    assert finding("unaligned_messages", kernels=kernels(("Mul", 9))).state == "clean"


def beside_kernels(rates_beside: int, *, op_type: str = "Add") -> dict[str, pd.DataFrame]:
    """Six transfers alone in 100 us each, and six beside kernels in `rates_beside` us."""
    run = transfers([1 << 20] * 12, [100] * 6 + [rates_beside] * 6)
    count = 6 * rates_beside // 10
    rows = kernels(
        *[(op_type, 10)] * count,
        input_shapes="4096,4096;4096,4096",
        output_shapes="4096,4096",
        input_dtypes="FLOAT16;FLOAT16",
    )
    return run | {"kernels": rows.assign(start_ns=rows["start_ns"] + 600 * _US)}


def test_transfers_beside_memory_bound_kernels_compete() -> None:
    found = finding("contention", length_us=3_000, run=beside_kernels(200))
    assert (found.state, found.cost_ns, len(found.rows)) == ("fires", 600 * _US, 6)
    assert "50 % of the rate" in found.detail
    assert "Add" in found.detail
    assert finding("contention", length_us=3_000, run=beside_kernels(105)).state == "clean"
    assert finding("contention", chip="", run=beside_kernels(200)).state == "cannot tell"


def test_an_expert_that_gets_more_tokens_is_named() -> None:
    sizes, peers = [4 << 20, 1 << 20, 1 << 20, 1 << 20], [1, 2, 3, 4]
    uneven = transfers(sizes, [400, 100, 100, 100], op_type="hcom_alltoallv_", peers=peers)
    found = finding("expert_imbalance", run=uneven)
    assert (found.state, found.place) == ("fires", "member 1")
    assert "2.3 times the mean" in found.detail
    assert found.cost_ns == pytest.approx(700 * _US * (1 - 1.75 / 4), rel=0.01)


def test_equal_bytes_may_be_padded_and_tell_nothing_of_experts() -> None:
    even = transfers([1 << 20] * 4, [100] * 4, op_type="hcom_alltoallv_", peers=[1, 2, 3, 4])
    found = finding("expert_imbalance", run=even)
    assert (found.state, "padded" in found.collect) == ("cannot tell", True)
    nearly = transfers([1 << 20, 1100 << 10, 1 << 20], [100] * 3, op_type="hcom_alltoallv_", peers=[1, 2, 3])
    assert finding("expert_imbalance", run=nearly).state == "clean"
    assert finding("expert_imbalance", run=transfers([9], [9])).state == "clean"  # no all-to-all
    without = table("communication", [(0, 9)], op_type="hcom_alltoall_")
    assert finding("expert_imbalance", kernels=_KERNEL, communication=without).state == "cannot tell"


# -- the whole chip ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length_us", "state"), [(4_000, "clean"), (40_000, "fires")])
def test_operations_are_a_share_of_the_peak(length_us: int, state: str) -> None:
    shape = {"core": "AI_CORE", "input_shapes": "8192,8192;8192,8192", "input_dtypes": "FLOAT16;FLOAT16"}
    rows = kernels(("MatMulV3", 3_900), output_shapes="8192,8192", **shape)  # 1.1e12 operations: 3107 us at the peak
    found = finding("utilization", length_us=length_us, kernels=rows)
    assert (found.state, found.gain_hi_ns, found.is_risk) == (state, 0, state == "fires")
    assert found.detail.startswith(f"{2 * 8192**3 / length_us / 1e6:.1f} TFLOPS over the whole step")
    assert f"{100 * 3_107 / length_us:.1f} % of the chip's peak" in found.title or state == "clean"
    assert finding("utilization", chip="", kernels=rows).state == "cannot tell"
    unknown = rows.assign(input_shapes=pd.Categorical([None]))
    assert finding("utilization", kernels=unknown).state == "cannot tell"


# -- real results --------------------------------------------------------------------------------------------------


_OF_KERNELS = ("fused_counterparts", "unfused_optimizer", "frequency_drop", "sync_batch_norm")
_OF_TRANSFERS = ("unaligned_messages", "contention", "expert_imbalance")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "torch_npu/text/level1/rank0_ascend_pt",
        "torch_npu/db/level1/rank0_ascend_pt",
        "torch_npu/llm_4ranks/rank_2_ascend_pt",
        "torch_npu/cann7_2023/trace_view.json",
        "raw/model_step",
        "raw/sliced_2k",
    ],
)
def test_real_results_without_these_problems_have_none_of_these_findings(samples: Path, name: str) -> None:
    advice = npuprof.load(samples / name).advice()
    assert [rule for rule in (*_OF_KERNELS, *_OF_TRANSFERS) if advice[rule].state == "fires"] == []


@pytest.mark.slow
def test_real_message_sizes_are_unaligned(samples: Path) -> None:
    found = npuprof.load(samples / "msprof/cann6_graph_mode").advice()["unaligned_messages"]
    assert (found.state, "28,092,288 bytes" in found.detail) == ("fires", True)
