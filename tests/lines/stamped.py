"""Runs of code as IPython runs a cell, with and without stamps."""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np

from npuprof.lines.rewriting import Rewriting
from npuprof.lines.stamps import Stamps

FIRST_LINE = "pass\n"
"""In place of the line that starts the profiler, so that line 2 is the first of the code."""
_NEVER = 1 << 62


@dataclass
class Ran:
    """What came of code: its names, the lines of an exception and of trace events, and of stamped statements."""

    names: dict[str, Any]
    failure: tuple[str, list[int]] | None = None
    stamped: list[int] = field(default_factory=list)
    traced: list[tuple[str, int]] = field(default_factory=list)


def compiled(tree: ast.AST) -> CodeType:
    return compile(tree, "<code>", "single" if isinstance(tree, ast.Interactive) else "exec")  # type: ignore[call-overload]


def rewriting_of(code: str) -> tuple[list[ast.stmt], Rewriting]:
    """Return the statements of code from its second line on, and their rewriting."""
    body = ast.parse(FIRST_LINE + textwrap.dedent(code)).body[1:]
    return body, Rewriting(body)


def stamped_codes(code: str, *, whole: bool = False) -> tuple[list[CodeType], Stamps]:
    """Return the rewritten code, a statement of its level at a time or as a whole, and its stamps."""
    body, rewriting = rewriting_of(code)
    parts = [body] if whole else [[node] for node in body]
    return [rewriting.compile(compiled, ast.Module(part, [])) for part in parts], rewriting.stamps


def plain_codes(code: str, *, whole: bool = False) -> list[CodeType]:
    """Return the code as it is, a statement of its level at a time or as a whole."""
    body = ast.parse(FIRST_LINE + textwrap.dedent(code)).body[1:]
    return [compiled(ast.Module(part, [])) for part in ([body] if whole else [[node] for node in body])]


def taken(stamps: Stamps) -> tuple[list[int], list[int]]:
    """Return number and time of all stamps in order."""
    numbers, times = stamps.since([0] * len(stamps.times), _NEVER)
    return numbers.tolist(), times.tolist()


def run_plain(code: str, *, whole: bool = False) -> Ran:
    """Run code as it is, a statement of its level at a time, or compiled as a whole."""
    return _run(plain_codes(code, whole=whole))


def run_stamped(code: str, *, whole: bool = False, is_on: bool = True) -> Ran:
    """Run rewritten code: a statement of its level at a time, or compiled as a whole; with loops thinned or not."""
    codes, stamps = stamped_codes(code, whole=whole)
    for loop in stamps.switches:
        stamps.turn(loop, on=is_on)
    ran = _run(codes)
    numbers, times = taken(stamps)
    ran.stamped = [stamps.statements[number].line for number in numbers if number >= 0]
    assert bool((np.diff(times) >= 0).all())
    assert ran.failure or numbers[-1:] in ([], [-1])
    return ran


@contextmanager
def traced(file: str = "<code>") -> Iterator[list[tuple[str, int]]]:
    """Yield the events of a file's frames, outermost ones included, that a tracer sees."""
    events: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename != file:
            return None
        if event != "call":
            events.append((event, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield events
    finally:
        sys.settrace(before)


def _run(codes: list[CodeType]) -> Ran:
    ran = Ran({"log": []})
    with traced() as ran.traced:
        try:
            for code in codes:
                exec(code, ran.names)
        except Exception as error:  # noqa: BLE001 - of the code
            lines, traceback = [], error.__traceback__
            while traceback is not None:
                if traceback.tb_frame.f_code.co_filename == "<code>":
                    lines.append(traceback.tb_lineno)
                traceback = traceback.tb_next
            ran.failure = f"{type(error).__name__}: {error}", lines
    ran.names.pop("__builtins__", None)
    return ran
