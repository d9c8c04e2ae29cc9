"""The stamps of one running cell; cheap loops keep only some of them.

A loop whose statements take less than 20 µs on average is only counted from then on; once in a while it is stamped
again for some milliseconds, in case its statements have become slower.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npuprof.lines.frames import cell_name
from npuprof.lines.stamps import Stamps, Statement, now

if TYPE_CHECKING:
    from npuprof.arrays import Int64

_CHEAP_NS = 20_000  # a stamp is below 2 % of a statement that takes longer
_MOST_ITERATIONS = 0.9
_MANY = 200  # stamps that show what the statements of a loop take
_MOST_LOOKED_AT = 5_000  # the newest stamps: a look shall take the same time however many there are
_AGAIN_NS = 1_000_000_000  # after that a thinned loop is looked at again, then after twice that, and so on


@dataclass(frozen=True)
class RunningCell:
    """The cell, or the module of a script, that a run profiles, or the cells that it spans."""

    file: str = ""  # the file name of its code, at which the stacks of calls end; empty without a cell
    stamps: Stamps | None = None  # its stamps; None where it is not rewritten
    # Returns the number of the cell whose code has a file name; 0 for other files.
    number_of: Callable[[str], int] = lambda _file: 0
    # Returns the id of the cell of a number, as the front end names it; empty where it is not known.
    id_of: Callable[[int], str] = lambda _number: ""
    text: str = ""  # its source
    # Its `id`, and the `notebook` that it is of, as the front end names them.
    origin: Mapping[str, str] = field(default_factory=dict)
    # Whether it stands for the cells that run until the run is stopped by hand, and has no code itself.
    spans: bool = False

    @property
    def name(self) -> str:
        """Its name, as tables have it: ``<cell [3]>``, or the file of a script."""
        return cell_name(self.file, self.number_of(self.file)) or self.file


class CellStamps:
    """The stamps of a cell from its first statement on."""

    def __init__(self, cell: RunningCell, number: int, first: int) -> None:
        self._cell, self._number, self._first = cell, number, first
        self._stamps = Stamps() if cell.stamps is None else cell.stamps
        self._thread_id = threading.get_native_id()
        self._kept, self._looked = ([0] * len(self._stamps.times) for _ in range(2))
        self._looked_ns = now()
        self._thinned: dict[int, int] = {}  # since when, by loop
        self._pause_ns: dict[int, int] = {}
        self._thinned_ns: dict[int, int] = {}
        self._is_muted = False

    @property
    def statements(self) -> list[Statement]:
        """Its statements; none if it is not rewritten."""
        return self._stamps.statements

    @property
    def count(self) -> int:
        """How many stamps it has."""
        return self._stamps.count

    def mute(self) -> None:
        """Stamp nothing from now on."""
        self._is_muted = True
        self._stamps.turn_off()

    def described(self) -> dict[str, Any]:
        """Return the columns of the file that describe the cell."""
        return {
            "statement_cell": [self._number] * len(self.statements),
            "statement_line": [each.line for each in self.statements],
            "statement_last_line": [each.last_line for each in self.statements],
            "statement_loop": [each.loop if each.loop < 0 else each.loop + self._first for each in self.statements],
            "statement_is_loop": [int(each.is_loop) for each in self.statements],
            "statement_update": [each.update for each in self.statements],
            "cell_thread_id": [self._thread_id],
            "cell_number": [self._cell.number_of(self._cell.file)],
            "cell_file": [self._cell.file],
        }

    def new(self) -> tuple[Int64, Int64]:
        """Return number and time of each stamp since the last call."""
        import numpy as np

        numbers, times = self._stamps.since(self._kept, now())
        return np.where(numbers < 0, numbers, numbers + self._first), times

    def look(self) -> bool:
        """Thin the loops whose statements are cheap; return whether a thinned loop is stamped again for a while."""
        if self._is_muted:
            return False
        counts, now_ns = [len(times) for times in self._stamps.times], now()
        since_ns, self._looked_ns = self._looked_ns, now_ns
        if (sum(counts) - sum(self._looked)) * _CHEAP_NS > now_ns - since_ns:  # else all cost little: most looks
            newest = [max(was, count - _MOST_LOOKED_AT) for was, count in zip(self._looked, counts, strict=True)]
            numbers, times = (part[-_MOST_LOOKED_AT:] for part in self._stamps.since(newest, now_ns))
            for loop in self.cheap((numbers, times)):
                for turned in self._stamps.turn(loop, on=False):
                    self._thinned.setdefault(turned, now_ns)
        self._looked = counts
        looks = False
        for loop, thinned_ns in list(self._thinned.items()):
            if loop not in self._thinned or self.statements[loop].loop in self._thinned:
                continue  # it goes with the one around it
            pause_ns = self._pause_ns.get(loop, _AGAIN_NS)
            if now_ns - thinned_ns > pause_ns:
                self._pause_ns[loop] = 2 * pause_ns
                for turned in self._stamps.turn(loop, on=True):
                    self._note_thinned(turned, now_ns)
                looks = True
        return looks

    def cheap(self, pairs: tuple[Int64, Int64]) -> list[int]:
        """Return the loops whose statements took little time by some stamps.

        An iteration counts as at most what nine tenths of them take: no garbage collection decides.
        """
        import numpy as np

        numbers, times = pairs
        if len(numbers) <= _MANY:
            return []
        loops = np.array([n if each.is_loop else each.loop for n, each in enumerate(self.statements)], np.int64)[
            numbers[:-1]
        ]
        cheap = []
        for loop in np.flatnonzero(np.bincount(loops[loops >= 0], minlength=len(self.statements)) >= _MANY).tolist():
            rows = np.flatnonzero(loops == loop)
            iterations = np.bincount(np.cumsum(numbers[rows] == loop), np.diff(times)[rows])
            limited = np.minimum(iterations, np.sort(iterations)[int(_MOST_ITERATIONS * (len(iterations) - 1))])
            if limited.sum() < len(rows) * _CHEAP_NS:
                cheap.append(loop)
        return cheap

    def counted(self) -> list[tuple[int, int, int]]:
        """Return the thinned loops at the end: number, iterations that were only counted, and nanoseconds of that."""
        ends = self._stamps.times[-1] if self._stamps.times else ()
        for loop in list(self._thinned):
            self._note_thinned(loop, max(ends[-1] if ends else now(), self._thinned[loop]))
        counts = {loop: switch.thinned for loop, switch in self._stamps.switches.items() if switch.thinned}
        return [(self._first + loop, count, self._thinned_ns.get(loop, 0)) for loop, count in counts.items()]

    def _note_thinned(self, loop: int, now_ns: int) -> None:
        if loop in self._thinned:
            self._thinned_ns[loop] = self._thinned_ns.get(loop, 0) + now_ns - self._thinned.pop(loop)
