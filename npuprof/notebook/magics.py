"""The magics ``%%npuprof`` and ``%npuprof``: thin wrappers of the controller."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from npuprof.errors import NpuprofError, OptionsError, SessionBusyError, SessionError, describe_failure
from npuprof.machine import shadowed
from npuprof.notebook.arguments import Arguments, interpret, parse, profiling_arguments, without_comment
from npuprof.notebook.clearing import PendingClears
from npuprof.notebook.controller import Cell, Controller, kept_when_interrupted
from npuprof.notebook.hooks import (
    CellHooks,
    CellTransformer,
    cell_title,
    current_cell,
    failure_of,
    watch,
)
from npuprof.notebook.messages import tell
from npuprof.notebook.repeats import run_again
from npuprof.notebook.report import SAVED_BYTES, SessionReports, show_run, show_set
from npuprof.notebook.rewriting import AWAITED, MAGICS, SPANNED, CellRewriter, number_of
from npuprof.words import quantities
from npuprof.words.texts import plain_lines

if TYPE_CHECKING:
    import pandas as pd
    from IPython.core.interactiveshell import InteractiveShell

    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet
    from npuprof.session.history import RecordedRun

_NAME = "npuprof"
_LONGEST_REASON = 400
_CONFIDENT = "--confident "  # of assert
_COMMANDS = ("start", "stop", "status", "last", "ask", "assert", "load", "run", "sql", "panel")


@magics_class
class NpuprofMagics(Magics):
    """The magics of a shell, with their transformer and hooks."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell, controller: Controller | None = None) -> None:
        super().__init__(shell)
        self.controller = controller if controller is not None else Controller(SessionReports())
        self._rewriter = CellRewriter(shell, self._word_of_next, self._begin_cell)
        self.controller.number_of = partial(number_of, shell)
        self.controller.view = self._engines
        self._clears = PendingClears(shell)
        self._hooks = CellHooks(shell, self.controller, self._rewriter, self._clears)
        self._transformer = CellTransformer(shell, self._rewriter.note_text)
        # What `load` opened last, and the newest run at that time.
        self._loaded: tuple[Profile | ProfileSet | None, RecordedRun | None] = (None, None)

    @classmethod
    def installed_in(cls, shell: InteractiveShell) -> NpuprofMagics | None:
        """Return the magics installed in a shell, or None."""
        return shell.magics_manager.registry.get(cls.__name__)

    def install(self) -> None:
        """Add the magics, the transformer and the hooks to the shell."""
        self.shell.register_magics(self)
        self._transformer.install()
        self._rewriter.install()
        self._hooks.register()
        self._clears.install()

    def uninstall(self) -> None:
        """Stop a run in progress, show its report, and remove everything from the shell."""
        try:
            self.controller.end()
        finally:
            self._hooks.unregister()
            self._clears.uninstall()
            self._transformer.uninstall()
            self._rewriter.uninstall()
            manager = self.shell.magics_manager
            for kind in ("line", "cell"):
                manager.magics[kind].pop(_NAME, None)
            manager.registry.pop(type(self).__name__, None)

    @magic_arguments(f"%{_NAME}")
    @profiling_arguments
    @cell_magic(_NAME)  # type: ignore[arg-type]  # IPython's own annotation fits the form without a name only
    def npuprof_cell(self, line: str, cell: str) -> None:
        """Profile this cell on the NPU and show a report below its output.

        The cell runs as it does without this line: it keeps its value, `await`, errors and line numbers.
        Other cell magics may stand above or below. `npuprof.last()` gives the tables of the run.
        """
        # The transformer handles every cell that begins with the magic; this is for code that calls the magic by
        # name, and for cells without a body.
        if not cell.strip():
            raise UsageError("%%npuprof profiles the lines below it, and there are none")
        result = self.shell.run_cell(f"%%{_NAME} {line}\n{cell}")
        if (error := failure_of(result)) is not None:
            raise SessionError(f"the profiled code ended with {type(error).__name__}; its traceback is above")

    @magic_arguments(_NAME)
    @argument(
        "command",
        nargs="?",
        choices=_COMMANDS,
        default="status",
        help="start or stop collecting by hand, across cells; show the panel that does; show the status (the "
        "default); show the report of the last run again; print it as Markdown for an assistant (`ask`, which "
        "sends nothing); fail the cell unless the last run keeps to limits, as "
        "`%%npuprof assert step < 160ms and idle < 30%%` (with `--confident` first: only if the 95 %% interval breaks "
        "one); load a recording, a result or one file and show its report; "
        "select from the tables of the last run, or of what was loaded since, as `%%npuprof sql select * from steps`; "
        "or run a script in a process of its own, under msprof unless `--collector` names another front end, as "
        "`%%npuprof run [options] script.py [its arguments]`.",
    )
    @argument("path", nargs="?", help="What to load.")
    @profiling_arguments
    @line_magic(_NAME)  # type: ignore[arg-type]  # IPython's own annotation fits the form without a name only
    def npuprof_line(self, line: str) -> pd.DataFrame | None:
        """Start and stop the profiler by hand, or look at a run.

        The options are those of `%%npuprof` and go with `start`.
        """
        with self._clears.kept():
            return self._command(line)

    def _command(self, line: str) -> pd.DataFrame | None:
        word, _, remainder = line.partition(" ")
        if word == "sql":
            return self._sql(remainder)
        if word in ("run", "load", "assert"):  # these parse their own arguments
            {"run": self._run, "load": self._load, "assert": self._assert}[word](remainder)
            return None
        words = parse(self.npuprof_line.parser, line)
        command, path = words.pop("command"), words.pop("path")
        if command in ("run", "load", "assert", "sql"):
            raise UsageError(f"options of {command} come after `{command}`: %npuprof {command} --... PATH")
        if path is not None:
            raise UsageError(f"%npuprof {command} takes no path: leave {path!r} out")
        if words and command != "start":
            raise UsageError(f"%npuprof {command} takes no options: they go with `%npuprof start`")
        if command == "start":
            cell = current_cell(self.shell)
            place = cell.title if cell is not None else cell_title(self.shell, numbered=False)
            self._begin(_without_repeat(interpret(words)), f"%npuprof start in {place}")
        else:
            {"stop": self._stop, "status": self._status, "last": self._last, "ask": self._ask, "panel": self._panel}[
                command
            ]()
        return None

    def _begin_cell(self, line: str) -> None:
        cell = current_cell(self.shell)
        if cell is None:
            raise UsageError("%%npuprof profiles a cell, and no cell is running: use npuprof.profile() in a script")
        if line == MAGICS:
            watch(self.shell.displayhook.exec_result, self.controller.code_ends)
            return
        watch(self.shell.displayhook.exec_result, partial(self._rewriter.raised, cell.identity))
        running = self._rewriter.running(cell.identity, cell.text, cell.origin, self.controller.id_of)
        is_added = False
        try:
            if line == AWAITED:
                self._begin_awaited(replace(cell, running=running))
                return
            if line == SPANNED:
                is_added = self.controller.add_cell(running)
                return
            arguments = interpret(
                parse(self.npuprof_cell.parser, str(self.shell.var_expand(without_comment(line), depth=1)))
            )
            if self.controller.take_part():
                is_added = self.controller.add_cell(running)
                tell(
                    f"{cell.title} is recorded as a part of the run that collects already, with the options of that: "
                    "%npuprof stop reports both"
                )
                return
            self._begin(arguments, cell.title, replace(cell, running=running))
        finally:
            held = self.controller.cell
            if not is_added and (held is None or held.identity != cell.identity):
                self._rewriter.mute(cell.identity)

    def _word_of_next(self) -> str:
        """Return what begins the cell that is about to run, though its first line does not; empty for nothing."""
        is_spanned = self.controller.spans_next()
        if self.controller.awaited is not None:
            return AWAITED
        return SPANNED if is_spanned else ""

    def _begin_awaited(self, cell: Cell) -> None:
        begin, self.controller.awaited = self.controller.awaited, None
        if begin is not None and (reason := begin(cell)):
            tell(f"the cell runs unprofiled: {reason}")

    def _begin(self, arguments: Arguments, title: str, cell: Cell | None = None) -> None:
        repeat = partial(run_again, self.shell, cell.text) if cell is not None and arguments.overhead else None
        try:
            self.controller.begin(
                arguments.options,
                title,
                cell=cell,
                report=arguments.report,
                repeat=repeat,
                saved_bytes=arguments.saved_bytes,
            )
        except OptionsError as error:
            raise UsageError(str(error)) from None
        except SessionBusyError as error:
            if cell is None:
                raise
            tell(
                f"{title} runs without a report of its own, since a process has one profiler: {error}, or run this "
                "cell again when that has ended"
            )
        except Exception as error:
            if isinstance(error, NpuprofError) and not arguments.run_anyway:
                raise
            reason = str(error) if isinstance(error, NpuprofError) else describe_failure(error)
            cause = shadowed.explanation(error)
            tell(
                f"the code runs unprofiled: {quantities.printable(reason, _LONGEST_REASON)}{'; ' * bool(cause)}{cause}"
            )

    def _engines(self) -> object:
        """Return the view of ipyparallel whose engines run ``%%px``."""
        magics = self.shell.magics_manager.registry.get("ParallelMagics")
        if magics is None:
            raise OptionsError(
                "--engines profiles those on which %%px runs: call client.activate() of ipyparallel first"
            )
        return magics.view

    def _stop(self) -> None:
        if not self.controller.end():
            raise SessionError(f"%npuprof has nothing to stop: {_status()}")

    def _status(self) -> None:
        print(plain_lines(_status()))  # noqa: T201 - the answer to the user

    def _last(self) -> None:
        from npuprof.session.mixins import last

        _report(last())

    def _ask(self) -> None:
        from npuprof.report.markdown import PREAMBLE

        print(plain_lines(f"{PREAMBLE}\n\n{self._run_at_hand().to_markdown()}"))  # noqa: T201 - to be copied

    def _run_at_hand(self) -> Profile | ProfileSet:
        """Return the run loaded since the last one, or else the last run."""
        from npuprof.session.active import newest
        from npuprof.session.mixins import last

        loaded, before = self._loaded
        return last() if loaded is None or newest() is not before else loaded

    def _assert(self, line: str) -> None:
        from npuprof.session.gates import require

        text = without_comment(line).strip()
        gate = text.removeprefix(_CONFIDENT)
        try:
            compared = require(gate, confident=gate != text)
        except OptionsError as error:
            raise UsageError(str(error)) from None
        for limit in compared:
            print(plain_lines(f"npuprof: {limit}"))  # noqa: T201 - to the user

    def _sql(self, query: str) -> pd.DataFrame:
        words = without_comment(query)
        if query[len(words) :].lstrip().startswith("# "):  # `#1` is the first column
            query = words
        try:
            return self._run_at_hand().sql(query)
        except OptionsError as error:
            raise UsageError(str(error)) from None

    def _run(self, line: str) -> None:
        from npuprof.notebook.arguments import parse_run, usage
        from npuprof.session.applications import run_application
        from npuprof.session.mixins import last
        from npuprof.session.programs import run_processes

        if line.split()[:1] in (["-h"], ["--help"]):
            _print(usage())
            return
        words = parse_run(line)
        if words.options.processes:
            ran = run_processes(words.program, words.options, echo=_print, timeout_s=words.timeout_s)
            if words.report:
                _report(last(), words.saved_bytes)
            if ran.status:
                raise SessionError(f"the program ended with status {ran.status}")
            return
        try:
            recording = run_application(words.program, words.options, echo=_print, timeout_s=words.timeout_s)
        except OptionsError as error:
            raise UsageError(str(error)) from None
        if words.report:
            _report(last(), words.saved_bytes)
        if recording.failed:
            raise SessionError(f"the program failed: {recording.failed}")

    def _panel(self) -> None:
        from IPython.display import display

        from npuprof.notebook.panel import panel_of

        display(panel_of(self.shell, self.controller))

    def _load(self, line: str) -> None:
        from npuprof.loading import open_path
        from npuprof.notebook.arguments import parse_load
        from npuprof.session.active import newest

        path, wanted = parse_load(line)
        opened = open_path(path, **wanted)
        self._loaded = opened, newest()
        _report(opened)


def _without_repeat(arguments: Arguments) -> Arguments:
    if arguments.overhead:
        raise UsageError("--overhead runs a cell twice, so it goes with %%npuprof: leave it out")
    return arguments


def _report(run: Profile | ProfileSet, saved_bytes: int | None = None) -> None:
    from npuprof.profiles.profile import Profile

    if not isinstance(run, Profile):
        show_set(run)
        return
    recording = run.info.recording  # a result that cannot be read is an error of the line, not of a part of the report
    with kept_when_interrupted(lambda: recording):
        show_run(run, saved_bytes=SAVED_BYTES if saved_bytes is None else saved_bytes)


def _print(text: str) -> None:
    print(text, end="")  # noqa: T201 - what the program prints


def _status() -> str:
    from npuprof.collectors.registry import choose
    from npuprof.session.active import current

    if (run := current()) is not None:
        return run.describe()
    choice = choose("auto")
    return f"nothing is collecting; a run would use {choice.collector.name} ({choice.reason})"
