"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# The same examples in every run, as quick as the machine is; NPUPROF_EXPLORE=1 looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
# Beside torch there may be a torch_npu that cannot be imported without CANN: torch must not load it by itself.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

settings.load_profile("explore" if os.environ.get("NPUPROF_EXPLORE") else "same")

_BROWSER = "tests/browser/"

SAMPLES = Path(os.environ.get("NPUPROF_SAMPLES", Path(__file__).parents[2] / "shared" / "samples"))
"""The folder of real results and raw directories, which there may be none of; tests take the fixture `samples`."""


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
