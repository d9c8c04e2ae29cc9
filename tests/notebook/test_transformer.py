"""What the input transformer makes of a cell."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from npuprof.notebook.hooks import FirstLine

transform = FirstLine()
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


@pytest.fixture
def manager() -> TransformerManager:
    """IPython's chain of transformers, with ours where `%load_ext` puts it."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(transform)
    return manager


def test_the_first_line_becomes_a_comment_and_the_rest_stays(manager: TransformerManager) -> None:
    cell = '%%npuprof --level 2 --name "it\'s"\na = 1\nawait f(a)\n'
    assert manager.transform_cell(cell) == f"# {cell}"


def test_the_rest_is_ipythons_to_transform(manager: TransformerManager) -> None:
    code = manager.transform_cell("%%npuprof\n!ls\n%cd ..\nx = %pwd\n")
    assert "system('ls')" in code
    assert code.count("run_line_magic") == 2


def test_prompts_indentation_and_blank_lines_above_are_ipythons_to_remove(manager: TransformerManager) -> None:
    expected = "# %%npuprof\nx = 1\n"
    assert manager.transform_cell("\n\n    %%npuprof\n    x = 1\n") == expected
    assert manager.transform_cell("In [3]: %%npuprof\n   ...: x = 1\n") == expected


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_cell_magic_below_gets_its_own_text(manager: TransformerManager, between: str) -> None:
    code = manager.transform_cell(f"%%npuprof --level 0\n{between}%%time -x\na\nb\n")
    assert code == ("# %%npuprof --level 0\n" + between + "get_ipython().run_cell_magic('time', '-x', 'a\\nb\\n')\n")


@pytest.mark.parametrize(
    "cell",
    [
        "%%npuprof?\n",
        "%%npuprof??\n",
        "?%%npuprof\n",
        "%%npuprofile\nx\n",
        "%npuprof start\nx\n",
        "'''\n%%npuprof\n'''\n",
        "x = 1\n%%npuprof\ny\n",
        "%%time\n%%npuprof\ny\n",
        "%%npuprof --level 1\n",
        "%%npuprof\n\n   \n",
        "\n",
    ],
)
def test_everything_else_is_left_to_ipython(manager: TransformerManager, cell: str) -> None:
    lines = cell.splitlines(keepends=True)
    assert transform(lines) == lines
    assert manager.transform_cell(cell) == TransformerManager().transform_cell(cell)


def test_no_lines_are_no_lines() -> None:
    assert transform([]) == []


@pytest.mark.parametrize(
    "body",
    [
        "    x = 1\n    y = 2\n",
        "\tif x:\n\t\ty = 2\n",
        "\n   \n    # why\n\n    x = 1\n",
        "    @f\n    def g():\n        '''one\n    two'''\n        %time x = 1\n    !ls\n",
        '    x = """\n  in the text\n    """\n',
        '    x = """\nat the margin"""\n    y = 1\n',
        "  %%time -x\n    a\n  b\n",
        "    >>> x = 1\n    >>> y = (x +\n    ...      2)\n",
        "# why\n    x = 1\n",
    ],
)
def test_body_is_what_ipython_makes(manager: TransformerManager, body: str) -> None:
    begun, _, rest = manager.transform_cell(f"%%npuprof\n{body}").partition("\n")
    assert begun == "# %%npuprof"
    assert re.sub(r"\A(\s*\n)+", "", rest) == manager.transform_cell(body)


_INDENTS = st.sampled_from(["", "  ", "    ", "\t", "    \t"])
_CODE = st.sampled_from(
    ["", "x = 1", "# why", "if x:", "    y = 2", "@f", '"""', "%time x", "%%time", ">>> x", "... y", "!ls"]
)
_BODIES = st.lists(st.tuples(_INDENTS, _CODE | _TEXT))


@given(arguments=st.from_regex(r"[ -~]{0,40}", fullmatch=True), body=_BODIES)
def test_body_keeps_its_lines_in_any_shape(arguments: str, body: list[tuple[str, str]]) -> None:
    lines = ["".join(line) + "\n" for line in body]
    once = transform([f"%%npuprof {arguments}\n", *lines])
    blank = next((number for number, line in enumerate(lines) if line.strip()), None)
    if blank is None:
        assert once == [f"%%npuprof {arguments}\n", *lines]
        return
    assert ast.parse(once[0]).body == []
    assert once[1 : blank + 1] == lines[:blank]
    code = lines[blank:]
    alone: Any = TransformerManager()
    for prepare in alone.cleanup_transforms + alone.line_transforms:
        code = prepare(code)
    assert once[blank + 1 :] == code
    assert len(code) in (1, len(lines) - blank)  # at their lines, but for the text of a cell magic
    assert transform(once) == once


def test_the_terminal_still_waits_for_a_blank_line(manager: TransformerManager) -> None:
    assert manager.check_complete("%%npuprof")[0] == "incomplete"
    assert manager.check_complete("%%npuprof\nx = 1")[0] == "incomplete"
    assert manager.check_complete("%%npuprof\nx = 1\n\n")[0] == "complete"
