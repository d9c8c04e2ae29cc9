"""The rewriting of a profiled cell: stamps of the cell's own statements, and of the iterations of its loops.

Every statement of the cell's own level, and of its ``for``, ``while``, ``if``, ``with``, ``try`` and ``match``, is
stamped as it begins; bodies of functions and classes, lambdas and comprehensions stay as they are. A loop is stamped
again at the end of its body and before each ``continue``, so that the time to fetch the next item is its own.

IPython compiles and runs the statements of a cell one by one, so a stamp shares a node with its statement: ``if True``
around both, which compiles to nothing. Left alone are the last expression or assignment, whose value IPython shows,
``from __future__``, texts, which would become the module's docstring, and annotations; their stamp goes to the end of
the node before.

A stamp is ``append(number) or append(now())`` on names that are no identifiers, in ``builtins``. It is a condition, not
an expression, which IPython could show. The names in a node with loops are its own, and declared global, so that the
interpreter caches where it finds them. (``%%time`` compiles all nodes as one: a name must not be declared after its
use.) All nodes have the location of their statement, so that tracebacks, coverage and debuggers see the user's lines.

A loop asks a flag once in each iteration; while it is off, the body without stamps runs, and iterations are counted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TypeVar

NO_STATEMENT = -1
"""The number that is stamped at the end of a node, as IPython compiles the next one, and at the end of the cell."""

_MOST_STATEMENTS = 100_000  # numbers of statements must stay below every time
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_TRIES = (ast.Try, getattr(ast, "TryStar", ast.Try))
_ENDS = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_Node = TypeVar("_Node", ast.If, ast.Global)
_UPDATES = {"step": 2, "backward": 1, "zero_grad": 1}


@dataclass(frozen=True)
class Statement:
    """A statement of a rewritten cell.

    Attributes
    ----------
    line, last_line
        The lines of the cell that it spans, with its body.
    loop
        The number of the innermost loop in whose body it is, -1 outside of loops.
    is_loop
        Whether it is a loop.
    update
        Whether the body of the loop makes the update of a training step: 2 if it calls a method ``step``, 1 for
        ``backward`` and ``zero_grad`` alone, otherwise 0. Bodies of loops and functions within do not count.
    """

    line: int
    last_line: int
    loop: int
    is_loop: bool
    update: int = 0


@dataclass(frozen=True)
class StampNames:
    """The names that stamps call; none is an identifier."""

    prefix: str

    def append(self, node: int = -1) -> str:
        """Return the name of what takes a number, or a time, in a node with loops; -1 for all others."""
        return f"{self.prefix} append {node}"

    def now(self, node: int = -1) -> str:
        """Return the name of what returns the time; `node` as in :meth:`append`."""
        return f"{self.prefix} now {node}"

    def flag(self, loop: int) -> str:
        """Return the name of the flag of a loop: whether iterations are stamped."""
        return f"{self.prefix} loop {loop}"

    def count(self, loop: int) -> str:
        """Return the name of what counts an iteration that is not stamped."""
        return f"{self.prefix} count {loop}"


@dataclass
class Rewriting:
    """The rewriting of one cell.

    Attributes
    ----------
    names
        The names that the stamps call.
    statements
        The statements by number, once rewritten.
    nodes
        The nodes that have names of their own.
    """

    names: StampNames
    statements: list[Statement] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    _node: int = -1

    def rewrite(self, tree: ast.Module) -> ast.Module | None:
        """Return the rewritten cell; None for a cell of too many statements.

        Parameters
        ----------
        tree
            The cell. Its first node, which starts the profiler, is not stamped.
        """
        if _is_too_long(tree):
            return None
        first, *body = deepcopy(tree.body)
        joined = _joined([first])
        nodes: list[ast.stmt] = [joined]
        for node in body:
            self._node = -1
            number = self._add(node, -1)
            if _stays_alone(node, is_last=node is body[-1]):
                if nodes[-1] is not joined:
                    joined = _joined([])
                    nodes.append(_at(joined, node))
                joined.body.append(self._stamp(number, node))
                nodes.append(node)
            else:
                joined = self._stamped_with_loops(node, number)
                nodes.append(joined)
        return ast.Module(body=[ast.fix_missing_locations(node) for node in nodes], type_ignores=tree.type_ignores)

    def rewrite_module(self, tree: ast.Module) -> ast.Module | None:
        """Return a rewritten script, which is compiled as a whole; None for one of too many statements.

        Its text and imports from ``__future__`` stay where they are, unstamped: they must come first.
        """
        if _is_too_long(tree):
            return None
        nodes: list[ast.stmt] = []
        for node in deepcopy(tree.body):
            self._node = -1
            if _comes_first(node) and len(nodes) == len(self.statements):
                self._add(node, -1)
                nodes.append(node)
            else:
                nodes.append(self._stamped_with_loops(node, self._add(node, -1)))
        return ast.Module(body=[ast.fix_missing_locations(node) for node in nodes], type_ignores=tree.type_ignores)

    def _stamped_with_loops(self, node: ast.stmt, number: int) -> ast.If:
        """Return a statement of the cell's level, its stamp and those within it as one node."""
        if any(isinstance(inner, _LOOPS) for inner in ast.walk(node)):
            self._node = number
            self.nodes.append(number)
        nodes = [self._stamp(number, node), *self._stamped(node, number), self._stamp(NO_STATEMENT, node)]
        if self._node >= 0:
            loops = [loop for loop in range(number, len(self.statements)) if self.statements[loop].is_loop]
            names = [self.names.append(number), self.names.now(number)]
            names += [name for loop in loops for name in (self.names.flag(loop), self.names.count(loop))]
            nodes.insert(0, _at(ast.Global(names=names), node))
        return _joined(nodes)

    def _add(self, node: ast.stmt, loop: int) -> int:
        """Add a statement, and return its number."""
        is_loop = isinstance(node, _LOOPS)
        update = _update(node.body) if isinstance(node, _LOOPS) else 0
        last = node.end_lineno or node.lineno
        self.statements.append(Statement(_first_line(node), last, loop, is_loop, update))
        return len(self.statements) - 1

    def _block(self, body: Sequence[ast.stmt], loop: int) -> list[ast.stmt]:
        """Return the stamped statements of a body; `loop` is the number of the innermost loop around them."""
        nodes: list[ast.stmt] = []
        for node in body:
            # The loop goes on to its next item.
            number = loop if isinstance(node, ast.Continue) else self._add(node, loop)
            nodes += [self._stamp(number, node), *self._stamped(node, number)]
        return nodes

    def _stamped(self, node: ast.stmt, number: int) -> list[ast.stmt]:
        """Return a statement with the stamps of its bodies."""
        loop = self.statements[number].loop
        if isinstance(node, _LOOPS):
            node.body = self._iteration(node, number)
            node.orelse = self._block(node.orelse, loop)
        elif isinstance(node, ast.If):
            node.body, node.orelse = self._block(node.body, loop), self._block(node.orelse, loop)
        elif isinstance(node, ast.With | ast.AsyncWith):
            leaves = [] if isinstance(node.body[-1], _ENDS) else [self._stamp(number, node)]
            node.body = [*self._block(node.body, loop), *leaves]
        elif isinstance(node, _TRIES):
            node.body = self._block(node.body, loop)
            for handler in node.handlers:
                handler.body = self._block(handler.body, loop)
            node.orelse, node.finalbody = self._block(node.orelse, loop), self._block(node.finalbody, loop)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                case.body = self._block(case.body, loop)
        return [node]

    def _iteration(self, node: ast.For | ast.AsyncFor | ast.While, loop: int) -> list[ast.stmt]:
        """Return the body of a loop: with stamps while its flag is on, else without."""
        plain = deepcopy(node.body)
        stamped = self._block(node.body, loop)
        if not isinstance(plain[-1], _ENDS):
            stamped.append(self._stamp(loop, node))
        # The same name may be declared global once only.
        if any(isinstance(inner, ast.Global) for each in plain for inner in ast.walk(each)):
            return stamped
        counted = ast.If(test=_call(self.names.count(loop)), body=[ast.Pass()], orelse=[])
        asks = ast.If(test=_name(self.names.flag(loop)), body=stamped, orelse=[_at(counted, plain[0]), *plain])
        return [_at(asks, plain[0])]

    def _stamp(self, number: int, node: ast.stmt) -> ast.stmt:
        """Return the stamp of a statement, at the location of `node`."""
        append, now = self.names.append(self._node), self.names.now(self._node)
        both: list[ast.expr] = [_call(append, _Constant(number)), _call(append, _call(now))]
        return _at(ast.If(test=ast.BoolOp(op=ast.Or(), values=both), body=[ast.Pass()], orelse=[]), node)


class _Constant(ast.Constant):
    """A constant of a stamp, which a transformer of the user's constants does not visit: the class has another name."""


class _Call(ast.Call):
    """As :class:`_Constant`."""


def _joined(nodes: list[ast.stmt]) -> ast.If:
    """Return one node for several."""
    joined = ast.If(test=_Constant(True), body=nodes, orelse=[])
    return _at(joined, nodes[0]) if nodes else joined


def _is_too_long(tree: ast.Module) -> bool:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree)) > _MOST_STATEMENTS


def _stays_alone(node: ast.stmt, *, is_last: bool) -> bool:
    """Return whether IPython must get a statement as it is; see the module's text."""
    is_shown = is_last and isinstance(node, ast.Expr | ast.Assign | ast.AugAssign)
    return _comes_first(node) or is_shown or isinstance(node, ast.AnnAssign)


def _comes_first(node: ast.stmt) -> bool:
    """Return whether a statement is a text, such as that of a module, or an import from ``__future__``."""
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


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min(node.lineno, *(int(each.lineno) for each in decorators), node.lineno)


def _name(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _call(name: str, *values: ast.expr) -> ast.Call:
    return _Call(func=_name(name), args=list(values), keywords=[])


def _at(made: _Node, node: ast.stmt) -> _Node:
    """Return a node with the location of the beginning of another, for all that has none within it."""
    made.lineno = made.end_lineno = node.lineno
    made.col_offset = made.end_col_offset = node.col_offset
    return made
