"""No damage to a file of a text result takes rows or values without a warning.

With NPUPROF_MUTATIONS=N every run of every sample is tried too, with N random mutations of each kind in each file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

from npuprof.sources.detect import detect
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.mindspore import maker as mindspore
from tests.sources.msprof.results import STAMP, csv, result
from tests.sources.mutations import silent_losses
from tests.sources.test_broken_input import FILES, whole_result

_RANDOM = int(os.environ.get("NPUPROF_MUTATIONS", "0"))
_SMALL = (
    "msprof/aic_metrics/PROF_Memory",
    "msprof/realistic_parent_layout",
    "mindspore/cpu/case_npu",
    "torch_npu/llm_4ranks/rank_1_ascend_pt",
)
_TEXT = ("torch_npu", "msprof", "kineto", "single_file", "loose_folder")


def test_a_whole_result_loses_nothing_in_silence(tmp_path: Path) -> None:
    root = whole_result(tmp_path / "whole")
    common = {"activities": ["ProfilerActivity.NPU"], "profile_memory": True}
    config = {"common_config": common, "experimental_config": {"_profiler_level": "Level1"}}
    (root / "profiler_info_0.json").write_text(json.dumps({"config": config}))
    assert not silent_losses(root, tmp_path)


def test_a_result_of_mindspore_loses_nothing_in_silence(tmp_path: Path) -> None:
    names = "trace_view|kernel_details|minddata|dataset|operator_details|communication"
    assert not silent_losses(mindspore.result(tmp_path / "whole" / "ms"), tmp_path, names=names)


def test_a_result_of_msprof_loses_nothing_in_silence(tmp_path: Path) -> None:
    root = result(tmp_path / "whole" / "PROF_1")
    summed = root / "mindstudio_profiler_output" / f"op_statistic_{STAMP}.csv"
    csv(summed, "OP Type,Core Type,Count,Total Time(us)", ["MatMulV3,AI_CORE,1,10"])
    assert not silent_losses(root, tmp_path)


def test_a_trace_of_torch_loses_nothing_in_silence(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.slice("user_annotation", "forward", 5, 60, External_id=2)
    for number in range(4):
        trace.operator("aten::mm", 10 + number, 1, 3 + number, Sequence_number=number)
        trace.memory(12 + number, 64, 4096 + number, 64 * number)
    (tmp_path / "whole").mkdir()
    assert not silent_losses(trace.write(tmp_path / "whole" / "trace.json"), tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_by_itself_loses_nothing_in_silence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "whole" / name
    path.parent.mkdir()
    path.write_bytes(FILES[name])
    assert not silent_losses(path, tmp_path)


@pytest.mark.parametrize("sample", _SMALL)
def test_a_sample_loses_nothing_in_silence(samples: Path, tmp_path: Path, sample: str) -> None:
    for run in detect(samples / sample).found:
        assert not silent_losses(run.path, tmp_path)


@pytest.mark.skipif(not _RANDOM, reason="NPUPROF_MUTATIONS tells how many random mutations to try")
@pytest.mark.parametrize("preferred", [None, "parsed"])
def test_no_sample_loses_anything_in_silence(samples: Path, tmp_path: Path, preferred: None) -> None:
    lost = []
    for place, run in enumerate(detect(samples, preferred).found):
        if run.name in _TEXT:
            folder = tmp_path / f"{place}"
            folder.mkdir()
            lost += silent_losses(run.path, folder, Random(place), _RANDOM)
    assert not lost
