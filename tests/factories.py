"""Plausible profiles made of arrays: nested host threads, kernels on two streams, links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.advice.findings import Advice, advise
from npuprof.analysis.accounting import account
from npuprof.arrays import Int64
from npuprof.tables.info import Info
from npuprof.tables.schema import SCHEMA

START_NS = 1_763_600_000_000_000_123
"""Start of every run made here: odd on purpose, so that a pass through a float shows."""

OPERATORS = ("aten::linear", "aten::softmax", "aten::add", "aten::layer_norm", "aten::copy_")
KERNELS = ("MatMulV3_ND_FP16", "SoftmaxV2", "Add", "LayerNormV4", "TransData")
KERNEL_TYPES = ("MatMulV3", "SoftmaxV2", "Add", "LayerNormV4", "TransData")

_STEP_NS = 40_000  # host time from one operator to the next
_PYTHON_LEVELS = ("train.py(1): main", "train.py(20): step", "model.py(7): forward", "layers.py(3): call")


def all_tables(**given: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table of the schema: those given, the others empty."""
    return {name: given.get(name, tables.empty(name)) for name in tables.NAMES}


def info(**given: Any) -> Info:
    """What a run on the simulated NPU knows of itself."""
    known: dict[str, Any] = {
        "name": "training step",
        "collector": "simulator",
        "simulated": True,
        "chip": "Ascend 910B2",
        "devices": [0],
        "options": {"level": 1},
        "started_ns": START_NS,
    }
    return Info(**{**known, **given})


def names(choices: Sequence[str], index: Int64) -> pd.Categorical:
    """A ``name`` column that picks from `choices`."""
    return tables.categorical(index.astype(np.int32), list(choices))


def profile(launches: int = 60, *, kernel_names: Sequence[str] = KERNELS) -> dict[str, pd.DataFrame]:
    """All tables of a run of `launches` operators, each of which calls CANN once and runs one kernel.

    Two host threads take turns, two streams overlap, every fifth kernel is followed by a collective.
    """
    index = np.arange(launches, dtype=np.int64)
    kind = index % len(KERNELS)
    starts = START_NS + index * _STEP_NS
    thread = 100 + index % 2
    operators = tables.build(
        "operators",
        {
            "start_ns": starts,
            "duration_ns": np.full(launches, 30_000, np.int64),
            "name": names(OPERATORS, kind % len(OPERATORS)),
            "thread_id": thread,
            "kind": names(["op"], np.zeros(launches, np.int64)),
            "input_shapes": names(["[[256,1024],[1024,1024]]"], np.zeros(launches, np.int64)),
            "id": index,
        },
    )
    api = tables.build(
        "api",
        {
            "start_ns": starts + 5_000,
            "duration_ns": np.full(launches, 12_000, np.int64),
            "name": names(["launch", "aclrtMemcpyAsync"], (index % 7 == 6).astype(np.int64)),
            "level": names(["node"], np.zeros(launches, np.int64)),
            "thread_id": thread,
            "connection_id": index,
        },
    )
    kernels = _kernels(index, starts, kernel_names)
    return all_tables(
        operators=operators,
        api=api,
        kernels=kernels,
        tasks=tables.build("tasks", {column.name: kernels[column.name] for column in SCHEMA["tasks"].columns}),
        python=_python(launches),
        links=_links(index),
        communication=_communication(index, starts),
        overlap=_overlap(index, starts),
        steps=_steps(launches),
        memory=_memory(index, starts),
        marks=_marks(launches),
    )


def _kernels(index: Int64, starts: Int64, kernel_names: Sequence[str]) -> pd.DataFrame:
    kind = index % len(KERNELS)
    zeros = np.zeros(len(index), np.int64)
    choice = index % len(kernel_names)
    return tables.build(
        "kernels",
        {
            "start_ns": starts + 20_000 + (index % 3) * 2_000,
            "duration_ns": 12_000 + 9_000 * (kind == 0) + (index % 11) * 500,
            "device_id": zeros,
            "stream_id": 2 + (index % 4 == 3),
            "task_id": index % 65_536,
            "batch_id": index // 65_536,
            "task_type": names(["AI_CORE", "AI_VECTOR_CORE"], (kind > 0).astype(np.int64)),
            "name": names(kernel_names, choice),
            "connection_id": index,
            "op_name": names(kernel_names, choice),
            "op_type": names(KERNEL_TYPES, kind),
            "input_shapes": names(["256,1024;1024,1024"], zeros),
        },
    )


def _python(launches: int) -> pd.DataFrame:
    """One call of each Python level on the first thread around everything; leaf calls change every 10 operators."""
    span = launches * _STEP_NS
    leaves = max(1, launches // 10)
    outer = len(_PYTHON_LEVELS)
    leaf = np.arange(leaves, dtype=np.int64)
    return tables.build(
        "python",
        {
            "start_ns": np.concatenate([np.full(outer, START_NS - 1_000), START_NS + leaf * (span // leaves)]),
            "duration_ns": np.concatenate([np.full(outer, span + 2_000), np.full(leaves, span // leaves)]),
            "name": names(
                [*_PYTHON_LEVELS, "blocks.py(5): attention", "blocks.py(9): mlp"],
                np.concatenate([np.arange(outer), outer + leaf % 2]),
            ),
            "thread_id": np.full(outer + leaves, 100),
            "id": np.arange(outer + leaves),
            "parent_id": pd.array([None, *range(outer - 1), *[outer - 1] * leaves], dtype="Int64"),
            "depth": np.concatenate([np.arange(outer), np.full(leaves, outer)]),
        },
    )


def _links(index: Int64) -> pd.DataFrame:
    count = len(index)
    zeros = np.zeros(count, np.int64)
    return tables.build(
        "links",
        {
            "kind": names(["api_task"], zeros),
            "source_table": names(["api"], zeros),
            "source_row": index,
            "target_table": names(["kernels"], zeros),
            "target_row": index,
        },
    )


def _communication(index: Int64, starts: Int64) -> pd.DataFrame:
    some = index[index % 5 == 4]
    zeros = np.zeros(len(some), np.int64)
    return tables.build(
        "communication",
        {
            "start_ns": starts[some] + 45_000,
            "duration_ns": np.full(len(some), 25_000, np.int64),
            "device_id": zeros,
            "name": names(["hcom_allReduce_"], zeros),
            "op_type": names(["hcom_allReduce_"], zeros),
            "group": names(["world"], zeros),
        },
    )


def _overlap(index: Int64, starts: Int64) -> pd.DataFrame:
    """Three kinds that share each operator's 40 us, so that they balance to the span."""
    kinds: Mapping[str, tuple[int, int]] = {
        "computing": (0, 20_000),
        "communication": (15_000, 15_000),
        "communication_not_overlapped": (20_000, 10_000),
        "free": (30_000, 10_000),
    }
    parts = [
        {
            "start_ns": starts + offset,
            "duration_ns": np.full(len(index), duration, np.int64),
            "kind": np.full(len(index), code, np.int64),
        }
        for code, (offset, duration) in enumerate(kinds.values())
    ]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return tables.build(
        "overlap",
        {
            **joined,
            "device_id": np.zeros(len(joined["kind"]), np.int64),
            "kind": names(list(kinds), joined["kind"]),
        },
    )


def _steps(launches: int) -> pd.DataFrame:
    count = 3
    size = launches * _STEP_NS // count
    step = np.arange(count, dtype=np.int64)
    return tables.build(
        "steps", {"step": step, "start_ns": START_NS + step * size, "duration_ns": np.full(count, size)}
    )


def _memory(index: Int64, starts: Int64) -> pd.DataFrame:
    return tables.build(
        "memory",
        {
            "time_ns": starts,
            "device_id": np.zeros(len(index), np.int64),
            "component": names(["PTA"], np.zeros(len(index), np.int64)),
            "allocated_bytes": (index % 50) * 2**20,
            "reserved_bytes": np.full(len(index), 2**26, np.int64),
        },
    )


def _marks(launches: int) -> pd.DataFrame:
    return tables.build(
        "marks",
        {
            "start_ns": START_NS + np.array([10_000, 50_000], np.int64),
            "duration_ns": np.array([0, launches * _STEP_NS // 2], np.int64),
            "message": names(["epoch 3", "forward"], np.arange(2)),
            "domain": names(["default"], np.zeros(2, np.int64)),
            "thread_id": np.full(2, 100),
        },
    )


def advice(run: Mapping[str, pd.DataFrame], about: Info) -> Advice:
    """The findings of a run."""
    return advise(run, about, account(run, about.rank))
