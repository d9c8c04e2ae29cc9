"""The call path of each kernel: modules, or else functions of the user's code, without line numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import Causes, nearest
from npuprof.analysis.idle_causes import MODULE
from npuprof.arrays import Bools, Int64
from npuprof.lines.frames import Frame

_BACKWARD = "backward"


def call_paths(tables: Mapping[str, pd.DataFrame], correlation: Causes) -> pd.Categorical:
    """Return the call path that launched each kernel; absent if no user code is known for it.

    A path such as ``train/Net/Linear_0`` begins with the outermost caller; functions of installed packages are left
    out. A kernel of the backward pass has the path of its forward operator with ``backward`` appended.
    """
    labels = _labels(tables, correlation)
    rows = correlation.launchers
    is_named = labels >= 0
    if not is_named.any():
        return schema.categorical(np.full(len(rows), -1), [])
    above = nearest(correlation.callers, rows, is_named)
    forward = _forward_of(tables, correlation, rows)
    backward = forward >= 0
    at_forward = nearest(correlation.callers, np.where(backward, forward, -1), is_named)
    codes, names = _join(correlation.callers, labels, _texts(tables), is_named)
    path = np.append(codes, -1)[np.where(backward & (at_forward >= 0), at_forward, above)]
    of_backward = backward & (path >= 0)
    path = np.where(of_backward, path + len(names), path)
    return schema.categorical(path, [*names, *(f"{name}/{_BACKWARD}" for name in names)])


def _label(name: str) -> str:
    if name.startswith(MODULE):
        return name.removeprefix(MODULE)
    frame = Frame.parse(name)
    # The code of a cell itself is around all of it, in some samples only: it tells nothing apart.
    return frame.function if frame and frame.is_users and not frame.is_of_cell else ""


def _texts(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(_label, tables["python"]["name"].cat.categories))))


def _labels(tables: Mapping[str, pd.DataFrame], correlation: Causes) -> Int64:
    """Return for each host row the number of its path component, -1 for none."""
    number = {text: place for place, text in enumerate(_texts(tables))}
    names = tables["python"]["name"].cat
    of_name = np.array([*(number.get(_label(str(name)), -1) for name in names.categories), -1], np.int64)
    labels = np.full(len(correlation.callers), -1, np.int64)
    first = correlation.first_row["python"]
    labels[first : first + len(tables["python"])] = of_name[names.codes.to_numpy()]
    return labels


def _forward_of(tables: Mapping[str, pd.DataFrame], correlation: Causes, rows: Int64) -> Int64:
    """Return for each row the forward operator of its innermost enclosing backward operator, or -1."""
    links, first = tables["links"], correlation.first_row["operators"]
    count = correlation.first_row["api"] - first
    source, target = links["source_row"].to_numpy(np.int64), links["target_row"].to_numpy(np.int64)
    is_known = (source >= 0) & (source < count) & (target >= 0) & (target < count)
    derived = (links["kind"] == "forward_backward").to_numpy(bool) & is_known
    forward = np.full(len(correlation.callers) + 1, -1, np.int64)
    forward[target[derived] + first] = source[derived] + first
    place = nearest(correlation.callers, rows, forward[:-1] >= 0)
    return forward[place]


def _join(callers: Int64, labels: Int64, texts: list[str], is_named: Bools) -> tuple[Int64, list[str]]:
    """Return for each named row the number of its path, and the paths."""
    rows = np.flatnonzero(is_named)
    parent = nearest(callers, callers[rows], is_named)
    codes = np.full(len(callers), -1, np.int64)
    names: list[str] = []
    level = np.flatnonzero(parent < 0)
    is_left = np.ones(len(rows), bool)
    while len(level):
        is_left[level] = False
        above = np.where(parent[level] >= 0, codes[parent[level]], -1)
        pairs = (above + 1) * len(texts) + labels[rows[level]]
        distinct, number = np.unique(pairs, return_inverse=True)
        known = {name: place for place, name in enumerate(names)}
        of_pair = np.zeros(len(distinct), np.int64)
        for place, pair in enumerate(distinct.tolist()):
            outer, label = divmod(pair, len(texts))
            # A function that calls itself, or a module inside one with the same name, is a single component.
            name, around = texts[label], names[outer - 1] if outer else ""
            if outer:
                name = around if around.rpartition("/")[2] == name else f"{around}/{name}"
            of_pair[place] = known.setdefault(name, len(known))
        names = list(known)
        codes[rows[level]] = of_pair[number]
        level = np.flatnonzero(is_left & (codes[np.maximum(parent, 0)] >= 0) & (parent >= 0))
    return codes, names
