"""Why rows differ, what they are matched by, and what else differs between two sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.profiles.comparison import Comparison
from npuprof.profiles.profile import Profile
from tests.analysis.test_accounting import table
from tests.difference.runs import profile, run

pytestmark = pytest.mark.slow


def _collectives(lengths: Sequence[int], moving: int = 0, copy: int = 10) -> Profile:
    """Return a step with collectives of one type, whose data moves at their end, and a copy."""
    spans = [(100 * number, length) for number, length in enumerate(lengths)]
    made = {
        "steps": table("steps", [(0, 1_000)]),
        "kernels": table("kernels", [(900, 10)]),
        "communication": table("communication", spans),
        "tasks": table("tasks", [(800, copy)]),
    }
    made["communication"]["op_type"] = pd.Categorical(["hcom_allReduce_"] * len(spans))
    if moving:
        moves = [(start + length - moving, moving) for start, length in spans]
        made["communication_tasks"] = table("communication_tasks", moves)
        made["communication_tasks"]["op_id"] = pd.array(range(len(spans)), "Int64")
    return profile(made)


def _why(difference: Comparison) -> dict[str, tuple[int, str]]:
    rows = difference.rows
    inner = ~rows.index.isin(rows["parent"])
    chosen = rows[inner & (rows["delta_ns"] != 0).to_numpy(bool)]
    return {
        f"{row['part']} {row['name']}": (int(row["delta_ns"]), str(row["why"])) for row in chosen.to_dict("records")
    }


def test_intervals_are_matched_by_number() -> None:
    changed = _why(_collectives([50, 80, 50], moving=20, copy=15) - _collectives([50, 60, 50], moving=20))
    assert changed == {
        "waiting hcom_allReduce_ #2": (20, "wait"),
        "copy MEMCPY_ASYNC": (5, "copy"),
        "idle not split": (-25, "gap"),
    }
    changed = _why(_collectives([50, 60, 50], moving=30) - _collectives([50, 60, 50], moving=20))
    assert {why for _, why in changed.values()} == {"wait", "transfer"}
    assert sum(delta for delta, why in changed.values() if why == "transfer") == 30
    unsplit = _why(_collectives([50, 60]) - _collectives([50, 50]))
    assert unsplit["communication hcom_allReduce_ #2"] == (10, "communication")


def test_new_and_gone_kernels_are_named() -> None:
    changed = _why(run([[("A", "8", 10), ("New", "8", 7)]]) - run([[("A", "8", 10), ("Old", "8", 4), ("B", "8", 2)]]))
    assert {name: why for name, (_, why) in changed.items() if name.startswith("computing")} == {
        "computing New 8": "new",
        "computing Old 8": "gone",
        "computing B 8": "gone",
    }


@pytest.mark.parametrize("line", [1, 77])
def test_lines_that_moved_in_a_file_are_the_same_path(line: int) -> None:
    a, b = _called(1), _called(line)
    rows = (a - b).rows
    assert rows["name"][(rows["depth"] == 1) & (rows["part"] == "computing")].tolist() == ["train/forward"]
    assert not (rows["why"][rows["part"] == "computing"] != "").any()


def _called(line: int) -> Profile:
    """Return a step whose kernel two Python functions launched, which begin at a line."""
    made = run([[("A", "1", 10)]]).tables
    base = int(made["steps"]["start_ns"].iloc[0])
    python = table("python", [(0, 5_000_000), (10, 4_000_000)])
    api = table("api", [(20, 10)], name="aclnnA")
    for frame in (python, api):
        frame["start_ns"] += base - int(python["start_ns"].min() if frame is python else api["start_ns"].min() - 20)
    python["name"] = pd.Categorical([f"job.py({line}): train", f"job.py({line + 9}): forward"])
    python["id"], python["depth"] = [0, 1], [0, 1]
    python["parent_id"] = pd.array([pd.NA, 0], "Int64")
    link = {
        "kind": ["api_task"],
        "source_table": ["api"],
        "source_row": [0],
        "target_table": ["kernels"],
        "target_row": [0],
    }
    return profile({**made, "python": python, "api": api, "links": npuprof.tables.build("links", link)})


def test_other_ranks_stacks_and_operators_head_the_result() -> None:
    a = run([[("A", "8", 10)]], metadata={"world_size": 8})
    b = run([[("A", "8", 10)]], environment={"world_size": 16}, versions={"cann": "8.3"})
    assert (a - b).guards == ["the number of ranks differs: 8 against 16"]
    assert (_called(1) - run([[("A", "1", 10)]])).guards == [
        "Python stacks were recorded on one side only, which makes its host slower"
    ]
    with_operators = profile({**run([[("A", "8", 10)]]).tables, "operators": table("operators", [(0, 10)])})
    assert (with_operators - a).guards == ["operators were recorded on one side only, which makes its host slower"]


def test_odd_names_and_times_are_compared() -> None:
    year = 31_536_000_000_000_000
    names = ["<b onmouseover=alert(1)>", "矩阵乘 \u202e\x1b[31m", "", "\ud800"]
    a = profile({"kernels": table("kernels", [(0, year), (year, 10), (year + 10, 5), (year + 20, 5)])})
    b = profile({"kernels": table("kernels", [(0, 5), (5, 10), (20, 5)])})
    a.kernels["op_type"] = tables.categorical(np.array([0, 1, -1, 3]), names)
    difference = a - b
    top = difference.rows[difference.rows["depth"] == 0]
    assert int(top["delta_ns"].sum()) == difference.delta_ns
    assert difference.delta_ns > year - 100
    assert "<b on" not in difference._repr_html_()
    assert "\x1b" not in str(difference)
    difference.to_json().encode()
    assert difference.plot_waterfall().to_json()
    assert np.isfinite(difference.rows["share"]).all()
