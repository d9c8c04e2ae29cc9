"""A recording's own file: whole or absent, and never trusted."""

from __future__ import annotations

import os
import stat
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pytest

from npuprof.errors import NpuprofError, SourceError
from npuprof.recordings.recording import FILE_NAME, METADATA_FILE_NAME, Recording, make_directory
from tests.full_disk import small_files


def test_what_is_written_is_read(tmp_path: Path) -> None:
    recording = Recording(tmp_path, "a run", "simulator", True, steps=[(0, 1, 2)], metadata={"layers": 12})
    recording.write()
    read = Recording.read(tmp_path)
    assert (read.name, read.simulated, read.metadata) == ("a run", True, {"layers": 12})
    assert [tuple(step) for step in read.steps] == [(0, 1, 2)]
    assert [child.name for child in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o277, 0o777])
def test_its_files_are_the_users_alone_under_any_umask(tmp_path: Path, umask: int) -> None:
    recording = Recording(tmp_path, "a run", "simulator", True, metadata={"layers": 12})
    for _ in range(2):  # a file that is replaced too
        before = os.umask(umask)
        try:
            recording.write()
            recording.write_metadata()
        finally:
            os.umask(before)
        for name in (FILE_NAME, METADATA_FILE_NAME):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        (tmp_path / FILE_NAME).chmod(0o644)


def test_partial_write_leaves_the_old_file(tmp_path: Path) -> None:
    Recording(tmp_path, "before", "simulator", True).write()
    with (
        small_files(10),
        pytest.raises(NpuprofError, match=f"{FILE_NAME} cannot be written: File too large; .* needed"),
    ):
        Recording(tmp_path, "after", "simulator", True).write()
    assert Recording.read(tmp_path).name == "before"
    assert [child.name for child in tmp_path.iterdir()] == [FILE_NAME]


def test_the_name_of_a_deleted_recording_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_args: "20261124_103000")
    names = set()
    for _ in range(3):
        with ExitStack() as undo:
            directory = make_directory(tmp_path, "run", undo)
            undo.pop_all()
        names.add(directory.name)
        directory.rmdir()
    assert len(names) == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("[]", "was not written by npuprof"),
        ('{"format": "other"}', "was not written by npuprof"),
        ('{"format": "npuprof-recording"}', "does not say whether the NPU was simulated"),
    ],
)
def test_a_damaged_file_says_what_to_load_instead(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(SourceError, match=told):
        Recording.read(tmp_path)


def test_keys_of_a_newer_version_are_left_out(tmp_path: Path) -> None:
    text = '{"format": "npuprof-recording", "name": "n", "collector": "acl", "simulated": false, "future": 1}'
    (tmp_path / FILE_NAME).write_text(text)
    assert Recording.read(tmp_path).collector == "acl"


@pytest.mark.slow
def test_the_steps_of_a_long_run_are_read_again(tmp_path: Path) -> None:
    start = 1_763_600_000_000_000_000
    steps = [(number, start + number * 10**6, start + (number + 1) * 10**6) for number in range(200_000)]
    Recording(tmp_path, "a run of weeks", "acl", False, steps=steps).write()
    assert (tmp_path / FILE_NAME).stat().st_size < (64 << 20) / 5  # a million would be read too
    read = Recording.read(tmp_path)
    assert read.problems == []
    assert tuple(read.steps[-1]) == steps[-1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda file: file.truncate(4 << 30), "larger than 64 MiB"),
        (lambda file: file.write(b'{"x": [' + b"[[[{}]]]," * 1_000_000 + b"{}]}"), "holds more values than fit"),
    ],
    ids=["sparse", "many values"],
)
def test_what_was_made_to_fill_memory_does_not(tmp_path: Path, make: Callable[[BinaryIO], object], told: str) -> None:
    with (tmp_path / FILE_NAME).open("wb") as file:
        make(file)
    tracemalloc.start()
    try:
        with pytest.raises(SourceError, match=told):
            Recording.read(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()
