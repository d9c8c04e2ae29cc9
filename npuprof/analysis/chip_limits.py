"""What a chip can do at most, as a roofline needs it, with the source of every figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class ChipLimits:
    """Limits of one chip.

    Attributes
    ----------
    name
        The chip, and which one of its kind the figures are of.
    cube_flops_per_s, vector_flops_per_s
        Operations a second of all cube and of all vector cores at half precision; a multiply-add counts as two on
        the cube, a vector lane's operation as one.
    memory_bytes_per_s
        Bandwidth of the device memory (HBM).
    source
        Where the figures come from.
    """

    name: str
    cube_flops_per_s: float
    vector_flops_per_s: float
    memory_bytes_per_s: float
    source: str


# Cubes of 16 x 16 x 16 multiply-adds a cycle, vector units of 128 lanes of half precision: 24 x 8192 x 1.8 GHz and
# 48 x 128 x 1.8 GHz.
_ASCEND_910B = ChipLimits(
    name="Ascend 910B2",
    cube_flops_per_s=24 * 8192 * 1.8e9,
    vector_flops_per_s=48 * 128 * 1.8e9,
    memory_bytes_per_s=1.6e12,
    source="cores, MHz: CANN's platform configuration (Ascend910B2.ini); memory: CANN's operator library guide",
)

LIMITS: Mapping[str, ChipLimits] = MappingProxyType({"ascend910b": _ASCEND_910B, "ascend910b2": _ASCEND_910B})
"""Limits by the chip's name, in small letters and without spaces."""


def limits_of(chip: str) -> ChipLimits | None:
    """Find the limits of a chip by its name, such as ``Ascend 910B``; None for one whose figures are not known.

    Recordings of the 910B do not tell which one of its kind it is: they get the figures of the 910B2.
    """
    return LIMITS.get("".join(chip.lower().split()))
