"""`%npuprof run` in a real kernel: a script under msprof, its report, and what is wrong told in one message."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import npuprof
from tests.collectors import msprof_double as double
from tests.notebook.cells import output
from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a script, for a kernel that has the stand-in for msprof on its PATH."""
    from npuprof.simulator import npu

    folder = tmp_path_factory.mktemp("run")
    with npuprof.profile(collector="simulator", activities="npu", output=folder / "raw"):
        npu.ones((8, 8))
    (raw,) = (folder / "raw").glob("*/PROF_*")
    double.install(folder)
    (folder / "train.py").write_text("import sys\nprint('trained', *sys.argv[1:])\nsys.exit(len(sys.argv) - 3)\n")
    kernel.run(f"import os; os.environ['PATH'] = {double.put_on_path(folder)!r}")
    kernel.run(f"os.environ['FAKE_MSPROF'] = {json.dumps({'data': str(raw)})!r}")
    return folder


def test_a_script_runs_with_its_arguments_and_its_report_is_shown(kernel: Kernel, place: Path) -> None:
    executed = kernel.run(
        f"%npuprof run --level 0 {output(place / 'out')} {shlex.quote(str(place / 'train.py'))} --level 5"
    )
    assert executed.status == "ok", executed.traceback()
    assert "trained --level 5" in executed.stream()
    assert executed.has_report


def test_a_script_that_fails_is_an_error_after_its_report(kernel: Kernel, place: Path) -> None:
    executed = kernel.run(f"%npuprof run {output(place / 'out')} {shlex.quote(str(place / 'train.py'))} a b c")
    assert executed.has_report
    assert executed.reply["ename"] == "SessionError"
    assert "status 1" in executed.reply["evalue"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("run", "there is no program to run"),
        ("run missing.py", "missing.py is not a file"),
        ("run --colour red x.py", "unknown argument --colour"),
        ("run --level 7 x.py", "level must be one of"),
        ("run --timeout 0 x.py", "--timeout must be more than 0"),
        ("run 'open", "No closing quotation"),
        ("--level 1 run x.py", "come after `run`"),
    ],
)
def test_what_is_wrong_is_a_usage_error(kernel: Kernel, place: Path, line: str, told: str) -> None:
    executed = kernel.run(f"%npuprof {line}")
    assert executed.reply["ename"] == "UsageError"
    assert told in executed.reply["evalue"] + executed.stream("stderr")


@pytest.mark.long
def test_help_is_shown_on_request(kernel: Kernel) -> None:
    executed = kernel.run("%npuprof run --help")
    assert executed.status == "ok", executed.traceback()
    assert executed.stream().startswith("npuprof run [--timeout SECONDS]")
