"""The rules that judge a run: npuprof's own, and those that other installed packages add by an entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.advice.rules import RULES

ENTRY_POINTS = "npuprof.rules"
"""Entry points of other packages that are a :class:`npuprof.advice.finding.Rule`."""


def rules() -> list[Rule]:
    """Return npuprof's rules and other packages' rules; a broken one fails where it is checked."""
    return [*RULES, *map(_load, entry_points(group=ENTRY_POINTS))]


def _load(entry: EntryPoint) -> Rule:
    try:
        rule = entry.load()
        if isinstance(rule, Rule):
            return rule
        problem: Exception = TypeError(f"{entry.value} is no {Rule.__module__}.Rule")
    except Exception as error:  # noqa: BLE001 another package's code
        problem = error

    def fail(_: Facts) -> Finding:
        raise problem

    return Rule(entry.name, "", fail)
