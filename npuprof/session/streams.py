"""Operators of pyACL models as they run, in batches; see :meth:`npuprof.session.session.Session.stream`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from npuprof.clock import Clock
from npuprof.collectors.base import Collector
from npuprof.collectors.interrupts import keep_sigint_handler
from npuprof.collectors.model_stream import ModelStream, Row
from npuprof.errors import SessionError
from npuprof.session import active as running

if TYPE_CHECKING:
    import pandas as pd


class OperatorStream:
    """Batches of operators on arrival; iterate in a ``with`` block or until :meth:`close`.

    Each batch is a table with a row per operator: `start_ns` (UTC; monotonic times are converted), `duration_ns`,
    `op_name`, `op_type`, `model_id`. At most a million unread rows are kept.
    """

    def __init__(self, native: ModelStream, release: Callable[[], None]) -> None:
        self._native = native
        # Ends the subscription on garbage collection and at the end of the interpreter.
        self._end = weakref.finalize(self, _end, native, release)

    @property
    def problems(self) -> list[str]:
        """Problems that did not end the stream."""
        dropped = self._native.dropped
        lost = [f"{dropped} rows were dropped, because they were not read in time"] if dropped else []
        return [*self._native.problems, *lost]

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield batches until the stream is closed and empty; wait for each."""
        while True:
            rows = self._native.take(None)
            if not rows:
                return
            yield _table(rows)

    def take(self, timeout_s: float = 0.0) -> pd.DataFrame:
        """Return the rows since the last call; wait up to `timeout_s` for the first row. May be empty."""
        return _table(self._native.take(timeout_s))

    def close(self) -> None:
        """End the subscription; rows that have arrived can still be taken."""
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
    callback: Callable[[pd.DataFrame], object] | None = None,
) -> OperatorStream:
    """Subscribe to models; see :meth:`npuprof.session.session.Session.stream`."""
    from npuprof.collectors.acl import AclCollector

    if not isinstance(collector, AclCollector) or collector.name not in ("acl", "simulator"):
        raise SessionError(
            f"{collector.name} cannot subscribe to models, only pyACL can: use --collector acl or simulator"
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
        with keep_sigint_handler():
            receive = None if callback is None else lambda rows: callback(_table(rows))
            native = ModelStream(acl, ids, clock, receive)
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
