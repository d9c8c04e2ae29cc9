"""Making arrays, on which device and in which stream; random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npuprof.simulator import npu
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import Values, assert_same


def test_values_are_copied_to_the_device(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    assert seen.copies == [("host_to_device", 512)]
    expected = host.copy()
    host[:] = 0
    assert_same(x, expected)


def test_asarray_keeps_what_is_there_already(seen: Witness, host: Values) -> None:
    x = npu.asarray(host)
    assert npu.asarray(x) is x
    assert npu.asarray(x, np.float16).dtype == np.float16
    assert npu.asarray(x, device=1).device == 1
    assert npu.array(x) is not x
    assert [kind for kind, _ in seen.copies] == ["host_to_device", "device_to_device"]


def test_the_stream_of_the_copy_can_be_chosen(seen: Witness, host: Values) -> None:
    side = npu.Stream()
    npu.array(host, stream=side)
    npu.array(host)
    assert seen.copy_streams == [side.stream_id, 0]


@pytest.mark.parametrize(
    ("made", "expected", "op_type"),
    [
        (lambda: npu.zeros((2, 3)), np.zeros((2, 3), np.float32), "ZerosLike"),
        (lambda: npu.ones(3, np.int32), np.ones(3, np.int32), "OnesLike"),
        (lambda: npu.full((2,), 7), np.full(2, 7, np.float32), "Fill"),
        (lambda: npu.arange(2, 8, 2), np.arange(2, 8, 2), "Range"),
    ],
)
def test_arrays_can_be_made_on_the_device(seen: Witness, made: Any, expected: Values, op_type: str) -> None:
    x = made()
    assert seen.types == [op_type]
    assert_same(x, expected)


def test_random_numbers_are_those_of_numpys_generator(seen: Witness) -> None:
    found, expected = npu.default_rng(3), np.random.default_rng(3)
    assert_same(found.standard_normal((2, 3)), expected.standard_normal((2, 3), np.float32))
    assert_same(found.random(4, np.float64), expected.random(4, np.float64))
    assert_same(found.integers(0, 9, 5), expected.integers(0, 9, 5))
    assert {launch.operator.op_type for launch in seen.launches} == {
        "StatelessRandomNormalV2",
        "StatelessRandomUniformV2",
        "StatelessRandomUniformInt",
    }


def test_to_host_takes_either(host: Values) -> None:
    np.testing.assert_array_equal(npu.to_host(npu.array(host)), host)
    assert npu.to_host(host) is host


@pytest.mark.parametrize("values", [["a"], [None], np.zeros(2, np.longdouble), np.zeros(2, "datetime64[s]")])
def test_types_that_devices_do_not_have_are_refused(seen: Witness, values: Any) -> None:
    with pytest.raises(TypeError, match="an NPU has no data type"):
        npu.array(values)
    assert (seen.copies, seen.memory) == ([], [])


def test_devices_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="no device 5: the simulated machine has 2"):
        npu.array([1], device=5)


def test_empty_computes_nothing(seen: Witness) -> None:
    assert npu.empty((2, 3), np.int8).nbytes == 6
    assert seen.types == []
