"""Every find of the campaign (``python -m tests.campaign``) stays mended: its shrunk input is tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npuprof.words.texts import plain_line
from tests.campaign import interrupts
from tests.campaign.fuzz import mutations, oracle, seeds
from tests.campaign.fuzz.run import CORPUS
from tests.campaign.fuzz.trial import Damaged, Trial

_FINDS = [json.loads(line) for path in sorted(CORPUS.glob("*.jsonl")) for line in path.read_text().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("find", _FINDS, ids=lambda find: f"{find['target']}: {find['signature']}"[:80])
def test_a_find_stays_mended(find: dict[str, Any], tmp_path: Path) -> None:
    trial = Trial(find["target"], tmp_path, find["case"])
    damage = mutations.from_json(json.dumps(find["damage"]))
    assert trial.judge(Damaged(find["case"], damage, find["goes_road"])) is None
    assert trial.changed() == []


@pytest.mark.long
@pytest.mark.parametrize("name", seeds.SEEDS)
def test_loading_changes_no_file_and_adds_none(name: str, tmp_path: Path) -> None:
    path = seeds.write(name, tmp_path)
    before = interrupts.content(tmp_path)
    oracle.road(path)
    assert interrupts.content(tmp_path) == before


@pytest.mark.slow
def test_the_campaign_sees_a_crash_and_a_loss(tmp_path: Path) -> None:
    path = seeds.write("text", tmp_path)
    sound = oracle.reader(path)
    assert oracle.judge(oracle.reader, path, sound) is None
    more = oracle.Outcome({"step_times": 99}, sound.warnings)
    assert (find := oracle.judge(oracle.reader, path, more)) is not None
    assert find.kind == "loss"
    assert (find := oracle.judge(lambda _: 1 // 0, path, sound)) is not None  # type: ignore[arg-type,return-value]
    assert find.kind == "crash"


def test_the_campaign_forgives_only_what_is_undetectable() -> None:
    before = b"Name,Count\nAdd,3\nMul,4\n"
    assert mutations.is_untold("a.csv", before, b"Name,Count\nAdd,3\n")
    assert mutations.is_untold("a.csv", before, b"Name,Count\nAddul,4\n")
    assert mutations.is_untold("a.csv", before, None)
    assert not mutations.is_untold("a.csv", before, before.replace(b"3", b"x"))
    assert not mutations.is_untold("a.csv", before, b"Name,Count\nAdd,3\nMu")
    assert not mutations.is_untold("a.slice_0", before, before[:-4])
    assert mutations.has_other_length("a", before, before[1:])
    assert not mutations.has_other_length("a", before, before.replace(b"3", b"x"))


@pytest.mark.slow
def test_the_campaign_sees_what_an_interrupt_harms(tmp_path: Path) -> None:
    done: list[str] = []

    def case(_: Path) -> interrupts.Attempt:
        done.clear()
        return interrupts.Attempt(lambda: done.append(plain_line("a\n")), lambda: [] if done else ["it is lost"])

    tally = interrupts.tried("a line", case, tmp_path / "case")
    assert tally.tried == tally.losses > 0
    assert tally.finds == [f"it is lost (line 0 of {tally.tried})"]
