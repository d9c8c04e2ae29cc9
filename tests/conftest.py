"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import budget, pace

# Beside torch there may be a torch_npu that cannot be imported without CANN: torch must not load it by itself.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

_BROWSER = "tests/browser/"
_ALWAYS_SLOW = ("browser", "heavy", "torch")
_FAST = "not slow"
_MOST_S = 2.0  # of a test of the fast lane, on an idle machine

SAMPLES = Path(os.environ.get("NPUPROF_SAMPLES", Path(__file__).parents[2] / "shared" / "samples"))
"""The folder of real results and raw directories, which there may be none of; tests take the fixture `samples`."""


def pytest_configure(config: pytest.Config) -> None:
    """Select few examples for the fast lane, unless a profile is given; enable interrupts."""
    # What is started in the background may ignore or block SIGINT, and so would every kernel and process of the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    asked = config.getoption("--hypothesis-profile", default=None)
    settings.load_profile(asked or ("fast" if config.option.markexpr == _FAST else budget.USUAL))


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of garbage collections, which take 0.4 s with it."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep what drives browsers and large frameworks out of the fast lane."""
    for item in items:
        if any(item.get_closest_marker(name) for name in _ALWAYS_SLOW):
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tests that took long and are not marked as slow."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    late = [
        report
        for report in reports
        if report.when == "call" and "slow" not in report.keywords and report.duration > pace.seconds(_MOST_S)
    ]
    for report in sorted(late, key=lambda report: -report.duration):
        terminalreporter.write_line(f"slow, and not marked so: {report.nodeid} took {report.duration:.1f} s")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Share the tests among processes one by one, but those that drive a browser by the file.

    Each process that drives one has a JupyterLab of its own. The marks that pytest-xdist has for groups are not heard
    with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist tells no types
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0] if nodeid.startswith(_BROWSER) else nodeid

    return Scheduling(config, log)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests read of many ranks out of the user's cache, and the user's out of tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real results and raw directories; the test is skipped where there is none."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no samples in {SAMPLES}: set NPUPROF_SAMPLES to their folder")
    return SAMPLES


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ns = 36_471_000_000_000
        self.epoch_ns = 1_763_600_000_000_000_000 - self.now_ns
        self.tick_ns = 0

    def realtime_ns(self) -> int:
        return self.monotonic_raw_ns() + self.epoch_ns

    def monotonic_raw_ns(self) -> int:
        self.now_ns += self.tick_ns
        return self.now_ns

    def sleep_until_ns(self, monotonic_raw_ns: int) -> None:
        self.now_ns = max(self.now_ns, monotonic_raw_ns)

    def advance(self, duration_ns: int) -> None:
        self.now_ns += duration_ns


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable the interrupt signal, which is ignored where whatever runs the tests ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)
