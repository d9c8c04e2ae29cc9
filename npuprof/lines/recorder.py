"""Writes the stamps of a cell and the stacks of calls into a recording, and thins the stamps of cheap loops.

A thread looks at new stamps ten to fifty times a second. A loop whose statements take less than 20 µs on average is
only counted from then on; once in a while it is stamped again for some milliseconds, in case its statements have become
slower. Ten times a second what is new is appended to a journal, so that a kill loses no more than a tenth of a second.
"""

from __future__ import annotations

import os
import sys
import threading
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from npuprof.errors import SessionError
from npuprof.files import list_files
from npuprof.lines import call_stacks
from npuprof.lines.call_stacks import TAKEN, CallStacks
from npuprof.lines.frames import cell_name
from npuprof.lines.stamps import LEAST_TIME, Stamps, now
from npuprof.recordings.clock import Clock, SystemClock, TracedClock
from npuprof.recordings.journal import Journal

if TYPE_CHECKING:
    from npuprof.arrays import Int64

Columns: TypeAlias = dict[str, Any]  # lists, or arrays of integers

_TICK_S, _LOOK_S = 0.02, 0.002
_LOOKS = 10  # the time from one look to the next is this part of the run: what a cheap loop costs until it is seen
_KEEP_NS = 100_000_000
_CHEAP_NS = 20_000  # a stamp is below 2 % of a statement that takes longer
_MOST_ITERATIONS = 0.9
_MANY = 200  # stamps that show what the statements of a loop take
_MOST_LOOKED_AT = 10_000  # numbers of the newest stamps: a look shall take the same time however many there are
_AGAIN_NS = 1_000_000_000  # after that a thinned loop is looked at again, then after twice that, and so on
_MOST_NUMBERS = 16_000_000  # 128 MB
_JOIN_S = 2.0

INTEGERS = (
    *("statement_line", "statement_last_line", "statement_loop", "statement_is_loop", "statement_update"),
    *("cell_thread_id", "cell_number", "stamp_number", "stamp_time_ns", "stopped_ns"),
    *("call_thread_id", "call_time_ns", "call_stack", "stack_length", "stack_line", "line_number", "line_cell"),
    *("counted_loop", "counted_iterations", "thinned_ns"),
)
TEXTS = ("cell_file", "line_file", "line_function", "line_module")
"""The columns of the file, lists in one row; times are those of the run's monotonic clock.

``stack_line`` holds the frames of all stacks one after the other, the innermost of each first; ``line_cell`` is the
number of the cell whose code it is, 0 for other code.
"""


@dataclass(frozen=True)
class RunningCell:
    """The cell, or the module of a script, that a run profiles.

    Attributes
    ----------
    file
        The file name of its code, at which the stacks of calls end; empty without a cell.
    stamps
        Its stamps; None where it is not rewritten.
    number_of
        Returns the number of the cell whose code has a file name; 0 for other files.
    id_of
        Returns the id of the cell of a number, as the front end names it; empty where it is not known.
    text
        Its source.
    origin
        Its ``id``, and the ``notebook`` that it is of, as the front end names them.
    """

    file: str = ""
    stamps: Stamps | None = None
    number_of: Callable[[str], int] = lambda _file: 0
    id_of: Callable[[int], str] = lambda _number: ""
    text: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name, as tables have it: ``<cell [3]>``, or the file of a script."""
        return cell_name(self.file, self.number_of(self.file)) or self.file


class LineRecorder:
    """Records between :meth:`start` and :meth:`stop`; then :meth:`columns` and :meth:`write`.

    Parameters
    ----------
    clock
        The clock of the run.
    journal
        The path of the file that receives what is new every tenth of a second.
    cell
        The profiled cell.
    """

    def __init__(self, clock: Clock, journal: Path, cell: RunningCell | None = None) -> None:
        self._pid = os.getpid()
        self._clock = clock
        self._cell = RunningCell() if cell is None else cell
        self._stamps = self._cell.stamps
        self._calls = CallStacks(self._cell.file)
        self._journal, self._journal_path = Journal(), journal
        self._trace = array("q")
        self._untrace: Callable[[], None] = lambda: None
        self._halt = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="npuprof-lines", daemon=True)
        # Marks of pydevd: a debugger must neither trace nor stop this thread.
        self._thread.__dict__.update(pydev_do_not_trace=True, is_pydev_daemon_thread=True)
        self._taking = threading.Lock()
        self._taken: list[Columns] = []  # batches
        self._done = {"pairs": 0, "calls": 0, "stacks": 0, "lines": 0, "looked": 0}
        self._thinned: dict[int, int] = {}  # since when, by loop
        self._pause_ns: dict[int, int] = {}
        self._thinned_ns: dict[int, int] = {}
        self._kept_ns = self._looked_ns = now()
        self._running = False
        self._is_full = False

    @property
    def outage(self) -> str:
        """Why the disk took nothing for a part of the run; empty if it took everything at once."""
        return self._journal.outage

    def start(self) -> None:
        """Start recording on the thread of the cell.

        Raises
        ------
        OSError
            If the journal cannot be created.
        """
        import numpy as np  # noqa: F401 - before the profiled code: the thread needs it

        self._journal.open(self._journal_path)
        if self._stamps is not None and isinstance(self._clock, TracedClock):
            self._untrace = self._clock.trace(self._trace)
        else:
            raw_ns = now()
            own_ns = raw_ns if isinstance(self._clock, SystemClock) else self._clock.monotonic_raw_ns()
            self._trace.extend((raw_ns, own_ns, 1))
        self._take(self._described())
        call_stacks.current = self._calls
        self._halt.acquire()
        self._running = True
        self._thread.start()

    def stop(self) -> list[str]:
        """Stop recording, in bounded time, and return the problems; a second call has no effect."""
        if not self._running or os.getpid() != self._pid:
            return []
        self._running = False
        call_stacks.current = None
        if self._stamps is not None:
            self._stamps.mute()
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
        """Return the columns of the file: arrays of integers, and lists of texts.

        Raises
        ------
        SessionError
            While it records.
        """
        import numpy as np

        if self._running:
            raise SessionError("lines are still being recorded: stop() that first")
        with self._taking:
            parts = {name: [batch[name] for batch in self._taken if name in batch] for name in INTEGERS + TEXTS}
        columns: Columns = {name: np.concatenate([np.zeros(0, np.int64), *parts[name]]) for name in INTEGERS}
        return columns | {name: list(chain.from_iterable(parts[name])) for name in TEXTS}

    def write(self, path: Path) -> None:
        """Write the file, and remove the journal.

        Raises
        ------
        SessionError
            While it records.
        NpuprofError
            If the file cannot be written.
        """
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
            pause_s = _LOOK_S if self._look() else calm_s
            if now() - self._kept_ns >= _KEEP_NS:
                self._take({})

    def _look(self) -> bool:
        """Thin the loops whose statements are cheap; return whether a thinned loop is stamped again for a while."""
        if self._stamps is None or self._is_full:
            return False
        pairs, now_ns = self._stamps.pairs, now()
        begin, self._done["looked"] = self._done["looked"], len(pairs)
        since_ns, self._looked_ns = self._looked_ns, now_ns
        if len(pairs) > _MOST_NUMBERS:
            self._is_full = True
            self._stamps.mute()
            return False
        if (len(pairs) - begin) // 2 * _CHEAP_NS > now_ns - since_ns:  # else all of them cost little: most looks
            for loop in self._cheap(_whole_pairs(pairs[max(begin, len(pairs) - _MOST_LOOKED_AT) :])):
                self._stamps.set_flag(loop, False)
                self._thinned[loop] = now_ns
        looks = False
        for loop, since_ns in list(self._thinned.items()):
            pause_ns = self._pause_ns.get(loop, _AGAIN_NS)
            if now_ns - since_ns > pause_ns:
                self._pause_ns[loop] = 2 * pause_ns
                self._note_thinned(loop, now_ns)
                self._stamps.set_flag(loop, True)
                looks = True
        return looks

    def _note_thinned(self, loop: int, now_ns: int) -> None:
        self._thinned_ns[loop] = self._thinned_ns.get(loop, 0) + now_ns - self._thinned.pop(loop)

    def _cheap(self, pairs: tuple[Int64, Int64]) -> list[int]:
        """Return the loops whose statements took little time by some stamps.

        An iteration counts as at most what nine tenths of them take: no garbage collection decides.
        """
        import numpy as np

        numbers, times = pairs
        if len(numbers) <= _MANY or self._stamps is None:
            return []
        statements = self._stamps.statements
        loops = np.array([n if each.is_loop else each.loop for n, each in enumerate(statements)], np.int64)[
            numbers[:-1]
        ]
        cheap = []
        for loop in np.flatnonzero(np.bincount(loops[loops >= 0], minlength=len(statements)) >= _MANY).tolist():
            rows = np.flatnonzero(loops == loop)
            iterations = np.bincount(np.cumsum(numbers[rows] == loop), np.diff(times)[rows])
            limited = np.minimum(iterations, np.sort(iterations)[int(_MOST_ITERATIONS * (len(iterations) - 1))])
            if limited.sum() < len(rows) * _CHEAP_NS:
                cheap.append(loop)
        return cheap

    # -- batches ---------------------------------------------------------------------------------------------------

    def _take(self, more: Columns) -> None:
        """Keep what is new, in memory and in the journal."""
        with self._taking:
            self._kept_ns = now()
            batch = {name: column for name, column in {**more, **self._new()}.items() if len(column)}
            if batch:
                batch["stopped_ns"] = [self._clock.monotonic_raw_ns()]
                self._taken.append(batch)
                numbers = {name: column.tobytes() for name, column in batch.items() if not isinstance(column, list)}
                self._journal.write({name: batch[name] for name in batch if name not in numbers}, numbers)

    def _described(self) -> Columns:
        """Return the statements of the cell, and its thread."""
        statements = self._stamps.statements if self._stamps is not None else []
        return {
            "statement_line": [each.line for each in statements],
            "statement_last_line": [each.last_line for each in statements],
            "statement_loop": [each.loop for each in statements],
            "statement_is_loop": [int(each.is_loop) for each in statements],
            "statement_update": [each.update for each in statements],
            "cell_thread_id": [threading.get_native_id()],
            "cell_number": [self._cell.number_of(self._cell.file)],
            "cell_file": [self._cell.file],
        }

    def _ends(self) -> Columns:
        """Return what is known at the end: the iterations that were only counted."""
        for loop in list(self._thinned):
            self._note_thinned(loop, now())
        counts = {} if self._stamps is None else {loop: self._stamps.counted(loop) for loop in self._thinned_ns}
        return {
            "counted_loop": list(counts),
            "counted_iterations": list(counts.values()),
            "thinned_ns": [self._thinned_ns[loop] for loop in counts],
        }

    def _new(self) -> Columns:
        """Return the stamps, calls, stacks and frames since the last batch."""
        return {**self._new_stamps(), **self._new_calls()}

    def _new_stamps(self) -> Columns:
        done = self._done
        if self._stamps is None or len(self._stamps.pairs) == done["pairs"]:
            return {}
        pairs = self._stamps.pairs[done["pairs"] :]
        if pairs[-1] < LEAST_TIME:
            pairs.pop()  # its time is yet to come
        done["pairs"] += len(pairs)
        numbers, times = _whole_pairs(pairs)
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
            "line_cell": [self._cell.number_of(each.file) for each in lines],
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
        passed: Int64 = elapsed[at] + np.where(runs[at] != 0, times - system[at], 0)
        return passed


def _whole_pairs(pairs: array[int]) -> tuple[Int64, Int64]:
    """Return numbers and times of the stamps that have both; an interrupt may have come in between."""
    import numpy as np

    values = np.frombuffer(pairs, np.int64) if pairs else np.zeros(0, np.int64)
    number = np.flatnonzero((values[:-1] < LEAST_TIME) & (values[1:] >= LEAST_TIME))
    return values[number], values[number + 1]
