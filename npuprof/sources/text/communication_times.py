"""Read only the times of operators in ``communication.json``: thirty times as fast as the whole file.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from npuprof import tables
from npuprof.sources.columns.builders import Codebook, optional
from npuprof.sources.columns.decimals import US_TO_NS, scaled
from npuprof.sources.files.gzip_file import read_whole
from npuprof.sources.text.communication_json import MAX_BYTES, TOTAL

ELAPSED = "Elapse Time(ms)"
_START = "Start Timestamp(us)"
_WHERE = ("step", "kind", "name", "group")


class _Times(msgspec.Struct):
    start: msgspec.Raw = msgspec.field(name=_START, default=msgspec.Raw(b""))
    elapsed: msgspec.Raw = msgspec.field(name=ELAPSED, default=msgspec.Raw(b""))


class _Operator(msgspec.Struct):
    times: _Times = msgspec.field(name="Communication Time Info")


_DECODER = msgspec.json.Decoder(dict[str, dict[str, dict[str, _Operator]]])


def read_times(path: Path) -> pd.DataFrame | None:
    """Return step, kind, name, group, `start_ns` and duration of each operator, equal to a reading of the whole file.

    None for a file that deviates from the vendor's exact form: it must be read as a whole, which notes the damage.
    """
    try:
        content, problem = read_whole(path, MAX_BYTES)
        plain = _DECODER.decode(content) if not problem else {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    where: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
    times: list[_Times] = []
    for step, kinds in plain.items():
        for kind, operators in kinds.items():
            named = [(key, operator.times) for key, operator in operators.items() if key != TOTAL]
            times += [times_of for _, times_of in named]
            values = (step.removeprefix("step"), kind)
            where[0].extend(values[:1] * len(named))
            where[1].extend(values[1:] * len(named))
            for key, _ in named:
                name, _, group = key.partition("@")
                where[2].append(name)
                where[3].append(group)
    begun, lasted = _texts([times_of.start for times_of in times]), _texts([times_of.elapsed for times_of in times])
    if not times or begun is None or lasted is None:
        return None
    starts, sound = scaled(begun, US_TO_NS)
    if not sound.all() or not (starts > 0).all() or not all(lasted):
        return None
    columns: dict[str, Any] = {name: _encode(texts) for name, texts in zip(_WHERE, where, strict=True)}
    return pd.DataFrame({**columns, "start_ns": optional(starts), ELAPSED: pd.Series(lasted, dtype=object)})


def _texts(raws: list[msgspec.Raw]) -> list[str] | None:
    """Return the texts of values; None if one is more than a number."""
    texts = b"\n".join(raws).decode().split("\n")  # at once: there are thousands
    return texts if len(texts) == len(raws) else None


def _encode(texts: list[str]) -> pd.Categorical:
    book = Codebook()
    codes = book.codes(texts, len(texts))
    return tables.categorical(codes, book.values)
