"""Which Python frames are the user's, in sampled stacks and in calls that torch's tracer records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.sources.python_frames import (
    AFTERWARDS,
    MAGIC,
    PROFILER,
    RUNNER,
    STATEMENT,
    USER,
    role_of_call,
    role_of_frame,
    shown_frames,
)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("train.py(12): step", USER),
        ("/home/u/train.py(12): <module>", USER),
        ("/tmp/ipykernel_3825/4160266734.py(9): train", USER),
        ("<stdin>(1): <module>", USER),
        ("<string>(1): <module>", USER),  # python -c
        ("<string>(2): __init__", RUNNER),  # written by Python for a dataclass
        ("nn.Module: Linear_0", USER),
        ("torch/nn/modules/module.py(1782): _call_impl", USER),
        ("/venv/lib/python3.11/site-packages/numpy/core/fromnumeric.py(70): sum", USER),
        ("C:\\work\\queue\\net.py(3): forward", USER),
        ("<built-in method acquire of _thread.lock object at 0x7f>", RUNNER),
        ("threading.py(1002): _bootstrap", RUNNER),
        ("/usr/lib/python3.11/threading.py(1002): _bootstrap", RUNNER),
        ("/usr/lib/python3.11/json/decoder.py(3): decode", RUNNER),
        ("logging/__init__.py(2081): getLogger", RUNNER),
        ("<frozen runpy>(198): _run_module_as_main", RUNNER),
        ("<frozen importlib._bootstrap>(1207): _handle_fromlist", RUNNER),
        ("IPython/core/history.py(1006): run", AFTERWARDS),
        ("npuprof/markers.py(0): ", PROFILER),
        ("ipykernel/iostream.py(168): _thread_main", AFTERWARDS),
        ("ipykernel/iostream.py(700): write", RUNNER),
        ("/tmp/ipykernel_3825/4160266734.py(0): <module>", STATEMENT),
        ("IPython/core/interactiveshell.py(2583): run_line_magic", MAGIC),
        ("/venv/lib/python3.11/site-packages/ipykernel/kernelbase.py(400): dispatch_shell", RUNNER),
        ("/venv/lib/python3.11/site-packages/ipykernel_launcher.py(18): <module>", RUNNER),
        ("IPython/core/displayhook.py(6): __call__", PROFILER),
        ("torch/profiler/profiler.py(700): step", PROFILER),
        ("torch/autograd/profiler.py(800): __enter__", PROFILER),
        ("/venv/lib/python3.11/site-packages/npuprof/markers.py(10): range_start", PROFILER),
        ("/venv/lib/python3.11/site-packages/npuprof/session/active.py(5): stop", AFTERWARDS),
        ("npuprof/session/active.py(5): stop", AFTERWARDS),
        ("/home/u/npuprof/train.py(5): stop", USER),
        ("IPython/core/interactiveshell.py(8): showtraceback", AFTERWARDS),
    ],
)
def test_the_role_of_a_call_is_in_its_name(name: str, role: int) -> None:
    assert role_of_call(name) == role


def test_users_module_may_be_named_like_pythons() -> None:
    assert role_of_frame("/home/u/profile.py", "main", "profile") == USER
    assert role_of_frame("/usr/lib/python3.11/profile.py", "main", "profile") == RUNNER


def test_profiling_statement_is_left_out() -> None:
    """GIVEN two statements of a cell with a magic, the first npuprof's THEN that one is left out with its callees."""
    roles = [STATEMENT, MAGIC, PROFILER, AFTERWARDS, RUNNER, STATEMENT, MAGIC, USER]
    parents = [-1, 0, 1, 2, 3, -1, 5, 6]
    shown, above = shown_frames(np.array(parents, np.int64), np.array(roles, np.int8))
    assert shown.tolist() == [False] * 5 + [True] * 3
    assert above[5:].tolist() == [-1, 5, 6]


def test_shell_machinery_is_left_out() -> None:
    """GIVEN a script whose shell runs a cell, which runs another THEN what is around the outer cell is left out."""
    parents = [-1, 0, 1, 2, 3, 4, 1]
    roles = [USER, RUNNER, RUNNER, USER, RUNNER, USER, RUNNER]  # script, run_cell, run_code, cell, run_cell, cell; hook
    cells = np.array([False, True, False, True, True, True, False])
    shown, above = shown_frames(np.array(parents, np.int64), np.array(roles, np.int8), cells)
    assert shown.tolist() == [False, False, False, True, True, True, False]
    assert above[3:6].tolist() == [-1, 3, 4]


@st.composite
def _trees(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Return the callers of some calls, in any order of rows, and the roles of the calls."""
    count = draw(st.integers(0, 30))
    parents = [draw(st.integers(-1, row - 1)) for row in range(count)]
    place = draw(st.permutations(range(count)))
    shuffled = [-1] * count
    for row, parent in enumerate(parents):
        shuffled[place[row]] = place[parent] if parent >= 0 else -1
    return shuffled, draw(st.lists(st.integers(USER, AFTERWARDS), min_size=count, max_size=count))


@given(_trees())
def test_calls_hang_below_the_nearest_shown(tree: tuple[list[int], list[int]]) -> None:
    """GIVEN calls and roles THEN each is shown, or not, for what is on its path from the outermost call."""
    parents, roles = tree
    shown, above = shown_frames(np.array(parents, np.int64), np.array(roles, np.int8))
    for row in range(len(parents)):
        path = [row]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        assert shown[row] == _is_shown([roles[call] for call in path])
        visible = [call for call in path[1:] if shown[call]]
        assert above[row] == (visible[0] if visible else -1)


def _is_shown(path: list[int]) -> bool:
    """Return whether a call is shown, by the roles from it up to the outermost call."""
    if USER not in path or AFTERWARDS in path or path[0] == PROFILER:
        return False
    # What the profiler calls is its own, up to a call of the user's.
    first_other = next(role for role in path if role != RUNNER)
    return first_other == USER
