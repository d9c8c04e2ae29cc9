"""Who collects as told is never told so again, and is never refused: each front end, each way to begin."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from npuprof import tables as schema
from npuprof.advice.findings import Advice, advise
from npuprof.analysis.accounting import account
from npuprof.collectors import capabilities
from npuprof.errors import OptionsError
from npuprof.notebook.arguments import parse_run, typed_options
from npuprof.options import Options
from npuprof.options.specification import FRONT_ENDS
from npuprof.tables.info import Info
from tests import factories
from tests.analysis.test_accounting import table

_OPERATORS = ("torch_npu", "mindspore", "kineto")
"""The front ends whose recordings have operators of a framework."""
_OF_DEVICE = ("kernels", "tasks", "communication", "communication_tasks", "memory", "overlap", "step_times", "counters")
_OF_CANN = ("api", "communication_tasks", "links")


def whole() -> dict[str, pd.DataFrame]:
    """All tables of a run: kernels with shapes and counters, operators, calls, stacks, tasks of collectives, memory."""
    run = factories.profile(60)
    count = len(run["kernels"])
    run["kernels"] = run["kernels"].assign(
        input_dtypes="FLOAT16;FLOAT16",
        output_shapes="256,1024",
        output_dtypes="FLOAT16",
        core="AI_CORE",
        block_num=pd.array([24] * count, "Int64"),
        aic_total_cycles=pd.array(run["kernels"]["duration_ns"].to_numpy(np.int64) * 18 // 10 * 24, "Int64"),
        mac_ratio=0.5,
    )
    named = run["operators"]["name"].astype(object)
    named.iloc[5] = "autograd::engine::evaluate_function: MmBackward0"
    run["operators"] = run["operators"].assign(name=named.astype("category"), input_shapes="[[4,4]]")
    ops = run["communication"]
    spans = list(zip((ops["start_ns"] - factories.START_NS).tolist(), ops["duration_ns"].tolist(), strict=True))
    run["communication_tasks"] = table("communication_tasks", spans, transport="HCCS").assign(
        op_id=pd.array(range(len(ops)), "Int64"),
        src_rank=pd.array([0] * len(ops), "Int64"),
        dst_rank=pd.array([1 + at % 3 for at in range(len(ops))], "Int64"),
        size_bytes=pd.array([1 << 20] * len(ops), "Int64"),
    )
    return run


def recorded(collector: str, options: Options) -> Advice:
    """The findings of what a front end records with some options."""
    run = whole()
    level = 1 if collector == "kineto" else options.level
    gone: set[str] = set()
    if not {"npu", "gpu"} & set(options.activities) or level == "none":
        gone |= {*_OF_DEVICE, *_OF_CANN}
    if level == 0:
        gone |= set(_OF_CANN)
        run["kernels"] = run["kernels"].assign(
            **{
                name: pd.Series(pd.NA, run["kernels"].index, dtype="category")
                for name in ("input_shapes", "input_dtypes")
            }
        )
    if "cpu" not in options.activities or collector not in _OPERATORS:
        gone.add("operators")
    if "cpu" not in options.activities or (collector in _OPERATORS and not options.stacks):
        gone.add("python")
    if not options.memory:
        gone.add("memory")
    if options.aic_metrics == "none":
        run["kernels"] = (
            run["kernels"].drop(columns=["mac_ratio"]).assign(aic_total_cycles=pd.array([None] * 60, "Int64"))
        )
    if not options.shapes:
        run["operators"] = run["operators"].assign(
            input_shapes=pd.Series(pd.NA, run["operators"].index, dtype="category")
        )
    tables = {name: schema.empty(name) if name in gone else frame for name, frame in run.items()}
    info = Info(
        collector=collector,
        source=f"recording, raw data of {collector}",
        chip="Ascend 910B2",
        rank=0,
        options=options.to_dict(),
        environment={"executable": "python"},
        code={"<cell [3]>": "train()"},
    )
    return advise(tables, info, account(tables, 0))


def beginnings() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each front end, with the options of runs that lack something."""
    levels = ("none", 0, 1)
    for collector in FRONT_ENDS:
        both = "cpu,gpu" if collector == "kineto" else "cpu,npu"
        for level, activities in itertools.product(levels, ("cpu", both)):
            for more in ({}, {"shapes": True, "memory": True}, {"aic_metrics": "none"}):
                yield collector, {"level": level, "activities": activities, **more}


def told(advice: Advice) -> list[str]:
    """What is said to be collected: by rules that cannot tell, and for idle time without a cause."""
    return [*(finding.collect for finding in advice.cannot_tell), *filter(None, advice.budget()["collect"])]


def asked_for(text: str) -> dict[str, Any]:
    """Return the options of a sentence; of a whole command those that its parser reads."""
    words = text.removeprefix("collect with ").partition(", or ")[0]
    if words.startswith("%%npuprof"):
        return typed_options(words.removeprefix("%%npuprof"))
    if words.startswith("npuprof run"):
        return parse_run([*shlex.split(words.removeprefix("npuprof run")), "train.py"]).options.to_dict()
    return typed_options(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "collector", [pytest.param(name, marks=() if name == "torch_npu" else pytest.mark.long) for name in FRONT_ENDS]
)
def test_front_ends_get_only_what_they_can_do(collector: str) -> None:
    tried = 0
    for _, given in (each for each in beginnings() if each[0] == collector):
        try:
            options = Options.from_dict({"collector": collector, **given})
            capabilities.check(collector, options)
        except OptionsError:
            continue
        tried += 1
        for _ in range(4):
            before = told(recorded(collector, options))
            wanted: dict[str, Any] = {}
            for text in before:
                if text.startswith("collect with -") or re.match(r"collect with (%%npuprof|npuprof run)", text):
                    wanted |= asked_for(text)
            if not wanted:
                break
            changed = Options.from_dict({**options.to_dict(), **wanted, "collector": collector})
            capabilities.check(collector, changed)
            assert changed != options, (given, before)
            options = changed
        else:
            pytest.fail(f"{given}: it never ends: {before}")
        assert [text for text in before if "load the whole result" in text] == [], (given, options)
    assert tried >= 3
