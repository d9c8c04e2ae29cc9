"""The section of the page of support that says what damage npuprof tells."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.campaign.damage.lone import LONE
from tests.campaign.damage.trial import Verdict

PAGE = Path(__file__).parents[3] / "notebooks" / "reference" / "support.md"

_COLUMNS = {"tried": "", "told": "told", "same figures": "same", "silent": "silent", "no second source": "lone"}


def table(verdicts: Sequence[Verdict]) -> str:
    """Return how many damages of each kind and source were told, as a table in Markdown."""
    lines = [f"| source | damage | {' | '.join(_COLUMNS)} |", f"|---|---|{'---|' * len(_COLUMNS)}"]
    for source, kind in dict.fromkeys((one.source, one.kind) for one in verdicts):
        lines += [_row(source, kind, [one for one in verdicts if (one.source, one.kind) == (source, kind)])]
    lines += [_row("all", "", verdicts)]
    return "\n".join(lines) + "\n"


def _row(source: str, kind: str, some: Sequence[Verdict]) -> str:
    counts = [sum(outcome in ("", one.outcome) for one in some) for outcome in _COLUMNS.values()]
    return f"| {source} | {kind} | {' | '.join(map(str, counts))} |"


def section(verdicts: Sequence[Verdict]) -> str:
    """Return the section: the table, what has no second source, and what is silent, by name."""
    parts = [table(verdicts)]
    lone = list(_lone(verdicts))
    if lone:
        parts += ["No second source in the recording holds what these damages change, so nothing tells them:\n", *lone]
    silent = [f"{one.source}: {one.name}" for one in verdicts if one.outcome == "silent"]
    if silent:
        parts += ["\nNot told yet:\n", *(_item(text) for text in silent)]
    return "\n".join(parts)


def _lone(verdicts: Iterable[Verdict]) -> Iterable[str]:
    named = [(one.source, one.name) for one in verdicts if one.outcome == "lone"]
    for source, patterns in LONE.items():
        for pattern, reason in patterns.items():
            names = [name for of, name in named if of == source and re.search(pattern, name)]
            if names:
                yield _item(f"{source}, {reason}: {'; '.join(names)}")


def _item(text: str) -> str:
    return "\n".join(textwrap.wrap(f"- {text}", 120, subsequent_indent="  ", break_long_words=False))


def write_physical(made: str) -> None:
    """Make the table of physical damage on the page again."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.compile(r"(<!-- physical -->\n).*?(<!-- end -->)", re.DOTALL)
    new = section.sub(lambda match: f"{match[1]}\n{made}\n{match[2]}", text, count=1)
    PAGE.write_text(new, encoding="utf-8")


def write(verdicts: Sequence[Verdict]) -> None:
    """Make the section of the page again."""
    text = PAGE.read_text(encoding="utf-8")
    made = re.sub(
        r"(?<=<!-- damage -->\n).*?(?=<!-- end -->)", lambda _: f"\n{section(verdicts)}\n", text, flags=re.DOTALL
    )
    PAGE.write_text(made, encoding="utf-8")
