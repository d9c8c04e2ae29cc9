"""Every find of the campaign (``python -m tests.campaign``) stays mended: its shrunk input is tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npuprof.texts import plain_line
from tests.campaign import interrupts
from tests.campaign.fuzz import mutations, oracle, seeds
from tests.campaign.fuzz.run import CORPUS

_FINDS = [json.loads(line) for path in sorted(CORPUS.glob("*.jsonl")) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("find", _FINDS, ids=lambda find: f"{find['format']}: {find['signature']}"[:80])
def test_a_find_stays_mended(find: dict[str, Any], tmp_path: Path) -> None:
    path = seeds.write(find["format"], tmp_path)
    sound = oracle.load(path)
    mutations.apply(tmp_path / "content", mutations.from_json(json.dumps(find["mutations"])))
    assert oracle.judge(path, sound) is None


@pytest.mark.parametrize("name", seeds.SEEDS)
def test_loading_changes_no_file_and_adds_none(name: str, tmp_path: Path) -> None:
    path = seeds.write(name, tmp_path)
    before = interrupts.content(tmp_path)
    oracle.load(path)
    assert interrupts.content(tmp_path) == before


def test_the_campaign_sees_a_crash_and_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = seeds.write("file step_trace_time.csv", tmp_path)
    sound = oracle.load(path)
    assert oracle.judge(path, sound) is None
    more = oracle.Outcome({"step_times": 99}, sound.warnings)
    assert (find := oracle.judge(path, more)) is not None
    assert find.kind == "loss"
    monkeypatch.setattr(oracle, "load", lambda _: 1 // 0)
    assert (find := oracle.judge(path, sound)) is not None
    assert find.kind == "crash"


def test_the_campaign_sees_what_an_interrupt_harms(tmp_path: Path) -> None:
    done: list[str] = []

    def case(_: Path) -> interrupts.Attempt:
        done.clear()
        return interrupts.Attempt(lambda: done.append(plain_line("a\n")), lambda: [] if done else ["it is lost"])

    tally = interrupts.tried("a line", case, tmp_path / "case")
    assert tally.tried == tally.losses > 0
    assert tally.finds == [f"it is lost (line 0 of {tally.tried})"]
