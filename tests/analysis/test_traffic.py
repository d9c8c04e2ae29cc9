"""What collectives moved and how long they waited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.analysis.traffic import link_packets, operator_times, rank_traffic
from npuprof.tables.schema import SCHEMA
from tests import factories

_tasks = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(-20, 120),
        st.integers(0, 60),
        st.sampled_from(["Memcpy", "Notify_Wait", "Other"]),
    ),
    max_size=30,
)


def operators(durations: list[int]) -> pd.DataFrame:
    count = len(durations)
    return tables.build(
        "communication",
        {
            "start_ns": factories.START_NS + 10 * np.arange(count),  # they run at the same time
            "duration_ns": np.array(durations, np.int64),
            "device_id": np.zeros(count, np.int64),
            "name": [f"hcom_allReduce__1_{number}" for number in range(count)],
            "op_type": ["hcom_allReduce_"] * count,
            "group": ["world", "pair"] * (count // 2),
        },
    )


def tasks(rows: list[dict[str, Any]]) -> pd.DataFrame:
    wanted = {column.name for column in SCHEMA["communication_tasks"].columns}
    columns: dict[str, Any] = {
        name: [row.get(name) for row in rows] for name in wanted if any(name in row for row in rows)
    }
    whole = {"op_id", "plane_id", "src_rank", "dst_rank", "size_bytes"}
    columns = {name: pd.array(values, "Int64") if name in whole else values for name, values in columns.items()}
    for name in ("start_ns", "duration_ns", "device_id"):
        columns[name] = np.array([row.get(name, 0) for row in rows], np.int64)
    return tables.build("communication_tasks", columns)


@pytest.mark.slow
@given(_tasks)
def test_parts_of_operators_balance_and_count_each_nanosecond_once(rows: list[tuple[int, int, int, str]]) -> None:
    durations = [100, 0, 40, 75]
    made = operators(durations)
    starts = made["start_ns"].tolist()
    told = [
        {
            "op_id": op,
            "start_ns": starts[op] + start,
            "duration_ns": length,
            "task_type": kind,
            "size_bytes": 8 if kind == "Memcpy" else 0,
        }
        for op, start, length, kind in rows
    ]
    times = operator_times(factories.all_tables(communication=made, communication_tasks=tasks(told)), {})
    assert (times[["transit_ns", "wait_ns", "other_ns"]].sum(axis=1) == times["total_ns"]).all()
    assert (times[["transit_ns", "wait_ns", "other_ns"]] >= 0).all().all()
    assert times["total_ns"].sum() == sum(durations)
    moved = waited = 0
    for op, duration in enumerate(durations):
        of_kind = {
            wanted: {
                moment
                for other, start, length, kind in rows
                if other == op and kind == wanted
                for moment in range(max(start, 0), min(start + length, duration))
            }
            for wanted in ("Memcpy", "Notify_Wait")
        }
        moved += len(of_kind["Memcpy"])
        waited += len(of_kind["Notify_Wait"] - of_kind["Memcpy"])
    assert times["transit_ns"].sum() == moved
    assert times["wait_ns"].sum() == waited
    assert times["known"].tolist() == [bool(rows)] * len(times)


def test_task_of_missing_operator_is_left_out() -> None:
    lost = tasks([{"op_id": 9, "duration_ns": 5, "task_type": "Memcpy", "size_bytes": 1}])
    times = operator_times(factories.all_tables(communication=operators([10, 10]), communication_tasks=lost), {})
    assert times["transit_ns"].sum() == 0


def test_traffic_is_summed_for_each_pair_of_ranks() -> None:
    one = {"duration_ns": 10, "size_bytes": 100, "src_rank": 0, "dst_rank": 1, "link": "HCCS"}
    rows = [one, one, {**one, "dst_rank": 2, "link": "RDMA"}, {**one, "dst_rank": None}, {**one, "size_bytes": 0}]
    traffic = rank_traffic(factories.all_tables(communication_tasks=tasks(rows)), {})
    found = traffic.set_index(["src_rank", "dst_rank"])
    assert found["size_bytes"].to_dict() == {("0", "1"): 200.0, ("0", "2"): 100.0}
    assert found["tasks"].tolist() == [2, 1]
    assert found["links"].tolist() == ["HCCS", "RDMA"]


def test_the_vendors_totals_are_taken_and_its_picks_are_not() -> None:
    matrix = pd.DataFrame(
        {
            "name": ["allreduce-top1", "allreduce-total", "hcom_send__822_0"],
            "src_rank": ["0", "0", "1"],
            "dst_rank": ["1", "1", "0"],
            "Transport Type": ["HCCS"] * 3,
            "Transit Size(MB)": [1.0, 4.0, 2.0],
            "Transit Time(ms)": [1.0, 2.0, None],
        }
    )
    traffic = rank_traffic(factories.all_tables(), {"communication_matrix": matrix})
    assert traffic["size_bytes"].tolist() == [4e6, 2e6]
    assert traffic["duration_ns"].tolist() == [2e6, 0.0]
    assert traffic["tasks"].tolist() == [0, 0]


def test_bandwidth_covers_all_transfers_of_a_size() -> None:
    one = {"size_bytes": 1_000, "link": "HCCS", "transport": "SDMA"}
    rows = [{**one, "duration_ns": 100}, {**one, "duration_ns": 300}, {**one, "duration_ns": 50, "link": None}]
    packets = link_packets(factories.all_tables(communication_tasks=tasks(rows)), {}).set_index("link")
    assert packets.loc["HCCS", "gb_per_s"] == pytest.approx(5.0)
    assert packets.loc["HCCS", "count"] == 2
    assert packets.loc["SDMA", "gb_per_s"] == pytest.approx(20.0)
    assert not packets["whole"].any()


def test_the_vendors_packets_leave_out_its_sum_of_links() -> None:
    frame = pd.DataFrame(
        {
            "link": ["SDMA", "HCCS", "RDMA"],
            "Transit Size(MB)": [2.0, 2.0, 0.0],
            "Transit Time(ms)": [1.0, 1.0, 0.0],
        }
    )
    packets = link_packets(factories.all_tables(), {"communication_bandwidth": frame})
    assert packets["link"].tolist() == ["HCCS"]
    assert packets["gb_per_s"].tolist() == [2.0]
    assert packets["whole"].all()


def test_the_vendors_times_are_taken_where_no_task_is_known() -> None:
    frame = pd.DataFrame(
        {
            "name": ["hcom_allReduce__586_0_1", "hcom_allReduce__586_1_1"],
            "group": ["586", "586"],
            "Elapse Time(ms)": [1.0, 2.000001],
            "Transit Time(ms)": [0.25, 1.0],
            "Wait Time(ms)": [0.5, 5.0],
        }
    )
    (row,) = operator_times(factories.all_tables(), {"communication": frame}).to_dict("records")
    assert (row["op_type"], row["count"], row["known"]) == ("hcom_allReduce_", 2, True)
    assert (row["transit_ns"], row["wait_ns"], row["other_ns"]) == (1_250_000, 1_500_001, 250_000)
    assert row["total_ns"] == 3_000_001


def test_a_run_without_transfers_has_no_traffic() -> None:
    run = factories.all_tables()
    assert [len(found(run, {})) for found in (rank_traffic, link_packets, operator_times)] == [0, 0, 0]
