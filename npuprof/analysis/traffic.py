"""Traffic of collectives: bytes, pairs of ranks, bandwidths and waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.intervals import Spans, subtract, union
from npuprof.arrays import Float64, Int64

_NS_PER_MS = 1_000_000
_BYTES_PER_MB = 1_000_000
VARIANTS = r"-(?:top|middle|bottom)\d*$"  # single operators that the vendor lists besides the total
_GROUP_END = 3  # digits of a group's hash in the names of operators
_ON_NODE_SUM = "SDMA"  # in the vendor's sums: HCCS, PCIe and SIO together

Statistics: TypeAlias = Mapping[str, pd.DataFrame]
Tables: TypeAlias = Mapping[str, pd.DataFrame]

_NO_TRAFFIC: pd.DataFrame = pd.DataFrame(
    {
        name: pd.Series(dtype=object)
        for name in ("src_rank", "dst_rank", "size_bytes", "duration_ns", "link", "tasks", "name")
    }
)


def rank_traffic(tables: Tables, statistics: Statistics) -> pd.DataFrame:
    """Sum the traffic between each pair of ranks.

    Returns
    -------
    pandas.DataFrame
        ``src_rank, dst_rank`` as text, ``size_bytes, duration_ns`` as floats, ``links`` (the kinds of links, separated
        by commas) and ``tasks`` (number of transfers, 0 for the vendor's sums). Ranks are global ranks; a rank of which
        only the number in its group is known is called ``1 of …128``, with the end of the group's name.
    """
    tasks = _transfers(tables["communication_tasks"])
    both = tasks[tasks["src_rank"].notna() & tasks["dst_rank"].notna()]
    if len(both):
        rows = pd.DataFrame(
            {
                **_rank_names(both, _task_groups(both, tables["communication"])),
                "size_bytes": both["size_bytes"].to_numpy(np.float64),
                "duration_ns": both["duration_ns"].to_numpy(np.float64),
                "link": _link_names(both),
                "tasks": 1,
            }
        )
        return _sum(rows)
    return _sum(_vendor_matrix(statistics))


def link_packets(tables: Tables, statistics: Statistics) -> pd.DataFrame:
    """Return the bandwidth of each link by packet size.

    Returns
    -------
    pandas.DataFrame
        ``link, size_bytes, count, gb_per_s`` (10**9 bytes per second, over the time of all transfers of that size) and
        ``whole``: whether the size is the total of an operator, because no file has its packets.
    """
    tasks = _transfers(tables["communication_tasks"])
    if len(tasks):
        rows = pd.DataFrame(
            {
                "link": _link_names(tasks),
                "size_bytes": tasks["size_bytes"].to_numpy(np.float64),
                "count": 1.0,
                "duration_ns": tasks["duration_ns"].to_numpy(np.float64),
                "whole": False,
            }
        )
    else:
        rows = _vendor_packets(statistics)
    sums = rows.groupby(["link", "size_bytes", "whole"], sort=True)[["count", "duration_ns"]].sum().reset_index()
    sums = sums[(sums["duration_ns"] > 0) & (sums["size_bytes"] > 0)].reset_index(drop=True)
    sums["gb_per_s"] = sums["size_bytes"] * sums["count"] / sums["duration_ns"]
    return sums[["link", "size_bytes", "count", "gb_per_s", "whole"]]


def operator_times(tables: Tables, statistics: Statistics) -> pd.DataFrame:
    """Split the time of collectives by group and type of operator.

    Returns
    -------
    pandas.DataFrame
        ``group, op_type, count``, ``transit_ns`` (data was moving), ``wait_ns`` (no data was moving, and the operator
        waited for a notification), ``other_ns`` and ``total_ns``, which is exactly their sum; longest first. If neither
        tasks nor the vendor's sums tell them apart, ``transit_ns`` and ``wait_ns`` are 0 and ``known`` is False.
    """
    operators = tables["communication"]
    tasks = tables["communication_tasks"]
    if not len(operators):
        return _vendor_times(statistics)
    duration = operators["duration_ns"].to_numpy(np.int64)
    linked = tasks[tasks["op_id"].notna()]
    is_known = len(linked) > 0
    transit, wait = _inside(operators, linked) if is_known else (np.zeros_like(duration), np.zeros_like(duration))
    rows = pd.DataFrame(
        {
            "group": _names(operators, "group"),
            "op_type": _kinds(operators),
            "count": 1,
            "transit_ns": transit,
            "wait_ns": wait,
            "other_ns": duration - transit - wait,
            "total_ns": duration,
        }
    )
    if not is_known and len(vendor := _vendor_times(statistics)):
        return vendor
    return _by_operator(rows, known=is_known)


def _by_operator(rows: pd.DataFrame, *, known: bool) -> pd.DataFrame:
    sums: pd.DataFrame = rows.groupby(["group", "op_type"], sort=True).sum().reset_index().assign(known=known)
    return sums.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)


def _inside(operators: pd.DataFrame, tasks: pd.DataFrame) -> tuple[Int64, Int64]:
    """Return for each operator the time in which data moved, and the time in which it only waited.

    Planes of an operator run concurrently, so the union of their tasks counts. Operators are laid end to end on a time
    line of their own, which separates operators that ran at the same time.
    """
    starts, duration = operators["start_ns"].to_numpy(np.int64), operators["duration_ns"].to_numpy(np.int64)
    offsets = np.concatenate([[0], np.cumsum(duration + 1)])
    row = tasks["op_id"].to_numpy(np.int64)
    fits = (row >= 0) & (row < len(operators))
    tasks, row = tasks[fits], row[fits]
    began = tasks["start_ns"].to_numpy(np.int64) - starts[row]
    ended = began + tasks["duration_ns"].to_numpy(np.int64)
    low, high = (np.clip(edge, 0, duration[row]) + offsets[row] for edge in (began, ended))
    waits = tasks["task_type"].astype(str).str.contains("wait", case=False).to_numpy(bool)
    moves = (tasks["size_bytes"] > 0).to_numpy(dtype=bool, na_value=False) & ~waits
    moving = union(low[moves], high[moves])
    waiting = subtract(union(low[waits], high[waits]), moving)
    return _sum_by_window(moving, offsets), _sum_by_window(waiting, offsets)


def _sum_by_window(spans: Spans, offsets: Int64) -> Int64:
    """Sum intervals by the window that contains them; none crosses a boundary."""
    sums = np.zeros(len(offsets) - 1, np.int64)
    np.add.at(sums, np.searchsorted(offsets, spans[0], side="right") - 1, spans[1] - spans[0])
    return sums


def _transfers(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return the tasks that moved data; notifications have no size."""
    moved = (tasks["size_bytes"] > 0).to_numpy(dtype=bool, na_value=False) & (tasks["duration_ns"] > 0).to_numpy(bool)
    return tasks[moved]


def _link_names(tasks: pd.DataFrame) -> list[str]:
    pairs = zip(tasks["link"].to_numpy(object), tasks["transport"].to_numpy(object), strict=True)
    return [next((name for name in pair if isinstance(name, str) and name), "unknown link") for pair in pairs]


def _names(frame: pd.DataFrame, column: str) -> list[str]:
    return [value if isinstance(value, str) else "" for value in frame[column].to_numpy(object)]


def _kinds(operators: pd.DataFrame) -> list[str]:
    pairs = zip(_names(operators, "op_type"), _names(operators, "name"), strict=True)
    return [op_type or _kind(name) for op_type, name in pairs]


def _kind(name: str) -> str:
    """Return the type in an operator's name: ``hcom_allReduce__586_0_1`` is an ``hcom_allReduce_``."""
    return name.partition("__")[0] + "_" * ("__" in name)


def _task_groups(tasks: pd.DataFrame, operators: pd.DataFrame) -> npt.NDArray[Any]:
    """Return the group name of each task."""
    row = tasks["op_id"].to_numpy(np.int64, na_value=-1)
    is_known = (row >= 0) & (row < len(operators))
    names: npt.NDArray[Any] = np.append(np.array(_names(operators, "group"), object), "")
    return names[np.where(is_known, row, -1)]


def _rank_names(frame: pd.DataFrame, groups: npt.NDArray[Any] | None) -> dict[str, npt.NDArray[Any]]:
    """Return names for both ranks of each transfer: the global rank, or else the number in the group."""
    named = {}
    for column in ("src_rank", "dst_rank"):
        names = frame[column].astype(str).to_numpy(object)
        ranks = frame.get(column.replace("_", "_global_"))
        if ranks is not None:
            is_known = ranks.notna().to_numpy()
            names[is_known] = ranks[is_known].astype(str)
            group_names = np.full(len(names), "") if groups is None else groups
            named_so = zip(names[~is_known], group_names[~is_known], strict=True)
            names[~is_known] = [f"{number} of …{group[-_GROUP_END:]}" for number, group in named_so]
        named[column] = names
    return named


def all_traffic(runs: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Sum the traffic of several runs, each a result of :func:`rank_traffic`."""
    parts = [_NO_TRAFFIC, *(run.rename(columns={"links": "link"}) for run in runs)]
    return _sum(pd.concat([part for part in parts if len(part)] or parts[:1]))


def _sum(rows: pd.DataFrame) -> pd.DataFrame:
    groups = rows.groupby(["src_rank", "dst_rank"], sort=False)
    sums: pd.DataFrame = groups[["size_bytes", "duration_ns", "tasks"]].sum().reset_index()
    kinds = [{name for link in links for name in link.split(", ")} for _, links in groups["link"]]
    sums["links"] = [", ".join(sorted(names)) for names in kinds]
    return sums


def link_transfers(tables: Tables, statistics: Statistics) -> pd.DataFrame:
    """Return the transfers of a run whose ranks are both known: from the vendor's sums, else from tasks.

    Returns
    -------
    pandas.DataFrame
        ``src_rank``, ``dst_rank``, ``transport``, ``op_type``, ``size_bytes`` and ``duration_ns``.
    """
    rows = _vendor_matrix(statistics)
    if not len(rows):
        rows = _task_transfers(tables)
    pairs = zip(rows["src_rank"], rows["dst_rank"], strict=True)
    rows = rows[np.array([str(source).isdecimal() and str(target).isdecimal() for source, target in pairs], bool)]
    return pd.DataFrame(
        {
            "src_rank": rows["src_rank"].astype("int64"),
            "dst_rank": rows["dst_rank"].astype("int64"),
            "transport": rows["link"].astype(str),
            "op_type": rows["name"].astype(str).str.removesuffix("-total"),
            "size_bytes": rows["size_bytes"].astype("float64").round().astype("int64"),
            "duration_ns": rows["duration_ns"].astype("float64").round().astype("int64"),
        }
    )


def _task_transfers(tables: Tables) -> pd.DataFrame:
    tasks, operators = _transfers(tables["communication_tasks"]), tables["communication"]
    row = tasks["op_id"].to_numpy(np.int64, na_value=-1)
    is_known = (row >= 0) & (row < len(operators))
    kinds = np.append(np.array(_kinds(operators), object), "")
    named = _rank_names(tasks, _task_groups(tasks, operators))
    columns = {"link": _link_names(tasks), "name": kinds[np.where(is_known, row, -1)]}
    sizes = tasks[["size_bytes", "duration_ns"]].reset_index(drop=True)
    return sizes.assign(**named, **columns)


def _vendor_matrix(statistics: Statistics) -> pd.DataFrame:
    frame = statistics.get("communication_matrix")
    needed_names = {"name", "src_rank", "dst_rank", "Transit Size(MB)", "Transit Time(ms)"}
    if frame is None or not needed_names <= set(frame.columns):
        return _NO_TRAFFIC
    frame = frame[~frame["name"].astype(str).str.contains(VARIANTS, regex=True).to_numpy(bool)]
    links = frame["Transport Type"].to_numpy(object) if "Transport Type" in frame else [""] * len(frame)
    return pd.DataFrame(
        {
            **_rank_names(frame, frame["group"].astype(str).to_numpy() if "group" in frame else None),
            "size_bytes": _numbers(frame, "Transit Size(MB)") * _BYTES_PER_MB,
            "duration_ns": _numbers(frame, "Transit Time(ms)") * _NS_PER_MS,
            "link": [link if isinstance(link, str) else "unknown link" for link in links],
            "tasks": frame["Count"].to_numpy(np.int64) if "Count" in frame else 0,
            "name": frame["name"].astype(str).to_numpy(object),
        }
    )


def _vendor_packets(statistics: Statistics) -> pd.DataFrame:
    packets, bandwidth = statistics.get("communication_packets"), statistics.get("communication_bandwidth")
    if packets is not None and {"link", "Package Size(MB)", "Count", "Total Duration(ms)"} <= set(packets.columns):
        frame, size, count, time = packets, "Package Size(MB)", _numbers(packets, "Count"), "Total Duration(ms)"
    elif bandwidth is not None and {"link", "Transit Size(MB)", "Transit Time(ms)"} <= set(bandwidth.columns):
        frame, size, count, time = bandwidth, "Transit Size(MB)", np.ones(len(bandwidth)), "Transit Time(ms)"
    else:
        return pd.DataFrame({name: [] for name in ("link", "size_bytes", "count", "duration_ns", "whole")})
    rows = pd.DataFrame(
        {
            "link": frame["link"].astype(str).to_numpy(),
            "size_bytes": _numbers(frame, size) * _BYTES_PER_MB,
            "count": count,
            "duration_ns": _numbers(frame, time) * _NS_PER_MS,
            "whole": frame is bandwidth,
        }
    )
    return rows[(rows["link"] != _ON_NODE_SUM).to_numpy() & (rows["size_bytes"] > 0).to_numpy()]


def _vendor_times(statistics: Statistics) -> pd.DataFrame:
    frame = statistics.get("communication")
    columns = ("Elapse Time(ms)", "Transit Time(ms)", "Wait Time(ms)")
    if frame is None or not {"name", "group", *columns} <= set(frame.columns):
        empty = {name: pd.Series(dtype="int64") for name in ("count", "transit_ns", "wait_ns", "other_ns", "total_ns")}
        return pd.DataFrame({"group": [], "op_type": [], **empty, "known": pd.Series(dtype=bool)})
    elapsed, transit, wait = (
        np.rint(_numbers(frame, column) * _NS_PER_MS).astype(np.int64) for column in columns
    )  # milliseconds with five or six decimals, not epoch times: rounded back to integer nanoseconds
    transit = np.minimum(transit, elapsed)
    wait = np.minimum(wait, elapsed - transit)
    rows = pd.DataFrame(
        {
            "group": _names(frame, "group"),
            "op_type": [_kind(name) for name in _names(frame, "name")],
            "count": 1,
            "transit_ns": transit,
            "wait_ns": wait,
            "other_ns": elapsed - transit - wait,
            "total_ns": elapsed,
        }
    )
    return _by_operator(rows, known=True)


def _numbers(frame: pd.DataFrame, column: str) -> Float64:
    values: Float64 = pd.to_numeric(frame[column], errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, 0.0)
