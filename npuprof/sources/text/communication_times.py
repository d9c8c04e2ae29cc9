"""Read when operators of ``communication.json`` ran, and nothing else: thirty times as quick as the whole file.

Source: sources/RESULTS.md section 4.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd

from npuprof.sources.columns.builders import optional
from npuprof.sources.columns.decimals import US_TO_NS, scaled
from npuprof.sources.files.gzip_file import read_whole
from npuprof.sources.text.communication_json import MAX_BYTES, TOTAL

ELAPSED = "Elapse Time(ms)"
_START = "Start Timestamp(us)"


class _Times(msgspec.Struct):
    start: msgspec.Raw = msgspec.field(name=_START, default=msgspec.Raw(b""))
    elapsed: msgspec.Raw = msgspec.field(name=ELAPSED, default=msgspec.Raw(b""))


class _Operator(msgspec.Struct):
    times: _Times = msgspec.field(name="Communication Time Info")


_DECODER = msgspec.json.Decoder(dict[str, dict[str, dict[str, _Operator]]])


def read_times(path: Path) -> pd.DataFrame | None:
    """Return step, kind, name, group, `start_ns` and the duration of each operator, as the whole file is read.

    None for a file that is not just as the vendor writes it: it is read as a whole, which tells what is wrong.
    """
    try:
        content, problem = read_whole(path, MAX_BYTES)
        plain = _DECODER.decode(content) if not problem else {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    rows = [
        (step.removeprefix("step"), kind, *key.partition("@")[::2], operator.times)
        for step, kinds in plain.items()
        for kind, operators in kinds.items()
        for key, operator in operators.items()
        if key != TOTAL
    ]
    texts = [(bytes(times.start).decode(), bytes(times.elapsed).decode()) for *_, times in rows]
    starts, sound = scaled([start for start, _ in texts], US_TO_NS)
    if not rows or not sound.all() or not (starts > 0).all() or not all(elapsed for _, elapsed in texts):
        return None
    frame: pd.DataFrame = pd.DataFrame(
        [row[:4] for row in rows], columns=["step", "kind", "name", "group"], dtype=object
    )
    frame["start_ns"] = optional(starts)
    frame[ELAPSED] = [elapsed for _, elapsed in texts]
    return frame
