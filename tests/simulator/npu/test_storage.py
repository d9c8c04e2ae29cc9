"""Device memory of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from npuprof import simulator
from npuprof.simulator import Simulator, npu
from tests.simulator.npu.conftest import Witness


def test_an_array_takes_memory_until_nothing_refers_to_it(machine: Simulator, seen: Witness) -> None:
    memory = machine.device(0).memory
    x = npu.zeros((1024,))
    assert memory.allocated_bytes == 4096
    y = x + 1
    assert memory.allocated_bytes == 8192
    del y
    npu.synchronize()
    assert memory.allocated_bytes == 4096
    assert seen.memory == [4096, 4096, -4096]


def test_a_view_keeps_the_memory_of_its_base(machine: Simulator) -> None:
    memory = machine.device(0).memory
    view = npu.zeros((1024,)).reshape(32, 32)[2:4]
    npu.synchronize()
    assert memory.allocated_bytes == 4096
    del view
    npu.synchronize()
    assert memory.allocated_bytes == 0


def test_memory_comes_back_before_the_next_allocation(machine: Simulator) -> None:
    x = npu.zeros((1024,))
    for _ in range(10):
        x = x + 1
    assert machine.device(0).memory.allocated_bytes <= 3 * 4096


def test_a_full_device_says_how_much_is_free(machine: Simulator, seen: Witness) -> None:
    memory = machine.device(0).memory
    memory.size_bytes = 8192
    kept = npu.zeros((1024,))
    with pytest.raises(MemoryError, match=r"device 0 has no room for 8192 bytes \(4096 bytes are free\)"):
        np.concatenate([kept, kept])
    assert kept.sum() == 0


def test_arrays_outlive_the_machine_they_were_made_on(machine: Simulator) -> None:
    x = npu.ones((4,))
    fresh = simulator.configure(devices=1)
    y = x + x
    assert y.tolist() == [2, 2, 2, 2]
    del x
    npu.synchronize()
    assert fresh.device(0).memory.allocated_bytes == 512
    assert machine.device(0).memory.allocated_bytes == 0
