"""Damage to the files of a result: drawn by Hypothesis, applied the same way again, stored as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hypothesis import strategies as st

KINDS = ("cut", "drop", "flip", "zero", "repeat", "insert", "number", "empty", "delete", "swap")
_WORDS = (
    *(b"", b"\n", b",", b'"', b"{", b"]", b"NaN", b"-1", b"1e309", b"9" * 20, b"4294967295", b"N/A", b"null"),
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b]0;x\x07", b"<script>", "\u202e".encode(), b"../../x", b"=cmd()"),
)
_SCALE = 10_000  # places are shares of a file's length, so that they fit every file


@dataclass(frozen=True)
class Mutation:
    """One damage.

    Attributes
    ----------
    kind
        One of :data:`KINDS`.
    file
        Which file, by its place among the sorted ones, modulo their number.
    place, length
        Where and how much, in ten thousandths of the file.
    value
        The byte that is written, the word that is inserted, or the other file of a swap.
    """

    kind: str
    file: int
    place: int
    length: int
    value: int


_DAMAGE = st.builds(
    Mutation,
    kind=st.sampled_from(KINDS),
    file=st.integers(0, 63),
    place=st.integers(0, _SCALE),
    length=st.integers(0, _SCALE // 4) | st.integers(0, 20),
    value=st.integers(0, 255),
)
MUTATIONS = st.lists(_DAMAGE, min_size=1, max_size=3).map(tuple)
"""One to three damages."""


def to_json(mutations: tuple[Mutation, ...]) -> str:
    """Return the damages as one line of JSON."""
    return json.dumps([asdict(one) for one in mutations])


def from_json(text: str) -> tuple[Mutation, ...]:
    """Return the damages that :func:`to_json` wrote."""
    return tuple(Mutation(**one) for one in json.loads(text))


def files_of(folder: Path) -> list[Path]:
    """Return the files below a folder in the order by which damages name them."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def apply(folder: Path, mutations: tuple[Mutation, ...]) -> None:
    """Damage the files below a folder."""
    for mutation in mutations:
        files = files_of(folder)
        if files:
            _damage(files[mutation.file % len(files)], files, mutation)


def _damage(path: Path, files: list[Path], mutation: Mutation) -> None:
    if mutation.kind == "delete":
        path.unlink()
        return
    if mutation.kind == "swap":
        other = files[mutation.value % len(files)]
        one, two = path.read_bytes(), other.read_bytes()
        path.write_bytes(two)
        other.write_bytes(one)
        return
    path.write_bytes(_bytes(path.read_bytes(), mutation))


def _bytes(content: bytes, mutation: Mutation) -> bytes:
    start = len(content) * mutation.place // _SCALE
    end = min(len(content), start + max(1, len(content) * mutation.length // _SCALE))
    word = _WORDS[mutation.value % len(_WORDS)]
    if mutation.kind == "cut":
        return content[:start]
    if mutation.kind == "drop":
        return content[:start] + content[end:]
    if mutation.kind == "flip":
        return content[:start] + bytes([mutation.value]) + content[start + 1 :]
    if mutation.kind == "zero":
        return content[:start] + bytes(end - start) + content[end:]
    if mutation.kind == "repeat":
        return content[:end] + content[start:end] + content[end:]
    if mutation.kind == "insert":
        return content[:start] + word + content[start:]
    if mutation.kind == "number":
        return _with_number(content, start, word)
    return b""


def _with_number(content: bytes, start: int, word: bytes) -> bytes:
    """Replace the next run of digits by a word."""
    begin = next((at for at in range(start, len(content)) if content[at : at + 1].isdigit()), len(content))
    end = next((at for at in range(begin, len(content)) if not content[at : at + 1].isdigit()), len(content))
    return content[:begin] + word + content[end:]


def is_untold(sound: Path, damaged: Path) -> bool:
    """Return whether damage only left files that their writer could have written, without some rows.

    Nothing tells that a file is gone, that a text table lost whole rows, or JSON whole entries, unless another file
    says what there was.
    """
    return all(_is_sound(path, damaged / path.relative_to(sound)) for path in files_of(sound))


def _is_sound(path: Path, damaged: Path) -> bool:
    if not damaged.is_file():
        return True
    before, after = path.read_bytes(), damaged.read_bytes()
    if before == after:
        return True
    if path.suffix == ".json":
        try:
            json.loads(after)
        except ValueError:
            return False
        return True
    rows = set(after.splitlines(keepends=True))
    return path.suffix in (".csv", ".txt") and after.endswith(b"\n") and rows <= set(before.splitlines(keepends=True))
