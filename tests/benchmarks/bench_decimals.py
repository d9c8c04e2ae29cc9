"""Decimal text to exact integers: :func:`scaled` beside python's Decimal, text by text.

By hand: ``python -m tests.benchmarks.bench_decimals [--rows 200000] [--runs 3]``

`aligned` are stamps of one length, `ragged` durations of many lengths with up to six decimal places, which are rounded,
and `odd` the same with an exponent in every thousandth. Times are of the process, the fastest of several runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

from npuprof.sources.columns.decimals import US_TO_NS, scaled


def by_decimal(texts: list[str]) -> list[int]:
    """Return the nanoseconds of microseconds, one text after another."""
    return [int((Decimal(text) * US_TO_NS).quantize(Decimal(1), rounding=ROUND_HALF_UP)) for text in texts]


def columns(rows: int) -> dict[str, list[str]]:
    """Return the texts of each kind."""
    ragged = [f"{row * 7919 % 10 ** (row % 9 + 1)}.{row % 10 ** (row % 6 + 1)}" for row in range(rows)]
    return {
        "aligned": [f"{1_763_600_000_000_000 + row}.{row % 1000:03d}" for row in range(rows)],
        "ragged": ragged,
        "odd": ["1e-05" if row % 1000 == 0 else text for row, text in enumerate(ragged)],
    }


def fastest(work: Callable[[], object], runs: int) -> float:
    """Return the processor seconds of the fastest run."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    """Print a line for each kind of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    for kind, texts in columns(chosen.rows).items():
        assert scaled(texts, US_TO_NS)[0].tolist() == by_decimal(texts)
        ours = fastest(partial(scaled, texts, US_TO_NS), chosen.runs)
        theirs = fastest(partial(by_decimal, texts), chosen.runs)
        print(f"{kind:8} {ours * 1e3:8.1f} ms, Decimal {theirs * 1e3:8.1f} ms, {theirs / ours:5.1f} times faster")


if __name__ == "__main__":
    main()
