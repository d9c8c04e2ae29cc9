"""Whatever stands in a field of a small file, reading raises none but our errors, and what is left out is told."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import npuprof
from npuprof.errors import NpuprofError
from npuprof.loading import open_path
from npuprof.notes import Notes
from npuprof.profiles import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.recording import FILE_NAME, Recording
from npuprof.sources import raw, saved
from npuprof.sources.base import Decoded
from npuprof.sources.result_folder.layout import OUTPUT
from tests import factories
from tests.field_damage import WRONG, damaged, places
from tests.sources.cluster import maker as cluster
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.mindspore import maker as mindspore
from tests.sources.raw.writers.directory import MONO_NS, UTC_US, RawDirectory
from tests.sources.trace.maker import small_trace

_HEAVY = bool(os.environ.get("NPUPROF_HEAVY"))
_KINDS_EACH = len(WRONG) if _HEAVY else 1  # of which each field takes the next


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


_MAKERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "recording": (_recorded, [FILE_NAME]),
    "saved": (_saved, [saved.FILE_NAME]),
    "torch_npu": (
        _torch_npu,
        [
            *("profiler_info.json", "profiler_metadata.json"),
            *(f"{OUTPUT}/communication.json", f"{OUTPUT}/communication_matrix.json"),
        ],
    ),
    "mindspore": (_pipeline, ["profiler_info_2.json", f"{OUTPUT}/minddata_pipeline_summary_2.json"]),
    "raw": (
        _raw,
        [
            *("host/info.json", "host/start_info", "device_0/info.json.0", "device_0/sample.json"),
            *("device_0/start_info.0", "host/end_info", "device_0/end_info.0"),
        ],
    ),
    "cluster": (
        cluster.text_result,
        ["communication_group.json", "cluster_communication.json", "cluster_communication_matrix.json"],
    ),
    "timeline": (_timeline, ["trace_view.json"]),
    "kineto": (_kineto, ["t.json"]),
}
_LONG = ("timeline", "kineto")
_FILES = [(name, file) for name, (_, files) in _MAKERS.items() if _HEAVY or name not in _LONG for file in files]


def _use(path: Path, *, every_way: bool) -> None:
    run = npuprof.load(path)
    json.dumps(run.info.to_dict())
    if not every_way:
        return
    repr(run)
    shutil.rmtree(path.parents[1] / "again", ignore_errors=True)
    repr(npuprof.load(run.save(path.parents[1] / "again")))
    runs = open_path(path.parent)
    if isinstance(runs, ProfileSet):
        repr(runs)
        assert runs.notes is not None


def _kind_of(key: Any) -> Any:
    """Return what stands for a key: entries of a list, ranks, pairs of them and links are each alike."""
    return "#" if re.fullmatch(r"[0-9.-]+|[SR]DMA", str(key)) else key


def _damages(plain: Any) -> Iterator[tuple[tuple[Any, ...], str, str]]:
    kinds = itertools.cycle(WRONG.items())
    alike = {tuple(key if _HEAVY else _kind_of(key) for key in place): place for place in places(plain)}
    for place in alike.values():
        for words, value in itertools.islice(kinds, _KINDS_EACH):
            yield place, words, value


@pytest.mark.long
@pytest.mark.parametrize(("name", "file"), _FILES)
def test_a_damaged_field_is_reported_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    if name == "recording":
        monkeypatch.setattr(raw, "read", lambda path, part: Decoded({"marks": _MARKS}))
    make = _MAKERS[name][0]
    path = tmp_path / "set" / "damaged"
    make(path)
    make(tmp_path / "set" / "whole")
    plain = json.loads((path / file).read_bytes())
    wrong = []
    for number, (place, words, value) in enumerate(_damages(plain)):
        (path / file).write_text(damaged(plain, place, value))
        try:
            _use(path, every_way=_HEAVY or number % 16 == 0)
        except NpuprofError as error:
            if str(path.parent) not in str(error):
                wrong.append((place, words, str(error)))
        except Exception as error:  # noqa: BLE001 - each of them is a find
            wrong.append((place, words, repr(error)))
    assert not wrong


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
