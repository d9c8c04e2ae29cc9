"""Comparisons with the vendor's csv files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from .vendor import ROUNDED_NS, Check, Sample, ns, number, rows, text_or_none

_ROUNDED = 0.00051  # three decimals


def _spread(durations: pd.Series[Any]) -> tuple[float, ...]:
    """Total, shortest, mean and longest, in microseconds."""
    in_us = durations / 1000
    return in_us.sum(), in_us.min(), in_us.mean(), in_us.max()


def api_statistic(sample: Sample) -> int:
    frame = sample.table("api")
    found = {
        (level, name): (*_spread(calls), len(calls), (calls / 1000).var(ddof=0))
        for (level, name), calls in frame.groupby(["level", "name"], observed=True)["duration_ns"]
    }
    columns = ("Time(us)", "Min(us)", "Avg(us)", "Max(us)", "Count", "Variance")
    expected = {
        (row["Level"], row["API Name"]): pytest.approx(tuple(float(row[name]) for name in columns), abs=_ROUNDED)
        for row in sample.csv("api_statistic")
    }
    assert found == expected
    return len(expected)


def _by_type(frame: pd.DataFrame, keys: list[str]) -> dict[Any, tuple[float, ...]]:
    total = frame["duration_ns"].sum()
    return {
        key: (*_spread(part), len(part), 100 * part.sum() / total)
        for key, part in frame.groupby(keys, observed=True)["duration_ns"]
    }


def _expected_by_type(found: Iterable[Mapping[str, str]], keys: tuple[str, ...]) -> dict[Any, Any]:
    columns = ("Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)", "Count", "Ratio(%)")
    return {
        tuple(row[key] for key in keys): pytest.approx(tuple(float(row[name]) for name in columns), abs=_ROUNDED)
        for row in found
    }


def op_statistic(sample: Sample) -> int:
    expected = _expected_by_type(sample.csv("op_statistic"), ("OP Type", "Core Type"))
    assert _by_type(sample.table("kernels"), ["op_type", "core"]) == expected
    return len(expected)


def communication_statistic(sample: Sample) -> int:
    expected = _expected_by_type(sample.csv("communication_statistic"), ("OP Type",))
    assert _by_type(sample.table("communication"), ["op_type"]) == expected
    return len(expected)


_PLAIN = {
    "Op Name": "op_name",
    "OP Type": "op_type",
    "OP State": "op_state",
    "Task Type": "core",
    "Input Shapes": "input_shapes",
    "Input Data Types": "input_dtypes",
    "Input Formats": "input_formats",
    "Output Shapes": "output_shapes",
    "Output Data Types": "output_dtypes",
    "Output Formats": "output_formats",
}
_NUMBERS = {
    "Device_id": "device_id",
    "Model ID": "model_id",
    "Task ID": "task_id",
    "Stream ID": "stream_id",
    "Block Num": "block_num",
    "Mix Block Num": "mix_block_num",
    "Context ID": "context_id",
}
_TIMES = ("Task Start Time(us)", "Task Duration(us)", "Task Wait Time(us)", "HF32 Eligible")


def op_summary(sample: Sample) -> int:
    wanted = sample.csv("op_summary")
    kernels = [row for row in wanted if row["Task Type"] != "COMMUNICATION"]
    frame = sample.table("kernels")
    assert len(kernels) == len(frame)
    plain = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row, found in zip(kernels, plain, strict=True):
        _kernel(row, found)
    collectives = [row for row in wanted if row["Task Type"] == "COMMUNICATION"]
    own = rows(sample.table("communication"), "name", "op_type", "device_id", "start_ns", "duration_ns")
    assert own == [
        (
            *(row["Op Name"], row["OP Type"], int(row["Device_id"])),
            *(ns(row["Task Start Time(us)"]), ns(row["Task Duration(us)"])),
        )
        for row in collectives
    ]
    return len(kernels) + len(collectives)


def _kernel(row: Mapping[str, str], found: Mapping[Any, Any]) -> None:
    assert {name: found[name] for name in _PLAIN.values()} == {
        name: text_or_none(row[column]) for column, name in _PLAIN.items()
    }
    assert {name: found.get(name) for name in _NUMBERS.values()} == {
        name: number(row[column]) for column, name in _NUMBERS.items()
    }
    assert (found["start_ns"], found["duration_ns"]) == (ns(row[_TIMES[0]]), ns(row[_TIMES[1]]))
    # the vendor computes in doubles of epoch microseconds: a grain of 0.25 us
    assert abs(found["wait_ns"] - Decimal(row[_TIMES[2]]) * 1000) <= 250
    assert found["hf32"] is (row[_TIMES[3]] == "YES")
    for column, text in row.items():
        if column not in (*_PLAIN, *_NUMBERS, *_TIMES):
            name, worth = _counter(column)
            # a core that wrote nothing: absent here, zero there
            assert (found.get(name) or 0.0) / worth == pytest.approx(float(text), abs=_ROUNDED), column


def _counter(column: str) -> tuple[str, float]:
    """Our column, and how much of it one of the vendor's unit is."""
    known = {"aicore_time(us)": "aic_total_time(us)", "aiv_time(us)": "aiv_total_time(us)"}
    name = known.get(column, column)
    if name.startswith("cube"):
        return "cube_utilization_percent", 1.0
    return (name.replace("(us)", "_ns"), 1000.0) if name.endswith("(us)") else (name, 1.0)


def hbm(sample: Sample) -> int:
    counters = sample.table("counters")
    wanted = sample.csv("hbm")
    for row in wanted:
        for kind in ("read", "write"):
            chosen = counters["counter"] == f"HBM {kind}"
            if row["Metric"] != "Average":
                chosen &= counters["instance"] == row["Metric"]
            values = counters.loc[chosen, "value"].fillna(0)  # the first interval is none; the vendor counts a 0
            assert values.mean() == pytest.approx(float(row[f"{kind.title()}(MB/s)"]), abs=2 * _ROUNDED)
    return len(wanted)


def hccs(sample: Sample) -> int:
    counters = sample.table("counters")
    wanted = sample.csv("hccs")
    for row in wanted:
        values = counters.loc[counters["counter"] == f"HCCS {row['Mode'].split()[0]}", "value"].dropna()
        assert (values.max(), values.min(), values.mean()) == pytest.approx(
            tuple(float(row[name]) for name in ("Max", "Min", "Average")), abs=_ROUNDED
        )
    return len(wanted)


_PCIE_MODES = {"p": "post", "np": "nonpost", "cpl": "cpl", "latency": "nonpost_latency"}


def pcie(sample: Sample) -> int:
    counters = sample.table("counters")
    wanted = sample.csv("pcie")
    for row in wanted:
        side, mode, _ = row["Mode"].split("_")
        name = f"PCIe {_PCIE_MODES[mode]} {side}"
        for column, pick in (("Min", "min"), ("Max", "mean"), ("Avg", "max")):
            # the vendor's file has the smallest, the mean and the largest of the averages below these three names
            value = counters.loc[counters["counter"] == name, "value"].agg(pick)
            assert value == pytest.approx(float(row[column]), abs=_ROUNDED), (row, column)
    return len(wanted)


_PORT = {
    "Bandwidth(MB/s)": "Bandwidth",
    "Rx Bandwidth efficiency(%)": "Port Rx Bandwidth Efficiency",
    "Tx Bandwidth efficiency(%)": "Port Tx Bandwidth Efficiency",
    "rxError rate(%)": "Port Rx Error Rate",
    "txError rate(%)": "Port Tx Error Rate",
    "rxDropped rate(%)": "Port Rx Dropped Rate",
    "txDropped rate(%)": "Port Tx Dropped Rate",
}


def _network(label: str) -> Check:
    def check(sample: Sample) -> int:
        counters = sample.table("counters")
        (row,) = sample.csv(label.lower())
        for column, name in _PORT.items():
            own = counters[(counters["counter"] == f"{label} {name}") & (counters["instance"] == row["funcId"])]
            values = own["value"].fillna(0)  # nothing moved: no share here, 0 there
            assert values.mean() == pytest.approx(float(row[column]), abs=_ROUNDED), column
        return 1

    return check


def llc(sample: Sample) -> int:
    wanted = sample.csv("llc_read_write")
    counters = sample.table("counters")
    for row in wanted:
        for column, name in (("Hit Rate(%)", "LLC read Hit Rate"), ("Throughput(MB/s)", "LLC read Throughput")):
            values = counters.loc[counters["counter"] == name, "value"]
            assert len(values)
            assert values.isna().all()  # each moment holds one event of the two that are summed: the vendor shows 0
            assert float(row[column]) == 0
    return len(wanted)


def host_cpu(sample: Sample) -> int:
    (row,) = sample.csv("host_cpu_usage")
    used = sample.table("counters").query("counter == 'CPU Usage CPU' and value > 0")
    assert sample.decoded.info.environment["cpus"] == row["Total Cpu Numbers"]
    assert used["instance"].nunique() == int(row["Occupied Cpu Numbers"])
    return 1


def host_memory(sample: Sample) -> int:
    (row,) = sample.csv("host_mem_usage")
    total = float(row["Total Memory(KB)"])
    assert float(sample.decoded.info.environment["memory_kb"]) == total
    peak = sample.table("counters").query("counter == 'Memory Usage'")["value"].max() / 100 * total
    # the vendor sums up a percentage that it has rounded to six decimals; whole pages are exact
    assert peak == pytest.approx(float(row["Peak Used Memory(KB)"]), abs=total * 5e-9)
    assert peak == pytest.approx(round(peak / 4) * 4)
    return 1


def npu_memory(sample: Sample) -> int:
    wanted = sample.csv("npu_mem")
    found = sample.table("memory")
    found = found[found["component"].isin(["APP", "Device"])].sort_values(["component", "time_ns"], kind="stable")
    columns = {"memory(KB)": "reserved_bytes", "hbm(KB)": "hbm_bytes", "ddr(KB)": "ddr_bytes"}
    assert rows(found, "device_id", "component", *columns.values()) == [
        (int(row["Device_id"]), row["event"], *(int(row[column]) * 1024 for column in columns)) for row in wanted
    ]
    for time_ns, row in zip(found["time_ns"], wanted, strict=True):
        assert time_ns % 1000 == 330  # the anchor's; the vendor's float64 shows .456 and .328
        assert abs(int(time_ns) - ns(row["timestamp(us)"])) <= ROUNDED_NS
    return len(wanted)


def task_time(sample: Sample) -> int:
    wanted = sample.csv("task_time")
    found = sample.table("tasks")
    parts = set(found.loc[found["context_id"].notna(), "connection_id"])
    whole_of_parts = found["context_id"].isna() & found["connection_id"].isin(parts)
    found = found[~whole_of_parts & (found["task_type"] != "MsTx")]  # the vendor leaves both out here
    columns = ("start_ns", "duration_ns", "device_id", "stream_id", "task_id", "task_type", "name")
    assert rows(found, *columns) == [
        (
            *(ns(row["task_start(us)"]), ns(row["task_time(us)"])),
            *(int(row["Device_id"]), int(row["stream_id"]), int(row["task_id"])),
            *(row["kernel_type"], text_or_none(row["kernel_name"])),
        )
        for row in wanted
    ]
    return len(wanted)


def statistic(name: str, key: str) -> Check:
    """Compare a frame that is among the statistics under the vendor's name and columns; `key` counts its rows."""

    def check(sample: Sample) -> int:
        wanted, found = sample.csv(name), sample.decoded.statistics[name]
        renamed = found.rename(columns={"Timestamp(ns)": "Timestamp(us)"})
        assert list(renamed.columns) == list(wanted[0])
        for row, own in zip(wanted, renamed.astype(object).to_dict("records"), strict=True):
            for column, text in row.items():
                value = own[column]
                if text == "N/A" or pd.isna(value):
                    assert pd.isna(value)
                    assert text in ("N/A", "0")  # the vendor's number of no model
                elif column.startswith("Timestamp"):
                    assert value == ns(text)
                elif isinstance(value, str):
                    assert value == text
                else:
                    assert value == pytest.approx(float(text), abs=5e-7)
        assert key in wanted[0]
        return len(wanted)

    return check


CHECKS: Mapping[str, Check] = {
    "aicpu": statistic("aicpu", "Task ID"),
    "api_statistic": api_statistic,
    "communication_statistic": communication_statistic,
    "hbm": hbm,
    "hccs": hccs,
    "host_cpu_usage": host_cpu,
    "host_mem_usage": host_memory,
    "l2_cache": statistic("l2_cache", "Op Name"),
    "llc_read_write": llc,
    "nic": _network("NIC"),
    "npu_mem": npu_memory,
    "op_statistic": op_statistic,
    "op_summary": op_summary,
    "pcie": pcie,
    "roce": _network("RoCE"),
    "soc_pmu": statistic("soc_pmu", "Op Name"),
    "static_op_mem": statistic("static_op_mem", "Op Name"),
    "task_time": task_time,
}
