"""Shares as fractions and percent: all values of a file tell which, and a note says so where they had to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.columns.shares import Unit, converted, unit_of_shares
from npuprof.sources.database import SOURCE as DATABASE
from npuprof.sources.text.kernel_details import read_kernel_details
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes
from tests.sources.database.maker import Maker
from tests.sources.trace.maker import TraceMaker

_MEASURED = [0.33 + 0.65 * place / 102 for place in range(103)] + [1.011]


@pytest.mark.parametrize(
    ("values", "usual", "unit", "is_told"),
    [
        (_MEASURED, "fraction", "fraction", False),
        ([33.0, 64.5, 98.0], "percent", "percent", False),
        ([33.0, 64.5, 98.0], "fraction", "percent", True),
        (_MEASURED, "percent", "fraction", True),
        ([0.9, *np.linspace(3, 98, 50)], "fraction", "percent", True),
        ([0.9, *np.linspace(3, 98, 50)], "percent", "percent", False),
        ([*_MEASURED, 1e30], "fraction", "fraction", True),  # a damaged value does not change the others
        ([0.01, 0.04], "percent", "percent", True),  # small in either unit
        ([0.0, 0.0, np.nan], "fraction", "fraction", False),
        ([0.0, 0.0, np.nan], "percent", "percent", False),
        ([], "fraction", "fraction", False),
    ],
)
def test_all_values_of_a_file_decide_the_unit(values: list[float], usual: Unit, unit: Unit, *, is_told: bool) -> None:
    found, reason = unit_of_shares([np.array(values)], usual)
    assert (found, bool(reason)) == (unit, is_told)


@given(
    st.lists(st.floats(0.0, 1.05), min_size=1),
    st.sampled_from(["fraction", "percent"]),
    st.sampled_from([0.0, np.nan]),
)
def test_the_same_shares_in_either_unit_become_the_same_percent(
    shares: list[float], usual: Unit, nothing: float
) -> None:
    fractions = np.array([*shares, nothing])
    if not (fractions > 0.1).any() or (fractions * 100 > 2).sum() < 0.05 * (fractions != 0).sum():
        return  # too small to tell
    notes = Notes()
    for values in (fractions, fractions * 100):
        np.testing.assert_allclose(converted(values, usual, "percent", notes, "file", "shares"), fractions * 100)
    assert notes.to_frame()["severity"].tolist() == ["warning"]


@pytest.mark.parametrize("process", ["LLC", "NIC"])
@pytest.mark.parametrize("factor", [1, 100])
def test_hit_rates_and_shares_of_ports_in_a_timeline(process: str, factor: int, tmp_path: Path) -> None:
    event, key = {"LLC": ("LLC 0 Read/Hit Rate", "Hit Rate(%)"), "NIC": ("Port 0/Rx", "Rx Error Rate")}[process]
    maker, notes = TraceMaker(), Notes()
    maker.process(7, process, "NPU 1", 21)
    for row, value in enumerate(_MEASURED):
        maker.counter(7, event, row, **{key: value * factor})
    trace = gather(read_events(maker.write(tmp_path / "trace_view.json"), notes), notes, "trace_view.json")
    values = build_tables(trace, notes, "trace_view.json").tables["counters"]["value"]
    np.testing.assert_allclose(values, np.array(_MEASURED) * 100)
    assert notes.to_frame()["message"].str.contains("taken for percent").tolist() == [True] * (factor == 100)


@pytest.mark.parametrize("factor", [1, 100])
def test_hit_rates_in_a_database(factor: int, tmp_path: Path) -> None:
    maker = Maker(tmp_path / "msprof_20260101000000.db")
    rows = [(0, 0, 1_700_000_000_000_000_000 + row, value * factor, 5, 0) for row, value in enumerate(_MEASURED)]
    maker.table("LLC", "deviceId llcId timestampNs hitRate:REAL throughput mode", rows)
    maker.table("NPU_INFO", "id name:TEXT", [(0, "Ascend910B")])
    decoded = DATABASE.read(maker.close())
    counters = decoded.tables["counters"]
    hits = counters["value"][counters["unit"] == "%"]
    np.testing.assert_allclose(hits, np.array(_MEASURED) * 100)
    assert decoded.notes.to_frame()["message"].str.contains("taken for fractions").sum() == (factor == 1)


@pytest.mark.parametrize("factor", [1, 100])
def test_ratios_of_kernels_in_a_table(factor: int, tmp_path: Path) -> None:
    heading = "Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Num,aic_mac_ratio\n"
    path, notes = tmp_path / "kernel_details.csv", Notes()
    rows = [f"MatMul,MatMul,AI_CORE,{1_700_000_000_000_000 + 9 * n}.000,1,0,24,{value * factor}\n" for n, value in
            enumerate(_MEASURED)]  # fmt: skip
    path.write_text(heading + "".join(rows))
    ratios = read_kernel_details(path, notes).kernels["aic_mac_ratio"]
    np.testing.assert_allclose(ratios, _MEASURED)
    assert notes.to_frame()["message"].str.contains("ratios of kernels are taken for percent").any() == (factor == 100)
