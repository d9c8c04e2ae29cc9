from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from npuprof.figures.colours import FAMILIES, PARTS, device_family, shade


@pytest.mark.parametrize(
    ("op_type", "task_type", "name", "family"),
    [
        ("MatMulV3", "AI_CORE", "aclnnMm_MatMulV3", "matrix"),
        ("Conv2D", "AI_CORE", "Conv2D", "matrix"),
        ("FlashAttentionScore", "MIX_AIC", "FlashAttentionScore", "matrix"),
        ("Add", "AI_VECTOR_CORE", "Add", "vector"),
        ("TransData", "AI_VECTOR_CORE", "TransData", "movement"),
        ("", "MEMCPY_ASYNC", "", "movement"),
        ("", "EVENT_WAIT", "", "wait"),
        ("", "NOTIFY_WAIT_SQE", "matmul", "wait"),
        ("", "", "", "vector"),
    ],
)
def test_a_device_task_belongs_to_the_family_of_its_work(op_type: str, task_type: str, name: str, family: str) -> None:
    assert device_family(op_type, task_type, name) == family


def test_a_name_has_one_shade_in_every_run() -> None:
    assert shade("matrix", "MatMulV3") == shade("matrix", "MatMulV3")
    assert {shade("python", f"f{i}") for i in range(50)} == {"#56b4e9", "#73c1ed", "#8fcef0"}


@pytest.mark.parametrize("sight", ["normal", "protanopia", "deuteranopia"])
def test_families_and_parts_look_different(sight: str) -> None:
    families = {key: family.colour for key, family in FAMILIES.items() if key not in ("step", "wait")}
    shown_parts = {part: colour for part, colour in PARTS.items() if part not in ("idle", "between_steps")}
    for colours in (families, shown_parts):
        seen = {key: _lab(colour, _SIGHT[sight]) for key, colour in colours.items()}
        nearest = min((float(np.linalg.norm(seen[one] - seen[two])), one, two) for one, two in combinations(seen, 2))
        assert nearest[0] > 15, nearest


# How red, green and blue light appears: Machado, Oliveira and Fernandes 2009, severity 1.
_SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def _lab(colour: str, sight: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Lightness and chroma of a colour as somebody sees it (CIELAB)."""
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    light = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(sight @ light, 0, 1) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
