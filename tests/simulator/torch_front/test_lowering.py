"""Which kernels a call of an aten operator becomes, and how much they compute and move."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.simulator import Tensor
from npuprof.simulator.catalogue import KERNELS
from npuprof.simulator.torch_front.lowering import Call, Lowered, lower


def half(*shape: int) -> Tensor:
    return Tensor(shape, "float16")


def called(name: str, *args: Any, gives: tuple[Tensor, ...] = (), in_place: bool = False) -> Lowered:
    return lower(Call(name, "default", args, gives, in_place))


def types(lowered: Lowered) -> list[str]:
    return [launch.kernel.op_type for launch in lowered.launches]


@pytest.mark.parametrize(
    ("name", "operands", "output", "flops", "op_type"),
    [
        ("mm", (half(8, 16), half(16, 32)), half(8, 32), 2 * 8 * 16 * 32, "MatMulV3"),
        ("addmm", (half(32), half(8, 16), half(16, 32)), half(8, 32), 2 * 8 * 16 * 32, "MatMulV3"),
        ("linear", (half(4, 8, 16), half(32, 16)), half(4, 8, 32), 2 * 4 * 8 * 16 * 32, "MatMulV3"),
        ("bmm", (half(3, 8, 16), half(3, 16, 32)), half(3, 8, 32), 2 * 3 * 8 * 16 * 32, "BatchMatMulV3"),
        ("mv", (half(8, 16), half(16)), half(8), 2 * 8 * 16, "MatMulV3"),
    ],
)
def test_a_product_runs_on_the_cube_with_its_true_operations(
    name: str, operands: tuple[Tensor, ...], output: Tensor, flops: int, op_type: str
) -> None:
    (launch,) = called(name, *operands, gives=(output,)).launches
    assert (launch.kernel.op_type, launch.kernel.core, launch.flops) == (op_type, "AI_CORE", flops)
    assert launch.read_bytes == sum(operand.size_bytes for operand in operands)


def test_a_product_of_doubles_does_not_run_on_the_cube() -> None:
    (launch,) = called("mm", Tensor((8, 8), "float64"), Tensor((8, 8), "float64"), gives=(Tensor((8, 8)),)).launches
    assert (launch.kernel.op_type, launch.kernel.core) == ("MatMul", "AI_VECTOR_CORE")


OF_OTHER_FORM = {"copy", "_to_copy", "index", "native_batch_norm", "_native_batch_norm_legit"}
IMAGE, WEIGHT, OUT = half(2, 3, 32, 32), half(16, 3, 3, 3), half(2, 16, 30, 30)
CONVOLVED = 2 * (2 * 16 * 30 * 30) * (3 * 3 * 3)


def test_convolution_counts_each_output_per_weight() -> None:
    settings = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    (launch,) = called("convolution", IMAGE, WEIGHT, None, *settings, gives=(OUT,)).launches
    assert (launch.kernel.op_type, launch.kernel.core, launch.flops) == ("Conv2D", "AI_CORE", CONVOLVED)


def test_a_transposed_convolution_spreads_its_input() -> None:
    settings = ((1, 1), (0, 0), (1, 1), True, (0, 0), 1)
    (launch,) = called("convolution", OUT, WEIGHT, None, *settings, gives=(IMAGE,)).launches
    assert launch.flops == CONVOLVED


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ((True, True, True), ["Conv2DBackpropInput", "Conv2DBackpropFilter", "ReduceSum"]),
        ((False, True, False), ["Conv2DBackpropFilter"]),
    ],
)
def test_convolution_returns_requested_gradients(mask: tuple[bool, ...], expected: list[str]) -> None:
    settings = ((16,), (1, 1), (0, 0), (1, 1), False, (0, 0), 1, mask)
    lowered = called("convolution_backward", OUT, IMAGE, WEIGHT, *settings, gives=(IMAGE, WEIGHT))
    assert types(lowered) == expected
    assert {launch.flops for launch in lowered.launches if launch.kernel.core == "AI_CORE"} == {CONVOLVED}


def test_a_convolution_over_three_axes_is_named_so() -> None:
    lowered = called("convolution", half(1, 2, 4, 4, 4), half(2, 2, 3, 3, 3), gives=(half(1, 2, 2, 2, 2),))
    assert types(lowered) == ["Conv3D"]


def test_attention_is_one_mixed_kernel_forward_and_backward() -> None:
    q, k = half(2, 4, 64, 32), half(2, 4, 128, 32)
    (forward,) = called("_scaled_dot_product_flash_attention_for_cpu", q, k, k, gives=(q, half(2, 4, 64))).launches
    assert (forward.kernel.op_type, forward.kernel.core) == ("FlashAttentionScore", "MIX_AIC")
    assert forward.flops == 2 * (2 * 4 * 64) * 128 * (32 + 32)
    backward = called("_scaled_dot_product_flash_attention_for_cpu_backward", q, q, k, k, q, gives=(q, k, k))
    assert types(backward) == ["FlashAttentionScoreGrad"]
    assert backward.launches[0].flops == 2.5 * forward.flops


def test_a_recurrent_layer_counts_both_of_its_products_at_each_moment() -> None:
    source, of_input, of_hidden = half(5, 2, 8), half(64, 8), half(64, 16)
    forward, backward = (
        called(name, source, of_input, of_hidden, gives=(half(5, 2, 16),)).launches[0]
        for name in ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward")
    )
    assert (forward.kernel.op_type, forward.flops) == ("DynamicRNN", 2 * 5 * 2 * (64 * 8 + 64 * 16))
    assert (backward.kernel.op_type, backward.flops) == ("DynamicRNNGrad", 2 * forward.flops)


def test_batch_normalisation_learns_or_applies() -> None:
    x, each = half(2, 3, 4, 4), half(3)
    for training, expected in ((True, ["BNTrainingReduce", "BNTrainingUpdate"]), (False, ["BNInfer"])):
        settings = (each, each, each, each, training, 0.1, 1e-5)
        assert types(called("native_batch_norm", x, *settings, gives=(x, each, each))) == expected


def test_scalars_and_in_place_calls_have_calls_of_their_own() -> None:
    x = half(4, 4)
    apis = [
        lowered.launches[0].kernel.api
        for lowered in (
            called("add", x, x, gives=(x,)),
            called("add", x, 2.0, gives=(x,)),
            called("add", x, half(), gives=(x,)),
            called("add", x, x, gives=(x,), in_place=True),
            called("zero", x, gives=(x,), in_place=True),
        )
    ]
    assert apis == ["aclnnAdd", "aclnnAdds", "aclnnAdds", "aclnnInplaceAdd", "aclnnInplaceZero"]


def test_a_cast_is_one_and_a_copy_moves() -> None:
    x, y = half(8), Tensor((8,), "float32")
    assert types(called("_to_copy", x, gives=(y,))) == ["Cast"]
    assert types(called("_to_copy", x, gives=(x,))) == ["TensorMove"]
    assert types(called("copy", y, x, gives=(y,), in_place=True)) == ["Cast"]
    assert types(called("copy", y, y, gives=(y,), in_place=True)) == ["TensorMove"]


def test_picking_reads_only_its_result() -> None:
    embedding, indices, output = half(50_000, 64), Tensor((8,), "int64"), half(8, 64)
    (launch,) = called("embedding", embedding, indices, gives=(output,)).launches
    assert launch.read_bytes == output.size_bytes + indices.size_bytes


def test_mask_costs_a_search() -> None:
    x, mask = half(8, 4), Tensor((8,), "bool")
    assert types(called("index", x, (mask,), gives=(half(3, 4),))) == ["NonZero", "Index"]
    assert types(called("index", x, (Tensor((3,), "int64"),), gives=(half(3, 4),))) == ["Index"]


def test_a_fused_optimizer_runs_once_for_each_parameter() -> None:
    parameters, steps = (half(4, 4), half(4)), (half(), half())
    lists = (parameters, parameters, parameters, parameters, (), steps)
    lowered = called("_fused_adamw", *lists, in_place=True)
    assert types(lowered) == ["ApplyAdamWV2"] * 2
    assert [len(launch.inputs) for launch in lowered.launches] == [4, 4]
    assert lowered.launches[0].flops > lowered.launches[1].flops


def test_foreach_is_one_kernel_for_the_whole_list() -> None:
    lowered = lower(Call("_foreach_mul", "Scalar", ((half(4), half(8)), 0.9), (), in_place=True))
    assert types(lowered) == ["ForeachMulScalar"]
    assert lowered.launches[0].flops == 12


def test_what_takes_no_device_launches_nothing() -> None:
    assert called("empty", (4, 4), gives=(half(4, 4),)) == Lowered(())


def test_an_unknown_operator_is_estimated_under_its_own_name() -> None:
    lowered = called("_frobnicate_with_care", half(4, 8), gives=(half(4),))
    assert not lowered.known
    assert types(lowered) == ["FrobnicateWithCare"]
    assert lowered.launches[0].flops == 32


tensors = st.builds(
    Tensor,
    st.lists(st.integers(0, 9), max_size=4).map(tuple),
    st.sampled_from(["float16", "float32", "int64", "bool", "complex64", "float8_e4m3fn"]),
)


@given(
    st.sampled_from(sorted(KERNELS)) | st.text("abc_", min_size=1, max_size=9),
    st.lists(tensors | st.none() | st.integers() | st.lists(tensors, max_size=3).map(tuple), max_size=4).map(tuple),
    st.lists(tensors, max_size=2).map(tuple),
    st.booleans(),
)
def test_any_call_table_becomes_balanced_launches(
    name: str, args: tuple[Any, ...], outputs: tuple[Tensor, ...], in_place: bool
) -> None:
    if name in OF_OTHER_FORM:
        return  # torch guarantees what they are given
    lowered = lower(Call(name, "", args, outputs, in_place))
    assert lowered.known == (name in KERNELS)
    for launch in lowered.launches:
        assert launch.flops >= 0
        assert launch.read_bytes <= sum(each.size_bytes for each in (*launch.inputs, *launch.outputs))
        assert launch.kernel.api.startswith("aclnn")


@pytest.mark.parametrize("name", ["mm", "convolution", "convolution_backward", "copy", "mkldnn_rnn_layer"])
def test_arguments_of_another_form_are_estimated_too(name: str) -> None:
    lowered = called(name, half(3), gives=())
    assert not lowered.known
    assert lowered.launches[0].flops == 3


def test_operations_follow_the_largest_operand() -> None:
    for name, kernels in KERNELS.items():
        if name in OF_OTHER_FORM:
            continue
        lowered = called(name, half(6, 7), gives=(half(6),))
        counts = [kernel.operations * math.prod((6, 7)) for kernel in kernels]
        assert [launch.flops for launch in lowered.launches] == counts
