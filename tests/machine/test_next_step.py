"""The next step that the doctor names, on machines with and without each thing."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path

import pytest

from npuprof.machine import doctor
from npuprof.machine.doctor import Diagnosis, State, next_step
from npuprof.words.commands import own_command, shell_word

_PYTHON = shell_word(sys.executable)
_CLOSED = "davinci0, davinci1 are closed to this user: join the driver's group"


def _of(hardware: State = "ok", *others: Diagnosis, **front_ends: State) -> list[Diagnosis]:
    return [
        Diagnosis("hardware", hardware, ""),
        *(Diagnosis(f"front end {name}", state, "") for name, state in front_ends.items()),
        *others,
    ]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The versions of installed packages."""
    versions = {"ipykernel": "6", "jupyterlab": "4"}
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, ""))
    return versions


def test_without_an_npu_it_is_the_demo() -> None:
    assert next_step(_of("absent")).command == own_command("demo")


def test_without_a_notebook_it_is_to_install_one(installed: dict[str, str]) -> None:
    del installed["jupyterlab"]
    step = next_step(_of("absent"))
    assert step.what == "to see reports in a notebook, install jupyterlab"
    assert step.command == f"{_PYTHON} -m pip install 'npuprof[lab]'"


def test_torch_without_its_adapter_gets_the_adapter_of_its_version(installed: dict[str, str]) -> None:
    installed["torch"] = "2.6.0+cpu"
    assert next_step(_of(torch_npu="absent")).command == f"{_PYTHON} -m pip install 'torch-npu==2.6.0.*'"


def test_an_npu_that_nothing_reaches_needs_cann() -> None:
    assert next_step(_of(acl="absent")).command.startswith("source /usr/local/Ascend/")


def test_a_machine_that_has_everything_is_verified() -> None:
    assert next_step(_of(acl="ok")).command == own_command("doctor", "--verify")
    output = Path("my recordings")
    assert next_step(_of(acl="ok"), output).command == own_command("doctor", "--verify", "--output", output)


@pytest.mark.parametrize(
    ("subject", "detail", "command"),
    [
        ("hardware", _CLOSED, 'sudo usermod -aG "$(stat -c %G /dev/davinci0)" "$USER"'),
        ("hardware", "devices davinci0; no driver; CANN 8: install the driver", "npu-smi info"),
        ("hardware", "devices davinci0; driver 24; no CANN toolkit: install the CANN toolkit", "source "),
        ("environment", "PROFILING_MODE=dynamic reserves the native profiler", "unset PROFILING_MODE"),
        ("recordings", "/ro cannot be written to", own_command("doctor", "--output")),
        ("free disk", "0.1 GB are left", own_command("doctor", "--output")),
        ("front end msprof", "msprof does not run", "msprof --help"),
        ("front end acl", "devices 0: no NPU is seen", "npu-smi info"),
        ("front end torch_npu", "it cannot be used (ImportError)", f"{_PYTHON} -c 'import torch, torch_npu'"),
    ],
    ids=str,
)
def test_problem_comes_first_with_its_command(subject: str, detail: str, command: str) -> None:
    step = next_step([Diagnosis(subject, "problem", detail), *_of("absent")])
    assert detail in step.what
    assert step.command.startswith(command)


@pytest.mark.parametrize("closed", [(), ("home",), ("home", "temporary")])
def test_recordings_go_to_the_first_directory_that_can_be_written_to(
    closed: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def directory(output: Path) -> Diagnosis:
        return Diagnosis("recordings", "problem" if output.parent.name in closed else "ok", "")

    monkeypatch.setattr(doctor, "_directory", directory)
    monkeypatch.setattr(doctor, "_disk", lambda output: Diagnosis("free disk", "ok", ""))
    command = next_step([Diagnosis("recordings", "problem", "/ro cannot be written to")]).command
    chosen = Path(shlex.split(command)[-1])
    assert chosen.parent == [tmp_path / "home", tmp_path / "temporary", Path("/var/tmp")][len(closed)]
