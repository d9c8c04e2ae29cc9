"""Work on many ranks, spread over processes of this machine or the workers of a cluster.

Both are a :class:`concurrent.futures.Executor`: :mod:`loky <npuprof.ranks.processes>` on this machine, and
``client.get_executor()`` of a Dask client. A cluster's workers read the files at the same paths and return the rows
requested. Work that no worker could do is done on this machine.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from npuprof.errors import NpuprofWarning
from npuprof.progress import report_progress
from npuprof.ranks.parallelism import processes_for
from npuprof.ranks.tasks import Died, NoProcessesError

if TYPE_CHECKING:
    from distributed import Client

    from npuprof.ranks.processes import Processes

RETRIES = 2
WITHOUT_WORKERS_S = 60
"""How long a cluster may be without workers, which may just be starting, before this machine does the work."""

_POLL_S = 1.0
_PER_BATCH = 8  # ranks per batch: few enough for progress, and so that little is lost with a worker

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def active_client() -> Client | None:
    """Return the Dask client that is active in this process, without importing Dask; None if there is none."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:  # there is none
        return None


@dataclass(frozen=True)
class Work(Generic[_Item, _Result]):
    """A function to apply to batches of items."""

    function: Callable[[Sequence[_Item]], list[_Result]]  # takes a batch and returns its results; it must not raise
    lost: Callable[[_Item, str], _Result]  # takes an item whose worker died, and the reason, and returns its result
    what: str  # the name shown with progress


def spread(
    work: Work[_Item, _Result], items: Sequence[_Item], sizes: Sequence[int], client: Client | None
) -> Iterator[tuple[int, _Result]]:
    """Yield the position and the result of each item on completion."""
    left = dict(enumerate(items))
    progress = _Rate(work.what, len(items))
    for position, result in _in_other_processes(work, left, sizes, client):
        del left[position]
        progress.advance()
        yield position, result
    for position, item in left.items():
        yield position, work.function([item])[0]
        progress.advance()


def _in_other_processes(
    work: Work[_Item, _Result], left: Mapping[int, _Item], sizes: Sequence[int], client: Client | None
) -> Iterator[tuple[int, _Result]]:
    """Yield results of other processes; items that no process could do are left out.

    What a cluster leaves is done in processes of this machine, however little it is: it may be what killed the workers.
    """
    try:
        if client is not None:
            batches = _batches(list(left), _PER_BATCH)
            yield from _with_second_try(lambda some: _on_cluster(client, work, some, left), batches, work, left)
        count = processes_for([sizes[place] for place in left])
        if left and (count > 1 or client is not None):
            from npuprof.ranks.processes import Processes  # importing loky takes as long as loading a small run

            batches = _batches(list(left), max(1, min(_PER_BATCH, len(left) // (2 * count))))
            with Processes(count) as pool:
                yield from _with_second_try(lambda some: _in_processes(pool, work, some, left), batches, work, left)
    except NoProcessesError:
        return  # the work is then done here


_Batch: TypeAlias = list[int]


def _batches(places: list[int], size: int) -> list[_Batch]:
    return [places[at : at + size] for at in range(0, len(places), size)]


def _with_second_try(
    run: Callable[[list[_Batch]], Iterator[tuple[_Batch, list[_Result] | Died]]],
    batches: list[_Batch],
    work: Work[_Item, _Result],
    left: Mapping[int, _Item],
) -> Iterator[tuple[int, _Result]]:
    """Run batches; items of a batch whose process died are run again one after another, so that only the cause is lost.

    One after another, because a dying worker takes along what waits in its queue.
    """
    again: list[_Batch] = []
    for batch, results in run(batches):
        if isinstance(results, Died):
            again += [[place] for place in batch]
        else:
            yield from zip(batch, results, strict=True)
    for single in again:
        for (place,), results in run([single]):
            yield place, work.lost(left[place], results.fate) if isinstance(results, Died) else results[0]


def _in_processes(
    pool: Processes, work: Work[_Item, _Result], batches: list[_Batch], left: Mapping[int, _Item]
) -> Iterator[tuple[_Batch, list[_Result] | Died]]:
    with closing(pool.each(work.function, [[left[place] for place in batch] for batch in batches])) as outcomes:
        for at, results in outcomes:
            yield batches[at], results


def _on_cluster(
    client: Client, work: Work[_Item, _Result], batches: list[_Batch], left: Mapping[int, _Item]
) -> Iterator[tuple[_Batch, list[_Result] | Died]]:
    """Yield results of a cluster's workers; when its scheduler is gone, warn and stop."""
    if client.status != "running":
        _warn_gone(client.status)
        return
    executor: Executor = cast("Any", client).get_executor(retries=RETRIES, pure=False)  # distributed has no types
    try:
        futures = {executor.submit(work.function, [left[place] for place in batch]): batch for batch in batches}
        for future in _as_completed(client, futures):
            try:
                yield futures[future], future.result()
            except Exception as error:
                if type(error).__name__ != "KilledWorker":
                    raise
                yield futures[future], Died("each worker that read it was killed, as happens when memory runs out")
    except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever the connection or a worker's installation has
        _warn_gone(f"{type(error).__name__}: {error}")
    finally:
        with suppress(Exception):
            executor.shutdown(wait=False, cancel_futures=True)


def _as_completed(client: Client, futures: Iterable[Future[_Result]]) -> Iterator[Future[_Result]]:
    """Yield futures on completion."""
    pending, without_s = set(futures), 0.0
    while pending:
        done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        yield from done
        if done or cast("Any", client).nthreads():
            without_s = 0.0
            continue
        without_s += _POLL_S  # not what a busy machine takes to answer
        if without_s > WITHOUT_WORKERS_S:
            raise NoProcessesError(f"it has been without workers for {WITHOUT_WORKERS_S} s")


def _warn_gone(reason: str) -> None:
    warnings.warn(
        f"the cluster does not read any more ({reason}): this machine reads what is left",
        NpuprofWarning,
        stacklevel=2,
    )


class _Rate:
    """Progress with the rate so far and the remaining time at that rate."""

    def __init__(self, subject: str, total: int) -> None:
        self._what, self._total, self._done = subject, total, 0
        self._began_s = time.monotonic()

    def advance(self) -> None:
        """Count another item, and report progress."""
        self._done += 1
        spent_s = max(time.monotonic() - self._began_s, 1e-3)
        rate = self._done / spent_s
        left_s = (self._total - self._done) / rate
        report_progress(f"{self._what}, {rate:.3g} a second, {left_s:.0f} s left", self._done, self._total, "ranks")
