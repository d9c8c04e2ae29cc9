"""Titles of figures say what their data say, and no more than that."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.analysis.chip_limits import ChipLimits
from npuprof.figures.communication import Value, plot_collectives, plot_traffic
from npuprof.figures.counters import plot_counters
from npuprof.figures.kernel_detail import plot_kernel
from npuprof.figures.memory import plot_memory
from npuprof.figures.pipeline import plot_stages
from npuprof.figures.roofline import plot_roofline
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes
from tests import factories

_MIB = 1 << 20


def title(figure: Any) -> str:
    return html.unescape(" ".join(re.findall(r"<b>(.*?)</b></span>", figure.layout.title.text)))


def profile(run: dict[str, pd.DataFrame]) -> Profile:
    return Profile(Decoded(run, factories.info(), Notes(), {}))


@pytest.mark.slow
def test_a_run_and_its_steps_agree() -> None:
    run = profile(factories.profile(60))
    said = title(run.timeline())
    assert said == title(run.plot_steps())
    assert re.fullmatch(r"The NPU idles (\d+\.\d) % of a step: mostly \w+\.py:\d+", said)
    idle, whole = run.advice().parts()["idle"], run.advice().step_ns
    assert f"{100 * idle / whole:.1f} %" in said
    assert title(run.timeline(start_ns=factories.START_NS)) == "Timeline"
    assert title(profile(factories.all_tables()).plot_steps()) == "Steps"


@pytest.mark.slow
def test_a_set_is_titled_by_its_verdict(tmp_path: Path) -> None:
    for rank in range(2):
        info = factories.info(rank=rank)
        Profile(Decoded(factories.profile(60), info, Notes(), {})).save(tmp_path / f"rank{rank}")
    runs = npuprof.load_set(tmp_path).read()
    said = runs.overview().verdict.replace("`", "").rstrip(".")
    assert title(runs.plot_steps()) == title(runs.timeline()) == title(runs.plot_overview()) == said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, r".+ takes \d+\.\d % of host time"),
        ({"weight": "device"}, r".+ takes \d+\.\d % of device time"),
        ({"weight": "count"}, "Flame graph"),
        ({"search": "aten"}, "Flame graph"),
    ],
)
def test_a_flame_graph_names_the_longest(options: dict[str, Any], expected: str) -> None:
    assert re.fullmatch(expected, title(profile(factories.profile(60)).flamegraph(**options)))


@pytest.mark.parametrize(
    ("value", "sizes", "expected"),
    [
        ("size", {(0, 1): 3, (1, 0): 5}, "Rank 1 sends the most to rank 0: 5 MB"),
        ("bandwidth", {(0, 1): 3, (1, 0): 5}, "Rank 0 sends slowest to rank 1: 3 GB/s"),
        ("size", {(0, 1): 4, (1, 0): 4}, "Every pair of ranks has the same traffic: 4 MB"),
        ("size", {(0, 0): 9, (0, 1): 2}, "Rank 0 sends the most to rank 1: 2 MB"),
        ("size", {(0, 0): 9}, "Communication matrix"),
    ],
)
def test_a_matrix_names_a_pair(value: Value, sizes: dict[tuple[int, int], int], expected: str) -> None:
    rows = [
        {"src_rank": str(source), "dst_rank": str(target), "size_bytes": mb * 10**6, "duration_ns": 10**6}
        for (source, target), mb in sizes.items()
    ]
    assert title(plot_traffic(pd.DataFrame(rows).assign(links="HCCS", tasks=1), Info(), value=value)) == expected


@pytest.mark.parametrize(
    ("kinds", "known", "expected"),
    [
        ([("allReduce", 1, 6, 1)], True, "Ranks wait for each other 75.0 % of the time of collectives"),
        ([("allReduce", 6, 1, 1)], True, "Data moves 75.0 % of the time of collectives"),
        ([("allReduce", 0, 0, 2), ("broad<cast", 0, 0, 6)], False, "broad<cast takes 75.0 % of communication"),
        ([("allReduce", 0, 0, 2)], False, "Communication"),
    ],
)
def test_collectives_tell_what_takes_most(kinds: list[Any], known: bool, expected: str) -> None:
    columns = ["op_type", "transit_ns", "wait_ns", "other_ns"]
    times = pd.DataFrame(kinds, columns=columns).assign(group="0", known=known, count=1)
    times["total_ns"] = times[columns[1:]].sum(axis=1)
    assert title(plot_collectives(times, pd.DataFrame(columns=["link", "whole"]), Info())) == expected


@pytest.mark.parametrize(
    ("allocated", "expected"),
    [
        ({"PTA": [1, 3]}, "Allocated memory peaks at 3.00 MiB"),
        ({"PTA": [1, 3], "GE": [9, 4]}, "Allocated memory peaks at 9.00 MiB (device 0 GE)"),
        ({"PTA": [None, None]}, "Memory"),
    ],
)
def test_memory_tells_its_peak(allocated: dict[str, list[int | None]], expected: str) -> None:
    rows = [(at, name, size) for name, sizes in allocated.items() for at, size in enumerate(sizes)]
    columns = {
        "time_ns": [at for at, _, _ in rows],
        "device_id": pd.array([0] * len(rows), "Int64"),
        "component": [name for _, name, _ in rows],
        "allocated_bytes": pd.array([None if size is None else size * _MIB for _, _, size in rows], "Int64"),
        "reserved_bytes": pd.array([9 * _MIB] * len(rows), "Int64"),
    }
    assert title(plot_memory(factories.all_tables(memory=tables.build("memory", columns)), Info())) == expected


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("AI Core Freq", [1_800, 1_800], "The AI cores run at 1,800 MHz throughout"),
        ("AI Core Freq", [800, 1_800], "The AI cores run at 1,800 MHz, and fall to 800 MHz"),
        ("HBM read", [1, 2], "Counters"),
    ],
)
def test_counters_tell_the_clock(name: str, values: list[float], expected: str) -> None:
    columns = {
        "time_ns": [0, 1_000],
        "device_id": pd.array([0, 0], "Int64"),
        "counter": [name] * 2,
        "value": np.array(values, np.float64),
        "unit": ["MHz"] * 2,
    }
    assert title(plot_counters(factories.all_tables(counters=tables.build("counters", columns)), Info())) == expected


def _kernels(**columns: Any) -> dict[str, pd.DataFrame]:
    product = {
        "start_ns": [factories.START_NS],
        "duration_ns": [1_000_000],
        "device_id": [0],
        "op_type": ["MatMulV3"],
        "core": ["AI_CORE"],
        "input_shapes": ["1000,1000;1000,1000"],
        "input_dtypes": ["FLOAT16;FLOAT16"],
        "output_shapes": ["1000,1000"],
        "output_dtypes": ["FLOAT16"],
    }
    given = {name: [value] for name, value in columns.items()}
    return factories.all_tables(kernels=tables.build("kernels", {**product, **given}))


_WHOLE = "MatMulV3, 100.0 % of kernel time,"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (ChipLimits("a", 4e12, 1e12, 1e12, "a test"), f"{_WHOLE} reaches 50 % of its compute roof"),
        (ChipLimits("a", 4e14, 1e12, 1e10, "a test"), f"{_WHOLE} reaches 60 % of its memory roof"),
        (ChipLimits("a", 1e12, 1e12, 1e12, "a test"), "Roofline"),  # above the roof: a limit or an estimate is wrong
        (None, "Roofline"),
    ],
)
def test_a_roofline_tells_its_largest_kernel(limits: ChipLimits | None, expected: str) -> None:
    assert title(plot_roofline(_kernels(), Info(chip=""), limits=limits)) == expected


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        (
            {"aic_mac_ratio": 0.25, "aic_mte2_ratio": 0.5},
            "MatMulV3 keeps mte2 (memory to the core) busy 50 % of its cycles",
        ),
        ({"aic_other_ratio": 0.25}, "Kernel"),
        ({}, "Kernel"),
    ],
)
def test_a_kernel_tells_its_busiest_pipe(ratios: dict[str, float], expected: str) -> None:
    assert title(plot_kernel(_kernels(**ratios), Info(), 0)) == expected


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ([5, 2], "Stage 0 waits 50.0 % of its time, stage 1 20.0 %"),
        ([5, 2, 8], "Stage 2 waits longest: 80.0 % of its time"),
        ([0, 0], "Pipeline"),
    ],
)
def test_a_pipeline_tells_its_waits(waits: list[int], expected: str) -> None:
    rows = [
        {"stage": stage, "rank": stage, "kind": kind, "microbatch": None, "start_ns": start, "duration_ns": length}
        for stage, wait in enumerate(waits)
        for kind, start, length in (("waiting", 0, wait), ("work", wait, 10 - wait))
        if length
    ]
    assert title(plot_stages(pd.DataFrame(rows), Info())) == expected


_EMPTY: dict[str, Callable[[Profile], Any]] = {
    "Timeline": Profile.timeline,
    "Flame graph": Profile.flamegraph,
    "Memory": Profile.plot_memory,
    "Counters": Profile.plot_counters,
    "Communication": Profile.plot_communication,
    "Roofline": Profile.plot_roofline,
}


@pytest.mark.parametrize("kind", _EMPTY)
def test_figures_without_data_claim_nothing(kind: str) -> None:
    assert title(_EMPTY[kind](profile(factories.all_tables()))) == kind
