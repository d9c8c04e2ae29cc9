"""The array type: description, conversions, Python's protocols."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from npuprof.simulator import npu
from npuprof.simulator.npu import NpuArray
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import Values, assert_same


def test_it_describes_itself_as_numpys_arrays_do(host: Values) -> None:
    x = npu.array(host, device=1)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((8, 16), 2, 128, 4, 512)
    assert (x.dtype.name, x.device, len(x)) == ("float32", 1, 8)


def test_its_text_says_that_it_is_simulated() -> None:
    x = npu.array([1.5, 2.0])
    assert repr(x) == str(x) == "NpuArray([1.5, 2. ], dtype=float64, device=0, simulated)"


@pytest.mark.parametrize("look", [np.asarray, float, bool, int, repr, npu.to_host, lambda x: f"{x:.3f}", NpuArray.item])
def test_whatever_looks_at_values_copies_them_and_waits(seen: Witness, look: Any) -> None:
    x = npu.array(np.float32(2.5))
    seen.clear()
    look(x)
    assert seen.copies == [("device_to_host", 4)]
    assert seen.calls == ["aclrtSynchronizeStream"]


def test_what_the_host_gets_is_its_own(host: Values) -> None:
    x = npu.array(host)
    taken = np.asarray(x)
    taken[:] = 0
    assert_same(x, host)
    assert np.asarray(x, dtype=np.float16).dtype == np.float16
    with pytest.raises(ValueError, match="reading them needs a copy"):
        x.__array__(copy=False)


def test_numbers_convert_as_numpys_do() -> None:
    assert (float(npu.array(1.5)), int(npu.array(3)), complex(npu.array(2))) == (1.5, 3, 2 + 0j)
    assert [10, 20, 30][npu.array(1)] == 20
    assert f"{npu.array(1.25):.1f}" == "1.2"
    assert npu.array([[1, 2]]).tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(npu.array([1, 2]))
    with pytest.raises(TypeError):
        float(npu.array([1, 2]))


def test_rows_are_arrays_too(host: Values) -> None:
    rows = list(npu.array(host))
    assert len(rows) == 8
    assert_same(rows[3], host[3])


def test_casts_launch_a_cast(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    assert_same(x.astype(np.float16), host.astype(np.float16))
    assert seen.types == ["Cast"]
    assert x.astype(np.float32, copy=False) is x
    assert_same(x.astype("float32"), host)
    assert seen.types == ["TensorMove"]


def test_copies_are_independent(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    copies = [copy.copy(x), copy.deepcopy(x), x.copy(), pickle.loads(pickle.dumps(x))]
    assert [launch.operator.op_type for launch in seen.launches] == ["TensorMove"] * 3
    x.fill(0)
    for each in copies:
        assert_same(each, host)


def test_a_copy_to_another_device_runs_there(seen: Witness, host: Values) -> None:
    x = npu.array(host)
    seen.clear()
    moved = x.to_device(1)
    assert moved.device == 1
    assert seen.copies == [("device_to_device", 512)]
    assert x.to_device(0) is x
    assert_same(moved, host)


def test_arrays_are_made_by_functions_only() -> None:
    with pytest.raises(TypeError, match=r"npu\.array"):
        NpuArray([1, 2])


def test_arrays_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(npu.array([1]))
