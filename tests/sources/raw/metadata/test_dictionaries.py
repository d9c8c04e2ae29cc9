"""Hashes of names, as the collector makes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npuprof.sources import raw
from npuprof.sources.raw.metadata.dictionaries import hash_of
from npuprof.tables.notes import Notes
from tests.sources.raw.conftest import raw_sample
from tests.sources.raw.writers.directory import RawDirectory


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


@pytest.mark.slow
def test_a_missing_dictionary_is_reported_where_rows_show_numbers(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_1")
    for turn in range(3):
        directory.launch(turn * 1000, "MatMul", 3, turn)
    path = directory.finish()
    assert not raw.read(path).notes.to_frame()["source"].str.contains("_dic").any()
    (path / "host/data/unaging.additional.hash_dic.slice_0").unlink()
    decoded = raw.read(path)
    number = str(directory.hashes["MatMul"])
    assert decoded.tables["kernels"]["name"].tolist() == [number] * 3
    (note,) = _notes_of(decoded.notes, "hash_dic")
    assert (note["severity"], note["message"].split(":")[0]) == ("warning", "missing or empty")
    shown = [
        frame[name].astype(object) for frame in decoded.tables.values() for name in frame.select_dtypes("category")
    ]
    numbers = {str(one) for one in directory.hashes.values()}
    assert note["count"] == sum(int(column.isin(numbers).sum()) for column in shown) > 3


def test_a_dictionary_that_no_row_asks_for_is_not_missed(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_1")
    directory.api(20000, 1, 0, 50)
    path = directory.finish()
    (path / "host/data/unaging.additional.hash_dic.slice_0").unlink()
    decoded = raw.read(path)
    assert decoded.tables["api"]["name"].tolist() == ["aclnnOp"]
    assert not _notes_of(decoded.notes, "hash_dic")


def test_a_type_without_a_name_is_counted(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_1")
    for at in (0, 100):
        directory.api(20000, 77, at, at + 50)
    directory.api(20000, 1, 500, 550)
    decoded = raw.read(directory.finish())
    assert sorted(decoded.tables["api"]["name"]) == ["77", "77", "aclnnOp"]
    (note,) = _notes_of(decoded.notes, "type_info_dic")
    assert (note["count"], note["message"].split(":")[0]) == (2, "it lacks a name")


def test_kernel_type_with_foreign_name_is_reported(tmp_path: Path) -> None:
    path = RawDirectory(tmp_path / "PROF_1").finish()
    dictionary = path / "host/data/unaging.additional.type_info_dic.slice_0"
    for name, told in (("KERNEL_AICORE", 0), ("KERNEL_NEWER", 0), ("XERNEL_AICORE", 1)):
        dictionary.write_text(f"5000_0:{name}\n5000_2:EVENT_RECORD\n")
        assert len(_notes_of(raw.read(path).notes, "type_info_dic")) == told


def _notes_of(notes: Notes, dictionary: str) -> list[dict[str, Any]]:
    told = notes.to_frame()
    return [dict(row) for row in told[told["source"].str.contains(dictionary)].to_dict("records")]


_PEAK = """
import resource, sys
import npuprof
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run = npuprof.load(sys.argv[1])
assert run.kernels["name"].tolist() == ["MatMul"], run.kernels["name"]
assert run.notes["message"].str.contains("never written").sum() == 1, run.notes.to_string()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.long
@pytest.mark.parametrize(("gib", "at_the_end"), [(1, False), (4, True)])
def test_oversized_dictionary_takes_no_memory(tmp_path: Path, gib: int, *, at_the_end: bool) -> None:
    directory = RawDirectory(tmp_path / "PROF_1")
    directory.launch(0, "MatMul", 3, 0)
    path = directory.finish() / "host/data/unaging.additional.hash_dic.slice_0"
    lines = path.read_bytes()
    with path.open("wb") as file:
        file.truncate(gib << 30)
        file.seek((gib << 30) - len(lines) if at_the_end else 0)
        file.write(lines)
    if path.stat().st_blocks * 512 > 64 << 20:
        pytest.skip("this file system has no holes")
    command = [sys.executable, "-c", _PEAK, str(tmp_path / "PROF_1")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert not ran.returncode, ran.stderr
    assert int(ran.stdout) < 200
