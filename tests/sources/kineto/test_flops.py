"""The operations of operators, read from beside a trace of torch's profiler."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from npuprof.sources.kineto.operators import add_flops
from npuprof.tables.notes import Notes

_OPERATORS = pd.DataFrame({"external_id": pd.array([7, 8, None], "Int64")})


def test_each_operator_gets_the_figure_of_its_id(tmp_path: Path) -> None:
    path, notes = tmp_path / "torch_flops.json", Notes()
    path.write_text(json.dumps({"external_id": [9, 8], "flops": [1, 1 << 60]}))
    flops = add_flops(_OPERATORS, path, notes)["flops"]
    assert flops.isna().tolist() == [True, False, True]
    assert flops[1] == 1 << 60
    assert not len(notes)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"external_id": [1], "flops": [1.5]}', '{"external_id": [1], "flops": [true]}',
     '{"external_id": [1], "flops": []}', '{"external_id": [99999999999999999999], "flops": [1]}', "[" * 100_000],
)  # fmt: skip
def test_damaged_file_is_reported_and_left_out(tmp_path: Path, text: str) -> None:
    path, notes = tmp_path / "torch_flops.json", Notes()
    path.write_text(text)
    assert list(add_flops(_OPERATORS, path, notes)) == ["external_id"]
    assert notes.to_frame()["severity"].tolist() == ["warning"]
