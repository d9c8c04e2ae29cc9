"""Files generated from the specification of the options: the types of ``**options``, and the reference page."""

from __future__ import annotations

from dataclasses import fields

from npuprof.options import SPECIFICATION, Options, lacks
from npuprof.options.specification import FRONT_ENDS

_TAKEN = {"tuple[str, ...]": "str | Iterable[str]", "tuple[int, ...]": "str | Iterable[int]", "Path": "str | Path"}
_KEYWORDS = '''"""The options as keyword arguments, written by ``python -m npuprof.options``."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict


class OptionValues(TypedDict, total=False):
    """The options by name, each with the types that it takes; :class:`npuprof.options.Options` explains them."""

'''
_PAGE = """# Options

What `%%npuprof`, `%npuprof start`, `npuprof run`, `npuprof.profile(...)` and `Options(...)` take: `memory_freq=20` in
Python is `--memory-freq 20` in a line, `memory=True` is `--memory` and `marks=False` is `--no-marks`. What a front end
does not have is refused before anything runs. This page is written by `python -m npuprof.options`.

| Option | Values | Default | Goes with | What it collects | Not with |
|---|---|---|---|---|---|
"""
_OF_CELLS = """
`%%npuprof` and `%npuprof start` also take what is no option of a session:

| argument | what it does |
|---|---|
| `--if-unavailable error` or `run` | What to do when the profiler cannot be started: refuse with an error (the default), or run the cell without it and say so. |
| `--no-report` | Collect without showing the report; `npuprof.last()` has the run. |
| `--saved-bytes BYTES` | How large the report may be in a saved notebook (default: 1000000). The explorer in it merges the shortest slices until it fits, and says how many; where nothing fits, pictures remain. |
| `--overhead` | Run the cell a second time, unprofiled and without its output, and show the cost of profiling in the report. For cells that may run twice. |
"""  # noqa: E501


def keywords() -> str:
    """Return the module of the types of ``**options``."""
    return _KEYWORDS + "".join(
        f"    {field.name}: {_TAKEN.get(str(field.type), field.type)}\n" for field in fields(Options)
    )


def page() -> str:
    """Return the reference of the options in Markdown."""
    return _PAGE + "".join(_row(name) for name in SPECIFICATION) + _OF_CELLS


def _row(name: str) -> str:
    option = SPECIFICATION[name]
    goes_with = [f"`{option.needs}`"] * bool(option.needs) + [f"activity {option.activity}"] * bool(option.activity)
    facts = [option.values or "on or off", option.shown_default, ", ".join(goes_with), option.help, _missing(name)]
    return f"| `{name}` | {' | '.join(facts)} |\n"


def _missing(name: str) -> str:
    reasons: dict[str, list[str]] = {}
    for front_end in FRONT_ENDS:
        if reason := lacks(front_end, name):
            reasons.setdefault(reason, []).append(front_end)
    for word, having in SPECIFICATION[name].only.items():
        reasons[f"`{word}` is not one of its values"] = [
            other for other in FRONT_ENDS if other not in having and not lacks(other, name)
        ]
    return "; ".join(f"{', '.join(lacking)}: {reason}" for reason, lacking in reasons.items())
