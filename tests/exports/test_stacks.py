"""Folded stacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.analysis.call_tree import call_tree
from npuprof.errors import OptionsError
from npuprof.exports.stacks import folded_stacks
from npuprof.simulator import npu


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> npuprof.Profile:
    with npuprof.profile(output=tmp_path_factory.mktemp("stacks"), collector="simulator", activities="npu") as prof:
        left = npu.asarray([[1.0] * 512] * 512)
        (left @ left).sum()
    return prof.result


def weights(lines: list[str]) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in lines]


def test_device_time_adds_up_to_that_of_the_kernels(run: npuprof.Profile) -> None:
    lines = list(folded_stacks(run.tables, "self_npu_time_total"))
    total_us = run.kernels["duration_ns"].sum() / 1_000
    assert sum(weights(lines)) == pytest.approx(total_us, abs=len(run.kernels))
    assert any("MatMul" in line.rpartition(" ")[0].split(";")[-1] for line in lines)
    assert weights(lines) == sorted(weights(lines), reverse=True)


def test_host_time_adds_up_to_that_of_the_call_tree(run: npuprof.Profile) -> None:
    lines = list(folded_stacks(run.tables))
    assert sum(weights(lines)) * 1_000 == pytest.approx(call_tree(run.tables)["self_host_ns"].sum(), abs=1_000 * 200)


def test_names_cannot_end_a_frame_or_a_line(run: npuprof.Profile) -> None:
    api = run.api.assign(name=run.api["name"].cat.rename_categories(lambda name: f"{name};\n x"))
    for line in folded_stacks({**run.tables, "api": api}):
        assert "\n" not in line
        assert ", x" in line


def test_an_unknown_metric_is_refused_with_the_known_ones(run: npuprof.Profile, tmp_path: Path) -> None:
    metric: Any = "self_gpu_time_total"
    with pytest.raises(OptionsError, match="self_cpu_time_total, self_npu_time_total"):
        run.export_stacks(tmp_path / "stacks.txt", metric)


def test_the_file_holds_the_lines(run: npuprof.Profile, tmp_path: Path) -> None:
    path = run.export_stacks(tmp_path / "stacks.txt", "self_npu_time_total")
    assert path.read_text().splitlines() == list(folded_stacks(run.tables, "self_npu_time_total"))
