"""Figures of all ranks together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories


def ranks(folder: Path, count: int) -> ProfileSet:
    for rank in range(count):
        run = factories.profile(60)
        kernels = len(run["communication"])
        run["communication_tasks"] = tables.build(
            "communication_tasks",
            {
                "start_ns": run["communication"]["start_ns"],
                "duration_ns": run["communication"]["duration_ns"],
                "device_id": run["communication"]["device_id"],
                "src_rank": pd.array([rank] * kernels, "Int64"),
                "dst_rank": pd.array([(rank + 1) % count] * kernels, "Int64"),
                "size_bytes": pd.array([1_000] * kernels, "Int64"),
            },
        )
        Profile(Decoded(run, factories.info(rank=rank), Notes())).save(folder / f"rank{rank}")
    loaded = open_path(folder)
    assert isinstance(loaded, ProfileSet)
    return loaded


@pytest.mark.slow
def test_every_rank_has_its_bars(tmp_path: Path) -> None:
    figure = ranks(tmp_path, 3).plot_steps()
    steps, whose = figure.data[0].x
    assert list(zip(steps, whose, strict=True))[:4] == [
        *(("step 0", f"rank {rank}") for rank in range(3)),
        ("step 1", "rank 0"),
    ]
    assert tmp_path.name in figure.layout.title.text
    assert "simulated" in figure.layout.title.text


@pytest.mark.slow
def test_every_rank_has_its_transfers(tmp_path: Path) -> None:
    (heat,) = ranks(tmp_path, 3).plot_communication_matrix().data
    assert list(heat.x) == ["0", "1", "2"]
    sent = [[across for across, cell in enumerate(row) if cell] for row in heat.z]
    assert sent == [[1], [2], [0]]


@pytest.mark.slow
def test_group_ranks_are_global_ranks(samples: Path) -> None:
    """Each rank's own matrix has local numbers, and a transfer to itself that tells which of them is its own."""
    folder = samples / "torch_npu" / "llm_4ranks"
    plain = {
        rank: json.loads(
            (folder / f"rank_{rank}_ascend_pt/ASCEND_PROFILER_OUTPUT/communication_matrix.json").read_bytes()
        )
        for rank in range(4)
    }
    totals = [
        (rank, key.partition("@")[2], *map(int, pair.split("-")), numbers["Transit Size(MB)"])
        for rank, steps in plain.items()
        for kinds in steps.values()
        for operators in kinds.values()
        for key, pairs in operators.items()
        if "-total@" in key
        for pair, numbers in pairs.items()
    ]
    whose = {(group, source): rank for rank, group, source, target, _ in totals if source == target}
    expected = np.zeros((4, 4))
    for _, group, source, target, size in totals:
        expected[whose[group, source], whose[group, target]] += size
    assert expected.round(1)[0].tolist() == [2910.8, 1127.4, 639.1, 0.0]

    runs = open_path(folder)
    assert isinstance(runs, ProfileSet)
    (heat,) = runs.plot_communication_matrix().data
    assert list(heat.x) == list("0123")
    np.testing.assert_allclose(np.array(heat.z, float), expected, atol=1e-9)
    for rank in range(4):
        (own,) = runs[rank].plot_communication_matrix().data
        np.testing.assert_allclose(np.array(own.z[rank], float), expected[rank], atol=1e-9)
        assert not any(cell for row in (*own.z[:rank], *own.z[rank + 1 :]) for cell in row)


@pytest.mark.slow
def test_the_roofline_of_a_set_has_the_kernels_of_all_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        product = {
            "start_ns": [factories.START_NS],
            "duration_ns": [100_000],
            "device_id": [0],
            "op_type": ["MatMulV3"],
            "core": ["AI_CORE"],
            "input_shapes": [f"{1024 * (1 + rank // 2)},1024;1024,1024"],
            "input_dtypes": ["DT_BF16;DT_BF16"],
            "output_shapes": [f"{1024 * (1 + rank // 2)},1024"],
            "output_dtypes": ["DT_BF16"],
        }
        run = factories.all_tables(kernels=tables.build("kernels", product))
        info = factories.info(rank=rank, chip="Ascend 910B2")
        Profile(Decoded(run, info, Notes())).save(tmp_path / f"rank{rank}")
    runs = open_path(tmp_path)
    assert isinstance(runs, ProfileSet)
    figure = runs.plot_roofline()
    (kernels,) = [trace for trace in figure.data if trace.mode == "markers"]
    assert sorted(text.split("<br>")[2] for text in kernels.hovertext) == [
        "1 time 100 µs, 33.3 % of the time of all kernels",
        "2 times 100 µs, 66.7 % of the time of all kernels",
    ]
    assert "limits: Ascend 910B2" in figure.layout.title.text  # every rank has this chip


@pytest.mark.slow
def test_the_time_of_collectives_is_summed_over_the_ranks(tmp_path: Path) -> None:
    runs = ranks(tmp_path, 3)
    alone = {trace.name: np.array(trace.x, float) for trace in runs[0].plot_communication().data if trace.type == "bar"}
    figure = runs.plot_communication()
    bars = {trace.name: np.array(trace.x, float) for trace in figure.data if trace.type == "bar"}
    assert bars.keys() == alone.keys() != set()
    for name, lengths in alone.items():
        np.testing.assert_allclose(bars[name], 3 * lengths)
    points = [trace for trace in figure.data if trace.type == "scatter"]
    assert [list(trace.y) for trace in points] == [
        list(trace.y) for trace in runs[0].plot_communication().data if trace.type == "scatter"
    ]


@pytest.mark.slow
def test_a_set_without_collectives_says_what_to_collect(tmp_path: Path) -> None:
    for rank in range(2):
        Profile(Decoded(factories.all_tables(), factories.info(rank=rank), Notes())).save(tmp_path / f"rank{rank}")
    runs = open_path(tmp_path)
    assert isinstance(runs, ProfileSet)
    assert "no communication" in runs.plot_communication().layout.annotations[0].text
    assert "collect" in runs.plot_roofline().layout.annotations[0].text
