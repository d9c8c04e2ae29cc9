"""Build ``communication`` from the kernels of collectives, and find the members of their groups.

Source: sources/RESULTS.md section 8.2.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, Records
from npuprof.sources.columns.builders import ABSENT, GatheredColumns, optional, recoded
from npuprof.sources.kineto.facts import purpose_of
from npuprof.sources.kineto.kernel_names import short_name
from npuprof.sources.trace.collective_names import operation_of
from npuprof.sources.trace.maker import names
from npuprof.sources.trace.torch_categories import COLLECTIVE, KERNEL

_ALGORITHM = re.compile(
    r"(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|NVLS_TREE|NVLS|PAT)_?(LL128|LL|SIMPLE)?(?![a-z])", re.IGNORECASE
)
_RANK = re.compile(r"\d{1,6}")
_BYTES_OF = {
    **dict.fromkeys(("byte", "char", "bool", "qint8", "quint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "uint16"), 2),
    **dict.fromkeys(("float", "int", "uint32", "complexhalf"), 4),
    **dict.fromkeys(("double", "long", "uint64", "complexfloat"), 8),
    "complexdouble": 16,
}


def are_collectives(slices: GatheredColumns, task: pd.DataFrame) -> Bools:
    """Return which device tasks are collectives: by their arguments, their category, or the name of the kernel."""
    symbols = task["name"].cat.categories
    by_name = np.array([*(operation_of(name, short_name(name)) is not None for name in symbols), False], np.bool_)
    is_kernel = (task["task_type"] == KERNEL).to_numpy(bool)
    of_library = (task["task_type"] == COLLECTIVE).to_numpy(bool)
    return (slices["collective"] >= 0) | of_library | (is_kernel & by_name[task["name"].cat.codes.to_numpy()])


def communication_table(slices: GatheredColumns, task: pd.DataFrame, rows: Records) -> pd.DataFrame:
    """Build ``communication`` without steps, of the given rows of the tasks."""
    chosen = task.iloc[rows].reset_index(drop=True)
    columns: dict[str, Any] = {
        name: chosen[name] for name in ("start_ns", "duration_ns", "device_id", "name", "connection_id")
    }
    columns["name"] = chosen["name"].cat.remove_unused_categories()
    columns["op_type"] = _operations(slices, rows)
    for name, source in {"group": "group", "data_type": "data_type", "input_splits": "splits"}.items():
        columns[name] = names(slices, source, rows)
    columns["algorithm"] = names(slices, "name", rows, _algorithm)
    for name in ("count", "rank_size", "src_rank", "dst_rank"):
        columns[name] = optional(slices[name][rows])
    columns["size_bytes"] = _sizes(slices, rows)
    return tables.build("communication", columns)


def groups_in(slices: GatheredColumns) -> dict[str, dict[str, Any]]:
    """Return purpose and ranks of the process groups that the arguments of collectives name, by the group's name."""
    if not len(slices):
        return {}
    columns = {name: slices.names(name) for name in ("group", "group_use", "group_ranks")}
    rows = {tuple(row) for row in np.column_stack([slices[name] for name in columns]).tolist()}
    groups: dict[str, dict[str, Any]] = {}
    for group, use, ranks in sorted(rows):
        if group >= 0:
            members = columns["group_ranks"][ranks] if ranks >= 0 else ""
            kind = purpose_of(columns["group_use"][use]) if use >= 0 else ""
            complete = [] if "..." in members else [int(rank) for rank in _RANK.findall(members)]
            groups[columns["group"][group]] = {"group_name": kind, "global_ranks": complete}
    return groups


def _operations(slices: GatheredColumns, rows: Records) -> pd.Categorical:
    """Return the type of each operator, as the arguments name it, or else the name of its kernel."""
    named, kinds = slices["collective"][rows], slices.names("collective")
    by_name = [operation_of(name, short_name(name)) for name in slices.names("name")]
    codes = np.where(named >= 0, named, len(kinds) + slices["name"][rows])
    return recoded(codes, [*kinds, *by_name])


def _algorithm(symbol: str) -> str | None:
    """Return algorithm and protocol in the name of a kernel: ``RING_LL128``."""
    match = _ALGORITHM.search(short_name(symbol))
    return match and "_".join(part.upper() for part in match.groups() if part)


def _sizes(slices: GatheredColumns, rows: Records) -> Any:
    """Return the bytes of the input of each collective."""
    widths = np.array([*(_BYTES_OF.get(name.lower(), ABSENT) for name in slices.names("data_type")), ABSENT], np.int64)
    width, count = widths[slices["data_type"][rows]], slices["count"][rows]
    is_known = (width != ABSENT) & (count >= 0) & (count < 1 << 58)
    sizes: Int64 = np.where(is_known, count, 0) * np.where(is_known, width, 0)
    return optional(np.where(is_known, sizes, ABSENT))
