"""Operators of pyACL models as they run, in batches: what :meth:`npuprof.session.session.Session.stream` gives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from npuprof.clock import Clock
from npuprof.collectors.base import Collector
from npuprof.collectors.interrupts import interrupts_kept
from npuprof.collectors.model_stream import ModelStream, Row
from npuprof.errors import SessionError
from npuprof.session import active as running

if TYPE_CHECKING:
    import pandas as pd


class OperatorStream:
    """Batches of operators as they arrive; iterate over it, in a ``with`` block or until :meth:`close`.

    Attributes
    ----------
    problems
        What went wrong without ending the stream, in plain words.

    Notes
    -----
    Each batch is a table with a row for each operator that ran: `start_ns` (UTC; moments of the monotonic clock are
    moved to it), `duration_ns`, `op_name`, `op_type`, `model_id`. Rows that nobody takes are kept up to a million.
    """

    def __init__(self, native: ModelStream, release: Callable[[], None]) -> None:
        self._native = native
        # Ends the subscription when this is forgotten, and when the interpreter ends.
        self._end = weakref.finalize(self, _end, native, release)

    @property
    def problems(self) -> list[str]:
        """What went wrong without ending the stream."""
        lost = [f"{self._native.dropped} rows were dropped, because nobody took them"] * bool(self._native.dropped)
        return [*self._native.problems, *lost]

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield batches until the stream is closed and all has been given; waits for each."""
        while True:
            rows = self._native.take(None)
            if not rows:
                return
            yield _table(rows)

    def take(self, timeout_s: float = 0.0) -> pd.DataFrame:
        """Return what has arrived since the last time, waiting so long for the first row; it may be empty."""
        return _table(self._native.take(timeout_s))

    def close(self) -> None:
        """End the subscription; what has run by then can still be taken."""
        self._end()

    def __enter__(self) -> OperatorStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_stream(
    collector: Collector,
    models: int | Iterable[int],
    clock: Clock,
    title: str,
    told: Callable[[pd.DataFrame], object] | None = None,
) -> OperatorStream:
    """Subscribe to models with a front end; see :meth:`npuprof.session.session.Session.stream`."""
    from npuprof.collectors.acl import AclCollector

    if not isinstance(collector, AclCollector) or collector.name not in ("acl", "simulator"):
        raise SessionError(
            f"{collector.name} has no models to subscribe to: they are pyACL's, so use --collector acl, or simulator"
        )
    ids = [models] if isinstance(models, int) else list(models)
    if not ids:
        raise SessionError("stream() needs the ids of loaded models, as acl.mdl.load_from_file gives them")
    acl = collector.load()
    with ExitStack() as undo:
        release = running.reserve(
            f"{title} streams operators of the models {ids}, and pyACL does not collect meanwhile (EK0007): "
            "close it first"
        )
        undo.callback(release)
        with interrupts_kept():
            native = ModelStream(acl, ids, clock, None if told is None else lambda rows: told(_table(rows)))
        undo.pop_all()
    return OperatorStream(native, release)


def _end(native: ModelStream, release: Callable[[], None]) -> None:
    try:
        native.close()
    finally:
        release()


def _table(rows: list[Row]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(Row._fields))
    kinds = {"start_ns": "int64", "duration_ns": "int64", "model_id": "int64"}
    typed: pd.DataFrame = frame.astype({**kinds, "op_name": "category", "op_type": "category"})
    return typed
