"""A start that fails removes all that it wrote, and says what the disk or the process lacks."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import CollectorError, NpuprofError
from npuprof.options import Options
from npuprof.session.session import Session
from tests.fakes import FakeCollector
from tests.full_disk import small_disk


@pytest.mark.parametrize("free_kib", [4, 8, 16, 32])
def test_nearly_full_disk_refuses_the_start(tmp_path: Path, free_kib: int) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        (disk / "there").mkdir()
        room = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - (free_kib << 10)))
        with pytest.raises(CollectorError, match=f"{os.strerror(errno.ENOSPC)}: free some space, or choose another"):
            npuprof.profile(collector="simulator", activities="npu", output=disk / "runs").start()
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "there"]


@pytest.mark.parametrize("inodes", [3, 5, 8, 12, 16])
def test_a_start_without_inodes_leaves_nothing_and_says_why(tmp_path: Path, inodes: int) -> None:
    with small_disk(tmp_path / "disk", 1 << 24, inodes) as disk:
        with pytest.raises(NpuprofError, match="the file system has no inodes left"):
            npuprof.profile(collector="simulator", activities="npu", output=disk / "runs").start()
        assert not list(disk.iterdir())


class Refusing(FakeCollector):
    """A front end that has begun to write, and fails for a reason that it does not tell."""

    def start(self, options: Options, directory: Path) -> None:
        (directory / "PROF_1").mkdir()
        (directory / "PROF_1" / "data").write_bytes(b"1")
        raise CollectorError("start returned 100003")


def test_failed_start_removes_its_files(tmp_path: Path) -> None:
    (tmp_path / "out" / "run_before").mkdir(parents=True)
    with pytest.raises(CollectorError, match=r"^start returned 100003$"):
        Session(Options(output=tmp_path / "out"), collector=Refusing()).start()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run_before"]


@pytest.mark.parametrize(("number", "told"), [(errno.EMFILE, "ulimit -n"), (errno.ENFILE, "end some programs")])
def test_a_start_without_descriptors_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, told: str
) -> None:
    really = os.open

    def none_left(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if path == os.devnull:
            raise OSError(number, os.strerror(number))
        return really(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(CollectorError, match=rf"{os.strerror(number)}.*{told}.*\(start returned 100003\)"):
        Session(Options(output=tmp_path / "out"), collector=Refusing()).start()
    assert not (tmp_path / "out").exists()
