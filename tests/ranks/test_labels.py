"""Rows of a stacked table say whose they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.rank_clocks import Lead
from npuprof.ranks.together import labelled, nothing
from tests import factories


def test_host_table_gets_the_only_device() -> None:
    frames = factories.profile(3)
    python = labelled(frames["python"], run=4, rank=2, host="alpha", devices=[6])
    assert (python["device_id"] == 6).all()
    assert python[["run", "rank", "host"]].drop_duplicates().to_numpy().tolist() == [[4, 2, "alpha"]]
    assert "device_id" not in frames["python"]
    assert labelled(frames["python"], run=0, rank=None, host=None, devices=[1, 2])["device_id"].isna().all()
    kernels = labelled(frames["kernels"], run=0, rank=None, host=None, devices=[6])
    assert kernels["device_id"].equals(frames["kernels"]["device_id"])
    assert kernels[["rank", "host"]].isna().all(axis=None)


def test_every_moment_is_set_back_and_no_duration() -> None:
    frame = tables.build(
        "marks",
        {
            "start_ns": np.array([1000]),
            "duration_ns": np.array([5]),
            "thread_id": np.array([1]),
            "device_start_ns": pd.array([pd.NA], dtype="Int64"),
        },
    )
    moved = labelled(frame, run=0, rank=0, host=None, devices=[], ahead=Lead(30))
    assert (moved["start_ns"].tolist(), moved["duration_ns"].tolist()) == ([970], [5])
    assert moved["device_start_ns"].isna().all()
    tables.check("marks", moved)
    assert frame["start_ns"].tolist() == [1000]


@pytest.mark.parametrize("name", tables.NAMES)
def test_without_rows_there_are_all_columns(name: str) -> None:
    frame = nothing(name)
    tables.check(name, frame)
    assert {"run", "rank", "host", "device_id"} <= set(frame)
    assert not len(frame)
