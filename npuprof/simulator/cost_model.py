"""The cost model: chips, operands, and the roofline that turns a launch into a duration.

A duration is an estimate: the maximum of compute at peak rate and memory traffic at peak bandwidth, plus fixed costs.
Its magnitude is right and a kernel is bound by the right resource; it does not predict the speed of a real kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Chip:
    """Figures of one chip.

    Attributes
    ----------
    platform_version
        The chip's number in the raw format (raw/FORMAT.md section 1).
    ai_core_count, aiv_count
        Cube cores and vector cores.
    core_mhz, idle_mhz
        Core frequency under load, and before the first kernel.
    counter_mhz
        Frequency of the device's time stamp counter.
    cube_fp16_flops_per_cycle, vector_fp16_flops_per_cycle
        Operations of one core.
    launch_host_ns, launch_latency_ns, kernel_floor_ns
        Host time of a launch, latency from launch to start, and the shortest kernel.
    system_bytes
        Device memory in use before the first allocation.
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
        """Duration of a tick of the device's counter in nanoseconds (exact: 50 MHz is 20 ns)."""
        return 1000 // self.counter_mhz


# 910B (the 910B2 of Atlas A2), from the platform configuration in CANN (Ascend910B2.ini): 24 cube cores, 48 vector
# cores, 1800 MHz, cubes of 16 x 16 x 16 (4096 multiply-adds a cycle), vector units of 128 half-precision lanes,
# 64 GiB, 192 MiB of L2. That gives 353.9 TFLOPS for the cubes and, a multiply-add counted as two, 22.1 for the
# vector units: the published 376 together. A vector operation counts once here, so half of 22.1. 1.6 TB/s of
# HBM: the specification table of CANN's operator library guide (A2 column). The counter of 50 MHz: raw/FORMAT.md
# section 2.2.
# Modelled, not published: 25 GB/s for copies (a PCIe 4.0 x16 link carries 31.5 at most), the three launch
# costs (what traces of such machines commonly show), the idle frequency and the memory of the system.
_ASCEND_910B = Chip(
    name="Ascend 910B2",
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


# NumPy's name, code of the graph engine, bytes per element. Source: raw/FORMAT.md section 4.2.
_DTYPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "float32": (0, 4),
        "float16": (1, 2),
        "int8": (2, 1),
        "int32": (3, 4),
        "uint8": (4, 1),
        "int16": (6, 2),
        "uint16": (7, 2),
        "uint32": (8, 4),
        "int64": (9, 8),
        "uint64": (10, 8),
        "float64": (11, 8),
        "bool": (12, 1),
        "complex64": (16, 8),
        "complex128": (17, 16),
        "bfloat16": (27, 2),
    }
)
_UNDEFINED_DTYPE = (28, 0)
_FORMATS: Mapping[str, int] = MappingProxyType(
    {
        "NCHW": 0,
        "NHWC": 1,
        "ND": 2,
        "NC1HWC0": 3,
        "FRACTAL_Z": 4,
        "HWCN": 16,
        "NDHWC": 27,
        "FRACTAL_NZ": 29,
        "NCDHW": 30,
    }
)
_FORMAT_ND = 2


@dataclass(frozen=True)
class Tensor:
    """An operand: shape, data type and storage format.

    `dtype` is NumPy's name, or ``bfloat16``; other types are written as undefined, with no bytes.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    format: str = "ND"

    @property
    def size_bytes(self) -> int:
        """Size of all elements in bytes."""
        return math.prod(self.shape) * _DTYPES.get(self.dtype, _UNDEFINED_DTYPE)[1]

    @property
    def dtype_code(self) -> int:
        """The graph engine's number of the data type."""
        return _DTYPES.get(self.dtype, _UNDEFINED_DTYPE)[0]

    @property
    def format_code(self) -> int:
        """The graph engine's number of the format; ND for an unknown format."""
        return _FORMATS.get(self.format, _FORMAT_ND)


Core: TypeAlias = Literal["AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV"]

_CUBE_TILE = 128 * 128  # elements of the output that a cube core processes at a time
_VECTOR_TILE_BYTES = 32 << 10  # bytes that a vector core processes at a time
_SATURATING_SHARE = 0.5  # share of the cores that saturate the memory bandwidth
# Rates relative to half precision. Vector: 64 lanes of 32 bits, 32 of anything wider, as the counters weigh them
# (raw/FORMAT.md section 9). Cube: twice for 8 bits, a quarter for single precision.
_CUBE_RATE = {"float16": 1.0, "bfloat16": 1.0, "int8": 2.0}
_OTHER_CUBE_RATE = 0.25
_VECTOR_RATE = {"float16": 1.0, "bfloat16": 1.0, "float32": 0.5, "int32": 0.5, "int16": 0.5, "int8": 0.5}
_OTHER_VECTOR_RATE = 0.25


@dataclass(frozen=True)
class Operator:
    """One launch of an operator.

    Mixed cores use cube and vector cores together. `flops` are operations of the cube for ``AI_CORE`` and ``MIX_AIC``,
    of the vector units otherwise; `block_num` is the number of cores.
    """

    op_type: str
    name: str
    api: str
    core: Core
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: int
    read_bytes: int
    written_bytes: int
    block_num: int

    @property
    def dtype(self) -> str:
        """The data type of the first operand, in which the operator computes."""
        return next((tensor.dtype for tensor in (*self.inputs, *self.outputs)), "float16")


@dataclass(frozen=True)
class Estimate:
    """Duration of an operator, and its time at peak rate of cube, vector units, reads and writes."""

    duration_ns: int
    cube_ns: int
    vector_ns: int
    read_ns: int
    write_ns: int


def block_count(chip: Chip, core: Core, outputs: tuple[Tensor, ...], traffic_bytes: int) -> int:
    """Return the number of cores for an operator of this size."""
    if core in ("AI_CORE", "MIX_AIC"):
        elements = max((math.prod(tensor.shape) for tensor in outputs), default=1)
        return min(chip.ai_core_count, max(1, math.ceil(elements / _CUBE_TILE)))
    return min(chip.aiv_count, max(1, math.ceil(traffic_bytes / _VECTOR_TILE_BYTES)))


def rounds_of(blocks: int, cores: int) -> int:
    """Return the number of rounds in which the cores run all blocks."""
    return math.ceil(blocks / cores)


@lru_cache(maxsize=4096)
def estimate(chip: Chip, operator: Operator) -> Estimate:
    """Estimate a duration by roofline, plus the floor of every kernel."""
    cycle_hz = chip.core_mhz * 1e6
    cube = operator.core in ("AI_CORE", "MIX_AIC")
    cores = chip.ai_core_count if cube else chip.aiv_count
    busy_cores = operator.block_num / rounds_of(operator.block_num, cores)
    dtype = operator.dtype
    if cube:
        rate = chip.cube_fp16_flops_per_cycle * _CUBE_RATE.get(dtype, _OTHER_CUBE_RATE)
    else:
        rate = chip.vector_fp16_flops_per_cycle * _VECTOR_RATE.get(dtype, _OTHER_VECTOR_RATE)
    compute_ns = round(operator.flops / (rate * cycle_hz * busy_cores) * 1e9)
    bandwidth = chip.hbm_bytes_per_s * min(1.0, busy_cores / (cores * _SATURATING_SHARE))
    read_ns = round(operator.read_bytes / bandwidth * 1e9)
    write_ns = round(operator.written_bytes / bandwidth * 1e9)
    duration_ns = max(compute_ns, read_ns + write_ns) + chip.kernel_floor_ns
    # The vector half of a mixed kernel post-processes the results of the cube: it moves the results.
    vector_ns = 0 if operator.core == "AI_CORE" else (write_ns if operator.core == "MIX_AIC" else compute_ns)
    return Estimate(duration_ns, compute_ns if cube else 0, vector_ns, read_ns, write_ns)
