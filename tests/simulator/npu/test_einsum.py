"""``np.einsum``: values and kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.simulator import npu
from npuprof.simulator.npu.products import parse
from tests.simulator.npu.conftest import Witness
from tests.simulator.npu.strategies import Values, assert_same

CASES: list[tuple[str, list[tuple[int, ...]], list[tuple[str, int]]]] = [
    ("ij,jk->ik", [(4, 5), (5, 6)], [("MatMulV3", 240)]),
    ("ij,jk", [(4, 5), (5, 6)], [("MatMulV3", 240)]),
    ("ij,kj->ik", [(4, 5), (6, 5)], [("MatMulV3", 240)]),
    ("ij,jk->ki", [(4, 5), (5, 6)], [("MatMulV3", 240), ("Transpose", 0)]),
    ("bij,bjk->bik", [(3, 4, 5), (3, 5, 6)], [("BatchMatMulV2", 720)]),
    ("...ij,...jk->...ik", [(3, 4, 5), (3, 5, 6)], [("BatchMatMulV2", 720)]),
    ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)], [("Transpose", 0), ("Transpose", 0), ("BatchMatMulV2", 1440)]),
    ("i,i->", [(5,), (5,)], [("Dot", 10)]),
    ("i,j->ij", [(4,), (5,)], [("Mul", 20)]),
    ("ij,ij->ij", [(4, 5), (4, 5)], [("Mul", 20)]),
    ("ij->ji", [(4, 5)], [("Transpose", 0)]),
    ("ij->i", [(4, 5)], [("ReduceSum", 20)]),
    ("ii->", [(4, 4)], [("DiagPart", 0), ("ReduceSum", 4)]),
    ("ij,k->k", [(4, 5), (6,)], [("ReduceSum", 20), ("Mul", 6)]),
    ("ij,jk,kl->il", [(4, 5), (5, 6), (6, 2)], [("MatMulV3", 240), ("MatMulV3", 96)]),
    ("ij->ij", [(4, 5)], []),
]


@pytest.mark.parametrize(("subscripts", "shapes", "kernels"), CASES)
def test_einsum_gives_what_numpy_gives_by_its_kernels(
    seen: Witness, subscripts: str, shapes: list[tuple[int, ...]], kernels: list[tuple[str, int]]
) -> None:
    rng = np.random.default_rng(5)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    found = np.einsum(subscripts, *map(npu.array, values))
    assert [(launch.operator.op_type, launch.operator.flops) for launch in seen.launches] == kernels
    assert_same(found, np.einsum(subscripts, *values), roundings=8)


@pytest.mark.slow
@settings(deadline=None)
@given(letters=st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3), data=st.data())
def test_any_subscripts_give_what_numpy_gives(letters: list[str], data: st.DataObject) -> None:
    used = sorted(set("".join(letters)))
    output = "".join(data.draw(st.lists(st.sampled_from(used), unique=True))) if used else ""
    lengths = dict(zip("abcd", (2, 3, 1, 4), strict=True))
    values = [np.full([lengths[label] for label in term], index + 1.5) for index, term in enumerate(letters)]
    subscripts = ",".join(letters) + "->" + output
    expected: Any = np.einsum(subscripts, *values)
    assert_same(np.einsum(subscripts, *map(npu.array, values)), expected, roundings=8)


@pytest.mark.parametrize(
    ("subscripts", "ranks", "terms", "output"),
    [
        ("ij, jk -> ik", [2, 2], ["ij", "jk"], "ik"),
        ("ba", [2], ["ba"], "ab"),
        ("ii", [2], ["ii"], ""),
        ("...i,i", [3, 1], ["abi", "i"], "ab"),
        ("...i,...i->...", [3, 2], ["abi", "bi"], "ab"),
    ],
)
def test_subscripts_are_read_as_numpy_reads_them(
    subscripts: str, ranks: list[int], terms: list[str], output: str
) -> None:
    assert parse(subscripts, ranks) == (terms, output)


def test_out_and_optimize_are_numpys(host: Values) -> None:
    x, target = npu.array(host), npu.zeros((8, 8))
    assert np.einsum("ij,kj->ik", x, x, out=target, optimize=True) is target  # type: ignore[call-overload]  # by protocol
    assert_same(target, np.einsum("ij,kj->ik", host, host, optimize=True), roundings=8)


def test_lists_of_axes_are_refused(host: Values) -> None:
    with pytest.raises(TypeError, match="as a string"):
        np.einsum(npu.array(host), [0, 1], [1, 0])
