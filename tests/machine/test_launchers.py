"""What doctor says of the launchers of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from npuprof.machine import launchers


def _of(python: Path) -> str:
    """Return the first lines of a script as pip writes them, whose Python may lie in a folder with spaces."""
    return f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''" if " " in str(python) else f"#!{python}"


def _install(folder: Path, name: str, head: str) -> None:
    (folder / name).write_text(f"{head}\npass\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is PATH, and in which this Python seems to be."""
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    return tmp_path


def test_ranks_of_this_python_and_of_programs_are_profiled(folder: Path) -> None:
    _install(folder, "torchrun", _of(folder / "python3"))
    _install(folder, "accelerate", _of(folder / "python3"))
    _install(folder, "mpirun", "\x7fELF")
    text = launchers.describe()
    assert "torchrun, accelerate: ranks are profiled (--processes)" in text
    assert "mpirun: starts what it is given" in text


def test_a_launcher_of_a_python_without_npuprof_is_named(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("an other") / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    _install(folder, "msrun", _of(other))
    assert f"its Python, {other}, has no npuprof: install it there" in launchers.describe()


def test_a_launcher_whose_python_is_gone_is_named(folder: Path) -> None:
    _install(folder, "torchrun", "#!/nowhere/python3")
    assert "its Python, /nowhere/python3, does not run" in launchers.describe()


def test_without_launchers_other_ways_are_named(folder: Path) -> None:
    assert "`multiprocessing`" in launchers.describe()
