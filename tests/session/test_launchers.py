"""Which processes are ranks: by their words, their environment, and what multiprocessing runs in them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pytest

from npuprof.session import launchers


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        (["/venv/bin/python", "/venv/bin/torchrun", "--nproc-per-node", "4", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-u", "-m", "mindspore.parallel.cluster.run", "train.py"], True),
        (["/venv/bin/python", "/venv/bin/accelerate", "launch", "train.py"], True),
        (["python", "-c", "from multiprocessing.resource_tracker import main;main(3)"], True),
        (["python", "-c", "from multiprocessing.forkserver import main; main(3, 5, [])"], True),
        (["python", "train.py", "torchrun"], False),
        (["python", "-u", "train.py"], False),
        (["python", "-m", "train"], False),
        (["python", "-c", "print(1)"], False),
        (["python"], False),
        ([""], False),
        ([], False),
    ],
)
def test_launchers_are_known_by_their_words(
    words: Sequence[str], is_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "orig_argv", list(words))
    assert launchers.is_launcher() is is_one


def test_the_scheduler_of_mindspore_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py"])
    assert not launchers.is_launcher()
    monkeypatch.setenv("MS_ROLE", "MS_SCHED")
    assert launchers.is_launcher()


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"RANK_ID": "1", "RANK_SIZE": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "5"}, (5, None)),
        ({"PMI_RANK": "0", "PMI_SIZE": "4"}, (0, 4)),
        ({"RANK": "x", "SLURM_PROCID": "2"}, (2, None)),
        ({"RANK": "-1"}, (None, None)),
        ({"RANK": "12345678901"}, (None, None)),
        ({"RANK": "3", launchers.INHERITED: "RANK=3"}, (None, None)),
        ({"RANK": "3", launchers.INHERITED: "RANK=2"}, (3, None)),
        ({}, (None, None)),
    ],
)
def test_the_rank_is_that_of_the_launcher(environ: Mapping[str, str], rank: tuple[int | None, int | None]) -> None:
    assert launchers.environment_rank(environ) == rank


def test_children_inherit_the_rank() -> None:
    assert launchers.pass_on({"RANK": "3"}) == "RANK=3"
    assert launchers.pass_on({}) == ""


def test_this_process_runs_no_function_of_multiprocessing() -> None:
    assert not launchers.is_loading_data()
    assert launchers.spawned_index() is None


def test_groups_of_torch_are_noted_before_they_are_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN a double of torch.distributed WHEN the program destroys its groups THEN they stay known."""
    from types import ModuleType, SimpleNamespace

    state = {"initialized": True}
    home, distributed = ModuleType("torch.distributed.distributed_c10d"), ModuleType("torch.distributed")

    def destroy_process_group(group: object = None) -> str:
        state["initialized"] = False
        return f"destroyed {group}"

    world = SimpleNamespace(pg_names={"a": "0"}, pg_group_ranks={"a": {0: 0, 1: 1}})
    vars(home).update(destroy_process_group=destroy_process_group, _world=world)
    vars(distributed).update(
        destroy_process_group=destroy_process_group,
        is_available=lambda: True,
        is_initialized=lambda: state["initialized"],
        get_rank=lambda: 1,
        get_world_size=lambda: 2,
        get_backend=lambda: "gloo",
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", home)
    groups = launchers.TorchGroups()
    groups.follow()
    assert distributed.destroy_process_group("x") == "destroyed x"
    assert groups.note() == {"rank": 1, "world_size": 2, "backend": "gloo", "groups": {"0": [0, 1]}}
