"""A profiled cell of one line is what IPython makes of such a cell: automagic, macros, calls without brackets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import pace
from tests.notebook.kernel import Kernel
from tests.notebook.outcomes import namespace, outcome

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

_PREPARED = (
    "%load_ext npuprof",
    "print('first')\nx = [1, 2]",
    "%macro -q many 2",
    "41 + 1",
    "%macro -q one 4",
    "%alias_magic where pwd",
    "%autocall 1",
    "def f(*given):\n    return given\n",
)

_CELLS = {
    "a folder": ("pwd", "'"),
    "its files": ("ls", "file.txt"),
    "files of another": ("ls inner", "within.txt"),
    "the history": ("history 2", "print('first')"),
    "a timed statement": ("timeit -n1 -r1 1", "1 loop each"),
    "an alias": ("where", "'"),
    "a macro": ("one", "42"),
    "a macro of lines": ("many", "first"),
    "a call": ("f 1, 2", "(1, 2)"),
    "a call of texts": (",f a b", "'a', 'b'"),
    "a call of one text": (";f a b", "'a b'"),
    "below a blank line": ("\n  \npwd", "'"),
    "indented": ("    pwd", "'"),
    "with a prompt": (">>> pwd", "'"),
    "with its sign": ("%pwd", "'"),
    "a shell": ("!echo from a shell", "from a shell"),
    "a cell magic": ("%%writefile new.txt", "UsageError"),
    "an expression": ("6 * 7", "42"),
    "no such name": ("pwdd", "NameError"),
    "no such syntax": ("no such syntax", "SyntaxError"),
    "no longer one line": ("# why\npwd", "NameError"),
    "two lines": ("pwd\nls", "NameError"),
    "the end of the client": ("exit(True)", "'keepkernel': True"),
}
"""A cell, and what its outcome has."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("cells")
    (folder / "inner").mkdir()
    for name in ("file.txt", "inner/within.txt"):
        (folder / name).touch()
    with Kernel(folder) as kernel:
        for cell in _PREPARED:
            kernel.run(cell)
        kernel.run("%%npuprof\npass")  # makes the folder of recordings, which `ls` lists
        yield kernel


@pytest.mark.parametrize(("code", "expected"), _CELLS.values(), ids=_CELLS.keys())
def test_one_line_does_what_it_does(prepared: Kernel, code: str, expected: str) -> None:
    plain = outcome(prepared.run(code))
    names = namespace(prepared)
    assert expected in str(plain)
    executed = prepared.run(f"%%npuprof\n{code}")
    profiled = outcome(executed)
    if plain["status"] == "error":  # the magic's line is in the text of the cell that a traceback shows
        plain["messages"], profiled["messages"] = ([each[0] for each in one["messages"]] for one in (plain, profiled))
    assert profiled == plain
    assert namespace(prepared) == names
    assert executed.has_report or "SyntaxError" in expected or "UsageError" in expected


@pytest.mark.parametrize("first", ["", "%%npuprof\n"], ids=["plain", "profiled"])
def test_exit_ends_the_kernel(tmp_path: Path, first: str) -> None:
    with Kernel(tmp_path) as kernel:
        kernel.run("%load_ext npuprof")
        assert outcome(kernel.run(f"{first}exit"))["payload"] == [("ask_exit", "{'keepkernel': False}")]
        deadline = time.monotonic() + pace.seconds(30)
        while kernel.manager.is_alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not kernel.manager.is_alive()
