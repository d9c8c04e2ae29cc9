"""Recordings that earlier kernels left in a folder, and how they ended."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from npuprof.errors import SessionError
from npuprof.recordings.recording import Recording
from npuprof.session import mixins
from npuprof.session.folders import how_ended, recordings_in


def _recording(folder: Path, name: str, **facts: object) -> Recording:
    recording = Recording(folder / name, name, "simulator", simulated=True, started_ns=1, stopped_ns=2)
    for key, value in facts.items():
        setattr(recording, key, value)
    recording.directory.mkdir()
    recording.write()
    return recording


def test_newest_recordings_come_first(tmp_path: Path) -> None:
    for at, name in enumerate(("one", "two", "three")):
        _recording(tmp_path, name)
        os.utime(tmp_path / name / "recording.json", ns=(at, at))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "recording.json").write_text("{")
    assert [found.name for found in recordings_in(tmp_path)] == ["three", "two", "one"]
    assert [found.name for found in recordings_in(tmp_path, most=2)] == ["three"]  # the damaged one is the newest
    assert list(recordings_in(tmp_path / "absent")) == []


_CUT = "cut: what was written is recovered"
_HERE, _OWN = platform.node(), str(os.getpid())


@pytest.mark.parametrize(
    ("facts", "ended"),
    [
        ({}, "normally"),
        ({"failed": "ValueError: boom"}, "ValueError: boom"),
        ({"stopped_ns": 0}, _CUT),
        ({"stopped_ns": 0, "environment": {"pid": "x", "hostname": _HERE}}, _CUT),
        ({"stopped_ns": 0, "environment": {"pid": "9" * 30, "hostname": _HERE}}, _CUT),
        ({"stopped_ns": 0, "environment": {"pid": _OWN, "hostname": "another"}}, _CUT),
        ({"stopped_ns": 0, "environment": {"pid": _OWN, "hostname": _HERE}}, f"not yet: process {_OWN} runs"),
    ],
    ids=["normally", "failed", "cut", "no number", "no process", "another host", "not yet"],
)
def test_how_a_recording_ended(tmp_path: Path, facts: dict[str, object], ended: str) -> None:
    assert how_ended(_recording(tmp_path, "one", **facts)) == ended


def test_last_names_the_newest_recording_where_no_run_has_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixins, "newest", lambda: None)
    monkeypatch.setattr(mixins, "default_output", lambda: tmp_path)
    with pytest.raises(SessionError, match=r"profile a cell with %%npuprof first$"):
        mixins.last()
    _recording(tmp_path, "before", stopped_ns=0)
    opens = rf"npuprof.load\('{tmp_path / 'before'}'\) opens the newest recording on disk \(cut: what was written is"
    with pytest.raises(SessionError, match=opens):
        mixins.last()
