"""Kernels of many ranks, summed where each rank is read: the sums are exact, and quantiles close."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.ranks import job, kernel_sums
from tests import factories
from tests.analysis.test_by import profile
from tests.analysis.test_launches import training

pytestmark = pytest.mark.slow
_EXACT = ["op_type", "count", "total_ns", "mean_ns", "min_ns", "max_ns", "share", "host_ns"]


@pytest.fixture
def llm(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four ranks that count as many, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(job, "FEW", 0)
    return samples / "torch_npu" / "llm_4ranks"


def _shares(durations: pd.Series[int], value: int) -> tuple[float, float]:
    """The share of durations below a value, and of those up to it."""
    return float((durations < value).mean()), float((durations <= value).mean())


def test_sums_of_real_ranks_are_exact_and_quantiles_within_one_percent(
    llm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = npuprof.load_set(llm)
    table = runs.by("op_type")
    assert set(runs.info["state"]) == {"found"}
    monkeypatch.setattr(job, "FEW", 8)
    exact = runs.by("op_type")
    assert set(runs.info["state"]) == {"loaded"}
    pd.testing.assert_frame_equal(table[_EXACT].astype(object), exact[_EXACT].astype(object))
    assert (table["std_ns"] - exact["std_ns"]).abs().max() <= 1
    kernels = runs.kernels
    for row in table.to_dict("records"):
        durations = kernels["duration_ns"][(kernels["op_type"] == row["op_type"]).to_numpy(bool)]
        near = 0.01 + 1 / len(durations)
        for share, value in ((0.5, row["median_ns"]), (0.95, row["p95_ns"])):
            low, high = _shares(durations, value)
            assert low - near <= share <= high + near
    assert int(table["count"].max()) > 256  # of which not every duration is kept


def test_the_second_table_reads_no_rank_and_is_the_same(llm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = npuprof.load_set(llm).by("rank", "kernel")
    monkeypatch.setattr(kernel_sums, "spread", lambda *_: pytest.fail("a rank is read again"))
    second = npuprof.load_set(llm).by("rank", "kernel")
    pd.testing.assert_frame_equal(first.astype(object), second.astype(object))


def test_unreadable_rank_is_named_and_left_out(llm: Path, tmp_path: Path) -> None:
    for folder in llm.iterdir():
        shutil.copytree(folder, tmp_path / "job" / folder.name, copy_function=shutil.copyfile)
    runs = npuprof.load_set(tmp_path / "job")
    shutil.rmtree(tmp_path / "job" / "rank_0_ascend_pt")
    table = runs.by("rank")
    assert list(runs.failed) == [0]
    assert table["rank"].tolist() == [2]
    assert table["total_ns"].tolist() == [int(npuprof.load_set(llm)[2].kernels["duration_ns"].sum())]


@pytest.mark.parametrize("few", [0, 8])
def test_host_rank_operators_stay_apart_from_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """GIVEN a rank whose device was not recorded THEN only where no rank has kernels are operators summed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(job, "FEW", few)
    empty = factories.all_tables()
    host = profile(training() | {name: empty[name] for name in ("kernels", "links")})
    for name, ranks in (("mixed", (profile(training()), host)), ("alone", (host, host))):
        for number, run in enumerate(ranks):
            run.save(tmp_path / name / str(number))
    mixed, alone = (npuprof.load_set(tmp_path / name).by("op") for name in ("mixed", "alone"))
    assert (
        mixed.set_index("op")["total_ns"].to_dict()
        == profile(training()).by("op").set_index("op")["total_ns"].to_dict()
    )
    assert alone["total_ns"].tolist() == [2 * time for time in host.by("op")["total_ns"]]
