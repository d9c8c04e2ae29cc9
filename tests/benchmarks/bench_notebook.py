"""What npuprof costs in a notebook: loading it, and a start and stop around an empty cell.

Run by hand: ``python -m tests.benchmarks.bench_notebook``. Figures are ratios within one run, since times
of different machines say nothing about each other.
"""

from __future__ import annotations

import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

_IMPORT = "import IPython; from IPython.core.interactiveshell import InteractiveShell; "
_SHELL = _IMPORT + "shell = InteractiveShell.instance(); "
_LOAD = _SHELL + "shell.run_line_magic('load_ext', 'npuprof')"
_LOAD_NOTHING = _SHELL + (
    "import sys, types; nothing = sys.modules['nothing'] = types.ModuleType('nothing'); "
    "nothing.load_ipython_extension = lambda shell: None; shell.run_line_magic('load_ext', 'nothing')"
)
_ROUNDS = 11
_TARGET_MS = 20


def _median_ms(action: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start_ns = time.perf_counter_ns()
        action()
        times.append((time.perf_counter_ns() - start_ns) / 1e6)
    return statistics.median(times)


def _fresh(code: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def loading() -> None:
    """Compare fresh processes: IPython alone, and a shell with an empty extension or with npuprof in it."""
    # In turns, so that a busy moment of the machine does not fall on one of them alone.
    codes = {"import IPython": _IMPORT, "a shell with an empty extension": _LOAD_NOTHING, "a shell with npuprof": _LOAD}
    rounds = [{name: _median_ms(_fresh(code), 1) for name, code in codes.items()} for _ in range(_ROUNDS)]
    medians = {name: statistics.median(times[name] for times in rounds) for name in codes}
    base = medians["import IPython"]
    for name, median in medians.items():
        print(f"{name:34}{median:9.1f} ms  {median / base:6.3f} of import IPython")
    extra = medians["a shell with npuprof"] - medians["a shell with an empty extension"]
    print(f"{'%load_ext npuprof itself':34}{extra:9.1f} ms  {extra / base:6.3f} of import IPython")


def around_an_empty_cell() -> None:
    """Compare an empty cell with the same cell profiled on the simulated NPU, without a report."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "npuprof")
    with tempfile.TemporaryDirectory() as output:
        arguments = f"--no-report --collector simulator --output {shlex.quote(output)}"
        cells = {
            "an empty cell": "pass",
            "profiled, NPU only": f"%%npuprof {arguments} --activities npu\npass",
            "profiled, with stacks": f"%%npuprof {arguments}\npass",
        }
        plain = 0.0
        for name, cell in cells.items():
            first = _median_ms(partial(shell.run_cell, cell), 1)
            median = _median_ms(partial(shell.run_cell, cell), _ROUNDS)
            plain = plain or median
            verdict = "" if median < _TARGET_MS else f"  over the target of {_TARGET_MS} ms"
            print(f"{name:34}{median:9.2f} ms  {median / plain:8.1f} of an empty cell, first {first:.1f} ms{verdict}")


if __name__ == "__main__":
    loading()
    around_an_empty_cell()
