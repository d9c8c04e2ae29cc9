"""What a run of pytest selects, and what it prints when all is well and when it is not."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import lanes, pace, terminal

_ROOT = Path(__file__).parents[1]
_SETTINGS = """[pytest]
markers =
    browser
    long
    slow
"""
_QUICK = """
import pytest

@pytest.mark.parametrize("number", range(40))
def test_quick(number):
    pass

@pytest.mark.slow
def test_slow():
    pass
"""
_LONG = """
import pytest

@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_long(number):
    pass

def test_beside():
    pass
"""
_VIEW = """
import pytest

pytestmark = pytest.mark.browser

def test_view():
    pass
"""
_SKIPPED = """
import pytest

@pytest.mark.parametrize("number", range(30))
def test_absent(number):
    pytest.skip("no samples in /a/folder:\\n  set NPUPROF_SAMPLES")

@pytest.mark.skipif(True, reason="another reason")
def test_other():
    pass

@pytest.mark.parametrize("number", range(20))
def test_rare(number):
    pytest.skip(f"reason {number}")
"""
_SKIPPED_MODULE = """
import pytest

pytest.importorskip("a_module_that_nobody_has")
"""
_FAILING = """
import pytest

def test_wrong():
    found = 41
    assert found == 42, "the figure is wrong"

@pytest.fixture
def broken():
    raise RuntimeError("no machine")

def test_unprepared(broken):
    pass
"""


@pytest.fixture
def folder(pytester: pytest.Pytester) -> Iterator[Path]:
    """A folder of tests that uses the plugins of these tests."""
    profile = settings.get_current_profile_name()
    pytester.makeini(_SETTINGS)
    (pytester.path / "test_quick.py").write_text(_QUICK)
    (pytester.path / "rare").mkdir()
    (pytester.path / "rare" / "test_long.py").write_text(_LONG)
    (pytester.path / "rare" / "test_view.py").write_text(_VIEW)
    yield pytester.path
    settings.load_profile(profile)


def _run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-q", *arguments, plugins=[lanes, terminal])


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(_ROOT), "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": "1"}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "tests.lanes", "-p", "tests.terminal", *arguments]


@pytest.mark.parametrize(
    ("arguments", "passed", "left_out"),
    [
        ([], 42, 4),
        (["rare"], 1, 4),
        (["-k", "beside"], 1, 0),
        (["-m", "not slow"], 41, 0),
        (["--all"], 46, 0),
        (["-m", "long"], 4, 0),
        (["-m", "browser"], 1, 0),
        (["rare/test_view.py"], 1, 0),
        (["rare/test_long.py"], 4, 0),
        (["rare/test_long.py::test_long[1]"], 1, 0),
        (["test_quick.py", "rare"], 42, 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_long_tests_run_only_where_they_are_asked_for(
    folder: Path, pytester: pytest.Pytester, arguments: list[str], passed: int, left_out: int
) -> None:
    run = _run(pytester, *arguments)
    assert run.ret == 0
    assert run.parseoutcomes()["passed"] == passed
    told = re.findall(r"^(\d+) tests are marked 'long' and were left out", run.stdout.str(), re.MULTILINE)
    assert told == [str(left_out)] * bool(left_out)


def test_a_long_test_that_failed_is_run_again(folder: Path, pytester: pytest.Pytester) -> None:
    path = folder / "rare" / "test_long.py"
    path.write_text(_LONG.replace("pass", "assert number != 1", 1))
    assert _run(pytester, "--all").ret == 1
    assert _run(pytester, "--last-failed").parseoutcomes()["failed"] == 1


def test_order_is_random_by_seed(folder: Path, pytester: pytest.Pytester) -> None:
    def order(*arguments: str) -> list[str]:
        lines = _run(pytester, "--collect-only", *arguments).stdout.lines
        return [line for line in lines if "::" in line]

    plain, first, again, second = order(), order("--shuffle=1"), order("--shuffle=1"), order("--shuffle=2")
    assert plain != first != second != plain
    assert first == again
    assert sorted(plain) == sorted(first) == sorted(second)


def _assert_skips_are_told(lines: list[str]) -> None:
    skipped = [re.fullmatch(r"skipped +(\d+): (.*)", line) for line in lines if line.startswith("skipped")]
    told = [(int(match[1]), match[2]) for match in skipped if match]
    assert told[0] == (30, "no samples in /a/folder: set NPUPROF_SAMPLES")
    assert told[-1][1].startswith("for other reasons")
    assert sum(number for number, _ in told) == 52


def test_skipped_tests_and_progress_take_few_lines(folder: Path, pytester: pytest.Pytester) -> None:
    (folder / "test_skipped.py").write_text(_SKIPPED)
    (folder / "test_module.py").write_text(_SKIPPED_MODULE)
    lines = _run(pytester).outlines
    assert len(lines) <= 40
    _assert_skips_are_told(lines)
    progress = [line for line in lines if re.fullmatch(r" *\d+%, \d+ of 93 tests, \d:\d\d", line)]
    assert len(progress) == 8
    assert progress[-1].startswith("100%, 93 of 93")


@pytest.mark.long
def test_several_processes_tell_the_same(folder: Path) -> None:
    (folder / "test_skipped.py").write_text(_SKIPPED)
    (folder / "test_module.py").write_text(_SKIPPED_MODULE)
    (folder / "test_failing.py").write_text(_FAILING)
    command = _command("-n", "2")
    run = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 1
    _assert_skips_are_told(run.stdout.splitlines())
    assert "4 tests are marked 'long' and were left out: --all runs them too" in run.stdout.splitlines()
    assert "1 failed, 42 passed, 52 skipped, 1 error" in run.stdout.splitlines()[-1]
    before, _, after = run.stdout.partition("= ERRORS =")
    assert {"FAILED test_failing.py::test_wrong", "ERROR test_failing.py::test_unprepared"} <= set(before.splitlines())
    for part in ("found = 41", "the figure is wrong", "no machine", "short test summary info"):
        assert part in after
    assert re.search("^FAILED test_failing.py::test_wrong - AssertionError", after, re.MULTILINE)


@pytest.mark.slow
def test_progress_on_a_terminal_stays_in_its_line(folder: Path) -> None:
    (folder / "test_failing.py").write_text(_FAILING)
    ours, theirs = pty.openpty()
    with subprocess.Popen(_command(), cwd=folder, env=_environment(), stdout=theirs, stdin=subprocess.DEVNULL) as run:
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 4096):
                written += part
        except OSError:  # Linux says so where the other end was closed
            pass
        finally:
            os.close(ours)
        assert run.wait(pace.seconds(60)) == 1
    lines = written.decode().replace("\r\n", "\n").split("\n")
    drawn = [line for line in lines if "100%, 44 of 44 tests" in line]
    assert len(drawn) == 1
    assert drawn[0].startswith("\r")
    shown = [line.rpartition("\r")[2].rstrip() for line in lines]  # what was written last in each line
    assert "FAILED test_failing.py::test_wrong" in shown


def test_slow_tests_are_named(folder: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_FAST_TEST_S", 0.0)
    monkeypatch.setattr(lanes, "_USUAL_TEST_S", 0.0)
    lines = _run(pytester, "--all").outlines
    named = [line for line in lines if line.startswith("not marked")]
    assert len(named) == 10
    assert all(re.fullmatch(r"not marked (slow|long), and took \d\.\d s: \S+", line) for line in named)
    assert "32 more tests took too long for their marks" in lines
    assert not any("test_long[" in line for line in named)
