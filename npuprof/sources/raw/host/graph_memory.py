"""What graph compilation recorded: the memory of operators that a graph plans ahead, and operators that it fused.

Frames have the names and columns of the vendor's files, sizes in KB of 1024 bytes.

Source: raw/FORMAT.md section 4.2 and sources/RESULTS.md section 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from npuprof.sources.raw.host.calls import Api
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.host.reader import Host
from npuprof.sources.raw.records import enums, layouts

_KB = 1024.0
_END_OF_GRAPH = 0xFFFFFFFF
_MEMORY = ("Input", "Output", "Weight", "Workspace", "Total")


def read_statistics(host: Host, api: Api) -> dict[str, pd.DataFrame]:
    """Read both, by the name of the vendor's file; what the run does not have is left out."""
    frames = {"static_op_mem": read_static_memory(host), "fusion_op": read_fused_operators(host, api)}
    return {name: frame for name, frame in frames.items() if len(frame)}


def read_static_memory(host: Host) -> pd.DataFrame:
    """Read static_op_mem as the vendor's ``static_op_mem`` file; a block until the graph's end has no last node."""
    records, _ = host.read("additional.static_op_mem", layouts.STATIC_MEMORY)
    nodes = {name: records[name].astype(np.int64) for name in ("first_node", "last_node")}
    frame: pd.DataFrame = pd.DataFrame(
        {
            "Device_id": _constant("host", len(records)),
            "Op Name": host.names.names_of(records["op_name"]).categorical(),
            "Model Name": host.names.names_of(records["model"]).where(records["model"] != 0).categorical(),
            "Graph ID": records["graph"].astype(np.int64),
            "Node Index Start": nodes["first_node"],
            "Node Index End": pd.arrays.IntegerArray(nodes["last_node"], nodes["last_node"] == _END_OF_GRAPH),
            "Size(KB)": records["size"].astype(np.int64) / _KB,
        }
    )
    return frame


def read_fused_operators(host: Host, api: Api) -> pd.DataFrame:
    """Read fusion_op_info as the vendor's ``fusion_op`` file; models are named by graph_id_map."""
    records, _ = host.read("additional.fusion_op_info", layouts.FUSION_OP)
    graphs, _ = host.read("additional.graph_id_map", layouts.GRAPH_ID)
    models = {model: host.names.name_of(name) for model, name in zip(*_lists(graphs, "model", "name"), strict=True)}
    call = take(api.nearest(enums.MODEL), api.at(records["thread"], records["stamp"])) if len(records) else None
    model = np.zeros(0, np.int64) if call is None else take(api.model[api.rows].astype(np.int64), call)
    counts = np.minimum(records["count"], records["parts"].shape[1]).tolist()
    parts = zip(records["parts"].tolist(), counts, strict=True)
    columns: dict[str, Any] = {
        "Device_id": _constant("host", len(records)),
        "Model Name": pd.Categorical([models.get(number) for number in model.tolist()]),
        "Model ID": pd.arrays.IntegerArray(model, model < 0),
        "Fusion Op": host.names.names_of(records["op_name"]).categorical(),
        "Original Ops": pd.Categorical([";".join(map(host.names.name_of, names[:count])) for names, count in parts]),
    }
    for number, kind in enumerate(_MEMORY):
        columns[f"Memory {kind}(KB)"] = records["memory"][:, number].astype(np.float64) / _KB
    frame: pd.DataFrame = pd.DataFrame(columns)
    return frame


def _lists(records: Any, *fields: str) -> list[list[int]]:
    return [records[field].tolist() for field in fields]


def _constant(name: str, count: int) -> pd.Categorical:
    return pd.Categorical.from_codes(np.zeros(count, np.int8), categories=pd.Index([name], dtype="object"))
