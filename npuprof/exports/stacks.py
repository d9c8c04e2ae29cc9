"""Stacks as folded text, a call path on each line, for flame graph tools.

Source: the Ascend PyTorch Profiler guide (export_stacks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.errors import OptionsError
from npuprof.flame.tree import call_tree
from npuprof.lines.frames import Frame, frame_text
from npuprof.words.texts import plain_line

SelfTime: TypeAlias = Literal["host", "device"]

_COLUMNS: Mapping[SelfTime, str] = {"host": "self_host_ns", "device": "self_device_ns"}
_NS_PER_US = 1_000


def folded_stacks(tables: Mapping[str, pd.DataFrame], weight: SelfTime = "host") -> Iterator[str]:
    """Yield lines of names from the outermost call inwards, joined by ``;``, a space, and whole microseconds.

    Functions of npuprof, which a framework's tracer also records, have no frame: their time counts for their callers.

    Parameters
    ----------
    weight
        What a path weighs, as in a flame graph: ``host`` is host time without callees (``self_cpu_time_total`` of
        ``export_stacks``), ``device`` the device time of the kernels launched from it (``self_npu_time_total``).

    Yields
    ------
    str
        Each distinct path with its weight, heaviest first, without a newline. Microseconds are rounded half up.
    """
    if weight not in _COLUMNS:
        raise OptionsError(f"weight must be one of {', '.join(_COLUMNS)}, not {weight!r}")
    tree = call_tree(tables)
    frames = {name: _frame(str(name)) for name in tree["name"].unique()}
    names = [frames[name] for name in tree["name"]]
    parents = tree["parent"].tolist()
    sums_ns: dict[str, int] = {}
    for node, time_ns in enumerate(tree[_COLUMNS[weight]].tolist()):
        if time_ns and (path := ";".join(reversed(list(_path(node, parents, names))))):
            sums_ns[path] = sums_ns.get(path, 0) + time_ns
    for path, time_ns in sorted(sums_ns.items(), key=lambda item: -item[1]):
        if (whole_us := (time_ns + _NS_PER_US // 2) // _NS_PER_US) > 0:
            yield f"{path} {whole_us}"


def _path(node: int, parents: list[int], names: list[str]) -> Iterator[str]:
    while node >= 0:
        if names[node]:
            yield names[node]
        node = parents[node]


def _frame(name: str) -> str:
    """Return a name without frame separators, newlines and terminal control characters; empty for npuprof's own."""
    if (frame := Frame.parse(name)) and frame.is_npuprofs:
        return ""
    return " ".join(plain_line(frame_text(name)).replace(";", ",").split()) or "(unnamed)"
