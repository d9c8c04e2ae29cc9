"""In a real kernel: a profiled cell behaves as it would without its first line."""

from __future__ import annotations

import json

import pytest

from tests.browser.unpacking import Saved, data_of
from tests.notebook.kernel import Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_the_value_is_kept_and_shown_before_the_report(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\nx = 20\nx + 22")
    number = executed.reply["execution_count"]
    assert executed.status == "ok"
    assert executed.value == "42"
    assert executed.kinds[0] == "execute_result"
    assert set(executed.kinds[1:]) <= {"display_data", "comm_open"}  # the first report of a kernel listens for keys
    assert executed.has_report
    assert kernel.evaluate(f"_, Out[{number}], _{number}") == "(42, 42, 42)"


@pytest.mark.slow
def test_a_semicolon_silences_the_value(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\n40 + 2;")
    assert executed.status == "ok"
    assert executed.value is None
    assert executed.has_report


def test_a_statement_leaves_no_value(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\ny = 1  # %%npuprof")
    assert executed.value is None
    assert kernel.evaluate("y") == "1"


def test_exception_keeps_status_line_and_report(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\na = 1\nb = 0\na / b\nprint('not reached')")
    assert executed.status == "error"
    assert executed.reply["ename"] == "ZeroDivisionError"
    assert "line 4" in executed.traceback()
    assert "npuprof/notebook" not in executed.traceback()
    assert executed.kinds[0] == "error"
    assert executed.has_report
    assert "ZeroDivisionError: division by zero" in executed.displays[0]["text/plain"]


def test_ending_a_run_is_not_users_code(kernel: Kernel) -> None:
    kernel.run("import npuprof, time")
    kernel.run("%%npuprof --no-report\ntime.sleep(0.1)\n1 / 0")
    names = kernel.evaluate("sorted(set(npuprof.last().python['name']))")
    assert "<cell [" in names
    assert not [word for word in ("inspect.py", "ultratb.py", "contextlib.py") if word in names]


def test_syntax_error_has_its_line_and_no_recording(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\na = 1\nif a\n    pass")
    assert executed.reply["ename"] == "SyntaxError"
    assert "line 3" in executed.traceback()
    assert not executed.has_report
    assert "nothing is collecting" in kernel.run("%npuprof").stream()


def test_interrupt_ends_the_cell_with_its_error(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof\nimport time\nprint('running', flush=True)\ntime.sleep(600)", on_stream=kernel.interrupt
    )
    assert executed.status == "error"
    assert executed.reply["ename"] == "KeyboardInterrupt"
    assert executed.has_report
    assert "KeyboardInterrupt" in executed.displays[0]["text/plain"]


def test_an_error_stops_run_all(kernel: Kernel) -> None:
    first = kernel.client.execute("%%npuprof\nimport time\nprint('running', flush=True)\ntime.sleep(600)")
    second = kernel.client.execute("print('ran')")
    executed = kernel.collect(first, on_stream=kernel.interrupt)
    assert executed.status == "error"
    assert executed.has_report
    assert kernel.reply(second)["status"] == "aborted"
    kernel.wait_until_nothing_is_aborted()


def test_top_level_await_works(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof\nimport asyncio\nawait asyncio.sleep(0, result=42)")
    assert executed.status == "ok"
    assert executed.value == "42"
    assert executed.has_report


def test_an_interrupted_await_ends_the_cell_with_the_report(kernel: Kernel) -> None:
    executed = kernel.run(
        # A kernel sees an interrupt at the next turn of its event loop.
        "%%npuprof\nimport asyncio\nprint('running', flush=True)\nwhile True: await asyncio.sleep(0.01)",
        on_stream=kernel.interrupt,
    )
    assert executed.status == "error"
    assert executed.has_report
    assert "nothing is collecting" in kernel.run("%npuprof").stream()


@pytest.mark.slow
def test_nothing_leaks_into_the_namespace(kernel: Kernel) -> None:
    known = "sorted(name for name in globals() if not name.startswith('_'))"
    before = kernel.evaluate(known)
    kernel.run("%%npuprof\npass")
    assert kernel.evaluate(known) == before


@pytest.mark.slow
def test_text_in_a_string_is_untouched(kernel: Kernel) -> None:
    text = "'''\n%%npuprof\nx\n'''"
    executed = kernel.run(text)
    assert executed.value == repr("\n%%npuprof\nx\n")
    assert not executed.displays


def test_the_users_objects_are_not_kept_alive(kernel: Kernel) -> None:
    kernel.run(
        "import gc, sys, weakref\n"
        "class Thing: pass\n"
        "def fail(thing): raise ValueError('boom')\n"
        "thing, gone = Thing(), None"
    )
    kernel.run("%%npuprof\ngone = weakref.ref(thing)\nfail(thing)")
    # IPython itself keeps the last exception until the next one.
    kernel.run("del thing\n1 / 0")
    kernel.run("sys.last_value = sys.last_traceback = sys.last_exc = None\ngc.collect();")
    assert kernel.evaluate("gone() is None") == "True"


def test_the_arguments_are_expanded_as_ipython_does(kernel: Kernel) -> None:
    kernel.run("label = 'third try'")
    kernel.run("%%npuprof --name '{label} of {1 + 2}'\npass")
    kernel.run("import npuprof")
    assert kernel.evaluate("npuprof.last().info.name") == "'third try of 3'"


@pytest.mark.slow
def test_no_report_collects_in_silence(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof --no-report --name quiet\n42")
    assert executed.kinds == ["execute_result"]
    kernel.run("import npuprof")
    assert kernel.evaluate("npuprof.last().info.name") == "'quiet'"


def test_a_silent_execution_ends_its_run(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof --name unheard\nget_ipython().run_cell('one = 1')\n42", silent=True)
    assert executed.status == "ok"
    assert executed.value is None
    assert "nothing is collecting" in kernel.run("%npuprof").stream()
    kernel.run("import npuprof")
    assert kernel.evaluate("npuprof.last().info.name") == "'unheard'"


def test_a_failed_silent_execution_ends_its_run(kernel: Kernel) -> None:
    assert kernel.run("%%npuprof\n1 / 0", silent=True).status == "error"
    assert "nothing is collecting" in kernel.run("%npuprof").stream()


def test_simulated_kernels_are_in_the_report(kernel: Kernel) -> None:
    kernel.run("import npuprof\nimport numpy as np\nfrom npuprof.simulator import npu\na = npu.ones((64, 64))")
    executed = kernel.run("%%npuprof --name workload\nwith npuprof.range('forward'):\n    b = np.exp(a @ a)\nb.shape")
    assert executed.value == "(64, 64)"
    summary, explorer = executed.displays
    assert "simulated NPU" in summary["text/plain"]
    assert "MatMul" in explorer["text/plain"]
    assert any("MatMul" in text for text in Saved(data_of(explorer["text/html"])).header["texts"])
    assert len(json.dumps([summary, explorer])) < 1_000_000
    assert (
        kernel.evaluate("len(npuprof.last().kernels), 'forward' in set(npuprof.last().marks['message'])") == "(2, True)"
    )


def test_second_run_measures_the_profiling_cost(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof --overhead\nimport npuprof\ncount = globals().get('count', 0) + 1\nprint('ran')\ncount"
    )
    assert executed.value == "1"
    assert executed.stream() == "ran\n"
    assert "The cell ran twice" in executed.displays[0]["text/plain"]
    assert "The cell ran twice" in executed.displays[0]["text/html"]
    assert kernel.evaluate("count") == "2"
    assert kernel.evaluate("npuprof.last().info.overhead['repeat_ns'] > 0") == "True"
    assert kernel.evaluate("npuprof.load(npuprof.last().info.recording).info.overhead") == kernel.evaluate(
        "npuprof.last().info.overhead"
    )


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("del globals()['once']", "the cell ran twice, and the second, unprofiled run raised KeyError: 'once'"),
        ("import asyncio\nawait asyncio.sleep(0)", "the cell cannot run a second time ('await' outside function)"),
    ],
)
def test_a_cell_that_cannot_run_twice_keeps_its_report(kernel: Kernel, code: str, why: str) -> None:
    kernel.run("once = True")
    executed = kernel.run(f"%%npuprof --overhead\n{code}")
    assert executed.status == "ok"
    assert why in executed.stream("stderr")
    assert executed.has_report
    assert "ran twice" not in executed.displays[0]["text/plain"]


def test_failed_cell_is_not_run_again(kernel: Kernel) -> None:
    kernel.run("runs = []")
    assert kernel.run("%%npuprof --overhead\nruns.append(1)\n1 / 0").status == "error"
    executed = kernel.run("%%npuprof\nruns.append(2)")
    assert kernel.evaluate("runs") == "[1, 2]"
    assert "ran twice" not in executed.displays[0]["text/plain"]
    assert "--overhead runs a cell twice" in kernel.run("%npuprof start --overhead").stream("stderr")
