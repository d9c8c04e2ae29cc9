"""What samples of a thread tell of the functions that launched kernels, against functions whose times are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof import tables
from npuprof.analysis.by import sums, with_share_errors
from npuprof.analysis.places import BETWEEN, GUESSED, Places, lines
from npuprof.analysis.sampled_functions import come_and_go, paths
from npuprof.arrays import Int64
from npuprof.recordings.recording import SAMPLING_INTERVAL_NS
from npuprof.sources.recording import python_stacks
from npuprof.tables.notes import Notes
from tests import factories

_FUNCTIONS = ("main", "f", "g", "busy")
_STACKS = ((-1, 0), (0, 1), (0, 2), (1, 3), (2, 3))  # caller and function: main, f, g, busy in f, busy in g


class Planted:
    """Two functions that call each other's turn, each of which launches a kernel at its end; sampled as a run is.

    Parameters
    ----------
    means_ns
        How long a call of each takes on average.
    helped
        Whether a function of its own spends that time for both.
    seed
        Of the times of calls and samples.
    """

    def __init__(self, means_ns: tuple[int, int], *, helped: bool = False, seed: int = 0, calls: int = 400) -> None:
        random = np.random.default_rng(seed)
        wanted = np.resize(np.array(means_ns), calls) * random.uniform(0.8, 1.2, calls)
        ends = 1_000_000_000 + np.cumsum(wanted.astype(np.int64))
        self.launched: Int64 = ends - 2_000
        self.function: Int64 = np.resize(np.array([1, 2]), calls)
        count = int((ends[-1] - ends[0]) // SAMPLING_INTERVAL_NS) + 2
        steps = SAMPLING_INTERVAL_NS + random.integers(50_000, 250_000, count)
        samples: Int64 = 1_000_000_000 + np.cumsum(steps)
        samples = samples[samples < ends[-1]]
        node = self.function[np.searchsorted(ends, samples)] + 2 * helped
        is_change = np.append(True, node[1:] != node[:-1])
        count = int(is_change.sum())
        columns = {
            "time_ns": np.append(1_000_000_000, samples[:-1])[is_change],
            "thread_id": np.ones(count, np.int64),
            "node": node[is_change],
            "line": np.full(count, 5),
            "sample_ns": samples,
            "stopped_ns": samples[-1:],
            "node_parent": [parent for parent, _ in _STACKS],
            "node_frame": [frame for _, frame in _STACKS],
            "frame_file": ["/work/train.py"] * 4,
            "frame_line": [1, 10, 20, 30],
            "frame_function": list(_FUNCTIONS),
            "frame_module": ["__main__"] * 4,
        }
        self.tables = {**factories.all_tables(), **python_stacks.read_columns(columns, Path("stacks"), Notes())}
        self.tables["python"] = self.tables["python"].assign(sampled=True)
        self.tables["api"] = tables.build(
            "api",
            {
                "start_ns": self.launched,
                "duration_ns": np.full(calls, 1_000),
                "name": pd.Categorical(["launch"] * calls),
                "level": pd.Categorical(["acl"] * calls),
                "thread_id": np.ones(calls, np.int64),
            },
        )

    def judged(self) -> tuple[float, list[bool]]:
        """Return the share of named kernels that are in the right function, and whether errors hold the truth."""
        places = Places.build(self.tables).of("api")
        count = len(places)
        unknown = pd.arrays.IntegerArray(np.zeros(count, np.int64), np.ones(count, bool))
        rows = pd.DataFrame(
            {
                "line": lines(places),
                "guessed": places["known"].isin(GUESSED),
                "launch_ns": self.launched,
                "duration_ns": np.full(count, 10_000),
                "host_ns": unknown,
                "launch_delay_ns": unknown,
            }
        )
        table = with_share_errors(sums(rows, ["line"]), rows, ["line"])
        of_line = table.assign(line=table["line"].astype(object)).set_index("line")
        between = float(of_line["share"].get(BETWEEN, 0.0))
        is_named = (places["known"] == "sample").to_numpy(bool)
        is_right = np.array(_FUNCTIONS)[self.function] == places["function"].astype(object).to_numpy()
        covered = []
        for number in (1, 2):
            name = f"train.py: {_FUNCTIONS[number]}"
            share, error = (
                (float(of_line.loc[name, column]) for column in ("share", "share_error"))
                if name in of_line.index
                else (0.0, between)
            )
            covered.append(abs(float((self.function == number).mean()) - share) <= error)
        return float(is_right[is_named].mean()) if is_named.any() else 1.0, covered


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("us", [(20, 20), (200, 200), (5_000, 5_000), (12_000, 12_000), (300, 100), (4_900, 100)])
def test_named_function_is_right_and_errors_cover(us: tuple[int, int], seed: int) -> None:
    spent = (us[0] * 1_000, us[1] * 1_000)
    calls = 2 * max(20, 1_000_000_000 // sum(spent))
    right, covered = Planted(spent, seed=seed, calls=min(calls, 20_000)).judged()
    assert right == 1
    assert all(covered)


def test_functions_that_last_are_named() -> None:
    planted = Planted((40_000_000, 60_000_000), calls=20)
    known = Places.build(planted.tables).of("api")["known"].dropna()
    # Kernels are launched as their function ends: between its last sample and the next function's first.
    assert set(known) == {BETWEEN}
    planted.tables["api"] = planted.tables["api"].assign(start_ns=planted.launched - 15_000_000)
    places = Places.build(planted.tables).of("api")
    assert set(places["known"]) == {"sample"}
    assert [str(name) for name in places["function"]] == ["f", "g"] * 10


def test_a_function_that_works_for_others_hides_no_coming_and_going() -> None:
    known = Places.build(Planted((300_000, 300_000), helped=True).tables).of("api")["known"].dropna()
    assert set(known) == {BETWEEN}


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        ([], False),
        ([1], False),
        ([1] * 50, False),
        ([1] * 25 + [2] + [1] * 25, False),  # once is no pattern
        ([1] * 25 + [2] * 25, False),
        ([1, 1, 2, 2] * 20, False),
        ([1, 2] * 20, True),
        (([1] * 49 + [2]) * 4, True),  # as often as by chance
        (np.random.default_rng(0).integers(0, 3, 60).tolist(), True),
    ],
)
def test_functions_come_and_go_where_samples_are_in_no_order(functions: list[int], expected: bool) -> None:
    assert come_and_go(np.array(functions, np.int64)) is expected


def test_path_holds_counted_functions() -> None:
    callers = np.array([-1, 0, 1, 0, 3, -1])
    functions = np.array([7, -1, 2, 2, -1, 7])
    assert paths(callers, np.array([0, 1, 2, 1, 2, 0]), functions).tolist() == [0, 0, 1, 1, 1, 0]
