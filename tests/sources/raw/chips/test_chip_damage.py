"""Whatever happens to the bytes of other chips' records, reading gives tables with notes, or a SourceError."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.sources.raw.test_damage import _damage_and_read, _files
from tests.sources.raw.writers.chips import HwtsDirectory, V6Directory
from tests.sources.raw.writers.directory import DEVICE_COUNTER, RawDirectory

_OF_HWTS = ("hwts", "aicore", "aiVectorCore", "training_trace", "ts_track", "task_track", "info.json", "dev_start")
_OF_V6 = ("stars_soc", "stars_block", "ffts_profile", "ts_track", "task_track", "info.json", "sample.json")


@pytest.mark.long
@pytest.mark.parametrize(("maker", "wanted"), [(HwtsDirectory, _OF_HWTS), (V6Directory, _OF_V6)])
def test_damaged_records_give_tables_or_an_error(
    maker: type[HwtsDirectory | V6Directory], wanted: tuple[str, ...], tmp_path: Path
) -> None:
    directory = maker(tmp_path / "PROF_x")
    directory.write_one_of_each()
    files = [file for file in _files(directory.finish()) if any(name in file.name for name in wanted)]
    assert len(files) >= len(wanted)
    _damage_and_read(directory.path, files)


@pytest.mark.slow
def test_damaged_records_of_a_nano_give_tables_or_an_error(tmp_path: Path) -> None:
    directory = RawDirectory(tmp_path / "PROF_x", platform_version="9")
    for number in range(6):
        words = (DEVICE_COUNTER + 100 * number, 25, 1000, 0, 0, 0)
        record = struct.pack("<BBHHHIIIHBB10I", 0, 2, 0, 0, number, *words, *range(10))
        directory.streams["device_0/data/nano_stars_profile.data.0"] += record
    files = [file for file in _files(directory.finish()) if file.name.startswith(("nano", "info.json", "sample"))]
    _damage_and_read(directory.path, files)


@pytest.mark.slow
def test_a_damaged_folder_of_2020_gives_tables_or_an_error(tmp_path: Path) -> None:
    directory = HwtsDirectory(tmp_path / "PROF_x")
    directory.write_one_of_each()
    directory.trace_2020(10, 255)
    folder = tmp_path / "JOB"
    (folder / "data").mkdir(parents=True)
    for name, content in directory.streams.items():
        if name.startswith("device_0"):
            stream = Path(name).name.removesuffix(".0")
            (folder / "data" / f"{stream}.45.dev.profiler_default_tag.1.slice_0").write_bytes(content)
    _damage_and_read(folder, _files(folder))
