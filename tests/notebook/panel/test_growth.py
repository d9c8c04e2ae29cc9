"""How much a recording holds, told from the sizes of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.notebook.panel import files as growth
from npuprof.notebook.panel.files import Growth, measure
from npuprof.options import Options
from npuprof.session.session import Session
from npuprof.simulator import npu


def test_bytes_and_whole_records_are_counted(tmp_path: Path) -> None:
    data = tmp_path / "PROF_1" / "device_0" / "data"
    data.mkdir(parents=True)
    (data / "stars_soc.data.0.slice_0").write_bytes(bytes(64 * 3 + 10))
    (data / "stars_soc.data.0.slice_0.done").write_bytes(bytes(100))
    (data / "unaging.additional.hash_dic.slice_0").write_bytes(bytes(1000))
    assert measure(tmp_path) == Growth(64 * 3 + 10 + 1100, 3)


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert measure(tmp_path / "gone") == Growth()


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "around").symlink_to(tmp_path)
    (tmp_path / "big").write_bytes(bytes(10))
    (tmp_path / "link").symlink_to(tmp_path / "big")
    assert measure(tmp_path).size_bytes == 10


def test_a_look_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / str(number)).write_bytes(b"x")
    monkeypatch.setattr(growth, "_MOST_ENTRIES", 20)
    assert measure(tmp_path).at_least


@pytest.mark.slow
def test_records_of_a_simulated_run_are_counted_while_it_is_made(tmp_path: Path) -> None:
    with Session(Options(collector="simulator", activities=("npu",), output=tmp_path)) as session:
        array = npu.ones((32, 32))
        for _ in range(2000):
            array = array + 1
        float(array.sum())
        found = measure(session.recording.directory)
        assert session.collecting
    assert found.records > 1000
    after = measure(session.recording.directory)
    assert after.records > 2000 * 2  # a launch and a task each
    assert after.size_bytes > found.size_bytes
