"""Stacks that are found in the tree of those before are those that a walk along the frames finds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType

from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.lines.call_stacks import TAKEN, CallStacks
from tests.budget import examples

_CODE = """\
def one(path):
    return call(path[1:]) if path[1:] else end()
def other(path):
    if path[1:]:
        return call(path[1:])
    return end()
def call(path):
    return (one if path[0] % 2 else other)(path)
call(path)
"""


def _walk(depth: int) -> list[tuple[str, int]]:
    frame: FrameType | None = sys._getframe(depth)
    found: list[tuple[str, int]] = []
    while frame is not None and len(found) < 64:
        found.append((frame.f_code.co_name, frame.f_lineno))
        if frame.f_code.co_filename == "<cell>" and frame.f_code.co_name == "<module>":
            break
        frame = frame.f_back
    return found


def _taken(stacks: CallStacks, number: int) -> list[tuple[str, int]]:
    stack = stacks.stacks[stacks.calls[TAKEN * number + 2]]
    return [(stacks.lines[each].function, stacks.lines[each].line) for each in stack]


def _run(stacks: CallStacks, path: list[int]) -> list[tuple[str, int]]:
    """Take a stack below calls of functions of a cell that is compiled for this call; return the right one."""
    walked: list[tuple[str, int]] = []

    def end() -> None:
        walked[:] = _walk(2)
        stacks.take(1, 2)

    exec(compile(_CODE, "<cell>", "exec"), {"path": path, "end": end})
    return walked


_PATHS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=8)


@settings(max_examples=examples(40), deadline=None)
@given(_PATHS)
def test_each_call_has_the_stack_that_a_walk_finds(paths: list[list[int]]) -> None:
    stacks = CallStacks("<cell>")
    for number, path in enumerate(paths):  # each compiles the cell anew, so that code objects go and come
        assert _run(stacks, path) == _taken(stacks, number)
    assert len(set(stacks.stacks)) == len(stacks.stacks)


def test_deep_and_cell_less_stacks_end() -> None:
    stacks = CallStacks("<cell>")
    for number, path in enumerate(([1] * 200, [0] * 200, [1] * 200)):
        walked = _run(stacks, path)
        assert len(walked) == 64
        assert _taken(stacks, number) == walked
    outside = CallStacks()
    for number in range(2):
        assert _run(outside, [1])[:3] == _taken(outside, number)[:3]
    assert len(outside.stacks) == 1


def test_threads_that_take_at_once_have_their_own_stacks_and_numbers() -> None:
    stacks = CallStacks("<cell>")
    ready = threading.Barrier(4)

    def work(function: Callable[[], None]) -> None:
        ready.wait()
        for _ in range(2_000):
            function()

    def first() -> None:
        stacks.take(1)

    def second() -> None:
        stacks.take(2)

    threads = [threading.Thread(target=work, args=(each,)) for each in (first, second, first, second)]
    for thread in threads:
        thread.start()
    natives = {thread.native_id for thread in threads}
    for thread in threads:
        thread.join()
    calls = list(zip(stacks.calls[::TAKEN], stacks.calls[1::TAKEN], stacks.calls[2::TAKEN], strict=True))
    assert len(calls) == 8_000
    assert {thread for thread, _, _ in calls} == natives
    for time_ns, name in ((1, "first"), (2, "second")):
        assert {stacks.lines[stacks.stacks[stack][0]].function for _, at, stack in calls if at == time_ns} == {name}
