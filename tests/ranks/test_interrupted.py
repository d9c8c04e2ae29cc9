"""An interrupt at any line leaves each run of a set loaded, failed or not read, and the next call reads the rest."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from npuprof.profiles.profile import Profile
from npuprof.ranks import entries, processes
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources import saved
from npuprof.sources.base import Decoded
from npuprof.sources.detect import DetectedResult
from tests import factories
from tests.interrupts import interrupted

_RANKS = 2
_MODULES = {f"npuprof.ranks.{name}" for name in ("run_list", "entries", "processes")}
_MOST_LINES = 1000


class _Pool:
    """A double of loky's, which decodes here; those that were not shut down are counted."""

    running = 0

    def __init__(self, *_: object, **__: object) -> None:
        type(self).running += 1
        self._stopped = False

    def submit(self, work: Callable[..., Any], *arguments: object) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done

    def shutdown(self, *, wait: bool, kill_workers: bool) -> None:
        type(self).running -= not self._stopped
        self._stopped = True


_KERNELS = factories.profile(4)["kernels"]
_PROFILE = Profile(Decoded({"kernels": _KERNELS}))


def _decoded(run: DetectedResult) -> Decoded:
    return Decoded(_PROFILE.tables, factories.info(rank=int(run.path.name)))


def _read_here(runs: ProfileSet) -> object:
    return runs.table("kernels")


def _read_apart(runs: ProfileSet) -> object:
    return runs.read(processes=2).table("kernels")


@pytest.mark.slow
@pytest.mark.parametrize("read", [_read_here, pytest.param(_read_apart, marks=pytest.mark.long)])
def test_after_an_interrupt_at_any_line_every_row_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[ProfileSet], object]
) -> None:
    monkeypatch.setattr(processes, "ProcessPoolExecutor", _Pool)
    monkeypatch.setattr(processes, "outcome_of", lambda task: _decoded(DetectedResult(saved.SOURCE, task.path)))
    monkeypatch.setattr(entries, "decode_run", lambda run, _: _decoded(run))
    monkeypatch.setattr(DetectedResult, "describe", lambda run: factories.info(rank=int(run.path.name)))
    found = [DetectedResult(saved.SOURCE, tmp_path / str(rank)) for rank in range(_RANKS)]
    expected = ProfileSet(tmp_path, found).table("kernels")
    for line in count():
        runs = ProfileSet(tmp_path, found)
        came = interrupted(lambda runs=runs: read(runs), _MODULES, line)  # type: ignore[misc]  # a default is no type
        assert _Pool.running == 0, line
        assert {entry.state for entry in runs._runs.entries} <= {"found", "loaded"}, line
        assert not runs.failed, line
        assert runs.table("kernels").equals(expected), line
        if not came:
            break
    assert 50 < line < _MOST_LINES


def test_interrupted_reading_keeps_finished_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def decode(run: DetectedResult, _: object) -> Decoded:
        read.append(run.path.name)
        if read == ["0", "1"]:
            raise KeyboardInterrupt
        return _decoded(run)

    monkeypatch.setattr(entries, "decode_run", decode)
    monkeypatch.setattr(DetectedResult, "describe", lambda run: factories.info(rank=int(run.path.name)))
    runs = ProfileSet(tmp_path, [DetectedResult(saved.SOURCE, tmp_path / str(rank)) for rank in range(_RANKS)])
    with pytest.raises(KeyboardInterrupt):
        runs.read(processes=1)
    assert runs.info["state"].tolist() == ["loaded", "found"]
    assert len(runs.table("kernels")) == _RANKS * len(_KERNELS)
    assert read == ["0", "1", "1"]
