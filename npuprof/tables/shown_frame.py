"""A table that shows absent values as dashes, and errors of shares with ±; its values stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from npuprof.words.quantities import ABSENT
from npuprof.words.texts import plain_lines

_ERRORS = ("share_error",)


class ShownFrame(pd.DataFrame):
    """A DataFrame whose text and HTML have dashes for absent values, as have those that are made of it."""

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return ShownFrame

    def __repr__(self) -> str:
        return plain_lines(repr(self._as_shown()))

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> Any:
        shown: Any = self._as_shown()
        return shown._repr_html_()

    def _as_shown(self) -> pd.DataFrame:
        plain = pd.DataFrame(self)
        return plain.assign(**{name: _shown(plain[name]) for name in plain if _is_changed(plain, name)})


def _is_changed(frame: pd.DataFrame, name: Any) -> bool:
    column = frame[name]  # several of one name are left as they are
    return isinstance(name, str) and column.ndim == 1 and (name in _ERRORS or bool(column.isna().any()))


def _shown(column: pd.Series[Any]) -> pd.Series[Any]:
    texts: pd.Series[Any] = column.astype(object)
    if column.name in _ERRORS:
        texts = texts.map(lambda error: f"± {error:.3f}" if error else ABSENT)
    return texts.where(column.notna(), ABSENT)
