"""How often intervals hold the truth, and verdicts of noise are right: simulated times, and steps of real runs.

    python -m tests.benchmarks.bench_noise [DRAWS]

Prints tables of Markdown, which `notebooks/reference/compare.md` shows. Real runs need the samples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from npuprof.noise.model import LEVEL, Estimate, Floats, difference, mean
from npuprof.noise.ratios import ratios
from npuprof.noise.rows import levels, significant
from tests.samples import FOLDER

_DRAWS = 4_000
_SOURCES = {
    "steps": {"step": 2.0},
    "ranks": {"rank": 2.0},
    "each time": {"rest": 2.0},
    "all three": {"step": 2.0, "rank": 2.0, "rest": 2.0},
}
_SIZES = ((3, 3), (8, 4), (8, 9), (64, 4))
_REAL = "msprof/cann6_graph_mode"


def main() -> None:
    """Print the tables."""
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else _DRAWS
    random = np.random.default_rng(2024)
    sets = ("ranks x steps", "noise of", "95 % interval holds the mean", "paired false alarms", "unpaired")
    one_rank = ("steps", "95 % interval holds the difference", "autocorrelation 0.3: false alarms", "0.7")
    for title, headings, rows in (
        ("Sets of ranks", sets, _sets(random, draws)),
        ("One rank", one_rank, _one_rank(random, draws)),
        ("Power", ("case", "found"), _power(random, draws)),
        ("Steps of a real run", ("split", "pairs", "with any significant row"), _real(random)),
    ):
        print(f"\n**{title}**\n\n| {' | '.join(headings)} |\n|{'---|' * len(headings)}")
        for row in rows:
            print(f"| {' | '.join(row)} |")


def _times(
    random: np.random.Generator, draws: int, ranks: int, steps: int, step: float = 0, rank: float = 0, rest: float = 0
) -> Floats:
    made: Floats = (
        100
        + rank * random.standard_normal((draws, ranks, 1))
        + step * random.standard_normal((draws, 1, steps))
        + rest * random.standard_normal((draws, ranks, steps))
    )
    return made


def _held(estimate: Estimate, truth: float) -> str:
    low, high = estimate.bounds()
    return f"{100 * ((low <= truth) & (truth <= high)).mean():.1f} %"


def _alarms(estimate: Estimate) -> str:
    return f"{100 * (estimate.p_values() <= LEVEL).mean():.1f} %"


def _sets(random: np.random.Generator, draws: int) -> Iterator[tuple[str, ...]]:
    for ranks, steps in _SIZES:
        for name, noise in _SOURCES.items():
            apart = [_times(random, draws, ranks, steps, **noise) for _ in range(2)]
            # The same ranks on both sides have the same effects.
            of_ranks = noise.get("rank", 0.0) * random.standard_normal((draws, ranks, 1))
            rest = {key: value for key, value in noise.items() if key != "rank"}
            same = [_times(random, draws, ranks, steps, **rest) + of_ranks for _ in range(2)]
            paired = _alarms(difference(same[0], same[1], paired=True))
            unpaired = _alarms(difference(apart[0], apart[1], paired=False))
            yield f"{ranks} x {steps}", name, _held(mean(apart[0]), 100), paired, unpaired


def _one_rank(random: np.random.Generator, draws: int) -> Iterator[tuple[str, ...]]:
    for counts in ((2, 2), (3, 3), (5, 5), (9, 9), (2, 9), (20, 20), (50, 50)):
        cells = []
        for correlation in (0.0, 0.3, 0.7):
            sides = [_dependent(random, draws, steps, correlation) for steps in counts]
            # One quantity at a time: a report of many would tell the autocorrelation better.
            pairs = zip(sides[0], sides[1], strict=True)
            each = [difference(a[None], b[None], paired=False) for a, b in pairs]
            columns = [np.concatenate([getattr(one, key) for one in each]) for key in ("value", "error", "freedom")]
            whole = Estimate(columns[0], columns[1], columns[2])
            cells.append(_held(whole, 0) if correlation == 0 else _alarms(whole))
        yield " against ".join(map(str, counts)), *cells


def _dependent(random: np.random.Generator, draws: int, steps: int, correlation: float) -> Floats:
    noise: Floats = random.standard_normal((draws, 1, steps))
    for step in range(1, steps):
        noise[..., step] = correlation * noise[..., step - 1] + np.sqrt(1 - correlation**2) * noise[..., step]
    return 100 + noise


def _power(random: np.random.Generator, draws: int) -> Iterator[tuple[str, str]]:
    stages = np.tile([0.0, 10.0, 20.0, 40.0], 2)[None, :, None]
    sides = [(_times(random, draws, 8, 4, step=1, rest=1) + stages) * by for by in (1.05, 1.0)]
    yield (
        "stages of 100, 110, 120 and 140 ms, all 5 % slower, 8 ranks x 4 steps: paired",
        _alarms(difference(*sides, paired=True)),
    )
    yield "the same, unpaired", _alarms(difference(*sides, paired=False))
    found = {"ratio": 0, "time": 0, "another row": 0}
    reports = max(draws // 20, 20)
    usual = random.uniform(50, 150, (100, 1, 1))
    for _ in range(reports):
        a, b = (_report(random, usual, slower) for slower in (1.03, 1.0))
        for name, estimate in (
            ("ratio", ratios(a, b, np.zeros(100, np.int64), paired=False).rows),
            ("time", difference(a, b, paired=False)),
        ):
            p_values = estimate.p_values()
            mask = significant(p_values, levels(p_values, (a + b).mean(axis=(1, 2)), level=LEVEL / 2))
            found[name] += int(mask[0])
            found["another row"] += int(name == "ratio" and mask[1:].any())
    for name, text in (
        ("ratio", "an operator 3 % slower, steps vary by 3 % together, rows by 1 %, 9 steps, 100 rows: by its ratio"),
        ("time", "the same by its time"),
        ("another row", "reports of it with an innocent row"),
    ):
        yield text, f"{100 * found[name] / reports:.0f} %"


def _report(random: np.random.Generator, usual: Floats, slower: float) -> Floats:
    together = 0.03 * random.standard_normal((1, 1, 9)) + 0.01 * random.standard_normal((1, 1, 9))
    made: Floats = usual * np.exp(together + 0.01 * random.standard_normal((100, 1, 9)))
    made[0] *= slower
    return made


def _real(random: np.random.Generator) -> Iterator[tuple[str, str, str]]:
    if not (FOLDER / _REAL).is_dir():
        yield "no samples", "", ""
        return
    import npuprof

    steps = npuprof.load(FOLDER / _REAL).steps["step"].dropna().astype(int).tolist()
    half = len(steps) // 2
    for name, splits in (
        ("at random", [random.permutation(steps).tolist() for _ in range(20)]),
        ("contiguous halves", [steps]),
    ):
        found = sum(_differs(split[:half], split[half:]) for split in splits)
        yield f"{_REAL}, {len(steps)} steps, {name}", str(len(splits)), str(found)


def _differs(first: list[int], second: list[int]) -> bool:
    import npuprof

    sides: list[Any] = [npuprof.load(FOLDER / _REAL, steps=sorted(side)) for side in (first, second)]
    return bool(len((sides[0] - sides[1]).significant))


if __name__ == "__main__":
    main()
