"""The rewriting of a profiled cell: stamps of the cell's own statements, and of the iterations of its loops.

Every statement of the cell's own level, and of its ``for``, ``while``, ``if``, ``with``, ``try`` and ``match``, is
stamped as it begins; bodies of functions and classes, lambdas and comprehensions stay as they are. A loop is stamped
again at the end of its body and before each ``continue``, so that the time to fetch the next item is its own. The code
of a node ends with a stamp of no statement, however it ends, and before IPython shows the value of the last expression.

The user's statements are compiled once, with the stamps between them, when IPython compiles its nodes: transformers of
the tree see the user's code alone. What stamps use are constants of the code object, put in place of unique texts after
it was compiled, so that no namespace holds them. Within a loop a stamp asks the loop's switch first; while it is off,
the first one counts the iteration.

Tracers and debuggers see the user's lines as often as in the plain code: a stamp has the line of what runs next, or
none, and then that of what ran before. So the stamp at the end of a loop's body stands at the end of each branch of the
last statement, and goes on by itself: where branches join, an interrupt would find no line.
"""

from __future__ import annotations

import ast
import itertools
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dis import opmap
from functools import partial
from types import CodeType
from typing import Any, TypeVar

from npuprof.lines.stamps import Shown, Stamp, Stamps, Statement, Switch

_MOST_STATEMENTS = 100_000
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_WITH = (ast.With, ast.AsyncWith)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
_ENDS = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_DECLARATIONS = (ast.Global, ast.Nonlocal)  # which are no code
_HAS_GROUPS = getattr(ast, "TryStar", ())
_UPDATES = {"step": 2, "backward": 1, "zero_grad": 1}
_NO_LINE = -1
# What a node evaluates first, where that may be on another line than the node.
_FIRST = {
    **dict.fromkeys((ast.Expr, ast.Assign, ast.AnnAssign, ast.Return, ast.Attribute, ast.Subscript), "value"),
    **dict.fromkeys((ast.Await, ast.NamedExpr, ast.Starred), "value"),
    **dict.fromkeys((ast.If, ast.While, ast.Assert, ast.IfExp), "test"),
    **dict.fromkeys((ast.For, ast.AsyncFor), "iter"),
    **dict.fromkeys((ast.With, ast.AsyncWith), "items"),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), "decorator_list"),
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), "elts"),
    **dict.fromkeys((ast.BinOp, ast.Compare), "left"),
    **dict.fromkeys((ast.BoolOp, ast.Dict), "values"),
    ast.withitem: "context_expr",
    ast.AugAssign: "target",
    ast.Delete: "targets",
    ast.Match: "subject",
    ast.Raise: "exc",
    ast.Call: "func",
    ast.UnaryOp: "operand",
}
_Node = TypeVar("_Node", bound=ast.AST)
_numbers = itertools.count()
_LOOP_OF_TESTS = compile("while x: y", "", "exec")
# Up to Python 3.13, the test of a `while` is compiled again for the end of its body, which then needs no jump.
_TESTS_TWICE = list(_LOOP_OF_TESTS.co_code[::2]).count(opmap["LOAD_NAME"]) > 2


class Begin:
    """The target of the first call of a profiled cell; the text that stands in for it does nothing."""

    __slots__ = ("isspace",)

    def __init__(self, begin: Callable[[], object]) -> None:
        self.isspace = begin


class Rewriting:
    """The rewritten nodes of one cell, or of the module of a script.

    Attributes
    ----------
    body
        The statements, after the node that begins.
    stamps
        What the rewritten code leaves.
    """

    def __init__(
        self, body: Sequence[ast.stmt], begin: Callable[[], object] | None = None, *, is_stamped: bool = True
    ) -> None:
        self._prefix = f"\0npuprof {next(_numbers)} "
        count = sum(isinstance(node, ast.stmt) for statement in body for node in ast.walk(statement))
        try:
            self._rewrite(body, begin, is_stamped=is_stamped and count <= _MOST_STATEMENTS)
        except RecursionError:  # deeper than this, though not too deep for the compiler
            self._rewrite(body, begin, is_stamped=False)

    def _rewrite(self, body: Sequence[ast.stmt], begin: Callable[[], object] | None, *, is_stamped: bool) -> None:
        self.stamps, self._constants = Stamps(), dict[str, object]()
        self.body: list[ast.stmt] = []
        self._starts: list[list[ast.stmt]] = []
        self._inner: list[ast.stmt] = []
        if begin is not None:
            called = ast.Call(ast.Attribute(self._constant(Begin(begin)), "isspace", ast.Load()), [], [])
            self.body.append(_at(ast.If(called, [ast.Pass()], []), 1))  # an expression could be shown
            self._starts.append([])
            self._inner.append(self.body[0])
        for node in body:
            is_run = is_stamped and not isinstance(node, _DECLARATIONS)
            number = self._add(node, -1) if is_run else -1
            self.body.append(node)
            self._starts.append([self._stamp(number, _first_line(node))] if is_run else [])
            self._inner.append(self._stamped(node, number) if is_run else node)
        self._at = {id(node): place for place, node in enumerate(self.body)}
        ends = array("q")
        self.stamps.times.append(ends)
        self.stamps.end = Stamp.into(ends)
        self._ends = _at(_noted(self._constant(self.stamps.end)), _NO_LINE)

    # -- compiling -------------------------------------------------------------------------------------------------

    def compile(self, compiler: Callable[[Any], CodeType], source: ast.AST) -> CodeType:
        """Compile nodes with their stamps; without them where Python refuses, such as for too deep nesting.

        Parameters
        ----------
        source
            A tree of :attr:`body`, as IPython makes it: a ``Module``, ``Interactive`` or ``Expression``.
        """
        made = None if self.stamps.is_muted else self._made(source)
        code = None
        if made is not None:
            with suppress(SyntaxError, ValueError, RecursionError):
                code = compiler(made)
        if code is None:  # not in a handler: an error of the user's code must be the only one
            code = compiler(source)
        constants = (self._constants.get(each, each) if type(each) is str else each for each in code.co_consts)
        return code.replace(co_consts=tuple(constants))

    def _made(self, source: ast.AST) -> ast.AST | None:
        """Return a tree with stamps; None if its nodes are not the cell's."""
        last = self.body[-1] if self.body else None
        if isinstance(source, ast.Expression):  # the last one, which %%time evaluates by itself
            is_last = isinstance(last, ast.Expr) and last.value is source.body
            return ast.Expression(self._shown(source.body)) if is_last else None
        if not isinstance(source, ast.Module | ast.Interactive):
            return None
        places = [self._at.get(id(node), -1) for node in source.body]
        if not places or min(places) < 0:
            return None
        body: list[ast.stmt] = []
        for place in places:
            body += self._node(place, is_shown=isinstance(source, ast.Interactive))
        if 1 < len(places) == len(self.body) - 1 and isinstance(last, ast.Expr):
            body += self._starts[-1]  # for %%time, as above
        return ast.Interactive(body) if isinstance(source, ast.Interactive) else ast.Module(body, source.type_ignores)

    def _node(self, place: int, *, is_shown: bool) -> list[ast.stmt]:
        """Return what replaces a statement of the cell's own level."""
        node = self.body[place]
        if is_shown and isinstance(node, ast.Expr):
            return [*self._starts[place], ast.copy_location(ast.Expr(self._shown(node.value)), node)]
        if _comes_first(node):
            return [node]
        has_end = bool(self._starts[place]) or node is self.body[-1]
        return [*self._starts[place], self._inner[place], *([self._ends] if has_end else [])]

    def _shown(self, value: ast.expr) -> ast.expr:
        """Return an expression that notes the end of the code before its value is shown."""
        passes = ast.Attribute(self._constant(Shown(self.stamps.end)), "value", ast.Load())
        return ast.copy_location(_at(ast.Call(passes, [value], []), value.lineno), value)

    # -- rewriting -------------------------------------------------------------------------------------------------

    def _constant(self, value: object) -> ast.Constant:
        """Return a constant that stands for a value until the code is compiled."""
        text = f"{self._prefix}{len(self._constants)}"
        self._constants[text] = value
        return ast.Constant(text)

    def _add(self, node: ast.stmt, loop: int) -> int:
        """Add a statement, and return its number."""
        number, is_loop = len(self.stamps.statements), isinstance(node, _LOOPS)
        update = _update(node.body) if isinstance(node, _LOOPS) else 0
        line = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        self.stamps.statements.append(Statement(line, node.end_lineno or node.lineno, loop, is_loop, update))
        self.stamps.times.append(array("q"))
        if is_loop:
            self.stamps.switches[number] = Switch()
        return number

    def _stamp(self, number: int, line: int, loop: int = -1, *, counts: bool = False, jumps: bool = False) -> ast.stmt:
        """Return the stamp of a statement in the body of a loop, if it is in one; the first one counts iterations."""
        noted = _noted(self._constant(Stamp.into(self.stamps.times[number])))
        if loop < 0:
            return _at(noted, line)
        switch = self.stamps.switches[loop]
        asked = ast.Attribute(self._constant(switch), "on", ast.Load())
        thinned = ast.Attribute(self._constant(switch), "thinned", ast.Store())
        on, off = list[ast.stmt]([noted]), list[ast.stmt]()
        if counts:
            off.append(ast.AugAssign(thinned, ast.Add(), ast.Constant(1)))
        if jumps:
            on.append(ast.Continue())
            off.append(ast.Continue())
        return _at(ast.If(asked, on, off), line)

    def _block(self, body: Sequence[ast.stmt], loop: int, *, counts: bool = False) -> list[ast.stmt]:
        """Return the stamped statements of a body; `loop` is the number of the innermost loop around them."""
        nodes: list[ast.stmt] = []
        for node in body:
            if isinstance(node, _DECLARATIONS):
                nodes.append(node)
                continue
            # A `continue` fetches the next item.
            number = loop if isinstance(node, ast.Continue) else self._add(node, loop)
            nodes += [self._stamp(number, _first_line(node), loop, counts=counts), self._stamped(node, number)]
            counts = False
        return nodes

    def _stamped(self, node: ast.stmt, number: int) -> ast.stmt:
        """Return a copy of a statement with the stamps of its bodies; one without bodies as it is."""
        loop = self.stamps.statements[number].loop
        if isinstance(node, _LOOPS):
            inner = self._block(node.body, number, counts=True)
            jumps = not (isinstance(node, ast.While) and _TESTS_TWICE)
            _close(inner, partial(self._stamp, number, loop=number), jumps=jumps)
            return _copied(node, body=inner, orelse=self._block(node.orelse, loop))
        if isinstance(node, ast.If):
            return _copied(node, body=self._block(node.body, loop), orelse=self._block(node.orelse, loop))
        if isinstance(node, _WITH):
            leaves = [] if isinstance(node.body[-1], _ENDS) else [self._stamp(number, _left_at(node), loop)]
            return _copied(node, body=[*self._block(node.body, loop), *leaves])
        if isinstance(node, _TRIES):
            return _copied(
                node,
                body=self._block(node.body, loop),
                handlers=[_copied(each, body=self._block(each.body, loop)) for each in node.handlers],
                orelse=self._block(node.orelse, loop),
                finalbody=self._block(node.finalbody, loop),
            )
        if isinstance(node, ast.Match):
            return _copied(node, cases=[_copied(case, body=self._block(case.body, loop)) for case in node.cases])
        return node


def _close(body: list[ast.stmt], stamp: Callable[..., ast.stmt], *, jumps: bool) -> None:
    """End each branch of a loop's body with the stamp for a line, which goes on to the next iteration if it `jumps`."""
    last = next((node for node in reversed(body) if not isinstance(node, _DECLARATIONS)), None)
    if isinstance(last, _ENDS):
        return
    if isinstance(last, ast.If):
        _close(last.body, stamp, jumps=jumps)
        if last.orelse:
            _close(last.orelse, stamp, jumps=jumps)
        else:
            last.orelse = [stamp(last.test.lineno, jumps=jumps)]
    elif isinstance(last, _LOOPS):
        _before_breaks(last.body, stamp)
        if last.orelse:
            _close(last.orelse, stamp, jumps=jumps)
        else:
            line = last.test.lineno if isinstance(last, ast.While) else _fetched_at(last)
            last.orelse = [stamp(line, jumps=jumps)]
    elif isinstance(last, _TRIES):
        if last.finalbody:
            _close(last.finalbody, stamp, jumps=False)  # a jump would drop an exception
        else:
            _close(last.orelse or last.body, stamp, jumps=jumps)
            for handler in [] if isinstance(last, _HAS_GROUPS) else last.handlers:  # `except*` must not be left
                _close(handler.body, stamp, jumps=jumps)
    elif isinstance(last, ast.Match):
        for case in last.cases:
            _close(case.body, stamp, jumps=jumps)
        if not _is_irrefutable(last.cases[-1]):
            line = (last.cases[-1].guard or last.cases[-1].pattern).lineno
            last.cases.append(ast.match_case(_at(ast.MatchAs(), line), None, [stamp(line, jumps=jumps)]))
    else:
        body.append(stamp(_left_at(last) if isinstance(last, _WITH) else _NO_LINE, jumps=jumps))


def _before_breaks(body: list[ast.stmt], stamp: Callable[..., ast.stmt]) -> None:
    """Put a stamp before each `break` out of the loop with this body."""
    for node in list(body):
        if isinstance(node, ast.Break):
            at = next(at for at, each in enumerate(body) if each is node)
            body.insert(at, stamp(node.lineno))
        elif isinstance(node, _LOOPS):
            _before_breaks(node.orelse, stamp)
        elif not isinstance(node, _SCOPES):
            parts = [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]
            for inner in (getattr(part, name, None) for part in parts for name in ("body", "orelse", "finalbody")):
                if isinstance(inner, list):
                    _before_breaks(inner, stamp)


def _is_irrefutable(case: ast.match_case) -> bool:
    def matches(pattern: ast.pattern) -> bool:
        if isinstance(pattern, ast.MatchOr):
            return any(map(matches, pattern.patterns))
        return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or matches(pattern.pattern))

    return case.guard is None and matches(case.pattern)


def _comes_first(node: ast.stmt) -> bool:
    """Return whether a statement is a text, such as a docstring, or an import from ``__future__``."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _update(body: Iterable[ast.stmt]) -> int:
    """Return whether statements make the update of a training step; see :class:`Statement`."""
    update, pending = 0, list[ast.AST](body)
    while pending:
        node = pending.pop()
        if isinstance(node, _LOOPS + _SCOPES):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            update = max(update, _UPDATES.get(node.func.attr, 0))
        pending += ast.iter_child_nodes(node)
    return update


def _first_line(node: ast.AST) -> int:
    """Return the first line that a statement evaluates."""
    while (inner := getattr(node, _FIRST.get(type(node), ""), None)) and not (
        isinstance(inner, list) and all(isinstance(each, ast.Constant) for each in inner)
    ):
        node = inner[0] if isinstance(inner, list) else inner
    return node.lineno  # type: ignore[attr-defined]  # all of these have one


def _fetched_at(loop: ast.For | ast.AsyncFor) -> int:
    """Return the line at which a loop fetches its next item."""
    return loop.iter.lineno if sys.version_info >= (3, 12) else loop.lineno


def _left_at(node: ast.With | ast.AsyncWith) -> int:
    """Return the line at which a ``with`` is left."""
    return node.items[0].context_expr.lineno if sys.version_info >= (3, 12) else node.lineno


def _copied(node: _Node, **changes: Any) -> _Node:
    changed = copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed


def _noted(stamp: ast.Constant) -> ast.Delete:
    return ast.Delete([ast.Attribute(stamp, "now", ast.Del())])


def _at(made: _Node, line: int) -> _Node:
    """Give a node and its children a line where they have none; -1 precedes all lines."""
    for node in ast.walk(made):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            column = min(line, 0)
            vars(node).update(lineno=line, end_lineno=line, col_offset=column, end_col_offset=column)
    return made
