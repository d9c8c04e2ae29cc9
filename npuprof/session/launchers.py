"""The processes of a job: which are ranks, and which only start, count or serve others.

Launchers give each process its rank in a variable of the environment; some frameworks know it better.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from types import FrameType
from typing import Any

# Number and count of ranks, as torchrun, accelerate and deepspeed, MindSpore's msrun, CANN, Open MPI, MPICH, and SLURM
# give them.
VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("RANK_ID", "RANK_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", ""),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
INHERITED = "NPUPROF_RANK_OF_PARENT"
"""The variable that tells children of a rank that the rank in their environment is their parent's."""

_PROGRAMS = frozenset({"torchrun", "accelerate", "deepspeed", "msrun", "ipcluster", "ipcontroller", "ipengine"})
_MODULES = (
    *("torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "deepspeed.launcher"),
    *("mindspore.parallel.cluster.run", "ipyparallel"),
)
_SERVERS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker")
_WORKERS = ("torch.utils.data.", "mindspore.dataset.")
_OF_RAY = "ray/_private/workers/"
_WORKER_PROGRAMS = ("popen_loky_posix", _OF_RAY, "distributed.cli.dask_worker")
_FORKING = ("popen_fork.py", "forkserver.py")  # of multiprocessing
_EXEC_AT_ONCE = ("subprocess.py", "pty.py", "ptyprocess.py", "os.py", "_spawnbase.py")
_THEIR_FUNCTIONS = frozenset({"_execute_child", "fork", "spawn", "_spawnvef"})
_MOST_FRAMES = 30
_MOST_DIGITS = 6
_SETTLING_S = 0.1


def is_launcher() -> bool:
    """Return whether this process is a launcher's own, or serves others, so that it is no rank."""
    if os.environ.get("MS_ROLE") == "MS_SCHED":  # runs the script of its ranks
        return True
    if is_of_multiprocessing() or will_be_of_multiprocessing():  # whose words are those of its server
        return False
    return any(_is_of_launcher(words) for words in (sys.argv, sys.orig_argv))


def _is_of_launcher(words: Sequence[str]) -> bool:
    if "-c" in words[:6]:
        code = words[words.index("-c") + 1 : words.index("-c") + 2]
        return any(server in text for text in code for server in _SERVERS)
    if "-m" in words[:6]:
        return any(text.startswith(_MODULES) for text in words[words.index("-m") + 1 : words.index("-m") + 2])
    programs = [PurePath(word).name for word in words[:2] if not word.startswith("-")]
    return any(program in _PROGRAMS for program in programs) or any(
        f"/{module.replace('.', '/')}" in str(words[0]) for module in _MODULES[:3] if words
    )


def is_loading_data() -> bool:
    """Return whether this process is a worker that loads data for a rank."""
    process = _process_of_multiprocessing()
    target = getattr(process, "_target", None)
    return str(getattr(target, "__module__", "")).startswith(_WORKERS)


def is_worker() -> bool:
    """Return whether this process works for others, task by task, so that it may outlive the cell that starts it."""
    if is_of_multiprocessing():
        return True
    words = sys.orig_argv[:12]
    if any(part in word for part in _WORKER_PROGRAMS for word in words):
        return True
    names = [PurePath(word).name for word in words]
    return "dask-worker" in names or ("dask" in names and "worker" in names)


def loops_natively() -> bool:
    """Return whether the main thread waits for tasks in native code, and no signal ends that: Ray's workers."""
    return any(_OF_RAY in word for word in sys.orig_argv[:12])


def executor_of_tasks() -> Any:
    """Return the executor that runs the tasks of a Dask worker, beside its main thread; None elsewhere."""
    home = sys.modules.get("distributed.worker")
    with suppress(Exception):  # another release of Dask
        for worker in list(getattr(getattr(home, "Worker", None), "_instances", ())):
            return worker.executors["default"]
    return None


def is_of_multiprocessing() -> bool:
    """Return whether :mod:`multiprocessing` runs a function in this process."""
    return _process_of_multiprocessing() is not None


def will_be_of_multiprocessing() -> bool:
    """Return whether :mod:`multiprocessing` is about to run a function in this process."""
    if is_of_multiprocessing():
        return False
    if is_spawned():
        return True
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_filename.endswith(_FORKING) and frame.f_code.co_name in ("_launch", "main", "_serve_one"):
            return True
        frame = frame.f_back
    return False


def execs_at_once() -> bool:
    """Return whether the caller of a fork replaces the program of the child at once."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_filename.endswith(_EXEC_AT_ONCE) and frame.f_code.co_name in _THEIR_FUNCTIONS:
            return True
        frame = frame.f_back
    return False


def is_spawned() -> bool:
    """Return whether :mod:`multiprocessing` started this process by a command."""
    return any("multiprocessing.spawn" in word for word in sys.orig_argv[:8])


def _process_of_multiprocessing() -> Any:
    module = sys.modules.get("multiprocessing.process")
    if module is None or module.parent_process() is None:
        return None
    return module.current_process()


def environment_rank(environ: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the rank and the number of ranks that a launcher gave this process; None where it gave none."""
    for name, size in VARIABLES:
        if (rank := _number(environ.get(name))) is not None:
            inherited = environ.get(INHERITED) == f"{name}={rank}"
            return (None, None) if inherited else (rank, _number(environ.get(size)))
    return None, None


def pass_on(environ: Mapping[str, str]) -> str:
    """Return what :data:`INHERITED` is for the children of this process: empty if it is no rank."""
    ranks = ((name, _number(environ.get(name))) for name, _ in VARIABLES)
    return next((f"{name}={rank}" for name, rank in ranks if rank is not None), "")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


class TorchGroups:
    """The process groups of ``torch.distributed``, noted before the program destroys them."""

    def __init__(self) -> None:
        self._facts: dict[str, Any] = {}

    def follow(self) -> None:
        """Note the groups at each ``destroy_process_group``, once ``torch.distributed`` is imported."""
        distributed = sys.modules.get("torch.distributed")
        home = sys.modules.get("torch.distributed.distributed_c10d")
        original = getattr(home, "destroy_process_group", None)
        if distributed is None or original is None or hasattr(original, "__wrapped__"):
            return
        from functools import wraps

        @wraps(original)
        def destroy_process_group(*arguments: Any, **named: Any) -> Any:
            if self.note().get("backend") == "gloo":
                # gloo's threads may still hold works that were profiled, and need Python's lock to let go of them. A
                # group that waits for its threads keeps the lock, so that both would wait forever (torch 2.13).
                time.sleep(_SETTLING_S)
            return original(*arguments, **named)

        for module in (home, distributed):
            if getattr(module, "destroy_process_group", None) is original:
                module.destroy_process_group = destroy_process_group  # type: ignore[union-attr]

    def note(self) -> dict[str, Any]:
        """Return the rank, the number of ranks and the groups, as they are now or else were when last noted."""
        with suppress(Exception):  # what is not known is not said
            distributed = sys.modules.get("torch.distributed")
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                self._facts = {
                    "rank": int(distributed.get_rank()),
                    "world_size": int(distributed.get_world_size()),
                    "backend": str(distributed.get_backend()),
                    "groups": _groups_of(sys.modules["torch.distributed.distributed_c10d"]),
                }
        return self._facts


def _groups_of(home: Any) -> dict[str, list[int]]:
    """Return the ranks of each process group, by the name of the group."""
    world = home._world
    return {str(world.pg_names[group]): sorted(map(int, ranks)) for group, ranks in world.pg_group_ranks.items()}


def spawned_index() -> int | None:
    """Return the number that ``torch.multiprocessing`` gave the function of this process; None without one."""
    process = _process_of_multiprocessing()
    target: object = getattr(process, "_target", None)
    arguments: tuple[object, ...] = getattr(process, "_args", ())
    if not str(getattr(target, "__module__", "")).startswith("torch.multiprocessing") or len(arguments) < 2:
        return None
    index: object = arguments[1]
    return index if isinstance(index, int) else None
