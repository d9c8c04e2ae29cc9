"""Folded stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.errors import OptionsError
from npuprof.exports.stacks import folded_stacks
from npuprof.flame.tree import call_tree
from npuprof.simulator import npu
from tests import factories


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> npuprof.Profile:
    with npuprof.profile(output=tmp_path_factory.mktemp("stacks"), collector="simulator", activities="npu") as prof:
        left = npu.asarray([[1.0] * 512] * 512)
        (left @ left).sum()
    return prof.result


def weights(lines: list[str]) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in lines]


@pytest.mark.slow
def test_device_time_adds_up_to_kernels(run: npuprof.Profile) -> None:
    lines = list(folded_stacks(run.tables, "device"))
    total_us = run.kernels["duration_ns"].sum() / 1_000
    assert sum(weights(lines)) == pytest.approx(total_us, abs=len(run.kernels))
    assert any("MatMul" in line.rpartition(" ")[0].split(";")[-1] for line in lines)
    assert weights(lines) == sorted(weights(lines), reverse=True)


@pytest.mark.slow
def test_host_time_adds_up_to_the_call_tree(run: npuprof.Profile) -> None:
    lines = list(folded_stacks(run.tables))
    assert sum(weights(lines)) * 1_000 == pytest.approx(call_tree(run.tables)["self_host_ns"].sum(), abs=1_000 * 200)


@pytest.mark.slow
def test_names_cannot_end_a_frame_or_a_line(run: npuprof.Profile) -> None:
    api = run.api.assign(name=run.api["name"].cat.rename_categories(lambda name: f"{name};\n x"))
    for line in folded_stacks({**run.tables, "api": api}):
        assert "\n" not in line
        assert ", x" in line


@pytest.mark.slow
def test_an_unknown_weight_is_refused_with_the_known_ones(run: npuprof.Profile, tmp_path: Path) -> None:
    weight: Any = "gpu"
    with pytest.raises(OptionsError, match="host, device"):
        run.to_folded_stacks(tmp_path / "stacks.txt", weight)


def test_npuprof_functions_have_no_frame() -> None:
    package = Path(npuprof.__file__).parent
    calls = [
        ("train.py(3): main", 0, 100_000, 0, None),
        (f"{package}/session/session.py(240): step", 10_000, 40_000, 1, 0),
        (f"{package}/collectors/torch_npu.py(160): step", 15_000, 30_000, 2, 1),
        ("torch_npu/profiler/profiler.py(9): step", 20_000, 20_000, 3, 2),
        ("npuprof/markers.py(50): __exit__", 60_000, 10_000, 4, 0),
        ("/home/me/npuprof/train.py(7): helper", 80_000, 5_000, 5, 0),  # the user's own folder
        ("/home/me/npuprof/cli.py(7): main", 85_000, 5_000, 6, 0),  # and a file of a name that npuprof has too
        ("torch_npu/profiler/profiler.py(9): step", 95_000, 5_000, 7, 0),
    ]
    frame = pd.DataFrame(calls, columns=["name", "start_ns", "duration_ns", "id", "parent_id"])
    frame["parent_id"] = frame["parent_id"].astype("Int64")
    columns: dict[str, Any] = {name: frame[name] for name in frame}
    columns |= {"thread_id": np.full(len(frame), 1), "depth": np.array([0, 1, 2, 3, 1, 1, 1, 1])}
    lines = list(folded_stacks(factories.all_tables(python=tables.build("python", columns))))
    assert lines == [
        "train.py(3): main 65",
        "train.py(3): main;torch_npu/profiler/profiler.py(9): step 25",
        "train.py(3): main;/home/me/npuprof/train.py(7): helper 5",
        "train.py(3): main;/home/me/npuprof/cli.py(7): main 5",
    ]


def test_the_file_holds_the_lines(run: npuprof.Profile, tmp_path: Path) -> None:
    path = run.to_folded_stacks(tmp_path / "stacks.txt", "device")
    assert path.read_text().splitlines() == list(folded_stacks(run.tables, "device"))
