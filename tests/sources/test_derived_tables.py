"""What follows from the tables of any run, and what the vendor's sums tell otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.accounting import account
from npuprof.analysis.summary import summarise
from npuprof.report.facts import key_figures
from npuprof.sources.base import Decoded
from npuprof.sources.derived_tables import compare, complete, devices_of
from npuprof.tables.info import Info
from tests import factories


def rows(table: str, spans: list[tuple[int, int]], **columns: Any) -> pd.DataFrame:
    count = len(spans)
    every = {"device_id": np.zeros(count, np.int64), **columns}
    if table == "kernels":
        every |= {"name": every.get("name", ["MatMul"] * count)}
    start, end = (np.array(side, np.int64) for side in zip(*spans, strict=True))
    return tables.build(table, {"start_ns": start, "duration_ns": end - start, **every})


def run(**given: pd.DataFrame) -> Decoded:
    decoded = Decoded(factories.all_tables(**given), Info(devices=[0, 5]))
    complete(decoded)
    compare(decoded.tables, decoded.notes)
    decoded.info.devices = devices_of(decoded.tables)
    return decoded


def spent(decoded: Decoded) -> dict[str, int]:
    sums = decoded.tables["overlap"].groupby("kind", observed=True)["duration_ns"].sum()
    return {str(kind): int(time) for kind, time in sums.items()}


def messages(decoded: Decoded) -> list[str]:
    return [str(message) for message in decoded.notes.to_frame()["message"]]


def step_times(**told: int) -> pd.DataFrame:
    columns = {name: pd.array([time], "Int64") for name, time in {"step": 1, "device_id": 0, **told}.items()}
    return tables.build("step_times", columns)


def test_overlap_is_computed_where_no_file_has_it() -> None:
    decoded = run(
        kernels=rows("kernels", [(10, 20), (15, 30)]),
        communication=rows("communication", [(25, 50)]),
        tasks=rows("tasks", [(0, 3), (10, 20), (60, 70)], task_type=["MEMCPY_ASYNC", "AI_CORE", "AI_CORE"]),
    )
    assert spent(decoded) == {"computing": 20, "communication": 25, "communication_not_overlapped": 20, "free": 10}


def test_kernels_that_communicate_compute_nothing() -> None:
    decoded = run(
        kernels=rows("kernels", [(0, 10), (20, 30)], name=["MatMul", "hcom_allReduce__586_0_1_AivKernel"]),
        communication=rows("communication", [(18, 32)]),
    )
    assert spent(decoded) == {"computing": 10, "communication": 14, "communication_not_overlapped": 14, "free": 8}


def test_intervals_that_contradict_the_rows_are_reported() -> None:
    kernels = rows("kernels", [(0, 1_000), (2_000, 3_000)])
    for reach, contradicts in ((1_002, False), (1_500, True)):
        told = rows("overlap", [(0, reach), (2_000, 3_000)], kind=["computing"] * 2)
        assert any("do not compare" in one for one in messages(run(kernels=kernels, overlap=told))) is contradicts


@pytest.mark.slow
def test_counted_operator_steps_are_reported() -> None:
    step = pd.array([1, 1], "Int64")
    tables_of_run = {
        "communication": rows("communication", [(0, 10_000), (20_000, 30_000)], step=step),
        "communication_tasks": rows(
            "communication_tasks", [(0, 4_000), (25_000, 29_000)], op_id=pd.array([0, 1], "Int64")
        ),
    }
    assert not any(
        "breakdown" in one for one in messages(run(**tables_of_run, step_times=step_times(communication_ns=20_000)))
    )
    (told,) = messages(run(**tables_of_run, step_times=step_times(communication_ns=8_000)))
    assert "0.008 ms by the vendor's breakdown (the time of the operators' tasks), and 0.020 ms" in told
    (told,) = messages(run(**tables_of_run, step_times=step_times(communication_ns=5_000)))
    assert "tasks" not in told


@pytest.mark.parametrize(("vendor_ns", "severity"), [(1_000_000, "warning"), (900_000, "info"), (500_000, "info")])
def test_kernels_that_take_less_than_the_vendor_counted_are_missing(vendor_ns: int, severity: str) -> None:
    kernels = rows("kernels", [(0, 891_500)], step=pd.array([1], "Int64"))
    decoded = run(kernels=kernels, step_times=step_times(computing_ns=vendor_ns))
    told = decoded.notes.to_frame().set_index("source")
    assert told.loc["step_times", "severity"] == severity
    assert ("rows of kernels are missing" in told.loc["step_times", "message"]) == (severity == "warning")


@pytest.mark.parametrize(("stage_ns", "is_told"), [(8_000, False), (8_050, False), (20_000, True), (4_000, False)])
def test_steps_that_lack_the_idle_time_around_their_kernels_are_reported(stage_ns: int, is_told: bool) -> None:
    kernels = rows("kernels", [(0, 3_000), (6_000, 8_000)], step=pd.array([1, 1], "Int64"))
    told = messages(run(kernels=kernels, step_times=step_times(stage_ns=stage_ns)))
    assert any("1 step took 0.020 ms" in one and "trace_view.json" in one for one in told) is is_told
    marked = rows("steps", [(0, stage_ns)], step=pd.array([1], "Int64"))
    assert not any("take" in one for one in messages(run(kernels=kernels, steps=marked, step_times=step_times())))


def test_devices_are_those_that_have_rows() -> None:
    assert run(kernels=rows("kernels", [(0, 1)], device_id=np.array([3]))).info.devices == [3]
    assert run().info.devices == []


def test_steps_give_figures_without_intervals() -> None:
    told = step_times(
        computing_ns=2_000_000, communication_ns=3_000_000, communication_not_overlapped_ns=1_000_000, free_ns=5_000_000
    )
    summary = summarise(run(step_times=told).tables, Info())
    figures = dict(key_figures(summary))
    assert figures["computing"] == "2.00 ms (25.0 % of 1 step)"
    assert figures["communication alone"] == "1.00 ms (12.5 % of 1 step)"
    assert figures["device idle"] == "5.00 ms (62.5 % of 1 step)"


def test_communication_is_derived_from_operators_alone_and_nothing_else() -> None:
    summary = summarise(
        run(communication=rows("communication", [(0, 2_000_000), (1_000_000, 3_000_000)])).tables, Info()
    )
    figures = dict(key_figures(summary))
    assert (figures["communication alone"], figures["device idle"]) == ("3.00 ms", "–")


def test_an_analysis_of_all_ranks_has_a_row_for_each() -> None:
    times = tables.build(
        "step_times",
        {
            "step": pd.array([1, 2, 1, 1], "Int64"),
            "computing_ns": pd.array([5, 6, 7, 9], "Int64"),
            "communication_ns": pd.array([1, 1, 1, 1], "Int64"),
            "communication_not_overlapped_ns": pd.array([1, 1, 1, 1], "Int64"),
            "free_ns": pd.array([2, 2, 2, 2], "Int64"),
            "kind": pd.Categorical(["rank", "rank", "rank", "stage"]),
            "rank": pd.array([0, 0, 1, None], "Int64"),
        },
    )
    devices = summarise(factories.all_tables(step_times=times), Info()).devices
    assert [(one.label, one.computing_ns, one.span_ns) for one in devices] == [("rank 0", 6, 9), ("rank 1", 7, 10)]


def test_overlapping_steps_are_noted() -> None:
    spans = [(0, 60_000), (60_000, 100_000), (40_000, 90_000)]
    steps = rows("steps", spans, step=[1, 2, 3])
    decoded = run(kernels=rows("kernels", [(10_000, 20_000)]), steps=steps.drop(columns="device_id"))
    (message,) = messages(decoded)[-1:]
    assert message == (
        "2 of 3 steps start before an earlier one ends: their marks take 0.150 ms in all and cover 0.100 ms; "
        "time that several share counts for the one that began last"
    )
    parts = account(decoded.tables)
    assert parts.breakdown()["duration_ns"].sum() == parts.steps["duration_ns"].sum() == 100_000
    # Steps that touch, and steps of several devices at a time, do not overlap.
    apart = rows("steps", [(0, 50_000), (50_000, 90_000), (0, 90_000)], step=[1, 2, 1], device_id=[0, 0, 1])
    assert not messages(run(kernels=rows("kernels", [(1, 2), (1, 3)], device_id=np.array([0, 1])), steps=apart))
    both = account(
        {**decoded.tables, "kernels": rows("kernels", [(1, 2), (1, 3)], device_id=np.array([0, 1])), "steps": apart}
    )
    assert both.steps[["device_id", "step", "duration_ns"]].to_numpy().tolist() == [
        [0, 1, 50_000],
        [0, 2, 40_000],
        [1, 1, 90_000],
    ]


@pytest.mark.parametrize(("collector", "told"), [("kineto", True), ("torch_npu", True), ("tensorflow", False)])
def test_skipped_step_numbers_are_told(collector: str, *, told: bool) -> None:
    spans = [(0, 10), (10, 20), (40, 50), (60, 70)]
    decoded = run(steps=rows("steps", spans, step=[3, 4, 7, 9]).drop(columns="device_id"))
    compare(decoded.tables, decoded.notes, collector)
    words = "the marks of 3 steps are missing, by the numbers of the others (after 4, 7)"
    assert any(message.startswith(words) for message in messages(decoded)) == told
