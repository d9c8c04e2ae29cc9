"""The flame graph of a run: its call tree as an icicle, the rarest paths folded into one node a caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from npuprof.analysis.call_tree import call_tree
from npuprof.analysis.nesting import Int64
from npuprof.analysis.quantities import count as count_text
from npuprof.analysis.quantities import duration as duration_text
from npuprof.analysis.quantities import share as share_text
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, MODEBAR, device_family, shade
from npuprof.figures.labels import label
from npuprof.info import Info

if TYPE_CHECKING:
    import plotly.graph_objects as go

Weight: TypeAlias = Literal["host", "device", "count"]

_TOTALS: Mapping[str, str] = {"host": "host_ns", "device": "device_ns", "count": "total_count"}
_TITLES: Mapping[str, str] = {"host": "host time", "device": "device time", "count": "number of calls and kernels"}
_LAYER_FAMILIES: Mapping[str, str] = {"python": "python", "operators": "operator", "api": "api"}
_LEVELS = 24  # shown at once; a click on a node shows what is below
_LEVEL_PIXELS = 22


def flamegraph(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    weight: Weight = "host",
    max_nodes: int = 2000,
    longest_name: int = 60,
) -> go.Figure:
    """Draw the merged call tree: Python, operators, CANN calls, kernels, each as wide as its total.

    Parameters
    ----------
    tables
        Every table of the schema by name.
    info
        What is known of the run; a simulated one says so in the title.
    weight
        What makes a node wide: time on host threads, time of kernels on devices, or number of slices.
    max_nodes
        How many nodes there may be; at least 3. The smallest are folded into a node ``(n more)`` below
        their caller, with their total.
    longest_name
        Names are cut in the middle to this many characters.

    Raises
    ------
    ValueError
        If `weight` is none of the three, or `max_nodes` is too small.
    """
    import plotly.graph_objects as go

    if weight not in get_args(Weight):
        raise ValueError(f"weight is {weight!r}; it must be one of {', '.join(get_args(Weight))}")
    if max_nodes < 3:
        raise ValueError(f"max_nodes is {max_nodes}; it must be at least 3: the root, a path and the rest")
    tree = call_tree(tables)
    nodes = folded(tree, _TOTALS[weight], max_nodes - 1)
    figure = go.Figure(layout={"template": go.layout.Template()})
    if len(nodes):
        figure.add_trace(_trace(go, nodes, weight, longest_name))
    figure.update_layout(**_layout(info, weight, nodes))
    return figure


def folded(tree: pd.DataFrame, total: str, most: int) -> pd.DataFrame:
    """Keep the widest nodes of a call tree, at most `most`, and fold the rest below each caller into one.

    Parameters
    ----------
    tree
        As :func:`npuprof.analysis.call_tree.call_tree` gives it.
    total
        The column that is the width; nodes without any are left out.
    most
        How many nodes there may be; at least 2.

    Returns
    -------
    pandas.DataFrame
        The columns of `tree`, with ``parent`` renumbered to these rows and ``folded``: how many callees the
        node stands for, 0 for a node that is itself. The totals of callees never exceed their caller's.
    """
    tree = tree[tree[total] > 0]  # whatever has no width has no callee with one
    widths = tree[total].to_numpy()
    old_rows = tree.index.to_numpy()
    ranked = np.lexsort((tree["depth"].to_numpy(), -widths))  # a caller is no narrower than its callees
    above = np.searchsorted(old_rows, tree["parent"].to_numpy())
    above[tree["parent"].to_numpy() < 0] = -1
    kept = np.sort(ranked[: _keepable(above, ranked, most)])
    renumbered = np.full(len(tree), -1, np.int64)
    renumbered[kept] = np.arange(len(kept))
    nodes: pd.DataFrame = tree.iloc[kept].assign(parent=_renumber(renumbered, above[kept]), folded=0)
    rest = np.setdiff1d(np.arange(len(tree)), kept)
    callers = _renumber(renumbered, above[rest])
    direct = (above[rest] < 0) | (callers >= 0)  # what lies below a folded node is in its total
    parts = [nodes, _more(tree.iloc[rest[direct]], callers[direct], nodes)] if direct.any() else [nodes]
    shown: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return shown


def _keepable(above: Int64, ranked: Int64, most: int) -> int:
    """Find how many nodes may be kept so that they and one folded node a caller number at most `most`."""
    if len(ranked) <= most:
        return len(ranked)
    place = np.empty(len(ranked) + 1, np.int64)
    place[ranked] = np.arange(len(ranked))
    place[-1] = -1  # the root, above[i] == -1, is always there
    last_callee = np.full(len(ranked) + 1, -1, np.int64)
    np.maximum.at(last_callee, above, place[:-1])
    # A caller at place p whose last callee is at place q needs a folded node while p < kept <= q.
    change = np.zeros(len(ranked) + 2, np.int64)
    callers = np.flatnonzero(last_callee >= 0)
    np.add.at(change, place[callers] + 1, 1)
    np.add.at(change, last_callee[callers] + 1, -1)
    nodes = np.arange(len(ranked) + 1) + np.cumsum(change)[:-1]
    return int(np.flatnonzero(nodes <= most)[-1])


def _renumber(renumbered: Int64, rows: Int64) -> Int64:
    new: Int64 = np.where(rows >= 0, renumbered[rows], -1)
    return new


def _more(rest: pd.DataFrame, callers: Int64, nodes: pd.DataFrame) -> pd.DataFrame:
    """Sum folded nodes up for each caller."""
    sums = ["total_count", "host_ns", "device_ns"]
    groups = rest.assign(parent=callers).groupby("parent")
    more: pd.DataFrame = groups[sums].sum().assign(folded=groups.size()).reset_index()
    depths = np.append(nodes["depth"].to_numpy(), -1)  # the last one is the root, parent -1
    more["depth"] = depths[more["parent"]] + 1
    more["name"] = [f"({number:,} more)" for number in more["folded"]]
    return more


def _trace(go: Any, nodes: pd.DataFrame, weight: Weight, longest_name: int) -> Any:
    values = nodes[_TOTALS[weight]].tolist()
    top = nodes["parent"] < 0
    whole = int(nodes.loc[top, _TOTALS[weight]].sum())
    rows = list(nodes.itertuples(index=False))
    names = [label(row.name, longest_name) for row in rows]
    hover = [_hover(row, name, value, whole, weight) for row, name, value in zip(rows, names, values, strict=True)]
    return go.Icicle(
        ids=["all", *(str(row) for row in range(len(nodes)))],
        parents=["", *("all" if parent < 0 else str(parent) for parent in nodes["parent"])],
        labels=["all", *names],
        values=[whole, *values],
        hovertext=[f"<b>all</b><br>{_amount(whole, weight)}", *hover],
        hovertemplate="%{hovertext}<extra></extra>",
        branchvalues="total",
        maxdepth=_LEVELS,
        marker={"colors": [FAINT, *(_colour(row) for row in rows)], "line": {"width": 0.5, "color": FAINT}},
        tiling={"orientation": "v", "pad": 1},
        leaf={"opacity": 1},
        textfont={"size": 11, "color": [FOREGROUND, *(_ink(row) for row in rows)]},
        pathbar={"visible": False},
    )


def _amount(value: int, weight: Weight) -> str:
    return count_text(value) if weight == "count" else duration_text(value)


def _hover(row: Any, name: str, value: int, whole: int, weight: Weight) -> str:
    calls = "" if row.folded else f"<br>{row.layer}, {count_text(int(row.count))} times"
    device = f", device {duration_text(int(row.device_ns))}" if weight == "host" and row.device_ns else ""
    return f"<b>{name}</b><br>{_amount(value, weight)} ({share_text(value, whole)}){device}{calls}"


def _family(row: Any) -> str:
    return _LAYER_FAMILIES.get(row.layer) or device_family("", "", row.name)


def _colour(row: Any) -> str:
    return FAINT if row.folded else shade(_family(row), row.name)


def _ink(row: Any) -> str:
    return FOREGROUND if row.folded else FAMILIES[_family(row)].ink


def _layout(info: Info, weight: Weight, nodes: pd.DataFrame) -> dict[str, Any]:
    simulated = " · <b>simulated NPU</b>" if info.simulated else ""
    levels = min(int(nodes["depth"].max()) + 2, _LEVELS) if len(nodes) else 4
    empty = {"text": f"no {_TITLES[weight]} in this run", "showarrow": False, "x": 0.5, "y": 0.5}
    return {
        "title": {"text": f"Flame graph · {_TITLES[weight]}{simulated}", "font": {"size": 15}, "x": 0, "xref": "paper"},
        "height": 70 + _LEVEL_PIXELS * max(levels, 5),
        "margin": {"l": 10, "r": 10, "t": 50, "b": 10},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": FOREGROUND, "size": 11},
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "modebar": dict(MODEBAR),
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "annotations": [] if len(nodes) else [empty | {"xref": "paper", "yref": "paper"}],
    }
