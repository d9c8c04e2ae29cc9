"""Cells that take from Python what the profiler needs: their outcome stays, and there is a report or one message."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import pace
from tests.notebook.kernel import Kernel

pytestmark = pytest.mark.slow

_SHELL = """
import json, os, sys
from traitlets.config import Config
from IPython.core.interactiveshell import InteractiveShell

config = Config()
config.HistoryManager.enabled = False
config.InteractiveShell.colors = "NoColor"
shell = InteractiveShell.instance(config=config)
shell.run_line_magic("load_ext", "npuprof")
write, told, encoded = os.write, os.dup(1), json.dumps
for cell in json.loads(sys.argv[1]):
    result = shell.run_cell(cell, store_history=True)
error = result.error_in_exec
line = encoded({"value": result.result, "error": None if error is None else type(error).__name__})
write(told, f"\\n== {line}\\n".encode())
os._exit(0)  # some cells leave an interpreter that cannot end in order
"""
_FILES = (
    "left = len(os.listdir('/proc/self/fd')) - 1\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (left, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
)
_MEMORY = (
    "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    "resource.setrlimit(resource.RLIMIT_AS, (size + (16 << 20), resource.RLIM_INFINITY))\n"
)
_NO_IMPORTS = (
    "class Blocked:\n    def find_spec(self, name, path=None, target=None):\n        raise ImportError(name)\n"
    "sys.meta_path.insert(0, Blocked())\n"
)
_PREPARED = "import builtins, gc, io, json, os, resource, shutil, sys, tempfile, threading, time, warnings"

_REPORTED = {
    "no files are left": _FILES,
    "imports are blocked": _NO_IMPORTS,
    "nothing is found": "sys.path.clear(); sys.meta_path.clear()",
    "names of builtins": "range = 5; print = None; list = [1]; time = 0; len = None; open = None",
    "a builtin": "builtins.open = None",
    "no clock": "time.perf_counter_ns = time.monotonic = time.clock_gettime_ns = None",
    "a deep stack is refused": "sys.setrecursionlimit(150)",
    "warnings are errors": "warnings.simplefilter('error')",
    "no garbage collection": "gc.disable()",
    "a trace function": "sys.settrace(lambda *_: None)",
    "a profile function": "sys.setprofile(lambda *_: None); threading.setprofile(lambda *_: None)",
    "no environment": "os.environ.clear()",
    "no working directory": "os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())",
    "no umask": "os.umask(0o777)",
    "no threads": "def refuse(*_): raise RuntimeError\nthreading.Thread.start = refuse",
    "threads that go on": "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "a closed stderr": "sys.stderr.close()",
    "a loop on a thread": "import asyncio\nloop = threading.Thread(target=lambda: asyncio.run(asyncio.sleep(0)))\n"
    "loop.start(); loop.join()",
}
# What takes something else each is tried in one cell as well; alone each is a long test.
_AT_ONCE = (
    "a loop on a thread",
    "warnings are errors",
    "no garbage collection",
    "a profile function",
    "no environment",
    "no working directory",
    "no umask",
    "threads that go on",
    "names of builtins",
)
_SAID = {
    "no memory is left": (_MEMORY, "The recording could not be decoded|the run is kept"),
    "a closed stdout": ("out = sys.stdout\nsys.stdout = io.StringIO()\nsys.stdout.close()", "cannot be displayed"),
    "no JSON": ("json.dumps = json.loads = None", "The recording could not be decoded"),
}


def _run(folder: Path, *cells: str) -> tuple[dict[str, object], str]:
    """Run cells in a process of its own; return the outcome of the last one, and all that was printed."""
    done = subprocess.run(
        [sys.executable, "-u", "-c", _SHELL, json.dumps(cells)],
        cwd=folder,
        check=False,
        capture_output=True,
        timeout=pace.seconds(120),
    )
    output = (done.stdout + done.stderr).decode(errors="replace")
    assert "Error in callback" not in output
    (outcome,) = [line for line in output.splitlines() if line.startswith("== ")]
    return json.loads(outcome.removeprefix("== ")), output


def _check_reported(folder: Path, taken: str) -> None:
    outcome, output = _run(folder, _PREPARED, f"%%npuprof\n{taken}\n42")
    assert outcome == {"value": 42, "error": None}, output
    assert output.count("Nothing was recorded") == 1, output


@pytest.mark.parametrize(
    "taken", [pytest.param(taken, marks=pytest.mark.long if taken in _AT_ONCE else ()) for taken in _REPORTED]
)
def test_a_cell_keeps_its_value_and_has_its_report(tmp_path: Path, taken: str) -> None:
    _check_reported(tmp_path, _REPORTED[taken])


@pytest.mark.long
def test_cell_that_takes_much_keeps_its_report(tmp_path: Path) -> None:
    _check_reported(tmp_path, "\n".join(_REPORTED[taken] for taken in _AT_ONCE))


@pytest.mark.long
@pytest.mark.parametrize("taken", _SAID)
def test_failed_report_leaves_one_message(tmp_path: Path, taken: str) -> None:
    code, message = _SAID[taken]
    outcome, output = _run(tmp_path, _PREPARED, f"%%npuprof\n{code}\nvalue = 42", "sys.stdout = sys.__stdout__\nvalue")
    assert outcome["value"] == 42
    assert output.count("npuprof: ") == len(re.findall(message, output)) == 1, output
    assert len(list((tmp_path / "npuprof-recordings").iterdir())) == 1


@pytest.mark.parametrize("code", [_FILES, _MEMORY])
def test_unstartable_profiler_says_so_once(tmp_path: Path, code: str) -> None:
    outcome, output = _run(tmp_path, _PREPARED, code, "%%npuprof\n42")
    assert outcome == {"value": 42, "error": None}, output
    assert output.count("npuprof: the code runs unprofiled: ") == 1
    assert not (tmp_path / "npuprof-recordings").exists()


_STANDARD = (
    "base64",
    "calendar",
    "csv",
    "fractions",
    "html",
    "platform",
    "queue",
    "random",
    "secrets",
    "uuid",
    "zipfile",
)


def test_files_with_names_of_standard_modules_are_the_users_alone(tmp_path: Path) -> None:
    written = f"import sys\nfor name in {_STANDARD}:\n    open(name + '.py', 'w').write('MINE = 1\\n')\n"
    names = ("calendar", "csv", "secrets", "zipfile")
    forgotten = f"for name in {names}:\n    sys.modules.pop(name, None)\n"  # some Pythons import them at their start
    imported = f"import {', '.join(names)}\n[{', '.join(f'{name}.MINE' for name in names)}]"
    outcome, output = _run(tmp_path, f"{written}{forgotten}sys.path.insert(0, '')", f"%%npuprof\n{imported}")
    assert outcome == {"value": [1, 1, 1, 1], "error": None}
    assert "the code runs unprofiled" in output
    assert "; rename " in output
    assert f"{tmp_path / 'calendar.py'}, " in output


@pytest.mark.long
@pytest.mark.kernel
def test_a_kernel_survives_cells_without_files_and_imports(tmp_path: Path) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.run(f"%load_ext npuprof\n{_PREPARED}")
        for code in (_FILES, _NO_IMPORTS):
            executed = kernel.run(f"%%npuprof\n{code}\n42")
            assert executed.status == "ok", executed.traceback()
            assert executed.value == "42"
            assert executed.has_report
            assert "Error in callback" not in executed.stream("stderr") + executed.stream()
