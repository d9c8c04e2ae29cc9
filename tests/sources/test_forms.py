"""Raw data, the text and the database of one run become tables of the same columns, names and units.

The three forms in the samples were made of the same bytes. Where the vendor's digits are known to be lost (times that
passed through a float), raw data is right and the others are near it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import npuprof
from npuprof import tables

pytestmark = pytest.mark.slow

ALL = ["minimal", "sliced_2k", "everything"]
NOT_TOLD = {
    ("database", "kernels", "cube_utilization_percent"),  # needs the number of cores, which a database lacks
    ("raw", "kernels", "model_id"),  # only of a run with models
    ("text", "allocations", "address"),
}
"""Columns that one of the forms cannot have."""
EXACT = {
    "kernels": ["start_ns", "duration_ns", "name", "op_type", "core", "block_num", "hf32", "wait_ns", "input_shapes"],
    "communication": [
        *("start_ns", "duration_ns", "name", "op_type", "group", "data_type", "algorithm", "count", "rank_size"),
        *("relay", "retry"),
    ],
    "communication_tasks": [
        *("start_ns", "duration_ns", "op_id", "plane_id", "task_type", "src_rank", "dst_rank", "transport", "link"),
        *("size_bytes", "stream_id", "task_id", "data_type", "notify_id"),
    ],
    "allocations": [
        *("name", "size_bytes", "allocated_ns", "released_ns", "device_id", "allocation_total_allocated_bytes"),
        *("allocation_total_reserved_bytes", "release_total_allocated_bytes", "release_total_reserved_bytes"),
    ],
    "marks": ["start_ns", "duration_ns", "message", "domain", "thread_id", "device_start_ns", "device_id", "kind"],
    "overlap": ["start_ns", "duration_ns", "kind"],
    "api": ["start_ns", "duration_ns", "level", "thread_id"],
}
NEAR = 1e-3


@cache
def _forms(samples: Path, name: str) -> dict[str, npuprof.Profile]:
    folder = samples / "raw" / name
    (raw,), (database,) = folder.glob("PROF_*"), (folder / "expected").glob("*.db")
    paths = {"raw": raw, "text": folder / "expected", "database": database}
    return {form: _profile(path) for form, path in paths.items()}


def _profile(path: Path) -> npuprof.Profile:
    run = npuprof.load(path)
    assert isinstance(run, npuprof.Profile)
    return run


def _present(run: npuprof.Profile, name: str) -> pd.DataFrame | None:
    frame: pd.DataFrame = getattr(run, name)
    return frame if len(frame) else None


def _tables(forms: dict[str, npuprof.Profile], name: str) -> dict[str, pd.DataFrame]:
    found = {form: frame for form, run in forms.items() if (frame := _present(run, name)) is not None}
    assert len(found) in (0, len(forms)), f"only {set(found)} have {name}"
    return found


@pytest.mark.parametrize("sample", ALL)
def test_columns_and_dtypes_are_the_same(samples: Path, sample: str) -> None:
    forms = _forms(samples, sample)
    compared = 0
    for name in tables.NAMES:
        found = {
            form: frame.drop(columns=[column for one, table, column in NOT_TOLD if table == name], errors="ignore")
            for form, frame in _tables(forms, name).items()
        }
        dtypes = {form: frame.dtypes.astype(str).to_dict() for form, frame in found.items()}
        compared += len(dtypes)
        for form, own in dtypes.items():
            assert own == dtypes["raw"], (name, form)
    assert compared >= 18


@pytest.mark.parametrize("sample", ALL)
@pytest.mark.parametrize("name", EXACT)
def test_forms_agree_in_exact_values(samples: Path, sample: str, name: str) -> None:
    found = _tables(_forms(samples, sample), name)
    if sample == "everything":
        assert found
    cells = {form: _cells(frame[EXACT[name]]) for form, frame in found.items()}
    for form, own in cells.items():
        assert own == cells["raw"], form


@pytest.mark.slow
@pytest.mark.parametrize("sample", ALL)
def test_counters_of_kernels_are_the_same_to_the_nanosecond(samples: Path, sample: str) -> None:
    found = {form: frame.sort_values("start_ns") for form, frame in _tables(_forms(samples, sample), "kernels").items()}
    names = [name for name in found["raw"] if name.startswith(("aic_", "aiv_"))]
    assert {"aic_total_time_ns", "aiv_vec_ratio"} <= set(names)
    for name in names:
        raw, *others = (frame[name].to_numpy(np.float64, na_value=0.0) for frame in found.values())
        for other in others:
            np.testing.assert_allclose(other, raw, rtol=1e-3, atol=1.0 if name.endswith(("_ns", "_cycles")) else 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "database"])
@pytest.mark.parametrize("sample", ALL)
def test_a_counter_has_one_name_and_one_unit(samples: Path, sample: str, form: str) -> None:
    forms = _forms(samples, sample)
    raw, other = (_units(forms[one].counters) for one in ("raw", form))
    assert set(other) <= set(raw)
    assert other == {name: raw[name] for name in other}
    if sample == "everything":
        assert len(other) > 40
        lacking = {name for name in set(raw) - set(other) if form == "database"}
        assert all(name.startswith(("CPU", "Memory", "Stars Chip Trans")) for name in lacking), lacking


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "database"])
@pytest.mark.parametrize("sample", ALL)
def test_counters_have_the_same_instances_and_values(samples: Path, sample: str, form: str) -> None:
    forms = _forms(samples, sample)
    raw, other = (_series(forms[one].counters) for one in ("raw", form))
    compared = 0
    for (name, instance), values in other.items():
        if name.startswith("Acc PMU") and not instance:
            continue  # a timeline that does not tell the accelerator
        known = raw[name, instance]
        finite = known[np.isfinite(known)]
        if not len(finite):
            assert not values.any()  # the vendor shows 0 for what was not sampled completely
            continue
        first_unknown = values[1:] if np.isnan(known[0]) and values[0] == 0 else values
        shown = first_unknown[np.isfinite(first_unknown)]
        if form == "text" and name.endswith("Bandwidth Efficiency"):
            shown = np.where(shown == 0, finite[0], shown)  # rounded away
        nearest = finite[np.abs(shown[:, None] - finite).argmin(axis=1)]
        np.testing.assert_allclose(shown, nearest, rtol=NEAR, err_msg=f"{name} {instance}")
        compared += 1
    assert compared > (40 if sample == "everything" else 0)


def test_memory_components_equal_their_contents(samples: Path) -> None:
    found = _tables(_forms(samples, "everything"), "memory")
    columns = ["component", "allocated_bytes", "reserved_bytes", "hbm_bytes", "ddr_bytes", "device_id"]
    cells = {form: _cells(frame.sort_values(["component", "time_ns"])[columns]) for form, frame in found.items()}
    assert {row[0] for row in cells["raw"]} == {"GE", "APP", "Device"}
    order = sorted(cells["raw"], key=str)
    for form, own in cells.items():
        assert sorted(own, key=str) == order, form
    times = {form: np.sort(frame["time_ns"].to_numpy()) for form, frame in found.items()}
    assert np.abs(times["text"] - times["raw"]).max() < 256
    assert np.abs(times["database"] - times["raw"]).max() < 256


def test_device_mark_has_one_number_everywhere(samples: Path) -> None:
    marks = {
        form: frame.set_index("message")["id"]
        for form, frame in _tables(_forms(samples, "everything"), "marks").items()
    }
    assert marks["raw"]["fwd_pass"] == marks["database"]["fwd_pass"] == 99
    assert marks["text"].isna().all()


def test_calls_that_launch_name_what_they_launch(samples: Path) -> None:
    forms = _forms(samples, "sliced_2k")
    items = {form: run.api[run.api["level"] == "node"]["item"].astype(object).tolist() for form, run in forms.items()}
    assert len(items["raw"]) == 2000
    assert items["raw"] == items["database"] == items["text"]


def _cells(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    values = frame.astype(object)
    return [tuple(row) for row in values.where(values.notna(), None).to_numpy().tolist()]


def _units(counters: pd.DataFrame) -> dict[str, object]:
    frame = counters[["counter", "unit"]].astype(object).drop_duplicates()
    assert frame["counter"].is_unique
    return {name: None if pd.isna(unit) else unit for name, unit in frame.to_numpy().tolist()}


def _series(counters: pd.DataFrame) -> dict[tuple[str, str], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    frame = counters.assign(instance=counters["instance"].astype(object).fillna(""))
    return {
        (str(counter), str(instance)): group.sort_values("time_ns", kind="stable")["value"].to_numpy()
        for (counter, instance), group in frame.groupby(["counter", "instance"], observed=True)
    }
