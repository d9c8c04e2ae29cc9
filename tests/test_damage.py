"""A short form of the damage campaign: recordings that the tests write say what was taken from them.

``python -m tests.campaign.damage`` tries every damage, of published results too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

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
