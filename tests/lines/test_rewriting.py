"""The rewriting of a cell: what is stamped, and that nothing else changes."""

from __future__ import annotations

import ast
import builtins
import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.budget import examples
from tests.lines.stamped import Ran, rewritten, run_plain, run_stamped

_CODES = {
    "loop": "for i in range(3):\n    log.append(i)\n    log.append(-i)",
    "break and else": "for i in range(5):\n    if i == 3:\n        break\n    log.append(i)\nelse:\n"
    "    log.append('else')",
    "else": "for i in range(2):\n    log.append(i)\nelse:\n    log.append('else')",
    "continue": "for i in range(5):\n    if i % 2:\n        continue\n    log.append(i)",
    "while": "i = 0\nwhile i < 4:\n    i += 1\n    if i == 2:\n        continue\n"
    "    log.append(i)\nelse:\n    log.append('no')",
    "nested": "for i in range(3):\n    for j in range(i):\n        if j:\n"
    "            continue\n        log.append((i, j))\n    log.append(i)",
    "try": "try:\n    log.append(1)\n    1 / 0\nexcept ZeroDivisionError as error:\n    log.append(str(error))\n"
    "else:\n    log.append(2)\nfinally:\n    log.append(3)",
    "finally and continue": "for i in range(3):\n    try:\n        continue\n    finally:\n        log.append(i)",
    "with": "import contextlib\nwith contextlib.suppress(KeyError):\n    log.append(1)\n    {}['no']\nlog.append(2)",
    "match": "for value in (1, 'a', None):\n    match value:\n        case int():\n            log.append(1)\n"
    "        case str():\n            log.append(2)\n        case _:\n            log.append(3)",
    "uncaught": "x = 1\nfor i in range(3):\n    y = i\n    x = 1 / (1 - i)",
    "in a function": "def f(x):\n    '''Text.'''\n    return 1 / x\nfor i in (1, 0):\n    log.append(f(i))",
    "decorated": "def twice(f):\n    return lambda x: f(f(x))\n@twice\ndef inc(x):\n"
    "    return x + 1\nlog.append(inc(1))",
    "class": "class A:\n    '''Text.'''\n    x = 1\n    def get(self):\n"
    "        return super().__str__ and self.x\nlog.append(A().get())",
    "generator": "def g():\n    for i in range(3):\n        yield i\nlog.extend(g())\nlog.extend(i for i in g())",
    "closure in a loop": "fs = []\nfor i in range(3):\n    def f(x, i=i):\n        return x + i\n"
    "    fs.append(f)\nlog.extend(f(1) for f in fs)\ndel fs, f",
    "text alone": "'''Not a docstring.'''\nx = 1\n'''Neither.'''",
    "annotation": "x: int = 1\ny: int\nlog.append(x)",
    "future": "from __future__ import annotations\nx = 1",
    "global in a loop": "for i in range(3):\n    global total\n    total = i\nlog.append(total)",
    "walrus": "while (n := len(log)) < 3:\n    log.append(n)",
    "empty body": "for i in range(3): pass\nwhile False: ...",
    "one line": "for i in range(3): x = i; log.append(x)",
    "last is an expression": "x = 1\nx + 1",
    "raise from": "try:\n    {}[1]\nexcept KeyError as e:\n    raise ValueError('no') from e",
    "nothing": "pass",
}


def _same(plain: Ran, stamped: Ran) -> None:
    assert stamped.failure == plain.failure
    assert set(stamped.names) == set(plain.names)
    for name, value in plain.names.items():
        if isinstance(value, int | str | list | dict | type(None)):
            assert stamped.names[name] == value, name


@pytest.mark.parametrize("is_on", [True, False], ids=["stamped", "thinned"])
@pytest.mark.parametrize("code", _CODES.values(), ids=_CODES.keys())
def test_code_does_what_it_did(code: str, is_on: bool) -> None:
    _same(run_plain(code), run_stamped(code, is_on=is_on))


@pytest.mark.parametrize("code", [code for code in _CODES.values() if "__future__" not in code])
def test_code_that_is_compiled_as_a_whole_does_what_it_did(code: str) -> None:
    stamped = run_stamped(code, whole=True)
    plain = run_plain(code)
    stamped.names.pop("__doc__", None), plain.names.pop("__doc__", None)
    stamped.names.pop("__annotations__", None), plain.names.pop("__annotations__", None)
    _same(plain, stamped)


@pytest.mark.skipif(not hasattr(ast, "TryStar"), reason="Python has no except* before 3.11")
def test_exception_groups_are_handled() -> None:
    code = "try:\n    raise ExceptionGroup('g', [KeyError(1)])\nexcept* KeyError:\n    log.append(1)"
    _same(run_plain(code), run_stamped(code))
    assert run_stamped(code).stamped == [2, 3, 5]


def test_a_statement_is_stamped_each_time_that_it_begins() -> None:
    code = "x = 1\nfor i in range(2):\n    x += i\n    if x > 1:\n        x = 0\ny = x"
    assert run_stamped(code).stamped == [2, 3, 4, 5, 3, 4, 5, 6, 3, 7]


def test_a_loop_is_stamped_before_each_continue() -> None:
    code = "for i in range(2):\n    if i == 0:\n        continue\n    x = i"
    assert run_stamped(code).stamped == [2, 3, 2, 3, 5, 2]


def test_a_with_is_stamped_again_as_it_is_left() -> None:
    code = "import contextlib\nwith contextlib.nullcontext():\n    x = 1\ny = 2"
    assert run_stamped(code).stamped == [2, 3, 4, 3, 5]


def test_bodies_of_functions_classes_and_comprehensions_are_not_stamped() -> None:
    code = "def f():\n    x = 1\n    return x\nclass A:\n    y = f()\nz = [f() for _ in range(3)]"
    assert run_stamped(code).stamped == [2, 5, 7]


def test_iterations_of_a_thinned_loop_are_counted() -> None:
    with rewritten("for i in range(5):\n    for j in range(3):\n        x = j") as (tree, stamps):
        stamps.set_flag(1, False)
        exec(compile(ast.Module(tree.body, []), "<code>", "exec"), {})
        assert stamps.counted(0) == 0
        assert stamps.counted(1) == 15
        assert stamps.counted(1) == 15  # reading does not count
    assert not [name for name in vars(builtins) if name.startswith(stamps.names.prefix)]


def test_muted_stamps_leave_nothing_and_names_are_removed() -> None:
    with rewritten("for i in range(5):\n    x = i\ny = 1") as (tree, stamps):
        stamps.mute()
        exec(compile(ast.Module(tree.body, []), "<code>", "exec"), {})
        assert not stamps.pairs
        assert [name for name in vars(builtins) if name.startswith(stamps.names.prefix)]
    assert not [name for name in vars(builtins) if name.startswith(stamps.names.prefix)]


@pytest.mark.parametrize(
    ("body", "update"),
    [
        ("optimizer.step()", 2),
        ("loss.backward()", 1),
        ("if x:\n    optimizer.zero_grad()", 1),
        ("def f():\n    optimizer.step()", 0),
        ("for j in k:\n    optimizer.step()", 0),
        ("step()", 0),
    ],
)
def test_a_loop_knows_whether_its_own_body_makes_the_update(body: str, update: int) -> None:
    with rewritten("for i in y:\n" + textwrap.indent(body, "    ")) as (_, stamps):
        assert stamps.statements[0].update == update


def test_loops_know_what_is_around_them() -> None:
    with rewritten("for i in a:\n    while b:\n        x = 1\n    else:\n        y = 2\nz = 3") as (_, stamps):
        assert [(each.line, each.loop, each.is_loop) for each in stamps.statements] == [
            (2, -1, True),
            (3, 0, True),
            (4, 1, False),
            (6, 0, False),
            (7, -1, False),
        ]
        assert stamps.statements[0].last_line == 6


def test_positions_of_statements_stay() -> None:
    code = "x = 1\nfor i in y:\n    z = (1 +\n         i)\n"
    with rewritten(code) as (tree, _):
        lines = {getattr(node, "lineno", 1) for node in ast.walk(tree)}
    assert lines <= {1, 2, 3, 4, 5}


_SIMPLE = st.sampled_from(["log.append(n)", "n += 1", "pass", "if n > 20: raise ValueError(n)", "f(n)"])
_JUMPS = st.sampled_from(["continue", "break", "log.append(-1)"])


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _blocks(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    bodies = st.lists(inner, min_size=1, max_size=3).map(lambda parts: [line for part in parts for line in part])
    jumping = st.tuples(bodies, _JUMPS).map(lambda both: [*both[0], f"if n % 3 == 0: {both[1]}", "n += 1"])
    return st.one_of(
        st.tuples(jumping, bodies).map(lambda b: ["for k in range(3):", *_indented(b[0]), "else:", *_indented(b[1])]),
        jumping.map(lambda b: ["m = n", "while n < m + 3:", "    n += 1", *_indented(b)]),
        st.tuples(bodies, bodies).map(lambda b: ["if n % 2:", *_indented(b[0]), "else:", *_indented(b[1])]),
        st.tuples(bodies, bodies).map(
            lambda b: ["try:", *_indented(b[0]), "except ValueError:", *_indented(b[1]), "finally:", "    n += 1"]
        ),
        bodies.map(lambda b: ["with contextlib.nullcontext():", *_indented(b)]),
        bodies.map(lambda b: ["match n % 2:", "    case 0:", *_indented(_indented(b)), "    case _:", "        pass"]),
    )


_PROGRAMS = st.lists(st.recursive(_SIMPLE.map(lambda line: [line]), _blocks, max_leaves=8), min_size=1, max_size=4)
_HEAD = "import contextlib\nn = 0\ndef f(x):\n    if x == 7:\n        raise KeyError(x)\n"


@given(_PROGRAMS, st.booleans(), st.booleans())
@settings(max_examples=examples(100))
def test_any_code_does_what_it_did(parts: list[list[str]], is_on: bool, whole: bool) -> None:
    code = _HEAD + "\n".join(line for part in parts for line in part)
    _same(run_plain(code), run_stamped(code, is_on=is_on, whole=whole))


def test_a_cell_of_very_many_statements_is_left_as_it_is() -> None:
    from npuprof.lines.rewriting import Rewriting, StampNames

    tree: Any = ast.Module([ast.Pass()] * 100_001, [])
    assert Rewriting(StampNames("x")).rewrite(tree) is None
