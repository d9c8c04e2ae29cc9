"""Facts about the CSV files and the communication files of results, each read by itself."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from npuprof.profiles.profile import Profile
from npuprof.sources.columns.decimals import MB_TO_BYTES
from tests.sources.truth.facts import Facts, Family, equal, from_us, in_ns, longest

COMMUNICATING = ("HCCL", "COMMUNICATION")
OF_THE_TEXT = "a fact about the file's text, which no table keeps"
UNIT = "sizes are bytes in the tables; that they are right shows that the unit was"


def _rows(run: Profile) -> pd.DataFrame:
    """Return the rows of a table of kernels: kernels and communication, which npuprof keeps apart."""
    columns = ["name", "op_type", "start_ns", "duration_ns", "step"]
    parts = [run.kernels[columns].astype(object), run.communication[columns].astype(object)]
    rows: pd.DataFrame = pd.concat(parts, ignore_index=True).astype({"start_ns": "int64", "duration_ns": "int64"})
    return rows


def _by_core(run: Profile, known: list[list[Any]]) -> None:
    kernels, communication = run.kernels, run.communication
    expected = {core: [total, size] for core, total, size in in_ns(known)}
    found = {core: [total, size] for core, total, size in longest(kernels, "core", 99)}
    own = [int(communication["duration_ns"].sum()), len(communication)]
    if set(expected) == {"N/A"}:  # Level0 tells no core
        found["N/A"] = [one + other for one, other in zip(found["N/A"], own, strict=True)]
    elif len(communication):
        found[next(core for core in COMMUNICATING if core in expected)] = own
    assert found == expected


def _last_end(run: Profile, known: int) -> None:
    rows = _rows(run)
    equal(int((rows["start_ns"] + rows["duration_ns"]).max()), known)


def _wait(run: Profile, known: float) -> None:
    found = int(run.kernels["wait_ns"].sum())  # that of a communication operator is in no table
    assert found <= from_us(known) if len(run.communication) else found == from_us(known)


def _shapes(run: Profile, known: int) -> None:
    assert known - run.kernels["input_shapes"].nunique() in (0, 1, 2)  # N/A and "" are texts in the file


def _steps(run: Profile, known: dict[str, int]) -> None:
    equal({str(step): count for step, count in _rows(run)["step"].value_counts().items()}, known)


KERNELS: Facts = {
    "rows": lambda run, known: equal(len(_rows(run)), known),
    "by_core": _by_core,
    "top5_by_name": lambda run, known: equal(longest(_rows(run), "name"), in_ns(known)),
    "top5_by_type": lambda run, known: equal(longest(_rows(run), "op_type", len(known)), in_ns(known)),
    "first_start_ns": lambda run, known: equal(int(_rows(run)["start_ns"].min()), known),
    "last_end_ns": _last_end,
    "sum_duration_us": lambda run, known: equal(int(_rows(run)["duration_ns"].sum()), from_us(known)),
    "wait_sum_us": _wait,
    "distinct_start": lambda run, known: equal(_rows(run)["start_ns"].nunique(), known),
    "distinct_input_shapes": _shapes,
    "shape_example": lambda run, known: equal(run.kernels["input_shapes"].iloc[0], known.strip('"')),
    "steps": _steps,
    "distinct_start_as_float_us": "what a reader by way of floats would find",
    "columns": OF_THE_TEXT,
    "na_cells": OF_THE_TEXT,
    "sorted": OF_THE_TEXT,
    "tab_cells_in": OF_THE_TEXT,
}


def _statistic(name: str, total: str, keys: list[str]) -> Facts:
    def top(run: Profile, known: list[list[Any]]) -> None:
        frame = run.statistics[name].sort_values(total, ascending=False, kind="stable").head(len(known))
        columns = [*reversed(keys)] if name == "api_statistic" else keys
        assert frame[[*columns, total, "Count"]].to_numpy().tolist() == known

    return {
        "rows": lambda run, known: equal(len(run.statistics[name]), known),
        "count": lambda run, known: equal(int(run.statistics[name]["Count"].sum()), known),
        "sum_us": lambda run, known: equal(run.statistics[name][total].sum(), pytest.approx(known)),
        "ratio_sum": lambda run, known: equal(run.statistics[name]["Ratio(%)"].sum(), pytest.approx(known)),
        "duplicate_keys": lambda run, known: equal(int(run.statistics[name].duplicated(keys).sum()), known),
        "top5": top,
    }


def _peaks(column: str) -> Any:
    def check(run: Profile, known: dict[str, float | None]) -> None:
        found = run.memory.groupby("component", observed=True)[column].max()
        for component, peak in known.items():
            if peak is None:
                assert pd.isna(found[component])
            else:  # known to a millionth of a MB
                assert abs(int(found[component]) - peak * MB_TO_BYTES) <= 1

    return check


MEMORY: Facts = {
    "rows": lambda run, known: equal(len(run.memory), known),
    "rows_by_component": lambda run, known: equal(run.memory["component"].value_counts().to_dict(), known),
    **{f"peak_{name}": _peaks(f"{name}_bytes") for name in ("allocated", "reserved", "active")},
    "unit": UNIT,
}


def _module_peaks(run: Profile, known: dict[str, float]) -> None:
    found = run.memory.groupby("component", observed=True)["reserved_bytes"].max()
    held = found[found > 0].to_dict()
    equal(held, {f"{name} (module)": round(peak * MB_TO_BYTES) for name, peak in known.items()})


MODULES: Facts = {
    "rows": lambda run, known: equal(len(run.memory), known),
    "components": lambda run, known: equal(run.memory["component"].nunique(), known),
    "nonzero_peak": _module_peaks,
    "unit": UNIT,
}


def _prefixes(run: Profile, known: dict[str, int]) -> None:
    equal(run.allocations["name"].astype(str).str.partition("::")[0].value_counts().to_dict(), known)


def _largest(run: Profile, known: list[list[Any]]) -> None:
    sums = run.allocations.groupby("name", observed=True)["size_bytes"].agg(["sum", "size"])
    ordered = sums.sort_values("sum", ascending=False, kind="stable").head(len(known))
    equal([[name, total / 1024, size] for name, total, size in ordered.itertuples()], known)


BLOCKS: Facts = {
    "rows": lambda run, known: equal(len(run.allocations), known),
    "sum_size_kb": lambda run, known: equal(int(run.allocations["size_bytes"].sum()), known * 1024),
    "max_size_kb": lambda run, known: equal(int(run.allocations["size_bytes"].max()), known * 1024),
    "negative_sizes": lambda run, known: equal(int((run.allocations["size_bytes"] < 0).sum()), known),
    "never_released": lambda run, known: equal(int(run.allocations["released_ns"].isna().sum()), known),
    "no_allocation_time": lambda run, known: equal(int(run.allocations["allocated_ns"].isna().sum()), known),
    "by_prefix": _prefixes,
    "top5_by_total_size_kb": _largest,
}


def _details(column: str) -> Any:
    def check(run: Profile, known: list[list[Any]]) -> None:
        frame = run.statistics["operator_details"]
        sums = frame.groupby("Name")[column].agg(["sum", "size"]).sort_values("sum", ascending=False, kind="stable")
        found = [[name, round(total, 3), size] for name, total, size in sums.head(len(known)).itertuples()]
        assert found == known

    return check


def _of_details(column: str) -> Any:
    return lambda run, known: equal(run.statistics["operator_details"][column].sum(), pytest.approx(known))


def _stack_lines(run: Profile, known: int) -> None:
    stacks = run.statistics["operator_details"]["Call Stack"].dropna()
    equal(int(stacks.str.count("\n").max()) + 1, known)


DETAILS: Facts = {
    "rows": lambda run, known: equal(len(run.statistics["operator_details"]), known),
    "columns": lambda run, known: equal(run.statistics["operator_details"].columns.tolist(), known),
    "rows_with_call_stack": lambda run, known: equal(
        int(run.statistics["operator_details"]["Call Stack"].notna().sum()), known
    ),
    "max_call_stack_lines": _stack_lines,
    "negative_host_self": lambda run, known: equal(
        int((run.statistics["operator_details"]["Host Self Duration(us)"] < 0).sum()), known
    ),
    "sum_host_self_us": _of_details("Host Self Duration(us)"),
    "sum_device_self_us": _of_details("Device Self Duration(us)"),
    "sum_device_self_aicore_us": _of_details("Device Self Duration With AICore(us)"),
    "top5_host_self": _details("Host Self Duration(us)"),
    "top5_device_self": _details("Device Self Duration(us)"),
}
CACHE: Facts = {
    "rows": lambda run, known: equal(len(run.statistics["l2_cache"]), known),
    "hit_NA": lambda run, known: equal(int(run.statistics["l2_cache"]["Hit Rate"].isna().sum()), known),
    "mean_hit": lambda run, known: equal(bool(run.statistics["l2_cache"]["Hit Rate"].notna().any()), known is not None),
    "mean_victim": lambda run, known: equal(
        run.statistics["l2_cache"]["Victim Rate"].mean(), pytest.approx(known, abs=1e-6)
    ),
}
STEP_COLUMNS = {
    "Computing": "computing_ns",
    "Communication": "communication_ns",
    "Communication(Not Overlapped)": "communication_not_overlapped_ns",
    "Communication(Not Overlapped and Exclude Receive)": "communication_not_overlapped_exclude_receive_ns",
    "Overlapped": "overlapped_ns",
    "Free": "free_ns",
    "Stage": "stage_ns",
    "Bubble": "bubble_ns",
    "Preparing": "preparing_ns",
}


def _step_times(run: Profile, known: list[dict[str, Any]]) -> None:
    for found, row in zip(run.step_times.to_dict("records"), known, strict=True):
        told = {name: value for name, value in row.items() if name not in ("Step", "Device_id")}
        assert {name: found[STEP_COLUMNS[name]] for name in told} == {name: from_us(told[name]) for name in told}
        assert str(found["step"]) == row["Step"]


def _of_kind(run: Profile, name: str, key: str) -> pd.DataFrame:
    step, _, kind = key.partition("/")
    frame = run.statistics[name]
    chosen: pd.DataFrame = frame[(frame["step"] == step.removeprefix("step")) & (frame["kind"] == kind)]
    return chosen


def _operators(key: str) -> Any:
    def check(run: Profile, known: dict[str, Any]) -> None:
        frame = _of_kind(run, "communication", key)
        assert [len(frame), frame["group"].nunique()] == [known["ops"], known["groups"]]
        assert set(known["names"]) <= set(frame["name"] + "@" + frame["group"])
        assert frame["Elapse Time(ms)"].sum() == pytest.approx(known["sum_elapse_ms"])
        # The ratios in the file's own totals are no sums of its operators.
        totals = {name: value for name, value in known["total"].items() if name.endswith("(ms)")}
        assert frame[list(totals)].sum().to_dict() == pytest.approx(totals, abs=1e-6)

    return check


def _pairs(key: str) -> Any:
    def check(run: Profile, known: dict[str, Any]) -> None:
        frame = _of_kind(run, "communication_matrix", key)
        names = frame["name"] + "@" + frame["group"]
        pairs = frame[["src_rank", "dst_rank"]].drop_duplicates()
        assert [names.nunique(), len(pairs)] == [known["keys"], known["links"]]
        assert set(known["first"]) <= set(names)

    return check


KINDS = [f"step{step}/{kind}" for step in (13, 50) for kind in ("collective", "p2p")]
WHOLE = {"": _step_times}
"""The one fact about a file is a list."""

FAMILIES = (
    Family(r"(torch_npu|msprof)/.*/(kernel_details|op_summary_\d+)\.csv", KERNELS),
    Family(r".*/op_statistic(_\d+)?\.csv", _statistic("op_statistic", "Total Time(us)", ["OP Type", "Core Type"])),
    Family(r".*/api_statistic\.csv", _statistic("api_statistic", "Time(us)", ["Level", "API Name"])),
    Family(r".*/memory_record\.csv", MEMORY),
    Family(r".*/npu_module_mem\.csv", MODULES),
    Family(r".*/operator_memory\.csv", BLOCKS),
    Family(r".*/operator_details\.csv", DETAILS),
    Family(r".*/l2_cache\.csv", CACHE),
    Family(r"torch_npu/.*/step_trace_time\.csv", WHOLE),
    Family(r"torch_npu/.*/communication\.json", {key: _operators(key) for key in KINDS}),
    Family(r"torch_npu/.*/communication_matrix\.json", {key: _pairs(key) for key in KINDS}),
)
