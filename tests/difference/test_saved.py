"""The size of a comparison in a saved notebook, of the largest real results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.notebook import report

_MOST_BYTES = 500_000
_LIBRARY_BYTES = 4_900_000  # plotly.js, which a page has with it


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    shown: list[Any] = []
    monkeypatch.setattr(report, "display", lambda bundle, raw: shown.append(bundle))
    return shown


@pytest.mark.long
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("llm_4ranks/rank_0_ascend_pt", "llm_4ranks/rank_2_ascend_pt"),
        ("llm_4ranks", "text/level1"),
        ("text/level1", "db/level1"),
    ],
)
def test_a_comparison_is_small_in_a_saved_notebook(
    samples: Path, tmp_path: Path, outputs: list[Any], a: str, b: str
) -> None:
    difference = npuprof.compare(samples / "torch_npu" / a, samples / "torch_npu" / b)
    report.show_comparison(difference)
    assert len(outputs) == 1
    assert all("could not be made" not in output["text/plain"] for output in outputs)
    notebook = {"cells": [{"outputs": [{"data": output} for output in outputs]}]}
    assert len(json.dumps(notebook, indent=1, ensure_ascii=False).encode()) < _MOST_BYTES
    page = difference.to_html(tmp_path / "difference.html")
    assert page.stat().st_size < _LIBRARY_BYTES + _MOST_BYTES
