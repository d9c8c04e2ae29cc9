"""The flame graph as a plotly figure: an icicle or a flame, with small frames folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from npuprof.analysis.correlation import LAYERS
from npuprof.errors import OptionsError
from npuprof.figures.chart import chart, label
from npuprof.figures.chart import nothing as figure_without
from npuprof.figures.colours import FAINT, FAMILIES, FOREGROUND, MATCH, family_label
from npuprof.flame.fold import Root, fold
from npuprof.flame.scope import Scope, scoped
from npuprof.flame.search import FrameMatches, matches_in, path_called, paths_with
from npuprof.flame.tree import MergedCalls, merged_calls
from npuprof.flame.tree import Weight as Weight  # the figure's argument
from npuprof.flame.view import TITLES, DrawnFlames, scope_text
from npuprof.sources.files.memory_limit import left_out
from npuprof.tables.info import Info
from npuprof.words.quantities import printable, share

if TYPE_CHECKING:
    import plotly.graph_objects as go

Orientation: TypeAlias = Literal["icicle", "flame"]
"""Callees below their caller (``icicle``) or above it (``flame``)."""

_BYTES_PER_CALL = 150  # 68 were measured at the peak
_LEVELS = 24  # levels drawn at once; a click on a frame draws the levels below it
_LEVEL_PIXELS = 22
_TITLE = "Flame graph"
_MOST_NAMED = 2_000  # paths with the most time of their own, among which equal names are summed up
_LEAST_SHARE = 0.1  # of the time that a title names


def flamegraph(
    tables: Mapping[str, pd.DataFrame],
    info: Info,
    *,
    weight: Weight = "host",
    step: int | None = None,
    thread: int | None = None,
    root: str | Sequence[str] = (),
    orientation: Orientation = "icicle",
    search: str = "",
    regex: bool = False,
    max_nodes: int = 2000,
    longest_name: int = 60,
) -> go.Figure:
    """Draw the merged call tree of Python, operators, CANN calls and kernels; a frame's width is its total.

    Parameters
    ----------
    step
        The step to draw. Host calls are clipped to the step; a kernel belongs to the step of its launch.
    thread
        The host thread to draw. Its device time is that of kernels launched by its calls, also through a task queue.
    root
        The top frame: a path of names from the outermost call, or a single name, which selects the widest frame of it.
    search, regex
        Part of a name, ignoring case, or a regular expression. Matching frames are outlined; the subtitle has their
        share of the total, in which nested matches count once.
    max_nodes, longest_name
        Maximum number of frames, at least 3, and of characters of a name. The smallest callees of a frame are folded
        into one frame ``(n more)``; longer names are shortened in the middle.
    """
    _check_arguments(weight, orientation, max_nodes)
    if problem := _left_out(tables):
        return figure_without(_TITLE, info, problem)
    calls, scope = merged_calls(tables), Scope(step, thread)
    sums = scoped(calls, tables, scope)
    top, matches = Root(path_called(calls, sums[weight], root)), paths_with(calls, search, regex=regex)
    frames = fold(calls, sums[weight], top, max_nodes)
    hits = matches_in(calls, sums[weight], top, frames, matches) if search else None
    picture = DrawnFlames(calls, sums, weight, scope, top, frames)
    return _figure(picture, info, orientation, search, hits, longest_name)


def flamegraph_of_calls(
    calls: MergedCalls, tables: Mapping[str, pd.DataFrame], info: Info, weight: Weight, max_nodes: int
) -> go.Figure:
    """Draw the merged calls of a whole run as :func:`flamegraph` does, where they are known already."""
    if problem := _left_out(tables):
        return figure_without(_TITLE, info, problem)
    scope, top = Scope(), Root()
    sums = scoped(calls, tables, scope)
    frames = fold(calls, sums[weight], top, max_nodes)
    return _figure(DrawnFlames(calls, sums, weight, scope, top, frames), info, "icicle", "", None, longest_name=60)


def _left_out(tables: Mapping[str, pd.DataFrame]) -> str:
    return left_out("frames are", _BYTES_PER_CALL * sum(len(tables[name]) for name in (*LAYERS, "kernels")))


def _check_arguments(weight: str, orientation: str, max_nodes: int) -> None:
    for name, value, allowed in (("weight", weight, Weight), ("orientation", orientation, Orientation)):
        if value not in get_args(allowed):
            raise OptionsError(f"{name} is {value!r}; it must be one of {', '.join(get_args(allowed))}")
    if max_nodes < 3:
        raise OptionsError(f"max_nodes is {max_nodes}; it must be at least 3: the root, a path and the rest")


def _figure(
    picture: DrawnFlames,
    info: Info,
    orientation: Orientation,
    search: str,
    hits: FrameMatches | None,
    longest_name: int,
) -> go.Figure:
    any_width = bool(picture.frames.total[0])
    levels = min(int(picture.frames.depth.max()) + 1, _LEVELS)
    of_search = "" if hits is None else f"{label(search, longest_name)}: {picture.match_text(hits)}"
    parts = [TITLES[picture.weight], scope_text(picture.scope)]
    parts += [label(picture.name(0), longest_name) if picture.root.path >= 0 else "", of_search]
    about = " · ".join(filter(None, parts))
    if not any_width:
        return figure_without(_TITLE, info, nothing(picture))
    used = {picture.family(row) for row in range(len(picture.frames))}
    figure = chart(
        _TITLE,
        info,
        finding="" if hits is not None else _finding(picture),
        subtitle=about,
        key=[(family_label(key, picture.calls.runtime), FAMILIES[key].colour) for key in FAMILIES if key in used],
        height=90 + _LEVEL_PIXELS * max(levels, 3),
    )
    figure.add_trace(_trace(picture, orientation, hits, longest_name))
    return figure.update_layout(
        margin_b=10, uniformtext={"minsize": 9, "mode": "hide"}, xaxis_visible=False, yaxis_visible=False
    )


def _finding(picture: DrawnFlames) -> str:
    """Return the name with the most time of its own in the scope; empty if it has little."""
    calls, own = picture.calls, picture.sums[picture.weight].exclusive
    if picture.root.path >= 0 or not len(own) or picture.weight == "count":
        return ""
    names = pd.Series([calls.name(path) for path in np.argsort(-own, kind="stable")[:_MOST_NAMED].tolist()])
    times = pd.Series(np.sort(own)[::-1][:_MOST_NAMED]).groupby(names, sort=False).sum()
    name, time_ns = str(times.idxmax()), int(times.max())
    if time_ns < _LEAST_SHARE * picture.whole:
        return ""
    part = share(time_ns, picture.whole)
    return f"{printable(name, 48)} takes {part} of {TITLES[picture.weight]}"


def _trace(picture: DrawnFlames, orientation: Orientation, hits: FrameMatches | None, longest_name: int) -> Any:
    import plotly.graph_objects as go

    frames = picture.frames
    rows = range(len(frames))
    ids = ["all", *(str(row - 1) for row in rows[1:])]
    looks = [picture.look(row) for row in rows]
    line: dict[str, Any] = {"width": 0.5, "color": FAINT}
    if hits is not None:
        looks = [look if lit else (FAINT, FOREGROUND) for look, lit in zip(looks, hits.lit, strict=True)]
        line = {
            "width": [2 if lit else 0.5 for lit in hits.lit],
            "color": [MATCH if lit else FAINT for lit in hits.lit],
        }
    return go.Icicle(
        ids=ids,
        parents=["", *(ids[above] for above in frames.above[1:].tolist())],
        labels=[label(picture.name(row), longest_name) for row in rows],
        values=frames.total.tolist(),
        hovertext=[picture.hover(row, longest_name) for row in rows],
        hovertemplate="%{hovertext}<extra></extra>",
        branchvalues="total",
        maxdepth=_LEVELS,
        marker={"colors": [colour for colour, _ in looks], "line": line},
        tiling={"orientation": "v", "pad": 1, **({"flip": "y"} if orientation == "flame" else {})},
        leaf={"opacity": 1},
        textfont={"size": 11, "color": [ink for _, ink in looks]},
        pathbar={"visible": False},
    )


def nothing(picture: DrawnFlames) -> str:
    """Return the message of a flame graph without data."""
    return f"no {TITLES[picture.weight]} in {scope_text(picture.scope) or 'this run'}"
