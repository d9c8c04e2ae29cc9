"""Files are replaced when the new ones are whole, and an error says what is missing."""

from __future__ import annotations

import errno
import os
import resource
import stat
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pytest

import npuprof
from npuprof.errors import NpuprofError
from npuprof.files import atomic
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.words.quantities import size
from tests import factories
from tests.full_disk import small_disk, small_files
from tests.interrupts import interrupted

_EXPORTS: dict[str, Callable[[Profile, Path], Path]] = {
    "page.html": Profile.to_html,
    "trace.json": Profile.to_chrome_trace,
    "trace.json.gz": Profile.to_chrome_trace,
    "stacks.txt": Profile.to_folded_stacks,
    "memory.json": Profile.to_memory_timeline,
    "memory.json.gz": Profile.to_memory_timeline,
    "memory.html": Profile.to_memory_timeline,
}
_OLD = b"what was there before"


@pytest.fixture(scope="module")
def profile() -> Profile:
    own = factories.profile(4_000)
    numbers = range(len(own["python"]))
    own["python"]["name"] = pd.Categorical([f"layer_{number}.py(1): call" for number in numbers])
    return Profile(Decoded(own, factories.info()))


@pytest.mark.long
@pytest.mark.parametrize("name", _EXPORTS)
def test_export_without_room_keeps_the_old_file(profile: Profile, tmp_path: Path, name: str) -> None:
    whole = _EXPORTS[name](profile, tmp_path / name).stat().st_size
    (tmp_path / name).write_bytes(_OLD)
    with small_files(whole - 1), pytest.raises(NpuprofError, match=f"{name} cannot be written: File too large") as told:
        _EXPORTS[name](profile, tmp_path / name)
    assert f"{size(whole)} are needed" in str(told.value)
    assert (tmp_path / name).read_bytes() == _OLD
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.slow
def test_full_disk_reports_missing_data(profile: Profile, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 100 << 10) as disk:
        (disk / "trace.json").write_bytes(_OLD)
        with pytest.raises(NpuprofError, match=r"needed, .* are free: free .* MiB more, or choose another directory"):
            profile.to_chrome_trace(disk / "trace.json")
        with pytest.raises(NpuprofError, match=rf"{os.strerror(errno.ENOSPC)}; .* are needed"):
            profile.save(disk / "deep" / "saved")
        (disk / "empty").mkdir()
        with pytest.raises(NpuprofError, match=os.strerror(errno.ENOSPC)):
            profile.save(disk / "empty")
        assert (disk / "trace.json").read_bytes() == _OLD
        assert sorted(disk.rglob("*")) == [disk / "empty", disk / "trace.json"]


def test_a_disk_without_inodes_is_reported_as_that(profile: Profile, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 10 << 20, inodes=3) as disk,
        pytest.raises(NpuprofError, match="the file system has no inodes left; remove some files"),
    ):
        profile.save(disk / "saved")


def test_a_process_without_descriptors_is_reported_as_that(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open(tmp_path, os.O_RDONLY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (held, hard))
    try:
        with pytest.raises(NpuprofError, match=r"this process has no file descriptors left; .*ulimit -n"):
            atomic.write(tmp_path / "file", b"content")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(held)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_profile_is_saved_into_an_empty_directory(
    profile: Profile, tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "new" / "saved"
    if there:
        target.mkdir(parents=True, mode=0o755)
        monkeypatch.chdir(target)
    saved = profile.save("." if there else target)
    assert len(npuprof.load(saved).kernels) == len(profile.kernels)
    assert not [path for path in tmp_path.rglob("*") if path.suffix == atomic.PARTIAL]
    assert stat.S_IMODE((target / "profile.json").stat().st_mode) == 0o600


def _interrupted(opened: AbstractContextManager[BinaryIO]) -> None:
    with opened as file:
        file.write(b"content")
        raise KeyboardInterrupt


@pytest.mark.parametrize("there", [False, True])
def test_half_made_directory_is_removed(tmp_path: Path, there: bool) -> None:
    target = tmp_path / "saved"
    if there:
        target.mkdir()
    with pytest.raises(KeyboardInterrupt), atomic.new_directory(target) as add:
        _interrupted(add("deep/first"))
    assert list(tmp_path.rglob("*")) == [target] * there


@pytest.mark.slow
@pytest.mark.parametrize("there", [False, True])
def test_interrupt_leaves_old_or_new_file(tmp_path: Path, there: bool) -> None:
    for line in count():
        place = tmp_path / f"{line}"
        target, saved = place / "file", place / "saved"
        saved.mkdir(parents=True)
        target.write_bytes(_OLD)

        def write(target: Path = target, saved: Path = saved) -> None:
            atomic.write(target, b"new")
            with atomic.new_directory(saved if there else saved / "new") as add, add("deep/first") as file:
                file.write(b"content")

        came = interrupted(write, {"npuprof.files.atomic"}, line)
        assert target.read_bytes() in (_OLD, b"new")
        left = {path for path in place.rglob("*") if path.is_file() or path.suffix == atomic.PARTIAL} - {target}
        assert left in (set(), {saved / ("" if there else "new") / "deep" / "first"}), line
        if not came:
            break
    assert line > 50


def test_a_block_that_raises_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(_OLD)
    with pytest.raises(KeyboardInterrupt):
        _interrupted(atomic.replacing(target))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [_OLD]


def test_file_is_private_unless_it_replaces_another(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        atomic.write(tmp_path / "deep" / "new", b"")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "deep" / "new").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "deep").stat().st_mode) == 0o700
    (tmp_path / "shared").touch(0o600)
    for like_before, mode in ((True, 0o664), (False, 0o600)):
        (tmp_path / "shared").chmod(0o664)
        with atomic.replacing(tmp_path / "shared", like_before=like_before):
            pass
        assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == mode


def test_link_stays_and_special_files_are_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "file")
    atomic.write(tmp_path / "link", b"first")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "deep" / "file").read_bytes() == b"first"
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=atomic.write, args=(tmp_path / "pipe", b"through"))
    writer.start()
    assert (tmp_path / "pipe").read_bytes() == b"through"
    writer.join()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_place_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        NpuprofError, match=f"{os.strerror(errno.EEXIST)}: choose another directory that you can write to"
    ):
        atomic.write(tmp_path / "file" / "below", b"")
    with pytest.raises(NpuprofError, match=os.strerror(errno.EISDIR)):
        atomic.write(tmp_path, b"")
