"""Stacks of pyACL's calls: while a run collects, its functions that reach the device take the stack of their caller."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from npuprof.lines import call_stacks
from npuprof.lines.stamps import now

_GROUPS = ("op", "rt", "mdl")


def follow() -> Callable[[], None]:
    """Replace the functions of ``acl.op``, ``acl.rt`` and ``acl.mdl``; return the function that puts them back.

    What was imported from these modules by name before stays as it was, and so do all functions where pyACL is absent.
    """
    replaced: list[tuple[ModuleType, str, object, object]] = []
    acl = sys.modules.get("acl")
    for module in (getattr(acl, group, None) for group in _GROUPS):
        if not isinstance(module, ModuleType):
            continue
        for name, function in list(vars(module).items()):
            if callable(function) and not isinstance(function, type) and not name.startswith("_"):
                following = _following(function)
                setattr(module, name, following)
                replaced.append((module, name, function, following))

    def put_back() -> None:
        for module, name, function, following in replaced:
            if getattr(module, name, None) is following:
                setattr(module, name, function)

    return put_back


def _following(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        call_stacks.take(now())
        return function(*args, **kwargs)

    return called
