"""The rewriting of a cell: what is stamped, and that nothing else changes."""

from __future__ import annotations

import ast
import dis
import sys
import textwrap
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuprof.lines.rewriting import Rewriting
from tests.budget import examples
from tests.lines.stamped import Ran, plain_codes, run_plain, run_stamped, stamped_codes, taken

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
    "break of the inner loop": "for i in range(3):\n    for j in range(5):\n        if j == i:\n            break",
    "inner while": "for i in range(3):\n    j = 0\n    while j < i:\n        j += 1",
    "inner with": "import contextlib\nfor i in range(3):\n    with contextlib.nullcontext():\n        j = i",
    "inner handler": "for i in range(3):\n    try:\n        1 / (i - 1)\n    except ZeroDivisionError as e:\n"
    "        log.append(str(e))",
    "inner handler and else": "for i in range(3):\n    try:\n        1 / (i - 1)\n    except ZeroDivisionError as e:\n"
    "        log.append(str(e))\n    else:\n        log.append(i)",
    "inner match": "for i in range(3):\n    match i:\n        case 0:\n            log.append(0)\n"
    "        case 1 if log:\n            log.append(1)",
    "finally and an exception": "for i in range(3):\n    try:\n        1 / (i - 1)\n    finally:\n"
    "        log.append(i)",
    "elif": "for i in range(4):\n    if i == 0:\n        log.append(0)\n    elif i == 1:\n        log.append(1)",
    "elif and else": "for i in range(4):\n    if i == 0:\n        log.append(0)\n    elif i == 1:\n"
    "        log.append(1)\n    else:\n        pass",
    "on several lines": "x = [\n    len(log),\n    2,\n]\ny = dict(\n    a=1,\n    b=2,\n)\n"
    "z = (\n    log\n    .copy()\n)\n(\n  log\n  .append(1)\n)",
    "while on one line": "n = 3\nwhile n: n -= 1",
    "definitions in a loop": "for i in range(2):\n    def f():\n        return 1\n    class B:\n        x = 1",
    "pass at the end": "for i in range(2):\n    log.append(1)\n    pass",
    "endless": "n = 0\nwhile True:\n    n += 1\n    if n > 3:\n        break",
    "conditions": "for i in range(3):\n    if i and log or not i:\n        log.append(i)",
    "inner else": "for i in range(2):\n    for j in range(2):\n        log.append(j)\n"
    "    else:\n        log.append(-1)",
    "comprehension": "for i in range(2):\n    log.append([j for j in range(i)])",
}


def _same(plain: Ran, stamped: Ran) -> None:
    assert stamped.failure == plain.failure
    assert stamped.traced == plain.traced
    assert set(stamped.names) == set(plain.names)
    for name, value in plain.names.items():
        if isinstance(value, int | str | list | dict | type(None)):
            assert stamped.names[name] == value, name


@pytest.mark.parametrize("is_on", [True, False], ids=["stamped", "thinned"])
@pytest.mark.parametrize("code", _CODES.values(), ids=_CODES.keys())
def test_code_does_what_it_did(code: str, is_on: bool) -> None:
    _same(run_plain(code), run_stamped(code, is_on=is_on))


@pytest.mark.parametrize("code", [code for code in _CODES.values() if "__future__" not in code])
def test_compiled_code_keeps_its_behaviour(code: str) -> None:
    _same(run_plain(code, whole=True), run_stamped(code, whole=True))


_INTERRUPTED = {"CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "POP_JUMP_BACKWARD_IF_FALSE", "JUMP_ABSOLUTE", "RESUME"}


@pytest.mark.parametrize("code", _CODES.values(), ids=_CODES.keys())
def test_an_interrupt_finds_a_line(code: str) -> None:
    for each in stamped_codes(code)[0]:
        lines = {offset: line for begin, end, line in each.co_lines() for offset in range(begin, end, 2)}
        assert not [
            instruction
            for instruction in dis.get_instructions(each)
            if instruction.opname in _INTERRUPTED and lines.get(instruction.offset) is None
        ]


@pytest.mark.parametrize("is_nested", [False, True])
def test_warns_once_as_plain_code(is_nested: bool) -> None:
    code = "for i in range(2):\n    for j in range(2):\n        i is 0\n" if is_nested else "for i in 0, 1: i is 0"
    counts = []
    for codes_of in (plain_codes, stamped_codes):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            codes_of(code)
        counts.append(len(caught))
    assert counts[0] == counts[1] == 1


def test_the_users_tree_stays() -> None:
    body = ast.parse("for i in x:\n    try:\n        y\n    finally:\n        z\n    with a: b").body
    before = [ast.dump(node, include_attributes=True) for node in body]
    rewriting = Rewriting(body)
    assert rewriting.body == body
    assert [ast.dump(node, include_attributes=True) for node in body] == before


def test_code_with_as_many_blocks_as_python_takes() -> None:
    depth = 20
    code = "".join("    " * at + "for i in range(1):\n" for at in range(depth)) + "    " * depth + "log.append(1)"
    _same(run_plain(code), run_stamped(code))


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
    codes, stamps = stamped_codes("for i in range(5):\n    for j in range(3):\n        x = j")
    assert stamps.turn(1, on=False) == [1]
    exec(codes[0], {})
    assert {loop: switch.thinned for loop, switch in stamps.switches.items()} == {0: 0, 1: 15}
    assert stamps.turn(0, on=False) == [0, 1]
    exec(codes[0], {})
    assert {loop: switch.thinned for loop, switch in stamps.switches.items()} == {0: 5, 1: 30}


def test_disabled_stamps_leave_nothing() -> None:
    codes, stamps = stamped_codes("for i in range(5):\n    x = i")
    stamps.turn_off()
    exec(codes[0], {})
    assert taken(stamps)[0] == [0, -1]


def test_nothing_is_left_in_any_namespace() -> None:
    names: dict[str, object] = {}
    known = {id(module): set(vars(module)) for module in list(sys.modules.values())}
    for code in stamped_codes("for i in range(3):\n    x = i")[0]:
        exec(code, names)
    assert names.keys() == {"i", "x", "__builtins__"}
    assert [name for name, module in list(sys.modules.items()) if known.get(id(module)) != set(vars(module))] == []


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
    _, stamps = stamped_codes("for i in y:\n" + textwrap.indent(body, "    "))
    assert stamps.statements[0].update == update


def test_loops_know_what_is_around_them() -> None:
    _, stamps = stamped_codes("for i in a:\n    while b:\n        x = 1\n    else:\n        y = 2\nz = 3")
    assert [(each.line, each.loop, each.is_loop) for each in stamps.statements] == [
        (2, -1, True),
        (3, 0, True),
        (4, 1, False),
        (6, 0, False),
        (7, -1, False),
    ]
    assert stamps.statements[0].last_line == 6


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
    _same(run_plain(code, whole=whole), run_stamped(code, is_on=is_on, whole=whole))


def test_a_cell_of_very_many_statements_is_not_stamped() -> None:
    assert Rewriting([ast.Pass()] * 100_001).stamps.statements == []
