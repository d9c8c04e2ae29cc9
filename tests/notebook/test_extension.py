"""In a real kernel: loading, unloading, help, and profiling across cells by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def completions(kernel: Kernel, code: str) -> list[str]:
    matches: list[str] = kernel.reply(kernel.client.complete(code))["matches"]
    return matches


def test_loading_prints_nothing_and_leaves_no_names(kernel: Kernel) -> None:
    kernel.run("%unload_ext npuprof")
    names = "sorted(name for name in globals() if not name.startswith('_'))"
    before = kernel.evaluate(names)
    assert kernel.run("%load_ext npuprof").messages == []
    assert kernel.evaluate(names) == before


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel without the extension."""
    with Kernel(tmp_path) as kernel:
        yield kernel


def test_loading_answers_before_it_imports(fresh: Kernel) -> None:
    fresh.run(
        "import threading, time\nbegan = time.thread_time(), time.process_time()\n"
        "get_ipython().run_line_magic('load_ext', 'npuprof')\nreply = time.thread_time() - began[0]"
    )
    fresh.run("[thread.join() for thread in threading.enumerate() if thread.name == 'npuprof imports']")
    fresh.run("whole = time.process_time() - began[1]")
    reply, whole = (float(fresh.evaluate(name)) for name in ("reply", "whole"))
    assert 0 < reply < whole / 4


def test_imports_end_before_profiled_code(fresh: Kernel) -> None:
    fresh.run("%load_ext npuprof")
    executed = fresh.run(
        "%%npuprof\nimport sys, threading\nnames = [thread.name for thread in threading.enumerate()]\n"
        "imported = [name in sys.modules for name in ('pandas', 'plotly', 'ipywidgets', 'npuprof.timeline.svg')]"
    )
    assert executed.has_report
    assert "npuprof imports" not in fresh.evaluate("names")
    assert fresh.evaluate("all(imported)") == "True"


def test_fork_waits_for_imports(fresh: Kernel) -> None:
    fresh.run("%load_ext npuprof")
    code = (
        "import os\nchild = os.fork()\n"
        "if child == 0:\n    import pandas, npuprof.loading\n    os._exit(7)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"
    )
    assert fresh.run(code).status == "ok"
    assert fresh.evaluate("status") == "7"


def test_names_a_file_that_hides_a_module(fresh: Kernel, tmp_path: Path) -> None:
    (tmp_path / "csv.py").write_text("mine = True\n", encoding="utf-8")
    fresh.run("import sys\nsys.path.insert(0, '')\nsys.modules.pop('csv', None)")
    fresh.run("%load_ext npuprof")
    assert fresh.run("import csv\ncsv.mine").value == "True"
    executed = fresh.run("%%npuprof\n42")
    assert (executed.status, executed.value) == ("ok", "42")
    assert f"rename {tmp_path / 'csv.py'}" in executed.stream("stderr")


def test_loading_twice_changes_nothing(kernel: Kernel) -> None:
    kernel.run("import npuprof\nnpuprof.load_ipython_extension(get_ipython())")
    kernel.run("%reload_ext npuprof")
    executed = kernel.run("%%npuprof\n42")
    assert [kind for kind in executed.kinds if kind != "comm_open"] == ["execute_result", "display_data"]
    assert executed.has_report


def test_unloading_removes_everything_and_loading_works_again(kernel: Kernel) -> None:
    state = (
        "len(get_ipython().input_transformers_cleanup), "
        "[len(get_ipython().events.callbacks[event]) for event in sorted(get_ipython().events.callbacks)], "
        "[sorted(magics) for magics in get_ipython().magics_manager.magics.values()], "
        "sorted(get_ipython().magics_manager.registry)"
    )
    kernel.run("0")  # the first cell after loading waits for what is imported
    loaded = kernel.evaluate(state)
    assert kernel.run("%unload_ext npuprof").messages == []
    unloaded = kernel.evaluate(state)
    assert unloaded != loaded
    assert "npuprof" not in unloaded.lower()
    assert kernel.run("%%npuprof\n42").reply["ename"] == "UsageError"
    kernel.run("%load_ext npuprof")
    assert kernel.evaluate(state) == loaded
    assert kernel.run("%%npuprof\n42").has_report


@pytest.mark.long
def test_unloading_ends_a_run_with_its_report(kernel: Kernel) -> None:
    kernel.run("%npuprof start")
    assert kernel.run("%unload_ext npuprof").has_report
    kernel.run("%load_ext npuprof")
    executed = kernel.run("%%npuprof\n%unload_ext npuprof\n42")
    assert set(executed.kinds[:-1]) == {"display_data"}
    assert executed.kinds[-1] == "execute_result"
    kernel.run("%load_ext npuprof")
    assert "nothing is collecting" in kernel.run("%npuprof").stream()


@pytest.mark.parametrize("name", ["%%npuprof", "%npuprof"])
def test_help_comes_from_the_table_of_options(kernel: Kernel, name: str) -> None:
    executed = kernel.run(f"{name}?")
    text = _COLOUR.sub("", executed.reply["payload"][0]["data"]["text/plain"])
    assert f"  {name} [--collector" in text
    assert "--aic-metrics" in text
    assert "ResourceConflictRatio" in text
    assert not executed.displays
    source = kernel.run(f"{name}??").reply["payload"][0]["data"]["text/plain"]
    assert "profiling_arguments" in source


def test_the_magics_are_listed_and_completed(kernel: Kernel) -> None:
    assert "%%npuprof" in completions(kernel, "%%npup")
    assert "%npuprof" in completions(kernel, "%npup")
    listed = kernel.run("%lsmagic").displays + kernel.run("%lsmagic").contents("execute_result")
    assert "npuprof" in json.dumps(listed)


@pytest.fixture
def by_hand(kernel: Kernel) -> Iterator[int]:
    """A run begun by hand, and the number of its cell."""
    executed = kernel.run("%npuprof start --name by_hand")
    assert executed.messages == []
    yield int(executed.reply["execution_count"])
    if "has been collecting" in kernel.run("%npuprof").stream():
        kernel.run("%npuprof stop")


def test_a_run_by_hand_spans_cells_and_stop_shows_it(kernel: Kernel, by_hand: int) -> None:
    kernel.run("x = 1")
    assert kernel.run("1 / 0").status == "error"
    assert f"%npuprof start in cell [{by_hand}] has been collecting" in kernel.run("%npuprof status").stream()
    executed = kernel.run("%npuprof stop")
    assert executed.has_report
    assert "by_hand" in executed.displays[0]["text/plain"]
    assert kernel.run("%npuprof stop").reply["ename"] == "SessionError"


@pytest.mark.usefixtures("by_hand")
def test_profiled_cell_within_manual_run_is_its_part(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\nprint('ran')\n42")
    number = executed.reply["execution_count"]
    assert executed.status == "ok"
    assert executed.value == "42"
    assert executed.stream() == "ran\n"
    assert f"cell [{number}] is recorded as a part of the run" in executed.stream("stderr")
    reports = [shown["text/plain"] for shown in kernel.run("%npuprof stop").displays]
    assert "by_hand" in reports[0]
    assert any(f"cell [{number}] of by_hand" in report for report in reports[1:])


def test_last_shows_the_newest_run_again(kernel: Kernel) -> None:
    kernel.run("%%npuprof --no-report --name newest\npass")
    executed = kernel.run("%npuprof last")
    assert executed.has_report
    assert "newest" in executed.displays[0]["text/plain"]


@pytest.mark.long
def test_shutdown_kernel_leaves_a_readable_recording(tmp_path: Path) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext npuprof")
        kernel.run("%npuprof start --name unfinished --output kept")
    (recording,) = tmp_path.glob("kept/*/recording.json")
    told = json.loads(recording.read_text(encoding="utf-8"))
    assert told["stopped_ns"] > told["started_ns"]
    assert "was not stopped" in told["problems"][0]  # what else there is, a busy machine has brought about
    assert (recording.parent / "python_stacks.parquet").is_file()
