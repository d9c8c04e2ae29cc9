"""Damage to the files of an input: drawn as bytes, applied in memory, applied the same way again from JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

KINDS = ("cut", "drop", "flip", "zero", "repeat", "insert", "number", "empty", "delete", "swap", "bit", "value")
_WORDS = (
    *(b"", b"\n", b",", b'"', b"{", b"]", b"NaN", b"-1", b"1e309", b"9" * 20, b"4294967295", b"N/A", b"null"),
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b]0;x\x07", b"<script>", "\u202e".encode(), b"../../x", b"=cmd()"),
    *(
        b"true",
        b"[]",
        b"{}",
        b'"x"',
        b"1.5",
        b"9" * 400,
        b"[" * 2000,
        b'"\\ud800"',
        b"\t",
        b"\r\n",
        b"9223372036854775808",
    ),
)
_SCALE = 1 << 16  # places are shares of a file's length, so that they fit every file
_SHORT = 192  # of 256 lengths; the others are shares of a file
_NUMBER = re.compile(rb"\d+")
_VALUE = re.compile(rb'(?<=[:\[,])\s*("(?:[^"\\\n]|\\.)*"|[^\s",\]}{\[]+)')

DRAWN_BYTES = 7
"""Of which one damage is made."""
MOST = 3
"""Damages of one input."""


@dataclass(frozen=True)
class Mutation:
    """One damage.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    file
        Which file, by its place among the sorted ones, modulo their number.
    place
        Where, as a share of the file in parts of 65,536.
    length
        How many bytes; from 192 on, how many 512th parts of the file.
    value
        The byte that is written, the word that is inserted, or the other file of a swap.
    """

    kind: str
    file: int
    place: int
    length: int
    value: int


def drawn(content: bytes) -> tuple[Mutation, ...]:
    """Return the damages that some drawn bytes stand for, of which each has :data:`DRAWN_BYTES`."""
    parts = (content[at : at + DRAWN_BYTES] for at in range(0, len(content) - DRAWN_BYTES + 1, DRAWN_BYTES))
    return tuple(
        Mutation(
            KINDS[part[0] % len(KINDS)], part[1], int.from_bytes(part[2:4], "big"), part[4], part[5] << 8 | part[6]
        )
        for part in parts
    )


def to_json(mutations: tuple[Mutation, ...]) -> str:
    """Return the damages as one line of JSON."""
    return json.dumps([asdict(one) for one in mutations])


def from_json(text: str) -> tuple[Mutation, ...]:
    """Return the damages that :func:`to_json` wrote."""
    return tuple(Mutation(**one) for one in json.loads(text))


def content_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, in the order by which damages name them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def damaged(files: Mapping[str, bytes], mutations: tuple[Mutation, ...]) -> dict[str, bytes]:
    """Return files with damage; one that is deleted is not among them."""
    after = dict(files)
    for mutation in mutations:
        if not after:
            break
        names = list(after)
        name = names[mutation.file % len(names)]
        if mutation.kind == "delete":
            del after[name]
        elif mutation.kind == "swap":
            other = names[mutation.value % len(names)]
            after[name], after[other] = after[other], after[name]
        else:
            after[name] = _bytes(after[name], mutation)
    return after


def write(folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> None:
    """Write the files below a folder that holds those of before."""
    for name in before.keys() | after.keys():
        content = after.get(name)
        if content is None:
            (folder / name).unlink()
        elif content != before.get(name):
            (folder / name).write_bytes(content)


def _bytes(content: bytes, mutation: Mutation) -> bytes:
    start = len(content) * mutation.place // _SCALE
    length = mutation.length if mutation.length < _SHORT else len(content) * (mutation.length - _SHORT) // 512
    end = min(len(content), start + max(1, length))
    word = _WORDS[mutation.value % len(_WORDS)]
    if mutation.kind == "cut":
        return content[:start]
    if mutation.kind == "drop":
        return content[:start] + content[end:]
    if mutation.kind == "flip":
        return content[:start] + bytes([mutation.value & 255]) + content[start + 1 :]
    if mutation.kind == "bit":
        return (
            content[:start]
            + bytes([one ^ (1 << mutation.value % 8) for one in content[start : start + 1]])
            + (content[start + 1 :])
        )
    if mutation.kind == "zero":
        return content[:start] + bytes(end - start) + content[end:]
    if mutation.kind == "repeat":
        return content[:end] + content[start:end] + content[end:]
    if mutation.kind == "insert":
        return content[:start] + word + content[start:]
    if mutation.kind in ("number", "value"):
        found = (_NUMBER if mutation.kind == "number" else _VALUE).search(content, start)
        return content[: found.start()] + word + content[found.end() :] if found else content
    return b""


def is_untold(name: str, before: bytes, after: bytes | None) -> bool:
    """Return whether damage only left a file that its writer could have written, without some rows.

    Nothing tells that a file is gone (None), that a text table lost whole rows (or as much as one has), or JSON whole
    entries, unless another file says what there was.
    """
    suffixes = PurePath(name).suffixes
    if after is None or (".json" in suffixes and _is_json(after)):
        return True
    if suffixes[-1:] not in ([".csv"], [".txt"]) or not after.endswith(b"\n"):
        return False
    rows, left = _rows(before), _rows(after)
    # Bytes that are gone with a line end may make one row of two.
    are_whole = len(left) < len(rows) and set(map(len, left)) <= set(map(len, rows))
    return set(left) <= set(rows) or are_whole


def _rows(content: bytes) -> list[tuple[str, ...]]:
    lines = io.StringIO(content.decode("latin-1"), newline="")
    try:
        return [tuple(row) for row in csv.reader(lines) if row]
    except csv.Error:
        return [(line,) for line in content.decode("latin-1").splitlines() if line]


def has_other_length(_name: str, before: bytes, after: bytes | None) -> bool:
    """Return whether bytes of a file are gone: a decoder alone cannot know how many records it had."""
    return after is None or len(before) != len(after)


def is_never_untold(_name: str, _before: bytes, _after: bytes | None) -> bool:
    """Return that everything is told: the input lists its own files."""
    return False


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True
