"""Whoever opens a raw directory or a front end's folder sees how far it is, and can end it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import npuprof
from npuprof.progress import Progress, watched
from npuprof.simulator import synthesise
from npuprof.sources.framework import files
from tests.sources.framework.writer import small


def raw(folder: Path) -> Path:
    """Write a raw directory."""
    return synthesise(folder, launches=3000)


def framework(folder: Path) -> Path:
    """Write a result of torch_npu that nobody parsed."""
    return small().write(folder / "host_1_20251120000000_ascend_pt")


FOLDERS = [pytest.param(raw, id="raw"), pytest.param(framework, id="framework")]


def _told(path: Path) -> dict[str, list[Progress]]:
    told: dict[str, list[Progress]] = {}
    with watched(lambda one: told.setdefault(one.name, []).append(one)):
        npuprof.load(path)
    return told


def test_a_raw_directory_reports_the_bytes_of_host_and_device(tmp_path: Path) -> None:
    path = raw(tmp_path)
    told = _told(path)
    for side in ("host", "device_0"):
        sizes = [file.stat().st_size for file in (path / side / "data").glob("*.slice_*") if file.suffix != ".done"]
        assert {one.total for one in told[side]} == {sum(sizes)}
        done = [one.done for one in told[side]]
        assert done == sorted(done)
        assert len(set(done)) > 1
        assert done[-1] == sum(sizes)


def test_a_front_ends_folder_reports_the_bytes_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BYTES_AT_ONCE", 64)
    path = framework(tmp_path)
    told = _told(path)
    operators = told["torch.op_range"]
    size = (path / "FRAMEWORK" / "torch.op_range").stat().st_size
    assert [one.done for one in operators] == [*range(0, size, 64), size]
    assert {one.total for one in operators} == {size}


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("write", FOLDERS)
def test_an_interrupt_ends_the_reading_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path)
    rest = tmp_path / "temporary"
    rest.mkdir()
    monkeypatch.setenv("TMPDIR", str(rest))
    before = _contents(tmp_path), _open_files()
    with pytest.raises(KeyboardInterrupt), watched(lambda _one: signal.raise_signal(signal.SIGINT)):
        npuprof.load(path)
    assert (_contents(tmp_path), _open_files()) == before
    assert any(map(len, npuprof.load(path).tables.values()))


def _contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() if file.is_file() else b"" for file in folder.rglob("*")}


def _open_files() -> list[str]:
    return sorted(str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.exists())
