"""Answers of a profile that both figures and invariants ask for, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pandas as pd

from npuprof.analysis.by import Key
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet

_Answer = TypeVar("_Answer", bound=Callable[..., pd.DataFrame])


def _once(answer: _Answer) -> _Answer:
    known: WeakKeyDictionary[Any, dict[tuple[Any, ...], pd.DataFrame]] = WeakKeyDictionary()

    @wraps(answer)
    def asked(run: Any, *arguments: Any) -> pd.DataFrame:
        answers = known.setdefault(run, {})
        if arguments not in answers:
            answers[arguments] = answer(run, *arguments)
        return answers[arguments]

    return asked  # type: ignore[return-value]


@_once
def by(run: Profile | ProfileSet, key: Key) -> pd.DataFrame:
    """Return ``run.by(key)``."""
    return run.by(key)


@_once
def breakdown(run: Profile | ProfileSet) -> pd.DataFrame:
    """Return ``run.breakdown()``."""
    return run.breakdown()


@_once
def memory_peak(run: Profile) -> pd.DataFrame:
    """Return ``run.memory_peak()``."""
    return run.memory_peak()
