"""Small files of every kind, with each field that npuprof reads: what a damaged one says of it.

``test_wrong_types`` tries values of wrong types in every field.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.recordings.recording import FILE_NAME, Recording
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.result_folder.layout import OUTPUT
from npuprof.tables.notes import Notes
from tests import factories
from tests.field_damage import damaged
from tests.sources.cluster import maker as cluster
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.mindspore import maker as mindspore
from tests.sources.raw.writers.directory import MONO_NS, UTC_US, RawDirectory
from tests.sources.trace.maker import small_trace

_MARKS = factories.profile(3)["marks"]


def _recorded(path: Path) -> None:
    """What a session leaves: its own file beside a directory of native data."""
    start = factories.START_NS
    (path / "PROF_1").mkdir(parents=True)
    Recording(
        path,
        "a run",
        "acl",
        False,
        options={"level": 1, "activities": ["npu"]},
        started_ns=start,
        stopped_ns=start + 100_000,
        raw_clock_epoch_ns=start,
        steps=[(0, start, start + 50_000), (1, start + 50_000, start + 90_000)],
        domains=[("epoch 3", "mine", 0)],
        metadata={"parallel_group_info": {"g": {"global_ranks": [0, 1]}}, "world_size": 2},
        versions={"cann": "8.3"},
        environment={"hostname": "a host"},
        problems=["one"],
    ).write()


def _saved(path: Path) -> None:
    notes = Notes()
    notes.warning("somewhere", "something")
    info = factories.info(
        rank=1,
        stopped_ns=factories.START_NS + 100_000,
        versions={"cann": "8.3"},
        environment={"host": "a host"},
        metadata={"parallel_group_info": {"g": {"global_ranks": [0, 1]}}, "world_size": 2},
        recording=Path("/somewhere"),
        selection={"start_ns": factories.START_NS},
    )
    statistics = {"op_statistic": pd.DataFrame({"OP Type": ["Add"]})}
    Profile(Decoded({"marks": _MARKS}, info, notes, statistics)).save(path)


def _torch_npu(path: Path) -> None:
    """A result of torch_npu with each small file of its own."""
    (path / OUTPUT).mkdir(parents=True)
    head = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    (path / OUTPUT / "kernel_details.csv").write_text(f"{head}\n1,Add,Add,AI_CORE,1763600000000100.001\t,2\n")
    start = {"start_monotonic": 1_000, "start_cnt": 7}
    config = {
        "common_config": {"activities": ["ProfilerActivity.NPU"], "with_stack": False, "schedule": {"wait": 1}},
        "experimental_config": {"_profiler_level": "Level1", "_aic_metrics": "PipeUtilization", "_mstx": True},
    }
    info = {"config": config, "start_info": start, "rank_id": 1, "torch_npu_version": "2.7", "cann_version": "8.3"}
    metadata = {
        "distributed_args": {"world_size": 2, "rank": 1},
        "parallel_group_info": {"g": {"group_name": "dp", "group_rank": 1, "global_ranks": [0, 1]}},
        "ENV_VARIABLES": {"HCCL_ALGO": "x"},
    }
    end = {"collectionTimeEnd": 90_000, "MonotonicTimeEnd": 41_000}
    (path / "profiler_info.json").write_text(json.dumps(info | {"end_info": end}))
    (path / "profiler_metadata.json").write_text(json.dumps(metadata))
    operators = {name: cluster.communication_json()["collective"]["step3"][name]["0"] for name in (cluster.REDUCE,)}
    (path / OUTPUT / "communication.json").write_text(json.dumps({"step3": {"p2p": {}, "collective": operators}}))
    pairs = cluster.matrix_json()["collective"]["step3"]
    (path / OUTPUT / "communication_matrix.json").write_text(json.dumps({"step3": {"collective": pairs}}))


def _raw(path: Path) -> None:
    directory = RawDirectory(path)
    directory.launch(0, "MatMul", 3, 0)
    directory.finish()
    end = json.dumps({"collectionTimeEnd": str(UTC_US + 90_000), "clockMonotonicRaw": str(MONO_NS + 90_000_000)})
    for name in ("host/end_info", "device_0/end_info.0"):
        (path / name).write_text(end)


def _timeline(path: Path) -> None:
    path.mkdir(parents=True)
    small_trace().write(path / "trace_view.json")


def _kineto(path: Path) -> None:
    path.mkdir(parents=True)
    trace = KinetoTrace()
    trace.operator("aten::add", 10, 5, 3)
    trace.memory(12, 64, 4096, 64)
    trace.on_gpu("kernel", "add", 20, 4, 0, correlation=7)
    (path / "t.json").write_text(trace.text())


def _pipeline(path: Path) -> None:
    (path / OUTPUT).mkdir(parents=True)
    summary = {
        "pipeline_ops": ["Batch(id=0)"],
        "op_ids": [0],
        "op_names": ["Batch"],
        "num_workers": [4],
        "avg_cpu_pct": [1.5],
        "parent_id": [-1],
        "children_id": [[1]],
        "detailed_analysis": ["fine"],
    }
    (path / OUTPUT / "minddata_pipeline_summary_2.json").write_text(json.dumps(summary))
    (path / "profiler_info_2.json").write_text(json.dumps(mindspore.INFO))


MAKERS: dict[str, Callable[[Path], object]] = {
    "torch_npu": _torch_npu,
    "mindspore": _pipeline,
    "raw": _raw,
    "cluster": cluster.text_result,
    "timeline": _timeline,
    "kineto": _kineto,
    "saved": _saved,
}
"""What writes a result below a path, by the kind of its small files."""


def test_a_damaged_fact_of_a_recording_is_left_out_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "read", lambda path, part: Decoded({"marks": _MARKS}))
    _recorded(tmp_path / "run")
    plain = json.loads((tmp_path / "run" / FILE_NAME).read_bytes())
    (tmp_path / "run" / FILE_NAME).write_text(json.dumps(plain | {"steps": [[1, 2]], "options": None, "name": 7}))
    run = npuprof.load(tmp_path / "run")
    told = " ".join(run.notes["message"])
    assert all(f"{FILE_NAME}: {field} is damaged" in told for field in ("steps", "options", "name"))
    assert run.info.versions == {"cann": "8.3"}
    assert run.marks["domain"].tolist() == ["mine", "default"]


@pytest.mark.parametrize("simulated", ["", '"x"', "null", "0"])
def test_a_recording_without_its_simulated_flag_is_refused(tmp_path: Path, simulated: str) -> None:
    _recorded(tmp_path / "run")
    plain = json.loads((tmp_path / "run" / FILE_NAME).read_bytes())
    (tmp_path / "run" / FILE_NAME).write_text(damaged(plain, ("simulated",), simulated))
    with pytest.raises(NpuprofError, match="does not say whether the NPU was simulated"):
        npuprof.load(tmp_path / "run")
