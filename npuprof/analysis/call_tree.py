"""The call tree of a run: equal paths merged, from Python over operators and CANN calls down to kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pandas as pd

from npuprof.analysis.causes import LAYERS, causes
from npuprof.analysis.nesting import Int64

_UNNAMED = "(unnamed)"
_PATH_COLUMNS = ["parent", "depth", "layer", "name"]


def call_tree(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Merge all calls and kernels of a run by their path of names.

    Parameters
    ----------
    tables
        Every table of the schema by name; ``python``, ``operators``, ``api``, ``kernels`` and ``links`` are read.

    Returns
    -------
    pandas.DataFrame
        A row for each path, callers before callees:

        * ``parent``: row of the caller, -1 at the top; ``depth``: 0 at the top;
        * ``layer`` (python, operators, api or kernels) and ``name``;
        * ``count``: slices of this path; ``self_host_ns``: time of theirs on their threads that no callee
          accounts for; ``self_device_ns``: duration of the kernels (0 for host paths);
        * ``total_count``, ``host_ns``, ``device_ns``: the same summed over the path and everything below it,
          so the self values of a subtree add up to its root's totals exactly.

        Paths of different threads merge: host times add over threads. What a task queue ran on another
        thread counts under the operator that enqueued it.
    """
    found = causes(tables)
    codes, labels = _name_codes(tables)
    host = len(found.callers)
    grown = _Growing(len(labels))
    nodes = _merge_host(grown, found.callers, codes[:host])
    launchers = found.launchers
    above = np.where(launchers >= 0, nodes[launchers], -1) if host else np.full(len(launchers), -1, np.int64)
    kernel_nodes = grown.add(above, codes[host:])
    tree = grown.frame(labels)
    _add_self(tree, np.concatenate([nodes, kernel_nodes]), found.self_ns, tables["kernels"]["duration_ns"].to_numpy())
    _add_totals(tree)
    return tree


@dataclass
class _Growing:
    """Nodes made so far, batch by batch, each batch below earlier ones."""

    label_count: int
    parents: list[Int64] = field(default_factory=lambda: [np.zeros(0, np.int64)])
    labels: list[Int64] = field(default_factory=lambda: [np.zeros(0, np.int64)])
    count: int = 0

    def add(self, above: Int64, codes: Int64) -> Int64:
        """Make a node for each different pair of node above and label; give the node of each pair."""
        batch, keys = pd.factorize((above + 1) * self.label_count + codes)
        nodes = batch.astype(np.int64) + self.count
        self.parents.append(keys // self.label_count - 1)
        self.labels.append(keys % self.label_count)
        self.count += len(keys)
        return nodes

    def frame(self, labels: pd.DataFrame) -> pd.DataFrame:
        parents = np.concatenate(self.parents)
        chosen = labels.iloc[np.concatenate(self.labels)].reset_index(drop=True)
        tree: pd.DataFrame = chosen.assign(parent=parents, depth=_depths(parents))[_PATH_COLUMNS]
        return tree


def _name_codes(tables: Mapping[str, pd.DataFrame]) -> tuple[Int64, pd.DataFrame]:
    """Give every slice a number for its name, and the names; a name in two layers has two numbers."""
    codes, labels, first = [], [], 0
    for layer in (*LAYERS, "kernels"):
        names = tables[layer]["name"].cat
        codes.append(names.codes.to_numpy(np.int64) + 1 + first)  # -1, the absent name, becomes the first
        labels.append(pd.DataFrame({"layer": layer, "name": [_UNNAMED, *names.categories]}))
        first += len(labels[-1])
    return np.concatenate(codes), pd.concat(labels, ignore_index=True).astype({"layer": "category"})


def _merge_host(grown: _Growing, callers: Int64, codes: Int64) -> Int64:
    """Merge host slices one depth after the other; give the node of each slice."""
    nodes = np.full(len(callers), -1, np.int64)
    depths = _depths(callers)
    order = np.argsort(depths, kind="stable")
    bounds = np.flatnonzero(np.diff(depths[order], prepend=-1, append=-1))
    for low, high in pairwise(bounds):
        rows = order[low:high]
        above = callers[rows]
        nodes[rows] = grown.add(np.where(above >= 0, nodes[above], -1), codes[rows])
    return nodes


def _depths(parents: Int64) -> Int64:
    depths = np.zeros(len(parents), np.int64)
    rows = np.flatnonzero(parents >= 0)
    above = parents[rows]
    while len(rows):
        depths[rows] += 1
        above = parents[above]
        rows, above = rows[above >= 0], above[above >= 0]
    return depths


def _add_self(tree: pd.DataFrame, nodes: Int64, self_host_ns: Int64, kernel_ns: Int64) -> None:
    host = len(self_host_ns)
    for column, rows, values in (
        ("count", nodes, np.ones(len(nodes), np.int64)),
        ("self_host_ns", nodes[:host], self_host_ns),
        ("self_device_ns", nodes[host:], kernel_ns),
    ):
        sums = np.zeros(len(tree), np.int64)
        np.add.at(sums, rows, values)
        tree[column] = sums


def _add_totals(tree: pd.DataFrame) -> None:
    parents, depths = tree["parent"].to_numpy(), tree["depth"].to_numpy()
    order = np.argsort(-depths, kind="stable")
    bounds = np.flatnonzero(np.diff(depths[order], prepend=-1, append=-1))
    for total, own in (("total_count", "count"), ("host_ns", "self_host_ns"), ("device_ns", "self_device_ns")):
        sums = tree[own].to_numpy().copy()
        for low, high in pairwise(bounds):
            rows = order[low:high]
            if depths[rows[0]]:
                np.add.at(sums, parents[rows], sums[rows])
        tree[total] = sums
