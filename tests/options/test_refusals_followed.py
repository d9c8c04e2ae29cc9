"""Refusals of options that are followed: who does one of the things that a message names is not refused so again."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from npuprof.collectors import capabilities
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options
from npuprof.options.specification import FRONT_ENDS
from tests import vendor_settings
from tests.vendor_settings import ASKED

_LEVELS: tuple[Any, ...] = ("none", 0, 1, 2)
_VALUES: Mapping[str, tuple[Any, ...]] = {
    **{name: (asked[name],) for name, asked in ASKED.items()},
    "level": _LEVELS,
    "activities": (("cpu",), ("npu",), ("gpu",), ("cpu", "gpu"), ("cpu", "npu")),
    "aic_metrics": ("none", "PipeUtilization", "Memory", "Custom:0x8"),
    "export_type": (("db",), ("text", "db")),
    **dict.fromkeys(("memory", "stacks", "shapes", "processes", "engines", "workers"), (True,)),
    "marks": (False,),
    "step_line": (3,),
    "steps": (False,),
}
"""Values other than the defaults; with each other they are what people may ask for."""


def refusal(asked: Mapping[str, Any]) -> OptionsError | None:
    """Return why options are refused: by themselves, by a front end, or by what it hands on; None if they are not."""
    try:
        options = Options(**asked)
        if options.collector != "auto":
            capabilities.check(options.collector, options)
            with suppress(KeyError):  # no settings of its own
                vendor_settings.of(options.collector, options)
    except OptionsError as error:
        return error
    return None


def told(error: OptionsError) -> list[str]:
    """Return what a message says to do: one of these."""
    text = re.sub(r"--collector ([\w, ]+)", lambda names: "--collector " + names[1].replace(", ", "|"), str(error))
    text = re.sub(r"leave (\w+) or the collector out", r"leave \1 out, or leave collector out", text)
    text = re.sub(r"level (?:0, 1 or 2)", "level 0|1|2", text).replace("level 1 or 2", "level 1|2")
    tail = re.split(r": |\. |; ", text)[-1]
    if ": " in text and not _done({}, tail, error):
        tail = re.split(r": ", text, maxsplit=1)[-1]
    return [part for part in re.split(r",? or ", tail) if part]


def _done(asked: Mapping[str, Any], part: str, error: OptionsError) -> list[dict[str, Any]]:
    """Return the options with what a part of a message says, in each of its ways; none if it says nothing known."""
    ways: list[dict[str, Any]] = [dict(asked)]
    known = False

    def each(change: Any) -> None:
        nonlocal ways, known
        ways, known = [other for way in ways for other in change(dict(way))], True

    for activity in re.findall(r"add (cpu|npu|gpu) to", part):
        each(
            lambda way, activity=activity: [
                way | {"activities": tuple({*way.get("activities", ("cpu", "npu")), activity})}
            ]
        )
    for levels in re.findall(r"set level ([\w|]+)", part):
        each(lambda way, levels=levels: [way | {"level": int(one)} for one in levels.split("|")])
    if "raise the level" in part:
        each(lambda way: [way | {"level": 1}])
    if "set aic_metrics to none" in part:
        each(lambda way: [way | {"aic_metrics": "none"}])
    if metrics := re.search(r"choose aic_metrics(?: of ([\w, ]+))?", part):
        names = (metrics[1] or "PipeUtilization").split(", ")
        each(lambda way: [way | {"aic_metrics": name} for name in names])
    if "turn marks on" in part:
        each(lambda way: [way | {"marks": True}])
    if needed := re.search(r"add (\w+)$", part):
        value = True if SPECIFICATION[needed[1]].is_switch else _VALUES[needed[1]][0]
        each(lambda way: [way | {needed[1]: value}])
    if "add db to export_type" in part:
        each(lambda way: [way | {"export_type": (*way.get("export_type", ("text",)), "db")}])
    if "choose one with export_type" in part:
        each(lambda way: [way | {"export_type": (one,)} for one in ("text", "db")])
    if collectors := re.search(r"--collector ([\w|]+)", part):
        each(lambda way: [way | {"collector": one} for one in collectors[1].split("|")])
    if re.search(r"leave (it|them|the domains) out|Leave it out", part):
        each(lambda way: [_without(way, error)])
    for name in re.findall(r"leave (\w+) out", part):
        if name in SPECIFICATION:
            each(lambda way, name=name: [{key: value for key, value in way.items() if key != name}])
    if re.search(r"(choose|give) one of them", part):
        each(
            lambda way: [
                {key: value for key, value in way.items() if key != one} for one in (error.options or ("engines",))
            ]
        )
    if "out of mstx_domain_exclude" in part:
        each(lambda way: [{key: value for key, value in way.items() if key != "mstx_domain_exclude"}])
    if "choose at least one of" in part:
        each(lambda way: [way | {"activities": ("cpu",)}])
    return ways if known else []


def _without(way: dict[str, Any], error: OptionsError) -> dict[str, Any]:
    if error.remaining:
        return way | error.remaining
    return {name: value for name, value in way.items() if name not in error.options}


def wishes(collector: str) -> Iterator[dict[str, Any]]:
    """Pairs of options, with what they need."""
    names = list(_VALUES)
    for first, second in itertools.combinations(names, 2):
        for one, other in itertools.product(_VALUES[first], _VALUES[second]):
            yield {"collector": collector, first: one, second: other}


@pytest.mark.long
@pytest.mark.parametrize("collector", FRONT_ENDS)
def test_followed_refusals_do_not_repeat(collector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "check_host_tools", lambda options: None)  # what this machine lacks
    known: dict[str, str] = {}
    for asked in wishes(collector):
        error = refusal(asked)
        if error is None:
            continue
        parts = told(error)
        ways = [(part, way) for part in parts for way in _done(asked, part, error)]
        assert ways, f"nothing is known to do of: {error}"
        for part, way in ways:
            again = refusal(way)
            if str(again) == str(error) and str(error) not in known:
                known[str(error)] = f"{part!r} of {asked}"
    assert known == {}
