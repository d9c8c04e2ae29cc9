"""How near kernels come to what the chip can do."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.chip_limits import LIMITS, measured_limits
from npuprof.analysis.efficiency import efficiency
from npuprof.analysis.kernel_flops import bytes_from_shapes, flops_range
from npuprof.errors import OptionsError
from tests import factories

_TERA = 1e12


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 300), st.integers(1, 300), st.integers(1, 64))
def test_attention_of_any_layout_has_the_same_operations(b: int, n: int, q: int, kv: int, d: int) -> None:
    if b == q:
        return  # which dimension is the batch is then nobody's to tell
    told = []
    for query, key in (((b, q, n * d), (b, kv, n * d)), ((q, b, n * d), (kv, b, n * d)), ((b, q, n, d), (b, kv, n, d))):
        inputs = [query, key, key, (), (), (), ()]
        kernel = {
            "op_type": "FlashAttentionScore",
            "input_shapes": ";".join(",".join(map(str, shape)) for shape in inputs),
            "output_shapes": f"{b},{n},{q},8;{b},{n},{q},8;;{','.join(map(str, query))}",
        }
        told.append(flops_range(kernel))
    assert set(told) == {(4.0 * b * n * q * kv * d,) * 2}


def test_causal_mask_and_gradient_change_the_cost() -> None:
    forward = {
        "op_type": "FlashAttentionScore",
        "input_shapes": "4096,1,2048;4096,1,1024;4096,1,1024;;;;2048,2048;;;;;;;;",
        "output_shapes": "1,16,4096,8;1,16,4096,8;;4096,1,2048",
    }
    most = 4.0 * 16 * 4096 * 4096 * 128
    assert flops_range(forward) == (most / 2, most)
    shapes = "4096,1,2048;4096,1,1024;4096,1,1024;4096,1,2048;2048,2048;1,16,4096,8;1,16,4096,8;;4096,1,2048"
    backward = {"op_type": "FlashAttentionScoreGrad", "input_shapes": shapes, "output_shapes": "4096,1,2048"}
    assert flops_range(backward) == (2.5 * most / 2, 2.5 * most)
    of_many_lengths = {**forward, "output_shapes": "4096,16,8;4096,16,8;;4096,16,128"}
    assert math.isnan(flops_range(of_many_lengths)[0])


@pytest.mark.parametrize(
    ("kernel", "flops", "size"),
    [
        (("GroupedMatmul", "64,32;4,32,16;4", "BF16;BF16;INT64", "64,16", "BF16"), 2.0 * 64 * 32 * 16, 10_272),
        (("ApplyAdamWV2", "100;100;100;100;1", "FLOAT;FLOAT;FLOAT;FLOAT;INT64", None, None), 1_400.0, 2_808),
        (("GatherV2", "1000,8;4;1", "BF16;INT64;INT64", "4,8", "BF16"), 0.0, 168),
        (("ZerosLike", "1000", "FLOAT", "1000", "FLOAT"), 0.0, 4_000),
        (("RmsNormGrad", "4,8;4,8;4,1;8", "BF16;BF16;FLOAT;BF16", "4,8;8", "BF16;FLOAT"), 256.0, 256),
        (("ForeachAddList", "3;4;3;4", "FLOAT;FLOAT;FLOAT;FLOAT", "3;4", "FLOAT;FLOAT"), 14.0, 84),
        (("Cast", "10", "FLOAT", "10", "BF16"), 0.0, 60),
    ],
)
def test_operations_and_bytes_by_definition(
    kernel: tuple[str, str, str, str | None, str | None], flops: float, size: float
) -> None:
    names = ("op_type", "input_shapes", "input_dtypes", "output_shapes", "output_dtypes")
    row: dict[str, object] = dict(zip(names, kernel, strict=True))
    assert flops_range(row) == (flops, flops)
    assert bytes_from_shapes(row) == size


def counted(core: str, cores: int, mhz: float, blocks: list[int]) -> pd.DataFrame:
    """Return kernels with the counters that a chip with these cores writes: time is cycles over clock and blocks."""
    block = np.array(blocks)
    rounds = np.ceil(block / cores)
    cycles = 20_000.0 * mhz * block / 1e3
    kernels: pd.DataFrame = pd.DataFrame(
        {
            "core": {"aic": "AI_CORE", "aiv": "AI_VECTOR_CORE"}[core],
            "block_num": pd.array(blocks, "Int64"),
            f"{core}_total_cycles": cycles,
            f"{core}_total_time_ns": cycles / mhz / block * rounds * 1e3,
        }
    )
    return kernels


def test_clock_and_cores_come_out_of_the_counters() -> None:
    cube, vector = counted("aic", 20, 1650, [20, 20, 18, 7]), counted("aiv", 40, 1650, [40] * 4 + [256, 39])
    kernels = pd.concat([cube, vector], ignore_index=True)
    limits, differs = measured_limits(kernels, "")
    assert limits is not None
    assert [limits.cube_cores, limits.vector_cores, limits.mhz, differs] == [20, 40, 1650.0, ""]
    assert limits.cube_flops_per_s == 20 * 1650e6 * 8192
    limits, differs = measured_limits(kernels, "Ascend910B2")
    assert limits is not None
    assert limits.mhz == 1650
    assert "Ascend 910B2 has 24 and 48 at 1800 MHz" in differs


def test_family_name_gets_the_variants_limits() -> None:
    kernels = pd.concat([counted("aic", 20, 1500, [20] * 4), counted("aiv", 40, 1500, [40] * 4)], ignore_index=True)
    limits, differs = measured_limits(kernels, "Ascend 910B")
    assert limits is not None
    assert (limits.name, differs) == ("like Ascend 910B4 or 910B4-1 or 910_9362, by cores and clock", "")
    assert limits.cube_flops_per_s == LIMITS["ascend910b4"].cube_flops_per_s
    assert math.isnan(limits.memory_bytes_per_s)  # a die of the 910C has another one


def test_more_blocks_than_cores_are_several_rounds() -> None:
    """Kernels of 256 blocks seem to run at a sixth of the clock: that is of 43 to 51 cores, and 48 ran at once."""
    kernels = pd.concat([counted("aic", 24, 1800, [24] * 3), counted("aiv", 48, 1800, [256, 256, 48, 30])])
    limits, _ = measured_limits(kernels, "")
    assert limits is not None
    assert limits.name == "like Ascend 910B2, by cores and clock"


@pytest.mark.slow
def test_named_chip_gives_limits_without_counters() -> None:
    kernels = factories.profile(20)["kernels"]
    assert measured_limits(kernels, "Ascend 910_9362")[0] is LIMITS["ascend9109362"]
    assert measured_limits(kernels, "what") == (None, "")
    table = efficiency(factories.profile(20), "")
    assert table["efficiency"].isna().all()
    assert "the chip is unknown" in table.attrs["notes"][0]


@pytest.mark.slow
def test_rows_are_of_all_kernels_and_a_wrong_choice_is_reported() -> None:
    run = factories.profile(50)
    for each in ("shapes", "kernel"):
        table = efficiency(run, "Ascend 910B", each=each)
        assert int(table["total_ns"].sum()) == int(run["kernels"]["duration_ns"].sum())
        assert int(table["count"].sum()) == 50
        assert table["share"].sum() == pytest.approx(1)
    assert not len(efficiency(factories.all_tables(), "Ascend 910B"))
    with pytest.raises(OptionsError, match="'shapes' or 'kernel'"):
        efficiency(run, "", each="name")  # type: ignore[arg-type]


def test_more_than_the_roof_is_reported() -> None:
    run = factories.profile(5)
    run["kernels"] = run["kernels"].assign(
        op_type=pd.Categorical(["MatMulV3"] * 5),
        input_shapes=pd.Categorical(["8192,8192;8192,8192"] * 5),
        input_dtypes=pd.Categorical(["BF16;BF16"] * 5),
        output_shapes=pd.Categorical(["8192,8192"] * 5),
        output_dtypes=pd.Categorical(["BF16"] * 5),
    )
    (row,) = efficiency(run, "Ascend 910B2").to_dict("records")
    assert row["efficiency"] > 1.1
    assert row["note"] == "shape or peak is wrong"
    roof_ns = int(row["roof_ns"])
    for duration_ns, note in ((roof_ns - roof_ns // 20, "at the roof: above 1"), (roof_ns + roof_ns // 20, "")):
        run["kernels"] = run["kernels"].assign(duration_ns=duration_ns)
        (row,) = efficiency(run, "Ascend 910B2").to_dict("records")
        assert row["note"].partition(" by")[0] == note


def test_unknown_operations_give_no_bound() -> None:
    run = factories.profile(5)
    run["kernels"] = run["kernels"].assign(op_type=pd.Categorical(["MaxPoolWithArgmaxV1"] * 5))
    table = efficiency(run, "Ascend 910B2")
    assert table["flops"].isna().all()
    assert (table["bound"] == "").all()
    assert table["of_best"].isna().all()


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "best", "mean"), [(0, 217.2, 186.5), (2, 231.7, 152.4)])
def test_the_products_of_real_ranks(rank: int, best: float, mean: float, samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu" / "llm_4ranks" / f"rank_{rank}_ascend_pt")
    table = run.efficiency()
    assert table.attrs["coverage_bytes"] > 0.9
    assert table.attrs["coverage_flops"] > 0.99
    assert table.attrs["chip"] == "20 cube and 40 vector cores at 1650 MHz"
    products = table[table["op_type"].astype(str).str.startswith("MatMul")]
    assert products["flops_per_s"].max() / _TERA == pytest.approx(best, abs=0.1)
    whole = (products["flops"] * products["count"]).sum() / products["total_ns"].sum() * 1e9
    assert whole / _TERA == pytest.approx(mean, abs=0.1)
    large = table[(table["bytes"] > 1e9) & (table["bound"] == "memory")]
    assert large["bytes_per_s"].between(0.58e12, 0.80e12).all()


@pytest.mark.slow
def test_convolutions_of_a_real_run_have_no_padded_channels(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu" / "text" / "level1" / "rank0_ascend_pt")
    table = run.efficiency()
    first = table[table["input_shapes"].astype(str).str.startswith("32,1,224,224,8;")]
    assert set(first["flops"]) == {2.0 * 32 * 55 * 55 * 64 * 3 * 11 * 11}
    assert table.attrs["chip"] == "like Ascend 910B2, by cores and clock"


@pytest.mark.parametrize(("call", "named"), [("aclrtLaunchKernel", "910B3"), ("cudaLaunchKernel", "this GPU")])
def test_unknown_limits_are_asked_for(call: str, named: str) -> None:
    frames = factories.profile(6)
    frames["api"] = frames["api"].assign(name=pd.Categorical([call] * len(frames["api"])))
    (note,) = efficiency(frames, "").attrs["notes"]
    assert named in note
