"""The rows and the lines of code behind idle time."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from tests.analysis.test_accounting import table
from tests.difference.runs import profile


def _loading(ns: int) -> Profile:
    """Return two steps, in which kernels wait for a data loader and then for an operator that holds another one."""
    spans = [(0, ns), (ns, 30), (ns + 5, 20), (500, ns), (500 + ns, 30), (500 + ns + 5, 20)]
    made = {
        "steps": table("steps", [(0, 200), (500, 200), (800, 1)]),
        "kernels": table("kernels", [(ns + 30, 10), (530 + ns, 10)]),
        "operators": table("operators", spans),
    }
    names = ["enumerate(DataLoader)", "aten::linear", "aten::empty"] * 2
    stacks = ["load.py(7): batches", "net.py(20): forward", "net.py(21): forward"] * 2
    made["operators"]["name"], made["operators"]["stack"] = pd.Categorical(names), pd.Categorical(stacks)
    return profile(made)


def test_idle_time_has_line_and_host_rows() -> None:
    difference = _loading(90) - _loading(40)
    rows = difference.rows.set_index("name")
    assert rows.loc["dataloader", ["delta_ns", "why", "place"]].tolist() == [50, "gap", "load.py:7"]
    assert rows.loc["other_operators", "place"] == "net.py:21"  # 20 of 30 ns are the inner one's
    place = difference.rows.index[difference.rows["name"] == "dataloader"][0]
    assert [side["name"].tolist() for side in difference.evidence(int(place))] == [["enumerate(DataLoader)"]] * 2
    (idle,) = difference.rows.index[difference.rows["depth"].eq(0) & difference.rows["part"].eq("idle")]
    assert [len(side) for side in difference.evidence(int(idle))] == [3, 3]  # of the second step, which counts


@pytest.mark.slow
def test_real_idle_time_has_known_lines(samples: Path) -> None:
    folders = [samples / f"torch_npu/{name}/level1/rank0_ascend_pt" for name in ("text", "db")]
    difference = npuprof.compare(*folders)
    idle = difference.rows[(difference.rows["part"] == "idle").to_numpy(bool)]
    assert dict(zip(idle["name"], idle["place"], strict=True))["sync_call"] == "main.py:350"
    for row, name in idle["name"].items():
        assert all(map(len, difference.evidence(int(str(row))))), name
