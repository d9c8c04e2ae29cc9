"""Every parameter of every public method refuses a value of another kind, and names itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import NpuprofError, OptionsError
from npuprof.parameters import checked
from npuprof.profiles.comparison import Comparison
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.sources.base import Decoded
from tests import factories
from tests.factories import profile

_OWNERS: Mapping[str, type] = {"Profile": Profile, "ProfileSet": ProfileSet, "Comparison": Comparison}
_FUNCTIONS = (npuprof.load, npuprof.load_set, npuprof.compare)
_WRONG = (object(), -1.5, b"bytes", {"no": object()}, [object()])


def _parameters() -> Iterator[Any]:
    calls = [(f"{owner}.{name}", method) for owner, kind in _OWNERS.items() for name, method in _public(kind)]
    for name, function in [*calls, *((function.__name__, function) for function in _FUNCTIONS)]:
        for parameter in inspect.signature(function).parameters.values():
            is_open = parameter.annotation in ("Any", "pd.Series[Any]") or parameter.kind is parameter.VAR_KEYWORD
            if parameter.name != "self" and not is_open:
                yield pytest.param(function, parameter, id=f"{name}-{parameter.name}")


def _public(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(owner):
        found = inspect.getattr_static(owner, name)
        if not name.startswith("_") and inspect.isfunction(found):
            yield name, found


def _arguments(function: Callable[..., Any], tried: inspect.Parameter, value: object) -> inspect.BoundArguments:
    """Return arguments with `value` for one parameter; the checks come before anything looks at an owner."""
    signature = inspect.signature(function)
    others = {"path": "x", "other": None, "table": "kernels", "name": "kernels", "query": "select 1", "row": 0}
    others |= {"a": "x", "b": "x", "text": "x", "start": 0, "end": 0}
    bound = signature.bind_partial()
    for parameter in signature.parameters.values():
        is_needed = parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if parameter.name == tried.name:
            bound.arguments[tried.name] = (value,) if parameter.kind is parameter.VAR_POSITIONAL else value
        elif is_needed and parameter.name != "self":
            bound.arguments[parameter.name] = others[parameter.name]
    return bound


@pytest.mark.parametrize(("function", "parameter"), list(_parameters()))
def test_a_value_of_another_kind_is_refused_by_name(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    refused = 0
    for value in _WRONG:
        bound = _arguments(function, parameter, value)
        if "self" in inspect.signature(function).parameters:
            bound.arguments = {"self": None, **bound.arguments}
        with suppress(AttributeError):  # a kind that is allowed here: there is no owner to ask
            try:
                function(*bound.args, **bound.kwargs)
            except NpuprofError as error:
                refused += isinstance(error, OptionsError) and parameter.name in error.options
    assert refused >= 2


@pytest.mark.parametrize("kind", ["Profile", "Comparison"])
def test_a_limit_of_nothing_is_refused_with_and_without_data(kind: str) -> None:
    for tables in (profile(20), {}):
        run = Profile(Decoded(tables))
        owner = run if kind == "Profile" else run - run if tables else None
        for name, method in _public(type(owner)) if owner is not None else ():
            for limit in inspect.signature(method).parameters:
                if limit.startswith(("max_", "most_", "longest_")) and name != "sql":
                    for number in (0, -3):
                        with pytest.raises(OptionsError, match=f"^{limit} of {name}\\(\\) must be at least 1"):
                            getattr(owner, name)(**{limit: number})


def test_messages_say_what_a_parameter_takes() -> None:
    @checked
    def call(
        number: int | None = None,
        part: float = 1.0,
        names: list[str] | None = None,
        factors: Mapping[str, float] | None = None,
        window: tuple[int, int] | None = None,
        path: str | Path = "",
    ) -> int:
        return number or 0

    assert call(3, 2, ["a"], {"b": 1}, (1, 2)) == 3
    for options, message in (
        ({"number": True}, "number of call() must be a whole number or None, not True"),
        ({"part": float("nan")}, "part of call() must be a number, not nan"),
        ({"names": "abc"}, "names of call() must be a list with a text each or None, not 'abc'"),
        ({"factors": {"b": "x"}}, "factors of call() must be a dict of a text to a number or None, not {'b': 'x'}"),
        ({"window": (1,)}, "window of call() must be (a whole number, a whole number) or None, not (1,)"),
        ({"number": "x" * 100}, f"number of call() must be a whole number or None, not 'x{'x' * 58}..."),
    ):
        with pytest.raises(OptionsError) as caught:
            call(**options)
        assert str(caught.value) == message


def test_wrong_argument_is_told_with_the_method() -> None:
    run = Profile(Decoded(profile(2), factories.info()))
    with pytest.raises(TypeError, match=r"to_html\(\) missing 1 required positional argument: 'path'"):
        run.to_html()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"timeline\(\) got an unexpected keyword argument 'most'"):
        run.timeline(most=3)  # type: ignore[call-arg]
