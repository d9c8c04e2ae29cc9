from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from npuprof.collectors.python_stacks import PythonStacks
from tests.collectors.sampling import callers, functions, has_looked, patience_s, spin, table_of


@pytest.fixture
def stacks() -> PythonStacks:
    return PythonStacks(interval_s=0.001)


async def wait_while_idle(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience_s()
    while not done():
        assert time.monotonic() < deadline, "the sampler does not sample"
        await asyncio.sleep(0.02)


@pytest.mark.slow
def test_idle_time_belongs_to_the_coroutine_that_awaits(stacks: PythonStacks, tmp_path: Path) -> None:
    async def leaf() -> None:
        await wait_while_idle(has_looked(stacks, 4))

    async def child() -> None:
        await leaf()

    async def main() -> None:
        stacks.start()
        await asyncio.create_task(child())
        stacks.stop()  # while the loop ends it is idle too, and nobody awaits

    asyncio.run(main())
    table = table_of(stacks, tmp_path)

    own = table[table["thread_id"] == threading.get_native_id()]  # other tests may have left threads with loops
    assert {"main", "child", "leaf"} <= callers(own, "wait_while_idle")
    assert "select" not in functions(own)


@pytest.mark.slow
def test_the_main_task_of_a_loop_in_another_thread_is_found(stacks: PythonStacks, tmp_path: Path) -> None:
    async def main() -> None:
        await wait_while_idle(has_looked(stacks, 4))

    def worker() -> None:
        asyncio.run(main())

    stacks.start()
    thread = threading.Thread(target=worker)
    thread.start()
    thread.join(patience_s())
    table = table_of(stacks, tmp_path)

    assert {"main", "worker"} <= callers(table, "wait_while_idle")


async def _direct(job: Awaitable[None]) -> None:
    await asyncio.ensure_future(job)


async def _gathered(job: Awaitable[None]) -> None:
    await asyncio.gather(job, asyncio.sleep(0))


async def _waited(job: Awaitable[None]) -> None:
    await asyncio.wait([asyncio.ensure_future(job)])


async def _limited(job: Awaitable[None]) -> None:
    await asyncio.wait_for(asyncio.ensure_future(job), patience_s())


async def _shielded(job: Awaitable[None]) -> None:
    await asyncio.shield(job)


async def _grouped(job: Awaitable[None]) -> None:
    task_group: Any = vars(asyncio)["TaskGroup"]
    async with task_group() as group:
        group.create_task(job)


_GROUPED = pytest.param(
    _grouped, marks=pytest.mark.skipif(not hasattr(asyncio, "TaskGroup"), reason="TaskGroup came with Python 3.11")
)


@pytest.mark.slow
@pytest.mark.parametrize("awaiting", [_direct, _gathered, _waited, _limited, _shielded, _GROUPED])
def test_a_running_task_belongs_to_the_coroutine_that_awaits_it(
    stacks: PythonStacks, tmp_path: Path, awaiting: Callable[[Awaitable[None]], Awaitable[None]]
) -> None:
    async def job() -> None:
        await asyncio.sleep(0)
        spin(has_looked(stacks))

    async def main() -> None:
        await awaiting(job())

    stacks.start()
    asyncio.run(main())
    table = table_of(stacks, tmp_path)

    assert {"main", "job", awaiting.__name__} <= callers(table, "spin")
