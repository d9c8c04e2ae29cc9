"""In a real kernel: a cell with stamps is an ordinary cell, whatever it holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebook.kernel import Executed, Kernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def _run(kernel: Kernel, code: str, first: str = "%%npuprof --collector simulator --no-report") -> Executed:
    return kernel.run(f"{first}\n{code}")


def _lines(kernel: Kernel) -> str:
    kernel.run("import npuprof")
    return kernel.evaluate("npuprof.last().statements['line'].tolist()")


@pytest.mark.parametrize(
    ("code", "value", "lines"),
    [
        ("for i in range(2):\n    j = i\ni, j", "(1, 1)", [2, 3, 2, 3, 2, 4]),
        ("x = 1\nx + 1;", None, [2, 3]),
        ("x = 1;\nx", "1", [2, 3]),
        ("import asyncio\nfor i in range(2):\n    await asyncio.sleep(0)\ni", "1", [2, 3, 4, 3, 4, 3, 5]),
        (
            "async def g():\n    for i in range(2):\n        yield i\nasync for v in g():\n    w = v\nw",
            "1",
            [2, 5, 6, 5, 6, 5, 7],
        ),
        ("def g():\n    yield from (1, 2)\n[*g()]", "[1, 2]", [2, 4]),
        (
            "import functools\n@functools.lru_cache\ndef f(x):\n    return x\nfor i in range(2):\n    f(i)\nf(3)",
            "3",
            [2, 3, 6, 7, 6, 7, 6, 8],
        ),
        ("    a = 1\n    for i in range(1):\n        a += 1\n    a", "2", [2, 3, 4, 3, 5]),
        (
            "for i in range(4):\n    if i == 1:\n        continue\n    if i == 2:\n        break\nelse:\n    i = 9\ni",
            "2",
            [2, 3, 5, 2, 3, 2, 3, 5, 6, 9],
        ),
        ("n = 2\nwhile n:\n    n -= 1\nelse:\n    n = 7\nn", "7", [2, 3, 4, 3, 4, 3, 6, 7]),
        (
            "try:\n    1 / 0\nexcept ZeroDivisionError:\n    x = 1\nelse:\n    x = 2\nfinally:\n    y = x\ny",
            "1",
            [2, 3, 5, 9, 10],
        ),
        (
            "match (1, 2):\n    case (1, b):\n        c = b\n    case _:\n        c = 0\nwith lock(): d = c\nd",
            "2",
            [2, 4, 7, 7, 7, 8],
        ),
        (
            "import asyncio\nl = asyncio.Lock()\nasync with l:\n    k = l.locked()\nk",
            "True",
            [2, 3, 4, 5, 4, 6],
        ),
        ("class A:\n    for i in range(2):\n        j = i\nA.j", "1", [2, 5]),
        ("(lambda: [i for i in range(3)])()", "[0, 1, 2]", [2]),
        ("x: int = 3\ndel x\nglobal_ = 'x' in globals()\nglobal_", "False", [2, 3, 4, 5]),
        ("!true\nfor i in range(1):\n    %pwd\n_exit_code", "0", [2, 3, 4, 3, 5]),
    ],
)
def test_values_and_statements(kernel: Kernel, code: str, value: str | None, lines: list[int]) -> None:
    kernel.run("from contextlib import nullcontext as lock")
    executed = _run(kernel, code)
    assert executed.status == "ok", executed.traceback()
    assert executed.value == value
    assert _lines(kernel) == str(lines)


def test_values_are_shown_as_the_shell_is_told(kernel: Kernel) -> None:
    code = "1\nfor i in range(2):\n    i\nx = 5"
    for mode in ("all", "last_expr_or_assign", "none"):
        kernel.run(f"get_ipython().ast_node_interactivity = {mode!r}")
        plain = kernel.run(code)
        stamped = _run(kernel, code)
        assert stamped.contents("execute_result") is not None
        shown = [[each["data"]["text/plain"] for each in run.contents("execute_result")] for run in (plain, stamped)]
        assert shown[0] == shown[1], mode
    kernel.run("get_ipython().ast_node_interactivity = 'last_expr'")


def test_error_in_a_loop_has_its_line(kernel: Kernel) -> None:
    code = "for i in range(3):\n    x = 1\n    y = x / (1 - i)\n"
    executed = _run(kernel, code)
    assert executed.reply["ename"] == "ZeroDivisionError"
    assert "line 4" in executed.traceback()
    assert "npuprof/" not in executed.traceback()
    assert kernel.run("%debug?").status == "ok"


def test_an_interrupt_ends_a_loop_and_its_statements_are_kept(kernel: Kernel) -> None:
    executed = kernel.run(
        "%%npuprof --collector simulator --no-report\nimport time\nn = 0\nwhile True:\n    n += 1\n"
        "    if n == 3: print('on', flush=True)\n    time.sleep(0.01)",
        on_stream=kernel.interrupt,
    )
    assert executed.reply["ename"] == "KeyboardInterrupt"
    kernel.run("import npuprof\nrun = npuprof.last()")
    assert kernel.evaluate("run.statements['line'].tolist()[:6]") == "[2, 3, 4, 5, 6, 7]"
    assert kernel.evaluate("[n for n in vars(__import__('builtins')) if n.startswith('npuprof')]") == "[]"


def test_functions_keep_their_source_and_can_be_pickled(kernel: Kernel) -> None:
    executed = _run(
        kernel,
        "import inspect, cloudpickle\nfor i in range(1):\n    def f(x):\n        '''Text.'''\n        return x + i\n"
        "inspect.getsource(f), f.__doc__, cloudpickle.loads(cloudpickle.dumps(f))(1), f.__code__.co_consts",
    )
    assert executed.status == "ok", executed.traceback()
    assert executed.value is not None
    assert "return x + i" in executed.value
    assert "'Text.', 1, ('Text.',)" in executed.value.replace("\n", "")


def test_autoreload_and_a_traced_cell_work(kernel: Kernel) -> None:
    kernel.run("%load_ext autoreload\n%autoreload 2")
    executed = _run(
        kernel,
        "import sys\nseen = []\ndef trace(frame, event, argument):\n    if event == 'line':\n"
        "        seen.append(frame.f_lineno)\n    return trace\nsys.settrace(trace)\n"
        "def work(n):\n    m = n\n    return m\nwork(1)\nsys.settrace(None)\n[n for n in seen if n in (10, 11)]",
    )
    assert executed.status == "ok", executed.traceback()
    assert executed.value == "[10, 11]"
    kernel.run("%autoreload 0")


def test_a_module_that_was_changed_is_loaded_again_before_the_cell(kernel: Kernel) -> None:
    kernel.run("%load_ext autoreload\n%autoreload 2\nimport os, sys, pathlib\nsys.path.insert(0, os.getcwd())")
    kernel.run("pathlib.Path('reloaded.py').write_text('def f():\\n    return 1\\n')\nimport reloaded")
    assert _run(kernel, "for i in range(2):\n    r = reloaded.f()\nr").value == "1"
    kernel.run("path = pathlib.Path('reloaded.py')\npath.write_text('def f():\\n    return 22\\n')")
    kernel.run("os.utime(path, (2_000_000_000, 2_000_000_000))")
    assert _run(kernel, "for i in range(2):\n    r = reloaded.f()\nr").value == "22"
    kernel.run("%autoreload 0")


@pytest.mark.parametrize("asked", ["%debug", "%pdb"])
def test_a_debugger_stands_at_the_users_line_with_the_users_names(kernel: Kernel, asked: str) -> None:
    kernel.run(
        "import io\nfrom IPython.core.debugger import Pdb\nclass Typed(Pdb):\n"
        "    def __init__(self, *given, **named):\n        super().__init__(*given, **named)\n"
        "        self.use_rawinput = False\n        self.stdin = io.StringIO('p x + 41\\nu\\np i * 100\\nq\\n')\n"
        "shell = get_ipython().InteractiveTB\nshell.debugger_cls, shell.pdb = Typed, None"
    )
    code = "def f(x):\n    return x / 0\nfor i in range(1, 3):\n    f(i)\n"
    if asked == "%pdb":
        kernel.run("%pdb on")
        executed = _run(kernel, code)
        kernel.run("%pdb off")
    else:
        assert _run(kernel, code).reply["ename"] == "ZeroDivisionError"
        executed = kernel.run("%debug")
    kernel.run("shell.debugger_cls, shell.pdb = Pdb, None")
    said = executed.stream() + executed.stream("stderr")
    assert "42\n" in said
    assert "100\n" in said
    assert "---> 3" in re.sub(r"\x1b\[[0-9;]*m", "", said)  # the line of the cell


def test_tracer_sees_the_lines_of_any_cell(kernel: Kernel) -> None:
    """As coverage does: it notes the lines of frames that begin after it."""
    kernel.run(
        "import sys\nseen = set()\ndef trace(frame, event, argument):\n"
        "    if frame.f_globals.get('__name__') == '__main__' and event == 'line':\n"
        "        seen.add((frame.f_code.co_name.split()[0], frame.f_lineno))\n    return trace"
    )
    body = (
        "total = 0\nfor i in range(4):\n    if i == 3:\n        break\n    elif i == 1:\n        continue\n"
        "    total += i\nelse:\n    total = -1\nwith open('/dev/null'):\n    try:\n        total += 1\n"
        "    finally:\n        total += 1\ndef g():\n    return total\ng()"
    )
    lines = []
    for first in ("# an ordinary cell", "%%npuprof --collector simulator --no-report"):
        kernel.run("seen.clear(); sys.settrace(trace)")
        executed = kernel.run(f"{first}\n{body}")
        kernel.run("sys.settrace(None)")
        assert executed.value == "4"
        lines.append(kernel.evaluate("sorted({line for _, line in seen if 2 <= line <= 18})"))
    assert lines[0] == lines[1]
    assert len(lines[0].split(",")) >= 12


def test_the_repetition_without_the_profiler_has_no_stamps(kernel: Kernel) -> None:
    executed = kernel.run("%%npuprof --overhead\ncount = 0\nfor i in range(3):\n    count += 1\ncount")
    assert executed.value == "3"
    assert "The cell ran twice" in executed.displays[0]["text/plain"]


def test_each_kernel_is_on_its_line(kernel: Kernel) -> None:
    kernel.run("import numpy as np, npuprof\nfrom npuprof.simulator import npu\nx = npu.ones((64, 64))")
    kernel.run("def f(x):\n    return np.sin(x)\ndef g(x):\n    return np.cos(x)")
    number = int(kernel.evaluate("len(In) - 1"))
    executed = _run(
        kernel,
        "for i in range(20):\n    y = f(x); z = g(x)\n    if i % 5 == 0: np.exp(y)",
        "%%npuprof --level 1 --stacks --collector simulator",
    )
    assert "18 of 20 steps, the loop of line 2" in executed.displays[0]["text/plain"]
    sums = kernel.evaluate("sorted(npuprof.last().by('line')[['line', 'count']].itertuples(index=False, name=None))")
    assert sums == str(
        [(f"In [{number}], line 2", 20), (f"In [{number}], line 4", 20), (f"In [{number + 1}], line 4", 4)]
    )


@pytest.mark.parametrize("options", ["", " --no-lines --no-steps"])
def test_sampled_function_has_lines_of_its_cell(kernel: Kernel, options: str) -> None:
    kernel.run("import time\ndef slow():\n    time.sleep(0.1)\n    return 1")
    assert _run(kernel, "slow()", f"%%npuprof --collector simulator --no-report{options}").value == "1"
    kernel.run("import npuprof\nlines = npuprof.last().code().to_frame().dropna(subset=['line'])")
    assert kernel.evaluate("lines['text'][lines['host_ns'].idxmax()]") == "'    time.sleep(0.1)'"
    of_cell = "lines['file'][lines['host_ns'].idxmax()]"
    assert re.fullmatch(r"'<cell \[\d+\]>'", kernel.evaluate(of_cell))
    assert kernel.evaluate(f"{of_cell} != lines['file'].iloc[0]") == "True"


def test_functions_that_numba_compiles_keep_working(kernel: Kernel, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    kernel.run(f"import os\nos.environ['NUMBA_CACHE_DIR'] = {str(tmp_path)!r}\nimport numba")
    code = (
        "@numba.njit(cache=True)\ndef total(n):\n    found = 0\n    for i in range(n):\n        found += i\n"
        "    return found\nfor k in range(3):\n    @numba.njit\n    def more(n):\n        return total(n) + 1\n"
        "    value = more(k)\nvalue, sum(total.stats.cache_hits.values())"
    )
    assert [_run(kernel, code).value for _ in range(2)] == ["(2, 0)", "(2, 1)"]
