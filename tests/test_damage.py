"""A short form of the damage campaign: recordings that the tests write say what was taken from them.

``python -m tests.campaign.damage`` tries every damage, of published results too, and
``python -m tests.campaign.damage.physical`` what no device can have done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.damage import physical
from tests.campaign.damage.invariants import contradictions
from tests.campaign.damage.kinds import damages
from tests.campaign.damage.recordings import GENERATED
from tests.campaign.damage.trial import load, trials
from tests.sources.kineto.traces import KinetoTrace

_FEW = 12
_DAMAGES = {
    "trace of torch": "rows deleted",
    "text of a simulated job": "deleted|gone|emptied|repeated",
    "raw data of the simulator": "deleted|gone|emptied|zeroed|repeated|clock",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "trace of torch" else pytest.mark.long) for name in _DAMAGES]
)
def test_no_figure_of_a_damaged_recording_is_wrong_without_a_note(tmp_path: Path, name: str) -> None:
    verdicts = list(trials(name, GENERATED[name], tmp_path, _DAMAGES[name], _FEW))
    assert len(verdicts) >= _FEW // 2
    assert {one.outcome for one in verdicts} >= {"told"}
    assert [one for one in verdicts if one.outcome in ("silent", "crash")] == []


@pytest.mark.slow
def test_physical_damage_moves_no_figure_in_silence() -> None:
    verdicts = [*physical.trials(range(1), "trace of a loop", "tail|doubled|zeroed|merged")]
    assert len(verdicts) >= 8
    assert sum(one.outcome == "told" for one in verdicts) >= 4
    assert [one for one in verdicts if physical.is_find(one)] == []


@pytest.mark.exhaustive
def test_no_seed_of_physical_damage_is_silent() -> None:
    assert [one for one in physical.trials(range(20)) if physical.is_find(one)] == []


def _without_numbers(folder: Path) -> Path:
    """Write a trace whose steps nothing else tells."""
    folder.mkdir(parents=True)
    trace = KinetoTrace()
    for step in range(3):
        trace.slice("user_annotation", f"ProfilerStep#{step}", 100 * step, 100)
        trace.operator("aten::mm", 100 * step + 10, 50, 10 + step)
    return trace.write(folder / "trace.json")


def test_a_silent_figure_is_found(tmp_path: Path) -> None:
    (silent,) = trials("a trace", _without_numbers, tmp_path, "all.*annotation")
    assert silent.outcome == "silent"
    assert any(figure.startswith("rows of steps") for figure in silent.figures)


def test_every_damage_changes_the_copy_and_leaves_the_recording(tmp_path: Path) -> None:
    path = GENERATED["trace of torch"](tmp_path / "sound")
    before = path.read_bytes()
    for number, damage in enumerate(damages(path)):
        copy = tmp_path / f"{number}.json"
        copy.write_bytes(before)
        damage.apply(copy)
        assert not copy.exists() or copy.read_bytes() != before
    assert path.read_bytes() == before
    assert not contradictions(load(path))
