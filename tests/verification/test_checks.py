"""Each check holds for a run that is right, and fails for one that is wrong in its way."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import Recording
from npuprof.session.session import Session
from npuprof.verification import workloads
from npuprof.verification.checks import Check, examine
from npuprof.verification.child import verify_one
from npuprof.verification.workloads import SIMULATED, Workload


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Recording]:
    work = SIMULATED.prepare()
    output = tmp_path_factory.mktemp("verified")
    with Session(workloads.options_for("simulator", str(output))) as session:
        work()
    return session.result, session.recording


def failed(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if not check.passed}


@pytest.mark.slow
def test_a_run_that_is_right_passes_every_check(run: tuple[Profile, Recording]) -> None:
    checks = examine(*run, SIMULATED)
    assert failed(checks) == set()
    assert {"kernels of MatMul", "kernels of Add", "clock", "launches"} <= {check.name for check in checks}


def _loaded(recording: Recording) -> Profile:
    return npuprof.load(recording.directory)


def _moved(profile: Profile, recording: Recording) -> None:
    profile.kernels["start_ns"] += 10**12


def _crossed(profile: Profile, recording: Recording) -> None:
    profile.kernels.loc[0, "duration_ns"] = 10**9


def _negative(profile: Profile, recording: Recording) -> None:
    profile.kernels.loc[3, "duration_ns"] = -1


def _unlinked(profile: Profile, recording: Recording) -> None:
    profile.api["connection_id"] += 10**6


def _troubled(profile: Profile, recording: Recording) -> None:
    recording.problems.append("acl.prof.stop returned 500005")


def _noted(profile: Profile, recording: Recording) -> None:
    profile._notes.error("a file", "is missing")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (_moved, "clock"),
        (_crossed, "order on streams"),
        (_negative, "durations"),
        (_unlinked, "launches"),
        (_troubled, "collected"),
        (_noted, "decoded"),
    ],
)
def test_wrong_run_fails_its_check(run: tuple[Profile, Recording], spoil: Any, check: str) -> None:
    recording = Recording.read(run[1].directory)
    profile = _loaded(recording)
    spoil(profile, recording)
    assert check in failed(examine(profile, recording, SIMULATED))


@pytest.mark.slow
def test_kernels_that_are_missing_are_counted(run: tuple[Profile, Recording]) -> None:
    more = Workload("more", SIMULATED.prepare, kernels={"MatMul": 6}, tasks={"MEMCPY": 1}, operators={"aten::mm": 1})
    checks = {check.name: check for check in examine(*run, more)}
    assert checks["kernels of MatMul"].detail == "5 found, 6 were launched"
    assert {"kernels of MatMul", "tasks of MEMCPY", "operators of aten::mm"} <= failed([*checks.values()])


def test_whatever_goes_wrong_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise NpuprofError("the driver is gone")

    monkeypatch.setitem(workloads._BY_COLLECTOR, "simulator", Workload("broken", broken))
    answer = verify_one("simulator", tmp_path)
    assert answer["checks"] == [{"name": "run", "passed": False, "detail": "NpuprofError: the driver is gone"}]
    assert "Traceback" in answer["traceback"]


@pytest.mark.parametrize(
    ("collector", "installed", "name"),
    [
        ("simulator", "", "the simulated NPU"),
        ("kineto", "", "torch on the CPU"),
        ("torch_npu", "", "torch_npu"),
        ("acl", "", "pyACL copies"),
        ("acl", "torch_npu", "torch_npu"),
        ("msprof", "mindspore", "MindSpore"),
        ("mindspore", "Ascend", "MindSpore"),
        ("mindspore", "CPU", "MindSpore on the CPU"),
        ("tensorflow", "", "TensorFlow"),
    ],
)
def test_the_workload_fits_the_front_end_and_the_machine(
    monkeypatch: pytest.MonkeyPatch, collector: str, installed: str, name: str
) -> None:
    mindspore: Any = ModuleType("mindspore")
    mindspore.get_context = lambda key: installed
    monkeypatch.setitem(sys.modules, "mindspore", mindspore)
    monkeypatch.setattr("importlib.util.find_spec", lambda module: module if module == installed else None)
    assert workloads.choose(collector).name == name
    assert workloads.options_for(collector, "out").collector == collector


@pytest.mark.slow
def test_the_copies_of_pyacl_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from npuprof.simulator import acl

    monkeypatch.setitem(sys.modules, "acl", acl)
    work = workloads.COPIES.prepare()
    with Session(workloads.options_for("simulator", str(tmp_path))) as session:
        work()
    acl.finalize()
    checks = examine(session.result, session.recording, workloads.COPIES)
    assert failed(checks) == set()
    assert "tasks of MEMCPY" in {check.name for check in checks}
