"""What the stamps of a profiled cell cost: a statement, an iteration, a thinned iteration, and loops as a whole.

Run by hand, on an idle machine: ``python -m tests.benchmarks.bench_stamps``. Costs are CPU time, of the thread that
records too; each is the least of some rounds, in which a loop runs with and without stamps in turn. Loops as a whole
are measured in pairs of runs, one right after the other, so that other load falls on both.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from types import CodeType

from npuprof.lines.cell_stamps import RunningCell
from npuprof.lines.recorder import LineRecorder
from npuprof.lines.stamps import now
from npuprof.recordings.clock import SystemClock
from tests.benchmarks.bench_lines import cost_of_call_ns
from tests.lines.stamped import plain_codes, stamped_codes

_ROUNDS = 7
_PROBE = 200_000
_WARM = 200
_RUN_NS = 100_000_000  # of a loop; the thread that records takes about a millisecond of it, however few its stamps
_LONG_RUN_NS = 1_000_000_000
_PAIRS = 25
_SPENT_NS = (0, 1_000, 10_000, 20_000, 40_000, 200_000, 5_000_000)


def _run(codes: list[CodeType], warm: Callable[[], object] = int) -> int:
    def flips() -> Iterator[int]:
        warm()
        yield 0

    # A loop is thinned after some iterations, when its code has been adapted to what it does.
    names: dict[str, object] = {"items": lambda count: chain(range(_WARM), flips(), range(count))}
    begin_ns = time.process_time_ns()
    for code in codes:
        exec(code, names)
    return time.process_time_ns() - begin_ns


def _loop(count: int, body: str) -> str:
    return f"for i in items({count}):\n    {body}\n"


def cost_ns(body: str, count: int, *, is_on: bool) -> float:
    """Return what stamps add to an iteration of a loop, in nanoseconds: the least of some rounds."""
    code = _loop(count, body)
    plain, stamped = [], []
    for _ in range(_ROUNDS):
        plain.append(_run(plain_codes(code)))
        codes, stamps = stamped_codes(code)
        stamped.append(_run(codes, partial(stamps.turn, 0, on=is_on)))
    return (min(stamped) - min(plain)) / count


def recording_ns(folder: Path) -> float:
    """Return what the thread that records takes for a stamp, in nanoseconds: the least of some rounds."""
    best = float("inf")
    _, stamps = stamped_codes(_loop(2, "pass"))
    recorder = LineRecorder(SystemClock(), folder / "stamps.jsonl", RunningCell("<cell>", stamps))
    recorder.start()
    recorder._halt.release()  # its thread ends: what it does is done here
    recorder._thread.join()
    for _ in range(_ROUNDS):
        for number in range(_PROBE // 20):
            stamps.times[number % 2].append(now())
        begin_ns = time.thread_time_ns()
        recorder._look()
        recorder._take({})
        best = min(best, (time.thread_time_ns() - begin_ns) / (_PROBE // 20))
    recorder.stop()
    return best


def _bytes(spent_ns: int) -> int:
    """Return how many bytes are added up in so much time.

    Bytes are integers that exist already: a loop that makes new ones takes 5 % more or less by where the allocator has
    room for them, which stamps move.
    """
    times, data = [], bytes(_PROBE)
    for _ in range(_ROUNDS):
        begin_ns = time.process_time_ns()
        sum(data)
        times.append(time.process_time_ns() - begin_ns)
    return max(1, spent_ns * _PROBE // min(times))


@dataclass(frozen=True)
class Share:
    """How much longer loops take with stamps that are recorded.

    Attributes
    ----------
    longer
        As a share of the CPU time without stamps: the median of pairs of runs, one right after the other.
    error
        The standard error of that median.
    recording
        What the thread that records takes of it.
    counted
        The share of iterations that were only counted.
    """

    longer: float
    error: float
    recording: float
    counted: float


def share(spent_ns: int, statements: int, folder: Path, run_ns: int = _RUN_NS, pairs: int = _PAIRS) -> Share:
    """Run a loop with and without stamps in turn.

    Parameters
    ----------
    spent_ns
        How long a statement takes.
    statements
        How many are in the body of the loop.
    folder
        Where the stamps are written.
    run_ns
        How long the loop takes.
    pairs
        How many runs of both.
    """
    body = "sum(data)" if spent_ns else "pass"
    count = max(10, run_ns // max(spent_ns * statements, 60))
    code = f"data = bytes({_bytes(spent_ns)})\n" + _loop(count, "; ".join([body] * statements))
    ratios, of_recording, counted = [], [], 0
    for number in range(pairs):
        codes, stamps = stamped_codes(code)
        path = folder / f"{spent_ns}-{statements}-{run_ns}-{number}.jsonl"
        recorder = LineRecorder(SystemClock(), path, RunningCell("<cell>", stamps))
        before_ns = _run(plain_codes(code)) if number % 2 else 0
        recorder.start()
        stamped_ns = _run(codes)
        recorder_ns = time.clock_gettime_ns(time.pthread_getcpuclockid(recorder._thread.ident or 0))
        recorder.stop()
        plain_ns = before_ns or _run(plain_codes(code))
        counted += sum(switch.thinned for switch in stamps.switches.values())
        ratios.append(stamped_ns / plain_ns - 1)
        of_recording.append(recorder_ns / plain_ns)
    spread = 1.4826 * median(abs(each - median(ratios)) for each in ratios)
    error = 1.2533 * spread / len(ratios) ** 0.5
    return Share(median(ratios), error, median(of_recording), counted / (pairs * count))


def main() -> None:
    """Print the costs beside what they are to be at most."""
    call = cost_of_call_ns()
    print(f"a call of an empty function {call:.0f} ns, load {os.getloadavg()[0]:.1f}")
    statement = cost_ns("i; i; i; i; i; i; i; i; i; i", 50_000, is_on=True) / 11
    print(f"a statement          {statement:7.0f} ns (about 300), {statement / call:.1f} calls")
    iteration = cost_ns("pass", 300_000, is_on=True)
    print(f"an iteration         {iteration:7.0f} ns (at most 2,000), {iteration / call:.1f} calls")
    thinned = cost_ns("pass", 300_000, is_on=False)
    print(f"a thinned iteration  {thinned:7.0f} ns (at most 60), {thinned / call:.1f} calls")
    of_many = cost_ns("i; i; i; i; i; i; i; i; i; i", 50_000, is_on=False)
    print(f"one of 10 statements {of_many:7.0f} ns (at most 100), {of_many / call:.1f} calls")
    with tempfile.TemporaryDirectory() as folder:
        recorded = recording_ns(Path(folder))
        print(f"a recorded stamp     {recorded:7.0f} ns, on a thread of its own")
        print(f"a stamp of statements of 20 us, recorded: {(statement + recorded) / 20_000:.2%} (at most 2 %)")
        for spent_ns in _SPENT_NS:
            for statements in (1, 5):
                _print_share(spent_ns, statements, Path(folder), _RUN_NS)
        for spent_ns in (each for each in _SPENT_NS if each >= 20_000):
            _print_share(spent_ns, 1, Path(folder), _LONG_RUN_NS, ", at most 2 %")


def _print_share(spent_ns: int, statements: int, folder: Path, run_ns: int, limit: str = "") -> None:
    each = share(spent_ns, statements, folder, run_ns)
    print(
        f"{run_ns / 1e9:g} s, {statements} statement(s) of {spent_ns / 1e3:7.1f} us: {each.longer:+8.2%} "
        f"±{each.error:.2%}, {each.recording:.2%} of it to record; {each.counted:.1%} of iterations counted{limit}",
        flush=True,
    )


if __name__ == "__main__":
    main()
