"""What ``npuprof.dynamic.step()`` costs a training loop while nothing has changed.

Run by hand: ``python -m tests.benchmarks.bench_dynamic``. The file lies on the local disk of this machine.
"""

from __future__ import annotations

import statistics
import tempfile
import time

from npuprof import dynamic

_STEPS = 20_000
_ROUNDS = 7
_TARGET_US = 20


def main() -> None:
    """Print the median cost of a step over some rounds, and the worst of them."""
    with tempfile.TemporaryDirectory() as folder:
        dynamic.init(folder)
        costs = []
        for _ in range(_ROUNDS):
            start_ns = time.perf_counter_ns()
            for _ in range(_STEPS):
                dynamic.step()
            costs.append((time.perf_counter_ns() - start_ns) / _STEPS / 1e3)
        dynamic.close()
    median, worst = statistics.median(costs), max(costs)
    print(f"dynamic.step() without a change   {median:6.2f} us, worst round {worst:.2f} us (target {_TARGET_US} us)")


if __name__ == "__main__":
    main()
