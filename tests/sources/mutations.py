"""Damage for the files of text results, and what a reader then lost without a word.

A mutation is a file's content as something made it worse: a full disk, a broken copy, an editor. What a run has less
of after it, with no warning more than before, is a silent loss; :func:`silent_losses` looks for them in a run. What
nothing can tell is not tried: a table that ends earlier with a whole row, unless another file counts its rows, and a
file that is gone, unless the run's options or the files beside it show that it was there.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pandas as pd

from npuprof.errors import NpuprofError
from npuprof.sources.base import Decoded, Preference
from npuprof.sources.decoding import decode_run
from npuprof.sources.detect import detect

_BLOCK_BYTES = 512
DELETED, WHOLE_ROWS = "deleted", "cut at the line end"
_DUE = re.compile(
    r"trace_view|kernel_details|step_trace_time|memory_record|operator_memory|communication(?!_group)|op_summary|op_statistic|"
    r"api_statistic|msprof_\d"
)
_COUNTED = {
    "kernel_details": "op_statistic",
    "op_summary": "op_statistic",
    "op_statistic": "kernel_details|op_summary",
    "api_statistic": "trace_view|msprof_\\d",
    "operator_details": "trace_view",
}  # by which other file
_MAY_BE_BLANK = {"Step", "Step Id", "Step ID", "Input Shapes", "Call Stack", "Custom Info"}
_OF_OTHERS = {"step", "op_id", "src_global_rank", "dst_global_rank"}  # columns that are made of another file's values
_OF_NAMES = {"unit"}  # what a name tells: a damaged letter makes another name of it, whose row is there
_NO_RESULT = {"FRAMEWORK", "data", "sqlite", "logs", "host"}


class Mutation(NamedTuple):
    """What was done to a file, and its content then; None where the file is gone."""

    name: str
    content: bytes | None


def mutations(content: bytes, random: Random | None = None, count: int = 1) -> Iterator[Mutation]:
    """Build mutations of a file, `count` of each kind: at the same places each time, or at random ones."""
    yield Mutation(DELETED, None)
    yield Mutation("emptied", b"")
    size = len(content)
    for place in _places(size, random, count):
        yield Mutation(f"cut at {place}", content[:place])
        end = content.rfind(b"\n", 0, place) + 1
        if end > content.find(b"\n") + 1:
            yield Mutation(f"{WHOLE_ROWS} before {place}", content[:end])
        block = slice(place, place + min(_BLOCK_BYTES, size // 3 + 1))
        zeros = b"\0" * len(content[block])
        yield Mutation(f"zeroed at {place}", content[: block.start] + zeros + content[block.stop :])
        yield Mutation(f"repeated at {place}", content[: block.stop] + content[block.start :])
    yield Mutation("without its last bytes", content.rstrip()[:-1])
    for place in _places(size, random, 2 * count):
        yield Mutation(f"without byte {place}", content[:place] + content[place + 1 :])
        bit = random.randrange(7) if random else 1
        flipped = bytes([content[place] ^ 1 << bit])
        yield Mutation(f"flipped at {place}", content[:place] + flipped + content[place + 1 :])
    yield from _of_cells(content, random, count)


def _places(size: int, random: Random | None, count: int) -> list[int]:
    """Return places in a file of a size, or among so many columns."""
    if random:
        return [random.randrange(size) for _ in range(count)] if size else []
    return sorted({size * (2 * number + 1) // (2 * count) for number in range(count)} & set(range(size)))


def _of_cells(content: bytes, random: Random | None, count: int) -> Iterator[Mutation]:
    """Iterate over renamed columns and blanked cells of a CSV file; nothing for another."""
    text = content.decode("utf-8", "replace")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if content.lstrip().startswith((b"{", b"[")) or len(rows) < 2 or len(rows[0]) < 2:
        return
    end = "\r\n" if "\r\n" in text else "\n"
    for column in _places(len(rows[0]), random, 2 * count):
        name = rows[0][column]
        head = [*rows[0][:column], f"{name[:2]}{name[2:].swapcase()[::-1]}", *rows[0][column + 1 :]]
        yield Mutation(f"column {name!r} renamed", _written([head, *rows[1:]], end))
        full = [place for place, row in enumerate(rows) if len(row) > column and row[column].strip() not in ("", "N/A")]
        alone = len(rows) == 2 and name.startswith(("Total", "Stream"))
        if len(full) == len(rows) and name not in _MAY_BE_BLANK and not alone:  # others may be blank
            place = random.choice(full[1:]) if random else full[len(full) // 2]
            blank = [*rows[place][:column], "", *rows[place][column + 1 :]]
            changed = _written([*rows[:place], blank, *rows[place + 1 :]], end)
            yield Mutation(f"cell of {name!r} in row {place} blank", changed)


def _written(rows: list[list[str]], end: str) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end).writerows(rows)
    return out.getvalue().encode()


class Mutated:
    """A copy of a run, of which one file after another is damaged and mended.

    Of files that are alike, such as those of ten iterations, it holds the first and the last.

    Parameters
    ----------
    path
        The run: a directory or one file.
    folder
        Where to copy it.
    preferred
        The form of it to read.
    """

    def __init__(self, path: Path, folder: Path, preferred: Preference = None) -> None:
        self.root, self.preferred = folder / path.name, preferred
        if path.is_dir():
            shutil.copytree(path, self.root)
        else:
            shutil.copy(path, self.root)
        for file in _alike(self.files()):
            file.unlink()
        self.whole = load(self.root, preferred)

    def files(self) -> list[Path]:
        """List the text files, by name."""
        if self.root.is_file():
            return [self.root]
        return sorted(
            path
            for path in self.root.rglob("*")
            if path.suffix in (".csv", ".json", ".txt") and path.stat().st_size and _NO_RESULT.isdisjoint(path.parts)
        )

    def is_knowable(self, path: Path, mutation: Mutation) -> bool:
        """Check whether the rest of the run can show what a mutation took."""
        if mutation.name == DELETED:
            return path != self.root and _DUE.match(path.name) is not None
        if not mutation.name.startswith(WHOLE_ROWS):
            return True
        counting = next((by for name, by in _COUNTED.items() if path.name.startswith(name)), None)
        return counting is not None and any(re.match(counting, file.name) for file in self.files())

    def silent_loss(self, path: Path, mutation: Mutation) -> list[str]:
        """Return what the run lost by a mutation of one of its files with no warning more than before."""
        content = path.read_bytes()
        path.chmod(0o600)
        try:
            if mutation.content is None:
                path.unlink()
            else:
                path.write_bytes(mutation.content)
            left = load(self.root, self.preferred)
        finally:
            path.write_bytes(content)
        if self.whole is None or left is None or warned_more(self.whole, left):
            return []
        # A CSV file holds no intervals of `overlap`: those are made of rows, which a digit of a time may move together.
        return [loss for loss in lost(self.whole, left) if path.suffix != ".csv" or not loss.startswith("overlap")]


def silent_losses(
    path: Path,
    folder: Path,
    random: Random | None = None,
    count: int = 1,
    names: str = "",
    preferred: Preference = None,
) -> list[str]:
    """Try mutations of each file of a run, which is copied into a folder; return what was lost in silence.

    Parameters
    ----------
    path, folder
        The run, and where to copy it.
    random, count
        As for :func:`mutations`.
    names
        A pattern for the names of the files; all by default.
    preferred
        The form of the run to read.
    """
    run = Mutated(path, folder, preferred)
    return [
        f"{file.relative_to(folder)}, {mutation.name}: {', '.join(loss)}"
        for file in run.files()
        if re.match(names, file.name)
        for mutation in mutations(file.read_bytes(), random, count)
        if run.is_knowable(file, mutation) and (loss := run.silent_loss(file, mutation))
    ]


def _alike(files: list[Path]) -> list[Path]:
    """List files between the first and the last whose names differ in numbers: those of a device's iterations."""
    kinds: dict[str, list[Path]] = {}
    for file in files:
        kinds.setdefault(re.sub(r"\d+", "0", str(file)), []).append(file)
    return [file for alike in kinds.values() for file in alike[1:-1]]


def load(path: Path, preferred: Preference = None) -> Decoded | None:
    """Read a run; None where an error tells that it cannot be read."""
    try:
        return decode_run(detect(path, preferred).results[0])
    except NpuprofError:
        return None


def warned_more(before: Decoded, after: Decoded) -> bool:
    """Check whether a warning or error is there that was not, or counts more."""
    return bool(_warnings(after) - _warnings(before))


def _warnings(decoded: Decoded) -> Counter[tuple[str, str]]:
    notes = decoded.notes.to_frame()
    told = notes.loc[notes["severity"] != "info", ["source", "message", "count"]]
    return Counter({(source, message): count for source, message, count in told.itertuples(index=False)})


def lost(before: Decoded, after: Decoded) -> list[str]:
    """Return which tables and statistics have fewer rows, or fewer values in a column, than before."""
    found = []
    now = {**after.tables, **after.statistics}
    for name, frame in {**before.tables, **before.statistics}.items():
        if len(now.get(name, ())) < len(frame):
            found.append(f"{name} has {len(now.get(name, ()))} of {len(frame)} rows")
        elif len(frame):
            found += [f"{name}.{column}" for column in _lost_columns(frame, now[name])]
    return found


def _lost_columns(before: pd.DataFrame, after: pd.DataFrame) -> Iterator[str]:
    counts = after.notna().sum()
    renamed = [int(counts[column]) for column in after.columns if column not in before.columns]
    for column, values in before.notna().sum().items():
        if not values or column in _OF_OTHERS or column in _OF_NAMES:
            continue
        if column in counts.index:
            if counts[column] < values:
                yield f"{column} has {counts[column]} of {values} values"
        elif not any(count >= values for count in renamed):
            yield f"{column} is gone with its {values} values"
