"""Regular expressions typed by users, in bounded time: RE2, which does not backtrack."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npuprof.errors import OptionsError
from npuprof.words.texts import encodable

_LONGEST_PATTERN = 1000
_LONGEST_NAME = 1000  # characters of a name that are searched
_NAMES_AT_ONCE = 64
_MOST_SECONDS = 5.0


def contains(names: Sequence[object], text: str, *, regex: bool = False) -> npt.NDArray[np.bool_]:
    """Return a mask of the names that contain a text, in any case, or match a pattern."""
    if regex:
        return contains_pattern(names, text)
    folded = text.upper()
    return np.array([isinstance(name, str) and folded in name.upper() for name in names], bool)


def contains_pattern(names: Sequence[object], pattern: str, *, ignore_case: bool = True) -> npt.NDArray[np.bool_]:
    r"""Return a mask of the names that contain a match of a regular expression; other values than texts contain none.

    Parameters
    ----------
    pattern
        The expression. RE2 lacks the features of Python's expressions that need backtracking: ``(?=...)`` and ``\1``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(pattern) > _LONGEST_PATTERN:
        raise OptionsError(
            f"the regular expression has {len(pattern):,} characters; at most {_LONGEST_PATTERN:,} are allowed"
        )
    texts = [encodable(name[:_LONGEST_NAME]) if isinstance(name, str) else None for name in names] or [None]
    is_match = np.zeros(len(texts), bool)
    began_s = time.thread_time()
    for at in range(0, len(texts), _NAMES_AT_ONCE):
        if time.thread_time() - began_s > _MOST_SECONDS:
            raise OptionsError(f"the regular expression {pattern!r} takes too long: search for something simpler")
        part = slice(at, at + _NAMES_AT_ONCE)
        try:
            matches = pc.match_substring_regex(pa.array(texts[part], pa.string()), pattern, ignore_case=ignore_case)
        except (pa.ArrowInvalid, UnicodeEncodeError) as error:
            problem = str(error).removeprefix("Invalid regular expression: ")
            raise OptionsError(f"the regular expression {pattern!r} cannot be read: {problem}") from None
        is_match[part] = matches.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return is_match[: len(names)]
