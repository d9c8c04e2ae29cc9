"""Runs of code as IPython runs a cell, with and without stamps."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from npuprof.lines.rewriting import Rewriting
from npuprof.lines.stamps import LEAST_TIME, Stamps

FIRST_LINE = "pass\n"
"""In place of the line that starts the profiler, so that line 2 is the first of the code."""


@dataclass
class Ran:
    """What came of code: its names, the lines of an exception, and the lines of statements that were stamped."""

    names: dict[str, Any]
    failure: tuple[str, list[int]] | None = None
    stamped: list[int] = field(default_factory=list)


@contextmanager
def rewritten(code: str) -> Iterator[tuple[ast.Module, Stamps]]:
    """Yield the rewritten tree of code, and its stamps, whose names are removed at the end."""
    stamps = Stamps()
    rewriting = Rewriting(stamps.names)
    tree = rewriting.rewrite(ast.parse(FIRST_LINE + textwrap.dedent(code)))
    assert tree is not None
    stamps.install(rewriting.statements, rewriting.nodes)
    try:
        yield tree, stamps
    finally:
        stamps.remove()


def run_plain(code: str) -> Ran:
    """Run code as it is, a statement of its level at a time."""
    return _run(ast.parse(FIRST_LINE + textwrap.dedent(code)))


def run_stamped(code: str, *, whole: bool = False, is_on: bool = True) -> Ran:
    """Run rewritten code: a statement of its level at a time, or compiled as a whole; with loops thinned or not."""
    with rewritten(code) as (tree, stamps):
        for number, statement in enumerate(stamps.statements):
            if statement.is_loop:
                stamps.set_flag(number, is_on)
        ran = _run(tree, whole=whole)
        ran.stamped = [stamps.statements[value].line for value in stamps.pairs if 0 <= value < LEAST_TIME]
        times = [value for value in stamps.pairs if value >= LEAST_TIME]
        assert 2 * len(times) == len(stamps.pairs)
        assert times == sorted(times)
    return ran


def _run(tree: ast.Module, *, whole: bool = False) -> Ran:
    ran = Ran({"log": []})
    try:
        for nodes in [tree.body] if whole else [[node] for node in tree.body]:
            exec(compile(ast.Module(nodes, []), "<code>", "exec"), ran.names)
    except Exception as error:  # noqa: BLE001 - of the code
        lines, traceback = [], error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == "<code>":
                lines.append(traceback.tb_lineno)
            traceback = traceback.tb_next
        ran.failure = f"{type(error).__name__}: {error}", lines
    ran.names.pop("__builtins__", None)
    return ran
