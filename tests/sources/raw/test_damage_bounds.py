"""Damaged recordings open as a `Profile` with notes or are refused, within bounds of time and memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import NpuprofError
from tests.budget import examples
from tests.sources.raw.communication.test_device_collectives import DeviceCollectives, _write_run
from tests.sources.raw.host.test_captures import _tensors
from tests.sources.raw.host.test_runtime_records import RuntimeRecords
from tests.sources.raw.writers.directory import HOST_COUNTER

from .conftest import raw_sample, writable_copy
from .test_damage import _cut, _files, _flip, _insert, _repeat, _shuffle

_MOST_S, _MOST_BYTES = 20, 512 << 20  # of one small recording
_QUICK = settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _open(folder: Path) -> None:
    """Load a recording and look at what came of it."""
    before, start = _peak_bytes(), time.process_time()
    refusal = ""
    try:
        run = npuprof.load(folder)
    except NpuprofError as error:
        refusal = str(error)
    else:
        for name in tables.NAMES:
            tables.check(name, getattr(run, name))
        assert {"severity", "source", "message", "count"} <= set(run.notes.columns)
    assert not refusal or str(folder) in refusal
    assert time.process_time() - start < _MOST_S
    assert _peak_bytes() - before < _MOST_BYTES


def _damage(folder: Path, files: list[Path]) -> None:
    whole = {file: file.read_bytes() for file in files}

    @_QUICK
    @given(data=st.data())
    def damage_and_open(data: st.DataObject) -> None:
        damaged = data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=3, unique=True))
        try:
            for file in damaged:
                content = bytearray(whole[file])
                data.draw(st.sampled_from([_flip, _cut, _shuffle, _insert, _repeat]))(content, data)
                file.write_bytes(content)
            _open(folder)
        finally:
            for file in damaged:
                file.write_bytes(whole[file])

    damage_and_open()


@pytest.mark.long
def test_a_damaged_sample_is_a_profile_or_an_error(samples: Path, tmp_path: Path) -> None:
    folder = writable_copy(raw_sample(samples, "everything"), tmp_path / "PROF_000001_20251120005320000_ABCDEFGH")
    _damage(folder, _files(folder))


def _collectives(path: Path) -> Path:
    directory = DeviceCollectives(path)
    _write_run(directory)
    directory.captured(10, 50, 20, 9)
    directory.captured_v2(20, 51, 21, 10)
    directory.captured(900, 0xFFFF, 0xFFFF, 9, destroyed=1)
    directory.captured_operator(10, "short", 30, 9, *_tensors(3))
    directory.long_operator(11, "long", 31, 1, *_tensors(7))
    directory.ends(50, 20, 1, 30, 2, 0)
    return directory.finish()


def _of_the_runtime(path: Path) -> Path:
    directory = RuntimeRecords(path)
    directory.launch(0, "Add", 3, 0)
    directory.compact("stream_sq_info", 807, "HxxIHHH", 1, 70_000, 5, 2, 0)
    directory.compact("memcpy_ext_info", 810, "QHHI", 4096, 5, 1, 3)
    directory.compact("memset_info", 811, "QiIH", 64, -1, 3, 1)
    directory.compact("memory_info", 812, "QQIHHI", 0x1000, 512, 2, 4, 1, 3)
    directory.compact("dpu_track", 806, "HHIIIQ", 1 << 12 | 2, 3, 4, 66, 0, HOST_COUNTER + 20)
    return directory.finish()


@pytest.mark.long
@pytest.mark.parametrize("write", [_collectives, _of_the_runtime])
def test_damaged_records_of_rare_kinds_are_a_profile_or_an_error(write: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = write(tmp_path / "PROF_000001_20251120005320000_ABCDEFGH")
    _damage(folder, [file for file in _files(folder) if "slice" in file.name])
