"""What graph compilation recorded, in the vendor's columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.sources import raw
from tests.sources.raw.conftest import raw_sample
from tests.sources.raw.writers.communication import NONE, CommunicationDirectory


@pytest.fixture
def directory(tmp_path: Path) -> CommunicationDirectory:
    return CommunicationDirectory(tmp_path / "PROF_test")


def _plain(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    plain = frame.astype(object)
    return [tuple(row) for row in plain.where(plain.notna(), None).to_numpy().tolist()]


def test_planned_memory_is_that_of_static_op_mem(samples: Path) -> None:
    file = next((samples / "raw/everything/expected").glob("static_op_mem_*.csv"))
    expected = pd.read_csv(file)
    found = raw.read(raw_sample(samples, "everything")).statistics["static_op_mem"]
    assert list(found.columns) == list(expected.columns)
    assert expected.pop("Model Name").tolist() == [0]  # the vendor's number for none
    assert found.pop("Model Name").isna().all()
    assert _plain(found) == _plain(expected)


def test_planned_memory_may_have_no_last_node(directory: CommunicationDirectory) -> None:
    directory.planned(10, "Add_0", 1536, 2, NONE)
    directory.planned(10, "TOTAL", 4096, 0, 7)
    found = raw.read(directory.finish()).statistics["static_op_mem"]
    assert _plain(found) == [("host", "Add_0", "net", 3, 2, None, 1.5), ("host", "TOTAL", "net", 3, 0, 7, 4.0)]


def test_fused_operators_name_their_model_and_parts(directory: CommunicationDirectory) -> None:
    directory.load_model(5, 50, 7)
    directory.graph(20, "net", 1, 7)
    directory.fused(30, "MatMulAdd", "MatMul_0", "Add_0", memory=(1024, 2048, 512, 0, 3584))
    directory.fused(90, "Alone", memory=(0, 0, 0, 0, 0))
    found = raw.read(directory.finish()).statistics["fusion_op"]
    memory = [f"Memory {kind}(KB)" for kind in ("Input", "Output", "Weight", "Workspace", "Total")]
    assert list(found.columns) == ["Device_id", "Model Name", "Model ID", "Fusion Op", "Original Ops", *memory]
    assert _plain(found) == [
        ("host", "net", 7, "MatMulAdd", "MatMul_0;Add_0", 1.0, 2.0, 0.5, 0.0, 3.5),
        ("host", None, None, "Alone", "", 0.0, 0.0, 0.0, 0.0, 0.0),
    ]


def test_a_run_without_graphs_has_no_such_frames(directory: CommunicationDirectory) -> None:
    directory.launch(0, "Add", 3, 0)
    assert raw.read(directory.finish()).statistics == {}


def test_attributes_are_those_of_their_operator(directory: CommunicationDirectory) -> None:
    directory.launch(0, "Conv", 3, 0)
    directory.launch(200, "Add", 3, 1)
    directory.attributes(42, "Conv", "pads=1,1;strides=2")
    kernels = raw.read(directory.finish()).tables["kernels"]
    assert kernels["op_name"].tolist() == ["Conv", "Add"]
    assert kernels["attributes"].tolist()[0] == "pads=1,1;strides=2"
    assert kernels["attributes"].isna().tolist() == [False, True]


def test_kernels_without_attributes_have_none(directory: CommunicationDirectory) -> None:
    directory.launch(0, "Conv", 3, 0)
    assert raw.read(directory.finish()).tables["kernels"]["attributes"].isna().all()
