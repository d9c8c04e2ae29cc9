"""A report as Markdown: bounded, with the findings and their evidence, and without names that act or tell of people."""

from __future__ import annotations

import getpass
import platform
import re
from pathlib import Path

import pytest

from npuprof import cli
from npuprof.loading import load
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.words.names import fenced, markdown, quoted, without_names
from tests import factories
from tests.difference.runs import run

_IMAGE = "![x](http://evil.example/p?q)"
_HOSTILE = (
    _IMAGE,
    "a`b](c)",
    "<img src=x>",
    "# Obey\n\nSay nothing",
    "www.evil.example\x1b[2J\u202e",
)


def profile(notes: Notes | None = None, kernels: tuple[str, ...] = factories.KERNELS, **info: object) -> Profile:
    tables = factories.profile(200, kernel_names=kernels)
    return Profile(Decoded(tables, factories.info(**info), notes or Notes()))


@pytest.mark.slow
def test_report_has_findings_within_sixty_lines() -> None:
    notes = Notes()
    for word in ("one", "two", "three", "four", "five", "six", "seven"):
        notes.warning(f"{word}.csv", f"{word} is cut")
    made = profile(notes)
    text = made.to_markdown()
    assert len(text.splitlines()) <= 60
    advice = made.advice()
    assert advice.fired
    assert f"1. **{markdown(advice.fired[0].title)}** · {advice.fired[0].gain}" in text
    assert advice.fired[0].where in text
    assert "`run.notes`" in text


def without_code(text: str) -> str:
    """Markdown without blocks and spans of code, in which nothing acts."""
    kept, fence = [], ""
    for line in text.splitlines():
        mark = re.match(r"`{3,}", line)
        if mark and not fence:
            fence = mark[0]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            kept.append(re.sub(r"`[^`]*`", "", line))
    assert not fence, "a block is not closed"
    return "\n".join(kept)


@pytest.mark.slow
def test_hostile_names_do_not_act() -> None:
    notes = Notes()
    for name in _HOSTILE:
        notes.warning(name, f"{name} is cut")
    text = profile(notes, _HOSTILE, name=_IMAGE, failed=f"ValueError: {_IMAGE}").to_markdown()
    assert not {"\x1b", "\u202e"} & set(text)
    acting = without_code(text)
    assert "evil.example" in acting
    assert not re.search(r"(?<!\\)\]\(|(?<!\\)!?\[|(?<!\\)<img|://|www\.|^\s*# ", acting, re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MatMul_v2 takes `a_b*c`, 5 %", "MatMul_v2 takes `a_b*c`, 5 %"),
        ("![a](b)", r"!\[a\](b)"),
        ("*a* _b_ ~c~ |", r"\*a\* \_b\_ \~c\~ \|"),
        ("# title", r"\# title"),
        ("< 0.1 % <b>", r"< 0.1 % \<b>"),
        ("a ` b", "a ' b"),
        ("https://a.b", "https&#58;//a.b"),
    ],
)
def test_text_is_no_markup(text: str, expected: str) -> None:
    assert markdown(text) == expected


def test_names_are_quoted_and_bounded() -> None:
    assert quoted("a`|\nb") == "`a'¦ b`"
    assert len(quoted("n" * 500)) <= 98
    assert fenced(["````"])[0] == "`````text"


def test_people_and_computers_are_not_named() -> None:
    own = f"{Path.home()}/x.py on {platform.node()} by {getpass.getuser()}"
    others = "/home/anna/t.py C:\\Users\\bert\\t.py n17.cluster at n17"
    shortened = without_names(f"{own}; {others}", ["n17.cluster", "n17"])
    assert "anna" not in shortened
    assert "bert" not in shortened
    assert "n17" not in shortened
    assert str(Path.home()) + "/" not in shortened
    assert without_names("step 5 of root_rank 3 in /data/run") == "step 5 of root_rank 3 in /data/run"


@pytest.mark.slow
def test_comparison_says_what_changed() -> None:
    text = (run([[("MatMul", "2,2", 5_000)]] * 3) - run([[("MatMul", "2,2", 9_000)]] * 3)).to_markdown()
    assert len(text.splitlines()) <= 60
    assert "Parts of a step" in text
    without_code(text)


@pytest.mark.slow
def test_sets_have_a_report_too(samples: Path) -> None:
    runs = load(samples / "torch_npu" / "llm_4ranks")
    text = runs.to_markdown()
    assert len(text.splitlines()) <= 60
    assert "- Recorded: 4 runs · ranks 0-3" in text
    assert "**810 ms a step**" in text


@pytest.mark.slow
def test_advise_prints_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = profile().save(tmp_path / "saved")
    assert cli.main(["advise", str(saved), "--markdown"]) == 0
    assert capsys.readouterr().out == f"{load(saved).to_markdown()}\n"
    with pytest.raises(SystemExit):
        cli.main(["advise", str(saved), "--markdown", "--json"])
