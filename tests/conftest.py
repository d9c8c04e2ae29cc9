"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import none

from tests.samples import FOLDER
from tests.samples.partial import PartialFolder

pytest_plugins = ["pytester", "tests.lanes", "tests.terminal"]

# Beside torch there may be a torch_npu that cannot be imported without CANN: torch must not load it by itself.
os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
os.environ.pop("VIRTUAL_ENV", None)  # of a shell that activated another: IPython warns that it is not installed there

_BROWSER = "tests/browser/"
# IPython warns where it cannot write, and Jupyter, Chromium and the cache of many ranks have files in the home as well.
_FOLDERS_OF_HOME = (
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
)


def pytest_configure() -> None:
    """Enable interrupts: what is started in the background may ignore or block SIGINT."""
    # Every kernel and process that tests start would ignore or block it too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@settings(max_examples=1, database=None)
@given(none())
def _one_example(_: None) -> None:
    """Have Hypothesis register its generator of random numbers."""


def pytest_collection_finish() -> None:
    """Leave what is imported and collected out of garbage collections, which take 0.4 s with it."""
    _one_example()  # which warns if it finds nothing that refers to the generator; what is frozen is not searched
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Leave what the tests of a file imported and keep out of later garbage collections too: 0.2 s for each."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


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
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests out of the user's home, which may be read-only, and its settings, kernels and cache out of tests."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in _FOLDERS_OF_HOME:
            patch.setenv(name, str(home / name.lower()))
        yield


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of real results and raw directories; the test is skipped where there is none, or not the part."""
    if not FOLDER.is_dir():
        pytest.skip(f"no samples in {FOLDER}: set NPUPROF_SAMPLES to their folder")
    return PartialFolder(FOLDER)


@pytest.fixture
def shell() -> Iterator[Any]:
    """An IPython shell in this process, for this test alone: where there is one, a script is taken for a notebook."""
    from IPython.core.interactiveshell import InteractiveShell

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


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
