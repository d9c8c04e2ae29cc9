"""The folder of a job: whatever its files hold, they are read within bounds, and what they tell is right."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.recordings import job_folder
from npuprof.recordings.job_folder import JobFile
from tests.budget import examples

_LINES = st.lists(
    st.fixed_dictionaries(
        {"pid": st.integers(1, 3), "what": st.sampled_from(["began", "recording", "stopping", "ended", "unprofiled"])},
        optional={"rank": st.one_of(st.none(), st.integers(0, 3)), "path": st.text(), "why": st.integers()},
    )
)


def _folder(root: Path, content: bytes) -> Path:
    (root / job_folder.LOG_NAME).write_bytes(content)
    return root


@settings(max_examples=examples(60))
@given(st.binary())
def test_any_bytes_are_read(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        folder = _folder(Path(root), content)
        (folder / job_folder.FILE_NAME).write_bytes(content)
        assert isinstance(job_folder.processes(folder), list)
        assert JobFile.read(folder) is None


@settings(max_examples=examples(60))
@given(_LINES)
def test_a_number_that_begins_again_after_a_recording_is_another_process(lines: list[dict[str, object]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        listed = job_folder.processes(_folder(Path(root), f"{text}{{broken\n[1]\n".encode()))
    expected, recorded = 0, dict[object, bool]()
    for line in lines:
        pid = line["pid"]
        if pid not in recorded or (line["what"] == "began" and recorded[pid]):
            expected, recorded[pid] = expected + 1, False
        recorded[pid] |= bool(line.get("path"))
    assert len(listed) == expected


def test_damaged_field_reads_as_default(tmp_path: Path) -> None:
    JobFile(name="train", options={"level": 1}, pid=3, started_ns=5, notebook="x", notebook_worked=True).write(tmp_path)
    file = JobFile.read(tmp_path)
    assert file is not None
    assert (file.name, file.options, file.pid, file.notebook_worked) == ("train", {"level": 1}, 3, True)
    path = tmp_path / job_folder.FILE_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "pid": "three"}))
    damaged = JobFile.read(tmp_path)
    assert damaged is not None
    assert (damaged.name, damaged.pid) == ("train", 0)


def test_a_line_is_appended_to_the_log_alone(tmp_path: Path) -> None:
    job_folder.append(tmp_path, "began")  # no log: nothing is made
    assert not list(tmp_path.iterdir())
    (tmp_path / "elsewhere").touch()
    (tmp_path / job_folder.LOG_NAME).symlink_to(tmp_path / "elsewhere")
    job_folder.append(tmp_path, "began")  # a link: nothing is written where it leads
    assert not (tmp_path / "elsewhere").read_bytes()
    (tmp_path / job_folder.LOG_NAME).unlink()
    job_folder.make(tmp_path)
    job_folder.append(tmp_path, "recording", rank=2, path="process_1")
    (process,) = job_folder.processes(tmp_path)
    assert (process.pid, process.rank, process.path, process.ended) == (os.getpid(), 2, "process_1", False)
    assert process.is_alive("")


def test_a_folder_is_private_if_only_its_user_can_read_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert job_folder.is_private(tmp_path)
    tmp_path.chmod(0o750)
    assert not job_folder.is_private(tmp_path)
    tmp_path.chmod(0o700)
    (tmp_path / "link").symlink_to(tmp_path)
    assert not job_folder.is_private(tmp_path / "link")
    assert not job_folder.is_private(tmp_path / "absent")
