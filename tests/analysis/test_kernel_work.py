"""Operations and bytes of kernels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import profile
from npuprof.analysis.kernel_flops import bytes_from_shapes, flops_range, shapes
from npuprof.analysis.kernel_work import COUNTED, FROM_SHAPES, kernel_work
from npuprof.simulator import npu
from tests import factories

_sizes = st.integers(1, 400)


def written(*sides: tuple[int, ...]) -> str:
    return ";".join(",".join(map(str, shape)) for shape in sides)


@given(_sizes, _sizes, _sizes, st.integers(1, 9), st.booleans(), st.booleans())
def test_transposed_products_cost_the_same(m: int, n: int, k: int, batch: int, left: bool, right: bool) -> None:
    one, other = (batch, *((k, m) if left else (m, k))), (batch, *((n, k) if right else (k, n)))
    kernel = {"op_type": "BatchMatMulV2", "input_shapes": written(one, other), "output_shapes": written((batch, m, n))}
    assert flops_range(kernel)[0] == 2 * batch * m * n * k


def test_a_bias_and_a_tiled_weight_change_nothing() -> None:
    kernel = {
        "op_type": "MatMulV3",
        "input_shapes": "32,64;8,4,16,16;128",
        "input_formats": "ND;FRACTAL_NZ;ND",
        "output_shapes": "32,128",
    }
    assert flops_range(kernel)[0] == 2 * 32 * 64 * 128


def test_a_convolution_counts_each_weight_at_each_place() -> None:
    kernel = {
        "op_type": "Conv2D",
        "input_shapes": "32,3,224,224;64,3,11,11;64",
        "input_formats": "NCHW;NCHW;ND",
        "output_shapes": "32,64,55,55",
    }
    assert flops_range(kernel)[0] == 2 * 32 * 55 * 55 * 64 * 3 * 11 * 11


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "flops"),
    [
        ("Add", "4,8;4,8", "4,8", 32),
        ("SoftmaxV2", "4,8", "4,8", 160),
        ("ReduceSum", "4,8;1", "4", 32),
        ("TransData", "4,8", "4,8", 0),
        ("Mystery", "4,8", "4,8", math.nan),
        ("MatMul", "4,8;9,9", "4,8", math.nan),
        ("MatMul", "4;4", "4", math.nan),
        ("Add", "", "", math.nan),
        ("Add", "4,x", "4,8", math.nan),
        ("Add", "4,8", "-1,8", math.nan),
    ],
)
def test_operations_by_definition(op_type: str, inputs: str, outputs: str, flops: float) -> None:
    found, _ = flops_range({"op_type": op_type, "input_shapes": inputs, "output_shapes": outputs})
    assert found == flops or (math.isnan(flops) and math.isnan(found))


def test_bytes_are_those_of_all_operands() -> None:
    kernel = {
        "input_shapes": "4,8;",
        "input_dtypes": "DT_BF16;INT64",
        "output_shapes": '"4,8"',
        "output_dtypes": "FLOAT",
    }
    assert bytes_from_shapes(kernel) == 4 * 8 * 2 + 8 + 4 * 8 * 4
    assert math.isnan(bytes_from_shapes({**kernel, "input_dtypes": "WHAT;INT64"}))
    assert math.isnan(bytes_from_shapes({**kernel, "output_dtypes": float("nan")}))


@pytest.mark.parametrize("text", ["9" * 40, "1,2;nan", "²,2", "1e9", "4,,2", None, 7])
def test_malformed_shape_is_not_read(text: object) -> None:
    assert shapes(text) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("metrics", "flops_from", "bytes_from"),
    [
        ("PipeUtilization", FROM_SHAPES, FROM_SHAPES),
        ("ArithmeticUtilization", COUNTED, FROM_SHAPES),
        ("Memory", FROM_SHAPES, COUNTED),
    ],
)
def test_counters_and_shapes_agree_on_the_simulated_npu(
    metrics: str, flops_from: str, bytes_from: str, tmp_path: Path
) -> None:
    with profile(level=1, collector="simulator", aic_metrics=metrics, output=tmp_path) as prof:
        x, y = npu.array(np.zeros((256, 512), np.float32)), npu.array(np.ones((512, 128), np.float32))
        _ = np.exp(x @ y) + 1
        npu.synchronize()
    work = kernel_work(prof.result.kernels, 10).set_index("op_type")
    assert set(work["flops_from"]) == {flops_from}
    assert set(work["bytes_from"]) == {bytes_from}
    product = work.loc["MatMulV3"]
    assert product["flops"] == pytest.approx(2 * 256 * 512 * 128, rel=0.01)
    assert product["bytes"] == pytest.approx(4 * (256 * 512 + 512 * 128 + 256 * 128), rel=0.01)
    assert work.loc["Exp", "bytes"] == pytest.approx(4 * 2 * 256 * 128, rel=0.01)


@pytest.mark.slow
def test_equal_kernels_are_one_row() -> None:
    kernels = factories.profile(100)["kernels"]
    work = kernel_work(kernels, 50)
    assert len(work) == len(factories.KERNEL_TYPES)
    assert work["launches"].sum() == 100
    assert work["total_ns"].sum() == kernels["duration_ns"].sum()
    assert kernel_work(kernels, 2)["total_ns"].tolist() == work["total_ns"].tolist()[:2]
    assert not len(kernel_work(kernels.iloc[:0], 5))
