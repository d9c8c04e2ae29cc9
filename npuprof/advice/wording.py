"""Phrases that several rules share."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from npuprof.analysis.backlog import Backlog
from npuprof.analysis.rank_joint import Part
from npuprof.arrays import Int64
from npuprof.lines.frames import line_text
from npuprof.words.quantities import duration, formatted_ranks, printable, share

_LONGEST_CODE = 60
_MOST = 3
_MOST_LINES = 2
_MOST_PARTS = 8
_ALONE = 0.9  # of what is gained together
_LONGEST = 60


def code(text: str) -> str:
    """Return code in backticks for titles and actions; backticks within it are removed."""
    return f"`{printable(text.replace('`', chr(39)), _LONGEST_CODE)}`"


def joined_words(words: Sequence[str]) -> str:
    """Return words as a list: ``6``, ``6 and 10``, ``6, 8 and 10``."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def lines_called(lines: Sequence[tuple[str, int]], cell: str = "") -> str:
    """Return lines as a title begins with them: ``Line 4``, ``Lines 6 and 10``, ``In [3], line 4``, ``train.py:50``."""
    own = [str(line) for line in sorted(line for file, line in lines if file == cell)]
    others = [line_text(file, line).replace("`", "'") for file, line in sorted(lines) if file != cell]
    first = [f"line{'s' * (len(own) > 1)} {joined_words(own)}"] if own else []
    text = joined_words([*first, *others])
    return text[:1].upper() + text[1:] if own else text


def most_time(kernels: pd.DataFrame, steps: int = 1, by: Sequence[str] = ("op_type",)) -> str:
    """Return the kinds of kernels with the most time: ``Cast (12 times, 6.00 ms), Slice (3 times, 3.66 ms)``.

    With several `steps`, figures are means per step: ``Cast (12 times, 6.00 ms a step)``.
    """
    rows = kernels[["name", *by, "duration_ns"]].astype({"name": object} | dict.fromkeys(by, object))
    rows[by[0]] = rows[by[0]].fillna(rows["name"]).fillna("kernels without a name")
    kinds = rows.groupby(list(by), dropna=False, sort=False)["duration_ns"].agg(["sum", "size"])
    first = kinds.sort_values("sum", ascending=False, kind="stable")[:_MOST]
    return ", ".join(
        f"{_kind_text(kind)} ({_times(count / steps)}, {duration(int(time) // steps)}{' a step' * (steps > 1)})"
        for kind, time, count in zip(first.index, first["sum"], first["size"], strict=True)
    )


def _times(count: float) -> str:
    return "1 time" if count == 1 else f"{count:,.0f} times" if count == int(count) else f"{count:,.1f} times"


def shares_of(times: pd.Series[int], limit: int | None = None) -> str:
    """Return the kinds of collectives with the most time: ``allReduce 70 %, broadcast 30 %``; all kinds by default."""
    first = times.sort_values(ascending=False)[:limit]
    return ", ".join(f"{str(kind).strip('_')} {share(int(time), int(times.sum()))}" for kind, time in first.items())


def most_lines(lines: pd.Categorical, times: Int64) -> list[str]:
    """Return the two source lines with the most time; unknown lines are left out."""
    sums = pd.Series(times).groupby(lines, observed=True).sum().sort_index()
    return [str(line) for line in sums.sort_values(ascending=False, kind="stable").index if line][:_MOST_LINES]


def ranks_called(ranks: Sequence[int]) -> str:
    """Return the names of ranks: ``rank 3``, ``ranks 2 and 3``, ``ranks 0-7``."""
    listed = formatted_ranks(ranks)
    return f"rank {listed}" if len(ranks) == 1 else f"ranks {' and '.join(listed.rsplit(', ', 1))}"


def behind(backlog: Backlog) -> str:
    """Return that the device does steps more slowly than the host ends them, and how to measure them."""
    return (
        f"The host runs ahead: it launches a step in {duration(backlog.host_ns)}, the device takes "
        f"{duration(backlog.device_ns)} and is {duration(backlog.behind_ns)} behind at the end. These step times are "
        "those of launches: wait for the device at the end of each step (`synchronize()`), or profile more steps"
    )


def _kind_text(kind: object) -> str:
    parts = [str(part).strip('"') for part in (kind if isinstance(kind, tuple) else (kind,))]
    return " ".join(printable(part, _LONGEST) for part in parts if part != "nan")


def named_parts(parts: Sequence[Part]) -> str:
    """Return what each suspect gains together with all that are named, and alone; empty if that is the same."""
    if len(parts) == 1 and parts[0].alone_ns < _ALONE * parts[0].share_ns:
        return f"alone it gains {duration(parts[0].alone_ns)}, the rest only with the other findings"
    if len(parts) < 2:
        return ""
    first = "; ".join(
        f"{duration(part.share_ns)} from {ranks_called(part.suspect.ranks)} ({duration(part.alone_ns)} alone)"
        for part in parts[:_MOST_PARTS]
    )
    more = f" and {len(parts) - _MOST_PARTS} more" if len(parts) > _MOST_PARTS else ""
    return f"together they gain {duration(sum(part.share_ns for part in parts))} a step: {first}{more}"
