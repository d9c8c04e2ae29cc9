"""Raw data or its result: raw data where it is complete, and where not, why."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.simulator import synthesise
from npuprof.sources.detect import detect
from npuprof.sources.raw_or_parsed import raw_problem
from tests.sources.database.maker import framework_database
from tests.sources.framework.writer import profiler_info, small
from tests.sources.msprof.results import result
from tests.sources.trace.maker import small_trace

_DEVICE = "device_0"


@pytest.fixture
def prof(tmp_path: Path) -> Path:
    """A ``PROF_*`` directory with raw data of a simulated run, and a result."""
    return result(synthesise(tmp_path, launches=20))


def _slice(path: Path, side: str = "host") -> Path:
    return next(path for path in sorted((path / side / "data").iterdir()) if path.name.endswith(".slice_0"))


def _empty(path: Path) -> None:
    for file in path.glob("data/*.slice_0"):
        file.write_bytes(b"")
        file.with_name(f"{file.name}.done").write_text("filesize:0")


def _of_chip(path: Path, chip: str) -> None:
    info = path / _DEVICE / "info.json.0"
    info.write_text(json.dumps({**json.loads(info.read_text()), "platform_version": chip}))


def _without_number(path: Path) -> None:
    first = _slice(path)
    shutil.copyfile(first, first.with_name(first.name.replace("slice_0", "slice_2")))
    mark = first.with_name(f"{first.name}.done")
    shutil.copyfile(mark, first.with_name(mark.name.replace("slice_0", "slice_2")))


_DAMAGE: dict[str, Callable[[Path], Any]] = {
    "no data of the host": lambda path: _empty(path / "host"),
    "no data of a device": lambda path: _empty(path / _DEVICE),
    "the decoding of this chip's records was not compared": lambda path: _of_chip(path, "4"),
    "host has no end_info: the run did not end in order": lambda path: (path / "host/end_info").unlink(),
    "device_0 has no end_info": lambda path: (path / _DEVICE / "end_info.0").write_text("{"),
    "device_0 has no anchor of its clock": lambda path: (path / _DEVICE / "dev_start.log.0").unlink(),
    "slices without a .done mark": lambda path: _slice(path).with_name(f"{_slice(path).name}.done").unlink(),
    "bytes more than in the .done marks": lambda path: (
        _slice(path, _DEVICE).with_name(f"{_slice(path, _DEVICE).name}.done").write_text("filesize:7\n")
    ),
    "host: .* slices between its first and its last one are missing": _without_number,
}


@pytest.mark.slow
def test_whole_raw_data_is_shown_before_its_result(prof: Path) -> None:
    assert not raw_problem(prof)
    run = npuprof.load(prof)
    assert (run.info.source, len(run.kernels)) == ("raw", 20)
    assert "source='parsed' shows the vendor's result" in "".join(run.notes["message"])
    assert npuprof.load(prof, source="parsed").info.source.startswith("msprof")
    assert [detect(prof, preferred).results[0].source.name for preferred in ("raw", "parsed")] == ["raw", "msprof"]


@pytest.mark.slow
@pytest.mark.parametrize("problem", _DAMAGE)
def test_incomplete_raw_data_gives_way_to_the_result(prof: Path, problem: str) -> None:
    _DAMAGE[problem](prof)
    assert detect(prof).results[0].source.name == "forms"
    notes = npuprof.load(prof).notes
    assert notes["message"].str.contains(f"raw data, which is not complete: .*{problem}", regex=True).any()
    assert detect(prof, "raw").results[0].source.name == "raw"


def test_raw_data_without_any_marks_is_whole(prof: Path) -> None:
    for mark in prof.rglob("*.done"):
        mark.unlink()
    assert not raw_problem(prof)


def test_raw_data_alone_is_shown_whatever_it_lacks(prof: Path) -> None:
    shutil.rmtree(prof / "mindstudio_profiler_output")
    (prof / "host" / "end_info").unlink()
    run = npuprof.load(prof)
    assert run.info.source == "raw"
    assert not run.notes["source"].eq("source").any()


def test_a_result_alone_is_not_raw(tmp_path: Path) -> None:
    path = result(tmp_path / "PROF_1")
    assert raw_problem(path)
    assert raw_problem(tmp_path / "absent")
    assert not npuprof.load(path).notes["source"].eq("source").any()


@pytest.fixture
def torch_run(tmp_path: Path) -> Path:
    """A result of torch_npu with the raw files that it was made of."""
    info = profiler_info()
    info["config"] = {"common_config": {"activities": ["CPU", "NPU"], "with_stack": False}, "experimental_config": {}}
    info["end_info"] = {"collectionTimeEnd": 1_763_600_009_000_000_000, "MonotonicTimeEnd": 10**12}
    root = small().write(tmp_path / "result", info)
    synthesise(root, launches=5)
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir()
    small_trace().write(output / "trace_view.json")
    (output / "step_trace_time.csv").write_text("Step,Computing,Communication(Not Overlapped),Free\n7,12.5,0.0,1.5\n")
    (output / "op_statistic.csv").write_text("OP Type,Count\nAdd,3\n")
    return root


@pytest.mark.slow
def test_whole_raw_files_keep_result_sums(torch_run: Path) -> None:
    assert raw_problem(torch_run) == ""
    run = npuprof.load(torch_run)
    assert run.info.source == "torch_npu raw files"
    assert len(run.kernels) == 5
    assert run.step_times["computing_ns"].tolist() == [12_500]
    assert run.statistics["op_statistic"]["Count"].tolist() == [3]
    parsed = npuprof.load(torch_run, source="parsed")
    assert parsed.info.source == "torch_npu text result"
    assert parsed.step_times["computing_ns"].tolist() == [12_500]


_TORCH_DAMAGE: dict[str, Callable[[Path], Any]] = {
    "there are 2 PROF_": lambda root: (root / "PROF_000009_20300101_LATER").mkdir(),
    "there are 0 PROF_": lambda root: shutil.rmtree(next(root.glob("PROF_*"))),
    "does not have the options": lambda root: (root / "profiler_info.json").write_text('{"config": {}}'),
    "does not say when the run ended": lambda root: _rewrite(root, {"end_info": {}}),
    "the files of the framework are missing": lambda root: shutil.rmtree(root / "FRAMEWORK"),
    "torch.op_range is missing or empty": lambda root: (root / "FRAMEWORK" / "torch.op_range").write_bytes(b""),
    "torch.python_tracer_func is missing": lambda root: _rewrite(root, {}, with_stack=True),
    "torch.memory_usage is missing": lambda root: _rewrite(root, {}, profile_memory=True),
    "host has no end_info": lambda root: next(root.glob("PROF_*/host/end_info")).unlink(),
}


def _rewrite(root: Path, given: dict[str, Any], **options: bool) -> None:
    told = json.loads((root / "profiler_info.json").read_text())
    told["config"]["common_config"].update(options)
    (root / "profiler_info.json").write_text(json.dumps({**told, **given}))


@pytest.mark.slow
@pytest.mark.parametrize("problem", _TORCH_DAMAGE)
def test_raw_files_that_lack_something_give_way_to_the_result(torch_run: Path, problem: str) -> None:
    for name in ("torch.python_tracer_func", "torch.memory_usage"):
        (torch_run / "FRAMEWORK" / name).unlink(missing_ok=True)
    _TORCH_DAMAGE[problem](torch_run)
    assert problem in raw_problem(torch_run)
    run = npuprof.load(torch_run)
    assert run.info.source == "torch_npu text result"


@pytest.mark.slow
def test_result_folder_is_the_requested_one(torch_run: Path) -> None:
    assert npuprof.load(torch_run / "ASCEND_PROFILER_OUTPUT").info.source == "torch_npu text result"


@pytest.mark.slow
def test_raw_files_come_before_a_database_of_the_same_run_too(torch_run: Path) -> None:
    output = torch_run / "ASCEND_PROFILER_OUTPUT"
    shutil.rmtree(output)
    output.mkdir()
    framework_database(output / "ascend_pytorch_profiler_0.db")
    assert npuprof.load(torch_run).info.source == "torch_npu raw files"
    assert detect(torch_run, "parsed").results[0].source.name == "database"
    (torch_run / "FRAMEWORK" / "torch.op_range").unlink()
    assert detect(torch_run).results[0].source.name == "forms"
