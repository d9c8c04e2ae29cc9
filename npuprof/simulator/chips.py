"""The chips that the simulator knows, as data: what a roofline needs, and where each figure comes from.

A duration here is an estimate: the longest of compute at peak rate and memory traffic at peak bandwidth,
plus fixed costs. It has the right order of magnitude and the right shape (a matrix product is bound by the
cube, an addition by memory), and says nothing about the speed of a real kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Chip:
    """Figures of one chip.

    Attributes
    ----------
    name, soc_name
        For people, and as ``acl.get_soc_name`` gives it.
    platform_version
        What the raw format calls it. Source: raw/FORMAT.md section 1.
    ai_core_count, aiv_count
        Cube cores and vector cores.
    core_mhz, idle_mhz
        Frequency of both under load, and before the first kernel.
    counter_mhz
        Frequency of the device's time stamp counter.
    cube_fp16_flops_per_cycle, vector_fp16_flops_per_cycle
        Of one core at half precision.
    hbm_bytes, hbm_bytes_per_s, l2_bytes
        Size and bandwidth of the memory, size of the second-level cache.
    host_to_device_bytes_per_s, device_to_host_bytes_per_s
        Bandwidth of copies over PCIe.
    launch_host_ns, launch_latency_ns, kernel_floor_ns
        Host time of one launch, from the launch to the earliest start on the device, and the shortest kernel.
    system_bytes
        Device memory that is in use before the first allocation.
    """

    name: str
    soc_name: str
    platform_version: int
    ai_core_count: int
    aiv_count: int
    core_mhz: int
    idle_mhz: int
    counter_mhz: int
    cube_fp16_flops_per_cycle: int
    vector_fp16_flops_per_cycle: int
    hbm_bytes: int
    hbm_bytes_per_s: float
    l2_bytes: int
    host_to_device_bytes_per_s: float
    device_to_host_bytes_per_s: float
    launch_host_ns: int
    launch_latency_ns: int
    kernel_floor_ns: int
    system_bytes: int

    @property
    def tick_ns(self) -> int:
        """Nanoseconds of one tick of the device's counter (exact: 50 MHz is 20 ns)."""
        return 1000 // self.counter_mhz


# 910B (the 910B2 of Atlas A2), from the platform configuration in CANN (Ascend910B2.ini): 24 cube cores, 48 vector
# cores, 1800 MHz, cubes of 16 x 16 x 16 (4096 multiply-adds a cycle), vector units of 128 half-precision lanes,
# 64 GiB, 192 MiB of L2. That gives 353.9 TFLOPS for the cubes and, a multiply-add counted as two, 22.1 for the
# vector units: the published 376 together. A vector operation is counted as one here, so half of 22.1. 1.6 TB/s of
# HBM: the specification table of CANN's operator library guide (A2 column). The counter of 50 MHz: raw/FORMAT.md
# section 2.2.
# Modelled, not published: 25 GB/s for copies (a PCIe 4.0 x16 link carries 31.5 at most), the three launch
# costs (what traces of such machines commonly show), the idle frequency and the memory of the system.
_ASCEND_910B = Chip(
    name="Ascend 910B",
    soc_name="Ascend910B2",
    platform_version=5,
    ai_core_count=24,
    aiv_count=48,
    core_mhz=1800,
    idle_mhz=800,
    counter_mhz=50,
    cube_fp16_flops_per_cycle=8192,
    vector_fp16_flops_per_cycle=128,
    hbm_bytes=64 << 30,
    hbm_bytes_per_s=1.6e12,
    l2_bytes=192 << 20,
    host_to_device_bytes_per_s=25e9,
    device_to_host_bytes_per_s=25e9,
    launch_host_ns=4_000,
    launch_latency_ns=5_000,
    kernel_floor_ns=1_500,
    system_bytes=3 << 30,
)

CHIPS: Mapping[str, Chip] = MappingProxyType({"910B": _ASCEND_910B})
