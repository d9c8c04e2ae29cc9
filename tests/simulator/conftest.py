"""Fixtures of the simulator's tests: a machine on a clock that stands still, and short recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npuprof import simulator
from npuprof.simulator import Simulator
from npuprof.simulator.collection import METRIC_NONE
from tests.conftest import FakeClock

Record = Callable[..., Path]


@pytest.fixture(autouse=True)
def machine(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """Two devices on the fake clock; everything is forgotten afterwards."""
    monkeypatch.delenv("PROFILING_MODE", raising=False)
    simulator.reset()
    yield simulator.configure(clock=clock, devices=2)
    simulator.reset()


@pytest.fixture
def record(machine: Simulator, tmp_path: Path) -> Record:
    """Record what a function does; gives the ``PROF_*`` directory."""

    def run(
        work: Callable[[Simulator], object],
        mask: int = 0x12F,
        metric: int = 1,
        settings: dict[int, str] | None = None,
        devices: tuple[int, ...] = (0,),
    ) -> Path:
        profiler = machine.profiler
        before = set(tmp_path.iterdir())
        assert profiler.init(str(tmp_path)) == 0
        for kind, value in (settings or {}).items():
            assert profiler.set_config(kind, value) == 0
        config = profiler.create_config(devices, metric if mask & 4 else METRIC_NONE, mask)
        assert profiler.start(config) == 0
        work(machine)
        assert profiler.stop(config) == 0
        assert profiler.destroy_config(config) == 0
        assert profiler.finalize() == 0
        (made,) = set(tmp_path.iterdir()) - before
        return made

    return run
