"""Gains of findings come from replays: a machine without what a finding names shows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from npuprof import cli, tables
from npuprof.advice import facts
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_accounting import table
from tests.played import Do, Machine, changed

_US = 1_000
_ENDED = Do("sync", host=1 * _US)
_LAYER = [Do("operator", "aten::linear", 10 * _US), Do("launch", "MatMul", 12 * _US, 200 * _US)]
_PLAIN = [Do("operator", "DataLoader.__next__", 40 * _US), *_LAYER * 4]
_CASES: dict[str, tuple[list[Do], Callable[[Do], Do]]] = {
    "layout_and_casts": (
        [*_PLAIN, *[Do("launch", "Cast", 9 * _US, 70 * _US)] * 4, _ENDED],
        lambda one: replace(one, device=0) if one.name == "Cast" else one,
    ),
    "ai_cpu": (
        [*_PLAIN, Do("launch", "Unique", 9 * _US, 400 * _US), _ENDED],
        lambda one: replace(one, device=10 * _US) if one.name == "Unique" else one,
    ),
    "copies": (
        [*_PLAIN, Do("copy", host=5 * _US, device=300 * _US), _ENDED],
        lambda one: replace(one, device=0) if one.what == "copy" else one,
    ),
    "host_bound": (
        [Do("operator", "DataLoader.__next__", 900 * _US), *_LAYER * 4, _ENDED],
        lambda one: replace(one, host=0),
    ),
}


def run_of(rule: str, steps: int = 3) -> Profile:
    return Machine(latency=4).run([[Do("compile", host=5_000 * _US), *_CASES[rule][0]], *[_CASES[rule][0]] * steps])


def times(run: Profile) -> list[int]:
    return run.tables["steps"]["duration_ns"].tolist()


def with_tables(run: Profile, **given: pd.DataFrame) -> Profile:
    return Profile(Decoded({**run.tables, **given}, factories.info(), Notes()))


@pytest.mark.slow
@pytest.mark.parametrize("rule", _CASES)
def test_gain_shortens_the_step(rule: str) -> None:
    found = run_of(rule).advice()[rule]
    program, without = _CASES[rule]
    better = Machine(latency=4).run(changed([program] * 4, without))
    gain = np.mean(times(run_of(rule))[1:]) - np.mean(times(better)[1:])
    assert found.gain_hi_ns == pytest.approx(gain, rel=0.1)
    certain = rule != "layout_and_casts"  # some casts are needed, as those of master weights
    assert (found.gain_lo_ns, found.confidence) == ((found.gain_hi_ns, "measured") if certain else (0, "bounded"))
    # The first step is no part of it: it compiles for 5 ms.
    assert found.gain_hi_ns < 2_000 * _US


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtypes", "surely"),
    [
        ((("FLOAT16", "FLOAT"), ("FLOAT", "FLOAT16"), ("FLOAT16", "INT8"), ("FLOAT16", "FLOAT")), 2),  # there and back
        ((("FLOAT16", "FLOAT"), ("FLOAT", "INT8"), ("FLOAT", "FLOAT16"), ("INT8", "FLOAT")), 0),
        ((("FLOAT", "FLOAT"),) * 4, 0),  # copies that change nothing
    ],
)
def test_undone_casts_are_surely_needless(dtypes: tuple[tuple[str, str], ...], surely: int) -> None:
    run = run_of("layout_and_casts")
    kernels = run.kernels.assign(input_shapes="8,8;9", output_shapes="8,8", input_formats="ND", output_formats="ND")
    cast = (kernels["op_type"] == "Cast").to_numpy(bool)
    for side, which in (("input", 0), ("output", 1)):
        names = np.full(len(kernels), "BOOL", object)
        names[cast] = np.tile([pair[which] for pair in dtypes], cast.sum() // 4)
        kernels[f"{side}_dtypes"] = names
    found = with_tables(run, kernels=kernels).advice()["layout_and_casts"]
    assert found.gain_lo_ns == pytest.approx(found.gain_hi_ns * surely / 4, rel=0.02)
    assert found.gain_hi_ns > 0


@pytest.mark.slow
def test_kernels_that_hide_behind_the_host_gain_nothing() -> None:
    late = [part for one in _LAYER for part in (Do("operator", "aten::add", 500 * _US), one)]
    found = Machine().run([[*late * 4, *[Do("launch", "Cast", 9 * _US, 9 * _US)] * 20, late[0], _ENDED]]).advice()
    cast = found["layout_and_casts"]
    assert (cast.state, cast.gain_hi_ns) == ("fires", 0)
    assert cast.cost_ns == 180 * _US
    assert cast.rule not in [one.rule for one in found]


@pytest.mark.slow
def test_recorded_stacks_make_host_time_a_bound() -> None:
    run = run_of("host_bound")
    slowed = with_tables(run, python=table("python", [(0, 10)], thread_id=100))
    measured, bounded = run.advice()["host_bound"], slowed.advice()["host_bound"]
    assert (bounded.gain_lo_ns, bounded.confidence) == (0, "bounded")
    assert bounded.gain_hi_ns == measured.gain_hi_ns
    assert run_of("ai_cpu").advice()["ai_cpu"].gain_lo_ns > 0


@pytest.mark.slow
def test_gains_of_a_run_that_cannot_be_played_again_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("ai_cpu")
    collective = table("communication", [(0, 10)])
    early = run.tables["kernels"].assign(start_ns=run.tables["kernels"]["start_ns"] - 2 * 10**9)
    unlinked = with_tables(run_of("host_bound"), links=tables.empty("links"))
    for other, rule in (
        (with_tables(run, communication=collective), "ai_cpu"),  # its other ranks decide how long it takes
        (with_tables(run, kernels=early), "ai_cpu"),
        (unlinked, "host_bound"),  # what the host launched is not known
    ):
        found = other.advice()[rule]
        assert (found.gain_lo_ns, found.gain_hi_ns, found.confidence) == (0, found.cost_ns, "bounded")
    monkeypatch.setattr(facts, "_MOST_TASKS", 3)
    assert run_of("ai_cpu").advice()["ai_cpu"].confidence == "bounded"


@pytest.mark.slow
def test_gate_on_gains_needs_the_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = _CASES["copies"][0]
    steps = [
        [replace(one, device=size * _US) if one.what == "copy" else one for one in plain]
        for size in (200, 400, 250, 350, 200, 400, 300, 300)
    ]
    run = Machine(latency=4).run([[Do("compile", host=5_000 * _US), *plain], *steps])
    found = run.advice()["copies"]
    assert (found.confidence, len(set(found.gains_ns)) > 2) == ("measured", True)
    share = 100 * found.gain_hi_ns / run.advice().step_ns
    path = str(run.save(tmp_path / "run"))
    assert [cli.main(["advise", path, "--fail-on", f"{limit}%"]) for limit in (share / 2, share, 1.5 * share)] == [
        3,
        4,
        0,
    ]
    assert "the 95 % interval over the steps contains" in capsys.readouterr().err
