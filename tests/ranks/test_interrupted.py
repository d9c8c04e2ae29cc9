"""An interrupt at any line leaves each run of a set loaded, failed or not read, and the next call reads the rest."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from npuprof.profiles import Profile
from npuprof.ranks import crew as crew_module
from npuprof.ranks import entries
from npuprof.ranks.profile_set import ProfileSet
from npuprof.ranks.worker import Failure, Task
from npuprof.sources import saved
from npuprof.sources.base import Decoded
from npuprof.sources.detect import Run
from tests import factories
from tests.interrupts import interrupted

_RANKS = 2
_MODULES = {f"npuprof.ranks.{name}" for name in ("profile_set", "entries", "crew")}
_MOST_LINES = 1000


class _Worker:
    """A process's double, which reads here; those that run are counted."""

    running = 0

    def __init__(self) -> None:
        type(self).running += 1
        self._stopped = False

    def await_ready(self) -> None:
        pass

    def ask(self, task: Task) -> Decoded | Failure:
        return _decoded(Run(task.source, saved, task.path))

    def stop(self) -> None:
        type(self).running -= not self._stopped
        self._stopped = True


_KERNELS = factories.profile(4)["kernels"]
_PROFILE = Profile(Decoded({"kernels": _KERNELS}))


def _decoded(run: Run) -> Decoded:
    return Decoded(_PROFILE.tables, factories.info(rank=int(run.path.name)))


def _read_here(runs: ProfileSet) -> object:
    return runs.table("kernels")


def _read_apart(runs: ProfileSet) -> object:
    return runs.read(processes=2).table("kernels")


@pytest.mark.parametrize("read", [_read_here, _read_apart])
def test_after_an_interrupt_at_any_line_every_row_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[ProfileSet], object]
) -> None:
    monkeypatch.setattr(crew_module, "_Worker", _Worker)
    monkeypatch.setattr(entries, "read_run", lambda run, _: Profile(_decoded(run)))
    monkeypatch.setattr(entries, "describe_run", lambda name, source, path: factories.info(rank=int(path.name)))
    found = [Run("saved", saved, tmp_path / str(rank)) for rank in range(_RANKS)]
    expected = ProfileSet(tmp_path, found).table("kernels")
    for line in count():
        runs = ProfileSet(tmp_path, found)
        came = interrupted(lambda runs=runs: read(runs), _MODULES, line)  # type: ignore[misc]  # a default is no type
        assert _Worker.running == 0, line
        assert {entry.state for entry in runs._entries} <= {"found", "loaded"}, line
        assert not runs.failed, line
        assert runs.table("kernels").equals(expected), line
        if not came:
            break
    assert 50 < line < _MOST_LINES


def test_what_was_read_in_full_before_an_interrupt_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def read_run(run: Run, _: object) -> Profile:
        read.append(run.path.name)
        if read == ["0", "1"]:
            raise KeyboardInterrupt
        return Profile(_decoded(run))

    monkeypatch.setattr(entries, "read_run", read_run)
    monkeypatch.setattr(entries, "describe_run", lambda name, source, path: factories.info(rank=int(path.name)))
    runs = ProfileSet(tmp_path, [Run("saved", saved, tmp_path / str(rank)) for rank in range(_RANKS)])
    with pytest.raises(KeyboardInterrupt):
        runs.read(processes=1)
    assert runs.info["state"].tolist() == ["loaded", "found"]
    assert len(runs.table("kernels")) == _RANKS * len(_KERNELS)
    assert read == ["0", "1", "1"]
