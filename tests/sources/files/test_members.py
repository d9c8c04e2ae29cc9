"""An archive that was made to do harm does none, and what is damaged or left out of one is told."""

from __future__ import annotations

import errno
import gc
import io
import os
import stat
import tarfile
import tempfile
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import npuprof
from npuprof.errors import NpuprofError, SourceError
from npuprof.loading import open_path
from npuprof.sources.files import archives, members
from npuprof.sources.files.archives import unpack
from npuprof.sources.files.members import Limits
from tests.budget import examples
from tests.full_disk import small_disk
from tests.sources.files.packing import (
    files_of,
    loose_result,
    member,
    pack,
    tar_of,
    zip_of,
)

_LEAVING = ["../out.txt", "a/../../out.txt", "/tmp/out.txt", "..\\out.txt", "\\out.txt", "C:/out.txt", "C:\\out.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("name", _LEAVING)
def test_paths_that_leave_the_archive_are_left_out(tmp_path: Path, place: Path, name: str) -> None:
    for archive in (
        zip_of(tmp_path / "a.zip", {name: b"harm", "kept.txt": b"1"}),
        tar_of(tmp_path / "a.tgz", member(name, b"harm"), member("kept.txt", b"1")),
    ):
        unpacked = unpack(archive)
        assert {file.name for file in place.rglob("*") if file.is_file()} == {"kept.txt"}
        assert unpacked.problems == {"a path that leaves the archive": 1}
        unpacked.remove()
    assert not (place.parent / "out.txt").exists()
    assert not Path("/tmp/out.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE],
)
def test_links_and_devices_are_left_out(tmp_path: Path, place: Path, kind: bytes) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    archive = tar_of(
        tmp_path / "a.tgz",
        member("way", b"", kind, str(outside)),
        member("file", b"", kind, str(outside / "secret")),
        member("way/in.txt", b"harm"),
        member("kept.txt", b"1"),
    )
    unpacked = unpack(archive)
    assert sum(unpacked.problems.values()) == 2
    assert sorted(file.name for file in place.rglob("*") if file.is_file()) == ["in.txt", "kept.txt"]
    assert not any(file.is_symlink() for file in place.rglob("*"))
    assert [file.name for file in outside.iterdir()] == ["secret"]


@pytest.mark.slow
def test_links_in_a_zip_are_left_out(tmp_path: Path, place: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("way")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc")
        archive.writestr("way/passwd", "harm")
    unpacked = unpack(path)
    assert unpacked.problems == {"a link or a device": 1}
    assert [file.name for file in place.rglob("*") if file.is_file()] == ["passwd"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".zip", ".tgz"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_last_of_equal_names_stays(tmp_path: Path, suffix: str) -> None:
    names = ("a", "./a", "b//c", "b/c", "a/d", "e/f", "e", "a/d/g")
    if suffix == ".zip":
        archive = tmp_path / "a.zip"
        with zipfile.ZipFile(archive, "w") as out:
            for name in names:
                out.writestr(name, name)
    else:
        archive = tar_of(tmp_path / "a.tgz", *(member(name, name.encode()) for name in names))
    unpacked = unpack(archive)
    assert files_of(unpacked) == {"a": b"./a", "b/c": b"b/c", "e/f": b"e/f"}
    assert unpacked.problems == {
        "a file whose path comes again later in the archive": 2,
        "a file whose path is that of a folder too": 3,
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_long_names_and_times_of_every_tar_are_kept(tmp_path: Path, form: int) -> None:
    names = ["d" * 80 + "/" + "n" * 90, "h/\u540d\u79f0"] + ["l" * 200 + "/" + "m" * 200] * (
        form != tarfile.USTAR_FORMAT
    )
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=form, pax_headers={"comment": "sent"}) as archive:
        for number, name in enumerate(names):
            info, content = member(name, name.encode() * number)
            info.mtime = 1_700_000_000
            archive.addfile(info, io.BytesIO(content))
    unpacked = unpack(path)
    assert not unpacked.problems
    assert files_of(unpacked) == {name: name.encode() * number for number, name in enumerate(names)}
    assert {(unpacked.folder / name).stat().st_mtime for name in names} == {1_700_000_000}


@pytest.mark.slow
def test_sparse_files_are_skipped(tmp_path: Path) -> None:
    """The two ways in which GNU tar writes them."""
    old, content = member("old", b"x" * 700, tarfile.GNUTYPE_SPARSE)
    block = bytearray(old.tobuf(tarfile.GNU_FORMAT))
    block[482], block[148:156] = 1, b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    pax, after = tarfile.TarInfo("new"), member("kept", b"1")[0]
    pax.size, pax.pax_headers = 512, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "new"}
    path = tmp_path / "a.tar"
    path.write_bytes(
        bytes(block) + bytes(512) + content.ljust(1024, b"\0")
        + pax.tobuf(tarfile.PAX_FORMAT) + b"9\n" * 256
        + after.tobuf() + b"1".ljust(512, b"\0") + bytes(1024)
    )  # fmt: skip
    unpacked = unpack(path)
    assert files_of(unpacked) == {"kept": b"1"}
    assert unpacked.problems == {"a sparse file: make the archive without --sparse": 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_what_describes_a_member_is_bounded(tmp_path: Path, kind: bytes) -> None:
    """It would be read into memory as a whole; the archive itself is small."""
    path = tar_of(tmp_path / "a.tgz", member("kept", b"1"), member("x", bytes(32 << 20), kind), member("b", b"1"))
    tracemalloc.start()
    try:
        unpacked = unpack(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert "kept" in files_of(unpacked)
    if kind != tarfile.GNUTYPE_LONGLINK:
        assert list(unpacked.problems) == [
            "all that follows the damage of the archive (a header is damaged: it is far too large)"
        ]


@pytest.mark.slow
def test_names_that_no_file_can_have_are_left_out(tmp_path: Path) -> None:
    deep = "/".join("d" * 40)
    unpacked = unpack(
        zip_of(tmp_path / "a.zip", {"n" * 300: b"1", deep: b"1", f"{'x' * 200}/" * 8 + "y": b"1", "kept": b"1"})
    )
    assert unpacked.problems == {"a path that is too long": 3}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".zip", ".tgz"])
def test_bombs_end_before_they_fill_the_disk(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(members, "_ALWAYS_BYTES", 32 << 20)
    zeros = bytes(1 << 20)
    path = tmp_path / f"bomb{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros", "w") as out:
            for _ in range(40):
                out.write(zeros)
    else:
        with tarfile.open(path, "w:gz") as packed:
            for number in range(40):
                packed.addfile(member(f"zeros{number}", zeros)[0], io.BytesIO(zeros))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(SourceError, match="unpacks to more than 32 MiB, more than any such archive"):
        npuprof.load(path)
    assert not list(place.iterdir())


@pytest.mark.slow
def test_members_that_are_skipped_count_too(tmp_path: Path) -> None:
    links = (member(f"link{number}", b"", tarfile.SYMTYPE, "x") for number in range(50))
    archive = tar_of(tmp_path / "a.tgz", *links, member("kept", b"1"))
    with pytest.raises(SourceError, match="more than 20 files"):
        unpack(archive, Limits(members=20))
    with pytest.raises(SourceError, match="unpacks to more than"):
        unpack(archive, Limits(total_bytes=10_000))


@pytest.mark.slow
def test_a_full_disk_is_reported_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zip_of(tmp_path / "a.zip", {"a": bytes(1000)})
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(SourceError, match="has room for: free some space there, or set TMPDIR"):
        unpack(archive)


@pytest.mark.slow
@pytest.mark.parametrize("inodes", [0, 3])
def test_a_disk_that_is_full_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inodes: int) -> None:
    archive = zip_of(tmp_path / "a.zip", {f"{number}": os.urandom(20_000) for number in range(20)})
    with small_disk(tmp_path / "disk", 1 << 17, inodes) as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        with pytest.raises(
            SourceError, match=rf"cannot be unpacked into {disk} \({os.strerror(errno.ENOSPC)}\): free some"
        ):
            unpack(archive, Limits())
        assert not list(disk.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("umask", [0, 0o777])
def test_what_is_unpacked_is_private_under_any_umask(tmp_path: Path, umask: int) -> None:
    archive = zip_of(tmp_path / "a.zip", {"a/b/c": b"1"})
    before = os.umask(umask)
    try:
        unpacked = unpack(archive)
    finally:
        os.umask(before)
    parts = [unpacked.folder.parent, *unpacked.folder.parent.rglob("*")]
    assert [stat.S_IMODE(part.stat().st_mode) for part in parts] == [0o700] * 4 + [0o600]


@pytest.mark.slow
def test_damaged_tar_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    whole = b"".join(member(name, b"1")[0].tobuf() + b"1".ljust(512, b"\0") for name in "abc") + bytes(1024)
    for content, problem in (
        (whole[:2048], "its end is missing: it was cut"),
        (whole[:2100], "its end is missing: it was cut"),
        (whole[:1536], "it was cut within a file"),
        (whole[:2048] + b"x" + whole[2049:], "a header is damaged: bad checksum"),
    ):
        path.write_bytes(content)
        unpacked = unpack(path)
        assert unpacked.problems == {f"all that follows the damage of the archive ({problem})": 1}
        assert set(files_of(unpacked)) == {"a", "b"}


@pytest.mark.slow
@pytest.mark.parametrize("behind", [b"x" * 512, bytes(100)], ids=["joined", "shifted"])
def test_data_behind_a_tar_is_reported(tmp_path: Path, behind: bytes) -> None:
    path = tmp_path / "a.tar"
    whole = member("a", b"1")[0].tobuf() + b"1".ljust(512, b"\0") + bytes(1024)
    path.write_bytes(whole)
    assert unpack(path).problems == {}
    path.write_bytes(whole + behind)
    assert [*unpack(path).problems] == [
        "data after its end: bytes are damaged or gone, or several archives were joined"
    ]


@pytest.mark.slow
def test_zip_name_like_a_folder_is_reported(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", {"run/a.csv": b"1", "run/b.csv": b"2"})
    path.write_bytes(path.read_bytes().replace(b"run/b.csv", b"run/\0.csv"))
    unpacked = unpack(path)
    assert set(files_of(unpacked)) == {"run/a.csv"}
    assert unpacked.problems == {"a file whose path is that of a folder": 1}


@pytest.mark.slow
def test_unlisted_zip_members_are_reported(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "a.zip", dict.fromkeys("abc", b"1"))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 32] = 200  # the length of the first comment, which takes in what follows
    path.write_bytes(content)
    unpacked = unpack(path)
    assert set(files_of(unpacked)) == {"a"}
    assert unpacked.problems == {"files that its damaged list no longer names": 2}


@pytest.mark.slow
def test_a_compressed_archive_is_checked_to_its_end(tmp_path: Path) -> None:
    path = tar_of(tmp_path / "a.tgz", member("a", b"1"))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # of the checksum
    path.write_bytes(content)
    assert "CRC check failed" in str(unpack(path).left_out)


@pytest.mark.slow
def test_the_list_of_a_zip_is_bounded_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zip_of(tmp_path / "a.zip", {f"{number}": b"" for number in range(100)})
    large = tmp_path / "large.zip"
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 10)  # so that it takes the form of large archives
    zip_of(large, {f"{number}": b"" for number in range(100)})
    assert len(files_of(unpack(large))) == 100
    monkeypatch.setattr(archives, "_MAX_DIRECTORY_BYTES", 1000)
    for one in (path, large):
        with pytest.raises(SourceError, match="lists more files"):
            unpack(one)


@pytest.mark.slow
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), suffix=st.sampled_from([".zip", ".tar", ".tgz"]))
def test_damage_gives_an_error_or_a_run(tmp_path: Path, place: Path, data: st.DataObject, suffix: str) -> None:
    packed = tmp_path / f"sound{suffix}"
    if not packed.exists():
        pack(loose_result(tmp_path / f"run{suffix}"), packed)
    content = bytearray(packed.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with suppress(NpuprofError):
        open_path(path)
    gc.collect()
    assert not list(place.iterdir())
