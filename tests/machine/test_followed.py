"""The commands that the doctor names are run on a machine of stubs: what it said goes away, or is shown."""

from __future__ import annotations

import ast
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from npuprof import cli
from npuprof.machine import cann, doctor
from npuprof.machine.doctor import NextStep, diagnose, next_step
from npuprof.words.commands import own_command

_FOLLOWED = {
    "_remedy(finding)": "test_a_problem_goes_away_with_the_command_for_it",
    "_install('npuprof[lab]')": "test_what_is_to_be_installed_is_installed",
    "_install(wanted)": "test_what_is_to_be_installed_is_installed",
    "own_command('demo')": "test_a_machine_without_an_npu_has_the_demo",
    "f'source {_SET_ENV}'": "test_a_shell_that_knows_of_cann_reaches_the_npu",
    "own_command('doctor', '--verify', *(() if output is None else ('--output', output)))": "tests of the verification",
    'f\'sudo usermod -aG "$(stat -c %G {node})" "$USER"\'': "test_a_problem_goes_away_with_the_command_for_it",
    "'npu-smi info' if 'the driver' in finding.detail else f'source {_SET_ENV}'": (
        "test_a_problem_goes_away_with_the_command_for_it"
    ),
    "'unset PROFILING_MODE'": "test_a_problem_goes_away_with_the_command_for_it",
    "shell_command('mv', file, file.with_name(f'my_{file.name}'))": "test_a_file_that_hides_a_module_is_renamed",
    "own_command('doctor', '--output', _other_directory())": "test_recordings_go_where_the_command_says",
    "'msprof --help'": "test_a_command_that_shows_a_problem_shows_all_of_it",
    "'npu-smi info'": "test_a_command_that_shows_a_problem_shows_all_of_it",
    "shell_command(sys.executable, '-c', 'import '...": "test_a_command_that_shows_a_problem_shows_all_of_it",
}
"""What makes each command, and the test that runs it."""


def test_each_command_of_the_doctor_is_run() -> None:
    tree = ast.parse(Path(str(doctor.__file__)).read_text("utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    returned = [node.value for node in ast.walk(functions["_remedy"]) if isinstance(node, ast.Return) and node.value]
    steps = [node for node in ast.walk(functions["next_step"]) if isinstance(node, ast.Call)]
    named = [node.args[1] for node in steps if isinstance(node.func, ast.Name) and node.func.id == "NextStep"]
    made = {ast.unparse(node) for node in (*returned, *named)}
    assert {_without_modules(code) for code in made} == set(_FOLLOWED)
    assert {name for name in _FOLLOWED.values() if name.startswith("test_")} <= set(globals())


def _without_modules(code: str) -> str:
    """Return what makes a command without a nested text, which versions of Python spell differently."""
    begin, found, _ = code.partition('f"import ' if 'f"import ' in code else "f'import ")
    return f"{begin}'import '..." if found else code


def test_a_file_that_hides_a_module_is_renamed(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "csv.py").touch()
    step = machine.step()
    assert "csv.py" in step.what
    machine.follow(step.command, monkeypatch)
    assert [file.name for file in folder.iterdir()] == ["my_csv.py"]
    assert "csv.py" not in machine.step().what


@dataclass
class Machine:
    """A machine with a device, its driver and CANN, whose commands are stubs.

    Attributes
    ----------
    root
        Its files: ``bin``, ``dev`` and ``cann``.
    versions
        Its packages.
    """

    root: Path
    versions: dict[str, str]

    def stub(self, name: str, script: str) -> Path:
        """Write a command."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return path

    def step(self) -> NextStep:
        """Return what the doctor says is next."""
        return next_step(diagnose(self.root / "recordings"))

    def follow(self, command: str, monkeypatch: pytest.MonkeyPatch) -> str:
        """Run a command in the user's shell, which keeps what it exports; return what it prints."""
        done = subprocess.run(
            ["bash", "-c", f"{command} 2>&1; printf '\\0'; env -0"], capture_output=True, text=True, check=False
        )
        printed, *variables = done.stdout.split("\0")
        now = dict(line.split("=", 1) for line in variables if "=" in line)
        for name in os.environ.keys() - now.keys():
            monkeypatch.delenv(name)
        for name, value in now.items():
            if name not in ("_", "SHLVL", "PWD", "OLDPWD"):
                monkeypatch.setenv(name, value)
        return printed


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine where all is well."""
    for name in ("bin", "dev", "cann", "recordings"):
        (tmp_path / name).mkdir()
    (tmp_path / "cann" / "version.cfg").write_text("Version=8.3")
    (tmp_path / "dev" / "davinci0").write_text("")
    (tmp_path / "dev" / "davinci0").chmod(0o666)
    (tmp_path / "set_env.sh").write_text(f"export ASCEND_HOME_PATH='{tmp_path / 'cann'}'\n")
    here = Machine(tmp_path, {"ipykernel": "6", "jupyterlab": "4"})
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    monkeypatch.delenv("PROFILING_MODE", raising=False)
    monkeypatch.setattr(doctor, "_DEVICES", tmp_path / "dev")
    monkeypatch.setattr(doctor, "_SET_ENV", shlex.quote(str(tmp_path / "set_env.sh")))
    monkeypatch.setattr(doctor, "_version", lambda name: here.versions.get(name, ""))
    monkeypatch.setattr(doctor, "_is_there", lambda module: module == "acl")
    monkeypatch.setattr(cann, "_USUAL_HOME", tmp_path / "nowhere")
    monkeypatch.setattr(cann, "driver_version", lambda: "24.1")
    monkeypatch.setattr(
        doctor, "run_probe", lambda _: ({"devices": 1}, "") if os.environ.get("ASCEND_HOME_PATH") else ({}, "no libs")
    )
    monkeypatch.setattr(os, "access", _may)
    here.stub("npu-smi", "echo the devices")
    assert here.step().command.startswith(own_command("doctor", "--verify"))
    return here


def _may(path: str | Path, mode: int) -> bool:
    """Return whether others than the owner may use a path: a test may be root."""
    try:
        found = Path(path).stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(found) or bool(found & (mode << 6))


def _closed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    node = machine.root / "dev" / "davinci0"
    node.chmod(0o600)
    machine.stub("stat", 'echo "group of $3"')
    machine.stub("sudo", f'[ "$*" = "usermod -aG group of /dev/davinci0 me" ] && chmod 666 {shlex.quote(str(node))}')
    monkeypatch.setenv("USER", "me")
    monkeypatch.setattr(os, "access", lambda path, mode: _may(path, mode) and (path != node or _open_to_others(node)))


def _open_to_others(node: Path) -> bool:
    return bool(node.stat().st_mode & 0o006)


def _without_cann(_: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH")


def _reserved(_: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILING_MODE", "dynamic")


@pytest.mark.slow
@pytest.mark.parametrize("break_it", [_closed, _without_cann, _reserved])
def test_a_problem_goes_away_with_the_command_for_it(
    break_it: Callable[[Machine, pytest.MonkeyPatch], None], machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(machine, monkeypatch)
    step = machine.step()
    assert step.what.startswith("mend the ")
    machine.follow(step.command, monkeypatch)
    assert machine.step().command.startswith(own_command("doctor", "--verify"))


@pytest.mark.slow
def test_a_shell_that_knows_of_cann_reaches_the_npu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_is_there", lambda _: "KNOWN" in os.environ)  # pyACL is in CANN's own folder
    (machine.root / "set_env.sh").write_text("export KNOWN=1\n")
    step = machine.step()
    assert step.what == "no front end reaches the NPU: let this shell know of CANN"
    machine.follow(step.command, monkeypatch)
    assert machine.step().command.startswith(own_command("doctor", "--verify"))


@pytest.mark.slow
@pytest.mark.parametrize("package", ["jupyterlab", "ipykernel", "torch_npu"])
def test_what_is_to_be_installed_is_installed(
    package: str, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    python = machine.stub("my python", f'[ "$1 $2 $3" = "-m pip install" ] && echo "$4" > {shlex.quote(str(asked))}')
    monkeypatch.setattr(sys, "executable", str(python))
    machine.versions.pop(package, None)
    if package == "torch_npu":
        machine.versions["torch"] = "2.6.0+cpu"
        monkeypatch.setattr(doctor, "_is_there", lambda module: module in {"torch", *machine.versions})
    before = machine.step()
    machine.follow(before.command, monkeypatch)
    assert asked.read_text() == ("torch-npu==2.6.0.*\n" if package == "torch_npu" else "npuprof[lab]\n")
    machine.versions[package] = "2.6.0" if package == "torch_npu" else "4"
    assert machine.step().command.startswith(own_command("doctor", "--verify")) or machine.step() != before


@pytest.mark.slow
def test_a_machine_without_an_npu_has_the_demo(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    (machine.root / "dev" / "davinci0").unlink()
    assert machine.step().command == own_command("demo")
    with pytest.raises(SystemExit) as left:
        cli.main(["demo", "--help"])
    assert left.value.code == 0
    assert "demo" in capsys.readouterr().out


@pytest.mark.slow
def test_recordings_go_where_the_command_says(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "a file"
    file.write_text("")
    step = next_step(diagnose(file / "recordings"))
    assert "cannot be written to" in step.what
    words = shlex.split(step.command)
    cli.main(words[words.index("doctor") :])
    printed = capsys.readouterr().out
    assert "cannot be written to" not in printed
    assert words[-1] in printed


@pytest.mark.slow
@pytest.mark.parametrize("front_end", ["acl", "torch_npu", "msprof"])
def test_a_command_that_shows_a_problem_shows_all_of_it(
    front_end: str, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if front_end == "acl":
        monkeypatch.setattr(doctor, "run_probe", lambda _: ({"devices": 0}, ""))
        shown = "the devices"
    elif front_end == "msprof":
        machine.stub("msprof", "echo no libascend.so; exit 3")
        shown = "no libascend.so"
    else:
        monkeypatch.setattr(doctor, "_is_there", lambda module: module in ("torch", "torch_npu"))
        monkeypatch.setattr(doctor, "run_probe", lambda _: ({}, "ImportError"))
        for module in ("torch", "torch_npu"):
            (tmp_path / f"{module}.py").write_text("" if module == "torch" else "raise ImportError('no libhccl.so')")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        shown = "no libhccl.so"
    step = machine.step()
    assert front_end in step.what
    assert shown in machine.follow(step.command, monkeypatch)
