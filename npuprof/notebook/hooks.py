"""IPython hooks: ``%%npuprof`` cells stay ordinary cells, and their runs stop when the cells end.

A cell magic would receive the text of the cell and run it itself, losing its value, its ``await`` and its error status.
Instead, an input transformer makes a comment of the first line, and IPython runs the rest with unchanged line numbers
(:mod:`npuprof.notebook.rewriting` begins the run). Event hooks stop the run however the cell ends, nested cells
included.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import cell_magic, classic_prompt, ipython_prompt, leading_indent
from IPython.core.interactiveshell import ExecutionResult

from npuprof.errors import SessionError, describe_failure
from npuprof.notebook.controller import Cell, Controller
from npuprof.notebook.messages import tell
from npuprof.recordings.recording import NOTEBOOK

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell

    from npuprof.notebook.clearing import PendingClears
    from npuprof.notebook.rewriting import CellRewriter


_LONGEST_NAME = 4_096


def current_cell(shell: InteractiveShell) -> Cell | None:
    """Return the cell that the shell has just started; None outside of a cell.

    Reliable only in the first node of a cell, where a profiled one begins: IPython forgets the outer cell once a nested
    one has run.
    """
    result = shell.displayhook.exec_result
    if result is None:
        return None
    info = result.info
    title = cell_title(shell, numbered=bool(info.store_history))
    return Cell(id(info), info.raw_cell, title, origin=_origin(shell, getattr(info, "cell_id", None)))


def _origin(shell: InteractiveShell, cell_id: object) -> dict[str, str]:
    """Return the id of a cell and the path of its notebook, as far as the front end tells them."""
    # Jupyter's servers name the notebook to the kernel that they start, VS Code to each cell.
    notebook = shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get(NOTEBOOK)
    return {
        name: value
        for name, value in (("id", cell_id), ("notebook", notebook))
        if isinstance(value, str) and 0 < len(value) < _LONGEST_NAME
    }


def cell_title(shell: InteractiveShell, *, numbered: bool) -> str:
    """Return the name of the running cell: its number, or the number of the cell that started it."""
    # Not `execution_count`, which IPython increments before or after the cell, depending on its version.
    history = shell.history_manager
    number = len(history.input_hist_parsed) - 1 if history is not None else 0
    return f"cell [{number}]" if numbered else f"code run from or after cell [{number}]"


class _Watched(ExecutionResult):
    """The result of a profiled cell, which IPython gives the exception of the code just before it shows that."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "error_in_exec" and value is not None:
            self.__class__ = ExecutionResult  # type: ignore[assignment]
            vars(self).pop("_npuprof_raised")()


_Watched.__name__ = _Watched.__qualname__ = ExecutionResult.__name__  # which its text has


def watch(result: object, raised: Callable[[], None]) -> None:
    """Have a function called as soon as the code of a running cell ends with an exception."""
    if type(result) is ExecutionResult:
        vars(result)["_npuprof_raised"] = raised
        result.__class__ = _Watched


class CellHooks:
    """Stops runs at the end of their cells.

    Parameters
    ----------
    shell, controller, rewriter, clears
        The shell, its runs, what rewrites its cells, and the clears that its cells leave pending.
    """

    def __init__(
        self, shell: InteractiveShell, controller: Controller, rewriter: CellRewriter, clears: PendingClears
    ) -> None:
        self._shell, self._clears = shell, clears
        self._controller = controller
        self._rewriter = rewriter
        self._hooks: dict[str, Callable[..., Any]] = {
            "pre_run_cell": self.pre_run_cell,
            "post_execute": self.post_execute,
            "post_run_cell": self.post_run_cell,
        }

    def register(self) -> None:
        """Register the hooks."""
        for event, hook in self._hooks.items():
            self._shell.events.register(event, hook)
        after_code = self._shell.events.callbacks["post_execute"]
        after_code.sort(key=lambda hook: hook != self.post_execute)  # the code has ended before others draw figures

    def unregister(self) -> None:
        """Remove the hooks."""
        for event, hook in self._hooks.items():
            self._shell.events.unregister(event, hook)

    def pre_run_cell(self, info: ExecutionInfo) -> None:
        """Note that a cell begins: in a run by hand, only the time of cells counts."""
        numbered = bool(info.store_history)
        self._controller.cell_begins(id(info), lambda: cell_title(self._shell, numbered=numbered))

    def post_run_cell(self, result: ExecutionResult | None) -> None:
        """Stop the run of the cell that has ended; called by IPython after the cell's value or error is shown."""
        cell = self._controller.cell
        self._note_id(result)
        if cell is not None and _is_end_of(cell, result):
            self._end(result)
        self._controller.cell_ends(None if result is None or result.info is None else id(result.info))
        if result is not None and result.info is not None:  # else its code may go on
            self._rewriter.ended(id(result.info))
        if not self._controller.runs_cells:
            self._clears.release()

    def post_execute(self) -> None:
        """Note that the code of a cell has ended, and stop the run of a silent cell, which has no other event."""
        self._controller.code_ends()
        cell, result = self._controller.cell, self._shell.last_execution_result
        if cell is not None and result is not None and _is_silent(result) and _is_end_of(cell, result):
            self._end(result)
            self._rewriter.ended(cell.identity)

    def _note_id(self, result: ExecutionResult | None) -> None:
        if result is None or result.info is None or not result.info.store_history or result.execution_count is None:
            return
        if id_ := _origin(self._shell, getattr(result.info, "cell_id", None)).get("id"):
            self._controller.note_id(int(result.execution_count), id_)

    def _end(self, result: ExecutionResult | None) -> None:
        try:
            with self._clears.kept():
                self._controller.end(_failure(result))
        except Exception as error:  # noqa: BLE001 - the cell has already ended with its own error or value
            tell(str(error) if isinstance(error, SessionError) else describe_failure(error))


def failure_of(result: ExecutionResult) -> BaseException | None:
    """Return the exception of a cell, before or during its execution."""
    # Not `or`: an exception may be falsy.
    return result.error_in_exec if result.error_before_exec is None else result.error_before_exec


def _is_end_of(cell: Cell, result: ExecutionResult | None) -> bool:
    if result is None:
        return True  # cancelled by the kernel's event loop: no result, and no enclosing cell
    info = result.info
    if info is None or id(info) == cell.identity:
        return info is not None
    # When the runner itself fails (an interrupt between two steps of an `await`), IPython makes a new
    # result, recognisable by its missing number.
    return result.execution_count is None and info.raw_cell == cell.text


def _is_silent(result: ExecutionResult) -> bool:
    return result.info is not None and bool(result.info.silent)


def _failure(result: ExecutionResult | None) -> str:
    if result is None:
        return "Cancelled: the cell was aborted before it ended"
    return describe_failure(failure_of(result))


# `%%npuprof?` asks for help and is left to IPython.
_FIRST_LINE = re.compile(r"%%npuprof(?:[ \t]+(?P<arguments>.*))?\s*$")


class CellTransformer:
    """Turns the first line of a profiled cell into a comment, and notes the transformed text.

    Parameters
    ----------
    note
        Called with the text that a cell has become, and the arguments of its ``%%npuprof``, or None.
    """

    def __init__(self, shell: InteractiveShell, note: Callable[[str, str | None], None]) -> None:
        self._shell, self._note = shell, note
        self._thread = threading.local()
        self.first = FirstLine(self._begun)

    def install(self) -> None:
        """Add both parts to the shell."""
        self._shell.input_transformers_cleanup.append(self.first)
        self._shell.input_transformers_post.append(self.last)

    def uninstall(self) -> None:
        """Remove both parts."""
        self._shell.input_transformers_cleanup.remove(self.first)
        self._shell.input_transformers_post.remove(self.last)

    def _begun(self, arguments: str | None) -> None:
        self._thread.arguments = arguments

    def last(self, lines: list[str]) -> list[str]:
        """Return the lines to run, when IPython has transformed them all."""
        arguments: str | None = getattr(self._thread, "arguments", None)
        self._thread.arguments = None
        if arguments is not None:
            lines = [lines[0], *self._one_line(lines[1:])]
        self._note("".join(lines), arguments)
        return lines

    def _one_line(self, body: list[str]) -> list[str]:
        """Return the lines below ``%%npuprof``, of a single one what IPython makes of a cell of one line.

        That is the name of a macro, a magic without ``%``, a call without parentheses.
        """
        first = next((number for number, line in enumerate(body) if line.strip()), len(body))
        manager = self._shell.prefilter_manager
        if len(body) - first != 1 or manager is None:
            return body
        with self._shell.builtin_trap:
            text = manager.prefilter_lines(body[first]) + "\n"
        return [*body[:first], *text.splitlines(keepends=True)]


class FirstLine:
    """Makes a comment of the first line of a profiled cell; a member of ``input_transformers_cleanup``.

    It runs after IPython has removed leading blank lines, indentation and prompts, and before its handling of cell
    magics. `begun` is called with the arguments of each cell, None for one that is not profiled.
    """

    # IPython skips such transformers when it checks whether a cell is complete. The terminal then sees a cell
    # magic, which ends at a blank line, not after the first statement.
    has_side_effects = True

    def __init__(self, begun: Callable[[str | None], None] = lambda _arguments: None) -> None:
        self._begun = begun

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines to run for the lines of a cell."""
        match = _FIRST_LINE.match(lines[0]) if lines else None
        if match is None or not any(line.strip() for line in lines[1:]):
            self._begun(None)
            return lines  # of nothing to profile, the registered cell magic raises the error
        self._begun((match["arguments"] or "").strip())
        return [f"# {lines[0]}", *prepared(lines[1:])]


def prepared(body: list[str]) -> list[str]:
    """Return the lines below ``%%npuprof`` as IPython prepares those of a cell, with the same line numbers.

    Their common indentation and prompts are removed. A cell magic in the first of them gets the others as its text.
    """
    first = next((number for number, line in enumerate(body) if line.strip()), len(body))
    code = body[first:]
    for transform in (leading_indent, classic_prompt, ipython_prompt, cell_magic):
        code = transform(code)
    return [*body[:first], *code]


def without_first_line(text: str) -> str:
    """Return the text of a cell with a blank line in place of ``%%npuprof``, which keeps the line numbers."""
    lines = text.splitlines(keepends=True)
    place = next((number for number, line in enumerate(lines) if _FIRST_LINE.match(line.strip())), None)
    return text if place is None else "".join([*lines[:place], "\n", *lines[place + 1 :]])
