"""A small cluster of two pipeline stages with two ranks each, written here in each form that the vendor has had."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

STEP_HEAD = (
    "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive)"
)
NEW_HEAD = f"{STEP_HEAD},Preparing,DP Index,PP Index,TP Index"
STEP_ROWS = [
    ["3", "rank", "0", "75.1745", "4.5", "1.0", "5.5", "3.0", "90.25", "0.0", "4.5", "2.25", "0", "0", "0"],
    ["3", "rank", "1", "80.0", "4.0", "1.0", "5.0", "2.0", "90.0", "0.0", "4.0", "2.0", "1", "0", "0"],
    ["3", "rank", "2", "60.0", "9.0", "0.0", "9.0", "8.0", "70.0", "5.0", "4.0", "3.0", "0", "1", "0"],
    ["3", "rank", "3", "61.0", "9.5", "0.0", "9.5", "8.5", "71.0", "5.5", "4.0", "3.5", "1", "1", "0"],
    ["3", "stage", "(0, 1)", "80.0", "4.5", "1.0", "5.5", "3.0", "90.25", "0.0", "4.5", "2.25", "", "", ""],
    ["3", "stage", "(2, 3)", "61.0", "9.5", "0.0", "9.5", "8.5", "71.0", "5.5", "4.0", "3.5", "", "", ""],
]
GROUPS = [
    ("collective", [0, 1], "739319275709983152", "10.0.0.1%eth0_1", "dp"),
    ("collective", [2, 3], "839319275709983152", "10.0.0.2%eth0_1", "dp"),
    ("collective", [0, 2], "11111", "10.0.0.1%eth0_2", "pp"),
    ("collective", [0, 1, 2, 3], "22222", "10.0.0.1%eth0_0", "default_group"),
    ("p2p", [0, 1, 2, 3], "", "", ""),
]
GROUP = GROUPS[0][2]
STARTED_US = 1736408883674584.75
TIMES = {
    "Start Timestamp(us)": STARTED_US,
    "Elapse Time(ms)": 0.9,
    "Transit Time(ms)": 0.6,
    "Wait Time(ms)": 0.2,
    "Synchronization Time(ms)": 0.1,
    "Idle Time(ms)": 0.1,
    "Wait Time Ratio": 0.25,
    "Synchronization Time Ratio": 0.125,
}
LINK = {"Transit Size(MB)": 4.0, "Transit Time(ms)": 0.6, "Bandwidth(GB/s)": 6.667, "Large Packet Ratio": 0.5}
PAIR = {"Transport Type": "HCCS", "Transit Size(MB)": 4.0, "Transit Time(ms)": 0.6, "Bandwidth(GB/s)": 6.667}
REDUCE = f"hcom_allReduce__152_0_1@{GROUP}"


def steps_csv(*, new: bool = True) -> str:
    width = len((NEW_HEAD if new else STEP_HEAD).split(","))
    rows = [[f'"{cell}"' if "," in cell else cell for cell in row[:width]] for row in STEP_ROWS]
    return "\r\n".join([NEW_HEAD if new else STEP_HEAD, *(",".join(row) for row in rows), ""])


def groups_json(*, new: bool = True) -> dict[str, Any]:
    plain: dict[str, Any] = {"collective": [], "p2p": []}
    for kind, ranks, *_ in GROUPS:
        plain[kind].append(ranks)
    if new:
        names = ("type", "rank_set", "group_name", "group_id", "pg_name")
        plain["comm_group_parallel_info"] = [dict(zip(names, group, strict=True)) for group in GROUPS]
    return plain


def communication_json(kind: str = "collective") -> dict[str, Any]:
    links = {"SDMA": {**LINK, "Size Distribution": {"2.0": [3, 0.4], "0.5": [1, 0.2]}}, "RDMA": {**LINK}}
    one = {"Communication Time Info": TIMES, "Communication Bandwidth Info": links}
    return {"p2p": {}, kind: {"step3": {REDUCE: {"0": one, "1": one}, "Total Op Info": {"0": one, "1": one}}}}


def matrix_json(kind: str = "collective") -> dict[str, Any]:
    pairs = {"0-0": {**PAIR, "Transport Type": "LOCAL"}, "0-1": PAIR}
    return {kind: {"step3": {REDUCE: pairs, "Total Op Info": pairs}}}


def text_result(folder: Path) -> Path:
    """Write the four text files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster_step_trace_time.csv").write_text(steps_csv())
    for name, plain in (
        ("communication_group", groups_json()),
        ("cluster_communication", communication_json()),
        ("cluster_communication_matrix", matrix_json()),
    ):
        (folder / f"{name}.json").write_text(json.dumps(plain))
    return folder


def database(path: Path, *, old: bool = False) -> Path:
    """Write the same as a database, with the tables of 2024 or those of later."""
    durations = (
        "computing communication_not_overlapped overlapped communication free stage bubble "
        "communication_not_overlapped_and_exclude_receive"
    )
    steps = f"step type index {durations}" + ("" if old else " preparing dp_index pp_index tp_index")
    width = len(steps.split())
    where = ("rank_set " if old else "") + "step rank_id hccl_op_name group_name"
    between = where.replace("rank_id ", "") + " src_rank dst_rank"
    name, _, group = REDUCE.partition("@")
    owned = ["(0,1)"] if old else []
    at = [[*owned, "step3", rank, one, group] for one in (name, "Total Op Info") for rank in (0, 1)]
    pairs = [
        [*owned, "step3", one, group, *pair]
        for one in (name, "Total Op Info")
        for pair in (("0", "0", "LOCAL"), ("0", "1", "HCCS"))
    ]
    times = list(TIMES.values())
    sizes = [(2.0, 3, 0.4), (0.5, 1, 0.2)]
    link = list(LINK.values())
    stem = "ClusterCommAnalyzer" if old else "ClusterCommunication"
    with closing(sqlite3.connect(path)) as connection:
        _add(connection, "ClusterStepTraceTime", steps, [_cells(row[:width]) for row in STEP_ROWS])
        _add(
            connection,
            f"{stem}Time",
            f"{where} start_timestamp {'elapse_time' if old else 'elapsed_time'} transit_time wait_time "
            "synchronization_time idle_time wait_time_ratio synchronization_time_ratio",
            [[*one, *times] for one in at],
        )
        _add(
            connection,
            f"{stem}Bandwidth",
            f"{where} band_type transit_size transit_time bandwidth large_packet_ratio package_size count "
            "total_duration",
            [[*one, "SDMA", *link, *size] for one in at for size in sizes]
            + [[*one, "RDMA", *link, None, None, None] for one in at],
        )
        _add(
            connection,
            f"{stem}Matrix",
            f"{between} transport_type transit_size transit_time bandwidth op_name",
            [[*one, 4.0, 0.6, 6.667, "op"] for one in pairs],
        )
        sets = [(kind, f"({','.join(map(str, ranks))})", *rest) for kind, ranks, *rest in GROUPS]
        if old:
            _add(connection, "CommunicationGroup", "type rank_set", [one[:2] for one in sets])
        else:
            _add(connection, "CommunicationGroupMapping", "type rank_set group_name group_id pg_name", sets)
            sizes_of = json.dumps({"world_size": 5, "tensor_model_parallel_size": 1})
            _add(connection, "ClusterBaseInfo", "key value", [("distributed_args", sizes_of), ("note", "plain")])
            _add(connection, "HostInfo", "hostUid hostName", [("7", "alpha"), ("8", "beta")])
            devices = [(rank, rank % 2, "78"[rank // 2], "") for rank in range(4)]
            _add(connection, "RankDeviceMap", "rankId deviceId hostUid profilePath", devices)
            _add(connection, "HcclAllRankStats", "OpType Count MeanNs", [("allReduce", 2, 900.5)])
        connection.commit()
    return path


def _cells(row: Sequence[str]) -> list[Any]:
    whose = row[:3]
    return [*whose, *(float(cell) if "." in cell else int(cell) if cell else None for cell in row[3:])]


def _add(connection: sqlite3.Connection, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
    names = columns.split()
    connection.execute(f'CREATE TABLE "{table}" ({", ".join(f""" "{name}" """ for name in names)})')
    connection.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(names))})', rows)
