"""The rows of a difference: a tree of the parts of a step and their components, matched between two sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof.analysis.accounting import BETWEEN_STEPS, NOT_RECORDED, PARTS
from npuprof.analysis.host_accounting import HOST
from npuprof.arrays import Int64
from npuprof.difference.owners import OWNERS
from npuprof.difference.replaced import Key, replaced
from npuprof.difference.side import WITHOUT_WORK, Side

NO_PATH = "(no call path)"
UNNAMED = "(no name)"
NOT_SPLIT = "not split"

_UNKNOWN_SHARE = 0.01  # of all step time: with more idle time of unknown cause, causes cannot be compared
_MOST_OF_STEP = 20_000  # maximum number of kernels and collectives that are aligned
_COMMUNICATION = ("waiting", "moving", "communication")


def nodes(a: Side, b: Side) -> tuple[pd.DataFrame, tuple[Int64, Int64]]:
    """Return the rows of the difference of two sides, and the deepest row of each kind of each side.

    Returns
    -------
    nodes
        ``parent`` (-1 at the top), ``depth``, ``part``, ``name`` and ``path``, sorted by depth.
    node
        For `a` and for `b`: the row in `nodes` of each of its :attr:`npuprof.difference.side.Side.kinds`.
    """
    kinds = pd.concat([a.kinds.assign(side=0), b.kinds.assign(side=1)], ignore_index=True)
    kinds["part"] = _parts(kinds, a, b)
    kinds["cause"] = _causes(kinds, a, b)
    with_ops, with_shapes, with_paths = (a.has(key) and b.has(key) for key in ("op", "shapes", "path"))
    if not with_ops:
        kinds["op"] = ""
    kinds["op"] = kinds["op"].where(kinds["op"] != "", kinds["type"])
    if not with_shapes:
        kinds["shapes"] = ""
    kinds["path"] = _common_paths(kinds) if with_paths else ""
    kinds["path"] = _set_replaced_paths(kinds, a, b)
    frame, node = _number(kinds, _levels(kinds))
    return frame, (node[: len(a.kinds)], node[len(a.kinds) :])


def _set_replaced_paths(kinds: pd.DataFrame, a: Side, b: Side) -> pd.Series[Any]:
    """Give kernels without a path the path of the kernels that they replace."""
    unknown = (kinds["part"] == "computing") & (kinds["path"] == "")
    if len(set(kinds["side"][unknown])) < 2:  # there is nothing to align with
        return kinds["path"]
    keys = list(map(_key, *(kinds[name].tolist() for name in ("part", "type", "shapes", "path", "nth"))))
    sequences = [[keys[offset + kind] for kind in _median_step(side)] for side, offset in ((a, 0), (b, len(a.kinds)))]
    labels = replaced(sequences[0], sequences[1])
    paths: pd.Series[Any] = kinds["path"].astype(object)
    rows = np.flatnonzero(unknown)
    paths.iloc[rows] = [
        labels[side].get(keys[row], "") for row, side in zip(rows, kinds["side"].to_numpy()[rows], strict=True)
    ]
    return paths


def _key(part: str, kind: str, shapes: str, path: str, nth: int) -> Key:
    """Return the key of a kernel or collective in the sequence of a step."""
    return (kind, shapes, path) if part == "computing" else (kind, "", f"#{nth}")


def _median_step(side: Side) -> list[int]:
    """Return the kinds of the kernels and collectives of a side's step of median duration, in order of time.

    A long step is truncated, since its layers repeat each other.
    """
    order = np.argsort(side.steps["duration_ns"].to_numpy(np.int64), kind="stable")
    stretches = side.stretches
    table = stretches["table"].to_numpy()
    selected_rows = np.flatnonzero(
        (stretches["unit"].to_numpy() == int(order[(len(order) - 1) // 2]))
        & (stretches["count"].to_numpy() > 0)
        & np.isin(table, [OWNERS.index("kernels"), OWNERS.index("communication")])
    )
    run, row = (stretches[name].to_numpy()[selected_rows] for name in ("run", "row"))
    starts = np.zeros(len(selected_rows), np.int64)
    for number, name in enumerate(OWNERS):
        of_table = np.flatnonzero(table[selected_rows] == number)
        if len(of_table):  # all from one step, and so from one run
            starts[of_table] = side.runs[int(run[of_table[0]])].tables[name]["start_ns"].to_numpy()[row[of_table]]
    # A collective that waits and moves has a stretch in each part; only the first is kept.
    in_order = selected_rows[np.argsort(starts, kind="stable")][:_MOST_OF_STEP]
    both = np.stack([table[in_order], stretches["row"].to_numpy()[in_order]])
    _, first = np.unique(both, axis=1, return_index=True)
    return [int(kind) for kind in side.kind[in_order[np.sort(first)]]]


def _parts(kinds: pd.DataFrame, a: Side, b: Side) -> pd.Series[Any]:
    """Return the parts, each that one side cannot separate from another as one with it.

    These are waiting and moving, and idle time and time between steps: a mark says where a step ends, but the kernels
    of a step only where the next one begins.
    """
    parts: pd.Series[Any] = kinds["part"].astype(object)
    if ((parts == "communication") & (kinds["duration_ns"] > 0)).any():
        parts = parts.where(~parts.isin(_COMMUNICATION), "communication")
    if len({basis for side in (a, b) for run in side.runs for basis in run.accounting.steps["basis"]}) > 1:
        parts = parts.where(parts != BETWEEN_STEPS, "idle")
    return parts


def _causes(kinds: pd.DataFrame, a: Side, b: Side) -> pd.Series[Any]:
    """Return the causes, of idle time only those that both sides record."""
    unknown = [_unknown_head(side) for side in (a, b)]
    unmeasured = {cause for side in (a, b) for run in side.runs for cause in run.accounting.unmeasured}
    idle = kinds["part"].isin(WITHOUT_WORK)
    by_side = [set(kinds["cause"][idle & (kinds["side"] == number)]) for number in (0, 1)]
    measured = [not causes or causes - {"unknown", "unexplained"} for causes in by_side]  # no idle time has no causes
    causes: pd.Series[Any] = kinds["cause"].where(~(idle & kinds["cause"].isin(unmeasured)), "unexplained")
    if not all(measured) or unknown[0] != unknown[1]:
        causes = kinds["cause"].where(~idle, NOT_SPLIT)
    return causes


def _unknown_head(side: Side) -> bool:
    """Return whether idle time at the start of steps is unknown."""
    unknown = side.kinds["duration_ns"][
        (side.kinds["cause"] == "unknown") & side.kinds["part"].isin(WITHOUT_WORK)
    ].sum()
    return bool(unknown > _UNKNOWN_SHARE * side.steps["duration_ns"].sum())


def _common_paths(kinds: pd.DataFrame) -> pd.Series[Any]:
    """Cut each path to its longest prefix on both sides, so that replaced operators are compared with the new ones."""
    computing = kinds["part"] == "computing"
    prefixes: list[set[str]] = []
    for number in (0, 1):
        of_side = kinds["path"][computing & (kinds["side"] == number)].unique()
        prefixes.append({prefix for path in of_side for prefix in _prefixes(path)})
    common = prefixes[0] & prefixes[1]
    cut = {
        path: next((prefix for prefix in _prefixes(path) if prefix in common), "") for path in kinds["path"].unique()
    }
    return kinds["path"].map(cut)


def _prefixes(path: str) -> list[str]:
    """Return a path and its ancestors, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1) if path]


def _levels(kinds: pd.DataFrame) -> list[pd.Series[Any]]:
    """Return the name of each kind at every depth; empty below its deepest row."""
    part = kinds["part"]
    computing, idle = part == "computing", part.isin(WITHOUT_WORK)
    collective = part.isin(_COMMUNICATION) & (kinds["type"] != "")
    copy = part == "copy"
    empty = pd.Series("", index=kinds.index, dtype=object)
    levels = [empty.copy() for _ in range(3)]
    caused = idle | (part == HOST)
    levels[0][caused] = kinds["cause"][caused]
    levels[0][collective | copy] = kinds["type"][collective | copy]
    levels[0][part.eq("communication") & (kinds["type"] == "")] = kinds["cause"]
    levels[1][collective] = (kinds["type"] + " #" + kinds["nth"].astype(str))[collective]
    op = kinds["op"].where(kinds["shapes"] == "", kinds["op"] + " " + kinds["shapes"])
    if bool((kinds["path"][computing] != "").any()):
        levels[0][computing] = kinds["path"][computing].where(kinds["path"][computing] != "", NO_PATH)
        inner = levels[1:]
    else:
        inner = levels[:2]
    inner[0][computing] = op[computing].where(op[computing] != "", "kernels")
    inner[1][computing] = kinds["type"][computing].where(kinds["op"][computing] != kinds["type"][computing], "")
    return [part, *levels]


def _number(kinds: pd.DataFrame, levels: Sequence[pd.Series[Any]]) -> tuple[pd.DataFrame, Int64]:
    node = np.full(len(kinds), -1, np.int64)
    frames: list[pd.DataFrame] = []
    count = 0
    for depth, level in enumerate(levels):
        if depth:  # unnamed siblings of named rows still count
            beside = (level == "").to_numpy(bool) & np.isin(node, node[(level != "").to_numpy(bool)])
            level = level.mask(beside, kinds["type"].where(kinds["type"] != "", UNNAMED))
        codes, names = pd.factorize(level) if depth else _part_numbers(level)
        below = np.flatnonzero((level != "").to_numpy(bool))
        number, distinct = pd.factorize((node[below] + 1) * (len(names) + 1) + codes[below], sort=True)
        example = below[np.unique(number, return_index=True)[1]]
        examples = kinds.iloc[example]
        frames.append(
            pd.DataFrame(
                {
                    "parent": distinct // (len(names) + 1) - 1,
                    "depth": depth,
                    "part": examples["part"].to_numpy(),
                    "name": np.asarray(names, dtype=object)[codes[example]],
                    "path": np.where(
                        (examples["part"] == "computing").to_numpy(bool) & (depth > 0), examples["path"], ""
                    ),
                }
            )
        )
        node[below] = number + count
        count += len(distinct)
    return pd.concat(frames, ignore_index=True), node


def _part_numbers(parts: pd.Series[Any]) -> tuple[Int64, list[str]]:
    """Return the number of each part in the order of the accounting, and the names of all parts."""
    names = (*PARTS[: PARTS.index("copy") + 1], "idle", BETWEEN_STEPS, NOT_RECORDED, HOST)
    number = {part: place for place, part in enumerate(names)}
    return parts.map(number).to_numpy(np.int64), list(number)
