"""Arguments of public calls, checked against their annotations.

A wrong argument is an :class:`~npuprof.errors.OptionsError` that names the parameter and what it takes, raised before
anything is computed, and the same whether or not the run has data.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import numbers
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from os import PathLike
from typing import Any, TypeVar

from npuprof.errors import OptionsError

_COUNTS = ("max_", "most_", "longest_")
"""Prefixes of parameters that limit a number of things, of which there must be at least one."""
_LONGEST_VALUE = 60
_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    type(None): "None",
}
_T = TypeVar("_T")


# beartype cannot resolve what a module imports for type checkers alone (tests/test_parameters.py), and importing pandas
# for it would make `import npuprof` slow.
class _Named(type):
    """A class that an annotation names and that its module imports for type checkers alone."""

    def __getattr__(cls, name: str) -> Any:
        return _Named(name, (), {"home": ""}) if not name.startswith("__") else super().__getattribute__(name)

    def __getitem__(cls, _: object) -> Any:
        return cls


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return _Named(name, (), {"home": self["__name__"]})


@cache
def _imported(home: str, name: str) -> Any:
    """Return what a module imports under a name for type checkers; None if that cannot be imported.

    It may be the name of an alias, such as of the values that a text can have.
    """
    source = inspect.getsource(sys.modules[home]) if home else ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and name in {alias.name for alias in node.names}:
            with suppress(ImportError):
                return getattr(import_module(node.module), name, None)
    return None


def checked(call: _T) -> _T:
    """Return a function, or a class with its public methods, whose arguments are checked at each call."""
    if isinstance(call, type):
        for name, method in list(vars(call).items()):
            if not name.startswith("_") and isinstance(method, types.FunctionType):
                setattr(call, name, _checking(method))
        return call
    return typing.cast("_T", _checking(typing.cast("Callable[..., Any]", call)))


def _checking(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    @cache
    def kind_of(name: str) -> Any:
        known = _Names({**vars(builtins), **inspect.unwrap(function).__globals__})
        annotation = function.__annotations__.get(name, Any)
        try:  # not by typing.get_type_hints: from Python 3.14 on it looks names up in a copy, a plain dictionary
            return eval(annotation, {}, known) if isinstance(annotation, str) else annotation  # noqa: S307 - our source
        except TypeError:  # such as pd.Series[Any], where pandas has no such form
            return Any

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself names the function, too
            given = {}
        for name, value in given.items():
            parameter = signature.parameters[name]
            if parameter.kind is not parameter.VAR_KEYWORD:
                for each in value if parameter.kind is parameter.VAR_POSITIONAL else [value]:
                    _check(function.__name__, name, each, kind_of(name))
        return function(*args, **kwargs)

    return call


def _check(function: str, name: str, value: object, kind: Any) -> None:
    wanted = ""
    if not _fits(value, kind):
        wanted = _in_words(kind)
    elif name.startswith(_COUNTS) and isinstance(value, numbers.Real) and value < 1:
        wanted = "at least 1"
    if wanted:
        shown = repr(value)
        shown = shown if len(shown) <= _LONGEST_VALUE else f"{shown[:_LONGEST_VALUE]}..."
        raise OptionsError(f"{name} of {function}() must be {wanted}, not {shown}", name)


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of an annotated kind; elements of what can be iterated only once are not looked at."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or isinstance(kind, TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in args)
    if origin is typing.Literal:
        return any(type(value) is type(choice) and value == choice for choice in args)
    if origin is Callable:
        return callable(value)
    if origin is tuple and Ellipsis not in args:
        return isinstance(value, tuple | list) and len(value) == len(args) and all(map(_fits, value, args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_value = args
        is_mapping = isinstance(value, Mapping)
        return is_mapping and all(_fits(key, of_key) and _fits(each, of_value) for key, each in value.items())
    if isinstance(origin, type) and origin is not PathLike and issubclass(origin, Iterable):
        is_list = isinstance(value, origin) and not isinstance(value, str | bytes)
        return is_list and (not isinstance(value, Sequence) or all(_fits(each, args[0]) for each in value))
    return _is_a(value, origin or kind)


def _is_a(value: Any, kind: type) -> bool:
    is_switch = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if kind is bool:
        return is_switch
    if kind is int:
        return isinstance(value, numbers.Integral) and not is_switch
    if kind is float:
        return isinstance(value, numbers.Real) and not is_switch and not math.isnan(value)
    if isinstance(kind, _Named):
        if any(each.__name__ == kind.__name__ for each in type(value).__mro__):
            return True
        real = _imported(kind.home, kind.__name__)
        return real is not None and _fits(value, real)
    return isinstance(value, kind)


def _in_words(kind: Any) -> str:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        words = dict.fromkeys(_in_words(each) for each in args)
        if "a path" in words:
            words.pop(_WORDS[str], None)
        return " or ".join(words)
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin is PathLike:
        return "a path"
    if origin is Callable:
        return "a function"
    if origin is tuple:
        return f"({', '.join(map(_in_words, args))})"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a dict of {_in_words(args[0])} to {_in_words(args[1])}"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"a list with {_in_words(args[0])} each"
    if isinstance(kind, _Named) and (real := _imported(kind.home, kind.__name__)) is not None:
        return _in_words(real)
    name = getattr(kind, "__name__", str(kind))
    return _WORDS.get(kind) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"
