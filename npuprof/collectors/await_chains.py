"""Await chains: the coroutines that a thread's stack does not show while asyncio runs something else.

The stack of an event loop's thread holds only the step that runs. The coroutine that awaits this step's task, and all
suspended coroutines while the loop waits, are reached through the tasks. Only exact links are followed (a task waiting
on a task, ``gather``, ``TaskGroup``, ``wait``, ``wait_for``); the chain ends at a coroutine that waits for several.

Nothing is modified: attributes are read only from types of asyncio and the interpreter, so that no user code runs.
"""

from __future__ import annotations

import asyncio
import functools
import types
import weakref
from collections.abc import Iterator
from typing import Any

_MAX_HOPS = 64  # a longer chain of tasks or futures is a cycle, or too expensive to follow


def running_loop(loop_frame: types.FrameType) -> asyncio.AbstractEventLoop | None:
    """Return the event loop of a ``run_forever`` frame."""
    loop = loop_frame.f_locals.get("self")
    return loop if isinstance(loop, asyncio.AbstractEventLoop) else None


class MainTasks:
    """The main task of each loop: the one it runs until complete, or current at the profiler's start. Held weakly."""

    def __init__(self) -> None:
        self._tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[asyncio.Task[Any]]]
        self._tasks = weakref.WeakKeyDictionary()

    def remember_current(self) -> None:
        """Remember the calling thread's current task as the main task of its loop, if a loop runs."""
        try:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
        except RuntimeError:  # no loop runs in this thread
            return
        if task is not None:
            self._tasks[loop] = weakref.ref(task)

    def of(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any] | None:
        """Return the main task of a loop, if it is known and not done."""
        known = self._tasks.get(loop)
        task = None if known is None else known()
        if task is not None and not task.done():
            return task
        for candidate in asyncio.all_tasks(loop):
            if any(_is_loop_stopper(callback) for callback in _callbacks(candidate)):
                self._tasks[loop] = weakref.ref(candidate)
                return candidate
        return None


def _is_loop_stopper(callback: object) -> bool:
    # run_until_complete marks its task with this callback, which ends the loop when the task does.
    return isinstance(callback, types.FunctionType) and callback.__name__ == "_run_until_complete_cb"


def waiting_frames(task: asyncio.Task[Any]) -> Iterator[types.FrameType]:
    """Yield the frames in which a suspended task waits, outermost first, including those of the tasks it awaits."""
    for _ in range(_MAX_HOPS):
        yield from _suspended_frames(task)
        awaited = getattr(task, "_fut_waiter", None)
        if not isinstance(awaited, asyncio.Task):
            return
        task = awaited


def awaiting_frames(task: asyncio.Task[Any]) -> Iterator[types.FrameType]:
    """Yield the frames of all tasks that directly or indirectly await a task, outermost first."""
    chain: list[asyncio.Task[Any]] = []
    awaiter = _awaiter(task)
    while awaiter is not None and len(chain) < _MAX_HOPS:
        chain.append(awaiter)
        awaiter = _awaiter(awaiter)
    for task in reversed(chain):
        yield from _suspended_frames(task)


def _suspended_frames(task: asyncio.Task[Any]) -> Iterator[types.FrameType]:
    awaitable: object = task.get_coro()
    while True:
        frame: types.FrameType | None
        if isinstance(awaitable, types.CoroutineType):
            frame, awaitable = awaitable.cr_frame, awaitable.cr_await
        elif isinstance(awaitable, types.GeneratorType):
            frame, awaitable = awaitable.gi_frame, awaitable.gi_yieldfrom
        elif isinstance(awaitable, types.AsyncGeneratorType):
            frame, awaitable = awaitable.ag_frame, awaitable.ag_await
        else:
            return
        if frame is None:
            return
        yield frame


def _awaiter(task: asyncio.Task[Any]) -> asyncio.Task[Any] | None:
    """Return the task that resumes when a task completes, through any futures in between."""
    pending: list[asyncio.Future[Any]] = [task]
    for _ in range(_MAX_HOPS):
        if not pending:
            return None
        for callback in _callbacks(pending.pop()):
            owner = callback.__self__ if isinstance(callback, types.BuiltinMethodType | types.MethodType) else None
            if isinstance(owner, asyncio.Task):
                return owner
            pending.extend(_futures_of(callback, owner))
    return None


def _callbacks(future: asyncio.Future[Any]) -> list[object]:
    # Pairs of a callback and its context, in the C and in the Python implementation; None for an empty list.
    return [pair[0] for pair in getattr(future, "_callbacks", None) or ()]


def _futures_of(callback: object, owner: object) -> Iterator[asyncio.Future[Any]]:
    """Yield the futures that a callback of asyncio completes."""
    held: list[object] = []
    if isinstance(callback, functools.partial):  # wait_for, before 3.12
        held = list(callback.args)
    elif isinstance(callback, types.FunctionType) and callback.__module__ == "asyncio.tasks":  # gather, wait
        held = [_cell_value(cell) for cell in callback.__closure__ or ()]
    elif type(owner).__module__ == "asyncio.taskgroups":
        held = [getattr(owner, "_on_completed_fut", None)]
    for value in held:
        if isinstance(value, asyncio.Future) and not value.done():
            yield value


def _cell_value(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
