"""Engines of ipyparallel as the ranks of a job: sessions on all of them, and their recordings brought together.

An engine that shares the folder of the job, as a common file system makes possible, records into it. The files of
another are sent a piece at a time, so that neither side holds more than one piece in memory.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from npuprof import progress
from npuprof.errors import CollectorError, describe_failure
from npuprof.options import Options, OptionValues, shows_options
from npuprof.recordings import job_folder
from npuprof.session import engine_side
from npuprof.session.session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

View: TypeAlias = Any
"""A ``DirectView`` or ``Client`` of ipyparallel."""

_PIECE_BYTES = 4 << 20
_PROOF = "engines"  # a file by which an engine knows the folder
_LOOK_S = 0.05
_DIED = "it has died"


class Engines:
    """The engines of a client.

    Parameters
    ----------
    view
        A client or a direct view of ipyparallel.
    timeout_s
        How long an engine may take to answer, while it runs nothing else.

    Raises
    ------
    CollectorError
        If it is neither, or has no engine.
    """

    def __init__(self, view: View, timeout_s: float = 60.0) -> None:
        self._client: Any = view.client if hasattr(view, "client") else view
        targets = getattr(view, "targets", None)
        if not hasattr(self._client, "direct_view"):
            raise CollectorError(
                f"{type(view).__name__} is no client of ipyparallel: give ipyparallel.Client() or a view of it"
            )
        ids = list(self._client.ids)
        chosen = ids if not isinstance(targets, (list, tuple)) else [each for each in targets if each in ids]
        if not chosen:
            raise CollectorError("there is no engine to profile: start some with ipyparallel.Cluster(n=4)")
        self.ids: list[int] = chosen
        self._timeout_s = timeout_s
        self._folder = Path()
        self._begun: dict[int, Mapping[str, Any]] = {}
        self.problems: list[str] = []

    def start(self, folder: Path, options: Mapping[str, Any]) -> None:
        """Start a session on each engine; those that cannot are named in :attr:`problems`.

        Raises
        ------
        CollectorError
            If none of them can.
        """
        self._folder = folder
        token = secrets.token_hex(16)
        (folder / _PROOF).write_text(token, encoding="ascii")
        place = str(folder.absolute())
        asked = {
            each: self._call(each, engine_side.start, dict(options), place, token, rank, len(self.ids))
            for rank, each in enumerate(self.ids)
        }
        self._begun = self._answers(asked, "was not profiled")
        (folder / _PROOF).unlink(missing_ok=True)
        if not self._begun:
            raise CollectorError(f"no engine could be profiled: {'; '.join(self.problems)}")
        for each, begun in self._begun.items():
            self._note(each, "recording", path=str(begun["path"]), rank=begun["rank"])

    def stop(self) -> None:
        """Stop the session on each engine, and fetch recordings that are not in the folder of the job."""
        what, asked = "did not end its recording", {}
        for each in self._begun:
            if each in self._client.ids:
                asked[each] = self._call(each, engine_side.stop)
            else:
                self.problems.append(f"engine {each} {what}: {_DIED}")
        ended = self._answers(asked, what)
        files = {each: answer["files"] for each, answer in ended.items() if not self._begun[each]["shared"]}
        total = sum(length for listed in files.values() for _, length in listed)
        done = 0
        with progress.shown():
            for each, listed in files.items():
                try:
                    for piece in self._fetch(each, listed):
                        done += piece
                        progress.report_progress("recordings of engines", done, total)
                    self._answers({each: self._call(each, engine_side.forget)}, "keeps its recording")
                except Exception as error:  # noqa: BLE001 - the results of the others stay
                    self.problems.append(f"engine {each} did not send its whole recording: {describe_failure(error)}")
        for each, answer in ended.items():
            self.problems += [f"engine {each}: {problem}" for problem in answer["problems"]]
            self._note(each, "ended", rank=self._begun[each]["rank"])

    def _fetch(self, each: int, listed: list[tuple[str, int]]) -> Iterator[int]:
        """Write the files of an engine, and yield the bytes of each piece."""
        root = self._folder / str(self._begun[each]["path"])
        root.mkdir(mode=0o700)
        for name, length in listed:
            inner = PurePosixPath(name)
            if inner.is_absolute() or ".." in inner.parts or not inner.parts:
                raise ValueError(f"{name!r} is no path within a recording")
            path = root / inner
            for parent in reversed(inner.parents[:-1]):
                (root / parent).mkdir(mode=0o700, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                for begin in range(0, length, _PIECE_BYTES):
                    piece = self._call(each, engine_side.piece, name, begin, _PIECE_BYTES).get(self._timeout_s)
                    file.write(piece)
                    yield len(piece)

    def _call(self, each: int, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.direct_view(each).apply_async(function, *arguments)

    def _answers(self, asked: Mapping[int, Any], what: str) -> dict[int, Any]:
        """Return what the engines answer in time; the others are named."""
        answers: dict[int, Any] = {}
        deadline = time.monotonic() + self._timeout_s
        waiting = dict(asked)
        while waiting:
            for each in [each for each, answer in waiting.items() if answer.ready()]:
                try:
                    answers[each] = waiting.pop(each).get(0)
                except Exception as error:  # noqa: BLE001 - of the engine
                    self.problems.append(f"engine {each} {what}: {describe_failure(error)}")
            gone = [each for each in waiting if each not in self._client.ids]
            late = [*waiting] if time.monotonic() > deadline else []
            for each in {*gone, *late}:
                waiting.pop(each)
                why = _DIED if each in gone else f"it did not answer within {self._timeout_s:g} s"
                self.problems.append(f"engine {each} {what}: {why}")
            with suppress(Exception):
                self._client.wait(timeout=_LOOK_S, jobs=list(waiting.values())) if waiting else None
        return answers

    def _note(self, each: int, what: str, **facts: Any) -> None:
        begun = self._begun[each]
        job_folder.append(self._folder, what, **{**facts, "pid": begun["pid"], "host": begun["host"]})


@shows_options
def engines(client: Any, *, timeout_s: float = 60.0, **options: Unpack[OptionValues]) -> Session:
    """Build a session of all engines of an ipyparallel client: collectors run on each between its start and stop.

    Parameters
    ----------
    client
        A ``Client``, or a ``DirectView`` of some engines.
    timeout_s
        How long an engine may take to answer; those that do not, or die, are named in the notes of the set.
    **options
        The fields of :class:`npuprof.Options`.

    Returns
    -------
    Session
        Not started; a ``with`` block starts and stops it, after which ``result`` is the ProfileSet.

    Raises
    ------
    CollectorError
        If it is no client, or has no engines.
    """
    session = Session(Options.from_dict({**options, "engines": True}), title="npuprof.engines")
    session.children.remote = Engines(client, timeout_s)
    return session
