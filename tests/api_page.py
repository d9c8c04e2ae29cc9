"""The page of what is public, made from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import npuprof
from npuprof import simulator
from npuprof.advice.finding import Finding
from npuprof.advice.findings import Advice
from npuprof.ranks.overview import Overview
from npuprof.tables.schema import SCHEMA

_HEAD = """# Names

What is public: functions of `npuprof`, and what runs, sets, differences, findings and sessions have, with what their
results hold. `npuprof.load?` in a notebook shows the parameters too. Tables are in [tables](tables.md), options in
[options](options.md), errors in [errors](errors.md), words in [glossary](glossary.md). This page is written by
`python -m tests.reference_pages` from the docstrings.
"""
_CLASSES = (
    (npuprof.Profile, "run", "A run: what `npuprof.load`, `npuprof.last` and `session.result` return."),
    (npuprof.ProfileSet, "runs", "The runs of many ranks: what `npuprof.load_set` returns."),
    (npuprof.Comparison, "difference", "What `a - b` and `npuprof.compare` return."),
    (Advice, "advice", "What `run.advice()` and `runs.advice()` return."),
    (Finding, "finding", "One of the findings of `advice`."),
    (Overview, "overview", "What `runs.overview()` returns."),
    (npuprof.Session, "session", "What `npuprof.profile` returns, for a `with` block or start and stop."),
)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?([\w()]+)`")
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def api_page() -> str:
    """Return the page in Markdown."""
    parts = [_HEAD, *_functions()]
    for of, name, title in _CLASSES:
        parts += [f"\n## `{name}`: {of.__name__}\n\n{title}\n", *_members(of, name)]
    return "".join(parts)


def public_members(of: type) -> list[str]:
    """Return the names of the methods and properties of a class that are public, tables left out."""
    return [name for name in dir(of) if not name.startswith("_") and name not in SCHEMA and not _is_of_a_base(of, name)]


def _is_of_a_base(of: type, name: str) -> bool:
    return any(name in vars(base) for base in of.__mro__ if not base.__module__.startswith("npuprof"))


def _functions() -> Iterator[str]:
    yield "\n## `npuprof`\n\n"
    for name in sorted(npuprof.__all__, key=str.lower):
        value = getattr(npuprof, name)
        if name[0].islower() and not inspect.ismodule(value) and not name.endswith("load_ipython_extension"):
            yield from _entry(f"npuprof.{name}", value)
    yield "\n## `npuprof.simulator`\n\n"
    for name in sorted(simulator.__all__):
        yield from _entry(f"simulator.{name}", getattr(simulator, name))


def _members(of: type, shown: str) -> Iterator[str]:
    attributes = {name: meaning for base in reversed(of.__mro__) for name, meaning in _attributes(base)}
    yield "\n"
    for name in sorted({*public_members(of), *attributes}):
        value = inspect.getattr_static(of, name, None)
        if isinstance(value, property | cached_property) or inspect.isroutine(value):
            yield from _entry(f"{shown}.{name}", getattr(of, name) if inspect.isroutine(value) else value)
        elif name in attributes:
            returned = _markdown(_returned_elsewhere(attributes[name]))
            yield f"- `{shown}.{name}`: {_markdown(attributes[name])}{f' {returned}' if returned else ''}\n"


def _attributes(of: type) -> Iterator[tuple[str, str]]:
    """Yield what a class says of its attributes."""
    listed = _sections(inspect.cleandoc(of.__doc__ or ""))[1].get("Attributes", "")
    for names, meaning in re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?|\n)+)", listed, re.MULTILINE):
        yield from ((name, meaning) for name in names.split(", "))


def _entry(name: str, value: Any) -> Iterator[str]:
    documented = inspect.getdoc(value) or ""
    summary, sections = _sections(documented)
    returned = sections.get("Returns") or _returned_elsewhere(documented)
    summary = re.sub(r"[;:]? see :\w+:`[^`]*`", "", summary)  # what is public stands on this page
    yield f"- `{name}{_signature(value)}`: {_markdown(summary)}"
    yield f" {_markdown(returned)}\n" if returned else "\n"


def _returned_elsewhere(documented: str) -> str:
    """Return what the method that a docstring refers to says of its result."""
    for home, name in re.findall(r"[Ss]ee\s+:meth:`~?(?:npuprof[\w.]*\.)?(\w+)\.(\w+)`", documented):
        of = getattr(getattr(npuprof, home, None), name, None)
        own = inspect.getdoc(of) or ""
        return _sections(own)[1].get("Returns", "") or _returned_elsewhere(own)
    return ""


def _signature(value: Any) -> str:
    if not callable(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "()"
    bare = [
        one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values() if one.name != "self"
    ]
    return re.sub(r"<[^>]*>", "...", str(inspect.Signature(bare)))


def _sections(documented: str) -> tuple[str, dict[str, str]]:
    """Return the first paragraph of a docstring, and its sections by title."""
    parts = _SECTION.split(documented)
    return parts[0].partition("\n\n")[0], dict(zip(parts[1::2], parts[2::2], strict=True))


def _markdown(text: str) -> str:
    """Return a part of a docstring as one line of Markdown."""
    if re.match(r"[\w.]+(?:\[.*\])?\n    ", text):  # the type of what is returned
        text = textwrap.dedent(text.partition("\n")[2])
    line = " ".join(text.split())
    line = re.sub(r":meth:`~?(?:npuprof[\w.]*\.)?Profile\.(\w+)`", r"`run.\1`", line)
    line = re.sub(r":meth:`~?(?:npuprof[\w.]*\.)?ProfileSet\.(\w+)`", r"`runs.\1`", line)
    return _ROLE.sub(r"`\1`", line).replace("``", "`")
