"""Names of files need not be valid text: every format under such a name is read, shown, written and told of."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.cli import main
from npuprof.errors import NpuprofError
from npuprof.loading import open_path
from npuprof.ranks.profile_set import ProfileSet
from npuprof.words.texts import encodable
from tests.sources.cluster import maker as cluster
from tests.sources.database.maker import framework_database
from tests.sources.mindspore import maker as mindspore
from tests.sources.msprof.results import old_result, result
from tests.sources.raw.writers.directory import RawDirectory
from tests.sources.trace.maker import small_trace

ODD = os.fsdecode(b"odd\xff\xe9")
_CSV = "Name,Type,Accelerator Core,Start Time(us),Duration(us)\nMatMul,MatMul,AI_CORE,1763600000000100.001\t,2\n"


def _torch(root: Path) -> Path:
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    small_trace().write(output / "trace_view.json")
    (output / "kernel_details.csv").write_text(_CSV)
    for name in (f"{ODD}.csv", f"{ODD}.txt"):
        (output / name).write_text("a,b\n1,2\n")
    (root / "profiler_info_3.json").write_text("{}")
    return root


def _raw(root: Path) -> Path:
    directory = RawDirectory(root)
    directory.launch(0, "MatMul", 3, 0)
    return directory.finish()


def _file(suffix: str, write: Callable[[Path], object]) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        path = root.with_name(root.name + suffix)
        write(path)
        return path

    return make


def _database(root: Path) -> Path:
    root.mkdir()
    framework_database(root / f"msprof_{ODD}.db")
    return root


FORMATS: dict[str, Callable[[Path], Path]] = {
    "torch_npu": _torch,
    "mindspore": mindspore.result,
    "msprof": result,
    "msprof of 2023": old_result,
    "raw": _raw,
    "database": _database,
    "cluster": cluster.text_result,
    "trace": _file(".json", lambda path: small_trace().write(path)),
    "csv": _file(".csv", lambda path: path.write_text(_CSV)),
    "one database": _file(".db", framework_database),
}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A path of which the name is no UTF-8; skips where the file system takes none."""
    path = tmp_path / ODD
    try:
        path.mkdir()
        path.rmdir()
    except OSError:
        pytest.skip("this file system has no such names")
    return path


def _sound(*texts: object) -> None:
    for text in texts:
        str(text).encode()  # raises where a half of a character is left


@pytest.mark.long
@pytest.mark.parametrize("name", FORMATS)
def test_a_run_under_such_a_name_is_read_shown_and_written(odd: Path, tmp_path: Path, name: str) -> None:
    path = FORMATS[name](odd)
    run = npuprof.load(path)
    assert run.info.recording is not None
    assert run.info.recording.exists()  # the path itself stays what it is
    _sound(str(run), run._repr_html_(), run.notes.to_string(), run.info.name, *run.statistics)
    _sound(run.to_html(tmp_path / "page.html").read_text())
    run.to_chrome_trace(tmp_path / "trace.json")
    run.notes.to_parquet(tmp_path / "notes.parquet")
    again = npuprof.load(run.save(tmp_path / "saved"))
    assert {name: len(frame) for name, frame in again.tables.items()} == {
        name: len(frame) for name, frame in run.tables.items()
    }
    assert set(again.statistics) == set(run.statistics)


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
def test_a_set_with_such_a_run_is_read_and_shown(odd: Path, tmp_path: Path, processes: int) -> None:
    for number, make in enumerate((_torch, _raw, result, _database)):
        make(odd / f"{ODD}{number}" if number else odd / "run_ascend_pt")
    (_torch(odd / f"{ODD}damaged") / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_bytes(b"")
    (odd / f"{ODD}damaged" / "ASCEND_PROFILER_OUTPUT" / "kernel_details.csv").write_bytes(b"")
    for name in (f"{ODD}.csv", f"{ODD}.txt"):
        (odd / f"{ODD}damaged" / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(b"")
    runs = open_path(tmp_path)
    assert isinstance(runs, ProfileSet)
    assert len(runs.read(processes)) == 5
    assert len(runs.failed) == 1
    _sound(str(runs), runs._repr_html_(), runs.notes.to_string(), *runs.failed.values())
    runs.info.to_parquet(tmp_path / "info.parquet")
    assert runs.info["path"].str.contains(r"odd\xff\xe9", regex=False).sum() == 5
    assert runs.table("kernels")["run"].nunique() == 4


def test_a_path_that_cannot_be_read_is_reported(odd: Path) -> None:
    with pytest.raises(NpuprofError, match=r"odd\\xff\\xe9 does not exist") as caught:
        npuprof.load(odd)
    _sound(caught.value)


@pytest.mark.slow
def test_a_recording_under_such_a_name(odd: Path, tmp_path: Path) -> None:
    with npuprof.profile(collector="simulator", output=odd, stacks=True) as profiling:
        sum(range(1000))
    run = profiling.result
    assert str(profiling.recording.directory).startswith(str(odd))
    _sound(str(run), run._repr_html_(), run.notes.to_string())
    json.dumps(run.info.to_dict()).encode()


@pytest.mark.slow
def test_the_command_line_prints_such_a_path(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd.mkdir()
    path = small_trace().write(odd / "trace_view.json")
    assert main(["open", str(path), "--html", str(odd / "page.html")]) == 0
    assert main(["open", str(odd / "absent")]) == 1
    printed = capsys.readouterr()
    _sound(printed.out, printed.err)
    assert r"odd\xff\xe9" in printed.out
    assert r"odd\xff\xe9" in printed.err


@pytest.mark.parametrize(
    ("text", "shown"), [("plain", "plain"), ("é中", "é中"), ("a\udcff", r"a\xff"), ("\ud800b", r"\ud800b"), ("", "")]
)
def test_unencodable_characters_are_numbers(text: str, shown: str) -> None:
    assert encodable(text) == shown


@pytest.mark.slow
def test_notes_hold_only_what_a_file_takes(tmp_path: Path) -> None:
    notes = npuprof.load(small_trace().write(tmp_path / "t.json"))._notes
    notes.warning("a\udcff", "b\ud800")
    notes.to_frame().to_parquet(tmp_path / "n.parquet")
    assert pd.read_parquet(tmp_path / "n.parquet")["source"].tolist()[-1] == r"a\xff"
