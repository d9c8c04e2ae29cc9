"""Every file that the vendor's parser made of a raw sample equals our tables of the same bytes, row by row.

A csv file, a table of the database or a layer of a timeline that no check reads, and that is not left out by name,
fails: so does a check that leaves rows out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.samples import FOLDER
from tests.sources.raw import test_vendor, vendor_csv, vendor_database, vendor_timeline
from tests.sources.raw.communication import test_communication
from tests.sources.raw.host import test_allocations

from .vendor import NAMES, Check, Sample

_CHECKS: Mapping[str, Check] = {
    **{f"csv {name}": check for name, check in vendor_csv.CHECKS.items()},
    **{f"db {name}": check for name, check in vendor_database.CHECKS.items()},
    **vendor_timeline.CHECKS,
    **{f"msprof.json {name}": check for names, check in vendor_timeline.TOGETHER.items() for name in names},
}
_CHECKED_BY_TESTS = {
    "csv memory_record": test_allocations.test_samples_are_those_of_memory_record,
    "csv msprof_tx": test_vendor.test_marks_are_those_of_msprof_tx,
    "csv operator_memory": test_allocations.test_blocks_are_those_of_operator_memory,
    "csv step_trace": test_vendor.test_steps_are_those_of_step_trace,
    "db COMMUNICATION_OP": test_communication.test_operators_are_those_of_communication_op,
    "db COMMUNICATION_TASK_INFO": test_communication.test_steps_are_those_of_communication_task_info,
}
_LEFT_OUT = {
    "db META_DATA": "the version of the vendor's schema",
    "db STRING_IDS": "the texts of its other tables, compared where these refer to them",
    "db ENUM_MSTX_EVENT_TYPE": "compared where MSTX_EVENTS refers to it",
    "db ENUM_OVERLAP_ANALYSIS_TYPE": "names that other words stand for in `overlap`",
    "msprof.json names": "names and order of the lanes of a viewer",
    "msprof_tx.json names": "names and order of the lanes of a viewer",
    "step_trace.json names": "names and order of the lanes of a viewer",
}


@cache
def _sample(name: str) -> Sample:
    return Sample(FOLDER / "raw" / name)


def _items() -> list[tuple[str, str]]:
    return [(name, item) for name in NAMES if (FOLDER / "raw" / name).is_dir() for item in _sample(name).items]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "item"), _items())
def test_every_row_of_a_vendors_result_is_accounted_for(name: str, item: str) -> None:
    if item in _LEFT_OUT or item in _CHECKED_BY_TESTS:
        return
    assert item in _CHECKS, f"{item} of {name} is compared with nothing"
    sample = _sample(name)
    accounted = _CHECKS[item](sample)
    together = next((names for names in vendor_timeline.TOGETHER if item.removeprefix("msprof.json ") in names), ())
    items = [f"msprof.json {one}" for one in together] or [item]
    assert accounted == sum(sample.items.get(one, 0) for one in items)
    assert accounted > 0


def test_files_have_a_compared_form(samples: Path) -> None:
    for name in NAMES:
        assert {path.suffix for path in Sample(samples / "raw" / name).files()} <= {".csv", ".json", ".db"}


@pytest.mark.slow
def test_every_check_has_something_to_compare(samples: Path) -> None:
    every = {item for name in NAMES for item in Sample(samples / "raw" / name).items}
    assert not {*_CHECKS, *_CHECKED_BY_TESTS, *_LEFT_OUT} - every
