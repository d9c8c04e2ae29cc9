"""The report of a difference: its verdict, the way from one step to the other, and how it names both sides."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from tests.difference.runs import BASE, STEP_NS, noisy, profile, run
from tests.report.elements import HOSTILE, Elements

_MODEL = [("MatMul", "64,64", 600_000), ("Add", "64", 150_000), ("Cast", "64", 50_000)]


def _steps(made: Profile, lengths: list[int]) -> Profile:
    """Return a run whose kernels are those of `made`, in steps of other lengths."""
    times = np.append(np.asarray(lengths, np.int64), 1)
    starts = BASE + np.cumsum(times) - times
    moved = (made.steps["start_ns"].to_numpy(np.int64) - starts)[:-1].repeat(len(made.kernels) // len(lengths))
    kernels = made.kernels.assign(start_ns=made.kernels["start_ns"] - moved)
    return profile({"kernels": kernels, "steps": made.steps.assign(start_ns=starts, duration_ns=times)})


@pytest.mark.slow
def test_interval_of_much_longer_steps_is_in_times() -> None:
    lengths = [20_000_000, 20_400_000, 19_600_000, 20_100_000, 19_900_000, 20_200_000, 19_800_000, 20_000_000]
    sides = [_steps(run([_MODEL] * 8), [length // by for length in lengths]) for by in (1, 10)]
    found = re.search(r"95 % interval ([\d.]+) to ([\d.]+) times\.", " ".join(str(sides[0] - sides[1]).split()))
    assert found is not None
    assert float(found[1]) < 10 < float(found[2])


def _times(text: str) -> list[float]:
    """Return the figures of a waterfall in nanoseconds, in order."""
    units = {"ns": 1, "µs": 1_000, "ms": 1_000_000, "s": 10**9}
    found = re.findall(r"  ([+−]?)([\d.,]+) (ns|µs|ms|s)  ", text)
    return [(-1 if sign == "−" else 1) * float(size.replace(",", "")) * units[unit] for sign, size, unit in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("now", "before", "verdict"),
    [
        ([1_000_000] * 8, [2_000_000] * 8, "50 % faster"),
        ([3_000_000] * 8, [2_000_000] * 8, "50 % slower"),
        ([9_000_000] * 8, [2_000_000] * 8, "4.5 times as long"),
        ([1_000_000] * 8, [1_000_000] * 8, "As long as before"),
        ([1_000_000], [2_000_000], "50 % faster"),
    ],
)
def test_says_how_much_faster(now: list[int], before: list[int], verdict: str) -> None:
    sides = [_steps(run([_MODEL] * len(times)), times) for times in (now, before)]
    said = str(sides[0] - sides[1])
    assert verdict in said
    assert Elements((sides[0] - sides[1])._repr_html_()).text.count(verdict) == 1
    assert ("Too few steps" in said) == (len(now) == 1 and now != before)
    assert ("95 % interval" in said) == (len(now) > 1 and now != before)


@pytest.mark.slow
def test_does_not_call_noise_faster() -> None:
    random = np.random.default_rng(4)
    lengths = [[2_000_000 + int(random.normal(0, 150_000)) for _ in range(10)] for _ in range(2)]
    made = run([_MODEL] * 10)
    said = " ".join(str(_steps(made, lengths[0]) - _steps(made, lengths[1])).split())
    assert "No clear difference: " in said
    assert "but the steps vary as much" in said


@pytest.mark.slow
def test_waterfall_adds_up(samples: Path) -> None:
    random = np.random.default_rng(2)
    fast, slow = (run(noisy(_MODEL, 6, random, slower=("MatMul", factor))) for factor in (0.5, 1.0))
    odd = profile({"kernels": fast.kernels})
    real = [samples / "torch_npu/text" / level / "rank0_ascend_pt" for level in ("level1", "level0")]
    for difference in (fast - slow, slow - fast, odd - slow, npuprof.compare(*real)):
        first, *changes, last = _times(str(difference))
        assert first == pytest.approx(difference.b_ns, rel=0.01)
        assert last == pytest.approx(difference.a_ns, rel=0.01)
        assert first + sum(changes) == pytest.approx(last, abs=0.02 * (first + sum(map(abs, changes))))


@pytest.mark.slow
def test_names_the_kernel_that_changed() -> None:
    random = np.random.default_rng(2)
    steps = [noisy(_MODEL, 6, random, noise=0.001, slower=("MatMul", factor)) for factor in (0.5, 1.0)]
    fast, slow = (_steps(run(each), [sum(time for *_, time in step) + 100_000 for step in each]) for each in steps)
    said = " ".join(str(fast - slow).split())
    assert "faster: `MatMul 64,64` takes less time." in said
    assert "slower: `MatMul 64,64` takes more time." in " ".join(str(slow - fast).split())


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ({"name": "new"}, {"name": "old"}, ("new", "old")),
        ({"name": "x", "options": {"name": "x"}, "code": {"<cell [4]>": "y"}}, {}, ("x", "run")),
        (
            {"name": "train", "options": {"name": "train"}, "code": {"<cell [4]>": "y"}},
            {"name": "train", "options": {"name": "train"}, "code": {"<cell [2]>": "y"}},
            ("train, In [4]", "train, In [2]"),
        ),
        ({"code": {"<cell [4]>": "y"}}, {"code": {"<cell [2]>": "y"}}, ("In [4]", "In [2]")),
        (
            {"name": "x", "started_ns": 1_763_600_000_000_000_000},
            {"name": "x", "started_ns": 1_763_600_060_000_000_000},
            ("x, 2025-11-20 00:53:20", "x, 2025-11-20 00:54:20"),
        ),
        ({"name": "x"}, {"name": "x"}, ("x, a", "x, b")),
    ],
)
def test_both_sides_have_different_names(a: dict[str, Any], b: dict[str, Any], names: tuple[str, str]) -> None:
    sides = [run([[("A", "1", 10)]] * 2, **{"name": "", **about}) for about in (a, b)]
    assert (sides[0] - sides[1]).names == names


@pytest.mark.slow
def test_hostile_and_long_names_stay_text() -> None:
    long = "N" * 10_000
    a = run([[(f"{HOSTILE}\u05d0\u202e", "8", 100), (long, "8", 900)]] * 3, name=HOSTILE)
    b = run([[("A", "8", 100)]] * 3, name=long)
    shown = Elements((a - b)._repr_html_())
    assert "script" not in shown.tags
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    assert max(map(len, str(a - b).splitlines())) < 300


@pytest.mark.slow
def test_folds_what_is_not_the_answer() -> None:
    page = (run([_MODEL] * 5) - run([[*_MODEL, ("Mul", "8", STEP_NS // 10)]] * 5))._repr_html_()
    folds = re.findall(r'npuprof-summary">([^<]+)<', page)
    assert folds == ["Every row, tested for noise", "Flame graph of the difference", "Both timelines", "All numbers"]
    top = Elements(page.partition("npuprof-more")[0]).text
    assert len(top.split()) < 120
    assert "tested" not in top


@pytest.mark.slow
def test_a_single_outlier_is_no_progress() -> None:
    made = run([_MODEL] * 10)
    now, before = (
        [2_000_000 + 1_000 * (step % 3) for step in range(10)],
        [2_001_000 - 500 * (step % 4) for step in range(10)],
    )
    before[5] = 40_000_000
    said = " ".join(str(_steps(made, now) - _steps(made, before)).split())
    assert re.search(r"No clear difference: \d+ % faster, but by single outliers\. Without single outliers", said)
    assert re.search(r"95 % interval [−+][\d.]+ to [−+][\d.]+ %", said)


_USUAL = {
    "both faster": ([82, 83, 81, 82], [1000, 1010, 1020, 7600], "The usual step is 92 % faster"),
    "other ways": ([950, 960, 940, 2900], [1000, 1010, 1020, 990], "The usual step is 5.5 % faster"),
    "an outlier now": (
        [500, 505, 502, 507, 503, 2500],
        [520, 522, 519, 521, 520, 523],
        "The usual step is 3.3 % faster",
    ),
    "mostly the usual step": ([82] * 4, [1990, 2100, 2050, 4500], "97 % faster"),
    "an outlier alone": ([1000, 1004, 1001, 1003], [1002, 1001, 1003, 9000], "No clear difference"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _USUAL)
def test_outliers_hide_no_change_of_the_usual_step(name: str) -> None:
    now, before, verdict = _USUAL[name]
    sides = []
    for times in (now, before):
        lengths = [1_000 * each for each in (times[0], *times)]  # the first step of a run is left out
        sides.append(_steps(run([_MODEL] * len(lengths)), lengths))
    said = " ".join(str(sides[0] - sides[1]).split())
    assert f"{verdict}: " in said
    assert "95 % interval" in said


@pytest.mark.slow
def test_says_that_single_runs_tell_nothing_of_runs() -> None:
    random = np.random.default_rng(8)

    def made(mean: float) -> Profile:
        lengths = [int(random.normal(mean, 20_000)) for _ in range(9)]
        return _steps(run([_MODEL] * 9), lengths)

    one, other = made(1_000_000), made(1_500_000)
    several = [made(random.normal(1_000_000, 20_000)) for _ in range(5)]
    unknown = "Variation between runs is unknown"
    assert unknown in " ".join(str(npuprof.compare(other, one)).split())
    for sides in ((other, several), (several, other), ([other, made(1_500_000)], several)):
        said = " ".join(str(npuprof.compare(*sides)).split())
        assert re.search(r"(slower|faster): .*95 % interval", said)
        assert unknown not in said
