"""What a single option may hold: each check gives the value in its final form, or says what is allowed."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npuprof.errors import OptionsError
from npuprof.texts import encodable

_MAX_NAME = 100
_MAX_WORD = 255  # what the native collectors take for a domain or an operator
_MAX_CUSTOM_EVENTS = 8
_CUSTOM = re.compile(r"Custom:(0x[0-9a-fA-F]{1,4}(?:,0x[0-9a-fA-F]{1,4})*)")


def listed(values: Iterable[object]) -> str:
    """Join values for a message."""
    return ", ".join(str(value) for value in values)


def one_of(option: str, value: Any, allowed: tuple[object, ...]) -> Any:
    """Refuse what is not among the allowed values."""
    if value not in allowed:
        raise OptionsError(f"{option} must be one of {listed(allowed)}, not {value!r}")
    return value


def level(option: str, value: object, allowed: tuple[str | int, ...]) -> str | int:
    """Take a level, also as the text that a command line gives."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or value not in allowed:
        raise OptionsError(f"{option} must be one of {listed(allowed)}, not {value!r}")
    return value


def metrics(option: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """Refuse what is neither a metric group nor ``Custom:`` with at most eight event numbers."""
    if isinstance(value, str) and (custom := _CUSTOM.fullmatch(value)):
        if len(custom[1].split(",")) <= _MAX_CUSTOM_EVENTS:
            return value
        raise OptionsError(f"{option} counts at most {_MAX_CUSTOM_EVENTS} events of one's own, not {value!r}")
    if value not in allowed:
        raise OptionsError(
            f"{option} must be one of {listed(allowed)}, or Custom: with event numbers (Custom:0x8,0xa), not {value!r}"
        )
    return value


def subset(option: str, values: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Take ``"cpu,npu"`` or an iterable of words; keep the order of `allowed`, once each."""
    chosen = _split(option, values)
    for word in chosen:
        if word not in allowed:
            raise OptionsError(f"{option} takes any of {listed(allowed)}, not {word!r}")
    return tuple(word for word in allowed if word in chosen)


def words(option: str, values: object) -> tuple[str, ...]:
    """Take ``"a,b"`` or an iterable of words of the user's own."""
    chosen = _split(option, values)
    for word in chosen:
        if not isinstance(word, str) or not 0 < len(word.encode(errors="replace")) <= _MAX_WORD:
            raise OptionsError(f"{option} takes words of 1 to {_MAX_WORD} bytes, not {word!r}")
    return tuple(dict.fromkeys(map(encodable, chosen)))


def device_ids(option: str, values: object) -> tuple[int, ...]:
    """Take ``"0,1"`` or an iterable of device ids."""
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
    """Refuse what is not a truth value: a word such as "off" would be true."""
    if not isinstance(value, bool):
        raise OptionsError(f"{option} must be True or False, not {value!r}")
    return value


def whole_number(option: str, value: object, least: int, most: int, unit: str) -> int | None:
    """Refuse what is neither None nor a whole number within bounds."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise OptionsError(f"{option} must be a whole number of {unit} from {least} to {most}, not {value!r}")
    return value


def at_least_zero(option: str, value: object) -> float | None:
    """Refuse what is neither None nor a number of at least 0."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise OptionsError(f"{option} must be a number of milliseconds of at least 0, not {value!r}")
    return value


def operator_name(option: str, value: object) -> str:
    """Refuse what cannot be the name of an operator; an empty one lets the front end choose."""
    if not isinstance(value, str) or len(value) > _MAX_WORD or not value.isprintable():
        raise OptionsError(f"{option} must be the name of an operator, or empty, not {value!r}")
    return value


def path(option: str, value: object) -> Path:
    """Take the path of a directory."""
    if not isinstance(value, (str, Path)) or "\0" in str(value) or not str(value):
        raise OptionsError(f"{option} must be the path of a directory, not {value!r}")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise OptionsError(f"{option} must be a path that this system can have ({error}), not {value!r}") from None
    return Path(value).expanduser()


def name(option: str, value: object) -> str:
    """Take a name that can be part of a file's."""
    if not isinstance(value, str) or len(value) > _MAX_NAME or re.search(r"[\x00-\x1f/\\]", value):
        raise OptionsError(
            f"{option} must be up to {_MAX_NAME} characters without slashes or control characters, not {value!r}"
        )
    return encodable(value.strip())
