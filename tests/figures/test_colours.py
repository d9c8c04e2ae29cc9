from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from npuprof.figures.colours import (
    ACTIVITIES,
    FAMILIES,
    FASTER,
    MATCH,
    MEMORY,
    PARTS,
    SERIES,
    SEVERITIES,
    SLOWER,
    UNKNOWN,
    device_family,
    ink,
    luminance,
    shade,
    shades,
)


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
    assert {shade("python", f"f{i}") for i in range(50)} == set(shades("python"))
    assert len(set(shades("python"))) == 3


_WHITE, _DARK = 1.0, luminance("#212121")  # JupyterLab's backgrounds of outputs; Notebook's are the same
_PALETTE = {
    **{key: family.colour for key, family in FAMILIES.items()},
    **PARTS,
    **{f"activity {key}": colour for key, colour in ACTIVITIES.items()},
    "memory": MEMORY,
    "slower": SLOWER,
    "faster": FASTER,
    "match": MATCH,
}
_ONE_MEANING = [
    {"computing"},
    {"communication", "activity communication"},
    {"wait", "waiting"},
    {"movement", "copy"},
    {"python", "host", "activity python"},
    {"operator", "activity other_operators"},
    {"step", "activity unexplained", "not_recorded"},  # of no kind
]
_GREYS = {UNKNOWN, PARTS["idle"], PARTS["between_steps"], FAMILIES["step"].colour}


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def test_colours_have_a_contrast_of_three_to_light_and_dark_pages() -> None:
    shown = [*_PALETTE.values(), *SERIES, *SEVERITIES.values(), *(one for key in FAMILIES for one in shades(key))]
    for colour in shown:
        assert _contrast(luminance(colour), _WHITE) >= 3, colour
        assert _contrast(luminance(colour), _DARK) >= 3, colour


def test_texts_on_bars_are_legible() -> None:
    for colour in (*_PALETTE.values(), *(one for key in FAMILIES for one in shades(key))):
        assert _contrast(luminance(colour), luminance(ink(colour))) >= 4.2, colour


def test_a_colour_means_one_thing() -> None:
    meanings: dict[str, set[str]] = {}
    for key, colour in _PALETTE.items():
        meanings.setdefault(colour, set()).add(key)
    for keys in meanings.values():
        assert len(keys) == 1 or keys in _ONE_MEANING, keys


def test_canvases_use_the_palette() -> None:
    scripts = (Path(__file__).parents[2] / "npuprof" / "browser" / "scripts").glob("*.js")
    of_page = {"#ffffff", "#222222", "#666666", "#bbbbbb", "#000000"}  # without a theme
    used = {colour for path in scripts for colour in re.findall(r"#[0-9a-f]{6}\b", path.read_text(encoding="utf-8"))}
    assert used - of_page <= {*_PALETTE.values(), *SERIES}


@pytest.mark.parametrize("sight", ["normal", "protanopia", "deuteranopia", "tritanopia"])
def test_colours_look_different(sight: str) -> None:
    shown = dict.fromkeys(_PALETTE.values())
    for one, two in combinations(shown, 2):
        least = 5 if {one, two} <= _GREYS else 7.5
        assert _distance(one, two, sight) > least, (one, two)


@pytest.mark.parametrize("sight", ["normal", "protanopia", "deuteranopia", "tritanopia"])
def test_shades_of_different_families_look_different(sight: str) -> None:
    for one, two in combinations(FAMILIES, 2):
        assert min(_distance(a, b, sight) for a in shades(one) for b in shades(two)) > 4.5, (one, two)


def _distance(one: str, two: str, sight: str) -> float:
    return float(np.linalg.norm(_lab(one, _SIGHT[sight]) - _lab(two, _SIGHT[sight])))


# How red, green and blue light appears: Machado, Oliveira and Fernandes 2009, severity 1.
_SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
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
