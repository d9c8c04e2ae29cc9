"""The specification of the options, and what is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuprof.errors import OptionsError
from npuprof.notebook.arguments import usage
from npuprof.notebook.magics import NpuprofMagics
from npuprof.notebook.panel.form import CONTROLS, LISTS, OptionsForm
from npuprof.options import SPECIFICATION, Options, keywords, lacks, reference
from npuprof.options.specification import FRONT_ENDS

_PAGE = Path(__file__).parents[2] / "notebooks" / "reference" / "options.md"


def test_generated_files_are_current() -> None:
    remedy = "run `python -m npuprof.options`"
    assert Path(keywords.__file__).read_text(encoding="utf-8") == reference.keywords(), remedy
    assert _PAGE.read_text(encoding="utf-8") == reference.page(), remedy


def test_every_argument_of_a_cell_is_in_the_reference() -> None:
    flags = {flag for action in NpuprofMagics.npuprof_cell.parser._actions for flag in action.option_strings}
    own = {flag for flag in flags if flag.removeprefix("--").removeprefix("no-").replace("-", "_") not in SPECIFICATION}
    assert {"--overhead", "--no-report", "--if-unavailable"} <= own
    listed = reference.page().partition("no option of a session")[2]
    assert {flag for flag in own if f"`{flag}" not in listed} <= {"-h", "--help"}


@pytest.mark.parametrize("name", SPECIFICATION)
def test_unknown_options_are_refused_by_name(name: str) -> None:
    with pytest.raises(OptionsError, match=f"^{name} "):
        Options.from_dict({name: object()})


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECIFICATION)
def test_options_are_documented_arguments(name: str) -> None:
    option = SPECIFICATION[name]
    arguments = {action.dest: action.help for action in NpuprofMagics.npuprof_cell.parser._actions}
    assert arguments[name].replace("%%", "%").startswith(option.described)
    if name != "engines":  # of a cell that runs code on the engines of a client
        assert f"--{name.replace('_', '-')}" in usage()
    assert name in (Options.__doc__ or "").splitlines()
    row = next(line for line in reference.page().splitlines() if line.startswith(f"| `{name}` |"))
    assert option.help in row
    assert all(reason in row for front_end in FRONT_ENDS if (reason := lacks(front_end, name)))


@pytest.mark.slow
def test_panel_has_a_control_per_option() -> None:
    form = OptionsForm()
    for name in CONTROLS:
        assert form.chosen(name) in LISTS.get(name, (form.chosen(name),)) or name == "activities"
    form.choose("more", "--memory-freq 5 --delay 3")
    assert "go" in form.problem
    assert set(SPECIFICATION) - set(CONTROLS) >= {"memory_freq", "delay"}


def test_it_names_only_options_and_front_ends_that_exist() -> None:
    for name, option in SPECIFICATION.items():
        assert set(option.lacks) <= set(FRONT_ENDS), name
        assert option.needs in ("", *SPECIFICATION), name
        assert option.activity in ("", *SPECIFICATION["activities"].choices), name
        for having in option.only.values():
            assert set(having) < set(FRONT_ENDS), name


def test_option_lacks_with_its_requirement() -> None:
    assert lacks("simulator", "io_freq") == lacks("simulator", "sys_io") == "the simulated NPU has no such hardware"
    assert lacks("acl", "io_freq") == ""
