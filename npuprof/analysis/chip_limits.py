"""The limits of chips for a roofline, with the source of every figure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Float64

_CUBE_FLOPS = 2 * 16**3  # per cycle of a cube core at half precision: 16 x 16 x 16 multiply-adds
_VECTOR_FLOPS = 128  # per cycle of a vector core at half precision: 64 lanes, each a multiply and an add
_SURE_NS = 5_000  # for shorter kernels, times are rounded by more than one per cent
_SAME = 0.01
_OFTEN = 0.05


@dataclass(frozen=True)
class ChipLimits:
    """Limits of one chip.

    Attributes
    ----------
    name
        The name of the chip, with the variant that the limits are of.
    cube_flops_per_s, vector_flops_per_s
        Operations per second of all cube cores and of all vector cores at half precision; a multiply-add on the cube
        counts as two operations, an operation of a vector lane as one.
    memory_bytes_per_s
        Bandwidth of the device memory (HBM) by the vendor's documents; NaN if unknown.
    source
        The source of the figures.
    cube_cores, vector_cores
        Number of cores; 0 vector cores if the vector unit is part of the cube core.
    mhz
        Clock of the cores.
    l2_bytes
        Size of the cache that all cores share.
    has_float32
        Whether the cube can multiply at single precision, at a quarter of the speed.
    hbm_bytes
        Size of the device memory; 0 if unknown.
    """

    name: str
    cube_flops_per_s: float
    vector_flops_per_s: float
    memory_bytes_per_s: float
    source: str
    cube_cores: int = 0
    vector_cores: int = 0
    mhz: float = math.nan
    l2_bytes: int = 0
    has_float32: bool = True
    hbm_bytes: int = 0

    def cube_peak(self, dtype: str) -> float:
        """Return the peak of the cube in operations per second for operands of a data type; NaN if unknown."""
        plain = dtype.upper().removeprefix("DT_")
        if plain in ("INT8", "UINT8", "INT4"):
            return 2 * self.cube_flops_per_s
        if plain in ("FLOAT", "FLOAT32"):
            return self.cube_flops_per_s / 4 if self.has_float32 else math.nan
        return self.cube_flops_per_s

    def vector_peak(self, dtype: str) -> float:
        """Return the peak of the vector cores in operations per second for operands of a data type."""
        is_wide = dtype.upper().removeprefix("DT_") in ("FLOAT", "FLOAT32", "INT32", "UINT32", "INT64", "UINT64")
        return self.vector_flops_per_s / (2 if is_wide else 1)


_INI = "cores and clock: CANN's platform configuration; memory: "
_DISPUTED = "sources differ, {}"


def _chip(name: str, cores: str, mhz: int, l2_mb: int, hbm_gib: int, gb_per_s: float, memory: str) -> ChipLimits:
    cube, vector = map(int, cores.split("/"))
    hz = mhz * 1e6
    return ChipLimits(
        name=f"Ascend {name}",
        cube_flops_per_s=cube * _CUBE_FLOPS * hz,
        # If the vector unit is part of the cube core, its number of lanes is unknown.
        vector_flops_per_s=vector * _VECTOR_FLOPS * hz if vector >= cube else math.nan,
        memory_bytes_per_s=gb_per_s * 1e9,
        source=_INI + memory,
        cube_cores=cube,
        vector_cores=vector,
        mhz=float(mhz),
        l2_bytes=l2_mb << 20,
        has_float32=vector >= cube,
        hbm_bytes=hbm_gib << 30,
    )


_910B_MEMORY = _DISPUTED.format("1500 to 1800 GB/s")
_910C_MEMORY = "the vendor's paper, for each die"
_910A_MEMORY = "the vendor, 1148 GB/s were measured"
_CHIPS = (
    _chip("910B2", "24/48", 1800, 192, 64, 1600, _910B_MEMORY),  # first: the variant that a plain 910B stands for
    _chip("910B1", "24/48", 1850, 192, 64, 1600, _910B_MEMORY),
    _chip("910B2C", "24/48", 1800, 192, 64, 1600, _910B_MEMORY),
    _chip("910B3", "20/40", 1800, 192, 64, 1600, _DISPUTED.format("400 to 1600 GB/s")),
    _chip("910B4", "20/40", 1500, 96, 32, 800, _DISPUTED.format("800 or 1200 GB/s")),
    _chip("910B4-1", "20/40", 1500, 168, 32, 800, _DISPUTED.format("800 or 1200 GB/s")),
    _chip("910_9391", "24/48", 1850, 192, 64, 1600, _910C_MEMORY),
    _chip("910_9392", "24/48", 1850, 192, 64, 1600, _910C_MEMORY),
    _chip("910_9381", "24/48", 1800, 192, 64, 1600, _910C_MEMORY),
    _chip("910_9382", "24/48", 1800, 192, 64, 1600, _910C_MEMORY),
    _chip("910_9372", "20/40", 1800, 192, 64, 1600, _910C_MEMORY),
    _chip("910_9362", "20/40", 1500, 168, 64, 1600, _910C_MEMORY),
    _chip("910A", "32/0", 1000, 32, 32, 1200, _910A_MEMORY),
    _chip("910ProA", "32/0", 1100, 32, 32, 1200, _910A_MEMORY),
    _chip("910PremiumA", "32/0", 1220, 32, 32, 1200, _910A_MEMORY),
    _chip("910ProB", "30/0", 1150, 32, 32, 1200, _910A_MEMORY),
    _chip("310P1", "10/8", 1060, 16, 22, 204, "weak: pages of resellers"),
    _chip("310P3", "8/7", 1060, 16, 22, 204, "weak: pages of resellers"),
    _chip("950PR_9579", "28/56", 1650, 128, 128, 1600, "the vendor's announcement"),
    _chip("950DT_9581", "32/64", 1650, 128, 144, 4000, "the vendor's announcement"),
)
_ALSO = {"ascend910b": "Ascend 910B2", "ascend910": "Ascend 910A"}


def _spelt(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


LIMITS: Mapping[str, ChipLimits] = MappingProxyType(
    {_spelt(chip.name): chip for chip in _CHIPS}
    | {other: chip for other, name in _ALSO.items() for chip in _CHIPS if chip.name == name}
)
"""Limits by the chip's name in lower case, without spaces, hyphens and underscores."""


def limits_of(chip: str) -> ChipLimits | None:
    """Return the limits of a chip by its name, such as ``Ascend 910B``; None if they are unknown.

    Recordings of the 910B do not name the variant: they get the limits of the 910B2.
    """
    return LIMITS.get(_spelt(chip))


def measured_limits(kernels: pd.DataFrame, chip: str) -> tuple[ChipLimits | None, str]:
    """Return the limits of the chip that ran the kernels, and what contradicts its known limits; empty if nothing does.

    Clock and number of cores come from the kernels' counters, if they have any: the clock is cycles over time times
    blocks, or that divided by n for kernels whose blocks needed n rounds on the cores. The known values of the named
    chip serve as a check, unless the name is that of a family; without counters they are used as they are.

    Parameters
    ----------
    kernels
        The table ``kernels``.
    chip
        The chip's name in the recording; may be empty.
    """
    named = limits_of(chip)
    mhz = measured_mhz(kernels)
    if not mhz:
        return named, ""
    cube, vector = (measured_cores(kernels, core, mhz) for core in _KINDS)
    if named is not None and _fits(named, cube, vector, mhz):
        return named, ""
    if not cube[0] and not vector[0]:
        return named, ""
    if _spelt(chip) in _ALSO:
        named = None  # another variant of the family contradicts nothing
    alike = next((chip for chip in _CHIPS if _fits(chip, cube, vector, mhz)), None)
    if alike is not None and named is None:
        source = f"cores and clock: counters of the kernels; memory: {_memory(alike)}"
        return replace(alike, name=f"like {alike.name}, by cores and clock", source=source), ""
    near = [chip for chip in _CHIPS if _is_within(chip.cube_cores, cube) and _is_within(chip.vector_cores, vector)]
    basis = alike or next(iter(near), None)
    counted = (basis.cube_cores, basis.vector_cores) if basis else (cube[0], vector[0])
    limits = ChipLimits(
        name=f"{counted[0]} cube and {counted[1]} vector cores at {mhz:.0f} MHz",
        cube_flops_per_s=counted[0] * _CUBE_FLOPS * mhz * 1e6 if counted[0] else math.nan,
        vector_flops_per_s=counted[1] * _VECTOR_FLOPS * mhz * 1e6 if counted[1] else math.nan,
        memory_bytes_per_s=basis.memory_bytes_per_s if basis else math.nan,
        source="cores and clock: counters of the kernels; memory: "
        + (f"as {basis.name}, {_memory(basis)}" if basis else "not known"),
        cube_cores=counted[0],
        vector_cores=counted[1],
        mhz=mhz,
        l2_bytes=basis.l2_bytes if basis else 0,
    )
    differs = "" if named is None else f"the counters show {limits.name}, but {named.name} has {_limits_text(named)}"
    return limits, differs


def _memory(chip: ChipLimits) -> str:
    return chip.source.partition("memory: ")[2]


def _limits_text(chip: ChipLimits) -> str:
    return f"{chip.cube_cores} and {chip.vector_cores} at {chip.mhz:.0f} MHz"


def _fits(chip: ChipLimits, cube: tuple[int, float], vector: tuple[int, float], mhz: float) -> bool:
    return (
        abs(chip.mhz / mhz - 1) < _SAME and _is_within(chip.cube_cores, cube) and _is_within(chip.vector_cores, vector)
    )


def _is_within(cores: int, bounds: tuple[int, float]) -> bool:
    return bounds[0] <= cores < bounds[1]


_KINDS: Mapping[Literal["aic", "aiv"], tuple[str, ...]] = {
    "aic": ("AI_CORE", "AICORE", "AIC"),
    "aiv": ("AI_VECTOR_CORE", "AIVECTOR", "AIV"),
}


def _rates(kernels: pd.DataFrame, core: Literal["aic", "aiv"]) -> tuple[Float64, Float64]:
    """Return the block counts of kernels on one kind of core, and the apparent clock in MHz, from their cycles."""
    columns = [f"{core}_total_time_ns", f"{core}_total_cycles", "block_num"]
    if not all(name in kernels for name in columns):
        return np.zeros(0), np.zeros(0)
    of_kind: Bools = kernels["core"].isin(_KINDS[core]).to_numpy(bool)
    time, cycles, blocks = (kernels[name].to_numpy(np.float64, na_value=0.0)[of_kind] for name in columns)
    is_known = (time >= _SURE_NS) & (cycles > 0) & (blocks > 0)
    return blocks[is_known], cycles[is_known] / time[is_known] / blocks[is_known] * 1e3


def measured_mhz(kernels: pd.DataFrame) -> float:
    """Return the clock in MHz of most kernels that needed one round; 0 if no kernel has counters."""
    rates = [np.rint(_rates(kernels, core)[1]) for core in _KINDS]
    values, counts = np.unique(np.concatenate(rates), return_counts=True)
    often = values[counts >= _OFTEN * counts.sum()]
    return float(often.max()) if len(often) else 0.0


def measured_cores(kernels: pd.DataFrame, core: Literal["aic", "aiv"], mhz: float) -> tuple[int, float]:
    """Return the least number of cores that the kernels' counters allow, and the number that it is below.

    Parameters
    ----------
    kernels
        The table ``kernels``.
    core
        Cube (``aic``) or vector cores (``aiv``).
    mhz
        The clock of the cores, from :func:`measured_mhz`.
    """
    blocks, rates = _rates(kernels, core)
    rounds = np.rint(mhz / rates)
    sure = (rounds >= 1) & (np.abs(rates * rounds / mhz - 1) < _SAME)
    blocks, rounds = blocks[sure], rounds[sure]
    if not len(blocks):
        return 0, math.inf
    several, least = rounds > 1, int(np.ceil(blocks / rounds).max())
    below = float(np.min(blocks[several] / (rounds[several] - 1))) if several.any() else math.inf
    if (blocks[~several] == least).sum() > _OFTEN * (~several).sum():  # many kernels use all cores
        below = min(below, least + 1.0)
    return least, below
