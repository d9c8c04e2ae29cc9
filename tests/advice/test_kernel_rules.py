"""Rules about kernels and memory, each on a run that fires, one that is clean and one that cannot tell."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.advice.finding import Finding
from npuprof.advice.findings import advise
from npuprof.analysis.accounting import account
from npuprof.analysis.repeats import repeats
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import _BASE, table
from tests.budget import examples

_US = 1_000
_CHIP = "Ascend 910B2"  # 24 cube and 48 vector cores at 1800 MHz, 64 GiB


def finding(rule: str, *, chip: str = _CHIP, length_us: int = 1_000, **given: pd.DataFrame) -> Finding:
    run = factories.all_tables(steps=table("steps", [(0, length_us * _US)]), **given)
    return advise(run, Info(chip=chip), account(run))[rule]


def kernels(*rows: tuple[str, int], **columns: Any) -> pd.DataFrame:
    """Kernels of a type and a duration in microseconds, one after another."""
    durations = np.array([row[1] for row in rows], np.int64) * _US
    shared: dict[str, Any] = {
        "device_id": 0,
        "stream_id": 1,
        "core": "AI_VECTOR_CORE",
        "task_type": "KERNEL_AIVEC",
        "input_shapes": "1024,1024",
        "input_dtypes": "FLOAT16",
        "output_shapes": "1024,1024",
        "output_dtypes": "FLOAT16",
    } | columns
    return npuprof.tables.build(
        "kernels",
        {
            "start_ns": _BASE + np.cumsum(durations) - durations,
            "duration_ns": durations,
            "name": [row[0] for row in rows],
            "op_type": [row[0] for row in rows],
            **{name: value if isinstance(value, list) else [value] * len(rows) for name, value in shared.items()},
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "core", "lost_us"),
    [
        (12, "AI_VECTOR_CORE", 75),  # 12 of 48 cores
        (12, "AI_CORE", 50),  # 12 of 24 cores
        (72, "AI_VECTOR_CORE", 25),  # two rounds, the second one half full
        (48, "AI_VECTOR_CORE", 0),
        (96, "AI_VECTOR_CORE", 0),
    ],
)
def test_cores_without_a_block_are_time_that_could_be_saved(blocks: int, core: str, lost_us: int) -> None:
    found = finding("unused_cores", kernels=kernels(("Add", 100), ("Mul", 19), block_num=blocks, core=core))
    assert (found.state, found.cost_ns) == ("fires" if lost_us else "clean", lost_us * _US)
    assert list(found.rows.get("op_type", [])) == ["Add"][: bool(lost_us)]  # 19 us mostly start and end


@pytest.mark.slow
def test_without_blocks_or_chip_unused_cores_are_unknown() -> None:
    assert finding("unused_cores", kernels=kernels(("Add", 100))).state == "cannot tell"
    assert finding("unused_cores", kernels=kernels(("Add", 100), block_num=1), chip="").state == "cannot tell"


def product(m: int, n: int, k: int) -> dict[str, Any]:
    return {"core": "AI_CORE", "input_shapes": f"{m},{k};{k},{n}", "input_dtypes": "FLOAT16;FLOAT16"} | {
        "output_shapes": f"{m},{n}"
    }


@pytest.mark.slow
def test_products_far_below_the_best_of_the_run_are_named() -> None:
    shape = product(8192, 8192, 8192)  # 1.1e12 operations: 3107 us at the peak
    rows = [("MatMulV3", 4_000), ("MatMulV3", 4_000), ("MatMulV3", 20_000)]
    slow = finding("cube_efficiency", length_us=30_000, kernels=kernels(*rows, **shape))
    assert (slow.state, slow.rows.index.tolist(), slow.cost_ns) == ("fires", [2], 20_000 * _US)
    # At 70 % of the peak it would take 4438 us.
    assert slow.gain_hi_ns / _US == pytest.approx(20_000 - 4_438, rel=0.01)
    assert "MatMulV3 8192,8192;8192,8192 (1 time, 20.0 ms)" in slow.detail
    even = finding("cube_efficiency", length_us=30_000, kernels=kernels(*rows[:2], **shape))
    assert even.state == "clean"
    assert finding("cube_efficiency", kernels=kernels(*rows, **shape), chip="").state == "cannot tell"


@pytest.mark.slow
def test_attention_that_may_be_causal_is_not_called_slow(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/llm_4ranks/rank_0_ascend_pt")
    assert run.advice()["cube_efficiency"].state == "clean"


@pytest.mark.slow
def test_of_the_llm_the_product_of_the_vocabulary_is_slow(samples: Path) -> None:
    found = npuprof.load(samples / "torch_npu/llm_4ranks/rank_2_ascend_pt").advice()["cube_efficiency"]
    assert found.state == "fires"
    assert "MatMulV3 4096,151936;151936,1024 (2 times" in found.detail
    assert found.cost_ns / 1e6 == pytest.approx(36.8, abs=0.05)


_NORM = ("Square", "ReduceMean", "Rsqrt", "Mul")


def norms(times: int, between: str, took_us: int = 20) -> pd.DataFrame:
    """Kernels of a norm, and one other kernel after each."""
    return kernels(*[(kind, took_us) for _ in range(times) for kind in (*_NORM, between)])


@pytest.mark.slow
def test_repeated_sequences_name_their_saving() -> None:
    found = finding("fusible_repeats", kernels=norms(6, "MatMulV3"))
    assert (found.state, len(found.rows), found.cost_ns) == ("fires", 24, 6 * 80 * _US)
    assert "Square, ReduceMean, Rsqrt, Mul (6 times)" in found.detail
    assert found.action == "Use one operator: `torch_npu.npu_rms_norm`."
    # One kernel takes at least as long as the longest of the four.
    assert 6 * 40 * _US < found.gain_hi_ns <= 6 * 60 * _US
    assert finding("fusible_repeats", kernels=norms(4, "MatMulV3")).state == "clean"  # not often enough
    assert finding("fusible_repeats", kernels=norms(6, "MatMulV3"), chip="").state == "cannot tell"


@pytest.mark.slow
def test_kernels_that_do_not_read_each_others_results_are_no_sequence() -> None:
    rows = norms(6, "MatMulV3")
    apart = rows.assign(output_shapes=pd.Categorical(["7,7"] * len(rows)))
    assert finding("fusible_repeats", kernels=apart).state == "clean"
    streams = rows.assign(stream_id=np.arange(len(rows)) % 2)
    assert "Square, ReduceMean" not in finding("fusible_repeats", kernels=streams).detail


@given(st.lists(st.integers(-1, 3), max_size=60), st.integers(2, 4))
@settings(max_examples=examples(60), deadline=None)
def test_repeats_are_equal_apart_and_often_enough(codes: list[int], at_least: int) -> None:
    values = np.array(codes, np.int64)
    taken: list[int] = []
    for length, places in repeats(values, at_least=at_least, most=5):
        assert 2 <= length <= 5
        assert len(places) >= at_least
        parts = [tuple(codes[place : place + length]) for place in places.tolist()]
        assert len(set(parts)) == 1
        assert -1 not in parts[0]
        taken += [place + at for place in places.tolist() for at in range(length)]
    assert len(taken) == len(set(taken))
    free = [code if at not in set(taken) else -1 for at, code in enumerate(codes)]
    pairs = [pair for pair in itertools.pairwise(free) if -1 not in pair and pair[0] != pair[1]]
    for pair in set(pairs):  # what is left does not come often enough, counted without overlap
        assert _apart(free, pair) < at_least


def _apart(codes: list[int], wanted: tuple[int, int]) -> int:
    found, place = 0, 0
    while place < len(codes) - 1:
        hit = (codes[place], codes[place + 1]) == wanted
        found, place = found + hit, place + (2 if hit else 1)
    return found


def test_a_sequence_of_sequences_is_found_as_the_short_one() -> None:
    ((length, places),) = repeats(np.tile([0, 1, 2], 20).astype(np.int64), at_least=5)
    assert (length, len(places)) == (3, 20)


def operators(*rows: tuple[str, int, int], shapes: str = "[[4,4]]") -> pd.DataFrame:
    """Operators of one thread with a start and a duration in microseconds."""
    return npuprof.tables.build(
        "operators",
        {
            "start_ns": np.array([row[1] for row in rows], np.int64) * _US + _BASE,
            "duration_ns": np.array([row[2] for row in rows], np.int64) * _US,
            "name": [row[0] for row in rows],
            "thread_id": np.ones(len(rows), np.int64),
            "kind": ["op"] * len(rows),
            "input_shapes": [shapes] * len(rows),
            "id": np.arange(len(rows)),
        },
    )


_FORWARD = ("aten::linear", "aten::gelu", "aten::linear")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "state"), [(_FORWARD, "fires"), (("aten::mm", "aten::gelu_backward", "aten::mm"), "clean")]
)
def test_forward_operators_in_the_backward_pass_are_recomputed(second: tuple[str, ...], state: str) -> None:
    calls = operators(
        *[(name, 10 * at, 10) for at, name in enumerate(_FORWARD)],
        ("autograd::engine::evaluate_function: CheckpointBackward", 100, 30),
        *[(name, 100 + 10 * at, 10) for at, name in enumerate(second)],
    )
    rows = kernels(("MatMulV3", 10), ("Gelu", 10), ("MatMulV3", 10), *[("Again", 20)] * 3)
    links = npuprof.tables.build(
        "links",
        {
            "kind": ["api_task"] * 6,
            "source_table": ["operators"] * 6,
            "source_row": np.array([0, 1, 2, 4, 5, 6]),
            "target_table": ["kernels"] * 6,
            "target_row": np.arange(6),
        },
    )
    found = finding("recompute", kernels=rows, operators=calls, links=links)
    assert (found.state, found.cost_ns) == (state, 60 * _US * (state == "fires"))
    assert set(found.rows.get("op_type", [])) == ({"Again"} if state == "fires" else set())
    alone = finding("recompute", kernels=rows, operators=calls[:3], links=links[:3])
    assert alone.state == "clean"  # torch ran no backward pass
    unshaped_calls = calls.assign(input_shapes=pd.Series(pd.NA, calls.index, dtype="category"))
    unshaped = finding("recompute", kernels=rows, operators=unshaped_calls, links=links)
    assert (unshaped.state, unshaped.collect) == ("cannot tell", "collect with --activities cpu,npu --shapes")


def memory(*samples: tuple[str, float | None, float]) -> pd.DataFrame:
    """Samples of a component: allocated and reserved GiB."""
    gib = 1 << 30
    return npuprof.tables.build(
        "memory",
        {
            "time_ns": np.arange(len(samples)) + _BASE,
            "device_id": np.zeros(len(samples), np.int64),
            "component": [one[0] for one in samples],
            "allocated_bytes": pd.array([None if one[1] is None else round(one[1] * gib) for one in samples], "Int64"),
            "reserved_bytes": pd.array([round(one[2] * gib) for one in samples], "Int64"),
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("samples", "title"),
    [
        ([("PTA", 55.0, 58.0), ("APP", None, 60.0)], "Device memory is nearly full"),
        ([("PTA", 30.0, 40.0)], "Device memory is fragmented"),
        ([("PTA", 38.0, 40.0)], ""),
        ([("PTA", 3.0, 4.0)], ""),  # in pieces, but nothing is at risk
    ],
)
def test_memory_that_is_full_or_in_pieces(samples: list[tuple[str, float | None, float]], title: str) -> None:
    found = finding("memory_peak", memory=memory(*samples), kernels=kernels(("Add", 900)))
    assert (found.state, found.title.partition(":")[0]) == ("fires" if title else "clean", title)
    if title:
        run = factories.all_tables(
            memory=memory(*samples), kernels=kernels(("Add", 900)), steps=table("steps", [(0, 10**6)])
        )
        (risk,) = advise(run, Info(chip=_CHIP), account(run)).risks
        assert risk.title.startswith(title)


def test_without_samples_memory_is_unknown() -> None:
    found = finding("memory_peak", kernels=kernels(("Add", 900)))
    assert (found.state, found.collect) == ("cannot tell", "collect with --memory")


@pytest.mark.slow
def test_cores_unused_by_real_runs_are_below_a_per_cent(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/text/level1/rank0_ascend_pt")
    found = run.advice()["unused_cores"]
    assert (found.state, found.cost_ns / 1e6) == ("clean", pytest.approx(0.8, abs=0.05))


def test_parallel_kernels_gain_their_common_time() -> None:
    casts = table("kernels", [(0, 800 * _US), (0, 800 * _US)], op_type="Cast")
    collective = table("communication", [(900 * _US, 50 * _US)])  # without the other ranks nothing is replayed
    found = finding("layout_and_casts", kernels=casts, communication=collective)
    assert (found.cost_ns, found.gain_hi_ns, found.confidence) == (800 * _US, 800 * _US, "bounded")
