"""What chips can do."""

from __future__ import annotations

import pytest

from npuprof.analysis.chip_limits import LIMITS, limits_of
from npuprof.simulator.cost_model import CHIPS


@pytest.mark.parametrize("name", ["Ascend 910B", "Ascend910B", "ascend910B2"])
def test_a_chip_is_found_however_its_name_is_spelt(name: str) -> None:
    assert limits_of(name) is not None


@pytest.mark.parametrize("name", ["", "Ascend 310P", "Ascend (platform version 99)"])
def test_a_chip_whose_figures_are_not_known_has_none(name: str) -> None:
    assert limits_of(name) is None


def test_every_figure_has_a_source() -> None:
    assert all(limits.source for limits in LIMITS.values())


def test_they_are_those_that_the_simulator_keeps_to() -> None:
    chip, limits = CHIPS["910B"], limits_of("Ascend 910B")
    assert limits is not None
    hz = chip.core_mhz * 1e6
    assert limits.cube_flops_per_s == chip.ai_core_count * chip.cube_fp16_flops_per_cycle * hz
    assert limits.vector_flops_per_s == chip.aiv_count * chip.vector_fp16_flops_per_cycle * hz
    assert limits.memory_bytes_per_s == chip.hbm_bytes_per_s
