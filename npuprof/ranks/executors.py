"""Work on many ranks, spread over processes of this machine or the workers of a cluster.

Both are a :class:`concurrent.futures.Executor`: :mod:`loky <npuprof.ranks.processes>` here, and
``client.get_executor()`` of a Dask client. A cluster's workers read the files where they see them, and return the rows
that were asked for. What no worker could do is done here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, as_completed
from contextlib import closing
from typing import Any, TypeVar

from npuprof.progress import report_progress
from npuprof.ranks.parallelism import processes_for
from npuprof.ranks.tasks import Died, NoProcessesError

RETRIES = 2
_PER_BATCH = 8  # ranks: few enough for progress, and for little to be lost with a worker

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def active_client() -> Any | None:
    """Return the Dask client that is active in this process, without importing Dask; None if there is none."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.default_client()
    except ValueError:  # there is none
        return None


def spread(
    function: Callable[[Sequence[_Item]], list[_Result]],
    items: Sequence[_Item],
    sizes: Sequence[int],
    client: Any | None,
    what: str,
) -> Iterator[tuple[int, _Result]]:
    """Yield the position and the result of each item as they come.

    Parameters
    ----------
    function
        Takes a few items and returns their results; it raises nothing of its own.
    items, sizes
        What to do, and how many bytes are to be read for each.
    client
        A Dask client, whose workers do it; None for this machine.
    what
        What to call it while progress is shown.
    """
    left = dict(enumerate(items))
    progress = _Rate(what, len(items))
    for position, result in _elsewhere(function, left, sizes, client):
        del left[position]
        progress.advance()
        yield position, result
    for position, item in list(left.items()):
        yield position, function([item])[0]
        progress.advance()


def _elsewhere(
    function: Callable[[Sequence[_Item]], list[_Result]],
    left: dict[int, _Item],
    sizes: Sequence[int],
    client: Any | None,
) -> Iterator[tuple[int, _Result]]:
    """Yield what other processes did; without those that none could do."""
    places = list(left)
    if client is not None:
        batches = [places[at : at + _PER_BATCH] for at in range(0, len(places), _PER_BATCH)]
        executor = client.get_executor(retries=RETRIES, pure=False)
        yield from _on(executor, function, [[(place, left[place]) for place in batch] for batch in batches])
        return
    count = processes_for(list(sizes))
    if count > 1:
        from npuprof.ranks.processes import Processes  # loky takes as long to import as a small run to load

        size = max(1, min(_PER_BATCH, len(places) // (2 * count)))
        batches = [places[at : at + size] for at in range(0, len(places), size)]
        try:
            with Processes(count) as pool:
                work = [[left[place] for place in batch] for batch in batches]
                with closing(pool.each(function, work)) as outcomes:
                    for at, results in outcomes:
                        if not isinstance(results, Died):
                            yield from zip(batches[at], results, strict=True)
        except NoProcessesError:
            return  # then it is done here


def _on(
    executor: Executor,
    function: Callable[[Sequence[_Item]], list[_Result]],
    batches: Sequence[Sequence[tuple[int, _Item]]],
) -> Iterator[tuple[int, _Result]]:
    """Run batches with an executor; what fails there is left out."""
    try:
        futures = {executor.submit(function, [item for _, item in batch]): batch for batch in batches}
        for future in as_completed(futures):
            batch = futures.pop(future)
            try:
                results = future.result()
            except (Exception, CancelledError):  # noqa: BLE001, S112 - the worker died or the scheduler is gone: done here
                continue
            yield from zip([place for place, _ in batch], results, strict=True)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


class _Rate:
    """Progress with the rate so far and the time that is left at that rate."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._began_s = time.monotonic()

    def advance(self) -> None:
        """Count one more, and report it."""
        self._done += 1
        spent_s = max(time.monotonic() - self._began_s, 1e-3)
        rate = self._done / spent_s
        left_s = (self._total - self._done) / rate
        report_progress(f"{self._what}, {rate:.3g} a second, {left_s:.0f} s left", self._done, self._total, "ranks")
