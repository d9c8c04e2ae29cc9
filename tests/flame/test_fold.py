from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.flame.fold import Frames, Root, amount, fold
from npuprof.flame.tree import COLUMNS, merged_calls
from tests import factories
from tests.budget import examples
from tests.flame.trees import Row, below, rows, tree

MANY_NAMES = tuple(f"kernel_{i}" for i in range(3_000))


def check(frames: Frames, most: int) -> None:
    """What every view keeps to: it balances, callers come before callees, wider siblings first."""
    assert len(frames) <= most
    assert (frames.above < np.arange(len(frames))).all()
    assert (frames.depth[1:] == frames.depth[frames.above[1:]] + 1).all()
    for frame in range(len(frames)):
        callees = frames.below(frame)
        if frames.folded[frame]:
            assert not len(callees)
        else:
            assert frames.exclusive[frame] + frames.total[callees].sum() == frames.total[frame]
        itself = callees[frames.folded[callees] == 0]
        assert len(callees) - len(itself) <= 1
        assert (np.diff(frames.total[itself]) <= 0).all()
    assert frames.exclusive.sum() + frames.total[frames.folded > 0].sum() == frames.total[0]


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(rows, st.integers(2, 45), st.one_of(st.none(), st.integers(1, 7)), st.integers(-1, 39))
def test_own_shares_and_folded_frames_add_up_to_the_root(
    given_rows: list[Row], most: int, levels: int | None, path: int
) -> None:
    calls, sums = tree(given_rows)
    root = Root(min(path, len(calls) - 1))

    frames = fold(calls, sums, root, most, levels)

    check(frames, most)
    paths = below(calls, root)
    assert frames.total[0] == sum(sums.exclusive[paths]) + (sums.exclusive[root.path] if root.path >= 0 else 0)
    assert amount(sums, root)[0] == frames.total[0]
    shown = frames.path[1:][frames.folded[1:] == 0].tolist()
    for frame in np.flatnonzero(frames.folded).tolist():
        callees = [one for one in paths if calls.parent[one] == frames.path[frame] and sums.total[one] > 0]
        hidden = [one for one in callees if one not in shown]
        assert frames.folded[frame] == len(hidden)
        assert frames.total[frame] == sum(sums.total[hidden])
    assert len(set(shown)) == len(shown)
    assert set(shown) <= {one for one in paths if sums.total[one] > 0}
    if levels is not None:
        assert frames.depth.max() <= levels
    elif (sums.total[paths] > 0).sum() < most:
        assert set(shown) == {one for one in paths if sums.total[one] > 0}


@pytest.mark.slow
@pytest.mark.parametrize("weight", COLUMNS)
@pytest.mark.parametrize("most", [3, 20, 2_000])
def test_a_run_balances_whatever_is_folded(weight: str, most: int) -> None:
    run = factories.profile(6_000, kernel_names=MANY_NAMES)
    calls = merged_calls(run)
    sums = calls.whole(run)[weight]  # type: ignore[index]  # the keys of COLUMNS

    frames = fold(calls, sums, Root(), most)

    check(frames, most)
    assert frames.total[0] == sums.exclusive.sum()
    assert (frames.folded > 0).any() == (len(frames) < (sums.total > 0).sum() + 1)


def test_the_widest_paths_are_kept() -> None:
    calls, sums = tree([(0, 1, 0), (0, 9, 1), (0, 5, 2), (0, 7, 3)])

    frames = fold(calls, sums, Root(), 4)

    assert frames.path.tolist() == [-1, 1, 3, -1]
    assert frames.total.tolist() == [22, 9, 7, 6]
    assert frames.folded.tolist() == [0, 0, 0, 2]


def test_what_is_deeper_than_the_levels_is_folded() -> None:
    calls, sums = tree([(level, 1, 0) for level in range(7)])

    frames = fold(calls, sums, Root(), 100, levels=3)

    assert frames.depth.tolist() == [0, 1, 2, 3]
    assert frames.folded.tolist() == [0, 0, 0, 1]
    assert frames.total.tolist() == [7, 7, 6, 5]
