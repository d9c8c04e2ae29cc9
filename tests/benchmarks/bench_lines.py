"""Whether kernels are on the line that launched them, and what that costs.

Planted functions alternate, each with a kernel of its own, in a cell, in an imported file, in a thread, and (with
torch) in the backward pass. What a kernel's line should be is known from its type. Three ways to know lines are judged:
stacks taken at the call, statements of the cell alone, and samples alone, whose shares must hold the truth within their
error. Run by hand: ``python -m tests.benchmarks.bench_lines``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npuprof import simulator
from npuprof.analysis.places import BETWEEN, lines
from npuprof.lines.call_stacks import CallStacks
from npuprof.profiles.profile import Profile
from tests.notebook.cells import Cells

SPENT_US = (20, 200, 5_000)
_SECONDS = 0.5
_FUNCTIONS = """\
import time
import numpy as np
def busy(us):
    end = time.perf_counter_ns() + 1000 * us
    while time.perf_counter_ns() < end: pass
def f(x, us):
    busy(us)
    return np.sin(x)
def g(x, us):
    busy(us)
    return np.cos(x)
"""
_TRUTH = {"Sin": ("f", 8), "Cos": ("g", 11)}
_BACKWARD_TRUTH = {
    **dict.fromkeys(("aten::tanh", "aten::tanh_backward"), ("f", 8)),
    **dict.fromkeys(("aten::sigmoid", "aten::sigmoid_backward"), ("g", 11)),
}
_BACKWARD = """\
with simulator.torch():
    for i in range({count}):
        y = f(x, {us})
        z = g(x, {us})
        torch.autograd.backward([y, z], [x.detach(), x.detach()])
"""
_LOOP = "for i in range({count}):\n    y = f(x, {us})\n    z = g(x, {us})\n"
_THREAD = (
    "import threading\ndef work():\n    for i in range({count}):\n        f(x, {us})\n        g(x, {us})\n"
    "thread = threading.Thread(target=work)\nthread.start()\nthread.join()"
)


@dataclass(frozen=True)
class Judged:
    """How lines of kernels are known, and how well.

    Attributes
    ----------
    right
        How much of the device's time with a line is on the right one, as a share.
    known
        The number of kernels by the way in which their line is known.
    is_covered
        Whether the share of each planted function lies within the error of what is told of it.
    """

    right: float
    known: dict[str, int]
    is_covered: bool


def judge(run: Profile, right_lines: dict[str, int], truth: Mapping[str, tuple[str, int]] = _TRUTH) -> Judged:
    """Compare the lines of kernels with the right ones, by what the kernel is.

    Parameters
    ----------
    run
        The run.
    right_lines
        The line of each type of kernel, or of each operator.
    truth
        Function and line of each.
    """
    launches = run.launches
    kinds = launches["op" if any("::" in name for name in truth) else "op_type"].astype(object)
    times = launches["duration_ns"].to_numpy(np.int64)
    is_planted = kinds.isin(list(right_lines)).to_numpy(bool)
    functions = kinds.map({name: function for name, (function, _) in truth.items()})
    is_entered = launches["entered"].to_numpy(bool)
    is_line = (launches["line"].astype(object) == kinds.map(right_lines)).to_numpy(bool) & ~is_entered
    told = launches["function"].astype(object)
    is_function = is_entered & (told == functions).to_numpy(bool)
    right = int(times[is_planted & (is_line | is_function)].sum())
    known = launches["known"][is_planted].value_counts()
    is_told = is_planted & (launches["known"] != BETWEEN).to_numpy(bool)
    covered = []
    if "share_error" in (sums := run.by("line")):
        of_line = sums.set_index(sums["line"].astype(object))
        unknown = float(sums["share"][(sums["line"] == BETWEEN).fillna(value=True)].sum())  # or without a line
        for function in sorted({function for function, _ in truth.values()}):
            names = set(lines(launches)[(told == function).to_numpy(bool) & is_told])
            share, error = (float(of_line.loc[list(names), name].sum()) for name in ("share", "share_error"))
            true = times[is_planted & (functions == function).to_numpy(bool)].sum() / times.sum()
            covered.append(abs(true - share) <= (error if names else unknown))
    return Judged(
        right / max(int(times[is_told].sum()), 1), {str(how): int(n) for how, n in known.items() if n}, all(covered)
    )


def planted(cells: Cells, where: str, us: int, way: str, seconds: float = _SECONDS) -> Judged:
    """Run two planted functions in turn, and judge their lines.

    Parameters
    ----------
    cells
        The shell, with an array ``x``.
    where
        ``cell``, ``file`` or ``thread``: where the functions are, and what runs them; ``backward``: in the cell, with
        torch and a backward pass.
    us
        What each call takes on the host, in microseconds.
    way
        ``stacks``, ``statements`` or ``samples``: what is recorded of lines.
    seconds
        How long to run.
    """
    functions = _FUNCTIONS
    if where == "backward":
        functions = functions.replace("numpy as np", "torch").replace("np.sin", "torch.tanh")
        functions = functions.replace("np.cos", "torch.sigmoid")
        cells.run("import torch\nfrom npuprof import simulator\nx = torch.ones(64, 64, requires_grad=True)")
    if where == "file":
        (cells.folder / "planted.py").write_text(functions)
        sys.path.insert(0, str(cells.folder))
        try:
            importlib.invalidate_caches()
            sys.modules.pop("planted", None)
            cells.run("from planted import f, g")
        finally:
            sys.path.remove(str(cells.folder))
    else:
        cells.run(functions)
    code = {"thread": _THREAD, "backward": _BACKWARD}.get(where, _LOOP)
    code = code.format(count=max(5, int(seconds * 1e6 / us / 2)), us=us)
    run = cells.profile(code, "--level 1 --stacks" + (" --no-lines --no-steps" if way == "samples" else ""))
    truth = _BACKWARD_TRUTH if where == "backward" else _TRUTH
    right_lines = {name: line for name, (_, line) in truth.items()}
    if way == "statements":
        for name in ("api", "operators"):
            run.tables[name] = run.tables[name].drop(columns="stack", errors="ignore")
        first = 4 if where == "backward" else 3
        right_lines = {name: first + (function == "g") for name, (function, _) in truth.items()}
    return judge(run, right_lines, truth)


def cost_of_frames_ns(frames: int) -> float:
    """Return what it costs to take a stack of so many frames up to the cell, in nanoseconds."""
    stacks = CallStacks("<cell>")
    take = stacks.take
    code = "def call(n):\n    if n > 2: return call(n - 1)\n    return run(take)\n"
    count, best = 20_000, float("inf")

    def run(take: Callable[[int], None]) -> None:
        nonlocal best
        for _ in range(7):
            stacks.calls = type(stacks.calls)("q")
            begin_ns = time.process_time_ns()
            for number in range(count):
                take(number)
            best = min(best, (time.process_time_ns() - begin_ns) / count)

    exec(compile(f"{code}call({frames - 1})", "<cell>", "exec"), {"run": run, "take": take})
    return best


def cost_of_call_ns() -> float:
    """Return what a call of a function that does nothing takes here and now: what other costs compare with."""
    return min(timeit.repeat("f()", "def f(): pass", timer=time.process_time_ns, number=100_000, repeat=7)) / 100_000


def main() -> None:
    """Print the shares, and the costs beside what they are to be at most."""
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # torch_npu may be installed without CANN
    for us in SPENT_US:
        for where in ("cell", "file", "thread", "backward"):
            if where == "backward" and importlib.util.find_spec("torch") is None:
                print(f"{us:5} us, {where}: not measured, since there is no torch")
                continue
            for way in ("stacks", "statements", "samples"):
                if (where, way) == ("thread", "statements"):
                    continue  # the statement of the cell is the join
                with tempfile.TemporaryDirectory() as folder:
                    simulator.reset()
                    cells = Cells(Path(folder))
                    try:
                        cells.run("from npuprof.simulator import npu\nx = npu.ones((64, 64))")
                        judged = planted(cells, where, us, way)
                    finally:
                        cells.magics.uninstall()
                within = "" if judged.is_covered else "; SHARES BEYOND THEIR ERROR"
                how = f"{us:5} us, {where:8}, {way:10}"
                right = (
                    "no line told" if {*judged.known} == {BETWEEN} else f"{judged.right:.2%} of device time is right"
                )
                print(f"{how} {right}; {judged.known}{within}", flush=True)
    three, twelve, call = cost_of_frames_ns(3), cost_of_frames_ns(12), cost_of_call_ns()
    further = (twelve - three) / 9
    print(f"a call of an empty function {call:6.0f} ns, load {os.getloadavg()[0]:.1f}")
    print(f"a stack of three frames {three:6.0f} ns (at most 1,000), {three / call:.1f} calls")
    print(f"each further frame      {further:6.0f} ns (at most 350), {further / call:.1f} calls")


if __name__ == "__main__":
    main()
