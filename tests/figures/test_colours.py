from __future__ import annotations

import pytest

from npuprof.figures.colours import FAMILIES, device_family, shade


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


def test_families_look_different() -> None:
    colours = [family.colour for family in FAMILIES.values()]
    assert len(set(colours)) == len(colours)
