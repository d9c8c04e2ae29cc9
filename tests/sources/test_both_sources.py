"""One run read twice: its raw data and what the vendor's tools made of it agree, table by table.

Where they do not, the reason stands beside the column here: the vendor rounds, loses rows, or does not tell it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof.profiles.profile import Profile
from tests.sources.raw.conftest import raw_sample, writable_copy

pytestmark = pytest.mark.slow

_SAMPLES = ("minimal", "sliced_2k", "model_step", "everything")
_CASES = [(name, "text") for name in _SAMPLES] + [(name, "db") for name in _SAMPLES if name != "model_step"]
_GRAIN_NS = 128  # of the vendor's float64 epoch nanoseconds, rounded

Rule = Callable[[Any, Any], bool]


def _rounded(ours: Any, theirs: Any) -> bool:
    """The CSV has three decimals; the database's last bit differs."""
    return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=0.000_500_1)


def _counted(ours: Any, theirs: Any) -> bool:
    """A core that wrote nothing is absent here, and zeros there."""
    return bool(theirs == 0) if ours is None else _rounded(ours, theirs)


def _untold(ours: Any, theirs: Any) -> bool:
    """The result does not hold it."""
    return theirs is None


def _near(ours: Any, theirs: Any) -> bool:
    """The vendor computes these times in doubles."""
    return bool(abs(ours - theirs) <= _GRAIN_NS)


def _kind_for_name(ours: Any, theirs: Any) -> bool:
    """The vendor names a task that is no kernel, or that holds others, by its type."""
    return ours is None or theirs in ("KERNEL_MIX_AIC", "MsTx")


def _queue_type(ours: Any, theirs: Any) -> bool:
    """The timeline has the type of the queue's entry for a copy, and none for a mark."""
    return (ours, theirs) in (("MEMCPY_ASYNC", "SDMA_SQE"), ("MsTx", None))


def _host_type(ours: Any, theirs: Any) -> bool:
    """The database has the type that the runtime launched, not the core that ran it."""
    return str(theirs).startswith("KERNEL_") and not str(ours).startswith("KERNEL_")


def _no_copy(ours: Any, theirs: Any) -> bool:
    """A copy of which memcpy_info tells nothing is absent here, and nothing copied there."""
    return ours is None and theirs in (0, "other")


_COPIES: dict[str, Rule] = {"copied_bytes": _no_copy, "copy_direction": _no_copy}
_RULES: dict[tuple[str, str], dict[str, Rule]] = {
    ("text", "marks"): {"id": _untold},
    ("text", "tasks"): {"batch_id": _untold, "task_type": _queue_type, "name": _kind_for_name, **_COPIES},
    ("db", "marks"): {"id": _untold},
    ("text", "memory"): {"time_ns": _near},
    ("db", "memory"): {"time_ns": _near},
    ("db", "tasks"): {
        "batch_id": _untold,
        "task_type": _host_type,
        "name": _kind_for_name,
        **_COPIES,
    },
    ("db", "kernels"): {"batch_id": _untold, "task_type": _host_type},
    ("db", "communication_tasks"): {"bandwidth_gb_s": _rounded, "estimated_us": _untold},
}
_COUNTED = ("aic_", "aiv_", "cube_utilization")
_ELSEWHERE = {
    "connection_id": "its numbers are compared by what they connect",
    "item": "the name of what a call launched: the timeline shortens it, and names steps by themselves",
}
_COMPARED = ("steps", "api", "tasks", "kernels", "communication", "communication_tasks", "overlap", "marks", "memory")


@pytest.fixture(scope="module", params=_CASES, ids=["-".join(case) for case in _CASES])
def case(request: pytest.FixtureRequest, samples: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """A directory that holds both, read as each: the result's form, the raw run and the parsed one."""
    name, form = request.param
    source = raw_sample(samples, name)
    path = writable_copy(source, tmp_path_factory.mktemp("both") / source.name)
    for file in (samples / "raw" / name / "expected").iterdir():
        if (file.suffix == ".db") == (form == "db"):
            place = path / file.name if form == "db" else path / "mindstudio_profiler_output" / file.name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(file.read_bytes())
    ours, theirs = npuprof.load(path), npuprof.load(path, source="parsed")
    assert (ours.info.source, theirs.info.source != "raw") == ("raw", True)
    return form, ours, theirs


def _plain(column: pd.Series[Any]) -> list[Any]:
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return values


def _rows(run: Profile, table: str, form: str) -> pd.DataFrame:
    frame = run.tables[table]
    if table == "tasks" and form == "text":  # the timeline shows the parts of a task instead of the task
        keys = [*zip(frame["stream_id"], frame["task_id"], frame["batch_id"], strict=True)]
        of_parts = {key for key, is_part in zip(keys, frame["context_id"].notna(), strict=True) if is_part}
        frame = frame[frame["context_id"].notna() | pd.Series([key not in of_parts for key in keys], frame.index)]
    return frame


@pytest.mark.parametrize("table", _COMPARED)
def test_shared_columns_are_equal(case: tuple[str, Profile, Profile], table: str) -> None:
    form, ours, theirs = case
    mine, vendor = _rows(ours, table, form), _rows(theirs, table, form)
    assert len(mine) == len(vendor)
    rules = _RULES.get((form, table), {})
    for name in mine.columns.intersection(vendor.columns).difference(list(_ELSEWHERE)):
        rule = _counted if name.startswith(_COUNTED) else rules.get(name)
        different = [
            (one, other)
            for one, other in zip(_plain(mine[name]), _plain(vendor[name]), strict=True)
            if one != other and not (rule and rule(one, other))
        ]
        assert not different, (name, different[:3])


@pytest.mark.parametrize("table", ["tasks", "kernels", "communication"])
def test_connections_lead_to_the_same_calls(case: tuple[str, Profile, Profile], table: str) -> None:
    form, *runs = case
    found = []
    for run in runs:
        calls = dict(zip(run.api["connection_id"], zip(run.api["start_ns"], run.api["name"], strict=True), strict=True))
        frame = _rows(run, table, form)
        rows = zip(frame["start_ns"].tolist(), _plain(frame["connection_id"]), strict=True)
        found.append([(start, calls[number]) for start, number in rows if number in calls])
    mine, vendor = found
    assert set(vendor) <= set(mine)
    assert len(mine) == len(vendor) or form == "text"  # the timeline has no flow to a task that holds others


def test_links_of_the_result_are_among_ours(case: tuple[str, Profile, Profile]) -> None:
    _, ours, theirs = case
    pairs = []
    for run in (ours, theirs):
        links = run.links[run.links["kind"] == "api_task"].to_dict("records")
        ends = (
            [run.tables[str(link[f"{side}_table"])]["start_ns"][link[f"{side}_row"]] for side in ("source", "target")]
            for link in links
        )
        pairs.append({(int(call), int(task)) for call, task in ends})
    assert pairs[1]
    assert pairs[1] <= pairs[0]


@pytest.mark.slow
def test_sampled_counters_of_the_result_are_among_ours(case: tuple[str, Profile, Profile]) -> None:
    _, ours, theirs = case
    assert len(theirs.counters)
    named = [set(run.counters["counter"].astype(str)) for run in (ours, theirs)]
    assert "AI Core Freq" in named[0] & named[1]
    changes = [run.counters[run.counters["counter"] == "AI Core Freq"] for run in (ours, theirs)]
    mine, vendor = (set(zip(frame["time_ns"], frame["value"], strict=True)) for frame in changes)
    assert mine <= vendor  # the vendor repeats a change at the start and the end of the session


@pytest.mark.slow
def test_both_sources_have_the_same_info(case: tuple[str, Profile, Profile]) -> None:
    _, ours, theirs = case
    assert ours.info.devices == theirs.info.devices
    assert ours.info.rank == theirs.info.rank


def test_statistics_of_both_agree_where_both_have_them(case: tuple[str, Profile, Profile]) -> None:
    form, ours, theirs = case
    shared = ours.statistics.keys() & theirs.statistics.keys()
    assert shared or form == "db" or not ours.statistics
    for name in shared:
        assert len(ours.statistics[name]) == len(theirs.statistics[name]), name
