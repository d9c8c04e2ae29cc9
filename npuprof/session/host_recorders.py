"""What npuprof itself records on the host beside the front end: sampled Python stacks, and lines of the user's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuprof.collectors.base import Collector
from npuprof.collectors.capabilities import LAUNCH_IN_PYTHON
from npuprof.errors import NpuprofError, SessionError
from npuprof.lines.source_texts import defined_files, imported_files, source_texts
from npuprof.options import Options
from npuprof.recordings.clock import Clock
from npuprof.recordings.recording import (
    LINES_FILE_NAME,
    LINES_JOURNAL_FILE_NAME,
    STACKS_FILE_NAME,
    STACKS_JOURNAL_FILE_NAME,
    Recording,
)
from npuprof.words.texts import repaired

if TYPE_CHECKING:
    from npuprof.collectors.python_stacks import PythonStacks
    from npuprof.lines.cell_stamps import RunningCell
    from npuprof.lines.recorder import LineRecorder


class HostRecorders:
    """The recorders of one run, from their preparation until their files are written."""

    def __init__(self, collector: Collector, options: Options, clock: Clock, cell: RunningCell | None) -> None:
        self._options = options
        self._clock = clock
        self._cell = cell
        self._has_own_stacks = options.stacks and collector.records_stacks(options)
        self._samples = "cpu" in options.activities and not collector.records_stacks(options)
        takes_calls = collector.drives(options) and options.lines and collector.name in LAUNCH_IN_PYTHON
        self._follows_pyacl = takes_calls and collector.name == "acl"
        self._put_back: Callable[[], None] = lambda: None
        stamped = cell is not None and (cell.stamps is not None or (cell.spans and (options.lines or options.steps)))
        self._follows = takes_calls or stamped
        self._added: set[int] = set()  # numbers of cells
        self._directory = Path()
        self._unstarted: tuple[PythonStacks | None, LineRecorder | None] = None, None
        self._stacks: PythonStacks | None = None
        self._lines: LineRecorder | None = None

    def prepare(self, recording: Recording) -> None:
        """Prepare a start into the directory of a recording, which gets the text of the cell."""
        stacks = lines = None
        self._directory = directory = recording.directory
        if self._samples:
            from npuprof.collectors.python_stacks import PythonStacks

            stacks = PythonStacks(clock=self._clock, journal=directory / STACKS_JOURNAL_FILE_NAME)
        if self._follows:
            from npuprof.lines.recorder import LineRecorder

            lines = LineRecorder(self._clock, directory / LINES_JOURNAL_FILE_NAME, self._cell)
        if self._cell is not None:
            from npuprof.lines import call_stacks  # noqa: F401 - the front end would record a later import
        if self._cell is not None and self._cell.file and self._options.code:
            recording.code[self._cell.name] = repaired(self._cell.text)
        if self._cell is not None and (number := self._cell.number_of(self._cell.file)):
            recording.cell = repaired({**self._cell.origin, "number": str(number)})
        self._unstarted = stacks, lines

    def start(self, undo: ExitStack) -> None:
        """Start recording; `undo` receives what ends it if the start of the run fails."""
        stacks, lines = self._unstarted
        if self._cell is not None:
            from npuprof.lines import call_stacks

            call_stacks.number_of = self._cell.number_of
            undo.callback(self._forget_numbers)
        if lines is not None:
            lines.start()
            undo.callback(lines.stop)
            self._lines = lines
            if self._follows_pyacl:
                from npuprof.lines import pyacl

                self._put_back = pyacl.follow()
                undo.callback(self._put_back)
        if stacks is not None:
            stacks.start()
            self._stacks = stacks

    def add(self, cell: RunningCell, recording: Recording) -> bool:
        """Record the stamps of a further cell of a run that spans cells; return whether it is."""
        if self._cell is None or not self._cell.spans or self._lines is None:
            return False
        self._lines.add(cell)
        self._added.add(cell.number_of(cell.file))
        if self._options.code:
            recording.code[cell.name] = repaired(cell.text)
            with suppress(NpuprofError):  # for a run that is killed; at the end it is written again
                recording.write(is_begun=True)
        return True

    def mute(self) -> None:
        """Record nothing more, without work that the front end would record."""
        if self._lines is not None:
            self._lines.mute()
        if self._stacks is not None:
            self._stacks.mute()

    def stop(self, recording: Recording) -> None:
        """Stop recording, in bounded time, and note problems."""
        self._put_back()
        if self._lines is not None:
            recording.problems += self._lines.stop()
        if self._stacks is not None:
            recording.stack_problems += self._stacks.stop()
        self._forget_numbers()
        number_of = (lambda _file: 0) if self._cell is None else self._cell.number_of
        if self._cell is not None:
            of_cell, numbers = number_of(self._cell.file), {number_of(file) for file, _ in self._frames()}
            numbers |= self._added
            ids = {number: self._cell.id_of(number) for number in sorted(numbers | {of_cell})}
            ids |= {of_cell: self._cell.origin.get("id", "")} if self._cell.origin else {}  # which has not ended
            recording.cells = repaired({str(number): id_ for number, id_ in ids.items() if number and id_})
            if self._has_own_stacks:
                files = {self._cell.file, *(file for file, _ in defined_files())}
                recording.cell_files = repaired({file: number for file in sorted(files) if (number := number_of(file))})
        if self._options.code:
            recording.code |= source_texts(self._frames(), number_of, recording.code)

    def _forget_numbers(self) -> None:
        if self._cell is not None:
            from npuprof.lines import call_stacks

            call_stacks.number_of = None

    def _frames(self) -> Iterator[tuple[str, str]]:
        """Yield file and function of the frames of recorded stacks, or of what is imported if another records them."""
        for recorder in (self._lines, self._stacks):
            if recorder is not None:
                yield from recorder.frames()
        if self._has_own_stacks:
            yield from defined_files()
            yield from imported_files()

    @property
    def writers(self) -> dict[str, Callable[[], None]]:
        """What writes the files, by the name of the part."""
        return {"stacks": self._write_stacks, "lines": self._write_lines}

    def _write_stacks(self) -> None:
        if self._stacks is not None:
            self._stacks.write(self._directory / STACKS_FILE_NAME)
            self._stacks = None

    def _write_lines(self) -> None:
        if self._lines is not None:
            self._lines.write(self._directory / LINES_FILE_NAME)
            self._lines = None

    @property
    def sample_count(self) -> int:
        """The number of samples of the Python stacks."""
        stacks = self._stacks
        return stacks.sample_count if stacks is not None else 0

    @property
    def outage(self) -> str:
        """Why the disk took nothing for a part of the run; empty if it took everything at once."""
        outages = (recorder.outage for recorder in (self._stacks, self._lines) if recorder is not None)
        return next(filter(None, outages), "")

    @property
    def stack_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The sampled Python stacks of a run that has ended, unless their file has them."""
        with suppress(SessionError):  # the sampling could not be stopped
            return None if self._stacks is None else self._stacks.columns()
        return None

    @property
    def line_columns(self) -> Mapping[str, Sequence[Any]] | None:
        """The columns of the lines of a run that has ended, unless their file has them."""
        with suppress(SessionError):
            return None if self._lines is None else self._lines.columns()
        return None
