"""Stacks as folded text, a call path on each line, for flame graph tools.

Source: the Ascend PyTorch Profiler guide (export_stacks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.errors import OptionsError
from npuprof.flame.tree import call_tree
from npuprof.frames import Frame
from npuprof.texts import plain_line

Metric: TypeAlias = Literal["self_cpu_time_total", "self_npu_time_total"]

_WEIGHTS = {"self_cpu_time_total": "self_host_ns", "self_npu_time_total": "self_device_ns"}
_NS_PER_US = 1_000


def folded_stacks(tables: Mapping[str, pd.DataFrame], metric: Metric = "self_cpu_time_total") -> Iterator[str]:
    """Yield lines of names from the outermost call inwards, joined by ``;``, a space, and whole microseconds.

    Functions of npuprof, which a framework's tracer also records, have no frame: their time counts for their callers.

    Parameters
    ----------
    metric
        The weight of a path: ``self_cpu_time_total`` is host time without callees, ``self_npu_time_total`` the device
        time of the kernels launched from it.

    Yields
    ------
    str
        Each distinct path with its weight, heaviest first, without a newline. Microseconds are rounded half up.

    Raises
    ------
    OptionsError
        If the metric is neither.
    """
    if metric not in _WEIGHTS:
        raise OptionsError(f"metric must be one of {', '.join(_WEIGHTS)}, not {metric!r}")
    tree = call_tree(tables)
    frames = {name: _frame(str(name)) for name in tree["name"].unique()}
    names = [frames[name] for name in tree["name"]]
    parents = tree["parent"].tolist()
    weights: dict[str, int] = {}
    for node, weight in enumerate(tree[_WEIGHTS[metric]].tolist()):
        if weight and (path := ";".join(reversed(list(_path(node, parents, names))))):
            weights[path] = weights.get(path, 0) + weight
    for path, weight in sorted(weights.items(), key=lambda item: -item[1]):
        if (whole_us := (weight + _NS_PER_US // 2) // _NS_PER_US) > 0:
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
    return " ".join(plain_line(name).replace(";", ",").split()) or "(unnamed)"
