"""The rewriting of profiled cells in a shell: a member of ``ast_transformers``; see :mod:`npuprof.lines`."""

from __future__ import annotations

import ast
import builtins
import itertools
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from npuprof.lines.cell_stamps import RunningCell
from npuprof.lines.rewriting import Rewriting
from npuprof.lines.stamps import Stamps
from npuprof.notebook.hooks import PRIVATE_WORD

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_UNTOUCHED = frozenset({"--no-steps", "--no-lines"})
_numbers = itertools.count()
_of_builtins: dict[str, object] = builtins.__dict__


class _Rewritten(threading.local):
    """What was rewritten last on this thread: subshells of a kernel run cells at once."""

    stamps: Stamps | None = None


class CellRewriter(ast.NodeTransformer):
    """Rewrites each cell whose first line starts the profiler, and hands its stamps to the run that starts there.

    IPython also transforms the text that ``%%time`` or ``%timeit`` runs, and npuprof that of the unprofiled repetition:
    these have no such first line, and stay as they are. A cell that is profiled though its first line says nothing of
    it gets a call of a name that is no identifier, whatever the user has named ``get_ipython``.

    Parameters
    ----------
    begins
        Returns the argument of that call for the cell that is about to run; empty if it gets none.
    begin
        What is called with it.
    names
        Returns the names of the cells. Where these have ``__builtins__`` of their own, nothing is rewritten.
    """

    def __init__(
        self,
        begins: Callable[[], str] = lambda: "",
        begin: Callable[[str], None] = lambda _word: None,
        names: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        self._begins, self._begin, self._names = begins, begin, names
        self._rewritten = _Rewritten()
        self._stamps: dict[int, Stamps] = {}  # by the identity of the running cell

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the tree to run for that of a cell."""
        self._rewritten.stamps = None
        if not isinstance(node, ast.Module) or not node.body:
            return node
        word = self._begins()
        of_names = self._names().get("__builtins__", builtins)
        if of_names is not builtins and of_names is not _of_builtins:
            return node
        if (words := _words(node.body[0])) is None:
            if not word or all(map(_is_magic, node.body)):
                return node
            words = [word]
            node = ast.Module([self._call_of(word), *node.body], node.type_ignores)
        if len(node.body) < 2 or set(words) >= _UNTOUCHED:
            return node
        stamps = Stamps()
        rewriting = Rewriting(stamps.names)
        try:
            rewritten = rewriting.rewrite(node)
        except RecursionError:  # deeper than this, though not too deep for the compiler
            rewritten = None
        if rewritten is None:
            return node
        stamps.install(rewriting.statements, rewriting.nodes)
        self._rewritten.stamps = stamps
        return rewritten

    def _call_of(self, word: str) -> ast.stmt:
        """Return the statement that begins a cell whose first line does not."""
        name = f"npuprof begins {next(_numbers)}"

        def begin() -> None:
            _of_builtins.pop(name, None)
            self._begin(word)

        _of_builtins[name] = begin
        # A condition, not an expression, which IPython could show.
        called = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[], keywords=[])
        made = ast.If(test=called, body=[ast.Pass()], orelse=[], lineno=1, col_offset=0)
        return ast.fix_missing_locations(made)

    def running(
        self,
        shell: InteractiveShell,
        identity: int,
        text: str,
        origin: Mapping[str, str] | None = None,
        id_of: Callable[[int], str] = lambda _number: "",
    ) -> RunningCell:
        """Return the cell whose first line runs now, called by that line.

        Parameters
        ----------
        shell
            The shell.
        identity
            The number of the cell, with which :meth:`ended` is called.
        text
            Its source.
        origin
            Its ``id`` and ``notebook``, where the front end names them.
        id_of
            As :class:`npuprof.lines.cell_stamps.RunningCell` has it.
        """
        stamps, self._rewritten.stamps = self._rewritten.stamps, None
        if stamps is not None:
            self._stamps[identity] = stamps
        return RunningCell(_running_file(shell), stamps, partial(number_of, shell), id_of, text, origin or {})

    def mute(self, identity: int) -> None:
        """Stamp nothing in a cell that is not profiled after all."""
        if (stamps := self._stamps.get(identity)) is not None:
            stamps.mute()

    def ended(self, identity: int) -> None:
        """Remove what the code of a cell has called, once it has ended."""
        if (stamps := self._stamps.pop(identity, None)) is not None:
            stamps.remove()


def number_of(shell: InteractiveShell, file: str) -> int:
    """Return the number of the cell whose code has a file name, as of now; 0 for other files."""
    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    return numbers.get(file) or 0


def _words(node: ast.stmt) -> list[str] | None:
    """Return the words of the line that starts the profiler; None for any other statement."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    values = [argument.value if isinstance(argument, ast.Constant) else None for argument in call.args]
    if call.func.attr != "run_line_magic" or len(values) != 2 or values[0] != "npuprof":
        return None
    words = values[1].split() if isinstance(values[1], str) else []
    return words if words[:1] == [PRIVATE_WORD] else None


def _is_magic(node: ast.stmt) -> bool:
    """Return whether a statement is a magic, whose text, if it has one, runs as it is."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in ("run_line_magic", "run_cell_magic")


def _running_file(shell: InteractiveShell) -> str:
    """Return the file name of the code that the shell runs at present; empty if there is none."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals is shell.user_global_ns and frame.f_code.co_name.startswith(("<module>", "<cell line")):
            return frame.f_code.co_filename
        frame = frame.f_back
    return ""
