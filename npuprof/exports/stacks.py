"""Stacks as folded text, one path of calls a line, as flame graph tools take them.

Source: ``seeds/001`` (export_stacks).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import pandas as pd

from npuprof.analysis.call_tree import call_tree
from npuprof.errors import OptionsError

Metric: TypeAlias = Literal["self_cpu_time_total", "self_npu_time_total"]

_WEIGHTS = {"self_cpu_time_total": "self_host_ns", "self_npu_time_total": "self_device_ns"}
_NS_PER_US = 1_000


def folded_stacks(tables: Mapping[str, pd.DataFrame], metric: Metric = "self_cpu_time_total") -> Iterator[str]:
    """Give the lines: the names from the outermost call inwards, joined by ``;``, a space, whole microseconds.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    metric
        ``self_cpu_time_total`` weighs each path with the time of its threads that no callee accounts for,
        ``self_npu_time_total`` with the device time of the kernels that it launched.

    Yields
    ------
    str
        A path whose weight is not 0, heaviest first, without a line end. Microseconds are rounded half up.

    Raises
    ------
    OptionsError
        If the metric is neither.
    """
    if metric not in _WEIGHTS:
        raise OptionsError(f"metric must be one of {', '.join(_WEIGHTS)}, not {metric!r}")
    tree = call_tree(tables)
    names = [_safe(str(name)) for name in tree["name"]]
    parents = tree["parent"].tolist()
    weights = (tree[_WEIGHTS[metric]].to_numpy() + _NS_PER_US // 2) // _NS_PER_US
    for node in (-weights).argsort(kind="stable"):
        if not weights[node]:
            return
        yield f"{';'.join(reversed(list(_path(int(node), parents, names))))} {weights[node]}"


def _path(node: int, parents: list[int], names: list[str]) -> Iterator[str]:
    while node >= 0:
        yield names[node]
        node = parents[node]


def _safe(name: str) -> str:
    """Keep a name from ending a frame or a line; a space is allowed, for the weight is what follows the last one."""
    return " ".join(name.replace(";", ",").split()) or "(unnamed)"
