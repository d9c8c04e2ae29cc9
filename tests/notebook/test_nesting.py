"""In a real kernel: other magics above and below, and cells within cells."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_capture_above_catches_value_output_and_report(kernel: Kernel) -> None:
    executed = kernel.run("%%capture caught\n%%npuprof\nprint('text')\n42")
    assert executed.status == "ok"
    assert {*executed.kinds} <= {"comm_open"}  # of the keys, which the first cells may open
    assert kernel.evaluate("caught.stdout") == repr("text\n")
    kinds = kernel.evaluate("' '.join(sorted(out.data)[0] for out in caught.outputs)")
    assert kinds.startswith("'text/plain text/html")
    assert kernel.evaluate("caught.outputs[0].data['text/plain']") == "'42'"


def test_capture_below_catches_the_value_but_not_the_report(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\n%%capture caught\nprint('text')\n42")
    assert executed.status == "ok"
    assert executed.value is None
    assert executed.has_report
    assert kernel.evaluate("caught.stdout") == repr("text\n")
    assert kernel.evaluate("caught.outputs[0].data['text/plain']") == "'42'"


@pytest.mark.parametrize("cell", ["%%time\n%%npuprof\nx = 41\nx + 1", "%%npuprof\n\n%%time\nx = 41\nx + 1"])
def test_time_above_and_below_keeps_the_value(kernel: Kernel, cell: str) -> None:
    executed = kernel.run(cell)
    assert executed.status == "ok"
    assert executed.value == "42"
    assert "Wall time" in executed.stream()
    assert executed.has_report


@pytest.mark.parametrize("cell", ["%%time\n%%npuprof\nx = 41\nx / 0", "%%npuprof\n%%time\nx = 41\nx / 0"])
def test_time_above_and_below_keeps_the_error(kernel: Kernel, cell: str) -> None:
    plain = kernel.run("%%time\nx = 41\nx / 0")
    executed = kernel.run(cell)
    assert "ZeroDivisionError" in executed.stream() + executed.traceback()
    # Older versions of `%%time` print the error and go on; whichever it is, it stays so.
    assert executed.reply.get("ename") == plain.reply.get("ename")
    assert executed.has_report


def test_a_script_magic_below_keeps_its_output_and_its_error(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\n%%bash\necho from bash")
    assert executed.status == "ok"
    assert executed.stream() == "from bash\n"
    assert executed.has_report
    assert kernel.run("%%npuprof\n%%bash\nexit 3").reply["ename"] == "CalledProcessError"


def test_cells_inside_neither_end_the_run_nor_leave_it_running(kernel: Kernel, tmp_path: Path) -> None:
    script = tmp_path / "cells.ipy"
    script.write_text("y = 1\n%time y\n", encoding="utf-8")
    executed = kernel.run(
        "%%npuprof --name outer\n"
        "get_ipython().run_cell('1 + 1')\n"
        "get_ipython().run_cell('')\n"
        "get_ipython().run_cell('1 / 0')\n"
        f"%run {shlex.quote(str(script))}\n"
        "%npuprof status\n"
        "7"
    )
    assert "has been collecting" in executed.stream()
    last = len(executed.kinds) - executed.kinds[::-1].index("execute_result")
    assert set(executed.kinds[last:]) == {"display_data"}
    assert "nothing is collecting" in kernel.run("%npuprof").stream()


def test_a_nested_start_is_one_clear_message_and_both_run(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof --name outer\ninner = get_ipython().run_cell('%%npuprof\\nreached = 1')\n%npuprof status"
    )
    number = executed.reply["execution_count"]
    assert executed.status == "ok"
    told = executed.stream("stderr")
    assert f"runs without a report of its own, since a process has one profiler: cell [{number}] has been" in told
    assert "run this cell again" in told
    assert f"cell [{number}] has been collecting" in executed.stream()  # the status
    assert executed.has_report
    assert kernel.evaluate("reached") == "1"


def test_session_within_a_cell_is_refused(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof\n"
        "import npuprof\n"
        "try:\n"
        "    npuprof.profile().start()\n"
        "except npuprof.NpuprofError as error:\n"
        "    refused = str(error)\n"
    )
    assert f"cell [{executed.reply['execution_count']}]" in kernel.evaluate("refused")
    assert executed.has_report


def test_the_magic_twice_makes_one_report(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\n%%npuprof\n42")
    assert executed.status == "ok"
    assert "runs without a report of its own" in executed.stream("stderr")
    assert executed.value == "42"
    assert executed.has_report


@pytest.mark.long
def test_code_that_calls_the_cell_magic_by_name_is_profiled(kernel: Kernel) -> None:
    executed = kernel.run("get_ipython().run_cell_magic('npuprof', '--name named', '40 + 2')")
    assert executed.value == "42"
    assert executed.has_report
    failed = kernel.run("get_ipython().run_cell_magic('npuprof', '', '1 / 0')")
    assert failed.status == "error"
    assert [content["ename"] for content in failed.contents("error")] == ["ZeroDivisionError", "SessionError"]
    assert failed.has_report
