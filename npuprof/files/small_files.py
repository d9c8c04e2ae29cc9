"""Small untrusted JSON files: their size and the types of their fields are checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from npuprof.words.texts import repaired_json

_CONTAINER_BYTES, _VALUE_BYTES = 72, 40  # memory that one or two bytes of text may take
_MAX_DECODED = 256 << 20
_WHOLE = range(-(1 << 63), 1 << 63)


def read_json(path: Path, max_bytes: int) -> Any:
    """Read a JSON file."""
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"it is larger than {max_bytes >> 20} MiB")
    return decode(content)


def decode(content: bytes) -> Any:
    """Decode the text of a small JSON file; invalid UTF-8 and lone surrogates are replaced."""
    if _CONTAINER_BYTES * sum(map(content.count, (b"[", b"{"))) + _VALUE_BYTES * content.count(b",") > _MAX_DECODED:
        raise ValueError(f"it holds more values than fit into {_MAX_DECODED >> 20} MiB")
    try:
        return json.loads(repaired_json(content).decode().removeprefix("\ufeff"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_fields(kind: type[Any], plain: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Convert JSON values to the fields of a dataclass or Struct of the same names; unknown names are ignored.

    Returns
    -------
    values
        The fields whose value has the right type.
    problems
        The damaged fields, with reasons.
    """
    types = _types(kind)  # type: ignore[arg-type]  # every class can be hashed
    values: dict[str, Any] = {}
    problems = []
    for name in (name for name in types if name in plain):
        try:
            values[name] = convert(plain[name], types[name])
        except ValueError as error:
            problems.append(f"{name} is damaged ({error})")
    return values, problems


@cache
def _types(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def convert(plain: Any, kind: Any) -> Any:
    """Convert a JSON value to a type."""
    try:
        value = msgspec.convert(plain, kind, dec_hook=_path)
    except msgspec.ValidationError as error:  # a ValueError in newer versions only
        raise ValueError(str(error)) from None
    if Any not in get_args(kind) and any(number not in _WHOLE for number in _numbers(value)):
        raise ValueError("a number does not fit into 64 bits")
    return value


def _path(kind: type[Any], value: Any) -> Any:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"expected {kind.__name__}")


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, dict):
        yield from _numbers(list(value.values()))
