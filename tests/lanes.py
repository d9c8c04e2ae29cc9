"""Lanes of tests: which tests a run selects, and which of them are too slow for their lane.

There are three. The fast lane, ``-m "not slow"``, takes about a minute. The usual lane is what pytest runs without
options: all tests but those marked ``long``, which each test in a browser, each heavy and each exhaustive one is.
``--all`` runs everything, ``-m long`` what the usual lane leaves out, and ``-m browser`` the tests in a browser.
Tests of a file that is named on the command line run in any case, as do those that ``--last-failed`` selects.
``--shuffle SEED`` runs what is selected in a random order, which finds tests that need or disturb others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import budget, pace

_ALWAYS_LONG = ("browser", "exhaustive", "heavy")
_ALWAYS_SLOW = (*_ALWAYS_LONG, "long", "torch")
_FAST_TEST_S, _USUAL_TEST_S = 2.0, 15.0  # a test of the fast and of the usual lane takes no longer on an idle machine
_MOST_NAMED = 10
_LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select every test and that shuffle them."""
    group = parser.getgroup("general")
    group.addoption("--all", action="store_true", help="run the tests marked 'long' too")
    group.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order, the same for a seed")


def pytest_configure(config: pytest.Config) -> None:
    """Let property tests try few examples in the fast lane, unless a profile of hypothesis is given."""
    asked = config.getoption("--hypothesis-profile", default=None)
    settings.load_profile(asked or ("fast" if config.option.markexpr == "not slow" else budget.USUAL))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark as slow and long what is so, before marks are looked at, and leave out the long tests nobody asked for."""
    for item in items:
        if any(item.get_closest_marker(name) for name in _ALWAYS_LONG):
            item.add_marker("long")
        if any(item.get_closest_marker(name) for name in _ALWAYS_SLOW):
            item.add_marker("slow")
    yield
    left_out = [] if _selects_long(config) else _long_of_folders(config, items)
    config.stash[_LEFT_OUT] = len(left_out)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        unwanted = set(left_out)
        items[:] = [item for item in items if item not in unwanted]
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def _selects_long(config: pytest.Config) -> bool:
    by_mark = re.search(rf"\b({'|'.join((*_ALWAYS_LONG, 'long'))})\b", config.option.markexpr) is not None
    return by_mark or config.getoption("--all") or config.getoption("lf", False)


def _long_of_folders(config: pytest.Config, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the long tests whose file is not named on the command line."""
    paths = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    files = {Path(path).resolve() for path in paths if path.is_file()}
    return [item for item in items if item.get_closest_marker("long") and item.path.resolve() not in files]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that reports how many tests this process, of several that run tests, left out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over how many tests a process left out: each process collects the same tests."""
    left_out = getattr(node, "workeroutput", {}).get("left_out", 0)
    node.config.stash[_LEFT_OUT] = max(left_out, node.config.stash.get(_LEFT_OUT, 0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many tests were left out, and name those that took too long for their lane."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    late = sorted(filter(_too_slow, reports), key=lambda report: -report.duration)
    for report in late[:_MOST_NAMED]:
        mark = "long" if "slow" in report.keywords else "slow"
        terminalreporter.write_line(f"not marked {mark}, and took {report.duration:.1f} s: {report.nodeid}")
    if len(late) > _MOST_NAMED:
        terminalreporter.write_line(f"{len(late) - _MOST_NAMED} more tests took too long for their marks")
    left_out = config.stash.get(_LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(f"{left_out:,} tests are marked 'long' and were left out: --all runs them too")


def _too_slow(report: pytest.TestReport) -> bool:
    if report.when != "call" or "long" in report.keywords:
        return False
    return report.duration > pace.seconds(_USUAL_TEST_S if "slow" in report.keywords else _FAST_TEST_S)
