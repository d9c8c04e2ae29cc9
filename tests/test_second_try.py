"""What passes only at the second try is named as flaky, and hides nothing that fails again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import pace

_AGAIN = Path(__file__).parents[1] / ".ci" / "again"
_TESTS = """
from pathlib import Path

def test_sound():
    pass

def test_wavering():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first

def test_broken():
    assert {sound}
"""


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=pace.seconds(60), check=False)


@pytest.mark.long
@pytest.mark.parametrize("sound", [True, False])
def test_flaky_test_is_named(tmp_path: Path, sound: bool) -> None:
    (tmp_path / "test_it.py").write_text(_TESTS.format(sound=sound))
    assert _run(tmp_path, sys.executable, "-m", "pytest", "-q").returncode == 1
    again = _run(tmp_path, str(_AGAIN), sys.executable)
    named = [line for line in again.stdout.splitlines() if line.startswith("flaky")]
    assert named == ["flaky: test_it.py::test_wavering"], again.stdout
    assert (again.returncode == 0) == sound
