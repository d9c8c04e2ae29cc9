"""The hooks that end a cell's run where the cell ends, however it ends and however cells are nested."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import cell_magic

from npuprof.errors import SessionError
from npuprof.notebook.controller import Cell, Controller

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell


def current_cell(shell: InteractiveShell) -> Cell | None:
    """Return which cell the shell has just begun to run; None outside of one.

    Right for the first statement of a cell, which is where ``%%npuprof`` puts its call; IPython forgets
    the outer cell once a cell inside it has run.
    """
    result = shell.displayhook.exec_result
    if result is None:
        return None
    info = result.info
    return Cell(id(info), info.raw_cell, cell_title(shell, numbered=bool(info.store_history)))


def cell_title(shell: InteractiveShell, *, numbered: bool) -> str:
    """Name the running cell: by its number, or by the cell that it was run from or after."""
    # Not `execution_count`: IPython counts on before it runs a cell, or after, as the version has it.
    history = shell.history_manager
    number = len(history.input_hist_parsed) - 1 if history is not None else 0
    return f"cell [{number}]" if numbered else f"code run from or after cell [{number}]"


class CellHooks:
    """Listens to the end of cells; keeps nothing of them."""

    def __init__(self, shell: InteractiveShell, controller: Controller) -> None:
        self._shell = shell
        self._controller = controller

    def register(self) -> None:
        """Begin to listen."""
        self._shell.events.register("post_execute", self.post_execute)
        self._shell.events.register("post_run_cell", self.post_run_cell)

    def unregister(self) -> None:
        """Listen no more."""
        self._shell.events.unregister("post_execute", self.post_execute)
        self._shell.events.unregister("post_run_cell", self.post_run_cell)

    def post_run_cell(self, result: ExecutionResult | None) -> None:
        """End the run of the cell that has ended. IPython calls this after the cell's value or error is shown."""
        cell = self._controller.cell
        if cell is not None and _is_end_of(cell, result):
            self._end(result)

    def post_execute(self) -> None:
        """End the run of a silent cell, for which this is the only event."""
        cell, result = self._controller.cell, self._shell.last_execution_result
        if cell is not None and result is not None and _is_silent(result) and _is_end_of(cell, result):
            self._end(result)

    def _end(self, result: ExecutionResult | None) -> None:
        try:
            self._controller.end(_failure(result))
        except SessionError as error:  # the cell has ended already, and has its own error or value
            print(f"npuprof: {error}", file=sys.stderr)  # noqa: T201 - to the user


def failure_of(result: ExecutionResult) -> BaseException | None:
    """Return what a cell raised, before it ran or while it ran."""
    # Not `or`: an exception of the user's may be false.
    return result.error_in_exec if result.error_before_exec is None else result.error_before_exec


def _is_end_of(cell: Cell, result: ExecutionResult | None) -> bool:
    if result is None:
        return True  # the kernel's event loop gave the cell up: there is no result, and no cell around it
    info = result.info
    if info is None or id(info) == cell.identity:
        return info is not None
    # When the runner itself fails (an interrupt between two steps of an `await`), IPython makes a new
    # result, which is known by having no number.
    return result.execution_count is None and info.raw_cell == cell.text


def _is_silent(result: ExecutionResult) -> bool:
    return result.info is not None and bool(result.info.silent)


def _failure(result: ExecutionResult | None) -> str:
    from npuprof.errors import describe_failure

    if result is None:
        return "Cancelled: the cell was given up before it ended"
    return describe_failure(failure_of(result))


PRIVATE_WORD = "__cell__"
"""What the rewritten line passes to ``%npuprof`` before the user's arguments."""

# `%%npuprof?` asks for help and is left to IPython.
_FIRST_LINE = re.compile(r"%%npuprof(?:[ \t]+(?P<arguments>.*))?\s*$")


class CellTransformer:
    """Rewrites the first line of a profiled cell; a member of ``input_transformers_cleanup``.

    It runs after IPython has removed leading blank lines, common indentation and prompts, and before
    IPython's own treatment of cell magics.
    """

    # IPython leaves such a transformer out when it asks whether a cell is complete. The terminal then
    # still sees a cell magic, which ends at a blank line, not after its first statement.
    has_side_effects = True

    def __call__(self, lines: list[str]) -> list[str]:
        """Return the lines to run for the lines of a cell."""
        match = _FIRST_LINE.match(lines[0]) if lines else None
        if match is None:
            return lines
        body = next((number for number, line in enumerate(lines[1:], 1) if line.strip()), None)
        if body is None:
            return lines  # nothing to profile: the registered cell magic says so
        start = start_line((match["arguments"] or "").strip())
        if lines[body].startswith("%%"):
            # The magic of the next line gets its own text, as if it stood alone.
            return [start, *lines[1:body], *cell_magic(lines[body:])]
        return [start, *lines[1:]]


def start_line(arguments: str) -> str:
    """Return the line of Python that starts the session of a cell."""
    words = f"{PRIVATE_WORD} {arguments}".rstrip()
    return f"get_ipython().run_line_magic('npuprof', {words!r})\n"
