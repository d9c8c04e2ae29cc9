"""What the input transformer makes of a cell."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from npuprof.notebook.hooks import CellTransformer, start_line

transform = CellTransformer()
_LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")))


@pytest.fixture
def manager() -> TransformerManager:
    """IPython's chain of transformers, with ours where `%load_ext` puts it."""
    manager = TransformerManager()
    manager.cleanup_transforms.append(transform)
    return manager


def test_the_first_line_becomes_one_call_and_the_rest_stays(manager: TransformerManager) -> None:
    cell = "%%npuprof --level 2\na = 1\nawait f(a)\n"
    assert manager.transform_cell(cell) == (
        "get_ipython().run_line_magic('npuprof', '__cell__ --level 2')\na = 1\nawait f(a)\n"
    )


def test_quotes_of_the_arguments_survive(manager: TransformerManager) -> None:
    code = manager.transform_cell('%%npuprof --name "it\'s \\ {x}"\npass\n')
    call = ast.parse(code).body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert ast.literal_eval(call.value.args[1]) == '__cell__ --name "it\'s \\ {x}"'


def test_the_rest_is_ipythons_to_transform(manager: TransformerManager) -> None:
    code = manager.transform_cell("%%npuprof\n!ls\n%cd ..\nx = %pwd\n")
    assert "system('ls')" in code
    assert code.count("run_line_magic") == 3


def test_prompts_indentation_and_blank_lines_above_are_ipythons_to_remove(manager: TransformerManager) -> None:
    expected = start_line("") + "x = 1\n"
    assert manager.transform_cell("\n\n    %%npuprof\n    x = 1\n") == expected
    assert manager.transform_cell("In [3]: %%npuprof\n   ...: x = 1\n") == expected


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_cell_magic_below_gets_its_own_text(manager: TransformerManager, between: str) -> None:
    code = manager.transform_cell(f"%%npuprof --level 0\n{between}%%time -x\na\nb\n")
    assert code == (start_line("--level 0") + between + "get_ipython().run_cell_magic('time', '-x', 'a\\nb\\n')\n")


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


@pytest.mark.slow
@given(arguments=st.from_regex(r"[ -~]{0,40}", fullmatch=True), body=_LINES)
def test_line_numbers_stay_and_a_second_time_changes_nothing(arguments: str, body: list[str]) -> None:
    lines = [f"%%npuprof {arguments}\n", "first\n", *(f"{line}\n" for line in body)]
    once = transform(lines)
    assert once[1:] == lines[1:]
    assert len(ast.parse(once[0]).body) == 1
    assert transform(once) == once


def test_the_terminal_still_waits_for_a_blank_line(manager: TransformerManager) -> None:
    assert manager.check_complete("%%npuprof")[0] == "incomplete"
    assert manager.check_complete("%%npuprof\nx = 1")[0] == "incomplete"
    assert manager.check_complete("%%npuprof\nx = 1\n\n")[0] == "complete"
