"""Checks of option values: each returns the value in its final form, or raises an OptionsError."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npuprof.errors import OptionsError
from npuprof.words.texts import encodable

_MAX_NAME = 100
_MAX_WORD = 255  # accepted by the native collectors for a domain or an operator
_MAX_CUSTOM_EVENTS = 8
_CUSTOM = re.compile(r"Custom:(0x[0-9a-fA-F]{1,4}(?:,0x[0-9a-fA-F]{1,4})*)")


def listed(values: Iterable[object]) -> str:
    """Join values into a list for a message."""
    return ", ".join(str(value) for value in values)


def one_of(option: str, value: Any, allowed: tuple[object, ...]) -> Any:
    """Return a value that is among the allowed values."""
    if value not in allowed:
        raise OptionsError(f"{option} must be one of {listed(allowed)}, not {value!r}")
    return value


def level(option: str, value: object, allowed: tuple[str | int, ...]) -> str | int:
    """Return a level, also given as text."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or value not in allowed:
        raise OptionsError(f"{option} must be one of {listed(allowed)}, not {value!r}")
    return value


def metrics(option: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """Return a metric group, or ``Custom:`` with at most eight event numbers."""
    if isinstance(value, str) and (custom := _CUSTOM.fullmatch(value)):
        if len(custom[1].split(",")) <= _MAX_CUSTOM_EVENTS:
            return value
        raise OptionsError(f"{option} counts at most {_MAX_CUSTOM_EVENTS} custom events, not {value!r}")
    if value not in allowed:
        raise OptionsError(
            f"{option} must be one of {listed(allowed)}, or Custom: with event numbers (Custom:0x8,0xa), not {value!r}"
        )
    return value


def subset(option: str, values: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of ``"cpu,npu"`` or an iterable, once each and in the order of `allowed`."""
    chosen = _split(option, values)
    for word in chosen:
        if word not in allowed:
            raise OptionsError(f"{option} takes any of {listed(allowed)}, not {word!r}")
    return tuple(word for word in allowed if word in chosen)


def words(option: str, values: object) -> tuple[str, ...]:
    """Return the words in ``"a,b"`` or an iterable."""
    chosen = _split(option, values)
    for word in chosen:
        if not isinstance(word, str) or not 0 < len(word.encode(errors="replace")) <= _MAX_WORD:
            raise OptionsError(f"{option} takes words of 1 to {_MAX_WORD} bytes, not {word!r}")
    return tuple(dict.fromkeys(map(encodable, chosen)))


def device_ids(option: str, values: object) -> tuple[int, ...]:
    """Return the device ids in ``"0,1"`` or an iterable."""
    chosen = _split(option, values)
    ids = []
    for word in chosen:
        text = str(word)
        if isinstance(word, bool) or not text.isascii() or not text.isdecimal():
            raise OptionsError(f"{option} takes the ids of devices, such as 0,1, not {word!r}")
        ids.append(int(text))
    return tuple(dict.fromkeys(ids))


def _split(option: str, values: object) -> list[Any]:
    if isinstance(values, str):
        return [word.strip() for word in values.split(",") if word.strip()]
    if not isinstance(values, Iterable):
        raise OptionsError(f"{option} takes a list, or words joined by commas, not {values!r}")
    return list(values)


def flag(option: str, value: object) -> bool:
    """Return a bool; the text "off" would be true."""
    if not isinstance(value, bool):
        raise OptionsError(f"{option} must be True or False, not {value!r}")
    return value


def whole_number(option: str, value: object, least: int, limit: int, unit: str) -> int | None:
    """Return None or a whole number within bounds."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
        raise OptionsError(f"{option} must be a whole number of {unit} from {least} to {limit}, not {value!r}")
    return value


def at_least_zero(option: str, value: object) -> float | None:
    """Return None or a number of at least 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise OptionsError(f"{option} must be a number of milliseconds of at least 0, not {value!r}")
    return value


def operator_name(option: str, value: object) -> str:
    """Return the name of an operator; empty to let the front end choose."""
    if not isinstance(value, str) or len(value) > _MAX_WORD or not value.isprintable():
        raise OptionsError(f"{option} must be the name of an operator, or empty, not {value!r}")
    return value


def path(option: str, value: object) -> Path:
    """Return the path of a directory."""
    if not isinstance(value, (str, Path)) or "\0" in str(value) or not str(value):
        raise OptionsError(f"{option} must be the path of a directory, not {value!r}")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise OptionsError(f"{option} must be a path that this system can have ({error}), not {value!r}") from None
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise OptionsError(f"{option} is in the home directory of a user that this system lacks: {value!r}") from None


def name(option: str, value: object) -> str:
    """Return a name that can be part of a file name."""
    if not isinstance(value, str) or len(value) > _MAX_NAME or re.search(r"[\x00-\x1f/\\]", value):
        raise OptionsError(
            f"{option} must be up to {_MAX_NAME} characters without slashes or control characters, not {value!r}"
        )
    return encodable(value.strip())
