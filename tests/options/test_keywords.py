"""What a type checker and Shift-Tab know of the options."""

from __future__ import annotations

import inspect
from typing import Any

from npuprof.options import Options, OptionValues, shows_options


def test_every_option_can_be_given_as_a_keyword() -> None:
    assert list(OptionValues.__annotations__) == list(Options.__dataclass_fields__)


def test_a_function_of_options_shows_each_with_its_type_and_default() -> None:
    @shows_options
    def example(path: str, *, level: int = 7, **options: Any) -> None:
        """Take options, one of which is its own."""

    shown = inspect.signature(example)
    assert {name: one.default for name, one in shown.parameters.items()} == {
        "path": inspect.Parameter.empty,
        **{name: one.default for name, one in inspect.signature(Options).parameters.items()},
        "level": 7,
    }
    assert str(shown.parameters["memory_freq"]) == "memory_freq: int | None = None"
    assert str(shown.parameters["memory"]) == "memory: bool = False"
    assert "options" not in shown.parameters
