"""Fixtures of the tests of simulated torch: a machine on a virtual clock, and what a profile of some code shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import simulator
from npuprof.profiles.profile import Profile
from npuprof.simulator import Simulator
from npuprof.simulator.clock import VirtualClock

Profiled = Callable[..., Profile]


@pytest.fixture
def torch() -> Any:
    """The module; the test is skipped where it is not installed."""
    return pytest.importorskip("torch")


@pytest.fixture
def virtual() -> Iterator[Simulator]:
    """A machine on which only what is launched takes time."""
    simulator.reset()
    yield simulator.configure(clock=VirtualClock())
    simulator.reset()


@pytest.fixture
def profiled(tmp_path: Path) -> Profiled:
    """Profile what a function does in a context of simulated torch."""

    def run(work: Callable[[], object], **options: Any) -> Profile:
        chosen = {"level": 1, "output": str(tmp_path), "stacks": False, **options}
        with npuprof.profile(collector="simulator", **chosen) as session, simulator.torch():
            work()
        return session.result

    return run
