"""Several ranks in one process: a thread and a simulated machine for each, and a recording for each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from npuprof.recordings.clock import Clock, SystemClock
from npuprof.recordings.recording import Recording
from npuprof.simulator import codes
from npuprof.simulator.calls import recorded
from npuprof.simulator.clock import FrozenClock, VirtualClock
from npuprof.simulator.cluster.communicator import Communicator
from npuprof.simulator.cluster.exchange import Exchange, RankError
from npuprof.simulator.collection import (
    ACL_API,
    AICORE_METRICS,
    HCCL_TRACE,
    METRIC_NONE,
    MSPROFTX,
    TASK_MEMORY,
    TASK_TIME,
    TASK_TIME_L0,
)
from npuprof.simulator.device import Device
from npuprof.simulator.machine import Simulator, using
from npuprof.simulator.plans import LINKS, RANKS_PER_SERVER, Topology
from npuprof.simulator.pmu import PIPE_UTILIZATION

Result = TypeVar("Result")

_LEVELS = {
    0: ACL_API | TASK_TIME_L0,
    1: ACL_API | TASK_TIME | AICORE_METRICS | HCCL_TRACE | MSPROFTX,
}
_WORLD = "hccl_world_group"


class Rank(Communicator):
    """One rank: its device, and the collectives over all ranks.

    Attributes
    ----------
    rank
        Its number.
    machine
        Its simulated machine with one device, as a process with ASCEND_RT_VISIBLE_DEVICES sees it.
    """

    def __init__(
        self, rank: int, ranks: Sequence[int], machine: Simulator, exchange: Exchange, place: Topology
    ) -> None:
        super().__init__(rank, ranks, machine.device(0), exchange, place, _WORLD)
        self.machine = machine
        self._groups: dict[tuple[int, ...], Communicator] = {}
        self._steps: list[tuple[int, int, int]] = []
        self._step_start_ns: int | None = None

    @property
    def device(self) -> Device:
        """The rank's simulated NPU."""
        return self._device

    def group(self, ranks: Sequence[int]) -> Communicator:
        """Return the collectives over some of the ranks.

        Raises
        ------
        ValueError
            If this rank is not among them, or one does not exist.
        """
        selected_ranks = tuple(sorted(set(ranks)))
        if self.rank not in selected_ranks or not set(selected_ranks) <= set(self.ranks):
            raise ValueError(f"a group for rank {self.rank} must hold it and others of {list(self.ranks)}, not {ranks}")
        if selected_ranks not in self._groups:
            name = f"group_{'_'.join(map(str, selected_ranks))}"
            self._groups[selected_ranks] = Communicator(
                self.rank, selected_ranks, self._device, self._exchange, self._topology, name
            )
        return self._groups[selected_ranks]

    def host_work(self, seconds: float, name: str = "host_work") -> None:
        """Keep the host busy for a while, for example with input data: `name` ``DataLoader``."""
        clock = self.machine.clock
        with recorded(self.machine, name):
            clock.sleep_until_ns(clock.monotonic_raw_ns() + round(seconds * 1e9))

    def step(self) -> None:
        """End an iteration and begin the next: a step is the time between two calls."""
        now_ns = self.machine.clock.realtime_ns()
        if self._step_start_ns is not None:
            self._steps.append((len(self._steps), self._step_start_ns, now_ns))
        self._step_start_ns = now_ns

    @property
    def parallel_group_info(self) -> dict[str, dict[str, Any]]:
        """The groups of the rank, in the form of a run's metadata."""
        groups: list[Communicator] = [self, *self._groups.values()]
        return {
            group.name: {
                "group_name": group.name,
                "group_rank": group.ranks.index(self.rank),
                "global_ranks": list(group.ranks),
            }
            for group in groups
        }

    @property
    def steps(self) -> list[tuple[int, int, int]]:
        """Number, start and end of every finished step, in UTC epoch nanoseconds."""
        return list(self._steps)


class Ranks:
    """Several simulated ranks; made by :func:`npuprof.simulator.ranks`.

    Parameters
    ----------
    size
        Number of ranks.
    per_server
        Number of ranks per server. HCCS links connect the ranks of a server; RoCE connects servers.
    chip
        A key of :data:`npuprof.simulator.cost_model.CHIPS`.
    clock
        Makes the clock of a rank from its number. All clocks must show the same time. By default each has a
        :class:`~npuprof.simulator.clock.VirtualClock` from one moment on, so that a run comes out the same
        however busy this computer is.

    Raises
    ------
    ValueError
        If a number is not positive.
    """

    def __init__(
        self,
        size: int,
        *,
        per_server: int = RANKS_PER_SERVER,
        chip: str = "910B",
        clock: Callable[[int], Clock] | None = None,
    ) -> None:
        if size < 1 or per_server < 1:
            raise ValueError("ranks needs at least one rank, and at least one for each server")
        self.size = size
        self._topology = Topology(per_server, LINKS)
        self._chip = chip
        self._clock = clock

    def run(
        self,
        work: Callable[[Rank], Result],
        output: str | Path | None = None,
        *,
        level: int = 1,
        memory: bool = False,
        stacks: bool = False,
        name: str = "ranks",
    ) -> list[Result]:
        """Call a function once for each rank, all in parallel, and record it.

        In it, arrays of :mod:`npuprof.simulator.npu` and ``npuprof.simulator.torch()`` use the rank's device.

        Parameters
        ----------
        work
            Called with the :class:`Rank`.
        output
            The parent of the new directories ``rank_0``, ``rank_1``, ...; ``npuprof.load(output)`` reads them. By
            default nothing is recorded.
        level
            0 for tasks, 1 also for operators, shapes, counters and the data of collectives; else a ``ValueError``.
        memory, stacks
            Whether to record allocations; calls of array functions, collectives and host work with the user's lines.
        name
            The name of the runs.

        Returns
        -------
        list
            The results of the function, by rank.

        Raises
        ------
        RankError
            If a rank fails; ranks that wait for it are ended, and recordings stay.
        FileExistsError
            If a directory of a rank exists.
        """
        if level not in _LEVELS:
            raise ValueError(f"level {level!r} is not simulated for ranks: choose 0 or 1")
        mask = _LEVELS[level] | (TASK_MEMORY if memory else 0)
        exchange = Exchange(self.size)
        with ExitStack() as ended:
            ranks = self._ranks(exchange, ended, stacks=stacks)
            if output is not None:
                for rank in ranks:
                    ended.callback(_start(rank, Path(output) / f"rank_{rank.rank}", mask, name))
            return _run_all(ranks, exchange, work)

    def _ranks(self, exchange: Exchange, ended: ExitStack, *, stacks: bool) -> list[Rank]:
        start = VirtualClock(FrozenClock(SystemClock()))
        ranks = []
        for number in range(self.size):
            clock = VirtualClock(start) if self._clock is None else self._clock(number)
            machine = Simulator(chip=self._chip, clock=clock, rank_id=number, with_stack=stacks)
            ended.callback(machine.profiler.complete)
            ranks.append(Rank(number, range(self.size), machine, exchange, self._topology))
        return ranks


def _start(rank: Rank, directory: Path, mask: int, name: str) -> Callable[[], None]:
    """Start the recording of a rank; return the function that completes it."""
    directory.mkdir(mode=0o700, parents=True)
    profiler = rank.machine.profiler
    metric = PIPE_UTILIZATION if mask & AICORE_METRICS else METRIC_NONE
    handle = profiler.create_config([0], metric, mask)
    for code in (profiler.init(str(directory)), profiler.start(handle)):
        if code != codes.SUCCESS:
            raise OSError(f"the simulated profiler of rank {rank.rank} cannot record into {directory} (code {code})")
    rank.machine.activate(rank.device)
    recording = Recording(
        directory,
        f"{name} rank {rank.rank}",
        "simulator",
        simulated=True,
        options={"activities": ["npu", "cpu"]},
        started_ns=rank.machine.clock.realtime_ns(),
        metadata={"distributed_args": {"world_size": rank.size, "rank": rank.rank}},
    )
    recording.write()
    began_ns = SystemClock().monotonic_raw_ns()

    def complete() -> None:
        """Complete the recording."""
        code = profiler.complete()
        if code != codes.SUCCESS:
            recording.problems.append(f"the recording could not be written completely (code {code}): free some space")
        recording.metadata["parallel_group_info"] = rank.parallel_group_info
        recording.steps = rank.steps
        recording.stopped_ns = rank.machine.clock.realtime_ns()
        if isinstance(rank.machine.clock, VirtualClock):  # time spent by this computer does not count
            recording.emulated_ns = SystemClock().monotonic_raw_ns() - began_ns
        recording.list_files()
        recording.write()

    return complete


def _run_all(ranks: Sequence[Rank], exchange: Exchange, work: Callable[[Rank], Result]) -> list[Result]:
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def run(rank: Rank) -> None:
        """Run the function of a rank, and keep its result or error."""
        try:
            with using(rank.machine):
                results[rank.rank] = work(rank)
        except BaseException as error:  # noqa: BLE001 - raised by the caller, and in the other ranks
            errors[rank.rank] = error
            exchange.leave(rank.rank, f"rank {rank.rank} has failed: {type(error).__name__}: {error}")
        else:
            exchange.leave(rank.rank)

    threads = [
        threading.Thread(target=run, args=(rank,), name=f"simulated rank {rank.rank}", daemon=True) for rank in ranks
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        exchange.leave(-1, "the run was interrupted")
        raise
    if errors:
        # Errors of ranks that waited for a failed rank come after the error of that rank.
        number = min(errors, key=lambda rank: (isinstance(errors[rank], RankError), rank))
        error = errors[number]
        if isinstance(error, RankError):
            raise error
        raise RankError(f"simulated rank {number} failed: {type(error).__name__}: {error}") from error
    return [results[number] for number in range(len(ranks))]
