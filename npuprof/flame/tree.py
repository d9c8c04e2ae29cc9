"""The call tree of a run: Python, operators, CANN calls and kernels, with equal paths merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.correlation import LAYERS, Causes, causes, forward_operators, nearest, without_cycles
from npuprof.analysis.device_words import runtime_of
from npuprof.analysis.idle_causes import MODULE
from npuprof.arrays import Bools, Int64
from npuprof.flame.launch_stacks import LaunchStacks, launch_stacks
from npuprof.lines.frames import frame_text
from npuprof.tables import matching, sampled

Weight: TypeAlias = Literal["host", "device", "count"]
"""The weight of a path: time on host threads, time of its kernels on the device, or number of slices."""

COLUMNS: Mapping[Weight, tuple[str, str]] = {
    "count": ("count", "total_count"),
    "host": ("self_host_ns", "host_ns"),
    "device": ("self_device_ns", "device_ns"),
}
"""The self column and the total column of each weight."""

_FEW = 32  # keys, for which a dictionary is quicker than pandas: calls may be nested a hundred thousand deep
_UNNAMED = "(unnamed)"
_OUTSIDE = "(outside of modules)"


def call_tree(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Merge all calls and kernels of a run by their path of names.

    Returns
    -------
    pandas.DataFrame
        A row for each path; callers come directly before their callees:

        * ``parent``: row of the caller, -1 at the top; ``depth``: 0 at the top;
        * ``layer`` (python, operators, api or kernels) and ``name``;
        * ``count``: slices of the path; ``self_host_ns``: their time outside callees; ``self_device_ns``: duration of
          the kernels (0 for host paths);
        * ``total_count``, ``host_ns``, ``device_ns``: the sums over the path and its callees, to which the self values
          add up exactly.

        Paths of different threads are merged and their host times added. Calls that a task queue runs on another
        thread are below the operator that enqueued them; operators of the backward pass are below the forward operator
        that they are derived from. A kernel whose stack was taken at its launch is below the frames of that stack, with
        the line that each was at, and the operators and calls that launched it; these paths have no host time, unless
        they are stamped lines of a cell.
    """
    calls = merged_calls(tables)
    tree: pd.DataFrame = calls.labels.iloc[calls.label].reset_index(drop=True)
    tree = tree.assign(parent=calls.parent, depth=calls.depth)[["parent", "depth", "layer", "name"]]
    sums = calls.whole(tables)
    for weight, (self_column, _) in COLUMNS.items():
        tree[self_column] = sums[weight].exclusive
    for weight, (_, total_column) in COLUMNS.items():
        tree[total_column] = sums[weight].total
    return tree


@dataclass(frozen=True)
class PathWeights:
    """One weight of every path."""

    # exclusive, total: without and with callees; never negative.
    exclusive: Int64
    total: Int64
    # Number of callees with weight; the last element, beyond the paths, is the number of paths at the top.
    callees: Int64


@dataclass(frozen=True)
class MergedCalls:
    """The paths of a run; callers come directly before their callees."""

    # parent, depth: the row of the caller, -1 at the top, and the number of callers up to the top.
    parent: Int64
    depth: Int64
    end: Int64  # the first row after the path and its callees
    label: Int64  # the row in `labels` with the path's layer and name
    labels: pd.DataFrame
    # host_path, kernel_path: the path of each host slice, in the order of `causes`, and of each kernel.
    host_path: Int64
    kernel_path: Int64
    causes: Causes
    # The host slices that samples saw, so that their number is not one of calls.
    sampled: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.parent)

    @cached_property
    def names(self) -> npt.NDArray[np.object_]:
        """The names of `labels` as people read them."""
        return np.array([frame_text(name) for name in self.labels["name"]], object)

    @cached_property
    def only_stacked(self) -> Bools:
        """Which paths are known from stacks taken at launches: there is no slice of theirs."""
        counts = np.bincount(np.concatenate([self.host_path, self.kernel_path]), minlength=len(self))
        return counts == 0

    @cached_property
    def only_seen(self) -> Bools:
        """Which paths are known from samples: how often they were called is not known."""
        return np.bincount(self.host_path[self.sampled], minlength=len(self)) > 0

    @cached_property
    def runtime(self) -> str:
        """The runtime that the host calls: ``CANN``, ``CUDA`` ..."""
        return runtime_of(self.names[self.layers == "api"])

    @cached_property
    def layers(self) -> npt.NDArray[np.object_]:
        """The layers of `labels`."""
        return self.labels["layer"].to_numpy(object)

    def name(self, path: int) -> str:
        return str(self.names[self.label[path]])

    def layer(self, path: int) -> str:
        return str(self.layers[self.label[path]])

    def span(self, path: int) -> tuple[int, int]:
        """Return the range of rows below a path, or of all rows for -1."""
        return (path + 1, int(self.end[path])) if path >= 0 else (0, len(self))

    def sums(self, slices: Int64, host_ns: Int64, kernels: Int64, kernel_ns: Int64) -> dict[Weight, PathWeights]:
        """Sum the weights of selected host slices and kernels; `host_ns` has the self time of every host slice."""
        count, host, device = (np.zeros(len(self), np.int64) for _ in range(3))
        for paths in (self.host_path[slices], self.kernel_path[kernels]):
            count += np.bincount(paths, minlength=len(self))
        np.add.at(host, self.host_path, host_ns)
        np.add.at(device, self.kernel_path[kernels], kernel_ns)
        return {"host": self.weigh(host), "device": self.weigh(device), "count": self.weigh(count)}

    def whole(self, tables: Mapping[str, pd.DataFrame]) -> dict[Weight, PathWeights]:
        """Sum the weights of the whole run."""
        slices, kernels = np.arange(len(self.host_path)), np.arange(len(self.kernel_path))
        kernel_ns = tables["kernels"]["duration_ns"].to_numpy(np.int64)
        return self.sums(slices, self.causes.self_ns, kernels, kernel_ns)

    def weigh(self, amounts: Int64) -> PathWeights:
        """Return the weight of each path from its own amount."""
        before = np.concatenate([[0], np.cumsum(amounts)])
        total = before[self.end] - before[:-1]
        callees = np.bincount(np.where(self.parent >= 0, self.parent, len(self))[total > 0], minlength=len(self) + 1)
        return PathWeights(amounts, total, callees)


def has_modules(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Return whether calls of modules (``nn.Module``) were recorded."""
    return bool(_modules(tables).any())


def _modules(tables: Mapping[str, pd.DataFrame]) -> Bools:
    return matching(tables["python"]["name"], lambda name: name.startswith(MODULE))


def merged_calls(tables: Mapping[str, pd.DataFrame], *, by_module: bool = False) -> MergedCalls:
    """Merge all calls and kernels of a run by their path of names; see :func:`call_tree`.

    With `by_module`, only Python calls of modules have paths: the time of other calls belongs to the enclosing module,
    or to a single path for all calls outside of modules.
    """
    causes_of_slices = causes(tables)
    stacks = None if by_module else launch_stacks(tables, causes_of_slices)
    causes_of_slices = replace(causes_of_slices, callers=_under_forward(tables, causes_of_slices))
    codes, labels = _name_codes(tables, stacks.frames if stacks is not None else [])
    host = len(causes_of_slices.callers)
    nodes_so_far = Nodes(len(labels))
    is_kept = np.ones(host, bool)
    if by_module:
        is_kept[: len(tables["python"])] = _modules(tables)
    nodes = _merge_host(nodes_so_far, causes_of_slices.callers, codes[:host], is_kept)
    launchers = causes_of_slices.launchers
    above = np.where(launchers >= 0, nodes[launchers], -1) if host else np.full(len(launchers), -1, np.int64)
    if stacks is not None and len(stacks.rows):
        at = np.minimum(np.searchsorted(stacks.rows, launchers), len(stacks.rows) - 1)
        stacked = _add_stacked(nodes_so_far, stacks, codes, _codes_of_frames(tables, stacks.frames, len(labels)))
        above = np.where(stacks.rows[at] == launchers, stacked[at], above)
    kernel_nodes = nodes_so_far.add(above, codes[host:])
    return nodes_so_far.in_order(
        labels, nodes, kernel_nodes, causes_of_slices, np.flatnonzero(sampled(tables["python"]))
    )


def _under_forward(tables: Mapping[str, pd.DataFrame], causes: Causes) -> Int64:
    """Return the callers, with operators of the backward pass below the forward operator they are derived from."""
    forward = forward_operators(tables, causes.first_row, len(causes.callers))
    return without_cycles(np.where(forward >= 0, forward, causes.callers))


@dataclass
class Nodes:
    """Nodes added in batches; the parents of a batch are in earlier batches."""

    label_count: int
    parents: list[Int64] = field(default_factory=lambda: [np.zeros(0, np.int64)])
    labels: list[Int64] = field(default_factory=lambda: [np.zeros(0, np.int64)])
    count: int = 0

    def add(self, above: Int64, codes: Int64) -> Int64:
        """Add a node for each distinct pair of parent and label; return the node of each pair."""
        batch, keys = _factorize((above + 1) * self.label_count + codes)
        nodes = batch.astype(np.int64) + self.count
        self.parents.append(keys // self.label_count - 1)
        self.labels.append(keys % self.label_count)
        self.count += len(keys)
        return nodes

    def find_or_add(self, above: Int64, codes: Int64) -> Int64:
        """Return the node of each pair of parent and label, of any batch; add those that there are not."""
        known, rows = np.unique(
            (np.concatenate(self.parents) + 1) * self.label_count + np.concatenate(self.labels), return_index=True
        )
        wanted = (above + 1) * self.label_count + codes
        at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        nodes = np.where(known[at] == wanted, rows[at], -1) if len(known) else np.full(len(wanted), -1, np.int64)
        if len(missing := np.flatnonzero(nodes < 0)):
            nodes[missing] = self.add(above[missing], codes[missing])
        return nodes

    def in_order(
        self, labels: pd.DataFrame, host: Int64, kernels: Int64, causes_of_slices: Causes, sampled: Int64
    ) -> MergedCalls:
        """Return the nodes as paths; `host` and `kernels` are the nodes of slices."""
        parent, label = np.concatenate(self.parents), np.concatenate(self.labels)
        depth = _depths(parent)
        size = _sizes(parent)
        place = _places(parent, size)
        order = np.empty_like(place)
        order[place] = np.arange(len(place))
        return MergedCalls(
            parent=np.where(parent >= 0, place[parent], -1)[order] if len(parent) else parent,
            depth=depth[order],
            end=np.arange(len(order)) + size[order],
            label=label[order],
            labels=labels,
            host_path=place[host],
            kernel_path=place[kernels],
            causes=causes_of_slices,
            sampled=sampled,
        )


def _factorize(keys: Int64) -> tuple[Int64, Int64]:
    if len(keys) > _FEW:
        return pd.factorize(keys)
    numbers: dict[int, int] = {}
    batch = [numbers.setdefault(key, len(numbers)) for key in keys.tolist()]
    return np.array(batch, np.int64), np.array(list(numbers), np.int64)


def _codes_of_frames(tables: Mapping[str, pd.DataFrame], frames: Sequence[str], label_count: int) -> Int64:
    """Return the code of each frame of the stacks: Python calls of the same name, such as a stamped line, share it."""
    names = pd.Index(tables["python"]["name"].cat.categories.astype(str))
    known = names.get_indexer(pd.Index(frames, dtype=names.dtype)) if len(frames) else np.zeros(0, np.int64)
    own = np.arange(len(frames)) + label_count - 1 - len(frames)
    return np.where(known >= 0, known + 1, own)  # the first layer's, after its absent name


def _add_stacked(nodes_so_far: Nodes, stacks: LaunchStacks, codes: Int64, frame_codes: Int64) -> Int64:
    """Add the frames of stacks, and the operators and calls below; return the node of each launching row."""
    at_frame = np.full(len(stacks.stacks), -1, np.int64)
    lengths = np.array([len(stack) for stack in stacks.stacks], np.int64)
    for level in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > level)
        frames = np.array([stacks.stacks[stack][level] for stack in longer.tolist()], np.int64)
        at_frame[longer] = nodes_so_far.find_or_add(at_frame[longer], frame_codes[frames])
    nodes = at_frame[stacks.numbers]
    for rows in stacks.chains():
        reached = np.flatnonzero(rows >= 0)
        nodes[reached] = nodes_so_far.find_or_add(nodes[reached], codes[rows[reached]])
    return nodes


def _name_codes(tables: Mapping[str, pd.DataFrame], frames: Sequence[str]) -> tuple[Int64, pd.DataFrame]:
    """Return a code for the name of each slice, and the names; the same name in two layers has two codes.

    The names of `frames`, which no slice has, come after those of slices.
    """
    codes, labels, first = [], [], 0
    for layer in (*LAYERS, "kernels"):
        names = tables[layer]["name"].cat
        codes.append(names.codes.to_numpy(np.int64) + 1 + first)  # -1, the absent name, gets the layer's first code
        labels.append(pd.DataFrame({"layer": layer, "name": [_UNNAMED, *names.categories]}))
        first += len(labels[-1])
    labels.append(pd.DataFrame({"layer": LAYERS[0], "name": [*frames, _OUTSIDE]}))  # the last ones
    return np.concatenate(codes), pd.concat(labels, ignore_index=True).astype({"layer": "category"})


def _merge_host(nodes_so_far: Nodes, callers: Int64, codes: Int64, is_kept: Bools) -> Int64:
    """Merge host slices level by level; return the node of each slice, or of the kept one around it."""
    nodes = np.full(len(callers), -1, np.int64)
    callers_kept = nearest(callers, callers, is_kept)
    for level in _levels(_depths(callers_kept)):
        rows = level[is_kept[level]]
        above = callers_kept[rows]
        nodes[rows] = nodes_so_far.add(np.where(above >= 0, nodes[above], -1), codes[rows])
    if len(other_values := np.flatnonzero(~is_kept)):
        around = nearest(callers, other_values, is_kept)
        nodes[other_values] = np.where(around >= 0, nodes[around], -1)
        outside = other_values[around < 0]
        nodes[outside] = nodes_so_far.add(
            np.full(len(outside), -1), np.full(len(outside), nodes_so_far.label_count - 1)
        )
    return nodes


def _levels(depths: Int64) -> Iterator[Int64]:
    order = np.argsort(depths, kind="stable")
    bounds = np.flatnonzero(np.diff(depths[order], prepend=-1, append=-1))
    return (order[low:high] for low, high in pairwise(bounds))


def _depths(parents: Int64) -> Int64:
    depths = (parents >= 0).astype(np.int64)
    above = parents.copy()
    rows = np.flatnonzero(above >= 0)
    while len(rows):  # every round doubles the number of callers counted
        depths[rows], above[rows] = depths[rows] + depths[above[rows]], above[above[rows]]
        rows = rows[above[rows] >= 0]
    return depths


def _sizes(parents: Int64) -> Int64:
    """Return the number of rows in each subtree; parents come before their children."""
    above = parents.tolist()
    sizes = [1] * len(above)
    for row in range(len(above) - 1, -1, -1):
        if above[row] >= 0:
            sizes[above[row]] += sizes[row]
    return np.array(sizes, np.int64)


def _places(parents: Int64, sizes: Int64) -> Int64:
    """Return the position of each row: callers directly before their callees, siblings in order."""
    places: list[int] = []
    free = [0] * (len(parents) + 1)  # where the next child of each row goes; the last one is the root
    for row, (parent, size) in enumerate(zip(parents.tolist(), sizes.tolist(), strict=True)):
        place = free[parent]
        places.append(place)
        free[parent] += size
        free[row] = place + 1
    return np.array(places, np.int64)
