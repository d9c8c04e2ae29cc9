"""What chips can do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import npuprof
from npuprof.analysis import chip_limits
from npuprof.analysis.chip_limits import LIMITS, ChipLimits, limits_of, measured_limits
from npuprof.errors import OptionsError
from npuprof.profiles.profile import Profile
from npuprof.simulator.cost_model import CHIPS
from npuprof.sources.base import Decoded
from tests import factories


@pytest.mark.parametrize("name", ["Ascend 910B2", "Ascend910_9391", "ascend910B2"])
def test_a_chip_is_found_however_its_name_is_spelt(name: str) -> None:
    assert limits_of(name) is not None


@pytest.mark.parametrize("name", ["", "Ascend 910B", "Ascend 310P", "Ascend (platform version 99)"])
def test_a_chip_whose_figures_are_not_known_has_none(name: str) -> None:
    assert limits_of(name) is None


def test_every_figure_has_a_source() -> None:
    assert all(limits.source for limits in LIMITS.values())


def test_they_are_those_that_the_simulator_keeps_to() -> None:
    chip = CHIPS["910B"]
    limits = limits_of(chip.soc_name)
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


def test_chip_name_is_checked() -> None:
    run = Profile(Decoded(factories.profile(20), factories.info(chip="")))
    table = run.efficiency()
    assert table["efficiency"].isna().all()
    assert 'npuprof.chip("910B3")' in table.attrs["notes"][0]
    assert run.efficiency(limits=npuprof.chip("910B3")).attrs["chip"] == "Ascend 910B3"
    assert npuprof.chip("Ascend910_9391") is LIMITS["ascend9109391"]
    with pytest.raises(OptionsError, match=r"no chip '910Z': known are 910B2, 910B1, .*950DT_9581"):
        npuprof.chip("910Z")


def test_many_small_kernels_tell_no_chip() -> None:
    kernels = with_counters(LIMITS["ascend910b2"], [8] * 300, [16] * 300)
    assert measured_limits(kernels, "Ascend 910B1")[0] is not LIMITS["ascend910b2"]
    assert measured_limits(kernels, "Ascend 910B2") == (LIMITS["ascend910b2"], "")
    for name in ("", "Ascend 910B"):
        limits, doubt = measured_limits(kernels, name)
        assert limits is None
        assert "910B2, 910B2C, 910B3" in doubt


@pytest.mark.parametrize("family", ["Ascend 910B", "Ascend910B", "Ascend 910", "Ascend 310P", "Ascend 950"])
def test_a_family_is_no_chip(family: str) -> None:
    run = Profile(Decoded(factories.profile(20), factories.info(chip=family)))
    table = run.efficiency()
    assert table["efficiency"].isna().all()
    (note,) = table.attrs["notes"]
    assert f"names only {family}" in note
    assert 'npuprof.chip("910B3")' in note


@given(st.sampled_from(list(LIMITS.values())), _blocks, _blocks, st.sampled_from(["Ascend 910B", "Ascend 910"]))
@example(LIMITS["ascend910b3"], [4, 4, 4], [], "Ascend 910B")
@example(LIMITS["ascend9109362"], [20] * 4, [256, 40, 40], "Ascend 910B")
def test_with_a_family_counters_never_tell_a_wrong_chip(
    ran: ChipLimits, cube: list[int], vector: list[int], family: str
) -> None:
    limits, doubt = measured_limits(with_counters(ran, cube, vector if ran.vector_cores else []), family)
    of_family = ran.name.startswith(("Ascend 910A", "Ascend 910P") if family == "Ascend 910" else "Ascend 910B")
    of_family |= family == "Ascend 910B" and ran.name.startswith("Ascend 910_")  # dies of the 910C record as 910B
    if limits is None:
        assert 'npuprof.chip("910B3")' in doubt
    elif of_family:
        assert (limits.cube_cores, limits.vector_cores, limits.mhz) == (ran.cube_cores, ran.vector_cores, ran.mhz)
        assert math.isnan(limits.memory_bytes_per_s) or limits.memory_bytes_per_s == ran.memory_bytes_per_s
    # That a recording names the family of a chip which it did not run on cannot always be told.


def test_of_a_family_that_counters_exclude_nothing_is_taken() -> None:
    kernels = with_counters(LIMITS["ascend910a"], list(range(1, 200)), [])
    limits, doubt = measured_limits(kernels, "Ascend 910B")
    assert limits is not None
    assert (limits.cube_cores, limits.mhz) == (32, 1000)
    assert doubt == "the counters show a chip like Ascend 910A, by cores and clock, which is no Ascend 910B"


def test_chips_that_lack_the_same_figure_have_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (replace(LIMITS["ascend910a"], memory_bytes_per_s=float("nan"), name=name) for name in ("A", "B"))
    monkeypatch.setattr(chip_limits, "_CHIPS", [first, other])
    limits, _ = measured_limits(with_counters(first, list(range(1, 200)), []), "")
    assert limits is not None
    assert limits.name == "like A, by cores and clock"


def test_the_name_of_a_family_is_refused_with_its_chips() -> None:
    with pytest.raises(OptionsError, match=r"'910B' is a family of chips: name one of 910B2, .*910B4-1, 910_9391"):
        npuprof.chip("910B")
