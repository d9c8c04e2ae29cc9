"""The state of the panel and the actions of its controls; without IPython and widgets, usable on any thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuprof import progress
from npuprof.errors import NpuprofError, SessionError, describe_failure
from npuprof.notebook.controller import Cell, Controller
from npuprof.notebook.grid.widget import Message
from npuprof.notebook.panel import runs as run_actions
from npuprof.notebook.panel.background import RunInBackground, run_in_background
from npuprof.notebook.panel.files import Growth, measure
from npuprof.notebook.panel.form import OptionsForm
from npuprof.notebook.panel.runs import ListedRuns
from npuprof.notebook.panel.state import Mode, Opened, Question, State
from npuprof.recordings.clock import Clock, SystemClock
from npuprof.session import active as running
from npuprof.session.executed_cells import part_of
from npuprof.session.history import EndedRun
from npuprof.words import quantities
from npuprof.words.texts import encodable

if TYPE_CHECKING:
    from npuprof.session.session import Session

_INTERVAL_NS = 900_000_000  # interval between measurements of a recording's files
_STOP_WAITS = (
    "This front end delivers clicks only after the running cell has ended, and so Stop acts then. To have a report "
    "now, interrupt the kernel."
)


@dataclass
class _Reading:
    what: str
    latest: progress.Progress | None = None


class PanelController:
    """The state and the actions of the panel."""

    def __init__(
        self,
        cells: Controller,
        changed: Callable[[], None] = lambda: None,
        *,
        clock: Clock | None = None,
        in_background: RunInBackground = run_in_background,
    ) -> None:
        self.form = OptionsForm()
        self.runs = ListedRuns()
        self.mode: Mode = "by hand"
        self.opened: Opened | None = None
        self.question: Question | None = None
        self._cells = cells
        self._changed = changed
        self._clock = clock if clock is not None else SystemClock()
        self._in_background = in_background
        self._failure = ""
        self._note = ""
        self._readings: list[_Reading] = []
        self._growth = Growth()
        self._growth_of: Path | None = None
        self._looked_ns = 0
        self._heard_on_main: bool | None = None
        self._find_earlier()

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def lively(self) -> bool:
        """Whether the panel changes without user input and needs periodic updates."""
        return running.current() is not None or bool(self._readings) or self._cells.showing

    def state(self) -> State:
        """Return the current state."""
        run = running.current()
        if run is not None:
            return self._recording(run)
        readings = list(self._readings)
        problem = self.form.problem
        if readings or self._cells.showing:
            return self._decoding(readings, can_start=not problem)
        if self._failure:
            return State("failed", "Failed", self._failure, can_start=not problem, hint=problem)
        if self.mode != "by hand":
            label = "The next cell" if self.mode == "next cell" else "Every cell"
            return State("armed", f"{label} will be profiled", self._note, can_start=not problem, hint=problem)
        return State("idle", "Idle", self._note, can_start=not problem, hint=problem)

    def _recording(self, run: running.ActiveRun) -> State:
        elapsed_ns = run.elapsed_ns
        growth = self._growth if self._growth_of == run.recording.directory else Growth()
        parts = [
            quantities.duration(elapsed_ns // 100_000_000 * 100_000_000) if elapsed_ns >= 10**8 else "0 s",
            f"{'at least ' * growth.at_least}{quantities.counted(growth.records, 'record')}",
            *([f"{quantities.counted(run.sample_count, 'sample')} of Python stacks"] if run.sample_count else []),
            f"{quantities.size(growth.size_bytes)} on disk",
        ]
        ours = self._cells.collecting
        hint = (_STOP_WAITS if self._heard_on_main else "") if ours else f"{run.describe()}: it is stopped there"
        said = self._failure or self._note
        return State("recording", "Recording", " · ".join(parts), can_stop=ours, hint=hint, message=said)

    def _decoding(self, readings: list[_Reading], *, can_start: bool) -> State:
        if not readings:
            details, said = "the report appears under the cell", self._failure or self._note
            return State("decoding", "Decoding", details, can_start=can_start, message=said)
        reading = readings[-1]
        latest = reading.latest
        fraction = latest.fraction if latest is not None and latest.total > 0 else None
        details = f"{reading.what}: {latest}" if latest is not None else reading.what
        said = self._failure or self._note
        return State("decoding", "Decoding", details, fraction, can_start=can_start, message=said)

    def look(self) -> None:
        """Measure the recording, at most about once a second."""
        run = running.current()
        if run is not None:
            directory, now_ns = run.recording.directory, self._clock.monotonic_raw_ns()
            if self._growth_of != directory or now_ns - self._looked_ns >= _INTERVAL_NS:
                self._growth, self._growth_of, self._looked_ns = measure(directory), directory, now_ns

    def heard(self, *, on_main_thread: bool) -> None:
        """Record whether messages of the front end arrive on the thread that runs cells."""
        self._heard_on_main = on_main_thread

    # -- recording -----------------------------------------------------------------------------------------

    def choose(self, option: str, value: Any) -> None:
        """Set an option."""
        self.form.choose(option, value)
        if option == "output":
            self._find_earlier()
        self._changed()

    def _find_earlier(self) -> None:
        """Find recordings of earlier kernels where runs are kept, in the background."""
        folder = Path(str(self.form.chosen("output")))

        def find() -> None:
            with suppress(OSError, RuntimeError):  # the form says what is wrong with the folder
                self.runs.find_earlier(folder)
            self._changed()

        self._in_background(find)

    def set_mode(self, mode: Mode) -> None:
        """Profile by hand, the next cell, or every cell."""
        self.mode = mode
        self._clear()
        self._changed()

    def start(self) -> None:
        """Start a run that lasts until :meth:`stop`, across cells; the state shows a failure."""
        self._clear()
        self._try("it could not be started", lambda: self._cells.begin(self.form.options(), "the panel"))
        self._changed()

    def stop(self) -> None:
        """Stop the run, then decode and open it; the state shows a failure.

        Nothing happens if the run has ended meanwhile, as at the second click of a double one.
        """
        if running.current() is None:
            return
        self._clear()

        def stop() -> None:
            if not self._cells.end(show=self._decode):
                run = running.current()
                if run is not None:
                    raise SessionError(f"{run.describe()}: stop it there")

        self._try("it could not be stopped", stop)
        self._changed()

    def await_cell(self, text: str) -> None:
        """Have the cell that is about to run profiled, if the mode requires it."""
        if self.mode != "by hand" and not _starts_own_run(text):
            self._cells.awaited = self.cell_begins

    def cell_begins(self, cell: Cell) -> str:
        """Start the run of a cell if the mode requires it; return why it runs unprofiled instead, or an empty text."""
        if self.mode == "by hand" or running.current() is not None:
            return ""
        if self.mode == "next cell":
            self.mode = "by hand"
        self._clear()
        self._try("the cell runs unprofiled", lambda: self._cells.begin(self.form.options(), cell.title, cell=cell))
        self._changed()
        return self._failure

    def cell_ended(self) -> None:
        """Update the panel after a cell."""
        self._cells.awaited = None
        self._changed()

    def _decode(self, session: Session) -> None:
        run_title = encodable(session.recording.name or session.recording.directory.name)

        def decode() -> Opened:
            profile = session.result
            self.runs.note(session.recording.directory, profile)
            parts = tuple(part_of(session.recording, part) for part in session.recording.parts)
            return Opened(run_title, (profile,), parts)

        kept = encodable(f"the recording is kept in {session.recording.directory}: Open tries again")
        self._read(run_title, decode, kept)

    # -- runs ----------------------------------------------------------------------------------------------

    def answer(self, question: Message) -> None:
        """Handle a request of the list of runs: open, compare, rename, save or delete."""
        if question.get("kind") != "action":
            return
        self._clear()
        self.question = None
        name = str(question.get("action"))
        self._try(f"{name} failed", lambda: self._act(name, [int(number) for number in question["rows"]]))
        self._changed()

    def _act(self, name: str, numbers: list[int]) -> None:
        chosen = [self.runs.find(number) for number in numbers]
        if not chosen or (name == "compare") != (len(chosen) == 2):
            raise NpuprofError("select two runs to compare, or one run for the other actions")
        run = chosen[0]
        called_name = run_actions.title(run)
        if name in ("open", "compare"):
            # the older run first, whatever the order of selection
            ordered = sorted(chosen, key=lambda ended: ended.started_ns)
            self._read(" and ".join(map(run_actions.title, ordered)), lambda: self._open(ordered))
        elif name == "rename" and self.runs.is_loaded(run):
            raise NpuprofError("a loaded result keeps its name: only recordings can be renamed")
        elif name == "rename":
            self.question = Question("rename", run, f"New name of {called_name}:", run.name)
        elif name == "save":
            proposed = f"{called_name.strip('.')}-tables"
            asked = f"Save the tables of {called_name} in a new directory, or its report in a file that ends in .html:"
            self.question = Question("save", run, asked, proposed)
        elif name == "delete" and self.runs.is_loaded(run):
            self.runs.forget(run)
            self._note = encodable(f"{run.directory} is no longer listed; its files stay")
        elif name == "delete":
            self.question = Question("delete", run, encodable(f"Delete the recording {run.directory} for good?"))

    def _open(self, chosen: list[EndedRun]) -> Opened:
        from npuprof.profiles.profile import Profile

        opened = [run_actions.opened_of(run) for run in chosen]
        named = " and ".join(map(run_actions.title, chosen))
        profiles = tuple(result for result in opened if isinstance(result, Profile))
        if len(profiles) < len(opened):
            (of_set,) = opened if len(opened) == 1 else (None,)
            if of_set is None or isinstance(of_set, Profile):
                raise NpuprofError("a set of runs is compared with another one by npuprof.compare()")
            if self.runs.is_loaded(chosen[0]):
                self.runs.add_loaded(chosen[0].directory, of_set)  # it may have more runs by now
            return Opened(named, of_set=of_set)
        for run, profile in zip(chosen, profiles, strict=True):
            self.runs.note(run.directory, profile)
        return Opened(named, profiles)

    def confirm(self, text: str = "") -> None:
        """Accept the question, with a text if it asks for one; after a failure the question stays."""
        asked = self.question
        if asked is None:
            return
        self._clear()
        if asked.kind == "save":
            self.question = None
            self._read(f"saving {run_actions.title(asked.run)}", lambda: self._save(asked, text))
        elif self._try(f"{asked.kind} failed", lambda: self._confirm(asked, text)):
            self.question = None
        self._changed()

    def _confirm(self, asked: Question, text: str) -> None:
        if asked.kind == "rename":
            run_actions.rename(asked.run, text)
            self._find_earlier()
        else:
            self._note = run_actions.delete(asked.run)
            self.runs.forget(asked.run)
            if self.opened is not None and asked.run.directory in self.opened.directories:
                self.opened = None

    def _save(self, asked: Question, text: str) -> None:
        """Save the tables or the report of a run; after a failure the question is asked again, with the typed path."""
        path = Path(text.strip()).expanduser()
        try:
            if not text.strip():
                raise NpuprofError("give the new directory or file a name")
            profile = run_actions.opened_of(asked.run)
            if path.suffix.lower() in (".html", ".htm"):
                self._note = f"saved: {profile.to_html(path)} opens in any browser"
            else:
                self._note = f"saved: npuprof.load({str(profile.save(path))!r}) reads it"
        except Exception as error:  # noqa: BLE001 - shown by the state
            self._failure = f"not saved: {str(error) if isinstance(error, NpuprofError) else describe_failure(error)}"
            self.question = replace(asked, proposed=text)

    def refuse(self) -> None:
        """Reject the question, and forget why an answer to it was refused."""
        self._clear()
        self.question = None
        self._changed()

    def load(self, path: str) -> None:
        """Open a recording, a result or a file; the state shows a failure."""
        self._clear()
        if not path.strip():
            self._note = "type the path of a recording, a result directory or a file"
        else:
            self._read(path.strip(), lambda: self._load(path.strip()))
        self._changed()

    def _load(self, path: str) -> Opened:
        from npuprof.loading import open_path
        from npuprof.profiles.profile import Profile

        opened = open_path(path)
        self.runs.add_loaded(Path(path), opened)  # it reads all of a run here, in the background
        return Opened(path, (opened,)) if isinstance(opened, Profile) else Opened(path, of_set=opened)

    def close(self) -> None:
        """Close the open report."""
        self.opened = None
        self._changed()

    # -- failures and background work ----------------------------------------------------------------------

    def fail(self, message: str) -> None:
        """Show a failure."""
        self._failure = message
        self._changed()

    def note(self, message: str) -> None:
        """Set a message for the next update."""
        self._note = message

    def _clear(self) -> None:
        self._failure = self._note = ""

    def _try(self, subject: str, act: Callable[[], object]) -> bool:
        """Run an action and keep the reason of a failure."""
        try:
            act()
        except NpuprofError as error:
            self._failure = str(error)
        except Exception as error:  # noqa: BLE001 - the panel shows every failure
            self._failure = f"{subject}: {describe_failure(error)}"
        else:
            return True
        return False

    def _read(self, subject: str, read: Callable[[], Opened | None], kept: str = "") -> None:
        """Read in the background, then open the result."""
        reading = _Reading(subject)
        self._readings.append(reading)

        def watch(latest: progress.Progress) -> None:
            reading.latest = latest

        def act() -> None:
            """Read, and keep the result or the error for the state."""
            try:
                with progress.watched(watch):
                    opened = read()
                self.opened = opened if opened is not None else self.opened
            except Exception as error:  # noqa: BLE001 - shown by the state
                reason = str(error) if isinstance(error, NpuprofError) else describe_failure(error)
                if kept:
                    self._failure = f"{reason}; {kept}"
                else:
                    self._note = f"not opened: {reason}"
            finally:
                self._readings.remove(reading)
                self._changed()

        self._in_background(act)


def _starts_own_run(text: str) -> bool:
    """Return whether a cell starts its own run, or controls npuprof."""
    first = text.lstrip().partition("\n")[0]
    return first.startswith(("%%npuprof", "%npuprof", "%load_ext", "npuprof.panel("))
