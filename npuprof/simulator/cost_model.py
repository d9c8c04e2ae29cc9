"""What one operator asks of a chip, and the roofline that turns it into a duration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from npuprof.simulator.chips import Chip
from npuprof.simulator.tensors import Tensor

Core: TypeAlias = Literal["AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV"]

_CUBE_TILE = 128 * 128  # elements of the output that one cube core takes at a time
_VECTOR_TILE_BYTES = 32 << 10  # bytes that one vector core takes at a time
_SATURATING_SHARE = 0.5  # the share of the cores that together reach the memory bandwidth
# Rates relative to half precision. Vector: 64 lanes of 32 bits, 32 of anything wider, as the counters weigh them
# (raw/FORMAT.md section 9). Cube: twice for 8 bits, a quarter for single precision.
_CUBE_RATE = {"float16": 1.0, "bfloat16": 1.0, "int8": 2.0}
_OTHER_CUBE_RATE = 0.25
_VECTOR_RATE = {"float16": 1.0, "bfloat16": 1.0, "float32": 0.5, "int32": 0.5, "int16": 0.5, "int8": 0.5}
_OTHER_VECTOR_RATE = 0.25


@dataclass(frozen=True)
class Operator:
    """One launch of an operator.

    Attributes
    ----------
    op_type, name
        The operator's type, such as ``MatMulV3``, and the node's name.
    api
        The acl-level call that launches it, such as ``aclnnMatmul``.
    core
        The cores it runs on; the mixed ones use cube and vector cores together.
    inputs, outputs
        Operands in order.
    flops
        Floating point (or integer) operations, of the cube for ``AI_CORE`` and ``MIX_AIC``.
    read_bytes, written_bytes
        Memory traffic.
    block_num
        Cores used.
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
        """The data type that it computes in: that of its first operand."""
        return next((tensor.dtype for tensor in (*self.inputs, *self.outputs)), "float16")


@dataclass(frozen=True)
class Estimate:
    """How long an operator takes and what it keeps busy.

    Attributes
    ----------
    duration_ns
        From start to end on the device.
    cube_ns, vector_ns, read_ns, write_ns
        Time at peak rate of the cube, the vector units, reading and writing; none exceeds `duration_ns`.
    """

    duration_ns: int
    cube_ns: int
    vector_ns: int
    read_ns: int
    write_ns: int


def block_count(chip: Chip, core: Core, outputs: tuple[Tensor, ...], traffic_bytes: int) -> int:
    """Choose how many cores an operator of this size spreads over."""
    if core in ("AI_CORE", "MIX_AIC"):
        elements = max((math.prod(tensor.shape) for tensor in outputs), default=1)
        return min(chip.ai_core_count, max(1, math.ceil(elements / _CUBE_TILE)))
    return min(chip.aiv_count, max(1, math.ceil(traffic_bytes / _VECTOR_TILE_BYTES)))


def rounds_of(blocks: int, cores: int) -> int:
    """Return how many blocks a core runs one after another when there are more blocks than cores."""
    return math.ceil(blocks / cores)


@lru_cache(maxsize=4096)
def estimate(chip: Chip, operator: Operator) -> Estimate:
    """Estimate by roofline: the longest of compute and traffic, plus a floor that every kernel pays."""
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
    # A mixed kernel's vector half post-processes what the cube gives; it moves the results.
    vector_ns = 0 if operator.core == "AI_CORE" else (write_ns if operator.core == "MIX_AIC" else compute_ns)
    return Estimate(duration_ns, compute_ns if cube else 0, vector_ns, read_ns, write_ns)
