"""The wheel: small, complete, and working in an empty environment with the lowest and the newest dependencies.

Building and installing takes minutes and the package index, so only where NPUPROF_HEAVY is set.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import pace

_ROOT = Path(__file__).parents[1]
_MOST_BYTES = 2_000_000
_EXTRAS = "lab,xlsx,sql,perfetto,cluster"  # what a user installs
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
_SMOKE = """
import npuprof, tempfile
from npuprof import simulator
run = npuprof.load(simulator.synthesise(tempfile.mkdtemp(), launches=500))
assert len(run.kernels) == 500, len(run.kernels)
assert run.info.simulated
assert run.timeline().data
assert run.sql("select count(*) as kernels from kernels").kernels[0] == 500
for path in (run.to_xlsx("run.xlsx"), run.to_perfetto("run.pftrace"), run.save("run.parquet")):
    assert path.exists(), path
print(run.advice())
"""

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not os.environ.get("NPUPROF_HEAVY"), reason="wheels are built where NPUPROF_HEAVY is set"),
]


def _interpreters() -> Iterator[Path]:
    """Yield the supported versions of Python that this machine has, on its PATH or of pyenv."""
    pyenv = glob.escape(os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"))  # noqa: PTH111 - homeless users
    for version in SUPPORTED:
        # Unlike Path.glob, this finds nothing in a folder that is closed to the user.
        of_pyenv = glob.glob(f"{pyenv}/versions/{version}.*/bin/python")  # noqa: PTH207
        found = [path for path in (shutil.which(f"python{version}"), *of_pyenv) if path]
        yield from map(Path, found[-1:])


def _run(*command: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=folder, capture_output=True, text=True, timeout=pace.seconds(600), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, _ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_is_small_and_complete(wheel: Path) -> None:
    assert wheel.stat().st_size < _MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"npuprof/py.typed", "npuprof/_demo/quickstart.ipynb", "npuprof/browser/scripts/grid.js"} <= names
    sources = {path.relative_to(_ROOT).as_posix() for path in (_ROOT / "npuprof").rglob("*.py")}
    assert sources <= names
    assert not [name for name in names if name.endswith((".md", ".pyc")) or name.startswith("tests/")]


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_dependency_resolves_to_a_wheel(wheel: Path, tmp_path: Path, version: str) -> None:
    """Also for versions of Python that this machine does not have."""
    resolved = _run(
        *(sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--target", tmp_path),
        *("--only-binary", ":all:", "--python-version", version, "--implementation", "cp"),
        *(word for tag in ("2_28", "2_17") for word in ("--platform", f"manylinux_{tag}_x86_64")),
        f"{wheel}[{_EXTRAS}]",
    )
    assert "Would install" in resolved
    assert f"npuprof-{wheel.name.split('-')[1]}" in resolved


def _lowest(python: Path, written: Path) -> Path:
    """Write the lowest versions that pyproject.toml allows and that have a wheel for that Python."""
    _run(
        *(sys.executable, "-m", "uv", "pip", "compile", "-q", _ROOT / "pyproject.toml", "-o", written),
        *("--resolution", "lowest-direct", "--only-binary", ":all:", "--python", python),
        *(word for extra in _EXTRAS.split(",") for word in ("--extra", extra)),
    )
    assert "ipython==8." in written.read_text(encoding="utf-8")  # the newest is 9
    return written


@pytest.mark.parametrize("dependencies", ["newest", "lowest"])
@pytest.mark.parametrize("interpreter", list(_interpreters()), ids=str)
def test_it_works_in_an_empty_environment(wheel: Path, tmp_path: Path, interpreter: Path, dependencies: str) -> None:
    _run(interpreter, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    pins = ("-c", _lowest(python, tmp_path / "lowest.txt")) if dependencies == "lowest" else ()
    _run(python, "-m", "pip", "install", "-q", f"{wheel}[{_EXTRAS}]", *pins)
    _run(python, "-m", "pip", "check")
    here = tmp_path / "here"
    here.mkdir()
    assert "simulated NPU" in _run(python.with_name("npuprof"), "demo", folder=here)
    assert (here / "npuprof-demo" / "report.html").stat().st_size > 100_000
    assert "Next: " in _run(python.with_name("npuprof"), "doctor", folder=here)
    assert "a step" in _run(python, "-c", _SMOKE, folder=here)
