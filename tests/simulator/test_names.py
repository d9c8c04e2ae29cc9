"""Hashes and dictionaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof.simulator.names import LEVEL_ACL, LEVEL_RUNTIME, Names, name_hash


@pytest.mark.parametrize(
    ("name", "number"),
    [("MatMulV3", 4727050152926495449), ("Add", 247669290252505), ("hcom_allReduce__721_0", 17599845613256613246)],
)
def test_hashes_are_the_vendors(name: str, number: int) -> None:
    assert name_hash(name) == number


@pytest.mark.slow
@given(st.text())
def test_any_name_has_a_hash_of_64_bits_and_one_line(name: str) -> None:
    names = Names()
    number = names.hash(name)
    hashes, _ = names.take_lines()
    assert 0 <= number < 1 << 64
    assert hashes.count(b"\n") == 1
    assert hashes.startswith(f"{number}:".encode())


def test_a_line_is_given_once() -> None:
    names = Names()
    assert names.hash("a") == names.hash("a")
    assert names.api_type(LEVEL_ACL, "aclnnAdd", 5) >> 16 == 5
    assert names.api_type(LEVEL_RUNTIME, "KernelLaunch") >= 1000
    first_hashes, first_types = names.take_lines()
    assert first_hashes == f"{name_hash('a')}:a\n".encode()
    assert b"20000_327681:aclnnAdd\n" in first_types
    assert names.take_lines() == (b"", b"")
