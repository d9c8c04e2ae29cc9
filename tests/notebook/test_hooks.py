"""Which end of a cell ends a run, in a shell without a kernel."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.compilerop import CachingCompiler
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from npuprof.errors import CollectorError
from npuprof.notebook.controller import Controller
from npuprof.notebook.magics import NpuprofMagics
from npuprof.options import Options
from npuprof.session.session import Session
from tests.fakes import FakeCollector


class Harness:
    """A shell with npuprof, a fake front end, and what became of its runs."""

    def __init__(self, shell: InteractiveShell, output: Path) -> None:
        self.shell = shell
        self.collector = FakeCollector()
        self.ended: list[str] = []
        self.titles: list[str] = []
        self._output = output
        self.controller = Controller(lambda session: self.ended.append(session.recording.failed), self._session)
        self.magics = NpuprofMagics(shell, self.controller)

    def _session(self, options: Options, title: str) -> Session:
        self.titles.append(title)
        quick = Options(activities=("npu",), output=self._output)
        return Session(quick, collector=self.collector, title=title)

    def run(self, cell: str, **how: Any) -> ExecutionResult:
        result: ExecutionResult = self.shell.run_cell(cell, **how)
        return result


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell(config=config)
    harness = Harness(shell, tmp_path)
    harness.magics.install()
    shell.user_ns["harness"] = harness
    yield harness
    harness.magics.uninstall()


@pytest.mark.parametrize("how", [{}, {"store_history": True}, {"silent": True}])
def test_a_cells_run_ends_with_the_cell(harness: Harness, how: dict[str, bool]) -> None:
    result = harness.run("%%npuprof\nduring = harness.controller.collecting\n40 + 2", **how)
    assert result.success
    assert result.result == (None if how.get("silent") else 42)
    assert harness.shell.user_ns["during"] is True
    assert harness.ended == [""]
    assert not harness.controller.collecting


@pytest.mark.slow
@pytest.mark.parametrize("how", [{}, {"silent": True}])
@pytest.mark.parametrize("inner", ["1", "", "  \n", "1 / 0", "%%time\n1", "import asyncio\nawait asyncio.sleep(0)"])
@pytest.mark.parametrize("inner_silent", [False, True])
def test_a_cell_within_it_does_not_end_it(
    harness: Harness, inner: str, inner_silent: bool, how: dict[str, bool]
) -> None:
    harness.run(
        f"%%npuprof\nharness.shell.run_cell({inner!r}, silent={inner_silent})\nduring = harness.controller.collecting",
        **how,
    )
    assert harness.shell.user_ns["during"] is True
    assert harness.ended == [""]


def test_the_run_of_an_inner_cell_ends_with_the_inner_cell(harness: Harness) -> None:
    harness.run("harness.shell.run_cell('%%npuprof\\n1')\nafter = harness.controller.collecting")
    assert harness.shell.user_ns["after"] is False
    assert harness.ended == [""]


@pytest.mark.slow
def test_a_run_by_hand_is_not_ended_by_cells(harness: Harness) -> None:
    harness.run("%npuprof start", store_history=True)
    harness.run("1 / 0", store_history=True)
    assert harness.ended == []
    harness.run("%npuprof stop", store_history=True)
    assert harness.ended == [""]
    assert harness.titles == ["%npuprof start in cell [1]"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:To exit")
def test_what_the_cell_raised_is_reported(harness: Harness) -> None:
    harness.run("%%npuprof\nraise KeyError('k')")
    harness.run("%%npuprof\nraise KeyboardInterrupt")
    harness.run("%%npuprof\nimport sys\nsys.exit(3)")
    assert harness.ended == ["KeyError: 'k'", "KeyboardInterrupt", "SystemExit: 3"]


@pytest.mark.slow
def test_a_runner_that_fails_ends_the_run(harness: Harness) -> None:
    """As when a terminal is interrupted between two steps of an `await`: IPython makes a new result."""

    def fail(coroutine: Any) -> None:
        coroutine.send(None)  # up to the first await
        harness.shell.user_ns["pending"] = coroutine
        raise KeyboardInterrupt

    harness.shell.loop_runner = fail
    result = harness.run("%%npuprof\nimport asyncio\nfor number in range(3):\n    await asyncio.sleep(0)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert harness.ended == ["KeyboardInterrupt"]
    # IPython goes on with the rest in a later cell that awaits something: what it calls must still be there.
    harness.run("y = 1")
    pending = harness.shell.user_ns["pending"]
    for _ in range(2):
        pending.send(None)
    with pytest.raises(StopIteration) as ended:
        pending.send(None)
    assert ended.value.value.error_in_exec is None
    assert harness.shell.user_ns["number"] == 2


@pytest.mark.parametrize("body", ["    x = 6\n    x * 7", "\tfor x in range(7):\n\t\tpass\n\t42", "\n  # why\n\n  42"])
def test_an_indented_body_runs_as_in_a_plain_cell(harness: Harness, body: str) -> None:
    assert harness.run(f"%%npuprof\n{body}").result == 42
    harness.shell.run_cell_magic("npuprof", "", body)
    assert harness.ended == ["", ""]


def test_an_error_in_an_indented_body_is_at_its_line(harness: Harness) -> None:
    error = harness.run("%%npuprof\n\n    # why\n    x = 1\n    x / 0").error_in_exec
    assert error is not None
    assert traceback.extract_tb(error.__traceback__)[-1].lineno == 5
    assert harness.ended == ["ZeroDivisionError: division by zero"]


def test_a_kernel_that_gives_a_cell_up_ends_the_run(harness: Harness) -> None:
    harness.run("%%npuprof\nharness.shell.events.trigger('post_run_cell', None)\nafter = harness.controller.collecting")
    assert harness.shell.user_ns["after"] is False
    assert harness.ended == ["Cancelled: the cell was aborted before it ended"]


def test_cells_have_number_or_caller(harness: Harness) -> None:
    harness.run("x = 1", store_history=True)
    harness.run("%%npuprof\npass", store_history=True)
    harness.run("harness.shell.run_cell('%%npuprof\\npass')", store_history=True)
    assert harness.titles == ["cell [2]", "code run from or after cell [3]"]
    harness.run("harness.shell.run_cell('1')\n%npuprof start", store_history=True)
    assert harness.titles[2] == "%npuprof start in code run from or after cell [4]"


def test_outside_of_a_cell_there_is_nothing_to_profile(harness: Harness) -> None:
    shell = harness.shell
    tree = shell.transform_ast(shell.compile.ast_parse(shell.transform_cell("%%npuprof\nx = 1")))
    with pytest.raises(UsageError, match="no cell is running"):
        exec(shell.compile(tree, "<no cell>", "exec"), {})
    assert harness.collector.calls == []


@pytest.mark.slow
def test_nothing_of_a_cell_is_kept(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    result = harness.run("%%npuprof\nclass Boom(Exception): pass\nboom = Boom()\nraise boom")
    assert harness.ended == ["Boom"]
    assert result.error_in_exec is not None
    gone = [weakref.ref(each) for each in (result.error_in_exec, result, result.info)]
    del result
    # IPython itself keeps its newest error and its newest cell.
    harness.run("del boom, Boom\n1 / 0")
    for name in ("last_value", "last_traceback", "last_exc", "last_type"):
        monkeypatch.setattr(sys, name, None, raising=False)
    gc.collect()
    assert [each() for each in gone] == [None, None, None]


def test_failed_report_says_where_the_run_is(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_session: Session) -> None:
        raise RuntimeError("no room to draw")

    harness.controller._show = fail
    assert harness.run("%%npuprof\n42").result == 42
    printed = capsys.readouterr()
    assert printed.err.startswith("npuprof: RuntimeError: no room to draw: the run is kept, and npuprof.load(")
    assert printed.err.count("\n") == 1
    assert "Error in callback" not in printed.out
    assert not harness.controller.collecting
    harness.run("%%npuprof --no-report\n1")
    assert harness.collector.calls.count("stop") == 2


def test_failed_start_is_told_and_the_cell_runs(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    harness.collector.fail["start"] = AttributeError("no such symbol")
    assert harness.run("%%npuprof\n42").result == 42
    assert capsys.readouterr().err == "npuprof: the code runs unprofiled: AttributeError: no such symbol\n"
    harness.collector.fail["start"] = CollectorError("the device is lost")
    refused = harness.run("%%npuprof\n42")
    assert (refused.result, type(refused.error_in_exec)) == (None, CollectorError)
    assert not harness.controller.collecting
    assert harness.ended == []


def test_uninstalling_leaves_the_shell_as_it_was(harness: Harness) -> None:
    shell = harness.shell
    assert NpuprofMagics.installed_in(shell) is harness.magics
    harness.run("%npuprof start")
    harness.magics.uninstall()
    assert harness.ended == [""]
    assert NpuprofMagics.installed_in(shell) is None
    assert shell.find_line_magic("npuprof") is None
    assert shell.find_cell_magic("npuprof") is None
    transformers = [*shell.input_transformers_cleanup, *shell.input_transformers_post, *shell.ast_transformers]
    assert not any("npuprof" in str(member) for member in transformers)
    assert type(shell.compile) is shell.compiler_class is CachingCompiler
    assert not any("npuprof" in str(member) for members in shell.events.callbacks.values() for member in members)
    harness.magics.install()
