"""Hashes of names, as the collector makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.sources.raw.control.dictionaries import hash_of
from tests.sources.raw.conftest import raw_sample


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", 0),
        ("a", 97 << 32 | 97),
        ("ab", (97 * 29 + 98) << 32 | 97 * 131 + 98),
        ("Notify_Record", 0x9EB5886F0B5EF22F),
        ("\u00e9", 0xFFFFFFFFFFFFFFFF & ((-61 * 29 - 87) % (1 << 32) << 32 | (-61 * 131 - 87) % (1 << 32))),  # signed
    ],
)
def test_a_name_has_the_hash_of_two_polynomials(name: str, number: int) -> None:
    assert hash_of(name) == number


def test_names_of_a_sample_have_the_hashes_of_its_dictionary(samples: Path) -> None:
    file = raw_sample(samples, "everything") / "host/data/unaging.additional.hash_dic.slice_0"
    entries = [line.split(":", 1) for line in file.read_text().splitlines()]
    assert len(entries) > 10
    assert [hash_of(name) for _, name in entries] == [int(number) for number, _ in entries]
