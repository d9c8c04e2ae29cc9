"""The page on the raw format says of each record what its layout says: its length, and the place of each field."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuprof
from npuprof.sources.raw.records import layouts

_PAGE = (Path(npuprof.__file__).parent / "sources" / "raw" / "FORMAT.md").read_text(encoding="utf-8")
_HEADER_BYTES = 24
_RECORDS = {
    "| node_basic_info |": layouts.NODE_BASIC,
    "| node_attr_info D |": layouts.NODE_ATTR,
    "| task_track of 32-bit ids (808) D |": layouts.TASK_TRACK_V2,
    "| memcpy_info |": layouts.MEMCPY_INFO,
    "| hccl_op_info |": layouts.HCCL_OP_INFO,
    "| stream and queue (807) D |": layouts.STREAM_SQ,
    "| memcpy with its kind (810) D |": layouts.MEMCPY_EXT,
    "| memset (811) D |": layouts.MEMSET,
    "| memory management (812) D |": layouts.MEMORY_MANAGEMENT,
    "| dpu task (806, level 4000) D |": layouts.DPU_TRACK,
    "| context_id_info |": layouts.CONTEXT_ID,
    "| graph_id_map D |": layouts.GRAPH_ID,
    "| hccl_info |": layouts.HCCL_INFO,
    "| mc2_comm_info D |": layouts.MC2_COMM,
    "| task_memory_info |": layouts.TASK_MEMORY,
    "| static_op_mem |": layouts.STATIC_MEMORY,
    "| fusion_op_info D |": layouts.FUSION_OP,
    "| Multi_Thread D |": layouts.MULTI_THREAD,
    "| captured operator (805) D |": layouts.CAPTURE_OP,
    "| 1 data preparation |": layouts.AICPU_DATA,
    "| 2 model |": layouts.AICPU_MODEL,
    "| 10 hccl operator |": layouts.AICPU_HCCL_OP,
    "| 11 flip |": layouts.AICPU_FLIP,
    "| task_track |": layouts.TASK_TRACK,
    "Kind u16@24": layouts.MSPROFTX,
}
_HEADINGS = {
    "5.1 `stars_soc`": layouts.STARS,
    "5.2 `ffts_profile`": layouts.PMU,
    "5.3 `lpmFreqConv`": layouts.FREQUENCIES,
    "5.4 `ts_track`": layouts.TS_TRACK,
    "5.5 `stars_soc_profile`": layouts.SOC_PROFILE,
    "5.6 `aicpu`": layouts.AICPU,
}


def _fields(record: np.dtype[Any]) -> list[tuple[str, int]]:
    """Return the types and offsets of a record's own fields, as the page writes them."""
    found = []
    for part, offset, *_ in (record.fields or {}).values():
        base = part.base
        if base.kind in "uif" and offset >= _HEADER_BYTES:
            found.append((f"{base.kind}{base.itemsize * 8}", offset))
    return found


def _row(start: str) -> str:
    (at,) = (match.start() for match in re.finditer(re.escape(start), _PAGE))
    end = re.search(r"\n(?=\||\n|- |#)", _PAGE[at:])
    return _PAGE[at : at + end.start()] if end else _PAGE[at:]


@pytest.mark.parametrize("start", _RECORDS)
def test_each_field_lies_where_the_page_has_it(start: str) -> None:
    row = _row(start)
    own = _fields(_RECORDS[start])
    if "hccl operator" in start:  # the page refers to hccl_op_info for the first of them
        row += _row("| hccl_op_info |")
    assert [f"{kind}@{offset}" for kind, offset in own if not re.search(rf"\b{kind}@{offset}\b", row)] == []
    assert own


@pytest.mark.parametrize("heading", _HEADINGS)
def test_each_record_has_the_length_of_its_heading(heading: str) -> None:
    assert f"### {heading}, {_HEADINGS[heading].itemsize} bytes" in _PAGE
