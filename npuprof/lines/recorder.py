"""Writes the stamps of cells and the stacks of calls into a recording.

A thread looks at new stamps ten to fifty times a second, and thins those of cheap loops
(:mod:`npuprof.lines.cell_stamps`). Ten times a second what is new is appended to a journal, so that a kill loses no
more than a tenth of a second.
"""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from npuprof import threads
from npuprof.errors import SessionError
from npuprof.files import list_files
from npuprof.lines import call_stacks
from npuprof.lines.call_stacks import TAKEN, CallStacks
from npuprof.lines.cell_stamps import CellStamps, RunningCell
from npuprof.lines.stamps import now
from npuprof.recordings.clock import Clock, SystemClock, TracedClock
from npuprof.recordings.journal import Journal

if TYPE_CHECKING:
    from npuprof.arrays import Int64

Columns: TypeAlias = dict[str, Any]  # lists, or arrays of integers

_TICK_S, _LOOK_S = 0.02, 0.002
_LOOKS = 10  # the time from one look to the next is this part of the run: what a cheap loop costs until it is seen
_KEEP_NS = 100_000_000
_MOST_STAMPS = 8_000_000
_JOIN_S = 2.0

INTEGERS = (
    *("statement_cell", "statement_line", "statement_last_line", "statement_loop", "statement_is_loop"),
    *("statement_update", "cell_thread_id", "cell_number", "stamp_number", "stamp_time_ns", "stopped_ns"),
    *("call_thread_id", "call_time_ns", "call_stack", "stack_length", "stack_line", "line_number", "line_cell"),
    *("counted_loop", "counted_iterations", "thinned_ns"),
)
TEXTS = ("cell_file", "line_file", "line_function", "line_module")
"""The columns of the file, lists in one row; times are those of the run's monotonic clock.

Statements are numbered through all cells, which ``statement_cell`` counts from 0. ``stack_line`` holds the frames of
all stacks one after the other, the innermost of each first; ``line_cell`` is the number of the cell whose code it is, 0
for other code.
"""


class LineRecorder:
    """Records between :meth:`start` and :meth:`stop`; then :meth:`columns` and :meth:`write`.

    Parameters
    ----------
    cell
        The profiled cell; of a run that spans cells none, and :meth:`add` takes each as it begins.
    """

    def __init__(self, clock: Clock, journal: Path, cell: RunningCell | None = None) -> None:
        self._pid = os.getpid()
        self._clock = clock
        self._cell = RunningCell() if cell is None else cell
        self._cells: list[CellStamps] = []
        self._statement_count = 0
        self._calls = CallStacks(self._cell.file, self._cell.number_of)
        self._journal, self._journal_path = Journal(), journal
        self._trace = array("q")
        self._untrace: Callable[[], None] = lambda: None
        self._halt = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="npuprof-lines", daemon=True)
        # Marks of pydevd: a debugger must neither trace nor stop this thread.
        self._thread.__dict__.update(pydev_do_not_trace=True, is_pydev_daemon_thread=True)
        self._taking = threading.Lock()
        self._taken: list[Columns] = []  # batches
        self._done = {"calls": 0, "stacks": 0, "lines": 0}
        self._kept_ns = now()
        self._running = False
        self._is_full = False
        self._is_muted = False

    @property
    def outage(self) -> str:
        """Why the disk took nothing for a part of the run; empty if it took everything at once."""
        return self._journal.outage

    def start(self) -> None:
        """Start recording on the thread of the cell."""
        import numpy as np  # noqa: F401 - before the profiled code: the thread needs it

        self._journal.open(self._journal_path)
        self._running = True
        if self._cell.file or self._cell.stamps is not None:
            self.add(self._cell)
        call_stacks.current = self._calls
        self._halt.acquire()
        threads.start(self._thread)

    def add(self, cell: RunningCell) -> None:
        """Record the stamps of a cell that begins, on its thread; without a recording in progress, do nothing."""
        if not self._running:
            return
        if cell.stamps is not None and not self._trace:
            self._follow_clock()
        with self._taking:
            added = CellStamps(cell, len(self._cells), self._statement_count)
            self._statement_count += len(added.statements)
            self._cells.append(added)
        self._take(added.described())

    def _follow_clock(self) -> None:
        """Record the relation of stamps to the run's clock."""
        if isinstance(self._clock, TracedClock):
            self._untrace = self._clock.trace(self._trace)
        else:
            raw_ns = now()
            own_ns = raw_ns if isinstance(self._clock, SystemClock) else self._clock.monotonic_raw_ns()
            self._trace.extend((raw_ns, own_ns, 1))

    def mute(self) -> None:
        """Record no more stamps and calls, without other work; :meth:`stop` follows."""
        self._is_muted = True
        if self._running and os.getpid() == self._pid:
            call_stacks.current = None
            for cell in self._cells:
                cell.mute()

    def stop(self) -> list[str]:
        """Stop recording, in bounded time, and return the problems; a second call has no effect."""
        if not self._running or os.getpid() != self._pid:
            return []
        self._running = False
        call_stacks.current = None
        for cell in self._cells:
            cell.mute()
        self._halt.release()
        self._thread.join(_JOIN_S)
        self._take(self._ends())
        self._untrace()
        self._journal.close()
        return ["the cell ran more statements than are kept: the last ones are missing"] if self._is_full else []

    def frames(self) -> list[tuple[str, str]]:
        """Return file and function of the distinct frames of calls."""
        return [(each.file, each.function) for each in self._calls.lines]

    def columns(self) -> Columns:
        """Return the columns of the file: arrays of integers, and lists of texts."""
        import numpy as np

        if self._running:
            raise SessionError("lines are still being recorded: stop() that first")
        with self._taking:
            parts = {name: [batch[name] for batch in self._taken if name in batch] for name in INTEGERS + TEXTS}
        columns: Columns = {name: np.concatenate([np.zeros(0, np.int64), *parts[name]]) for name in INTEGERS}
        return columns | {name: list(chain.from_iterable(parts[name])) for name in TEXTS}

    def write(self, path: Path) -> None:
        """Write the file, and remove the journal."""
        list_files.write(path, self.columns(), dict.fromkeys(INTEGERS, "int64"))
        self._journal.remove()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        # The user's threading.setprofile and settrace must not apply to this thread.
        sys.setprofile(None)
        sys.settrace(None)
        began_ns, pause_s = now(), _TICK_S
        while not self._halt.acquire(timeout=pause_s):
            # Each look makes the user's thread hand over its lock, which costs a busy machine more than the look.
            calm_s = min(max(_TICK_S, (now() - began_ns) / 1e9 / _LOOKS), _KEEP_NS / 1e9)
            if self._is_muted:
                pause_s = _KEEP_NS / 1e9
                continue
            pause_s = _LOOK_S if self._look() else calm_s
            if now() - self._kept_ns >= _KEEP_NS:
                self._take({})

    def _look(self) -> bool:
        """Thin the loops whose statements are cheap; return whether a thinned loop is stamped again for a while."""
        if self._is_full:
            return False
        if sum(cell.count for cell in self._cells) > _MOST_STAMPS:
            self._is_full = True
            for cell in self._cells:
                cell.mute()
            return False
        looks = [cell.look() for cell in self._cells]
        return any(looks)

    # -- batches ---------------------------------------------------------------------------------------------------

    def _take(self, more: Columns) -> None:
        """Keep new records, in memory and in the journal."""
        with self._taking:
            self._kept_ns = now()
            batch = {name: column for name, column in {**more, **self._new()}.items() if len(column)}
            if batch:
                batch["stopped_ns"] = [self._clock.monotonic_raw_ns()]
                self._taken.append(batch)
                numbers = {name: column.tobytes() for name, column in batch.items() if not isinstance(column, list)}
                self._journal.write({name: batch[name] for name in batch if name not in numbers}, numbers)

    def _ends(self) -> Columns:
        """Return the facts that the end of the recording adds: counted iterations."""
        counted = [row for cell in self._cells for row in cell.counted()]
        return {
            "counted_loop": [loop for loop, _, _ in counted],
            "counted_iterations": [iterations for _, iterations, _ in counted],
            "thinned_ns": [thinned_ns for _, _, thinned_ns in counted],
        }

    def _new(self) -> Columns:
        """Return the stamps, calls, stacks and frames since the last batch."""
        return {**self._new_stamps(), **self._new_calls()}

    def _new_stamps(self) -> Columns:
        import numpy as np

        parts = [cell.new() for cell in self._cells]
        numbers, times = (np.concatenate([np.zeros(0, np.int64), *(part[at] for part in parts)]) for at in range(2))
        if not len(times):
            return {}
        return {"stamp_number": numbers, "stamp_time_ns": self._on_run_clock(times)}

    def _new_calls(self) -> Columns:
        import numpy as np

        done, calls = self._done, self._calls
        flat = calls.calls[done["calls"] :]
        flat = flat[: len(flat) // TAKEN * TAKEN]
        if not flat:
            return {}
        done["calls"] += len(flat)
        taken = np.frombuffer(flat, np.int64).reshape(-1, TAKEN)
        stacks, lines = calls.stacks[done["stacks"] :], calls.lines[done["lines"] :]
        done["stacks"], done["lines"] = done["stacks"] + len(stacks), done["lines"] + len(lines)
        return {
            "call_thread_id": taken[:, 0],
            "call_time_ns": taken[:, 1],
            "call_stack": taken[:, 2],
            "stack_length": [len(stack) for stack in stacks],
            "stack_line": [line for stack in stacks for line in stack],
            "line_number": [each.line for each in lines],
            "line_cell": [each.cell for each in lines],
            "line_file": [each.file for each in lines],
            "line_function": [each.function for each in lines],
            "line_module": [each.module for each in lines],
        }

    def _on_run_clock(self, times: Int64) -> Int64:
        """Return times of stamps as the clock of the run had them."""
        import numpy as np

        changes = self._trace[:]
        if len(changes) == 3 and changes[2]:
            return times + (changes[1] - changes[0])
        changes = changes[: len(changes) // 3 * 3]
        system, elapsed, runs = np.frombuffer(changes, np.int64).reshape(-1, 3).T
        at = np.maximum(np.searchsorted(system, times, side="right") - 1, 0)
        if len(at):  # what follows the last stamp holds for stamps to come
            del self._trace[: 3 * int(at[-1])]
        return elapsed[at] + np.where(runs[at] != 0, times - system[at], 0)
