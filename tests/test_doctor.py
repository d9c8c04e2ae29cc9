"""What the doctor finds, on machines with and without each thing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from npuprof.doctor import Finding, diagnose


def _finding(subject: str, output: Path) -> Finding:
    return next(finding for finding in diagnose(output) if finding.subject == subject)


def test_without_pyacl_the_front_end_is_absent_and_the_way_to_get_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "acl", None)
    found = _finding("front end acl", tmp_path)
    assert found.state == "absent"
    assert "CANN toolkit" in found.detail


@pytest.mark.parametrize(("devices", "state"), [((8, 0), "ok"), ((0, 507000), "problem")])
def test_with_pyacl_the_devices_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, devices: tuple[int, int], state: str
) -> None:
    acl: Any = ModuleType("acl")
    acl.prof, acl.rt = SimpleNamespace(), SimpleNamespace(get_device_count=lambda: devices)
    monkeypatch.setitem(sys.modules, "acl", acl)
    assert _finding("front end acl", tmp_path).state == state


def test_a_reserved_profiler_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROFILING_MODE", "dynamic")
    assert _finding("environment", tmp_path).state == "problem"


def test_a_directory_to_come_is_judged_by_the_one_above_it(tmp_path: Path) -> None:
    assert _finding("recordings", tmp_path / "not" / "yet").state == "ok"
    assert not (tmp_path / "not").exists()


def test_a_file_is_no_directory_for_recordings(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(0o700)
    assert _finding("recordings", tmp_path / "file").state == "problem"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_a_directory_closed_to_the_user_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    assert _finding("recordings", tmp_path / "closed" / "in").state == "problem"


def test_little_disk_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("npuprof.doctor.shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    assert _finding("free disk", tmp_path).state == "problem"
