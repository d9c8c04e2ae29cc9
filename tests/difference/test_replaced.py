"""What differs between two sequences of kernels."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from npuprof.difference.replaced import Key, replaced, replacements

_letters = st.lists(st.sampled_from("abcdefgh"), max_size=30)


@given(_letters, _letters)
def test_unreported_differences_do_not_exist(a: list[str], b: list[str]) -> None:
    kept_a, kept_b, at = [], [], (0, 0)
    for a0, a1, b0, b1 in replacements(a, b):
        assert at[0] <= a0 <= a1 <= len(a)
        assert at[1] <= b0 <= b1 <= len(b)
        kept_a += a[at[0] : a0]
        kept_b += b[at[1] : b0]
        at = (a1, b1)
    assert kept_a + a[at[0] :] == kept_b + b[at[1] :]


def test_equal_kernels_are_not_distinguished() -> None:
    a, b = _kernels("In Fused Out Mul"), _kernels("In Mul Add Out Mul")
    first, second = replaced(a, b)
    assert first == {("Fused", "", ""): "Fused <- Mul, Add"}
    assert second == {("Add", "", ""): "Fused <- Mul, Add"}


def test_kernels_compare_between_equal_collectives() -> None:
    # Without anchors the layers on one side, all alike, could be any of those on the other.
    a = [*_kernels("Fused Norm"), ("allReduce", "", "#1"), *_kernels("Wide"), ("allReduce", "", "#2")]
    b = [*_kernels("Mul Add Norm"), ("allReduce", "", "#1"), *_kernels("Cast Narrow"), ("allReduce", "", "#2")]
    first, second = replaced(a, b)
    assert set(first.values()) == {"Fused <- Mul, Add", "Wide <- Cast, Narrow"} == set(second.values())


def test_a_kernel_that_moved_is_no_replacement() -> None:
    first, second = replaced(_kernels("In Wide Attention Out Left"), _kernels("In Narrow Out Cast Attention Left"))
    assert first == {("Wide", "", ""): "Wide, Attention <- Narrow"}
    assert second == {("Narrow", "", ""): "Wide, Attention <- Narrow"}


def test_known_paths_are_not_named_by_place() -> None:
    assert replaced([("A", "", "net/first")], [("B", "", "")]) == ({}, {})


def _kernels(types: str) -> list[Key]:
    return [(kind, "", "") for kind in types.split()]


def test_long_sequences_take_no_longer_than_their_anchors_allow() -> None:
    layer = [f"k{number}" for number in range(50)]
    a = [f"{name} {turn}" if name == "k7" else name for turn in range(400) for name in layer]
    b = [name for name in a if name != "k8"]
    begin = time.process_time()
    blocks = list(replacements(a, b))
    assert len(blocks) == 400
    assert time.process_time() - begin < 60


def test_many_anchors_stay_linear() -> None:
    a = [name for turn in range(40_000) for name in (f"anchor {turn}", "k1", "k2")]
    begin = time.process_time()
    assert len(list(replacements(a, [name for name in a if name != "k1"]))) == 40_000
    assert time.process_time() - begin < 60
