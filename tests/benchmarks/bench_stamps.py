"""What the stamps of a profiled cell cost: a statement, an iteration, a thinned iteration, and loops as a whole.

Run by hand, on an idle machine: ``python -m tests.benchmarks.bench_stamps``. Costs are CPU time, of the thread that
records too; each is the least of some rounds, in which a loop runs with and without stamps in turn. What all stamps
take of a loop follows from the costs of one; loops as a whole are measured beside that, and vary with other load.
"""

from __future__ import annotations

import ast
import tempfile
import time
from pathlib import Path

from npuprof.clock import SystemClock
from npuprof.lines.recorder import LineRecorder, RunningCell
from tests.lines.stamped import FIRST_LINE, rewritten

_ROUNDS = 7
_PROBE = 200_000
_SPIN = (
    "import time\ndef work(ns):\n    end = time.process_time_ns() + ns\n    while time.process_time_ns() < end: pass\n"
)
_ITERATIONS = {0: 1_000_000, 1_000: 200_000, 20_000: 20_000, 200_000: 2_000, 5_000_000: 100}


def _run(tree: ast.Module) -> int:
    names: dict[str, object] = {}
    codes = [compile(ast.Module([node], []), "<cell>", "exec") for node in tree.body]
    begin_ns = time.process_time_ns()
    for code in codes:
        exec(code, names)
    return time.process_time_ns() - begin_ns


def _loop(count: int, body: str) -> str:
    return f"for i in range({count}):\n    {body}\n"


def cost_ns(body: str, count: int, *, is_on: bool) -> float:
    """Return what stamps add to an iteration of a loop, in nanoseconds: the least of some rounds."""
    code = _loop(count, body)
    plain, stamped = [], []
    for _ in range(_ROUNDS):
        plain.append(_run(ast.parse(FIRST_LINE + code)))
        with rewritten(code) as (tree, stamps):
            stamps.set_flag(0, is_on)
            stamped.append(_run(tree))
    return (min(stamped) - min(plain)) / count


def recording_ns(folder: Path) -> float:
    """Return what the thread that records takes for a stamp, in nanoseconds: the least of some rounds."""
    best = float("inf")
    with rewritten(_loop(2, "pass")) as (_, stamps):
        recorder = LineRecorder(SystemClock(), folder / "stamps.jsonl", RunningCell("<cell>", stamps))
        recorder.start()
        recorder._halt.release()  # its thread ends: what it does is done here
        recorder._thread.join()
        for _ in range(_ROUNDS):
            for number in range(_PROBE // 20):
                stamps.pairs.extend((number % 2, time.monotonic_ns()))
            begin_ns = time.thread_time_ns()
            recorder._look()
            recorder._take({})
            best = min(best, (time.thread_time_ns() - begin_ns) / (_PROBE // 20))
        recorder.stop()
    return best


def _numbers(spent_ns: int) -> int:
    """Return how many numbers are added up in so much time."""
    times = []
    for _ in range(_ROUNDS):
        begin_ns = time.process_time_ns()
        sum(range(_PROBE))
        times.append(time.process_time_ns() - begin_ns)
    return max(1, spent_ns * _PROBE // min(times))


def share(spent_ns: int, folder: Path) -> tuple[float, int]:
    """Return how much longer a loop takes with stamps that are recorded, as a share, and the iterations only counted.

    Parameters
    ----------
    spent_ns
        How long its one statement takes.
    folder
        Where the stamps are written.
    """
    count = _ITERATIONS[spent_ns]
    code = _loop(count, f"sum(range({_numbers(spent_ns)}))" if spent_ns else "pass")
    plain, stamped, counted = [], [], 0
    for number in range(_ROUNDS):
        plain.append(_run(ast.parse(FIRST_LINE + code)))
        with rewritten(code) as (tree, stamps):
            recorder = LineRecorder(SystemClock(), folder / f"{spent_ns}-{number}.jsonl", RunningCell("<cell>", stamps))
            recorder.start()
            stamped.append(_run(tree))
            recorder.stop()
            loop = next(number for number, each in enumerate(stamps.statements) if each.is_loop)
            counted = stamps.counted(loop)
    return min(stamped) / min(plain) - 1, counted


def main() -> None:
    """Print the costs beside what they are to be at most."""
    statement = cost_ns("i; i; i; i; i; i; i; i; i; i", 50_000, is_on=True) / 11
    print(f"a statement          {statement:7.0f} ns (about 300)")
    iteration = cost_ns("pass", 300_000, is_on=True)
    print(f"an iteration         {iteration:7.0f} ns (at most 2,000)")
    print(f"a thinned iteration  {cost_ns('pass', 300_000, is_on=False):7.0f} ns (at most 60)")
    with tempfile.TemporaryDirectory() as folder:
        recorded = recording_ns(Path(folder))
        print(f"a recorded stamp     {recorded:7.0f} ns, on a thread of its own")
        print(f"a loop of one statement of 20 us takes {(iteration + 2 * recorded) / 20_000:.2%} longer (at most 2 %)")
        for spent_ns, count in _ITERATIONS.items():
            longer, counted = share(spent_ns, Path(folder))
            print(
                f"{count:9,} statements of {spent_ns / 1e3:7.1f} us: {longer:+7.2%}, "
                f"{counted:,} iterations counted" + (" (at most 2 %)" if spent_ns >= 20_000 else "")
            )


if __name__ == "__main__":
    main()
