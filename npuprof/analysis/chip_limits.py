"""The limits of chips for a roofline, with the source of every figure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np
import pandas as pd

from npuprof.arrays import Bools, Float64
from npuprof.errors import OptionsError
from npuprof.words.quantities import counted

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
    _chip("910B2", "24/48", 1800, 192, 64, 1600, _910B_MEMORY),
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
_FAMILIES = {"ascend910b": ("ascend910b", "ascend9109"), "ascend910": ("ascend910a", "ascend910p")}
"""How the names of a family's chips begin, where recordings name the family alone: dies of the 910C record as 910B."""


def _spelt(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


LIMITS: Mapping[str, ChipLimits] = MappingProxyType({_spelt(chip.name): chip for chip in _CHIPS})
"""Limits by the chip's name in lower case, without spaces, hyphens and underscores."""


def limits_of(chip: str) -> ChipLimits | None:
    """Return the limits of a chip by its name, such as ``Ascend 910B3``; None for a family, and an unknown chip."""
    return LIMITS.get(_spelt(chip))


def _family_of(chip: str) -> list[ChipLimits]:
    """Return the known chips of a family that a recording names in place of one; none for any other name."""
    begins = _FAMILIES.get(_spelt(chip), (_spelt(chip) or "?",))
    return [each for each in _CHIPS if _spelt(each.name).startswith(begins)]


def _listed(chips: Iterable[ChipLimits]) -> str:
    return ", ".join(dict.fromkeys(each.name.removeprefix("Ascend ") for each in chips))


def chip(name: str) -> ChipLimits:
    """Return the limits of a chip to pass as ``limits=``: ``run.efficiency(limits=npuprof.chip("910B3"))``.

    Raises
    ------
    OptionsError
        If no chip of this name is known; the message has all names.
    """
    known = limits_of(name) or limits_of(f"Ascend {name}")
    if known is None:
        family = _family_of(name) or _family_of(f"Ascend {name}")
        lacking = f"{name!r} is a family of chips: name one of" if family else f"there is no chip {name!r}: known are"
        raise OptionsError(f"{lacking} {_listed(family or _CHIPS)}; for others pass limits=ChipLimits(...)")
    return known


def measured_limits(
    kernels: pd.DataFrame, chip: str, counters: pd.DataFrame | None = None
) -> tuple[ChipLimits | None, str]:
    """Return the limits of the chip that ran the kernels, and what is doubtful about them; empty if nothing is.

    The counters of a kernel give the clock, divided by the rounds that its blocks needed on the cores. Cores and clock
    are taken from them where they fit only one number of cores and one clock of all known chips, or of all chips of the
    family that the recording names; else nothing can be told. The values of a chip that the recording names are used
    unless the counters contradict them.

    Parameters
    ----------
    kernels
        The table ``kernels``.
    chip
        The name of the chip, or of its family, in the recording; may be empty.
    counters
        The table ``counters``, for samples of the clock.
    """
    named, family = limits_of(chip), _family_of(chip)
    evidence: dict[str, tuple[Float64, Float64]] = {core: _rates(kernels, core) for core in _KINDS}
    count = sum(len(blocks) for blocks, _ in evidence.values())
    clock = _sampled_mhz(counters)
    if named is not None and (not count or _explains(named, named.mhz, evidence, clock)):
        return named, ""
    if not count:
        only = f"the recording names only {chip}, which may be {_listed(family)}: {_TO_SET}{or_count(kernels)}"
        return None, only if family else ""
    measured = clock or measured_mhz(kernels)
    of_family = _fitting(family, evidence, measured, clock) if named is None else []
    fitting = of_family or _fitting(_CHIPS, evidence, measured, clock)
    if named is not None and not fitting:
        return named, f"the counters of {counted(count, 'kernel')} do not fit {named.name} ({_limits_text(named)})"
    kinds = {(each.cube_cores, each.vector_cores, round(mhz)) for each, mhz in fitting}
    if len(kinds) != 1 or count < _LEAST:
        names = _listed(each for each, _ in fitting) or "none of those known"
        return None, f"cannot tell the chip: the counters of {counted(count, 'kernel')} fit {names}; {_TO_SET}"
    mhz = fitting[0][1]
    nominal = [each for each, _ in fitting if abs(each.mhz / mhz - 1) < _SAME]
    shown = _alike(nominal) if nominal and named is None else _with_clock([each for each, _ in fitting], mhz)
    if named is not None:
        return shown, f"the counters show {shown.name}, but {named.name} has {_limits_text(named)}"
    return shown, f"the counters show a chip {shown.name}, which is no {chip}" if family and not of_family else ""


_LEAST = 3  # kernels with counters, below which a fit may be chance
_MOSTLY = 0.95  # of the kernels have to fit
_MANY = 100  # kernels, of which some use all cores
_TO_SET = 'pass the chip, as limits=npuprof.chip("910B3")'


def _sampled_mhz(counters: pd.DataFrame | None) -> float:
    """Return the highest sample of the cores' clock, which is lower while they are idle; 0 without samples."""
    if counters is None:
        return 0.0
    of_clock = (counters["counter"] == "AI Core Freq").to_numpy(dtype=bool, na_value=False)
    return float(counters["value"].to_numpy(np.float64)[of_clock].max(initial=0.0))


def _explains(
    chip: ChipLimits, mhz: float, evidence: Mapping[str, tuple[Float64, Float64]], sampled_mhz: float
) -> bool:
    """Return whether the counters of nearly all kernels are those of a chip at a clock."""
    if sampled_mhz and abs(mhz / sampled_mhz - 1) >= _SAME:
        return False
    fits = []
    for core, (blocks, rates) in evidence.items():
        cores = chip.cube_cores if core == "aic" else chip.vector_cores
        expected = mhz / np.ceil(blocks / cores) if cores else np.zeros(len(blocks))
        fits.append(np.abs(rates - expected) < _SAME * expected)
    return float(np.concatenate(fits).mean()) >= _MOSTLY


def _full(blocks: Float64) -> int:
    """Return the blocks that many kernels of one round have and none exceeds: those of all cores; 0 for few."""
    if len(blocks) < _MANY:
        return 0
    return int(blocks.max()) if (blocks == blocks.max()).mean() > _OFTEN else 0


def _fitting(
    chips: Sequence[ChipLimits],
    evidence: Mapping[str, tuple[Float64, Float64]],
    measured: float,
    sampled_mhz: float,
) -> list[tuple[ChipLimits, float]]:
    """Return the chips that explain the counters, each with its clock: their own, or else the measured one.

    Where several do, those remain that have as many cores of both kinds as many kernels have blocks, and none more.
    """
    fitting = [(each, each.mhz) for each in chips if _explains(each, each.mhz, evidence, sampled_mhz)]
    if not measured or len({(each.cube_cores, each.vector_cores, mhz) for each, mhz in fitting}) == 1:
        return fitting
    others = [(each, measured) for each in chips if _explains(each, measured, evidence, sampled_mhz)]
    full = [_full(blocks[np.abs(rates / measured - 1) < _SAME]) for blocks, rates in evidence.values()]
    same = [(each, mhz) for each, mhz in fitting or others if full == [each.cube_cores, each.vector_cores]]
    return same or [pair for pair in others if full == [pair[0].cube_cores, pair[0].vector_cores]] or fitting or others


def _alike(chips: list[ChipLimits]) -> ChipLimits:
    """Return the limits of chips with the same cores and clock; memory and cache only where all have the same."""
    first, several = chips[0], _agree(chips)
    # As text, where an unknown figure, NaN, is the same as another.
    figures = [repr(replace(each, name="", source="")) for each in chips]
    names = [each.name for each, of_chip in zip(chips, figures, strict=True) if of_chip != figures[0]]
    label = " or ".join([first.name, *(name.removeprefix("Ascend ") for name in names)])
    return replace(several, name=f"like {label}, by cores and clock")


def _with_clock(chips: list[ChipLimits], mhz: float) -> ChipLimits:
    """Return the limits of chips with the same cores at a clock that is not their own."""
    agreed = _agree(chips)
    scale = mhz / agreed.mhz
    return replace(
        agreed,
        name=f"{agreed.cube_cores} cube and {agreed.vector_cores} vector cores at {mhz:.0f} MHz",
        cube_flops_per_s=agreed.cube_cores * _CUBE_FLOPS * mhz * 1e6,
        vector_flops_per_s=agreed.vector_flops_per_s * scale,
        mhz=mhz,
    )


def _agree(chips: list[ChipLimits]) -> ChipLimits:
    """Return the first of some chips, without what the others have differently: memory, cache."""
    first = chips[0]
    memory = first.memory_bytes_per_s if len({each.memory_bytes_per_s for each in chips}) == 1 else math.nan
    text = _memory(first) if not math.isnan(memory) else "not known"
    return replace(
        first,
        memory_bytes_per_s=memory,
        source=f"cores and clock: counters of the kernels; memory: {text}",
        l2_bytes=first.l2_bytes if len({each.l2_bytes for each in chips}) == 1 else 0,
        hbm_bytes=first.hbm_bytes if len({each.hbm_bytes for each in chips}) == 1 else 0,
    )


def _memory(chip: ChipLimits) -> str:
    return chip.source.partition("memory: ")[2]


def _limits_text(chip: ChipLimits) -> str:
    return f"{chip.cube_cores} and {chip.vector_cores} at {chip.mhz:.0f} MHz"


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


def or_count(kernels: pd.DataFrame) -> str:
    """Return how kernels have counters, which tell the chip, as the end of a sentence; empty if they have some."""
    names = [f"{core}_total_cycles" for core in _KINDS]
    if any(name in kernels and kernels[name].notna().any() for name in names):
        return ""
    return ", or collect at level 1 with aic_metrics=PipeUtilization"


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
