"""Times that are days from all others: the few rows that have them are left out, and noted."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import npuprof
from tests.sources.kineto.traces import KinetoTrace

_DAY_US = 86_400 * 10**6


def _trace(path: Path, at: float, lasting: float) -> npuprof.Profile:
    trace = KinetoTrace()
    for number in range(30):
        odd = number == 17
        trace.operator("aten::mm", at if odd else number * 10, lasting if odd else 8, number + 1)
        launch = {"correlation": number + 1, "External id": number + 1}
        trace.slice("cuda_runtime", "cudaLaunchKernel", number * 10 + 1, 2, **launch)
        trace.on_gpu("kernel", "gemm", number * 10 + 5, 3, 0, stream=7, **launch)
    return npuprof.load(trace.write(path / "t.pt.trace.json"))


@pytest.mark.parametrize(("at", "lasting"), [(200 * _DAY_US, 8), (-80 * _DAY_US, 8), (170, 40 * _DAY_US)])
def test_leaves_out_a_far_row(tmp_path: Path, at: float, lasting: float) -> None:
    run = _trace(tmp_path, at, lasting)
    assert (len(run.operators), len(run.kernels), len(run.api)) == (29, 30, 30)
    note = run.notes[run.notes["message"].str.contains("days from all others")]
    assert note["missing_rows"].tolist() == [1]
    assert "aten::mm" in note["message"].iloc[0]
    by = run.by("op")
    assert by["count"].sum() == 30
    assert dict(zip(by["op"].fillna(""), by["count"], strict=True))["aten::mm"] == 29
    assert run.info.stopped_ns is not None
    assert run.info.started_ns is not None
    assert run.info.stopped_ns - run.info.started_ns < 10**6
    run.to_html(tmp_path / "page.html")


def test_keeps_what_is_hours_away(tmp_path: Path) -> None:
    run = _trace(tmp_path, 3 * 3600 * 10**6, 8)
    assert len(run.operators) == 30
    assert not run.notes["message"].str.contains("days from").any()


def test_keeps_devices_with_another_clock(tmp_path: Path) -> None:
    trace = KinetoTrace()
    for number in range(30):
        trace.operator("aten::mm", number * 10, 8, number + 1)
    for number in range(3):
        trace.on_gpu("kernel", "gemm", -80 * _DAY_US + number, 1, 0, stream=7, correlation=number + 1)
    run = npuprof.load(trace.write(tmp_path / "t.pt.trace.json"))
    assert (len(run.operators), len(run.kernels)) == (30, 3)


def test_leaves_out_a_kernel_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    names = ["Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Dim"]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(names)
        for row in range(50):
            start = "5" if row == 20 else f"{1_736_413_971_558_972 + row * 10}.250\t"
            rows.writerow([f"op{row}", "MatMul", "AI_CORE", start, "3.5", "0", "8"])
    run = npuprof.load(path)
    assert len(run.kernels) == 49
    assert run.notes["missing_rows"].sum() == 1
