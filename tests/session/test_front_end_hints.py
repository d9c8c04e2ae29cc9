"""What a front end cannot do is said at once, and what to do leads to a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError
from npuprof.options import Options
from npuprof.recordings.clock import SystemClock
from npuprof.session.active import ActiveRun
from tests.fakes import FakeCollector


class _TorchNpu(FakeCollector):
    name = "torch_npu"


def _warnings_of(collector: FakeCollector, tmp_path: Path, **options: Any) -> list[str]:
    run = ActiveRun(collector, Options(output=tmp_path, **options), "a test", SystemClock())
    run.start()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run.marking.mark("one", "", None)
            run.marking.range_end(run.marking.range_start("two", ""))
    finally:
        run.stop()
    return [str(each.message) for each in caught if issubclass(each.category, NpuprofWarning)]


@pytest.mark.parametrize(
    ("collector", "options", "told"),
    [
        (_TorchNpu, {"activities": ["cpu"]}, 1),
        (_TorchNpu, {"activities": ["cpu"], "stacks": True}, 1),
        (_TorchNpu, {"activities": ["cpu", "npu"]}, 0),
        (_TorchNpu, {"activities": ["npu"]}, 0),
        (_TorchNpu, {"activities": ["cpu"], "marks": False}, 0),
        (FakeCollector, {"activities": ["cpu"]}, 0),
    ],
)
def test_markers_that_are_lost_are_told_once(
    tmp_path: Path, collector: type[FakeCollector], options: dict[str, Any], told: int
) -> None:
    messages = _warnings_of(collector(), tmp_path, **options)
    assert len(messages) == told
    assert all("torch_npu records markers with the NPU's activity alone" in message for message in messages)


@pytest.mark.parametrize(
    "option",
    [{"l2": True}, {"host_sys": ["cpu"]}, {"sys_io": True}, {"dvpp": True}, {"aic_metrics": "Memory"}],
)
@pytest.mark.parametrize("activities", [("cpu",), ("auto",)])
def test_a_refusal_names_front_ends_that_have_it(option: dict[str, Any], activities: tuple[str, ...]) -> None:
    with pytest.raises(OptionsError) as refused:
        Options(collector="kineto", activities=activities, **option)
    told = str(refused.value)
    assert told.startswith(f"kineto has no {next(iter(option))}: ")
    assert "add npu" not in told
    for other in told.partition("--collector ")[2].strip(").").split(", "):
        Options(collector=other, **option)


@pytest.mark.parametrize("changed", [False, True])
def test_an_npu_run_without_data_names_its_cause(tmp_path: Path, changed: bool) -> None:
    run = ActiveRun(_TorchNpu(), Options(output=tmp_path, activities=("npu",)), "a test", SystemClock())
    run.start()
    (run.recording.directory / "profiler_info.json").write_text(json.dumps({"a": 1}))
    run.stop()
    if changed:
        (run.recording.directory / "profiler_info.json").unlink()
    with pytest.raises(NpuprofError) as refused:
        npuprof.load(run.recording.directory)
    wanted = "copy the recording again" if changed else "CANN left no PROF_* directory"
    assert wanted in str(refused.value)


def test_an_empty_export_of_stacks_is_told(tmp_path: Path) -> None:
    prof = npuprof.profile(collector="simulator", output=tmp_path, activities=["cpu"])
    with prof:
        sum(range(1_000))
    with pytest.warns(NpuprofWarning, match="is empty: no call of this run has any self_npu_time_total"):
        prof.export_stacks(tmp_path / "stacks.txt", metric="self_npu_time_total")


@pytest.mark.slow
@pytest.mark.parametrize(("imports", "told"), [("import torch, ", True), ("import ", False)])
def test_tells_torch_on_the_cpu_of_kineto(tmp_path: Path, imports: str, told: bool) -> None:
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0'\n")
    code = f"{imports}npuprof\nwith npuprof.profile(output='out') as session:\n    pass\nprint(session.result)\n"
    path = os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Nothing was recorded of the simulated NPU" in done.stdout
    assert ("add --collector kineto" in done.stdout) == told
