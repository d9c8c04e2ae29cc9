"""IPython hooks: ``%%npuprof`` cells stay ordinary cells, and their runs stop when the cells end.

A cell magic would receive the text of the cell and run it itself, losing its value, its ``await`` and its error status.
Instead, an input transformer rewrites the first line into a call that starts the session, and IPython runs the rest
with unchanged line numbers. Event hooks stop the run however the cell ends, nested cells included.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import cell_magic, classic_prompt, ipython_prompt, leading_indent

from npuprof.errors import SessionError, describe_failure
from npuprof.notebook.controller import Cell, Controller
from npuprof.notebook.messages import tell
from npuprof.recordings.recording import NOTEBOOK

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell


_LONGEST_NAME = 4_096


def current_cell(shell: InteractiveShell) -> Cell | None:
    """Return the cell that the shell has just started; None outside of a cell.

    Reliable only in the first statement of a cell, where ``%%npuprof`` puts its call: IPython forgets the outer cell
    once a nested one has run.
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
    """Return the name of the running cell: its number, or that of the cell from or after which it runs."""
    # Not `execution_count`, which IPython increments before or after the cell, depending on its version.
    history = shell.history_manager
    number = len(history.input_hist_parsed) - 1 if history is not None else 0
    return f"cell [{number}]" if numbered else f"code run from or after cell [{number}]"


class CellHooks:
    """Stops runs at the end of their cells.

    Parameters
    ----------
    shell, controller
        The shell, and its runs.
    ended
        Called with the identity of each cell that has ended, after its run has.
    """

    def __init__(self, shell: InteractiveShell, controller: Controller, ended: Callable[[int], None]) -> None:
        self._shell = shell
        self._controller = controller
        self._ended = ended

    def register(self) -> None:
        """Register the hooks."""
        self._shell.events.register("pre_run_cell", self.pre_run_cell)
        self._shell.events.register("post_execute", self.post_execute)
        self._shell.events.register("post_run_cell", self.post_run_cell)

    def unregister(self) -> None:
        """Remove the hooks."""
        self._shell.events.unregister("pre_run_cell", self.pre_run_cell)
        self._shell.events.unregister("post_execute", self.post_execute)
        self._shell.events.unregister("post_run_cell", self.post_run_cell)

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
            self._ended(id(result.info))

    def post_execute(self) -> None:
        """Stop the run of a silent cell, which has no other event."""
        cell, result = self._controller.cell, self._shell.last_execution_result
        if cell is not None and result is not None and _is_silent(result) and _is_end_of(cell, result):
            self._end(result)
            self._ended(cell.identity)

    def _note_id(self, result: ExecutionResult | None) -> None:
        if result is None or result.info is None or not result.info.store_history or result.execution_count is None:
            return
        if id_ := _origin(self._shell, getattr(result.info, "cell_id", None)).get("id"):
            self._controller.note_id(int(result.execution_count), id_)

    def _end(self, result: ExecutionResult | None) -> None:
        try:
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


PRIVATE_WORD = "__cell__"
"""The first argument of the rewritten line, before the user's arguments."""

AWAITED = "__awaited__"
"""The only argument in a cell that the panel has profiled, whatever its first line."""

SPANNED = "__spanned__"
"""The only argument in a cell of a run that was started by hand."""

# `%%npuprof?` asks for help and is left to IPython.
_FIRST_LINE = re.compile(r"%%npuprof(?:[ \t]+(?P<arguments>.*))?\s*$")


class CellTransformer:
    """Rewrites the first line of a profiled cell; a member of ``input_transformers_cleanup``.

    It runs after IPython has removed leading blank lines, indentation and prompts, and before its handling of cell
    magics.
    """

    # IPython skips such transformers when it checks whether a cell is complete. The terminal then sees a cell
    # magic, which ends at a blank line, not after the first statement.
    has_side_effects = True

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines to run for the lines of a cell."""
        match = _FIRST_LINE.match(lines[0]) if lines else None
        if match is None:
            return lines
        if not any(line.strip() for line in lines[1:]):
            return lines  # nothing to profile: the registered cell magic raises the error
        return [start_line((match["arguments"] or "").strip()), *prepared(lines[1:])]


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


def start_line(arguments: str) -> str:
    """Return the Python line that starts the session of a cell."""
    words = f"{PRIVATE_WORD} {arguments}".rstrip()
    return f"get_ipython().run_line_magic('npuprof', {words!r})\n"
