"""The catalogue of operators, as data: the kernels, cores, acl calls and operation counts of each.

Operators have aten's names; the fronts translate theirs. Types and calls are those of CANN on a 910B. CANN runs double
precision, complex numbers and some integer operators on the AI CPU; here they run on the vector cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from npuprof.simulator.cost_model import Core

_IN_PLACE = "aclnnInplace"


class Kernel(NamedTuple):
    """A kernel as a single-operator call of CANN launches it.

    `operations` are per element of the largest operand: 1 for an arithmetic instruction, 0 for data movement. `variant`
    is the suffix of the node's name: ``AiCore``, or ``Common`` for matrix products. With `reads_part`, the kernel reads
    no more of its first operand than it writes, as a slice does.
    """

    op_type: str
    api: str
    core: Core = "AI_VECTOR_CORE"
    operations: int = 1
    variant: str = "AiCore"
    reads_part: bool = False

    @property
    def node(self) -> str:
        """The node's name in profiles, such as ``aclnnAdd_AddAiCore_Add``."""
        return f"{self.api}_{self.op_type}{self.variant}_{self.op_type}"

    def in_place(self) -> Kernel:
        """Return the kernel of the in-place call."""
        return self if self.api.startswith(_IN_PLACE) else self._replace(api=f"{_IN_PLACE}{self.api[5:]}")


# Elementwise operators whose type and call are the capitalised name: ``Exp`` and ``aclnnExp``.
_PLAIN = """
    neg abs sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin acos atan atan2
    asinh acosh atanh sinh cosh tanh erf erfc erfinv floor ceil trunc round maximum minimum logical_and logical_or
    logical_not logical_xor left_shift right_shift conj count_nonzero addcmul addcdiv nan_to_num relu sigmoid
    leaky_relu
"""

# name: type, call without "aclnn", call with a scalar operand (where it has another name)
_ELEMENTWISE: Mapping[str, str] = {
    "add": "Add Add Adds",
    "sub": "Sub Sub Subs",
    "rsub": "Sub Rsub Rsubs",
    "mul": "Mul Mul Muls",
    "div": "RealDiv Div Divs",
    "floor_divide": "FloorDiv FloorDivide FloorDivides",
    "remainder": "FloorMod RemainderTensorTensor RemainderTensorScalar",
    "fmod": "Mod FmodTensor FmodScalar",
    "pow": "Pow PowTensorTensor PowTensorScalar",
    "pow_scalar": "Pows PowTensorScalar",
    "sgn": "Sign Sign",
    "frac": "Sub Frac",
    "clamp": "ClipByValueV2 Clamp",
    "clamp_min": "Maximum ClampMin",
    "clamp_max": "Minimum ClampMax",
    "eq": "Equal EqTensor EqScalar",
    "ne": "NotEqual NeTensor NeScalar",
    "lt": "Less LtTensor LtScalar",
    "le": "LessEqual LeTensor LeScalar",
    "gt": "Greater GtTensor GtScalar",
    "ge": "GreaterEqual GeTensor GeScalar",
    "bitwise_and": "BitwiseAnd BitwiseAndTensor BitwiseAndScalar",
    "bitwise_or": "BitwiseOr BitwiseOrTensor BitwiseOrScalar",
    "bitwise_xor": "BitwiseXor BitwiseXorTensor BitwiseXorScalar",
    "bitwise_not": "Invert BitwiseNot",
    "__and__": "BitwiseAnd BitwiseAndTensor BitwiseAndScalar",
    "__or__": "BitwiseOr BitwiseOrTensor BitwiseOrScalar",
    "isnan": "IsNan IsNan",
    "isinf": "IsInf IsInf",
    "isfinite": "IsFinite IsFinite",
    "isclose": "IsClose IsClose",
    "where": "SelectV2 SWhere",
    "masked_fill": "MaskedFill MaskedFillTensor MaskedFillScalar",
    "lerp": "Lerp Lerp Lerps",
    "relu6": "Relu6 Hardtanh",
    "threshold_backward": "ThresholdGradV2D ThresholdBackward",
    "hardtanh": "ClipByValueV2 Hardtanh",
    "hardtanh_backward": "HardtanhGrad HardtanhBackward",
    "hardswish": "HardSwish Hardswish",
    "hardswish_backward": "HardSwishGrad HardswishBackward",
    "hardsigmoid": "HardSigmoid Hardsigmoid",
    "hardsigmoid_backward": "HardSigmoidGrad HardsigmoidBackward",
    "leaky_relu_backward": "LeakyReluGrad LeakyReluBackward",
    "elu": "EluV2 Elu",
    "elu_backward": "EluGradV2 EluBackward",
    "tanh_backward": "TanhGrad TanhBackward",
    "sigmoid_backward": "SigmoidGrad SigmoidBackward",
    "_prelu_kernel": "PRelu PRelu",
    "_prelu_kernel_backward": "PReluGrad PReluBackward",
    "xlogy": "Xlogy XLogYTensor XLogYScalarOther",
    "searchsorted": "SearchSorted SearchSorted",
    "bucketize": "SearchSorted Bucketize",
}

# name: type, call, operations per element
_HEAVIER: Mapping[str, str] = {
    "gelu": "Gelu Gelu 8",
    "gelu_backward": "GeluGrad GeluBackward 12",
    "silu": "Swish Silu 4",
    "silu_backward": "SwishGrad SiluBackward 6",
    "mish": "Mish Mish 6",
    "mish_backward": "MishGrad MishBackward 8",
    "softplus": "SoftplusV2 Softplus 4",
    "softplus_backward": "SoftplusV2Grad SoftplusBackward 4",
    "log_sigmoid_forward": "LogSigmoid LogSigmoid 4",
    "log_sigmoid_backward": "LogSigmoidGrad LogSigmoidBackward 4",
    "glu": "GLU Glu 4",
    "glu_backward": "GLUGrad GluBackward 6",
    "_softmax": "SoftmaxV2 Softmax 5",
    "_safe_softmax": "SoftmaxV2 Softmax 5",
    "_log_softmax": "LogSoftmaxV2 LogSoftmax 5",
    "_softmax_backward_data": "SoftmaxGrad SoftmaxBackward 4",
    "_log_softmax_backward_data": "LogSoftmaxGrad LogSoftmaxBackward 4",
    "native_layer_norm": "LayerNormV4 LayerNorm 8",
    "native_layer_norm_backward": "LayerNormGradV3 LayerNormBackward 12",
    "_fused_rms_norm": "RmsNorm RmsNorm 5",
    "_fused_rms_norm_backward": "RmsNormGrad RmsNormGrad 8",
    "native_group_norm": "GroupNorm GroupNorm 8",
    "native_group_norm_backward": "GroupNormGrad GroupNormBackward 12",
    "mse_loss": "MseLoss MseLoss 2",
    "mse_loss_backward": "MseLossGrad MseLossBackward 3",
    "l1_loss": "LpLoss L1Loss 2",
    "smooth_l1_loss": "SmoothL1LossV2 SmoothL1Loss 4",
    "smooth_l1_loss_backward": "SmoothL1LossGradV2 SmoothL1LossBackward 4",
    "huber_loss": "SmoothL1LossV2 SmoothL1Loss 4",
    "huber_loss_backward": "SmoothL1LossGradV2 SmoothL1LossBackward 4",
    "binary_cross_entropy": "BinaryCrossEntropy BinaryCrossEntropy 6",
    "binary_cross_entropy_backward": "BinaryCrossEntropyGrad BinaryCrossEntropyBackward 6",
    "binary_cross_entropy_with_logits": "SigmoidCrossEntropyWithLogitsV2 BinaryCrossEntropyWithLogits 8",
    "max_pool2d_with_indices": "MaxPool3DWithArgmaxV2 MaxPool2dWithIndices 4",
    "max_pool2d_with_indices_backward": "MaxPool3DGradWithArgmax MaxPool2dWithIndicesBackward 2",
    "max_pool3d_with_indices": "MaxPool3DWithArgmaxV2 MaxPool3dWithArgmax 4",
    "max_pool3d_with_indices_backward": "MaxPool3DGradWithArgmax MaxPool3dWithArgmaxBackward 2",
    "avg_pool2d": "AvgPoolV2 AvgPool2d 4",
    "avg_pool2d_backward": "AvgPoolV2Grad AvgPool2dBackward 4",
    "_adaptive_avg_pool2d": "AdaptiveAvgPool2d AdaptiveAvgPool2d 1",
    "_adaptive_avg_pool2d_backward": "AdaptiveAvgPool2dGrad AdaptiveAvgPool2dBackward 1",
    "upsample_nearest2d": "UpsampleNearest UpsampleNearest2d 1",
    "upsample_nearest2d_backward": "UpsampleNearestGrad UpsampleNearest2dBackward 1",
    "upsample_bilinear2d": "UpsampleBilinear2d UpsampleBilinear2d 8",
    "upsample_bilinear2d_backward": "UpsampleBilinear2dGrad UpsampleBilinear2dBackward 8",
    "upsample_bicubic2d": "UpsampleBicubic2d UpsampleBicubic2d 32",
    "upsample_bicubic2d_backward": "UpsampleBicubic2dGrad UpsampleBicubic2dBackward 32",
    "grid_sampler_2d": "GridSampler2D GridSampler2D 16",
    "grid_sampler_2d_backward": "GridSampler2DGrad GridSampler2DBackward 16",
    "_ctc_loss": "CTCLossV2 CtcLoss 8",
    "_ctc_loss_backward": "CTCLossV2Grad CtcLossBackward 8",
    "_cdist_forward": "Cdist Cdist 3",
    "_cdist_backward": "CdistGrad CdistBackward 3",
    "histc": "Histogram Histc 2",
    "median": "Median Median 8",
    "aminmax": "Aminmax Aminmax 2",
    "sort": "Sort Sort 16",
    "argsort": "Sort Argsort 16",
    "topk": "TopKV3 Topk 8",
    "linalg_vector_norm": "LpNormV2 LinalgVectorNorm 2",
    "norm": "LpNormV2 Norm 2",
    "_weight_norm_interface": "LpNormV2 LinalgVectorNorm 3",
    "bernoulli": "StatelessBernoulli Bernoulli 10",
    "uniform": "StatelessRandomUniformV2 InplaceUniform 10",
    "normal": "StatelessRandomNormalV2 InplaceNormal 20",
    "random": "StatelessRandomUniformInt InplaceRandom 10",
    "exponential": "StatelessExponential InplaceExponential 12",
    "rand": "StatelessRandomUniformV2 InplaceUniform 10",
    "rand_like": "StatelessRandomUniformV2 InplaceUniform 10",
    "randn": "StatelessRandomNormalV2 InplaceNormal 20",
    "randn_like": "StatelessRandomNormalV2 InplaceNormal 20",
    "randint": "StatelessRandomUniformInt InplaceRandom 10",
    "randint_like": "StatelessRandomUniformInt InplaceRandom 10",
    "randperm": "StatelessRandperm Randperm 16",
    "multinomial": "MultinomialWithReplacement Multinomial 16",
    "native_dropout_backward": "DropOutDoMask DropoutBackward 2",
    "sum": "ReduceSum ReduceSum 1",
    "nansum": "ReduceNansum ReduceNansum 1",
    "mean": "ReduceMean Mean 1",
    "prod": "ReduceProd Prod 1",
    "amax": "ReduceMax Amax 1",
    "amin": "ReduceMin Amin 1",
    "max": "ReduceMax Max 1",
    "min": "ReduceMin Min 1",
    "all": "ReduceAll All 1",
    "any": "ReduceAny Any 1",
    "argmax": "ArgMaxV2 ArgMax 1",
    "argmin": "ArgMin ArgMin 1",
    "var": "ReduceVar Var 3",
    "var_mean": "ReduceVar VarMean 3",
    "std": "ReduceStdV2Update Std 3",
    "std_mean": "ReduceStdV2Update StdMean 3",
    "trace": "Trace Trace 1",
    "logsumexp": "LogSumExp LogSumExp 4",
    "cumsum": "Cumsum Cumsum 1",
    "cumprod": "Cumprod Cumprod 1",
    "cummax": "Cummax Cummax 1",
    "cummin": "Cummin Cummin 1",
    "scatter_nd_add": "ScatterNdAdd ScatterNdAdd 1",
    "scatter_nd_sub": "ScatterNdSub ScatterNdSub 1",
    "scatter_nd_max": "ScatterNdMax ScatterNdMax 1",
    "scatter_nd_min": "ScatterNdMin ScatterNdMin 1",
}

# name: type and call of data movements that read and write each operand once
_MOVES: Mapping[str, str] = {
    "cat": "ConcatD Cat",
    "stack": "Pack Stack",
    "split_with_sizes_copy": "SplitV SplitWithSize",
    "unbind_copy": "Unpack Unbind",
    "clone": "TensorMove InplaceCopy",
    "copy": "TensorMove InplaceCopy",
    "_to_copy": "TensorMove InplaceCopy",
    "constant_pad_nd": "PadV3 ConstantPadNd",
    "roll": "Roll Roll",
    "flip": "ReverseV2 Flip",
    "repeat": "Tile Repeat",
    "repeat_interleave": "RepeatInterleave RepeatInterleave",
    "tril": "Tril Tril",
    "triu": "Triu Triu",
    "diag_embed": "Diag Diag",
    "scatter": "ScatterElementsV2 Scatter",
    "scatter_add": "ScatterElementsV2 ScatterAdd",
    "scatter_reduce": "ScatterElementsV2 ScatterAdd",
    "index_add": "InplaceIndexAdd IndexAdd",
    "index_copy": "ScatterUpdate IndexCopy",
    "index_put": "IndexPutV2 IndexPutImpl",
    "_index_put_impl": "IndexPutV2 IndexPutImpl",
    "_unsafe_index_put": "IndexPutV2 IndexPutImpl",
    "slice_backward": "StridedSliceAssignV2 InplaceCopy",
    "select_backward": "StridedSliceAssignV2 InplaceCopy",
    "slice_scatter": "StridedSliceAssignV2 InplaceCopy",
    "fill": "Fill InplaceFillScalar",
    "zero": "ZerosLike InplaceZero",
    "zeros": "ZerosLike InplaceZero",
    "zeros_like": "ZerosLike InplaceZero",
    "new_zeros": "ZerosLike InplaceZero",
    "ones": "Fill InplaceOne",
    "ones_like": "OnesLike InplaceOne",
    "new_ones": "Fill InplaceOne",
    "full": "Fill InplaceFillScalar",
    "full_like": "Fill InplaceFillScalar",
    "new_full": "Fill InplaceFillScalar",
    "scalar_tensor": "Fill InplaceFillScalar",
    "arange": "Range Arange",
    "linspace": "LinSpace Linspace",
    "eye": "Eye Eye",
    "tril_indices": "Range Arange",
    "triu_indices": "Range Arange",
    "unfold_backward": "UnfoldGrad UnfoldGrad",
    "im2col": "Im2col Im2col",
    "col2im": "Col2im Im2colBackward",
    "one_hot": "OneHot OneHot",
    "pixel_shuffle": "Transpose Permute",
    "permute": "Transpose Permute",
    "expand": "BroadcastTo Expand",
    "copy_to_view": "ViewCopy InplaceCopy",
    "reflection_pad2d": "PadV3 ReflectionPad2d",
    "replication_pad2d": "PadV3 ReplicationPad2d",
}

# name: type, call and operations (by default 0: data movement) of operators that read only part of their first operand
_PARTS: Mapping[str, str] = {
    "embedding": "GatherV2 Embedding",
    "index": "Index Index",
    "_unsafe_index": "Index Index",
    "index_select": "GatherV2 IndexSelect",
    "slice": "StridedSlice Contiguous",
    "gather": "GatherElements Gather",
    "take": "GatherV2 Take",
    "nll_loss_forward": "NLLLoss NLLLoss 1",
    "nll_loss2d_forward": "NLLLoss NLLLoss2d 1",
    "nll_loss_backward": "NLLLossGrad NLLLossBackward 1",
    "nll_loss2d_backward": "NLLLossGrad NLLLoss2dBackward 1",
    "_embedding_bag": "EmbeddingBag EmbeddingBag 1",
    "_embedding_bag_backward": "EmbeddingDenseGradV2 EmbeddingDenseBackward 1",
    "diagonal_copy": "DiagPart Diag",
    "embedding_dense_backward": "EmbeddingDenseGradV2 EmbeddingDenseBackward 1",
}

# name: type, call and operations of operators whose result shape is known only after the device has run
_READ_BACK: Mapping[str, str] = {
    "nonzero": "NonZero NonzeroV2 1",
    "masked_select": "MaskedSelect MaskedSelect 1",
    "unique_consecutive": "UniqueConsecutive UniqueConsecutive 2",
    "_unique2": "UniqueWithCountsAndSorting Unique2 16",
    "unique_dim": "UniqueDim UniqueDim 16",
    "bincount": "Bincount Bincount 1",
    "equal": "TensorEqual Equal 1",
    "allclose": "IsClose IsClose 2",
}

# Two consecutive kernels, each over all operands.
_PAIRS: Mapping[str, tuple[str, str]] = {
    "native_batch_norm": ("BNTrainingReduce BatchNorm 3", "BNTrainingUpdate BatchNorm 4"),
    "_native_batch_norm_legit": ("BNTrainingReduce BatchNorm 3", "BNTrainingUpdate BatchNorm 4"),
    "_native_batch_norm_legit_no_training": ("BNInfer BatchNorm 2", ""),
    "native_batch_norm_backward": (
        "BNTrainingUpdateGrad BatchNormBackward 4",
        "BNTrainingReduceGrad BatchNormBackward 4",
    ),
    "native_dropout": ("StatelessDropOutGenMask DropoutGenMaskV2 10", "DropOutDoMask DropoutDoMask 2"),
}

FUSED_OPTIMIZERS: Mapping[str, Kernel] = {
    "_fused_adam": Kernel("ApplyAdamD", "aclnnApplyAdam", operations=12),
    "_fused_adamw": Kernel("ApplyAdamWV2", "aclnnApplyAdamWV2", operations=14),
    "_fused_sgd": Kernel("SGD", "aclnnSgd", operations=4),
    "_fused_adagrad": Kernel("ApplyAdagradD", "aclnnApplyAdagrad", operations=6),
}

CAST = Kernel("Cast", "aclnnCast")
MATMUL = Kernel("MatMulV3", "aclnnMatmul", "AI_CORE", 2, "Common")
BATCHED = Kernel("BatchMatMulV3", "aclnnBatchMatMul", "AI_CORE", 2, "Common")
CONVOLUTION = Kernel("Conv2D", "aclnnConvolution", "AI_CORE", 2, "")
CONVOLUTION_INPUT = Kernel("Conv2DBackpropInput", "aclnnConvolutionBackward", "AI_CORE", 2, "")
CONVOLUTION_WEIGHT = Kernel("Conv2DBackpropFilter", "aclnnConvolutionBackward", "AI_CORE", 2, "")
BIAS_GRADIENT = Kernel("ReduceSum", "aclnnConvolutionBackward")
ATTENTION = Kernel("FlashAttentionScore", "aclnnFlashAttentionScore", "MIX_AIC", 2, "")
ATTENTION_GRADIENT = Kernel("FlashAttentionScoreGrad", "aclnnFlashAttentionScoreGrad", "MIX_AIC", 2, "")
RECURRENT = Kernel("DynamicRNN", "aclnnLstm", "MIX_AIC", 2, "")
RECURRENT_GRADIENT = Kernel("DynamicRNNGrad", "aclnnLstmBackward", "MIX_AIC", 2, "")
DOT = Kernel("Dot", "aclnnDot", operations=2)
VECTOR_NORM = Kernel("LpNormV2", "aclnnLinalgVectorNorm", "MIX_AIV", 2, "")


def generic(name: str) -> Kernel:
    """Return a vector-core kernel named after an operator outside the catalogue, capitalised."""
    op_type = "".join(word[:1].upper() + word[1:] for word in name.split("_") if word) or "Unknown"
    return Kernel(op_type, f"aclnn{op_type}")


def _kernel(words: str, operations: int = 1) -> Kernel:
    """Parse ``type call [operations]``."""
    op_type, call, *remaining = words.split()
    return Kernel(
        op_type, f"aclnn{call}", operations=int(remaining[0]) if remaining and remaining[0].isdecimal() else operations
    )


def _kernels() -> Iterator[tuple[str, tuple[Kernel, ...]]]:
    for name in _PLAIN.split():
        yield name, (generic(name),)
    for name, words in {**_ELEMENTWISE, **_HEAVIER, **_READ_BACK}.items():
        yield name, (_kernel(words),)
    for name, words in _MOVES.items():
        yield name, (_kernel(words, 0),)
    for name, words in _PARTS.items():
        yield name, (_kernel(words, 0)._replace(reads_part=True),)
    for name, pair in _PAIRS.items():
        yield name, tuple(_kernel(words) for words in pair if words)


KERNELS: Mapping[str, tuple[Kernel, ...]] = dict(_kernels())
"""The kernels of each operator, in launch order."""

READ_BACK = frozenset(_READ_BACK)
"""Operators with a result shape that depends on values: the host waits for it."""

_SCALAR_CALLS = {name: f"aclnn{words.split()[2]}" for name, words in _ELEMENTWISE.items() if len(words.split()) > 2}


def kernels_of(name: str, *, scalar: bool = False, in_place: bool = False) -> tuple[Kernel, ...]:
    """Return the kernels of an operator, by its scalar or in-place call; empty if it is not in the catalogue."""
    kernels = KERNELS.get(name, ())
    if scalar and name in _SCALAR_CALLS:
        kernels = tuple(kernel._replace(api=_SCALAR_CALLS[name]) for kernel in kernels)
    return tuple(kernel.in_place() for kernel in kernels) if in_place else kernels
