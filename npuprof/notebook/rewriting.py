"""The rewriting of profiled cells in a shell, where it compiles them; see :mod:`npuprof.lines.rewriting`.

``%%npuprof`` leaves a comment in the text of a cell, and the tree of that text knows the arguments. A member of
``ast_transformers``, after all others, puts the node that begins the run before the user's, and the shell's compiler
compiles them with their stamps. Should either be bypassed, the user's code runs as it is.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

from npuprof.lines.cell_stamps import RunningCell
from npuprof.lines.rewriting import Rewriting
from npuprof.lines.stamps import Stamps

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_UNTOUCHED = frozenset({"--no-steps", "--no-lines"})
_ARGUMENTS = "npuprof_arguments"  # attribute of a tree
_REWRITING = "npuprof_rewriting"  # attribute of a node of the cell's own level
_MOST_TEXTS = 64

AWAITED = "\0awaited"
"""The arguments of a cell that the panel has profiled, whatever its first line."""

SPANNED = "\0spanned"
"""The arguments of a cell of a run that was started by hand."""

MAGICS = "\0magics"
"""The arguments of a cell of such a run, or that the panel would profile, which only runs magics."""


class _Rewritten(threading.local):
    """The last rewritten cell of this thread: subshells of a kernel run cells at once."""

    stamps: Stamps | None = None


class _Afterwards(ast.NodeTransformer):
    """A transformer that follows the user's transformers, for one cell."""


class CellRewriter(ast.NodeTransformer):
    """Rewrites each cell that begins with ``%%npuprof``, and hands its stamps to the run that starts there.

    IPython also transforms the text that ``%%time`` or ``%timeit`` runs, and npuprof that of the unprofiled repetition:
    these have no such first line, and stay as they are.

    Parameters
    ----------
    begins
        Returns the argument of `begin` for the cell that is about to run though its text does not say so; empty for a
        cell that is not profiled.
    """

    def __init__(self, shell: InteractiveShell, begins: Callable[[], str], begin: Callable[[str], None]) -> None:
        self._shell, self._begins, self._begin = shell, begins, begin
        self._rewritten = _Rewritten()
        self._stamps: dict[int, Stamps] = {}  # by the identity of the running cell
        self._arguments: OrderedDict[str, str] = OrderedDict()  # by the text of the cell
        self._replaced: tuple[Any, Any] = None, None

    def install(self) -> None:
        """Take part in the compilation of the shell's cells."""
        self._replaced = self._shell.compile.__class__, self._shell.compiler_class
        compiler = _compiler_of(self._shell.compile.__class__, self._arguments.get)
        self._shell.compile.__class__ = self._shell.compiler_class = compiler
        self._shell.ast_transformers.append(self)

    def uninstall(self) -> None:
        """Leave the shell as it was."""
        self._shell.compile.__class__, self._shell.compiler_class = self._replaced
        if self in self._shell.ast_transformers:  # else the user has removed it
            self._shell.ast_transformers.remove(self)

    def note_text(self, text: str, arguments: str | None) -> None:
        """Note whether a cell with this text is profiled: the arguments of its ``%%npuprof``, or None."""
        self._arguments.pop(text, None)
        if arguments is not None:
            self._arguments[text] = arguments
            if len(self._arguments) > _MOST_TEXTS:
                self._arguments.popitem(last=False)

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the tree to run for the cell's tree, after all transformers."""
        transformers = self._shell.ast_transformers
        for stale in [each for each in transformers if isinstance(each, _Afterwards)]:
            transformers.remove(stale)  # one in between has rejected a cell
        if transformers[-1] is self:
            return self._rewrite(node)
        last = _Afterwards()
        last.visit = partial(self._rewrite_last, last)  # type: ignore[method-assign]
        transformers.append(last)  # for this cell: the loop over them gets there
        return node

    def _rewrite_last(self, last: _Afterwards, node: ast.AST) -> ast.AST:
        self._shell.ast_transformers.remove(last)
        return self._rewrite(node)

    def _rewrite(self, node: ast.AST) -> ast.AST:
        self._rewritten.stamps = None
        if not isinstance(node, ast.Module) or not node.body:
            return node
        word, arguments = self._begins(), getattr(node, _ARGUMENTS, None)
        if arguments is None:
            if not word:
                return node
            arguments = MAGICS if all(map(_is_magic, node.body)) else word
        ast.fix_missing_locations(node)  # of what other transformers have made; IPython does it after the last one
        is_stamped = not (set(arguments.split()) >= _UNTOUCHED or arguments == MAGICS)
        rewriting = Rewriting(node.body, partial(self._begin, arguments), is_stamped=is_stamped)
        for each in rewriting.body:
            setattr(each, _REWRITING, rewriting)
            if isinstance(each, ast.Expr):
                setattr(each.value, _REWRITING, rewriting)  # %%time compiles the last one by itself
        self._rewritten.stamps = rewriting.stamps
        return ast.Module(rewriting.body, node.type_ignores)

    def running(
        self,
        identity: int,
        text: str,
        origin: Mapping[str, str] | None = None,
        id_of: Callable[[int], str] = lambda _number: "",
    ) -> RunningCell:
        """Return the cell whose first node runs now, called by that node."""
        stamps, self._rewritten.stamps = self._rewritten.stamps, None
        if stamps is not None:
            self._stamps[identity] = stamps
        shell = self._shell
        return RunningCell(_running_file(shell), stamps, partial(number_of, shell), id_of, text, origin or {})

    def mute(self, identity: int) -> None:
        """Stamp nothing in a cell that is not profiled after all."""
        if (stamps := self._stamps.get(identity)) is not None:
            stamps.turn_off()

    def raised(self, identity: int) -> None:
        """Note that the code of a cell has ended with an exception, which is to be shown."""
        if (stamps := self._stamps.get(identity)) is not None:
            stamps.note_end()

    def ended(self, identity: int) -> None:
        """Forget a cell that has ended."""
        self._stamps.pop(identity, None)


def _compiler_of(base: type, arguments_of: Callable[[str], str | None]) -> Any:
    """Return a class of compilers that compiles the nodes of a profiled cell with their stamps."""

    def ast_parse(self: Any, source: str, *more: Any, **named: Any) -> ast.AST:
        tree: ast.AST = base.ast_parse(self, source, *more, **named)  # type: ignore[attr-defined]
        if (arguments := arguments_of(source)) is not None:
            setattr(tree, _ARGUMENTS, arguments)
        return tree

    def compiled(self: Any, source: Any, *more: Any, **named: Any) -> CodeType:
        def compiler(tree: Any) -> CodeType:
            return cast("CodeType", base.__call__(self, tree, *more, **named))

        body = getattr(source, "body", None)
        first = body[0] if isinstance(body, list) and body else body
        rewriting: Rewriting | None = getattr(first, _REWRITING, None)
        return compiler(source) if rewriting is None else rewriting.compile(compiler, source)

    return type(base.__name__, (base,), {"ast_parse": ast_parse, "__call__": compiled, "__module__": base.__module__})


def number_of(shell: InteractiveShell, file: str) -> int:
    """Return the number of the cell whose code has a file name, as of now; 0 for other files."""
    numbers: dict[str, int] = getattr(shell.compile, "_filename_map", {})
    return numbers.get(file) or 0


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
