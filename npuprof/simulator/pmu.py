"""The hardware counters of a kernel, derived from the roofline.

A metric set has up to eight events in order. The formulas of raw/FORMAT.md section 9 turn the counters back into the
operations, bytes and busy shares of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from npuprof.simulator.cost_model import Chip, Estimate, Operator, rounds_of

COUNTERS = 8
PIPE_UTILIZATION = 1

_MAC_BYTES = 512  # operand of one cube cycle: 16 x 16 half-precision values
_L0_REUSE = 16  # how often the model uses a value in L0 before it is replaced
_CACHE_LINE_BYTES = 128
_INSTRUCTION_FETCH_CYCLES = 64
_ICACHE_HITS_A_MISS = 64


@dataclass(frozen=True)
class Usage:
    """Activity of one kind of core in a kernel, summed over the blocks."""

    cycles: int  # core cycles; with more blocks than cores, each block takes a part of the time
    share: Mapping[str, float]  # busy share of the cycles by pipe: cube, vector, scalar, read, write
    # flops, int8, width: operations, whether on 8-bit integers, and vector lanes of the data type.
    flops: int
    int8: bool
    width: int
    # read_bytes, written_bytes, hit_share: memory traffic, and its share in the L2 cache.
    read_bytes: int
    written_bytes: int
    hit_share: float
    cube: bool  # whether this is the cube core

    def busy(self, pipe: str) -> int:
        """Return the busy cycles of a pipe."""
        return round(self.cycles * min(1.0, self.share[pipe]))

    @property
    def mac_cycles(self) -> int:
        """Cube cycles at half precision."""
        return self.flops // 8192 if self.cube else 0

    def vector_cycles(self, width: int) -> int:
        """Return the vector cycles of this lane width; 0 for a kernel of another width."""
        return self.flops // width if not self.cube and self.width == width else 0


Counter = Callable[[Usage], int]


def _bits(read: Callable[[Usage], float], bits: int) -> Counter:
    """Return a counter of transfers of `bits` each, from a function that returns bytes."""
    return lambda usage: round(read(usage) * 8 / bits)


def _l0(usage: Usage) -> int:
    return usage.mac_cycles * _MAC_BYTES


def _ub_read(usage: Usage) -> int:
    return 0 if usage.cube else usage.read_bytes


def _ub_written(usage: Usage) -> int:
    return 0 if usage.cube else usage.written_bytes


def _l1_written(usage: Usage) -> int:
    return usage.read_bytes if usage.cube else 0


def _fixpipe(usage: Usage) -> int:
    return usage.written_bytes if usage.cube else 0


def _lines(read: Callable[[Usage], int], hit: bool, ports: int = 1) -> Counter:
    """Return a counter of cache lines that hit or miss."""

    def count(usage: Usage) -> int:
        share = usage.hit_share if hit else 1 - usage.hit_share
        return round(read(usage) * share / _CACHE_LINE_BYTES / ports)

    return count


def _miss_counter(read: Callable[[Usage], int], ports: int) -> Counter:
    return lambda usage: round(read(usage) * (1 - usage.hit_share) * 8 / 1024 / ports)


def _read(usage: Usage) -> int:
    return usage.read_bytes


def _write_counter(usage: Usage) -> int:
    return usage.written_bytes


def _no_counter(_usage: Usage) -> int:
    return 0


@dataclass(frozen=True)
class MetricSet:
    """The events of an ``aic_metrics`` value, with the counter of each event."""

    name: str
    counters: Mapping[int, Counter]

    @property
    def events(self) -> str:
        """The events in the form of ``sample.json``."""
        return ",".join(f"{event:#x}" for event in self.counters)


_SETS: Mapping[int, tuple[str, dict[int, Counter]]] = {
    0: (
        "ArithmeticUtilization",
        {
            0x49: lambda usage: 0 if usage.int8 else usage.mac_cycles,
            0x4A: lambda usage: usage.mac_cycles // 2 if usage.int8 else 0,
            0x4B: lambda usage: 0 if usage.int8 else usage.vector_cycles(64),
            0x4C: lambda usage: usage.vector_cycles(128),
            0x4D: _no_counter,
            0x4E: lambda usage: usage.vector_cycles(64) if usage.int8 else 0,
            0x4F: lambda usage: usage.vector_cycles(32),
        },
    ),
    1: (
        "PipeUtilization",
        {
            0x8: lambda usage: usage.busy("vector"),
            0xA: lambda usage: usage.busy("cube"),
            0x9: lambda usage: usage.busy("scalar"),
            0xB: lambda usage: usage.busy("cube") // 2,
            0xC: lambda usage: usage.busy("read"),
            0xD: lambda usage: usage.busy("write"),
            0x54: lambda usage: usage.cycles // _INSTRUCTION_FETCH_CYCLES,
            0x55: lambda usage: usage.cycles // _INSTRUCTION_FETCH_CYCLES // _ICACHE_HITS_A_MISS,
        },
    ),
    2: (
        "Memory",
        {
            0x15: _bits(_ub_read, 256 * 4),
            0x16: _bits(_ub_written, 256 * 4),
            0x31: _bits(lambda usage: 2 * _l0(usage) / _L0_REUSE, 256 * 16),
            0x32: _bits(_l1_written, 128 * 8),
            0x12: _bits(_read, 8 * 8),
            0x13: _bits(_write_counter, 8 * 8),
            0xF: _bits(_read, 256 * 8),
            0x10: _bits(_write_counter, 256 * 8),
        },
    ),
    3: (
        "MemoryL0",
        {
            0x1B: _bits(_l0, 256 * 16),
            0x1C: _bits(lambda usage: _l0(usage) / _L0_REUSE, 256 * 16),
            0x21: _bits(_l0, 256 * 16),
            0x22: _bits(lambda usage: _l0(usage) / _L0_REUSE, 256 * 8),
            0x27: _bits(_fixpipe, 256 * 8),
            0x29: _bits(_no_counter, 256 * 8),
            0x28: _bits(lambda usage: 2 * _l0(usage), 256 * 32),
            0x2A: _bits(lambda usage: 2 * _l0(usage), 256 * 32),
        },
    ),
    4: (
        "ResourceConflictRatio",
        {
            0x64: lambda usage: usage.busy("vector") // 50,
            0x65: lambda usage: usage.busy("vector") // 100,
            0x66: lambda usage: usage.busy("vector") // 200,
        },
    ),
    5: (
        "MemoryUB",
        {
            0x43: _bits(lambda usage: _ub_read(usage) + _ub_written(usage), 128 * 2),
            0x44: _bits(_ub_written, 128 * 2),
            0x37: _bits(lambda usage: usage.busy("scalar"), 128),
            0x38: _bits(lambda usage: usage.busy("scalar") / 2, 128),
        },
    ),
    6: (
        "L2Cache",
        {
            0x500: _lines(_write_counter, hit=True),
            0x502: _lines(_write_counter, hit=False),
            0x504: _lines(_read, hit=True, ports=2),
            0x506: _lines(_read, hit=False, ports=2),
            0x508: _lines(_read, hit=True, ports=2),
            0x50A: _lines(_read, hit=False, ports=2),
        },
    ),
    8: (
        "MemoryAccess",
        {
            0x32: _bits(_l1_written, 256 * 8),
            0x3D: _bits(_ub_written, 128 * 8),
            0x3E: _bits(_ub_read, 128 * 8),
            0x206: _no_counter,
            0x20C: _bits(_fixpipe, 128 * 8),
            0x50C: _miss_counter(_write_counter, 1),
            0x50D: _miss_counter(_read, 2),
            0x50E: _miss_counter(_read, 2),
        },
    ),
}
METRICS: Mapping[int, MetricSet] = MappingProxyType({key: MetricSet(*value) for key, value in _SETS.items()})

# 910B: two request events, two of hits, one of victims. Source: raw/FORMAT.md section 5.8.
L2_EVENTS = "0xfb,0xfc,0x90,0x91,0x9c"


# Chip, operator, its estimate, duration in ns, blocks, and whether the cube cores are meant.
UsageKey: TypeAlias = tuple[Chip, Operator, Estimate, int, int, bool]


@lru_cache(maxsize=4096)
def usage_of(chip: Chip, operator: Operator, work: Estimate, duration_ns: int, blocks: int, cube: bool) -> Usage:
    """Return the activity of the cube cores or the vector cores in a kernel of this duration."""
    shares = {
        "cube": work.cube_ns / duration_ns if cube else 0.0,
        "vector": 0.0 if cube else work.vector_ns / duration_ns,
        "scalar": chip.kernel_floor_ns / 2 / duration_ns,
        "read": work.read_ns / duration_ns,
        "write": work.write_ns / duration_ns,
    }
    fits = operator.read_bytes + operator.written_bytes <= chip.l2_bytes
    width = {"float16": 128, "bfloat16": 128, "float32": 64, "int32": 64, "int16": 64, "int8": 64}
    mixed_vector = operator.core == "MIX_AIC" and not cube
    rounds = rounds_of(blocks, chip.ai_core_count if cube else chip.aiv_count)
    return Usage(
        cycles=duration_ns * chip.core_mhz // 1000 // rounds * blocks,
        share=MappingProxyType(shares),
        flops=0 if mixed_vector else operator.flops,
        int8="int" in operator.dtype,
        width=width.get(operator.dtype, 32),
        read_bytes=operator.read_bytes,
        written_bytes=operator.written_bytes,
        hit_share=0.5 if fits else 0.0,
        cube=cube,
    )


@lru_cache(maxsize=4096)
def counters_of(metric: int, usage_key: UsageKey) -> tuple[int, ...]:
    """Return the total cycles and the eight counters of a metric set; unused counters are 0."""
    usage = usage_of(*usage_key)
    values = [count(usage) for count in METRICS[metric].counters.values()]
    return (usage.cycles, *values, *[0] * (COUNTERS - len(values)))


@lru_cache(maxsize=4096)
def l2_counters_of(usage_key: UsageKey) -> tuple[int, ...]:
    """Return the eight counters of the L2 cache record: requests, hits and victims."""
    usage = usage_of(*usage_key)
    requests = (usage.read_bytes + usage.written_bytes) // _CACHE_LINE_BYTES
    hits = round(requests * usage.hit_share)
    half = requests // 2, requests - requests // 2, hits // 2, hits - hits // 2
    return (*half, (requests - hits) // 4, 0, 0, 0)
