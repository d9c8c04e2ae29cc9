"""Streams of each thread, order, events."""

from __future__ import annotations

import asyncio
import itertools
import threading

import numpy as np
import pytest

from npuprof import simulator
from npuprof.simulator import Simulator, npu
from tests.conftest import FakeClock
from tests.simulator.npu.conftest import Witness


def test_operators_of_a_stream_run_in_the_order_launched(seen: Witness) -> None:
    x = npu.ones((64, 64))
    for _ in range(5):
        x = np.tanh(x @ x)
    tasks = [launch.task for launch in seen.launches]
    assert all(before.end_tick <= after.start_tick for before, after in itertools.pairwise(tasks))
    assert seen.types == ["OnesLike", *["MatMulV3", "Tanh"] * 5]


def test_the_block_of_a_stream_chooses_where_work_goes(seen: Witness) -> None:
    side = npu.Stream()
    x = npu.ones(4)
    with npu.stream(side) as inside:
        x + 1
        assert inside is side
        assert npu.current_stream().stream_id == side.stream_id
        with npu.stream(None):
            x + 2
    x + 3
    assert [launch.task.stream_id for launch in seen.launches] == [0, side.stream_id, side.stream_id, 0]


def test_a_stream_of_one_device_does_not_change_another(seen: Witness) -> None:
    npu.Stream()
    with npu.stream(npu.Stream()):
        npu.ones(4, device=1)
    assert [(launch.task.device_id, launch.task.stream_id) for launch in seen.launches] == [(1, 0)]


def test_each_thread_has_its_own_stream(seen: Witness) -> None:
    side = npu.Stream()
    x = npu.ones(4)

    def work() -> None:
        np.negative(x)

    with npu.stream(side):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        np.exp(x)
    streams = {launch.operator.op_type: launch.task.stream_id for launch in seen.launches}
    assert (streams["Neg"], streams["Exp"]) == (0, side.stream_id)


def test_each_asynchronous_task_has_its_own_stream(seen: Witness) -> None:
    streams = [npu.Stream(), npu.Stream()]
    x = npu.ones(4)

    async def work(chosen: npu.Stream) -> None:
        with npu.stream(chosen):
            x + 1
            await asyncio.sleep(0)
            x + 2

    async def both() -> None:
        await asyncio.gather(*map(work, streams))

    asyncio.run(both())
    first, second = (each.stream_id for each in streams)
    assert [launch.task.stream_id for launch in seen.launches] == [0, first, second, first, second]


def test_events_order_two_streams(seen: Witness) -> None:
    side, x = npu.Stream(), npu.ones((512, 512))
    with npu.stream(side):
        y = x @ x
    npu.current_stream().wait(side.record())
    y + 1
    product, addition = seen.launches[-2:]
    assert addition.task.start_ns >= product.task.end_ns
    assert seen.calls == ["record", "wait"]


@pytest.mark.slow
def test_synchronising_waits_for_what_was_launched(seen: Witness, clock: FakeClock) -> None:
    side = npu.Stream()
    with npu.stream(side):
        npu.ones((4096, 4096))
    end_ns = seen.launches[-1].task.end_ns
    assert clock.now_ns < end_ns
    side.synchronize()
    assert clock.now_ns >= end_ns
    npu.synchronize()
    npu.synchronize(0)
    assert seen.calls == ["aclrtSynchronizeStream", "aclrtSynchronizeDevice", "aclrtSynchronizeDevice"]


def test_a_stream_that_is_gone_says_so(machine: Simulator, seen: Witness) -> None:
    side = npu.Stream()
    side.destroy()
    with npu.stream(side), pytest.raises(RuntimeError, match="was destroyed, or its machine reconfigured"):
        npu.ones(4)
    other = npu.Stream()
    simulator.configure(devices=1)
    with npu.stream(other), pytest.raises(RuntimeError, match="make a new stream"):
        npu.ones(4)


def test_its_text_says_that_it_is_simulated() -> None:
    assert repr(npu.current_stream(1)) == "<npuprof.simulator.npu.Stream 0 of simulated device 1>"


def test_threads_can_work_at_once(machine: Simulator, seen: Witness) -> None:
    def work(number: int) -> None:
        with npu.stream(npu.Stream()):
            x = npu.full((16,), number)
            for _ in range(50):
                x = x + 1
            results[number] = float(x.sum())

    results: dict[int, float] = {}
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: 16.0 * (number + 50) for number in range(4)}
    assert len(seen.launches) == 4 * 52
