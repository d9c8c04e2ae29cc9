"""A recording whose files were lost, cut or replaced after the run says so: nothing is missing in silence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from npuprof.errors import SourceError
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import FILE_NAME, Recording
from npuprof.session.session import Session
from npuprof.simulator import Tensor
from npuprof.sources.recording.files import note_changes
from npuprof.tables.notes import Notes
from tests.fakes import FakeCollector

_STREAMS = (
    *("aging.api_event.data", "aging.compact.task_track", "aging.compact.node_basic_info", "stars_soc.data.0"),
    *("unaging.additional.hash_dic", "lpmFreqConv.data.0"),
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    simulator.reset()
    options = {"collector": "simulator", "activities": "npu", "output": tmp_path_factory.mktemp("whole")}
    with Session(Options.from_dict(options)) as session:
        device = simulator.current().device(0)
        for _ in range(40):
            device.launch("Add", inputs=[Tensor((1024,), "float16")], outputs=[Tensor((1024,), "float16")])
    yield session.recording.directory
    simulator.reset()


@pytest.fixture
def copied(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "copy"))


def _slice(recording: Path, stream: str) -> Path:
    (found,) = recording.glob(f"PROF_*/*/data/{stream}.slice_0")
    return found


def _warnings(run: Profile) -> list[str]:
    return run.notes.loc[run.notes["severity"] == "warning", "message"].tolist()


def _rows(run: Profile) -> dict[str, int]:
    return {name: len(getattr(run, name)) for name in ("api", "tasks", "kernels", "counters", "links", "overlap")}


def _truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _cut_a_byte(path: Path) -> None:
    _truncate(path, path.stat().st_size - 1)


def _halve(path: Path) -> None:
    _truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    _truncate(path, 0)


def _delete(path: Path) -> None:
    path.unlink()


def _delete_with_its_mark(path: Path) -> None:
    path.unlink()
    path.with_name(f"{path.name}.done").unlink()


def _grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 8)


def _link(path: Path) -> None:
    other = path.rename(path.parents[3] / "elsewhere")
    path.symlink_to(other)


@pytest.mark.long
@pytest.mark.parametrize("stream", _STREAMS)
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_delete, "missing, with {whole} bytes"),
        (_delete_with_its_mark, "missing, with {both} bytes"),
        (_cut_a_byte, "shorter than they were recorded, by 1 byte"),
        (_halve, "shorter than they were recorded, by {half} bytes"),
        (_empty, "shorter than they were recorded, by {whole} bytes"),
        (_grow, "longer than they were recorded, by 8 bytes"),
        (_link, "links now instead of the {whole} bytes that were recorded"),
    ],
)
def test_altered_slice_is_named(copied: Path, stream: str, damage: Callable[[Path], None], told: str) -> None:
    file = _slice(copied, stream)
    whole = file.stat().st_size
    both = whole + file.with_name(f"{file.name}.done").stat().st_size
    damage(file)
    told = told.format(whole=f"{whole:,}", half=f"{whole - whole // 2:,}", both=f"{both:,}")
    (message,) = [message for message in _warnings(npuprof.load(copied)) if "recorded" in message or "copy" in message]
    assert message.startswith(f"files are {told} ({file.relative_to(copied)}")


@pytest.mark.slow
@pytest.mark.parametrize("stream", _STREAMS)
def test_a_slice_that_is_there_twice_adds_nothing(recorded: Path, copied: Path, stream: str) -> None:
    file = _slice(copied, stream)
    shutil.copy(file, file.with_name(f"{stream}.slice_1"))
    whole, run = npuprof.load(recorded), npuprof.load(copied)
    assert _rows(run) == _rows(whole)
    assert any("twice" in message or "mark" in message for message in _warnings(run))


@pytest.mark.slow
def test_a_recording_that_was_copied_elsewhere_is_as_it_was(recorded: Path, copied: Path) -> None:
    whole, run = npuprof.load(recorded), npuprof.load(copied)
    assert not _warnings(whole)
    assert not _warnings(run)
    assert run.kernels.equals(whole.kernels)


@pytest.mark.slow
def test_what_is_added_later_changes_nothing(copied: Path) -> None:
    npuprof.load(copied).save(copied / "npuprof_tables")
    (prof,) = copied.glob("PROF_*")
    for name in (
        "host/sqlite/api.db",
        "mindstudio_profiler_output/op_summary.csv",
        "host/data/all_file.complete",
    ):
        (prof / name).parent.mkdir(exist_ok=True)
        (prof / name).write_text("x")
    (copied / "profiler_metadata.json").write_text("{}")
    assert not _warnings(npuprof.load(copied))


def test_recording_without_files_says_so(copied: Path) -> None:
    count = len(Recording.read(copied).files)
    (prof,) = copied.glob("PROF_*")
    shutil.rmtree(prof)
    with pytest.raises(SourceError, match=f"none of the {count} files that were recorded can be read"):
        npuprof.load(copied)


@pytest.mark.slow
def test_a_directory_that_a_link_replaces_is_reported(copied: Path, tmp_path: Path) -> None:
    (prof,) = copied.glob("PROF_*")
    data = prof / "device_0" / "data"
    count = sum(name.startswith(f"{prof.name}/device_0/data/") for name in Recording.read(copied).files)
    data.symlink_to(data.rename(tmp_path / "moved"))
    run = npuprof.load(copied)
    assert run.notes.loc[run.notes["message"].str.contains("links now"), "count"].tolist() == [count]


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../other", "a\0b"])
def test_outside_path_is_not_followed(tmp_path: Path, name: str) -> None:
    notes = Notes()
    (tmp_path / "other").write_text("x")
    (tmp_path / "run").mkdir()
    note_changes(tmp_path / "run", {name: 1}, notes)
    assert notes.to_frame()["message"].tolist() == [
        "a path in the list of its files is none of the recording's; left out"
    ]


def test_many_changed_files_are_one_note(tmp_path: Path) -> None:
    notes = Notes()
    note_changes(tmp_path, {f"host/data/{number}-CpuUsage.data.slice_0": 10 for number in range(2000)}, notes)
    ((severity, _, message, count, *_),) = notes.to_frame().to_numpy().tolist()
    assert (severity, count) == ("warning", 2000)
    assert "missing, with 20,000 bytes" in message
    assert "and 1995 more" in message
    assert len(message) < 400


class _Writing(FakeCollector):
    """A front end that leaves files, and whose stop fails where it is told to."""

    def start(self, options: Options, directory: Path) -> None:
        super().start(options, directory)
        (directory / "PROF_1" / "sqlite").mkdir(parents=True)
        for name in ("info.json", "sqlite/api.db", "all_file.complete"):
            (directory / "PROF_1" / name).write_text("1234")
        (directory / "PROF_1" / "link").symlink_to("info.json")


def _record(output: Path, collector: FakeCollector) -> Recording:
    session = Session(Options(output=output, activities=("npu",)), collector=collector).start()
    session.add_metadata("model", "tiny")
    session.stop()
    return Recording.read(session.recording.directory)


def test_collector_files_are_listed_after_its_end(tmp_path: Path) -> None:
    assert _record(tmp_path, _Writing()).files == {"PROF_1/info.json": 4}


def test_nothing_is_listed_as_long_as_a_collector_may_still_write(tmp_path: Path) -> None:
    recording = _record(tmp_path, _Writing(fail={"stop": OSError("no")}))
    assert not recording.files
    assert recording.stopped_ns


def test_files_that_cannot_be_listed_are_reported_and_the_recording_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("npuprof.recordings.recording._MAX_FILES", 0)
    recording = _record(tmp_path, _Writing())
    assert recording.stopped_ns
    assert recording.metadata == {"model": "tiny"}
    assert ["not all files" in problem for problem in recording.problems] == [True]


def test_a_recording_of_an_earlier_npuprof_has_no_list(copied: Path) -> None:
    plain = json.loads((copied / FILE_NAME).read_text())
    del plain["files"]
    (copied / FILE_NAME).write_text(json.dumps(plain))
    _slice(copied, "lpmFreqConv.data.0").unlink()
    assert not any("recorded" in message for message in _warnings(npuprof.load(copied)))
