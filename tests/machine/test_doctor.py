"""What the doctor finds, on machines with and without each thing."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from npuprof.files import cache
from npuprof.machine.doctor import Diagnosis, diagnose
from npuprof.options import COLLECTORS


@pytest.fixture(autouse=True)
def _quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import no framework of this machine's."""
    monkeypatch.setattr("npuprof.machine.doctor.run_probe", lambda program: ({}, "not tried in this test"))


def _finding(subject: str, output: Path) -> Diagnosis:
    return next(finding for finding in diagnose(output) if finding.subject == subject)


def test_every_front_end_is_listed_and_the_simulated_one_is_ready(tmp_path: Path) -> None:
    states = {finding.subject: finding.state for finding in diagnose(tmp_path)}
    for name in COLLECTORS[1:]:
        assert f"front end {name}" in states
    assert states["front end simulator"] == "ok"


def test_missing_pyacl_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "acl", None)
    found = _finding("front end acl", tmp_path)
    assert found.state == "absent"
    assert "CANN toolkit" in found.detail


@pytest.mark.parametrize(
    ("nodes", "driver", "toolkit", "state", "told"),
    [
        ([], "", "", "absent", "no NPU; no driver; no CANN toolkit: runs are simulated"),
        (["davinci0", "davinci1", "davinci_manager"], "24.1", "8.0", "ok", "devices davinci0, davinci1; driver 24.1"),
        (["davinci0"], "24.1", "", "problem", "install the CANN toolkit"),
        (["davinci0"], "", "", "problem", "install the driver and the CANN toolkit"),
    ],
)
def test_the_hardware_is_known_by_devices_driver_and_cann(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    nodes: list[str],
    driver: str,
    toolkit: str,
    state: str,
    told: str,
) -> None:
    for node in nodes:
        (tmp_path / node).touch(0o600)
    monkeypatch.setattr("npuprof.machine.doctor._DEVICES", tmp_path)
    monkeypatch.setattr("npuprof.machine.cann.driver_version", lambda: driver)
    monkeypatch.setattr("npuprof.machine.cann.toolkit_version", lambda: toolkit)
    found = _finding("hardware", tmp_path)
    assert found.state == state
    assert told in found.detail


def test_a_reserved_profiler_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROFILING_MODE", "dynamic")
    assert _finding("environment", tmp_path).state == "problem"


def test_future_directory_is_judged_by_its_parent(tmp_path: Path) -> None:
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
    monkeypatch.setattr("npuprof.machine.doctor.shutil.disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    assert _finding("free disk", tmp_path).state == "problem"


def test_the_doctor_names_the_directory_of_cached_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.save("anything", pd.DataFrame({"a": [1]}), {})
    told = _finding("cache", tmp_path).detail
    assert f"{tmp_path}/npuprof holds" in told
    assert " 0 B" not in told
    assert f"rm -r {shlex.quote(str(tmp_path / 'npuprof'))}" in told


@pytest.mark.parametrize(
    ("name", "state"),
    [("calendar.py", "problem"), ("queue/__init__.py", "problem"), ("time.py", "ok"), ("calendar.txt", "ok")],
)
def test_names_files_that_hide_standard_modules(
    name: str, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.touch()
    found = _finding("modules", tmp_path)
    assert found.state == state
    assert (name.partition("/")[0] in found.detail) == (state == "problem")
