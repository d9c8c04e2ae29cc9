"""What npuprof's markers cost a program while nothing is collected.

Run by hand: ``python -m tests.benchmarks.bench_markers``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import npuprof

_CALLS = 50_000
_ROUNDS = 7
_TARGET_US = 2


def _mark() -> None:
    npuprof.mark("tick", "data")


def _start_and_end() -> None:
    npuprof.range_end(npuprof.range_start("load"))


def _push_and_pop() -> None:
    npuprof.push("load")
    npuprof.pop()


def _block() -> None:
    with npuprof.range("forward"):
        pass


@npuprof.range("forward")
def _decorated() -> None:
    pass


def cost_us(call: Callable[[], None]) -> tuple[float, float]:
    """Return the median and the worst over some rounds of what a call costs, in microseconds."""
    costs = []
    for _ in range(_ROUNDS):
        start_ns = time.perf_counter_ns()
        for _ in range(_CALLS):
            call()
        costs.append((time.perf_counter_ns() - start_ns) / _CALLS / 1e3)
    return statistics.median(costs), max(costs)


def main() -> None:
    """Print what each form of marker costs; a pair of calls counts as one."""
    forms = {"mark": _mark, "range_start and range_end": _start_and_end, "push and pop": _push_and_pop}
    forms |= {"with range(...)": _block, "@range(...)": _decorated}
    for name, call in forms.items():
        median, worst = cost_us(call)
        print(f"{name:26} {median:6.2f} us, worst round {worst:.2f} us (target {_TARGET_US} us)")


if __name__ == "__main__":
    main()
