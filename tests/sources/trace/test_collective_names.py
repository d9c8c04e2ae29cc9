"""Names of kernels: which are collectives, and of which operation. The names are those of the libraries' releases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.kineto.kernel_names import short_name
from npuprof.sources.trace.collective_names import UNNAMED, operation_of

COLLECTIVES = {
    # NCCL 2.4 to 2.9
    "ncclAllReduceRingLLKernel_sum_f32(ncclColl)": "allreduce",
    "ncclAllReduceTreeLLKernel_sum_f16(ncclColl)": "allreduce",
    "ncclAllGatherRingLLKernel_copy_i8(ncclColl)": "all_gather",
    "ncclReduceScatterRingLLKernel_sum_f32(ncclColl)": "reduce_scatter",
    "ncclBroadcastRingLLKernel_copy_i8(ncclColl)": "broadcast",
    "ncclReduceRingLLKernel_sum_f32(ncclColl)": "reduce",
    "ncclSendRecvKernel_copy_i8(ncclColl)": "send_recv",
    # NCCL 2.10 to 2.18, RCCL of ROCm 5
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": "allreduce",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": "allreduce",
    "ncclKernel_AllReduce_TREE_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)": "allreduce",
    "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": "all_gather",
    "ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": "reduce_scatter",
    "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": "broadcast",
    "ncclKernel_Reduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)": "reduce",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)": "send_recv",
    # NCCL 2.19 and later
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)": "allreduce",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "allreduce",
    "ncclDevKernel_AllReduce_Sum_f16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)": "allreduce",
    "ncclDevKernel_AllReduce_Sum_bf16_NVLS_SIMPLE(ncclDevKernelArgsStorage<4096ul>)": "allreduce",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "all_gather",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "reduce_scatter",
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "broadcast",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "send_recv",
    "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "reduce",
    # NCCL 2.27 and later, in symmetric memory
    "ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)": "all_gather",
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)": "allreduce",
    "ncclSymkDevKernel_ReduceScatter_LL_sum_f32(ncclSymkDevWorkArgs4K)": "reduce_scatter",
    "ncclSymkDevKernel_ReduceScatter_RailA2A_LsaLD_sum_f32(ncclSymkDevWorkArgs4K)": "reduce_scatter",
    # RCCL of ROCm 6 and 7
    "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)": UNNAMED,
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)": UNNAMED,
    "ncclDevKernelDebug_Generic(ncclDevComm*, unsigned long, ncclWork*)": UNNAMED,
    "_Z23ncclDevKernel_Generic_424ncclDevKernelArgsStorageILm4096EE.kd": UNNAMED,
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)": UNNAMED,
    "mscclKernel_Sum_hip_bfloat16_Simple": UNNAMED,
    # HCCL, as the collector names its operators
    "hcom_allReduce__586_0_1": "allreduce",
    "hcom_broadcast__128_2_1": "broadcast",
    "hcom_reduceScatter__061_12_1": "reduce_scatter",
    "hcom_allGather__061_13_1": "all_gather",
    "hcom_alltoallv__701_4_1": "all_to_all",
    "hcom_batchSendRecv__443_0_1": "send_recv",
    "hcom_send__443_1_1": "send",
    "hcom_receive__443_2_1": "receive",
    "HcclAllreduce": "allreduce",
    # torch's symmetric memory, and frameworks that serve models
    "void c10d::symmetric_memory::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16**)": "allreduce",
    "multimem_all_reduce_kernel": "allreduce",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)": "allreduce",
    "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*)": "allreduce",
    "aiter::cross_device_reduce_2stage<bf16,8,false>": "allreduce",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>(AllReduceParams)": "allreduce",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<3, __half>(P)": "allreduce",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, float*)": "all_to_all",
    "void tensorrt_llm::kernels::ar_fusion::moe::moefinalize_allreduce_fusion_kernel_oneshot_lamport<P, 8>(P)": (
        "allreduce"
    ),
    "void flashinfer::trtllm_moe_allreduce_fusion::moereduce_allreduce_fusion_kernel_oneshot_lamport<P, 4>(P)": (
        "allreduce"
    ),
    "void tensorrt_llm::kernels::lamport_style_one_shot_all_reduce_norm_kernel<__half, 8, true>(P)": "allreduce",
    "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<8, __nv_bfloat16>(P)": "allreduce",
    "void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport_fusion<__nv_bfloat16, 1>(P)": "allreduce",
    "userbuffers_fp16_sum_inplace_gpu_mc(int, int, int*)": "allreduce",
    "void userbuffers_fp16_sum_inplace_gpu_rr_rs<4>(int, int, int*)": "reduce_scatter",
    "void userbuffers_fp16_sum_inplace_gpu_mc_ag<8>(int, int, int*)": "all_gather",
    "kuserbuffers_pullsend(int, int, int*, int*)": "send",
    "void deep_ep::intranode::cached_notify_combine<8>(void**)": "all_to_all",
    "void deep_ep::intranode::combine<c10::BFloat16, 8>(c10::BFloat16*)": "all_to_all",
    "void deep_ep::hybrid_ep::dispatch_kernel<16, 4, 8>(hybrid_ep::dispatch_kernel_param_t<P>)": "all_to_all",
    "void hybrid_ep::combine_kernel<16, 4>(P)": "all_to_all",
    "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(P)": "all_to_all",
    "EpCombineInterNodeV1Kernel_bf16": "all_to_all",
    "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<P, 8>(int const*)": "all_to_all",
    "void tensorrt_llm::kernels::moe_alltoall::moeA2ACombineKernel<__nv_bfloat16, 8>(P)": "all_to_all",
    "void sglang::all_reduce_1shot_push_kernel<Impl, __nv_bfloat16, 4u, true>(P)": "allreduce",
    "void sglang::all_reduce_2shot_pull_kernel<Impl, __nv_bfloat16, 8u, true>(P)": "allreduce",
    "_all_gather_kernel_inner": "all_gather",
    "void aiter::reduce_scatter_cross_device_store<hip_bfloat16, 8>(aiter::RankData*)": "reduce_scatter",
    "void aiter::reduce_scatter_first_dim<opus::bf16_t, 8>(aiter::RankData*)": "reduce_scatter",
    "void aiter::reduce_scatter_split_lastdim_naive<opus::bf16_t, 8>(aiter::RankData*)": "reduce_scatter",
    "void aiter::reduce_scatter_split_middim<opus::bf16_t, 4>(aiter::RankData*)": "reduce_scatter",
    "void aiter::allgather_lastdim<opus::bf16_t, 8>(aiter::RankData*)": "all_gather",
    "void aiter::allgather_vec<opus::bf16_t, 8>(aiter::RankData*)": "all_gather",
    "void aiter::allgather_naive<opus::bf16_t, 8>(aiter::RankData*)": "all_gather",
    "void aiter::cross_device_reduce_2stage_write_mode<opus::bf16_t, 8>(aiter::RankData*)": "allreduce",
    "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half>>, __half>(P)": "allreduce",
}
COMPUTE = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
    "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8, ncclTag>(int)",
    "void cub::DeviceReduceKernel<cub::Policy, ncclDataType_t const*>(int const*, float*)",
    "void at::native::index_elementwise_kernel<128, 4>(long, hcom_t)",
    "void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "triton_red_fused_all_reduce_max_sum_0",
    "triton_poi_fused_cat_gather_broadcast_1",
    "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN.kd",
    "void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*, int*)",
    "__amd_rocclr_copyBuffer.kd",
    "void aiter::local_device_load_rmsnorm<hip_bfloat16, 512, 2>(aiter::RankSignals)",  # what was sent before
    "triton_red_fused_all_gather_kernel_0",
    "softmax_warp_forward",
    "MatMulV3",
    "",
)


@pytest.mark.parametrize(("kernel", "operation"), COLLECTIVES.items())
def test_kernels_of_collectives_of_every_year_are_known_with_their_operation(kernel: str, operation: str) -> None:
    assert operation_of(kernel, short_name(kernel)) == operation


@pytest.mark.parametrize("kernel", COMPUTE)
def test_kernels_that_compute_are_no_collectives(kernel: str) -> None:
    assert operation_of(kernel, short_name(kernel)) is None


_PARAMETERS = st.sampled_from(["", "()", "(ncclDevComm*)", "(float*, at::Tensor<int, 3>)", "(reduce_kernel*)"])


@given(st.sampled_from([*COLLECTIVES.items(), *dict.fromkeys(COMPUTE[:-1]).items()]), _PARAMETERS, st.booleans())
def test_parameters_do_not_change_a_kernels_kind(known: tuple[str, str | None], parameters: str, returns: bool) -> None:
    """GIVEN a kernel's name without its parameters WHEN others follow or a type precedes THEN it stays what it is."""
    kernel, operation = known
    bare = f"{'void ' * returns}{kernel.removeprefix('void ').partition('(')[0]}{parameters}"
    assert operation_of(bare, short_name(bare)) == operation
