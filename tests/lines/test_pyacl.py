"""Stacks of pyACL's calls, on modules that stand for pyACL's."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from npuprof.lines import call_stacks, pyacl


@pytest.fixture
def acl(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a package with functions that return what they were given."""
    package = ModuleType("acl")
    for name in ("op", "rt", "mdl", "prof"):
        module = ModuleType(f"acl.{name}")
        module.__dict__.update(execute=lambda *args, **kwargs: (args, kwargs), _hidden=print, SIZE=3)
        setattr(package, name, module)
        monkeypatch.setitem(sys.modules, f"acl.{name}", module)
    monkeypatch.setitem(sys.modules, "acl", package)
    return package


def test_calls_are_followed_until_the_end(acl: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: dict(vars(getattr(acl, name))) for name in ("op", "rt", "mdl", "prof")}
    stacks = call_stacks.CallStacks()
    monkeypatch.setattr(call_stacks, "current", stacks)
    put_back = pyacl.follow()
    assert acl.op.execute(1, x=2) == ((1,), {"x": 2})
    assert acl.rt.execute() == ((), {})
    assert acl.prof.execute is before["prof"]["execute"]
    put_back()
    assert {name: dict(vars(getattr(acl, name))) for name in before} == before
    acl.op.execute()
    assert len(stacks.calls) == 2 * call_stacks.TAKEN
    functions = [stacks.lines[number].function for number in stacks.stacks[stacks.calls[2]]]
    assert functions[:2] == ["called", "test_calls_are_followed_until_the_end"]


def test_what_the_user_has_replaced_meanwhile_stays(acl: ModuleType) -> None:
    put_back = pyacl.follow()
    acl.op.execute = mine = lambda: 3
    put_back()
    assert acl.op.execute is mine


def test_without_pyacl_nothing_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "acl", raising=False)
    pyacl.follow()()


def test_an_error_of_a_call_is_its_own(acl: ModuleType) -> None:
    def fail() -> None:
        raise ValueError("507899")

    acl.rt.fail = fail
    put_back = pyacl.follow()
    with pytest.raises(ValueError, match="507899"):
        acl.rt.fail()
    put_back()
