"""What chips can do."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import npuprof
from npuprof.analysis.chip_limits import LIMITS, ChipLimits, limits_of, measured_limits
from npuprof.errors import OptionsError
from npuprof.profiles import Profile
from npuprof.simulator.cost_model import CHIPS
from npuprof.sources.base import Decoded
from tests import factories


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


def with_counters(chip: ChipLimits, cube: list[int], vector: list[int], cycles: int = 40_000_000) -> pd.DataFrame:
    """Kernels with the counters that a chip writes: time is cycles over its clock and blocks, times the rounds."""
    parts = []
    for core, name, cores, blocks in (
        ("aic", "AI_CORE", chip.cube_cores, cube),
        ("aiv", "AI_VECTOR_CORE", chip.vector_cores, vector),
    ):
        block = np.array(blocks, np.float64)
        time_ns = cycles / chip.mhz / block * np.ceil(block / max(cores, 1)) * 1e3
        columns = {f"{core}_total_cycles": float(cycles), f"{core}_total_time_ns": np.rint(time_ns)}
        parts.append(pd.DataFrame({"core": name, "block_num": pd.array(blocks, "Int64"), **columns}))
    kernels: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return kernels


_blocks = st.lists(st.integers(1, 300), max_size=12)


@given(st.sampled_from(list(LIMITS.values())), _blocks, _blocks)
@example(LIMITS["ascend910b2"], [256], [])
@example(LIMITS["ascend910b3"], [4, 4, 4], [])
def test_counters_never_tell_a_wrong_chip(ran: ChipLimits, cube: list[int], vector: list[int]) -> None:
    limits, doubt = measured_limits(with_counters(ran, cube, vector if ran.vector_cores else []), "")
    if limits is None:
        assert "cannot tell the chip" in doubt or not cube + (vector if ran.vector_cores else [])
        return
    assert (limits.cube_cores, limits.vector_cores, limits.mhz) == (ran.cube_cores, ran.vector_cores, ran.mhz)
    assert limits.cube_flops_per_s == ran.cube_flops_per_s
    assert math.isnan(limits.memory_bytes_per_s) or limits.memory_bytes_per_s == ran.memory_bytes_per_s


@pytest.mark.parametrize("ran", list(LIMITS.values()), ids=lambda chip: chip.name)
def test_enough_counters_tell_cores_and_clock(ran: ChipLimits) -> None:
    vector = list(range(1, 200)) if ran.vector_cores else []
    limits, doubt = measured_limits(with_counters(ran, list(range(1, 200)), vector), "")
    assert limits is not None, doubt
    assert (limits.cube_cores, limits.vector_cores, limits.mhz) == (ran.cube_cores, ran.vector_cores, ran.mhz)


def test_a_sampled_clock_excludes_chips() -> None:
    kernels = with_counters(LIMITS["ascend910b4"], [20] * 4, [256, 40, 40])
    idle_and_busy = pd.DataFrame({"counter": ["AI Core Freq"] * 2, "value": [800.0, 1500.0]})
    limits, _ = measured_limits(kernels, "", idle_and_busy)
    assert limits is not None
    assert limits.mhz == 1500
    other = idle_and_busy.assign(value=[800.0, 1800.0])
    assert measured_limits(kernels, "", other)[0] is None


def test_a_chip_is_set_by_its_name_and_an_unknown_one_is_refused() -> None:
    run = Profile(Decoded(factories.profile(20), factories.info(chip="")))
    table = run.efficiency()
    assert table["efficiency"].isna().all()
    assert 'npuprof.chip("910B3")' in table.attrs["notes"][0]
    assert run.efficiency(limits=npuprof.chip("910B3")).attrs["chip"] == "Ascend 910B3"
    assert npuprof.chip("Ascend910_9391") is LIMITS["ascend9109391"]
    with pytest.raises(OptionsError, match=r"no chip '910Z': known are 910B2, 910B1, .*950DT_9581"):
        npuprof.chip("910Z")


def test_many_kernels_of_few_blocks_contradict_no_name_and_tell_no_chip() -> None:
    kernels = with_counters(LIMITS["ascend910b2"], [8] * 300, [16] * 300)
    assert measured_limits(kernels, "Ascend 910B1")[0] is not LIMITS["ascend910b2"]
    assert measured_limits(kernels, "Ascend 910B2") == (LIMITS["ascend910b2"], "")
    assert measured_limits(kernels, "Ascend 910B") == (LIMITS["ascend910b2"], "")
    limits, doubt = measured_limits(kernels, "")
    assert limits is None
    assert "910B2" in doubt
    assert "910B3" in doubt
