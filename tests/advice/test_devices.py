"""Words and actions are those of the device that a run is of, wherever it is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof.advice.findings import advise
from npuprof.advice.rules_of_packages import rules
from npuprof.analysis.accounting import account
from npuprof.analysis.device_words import runtime_of
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.timeline.svg import timeline_svg
from tests import factories
from tests.sources.kineto.jobs import TorchJob
from tests.sources.kineto.traces import KinetoTrace

_OF_NPUS = re.compile(
    r"\bNPU\b|torch_npu|npu_|cpu,npu|TASK_QUEUE|PYTORCH_NPU|ASCEND|Ascend|CANN|HCCL|AI.?C(ore|PU)|\bcube\b"
    r"|aic-metrics|--level|level=1|hccn|FRACTAL|\bAOE\b"
)
_FIGURES = ("timeline", "flamegraph", "plot_steps", "plot_memory", "plot_communication", "plot_communication_matrix")
_TRACES = ("two_ranks/rank-0", "sendrecv/rank0", "nccl/nccl_data", "amd/mi250", "old_categories/inference_rank_1")


def _shown(run: Profile) -> Iterator[tuple[str, str]]:
    """Iterate over everything that is shown of a run, by name."""
    advice = run.advice()
    yield "text", str(run)
    yield "html", run._repr_html_()
    yield "findings", str(advice)
    yield "json", advice.to_json()
    yield "notes", run.notes.to_string()
    yield "not measured", str(dict(run.accounting.unmeasured))
    yield "drawing", timeline_svg(run.tables, run.info)
    for name in _FIGURES:
        yield name, re.sub(r'"bdata":"[^"]*"', "", getattr(run, name)().to_json())


def _foreign(run: Profile) -> dict[str, list[str]]:
    found = {name: sorted({match.group() for match in _OF_NPUS.finditer(text)}) for name, text in _shown(run)}
    return {name: words for name, words in found.items() if words}


@pytest.fixture
def gpu(tmp_path: Path) -> Profile:
    """A rank of a job whose host launches small kernels late."""
    return npuprof.load(TorchJob((9, 9), steps=3).write(tmp_path, name="{rank}.json") / "0.json")


@pytest.mark.slow
def test_a_run_of_a_gpu_has_no_word_of_an_npu(gpu: Profile) -> None:
    assert _foreign(gpu) == {}
    assert gpu.advice()["host_bound"].title == "The host keeps the GPU waiting"


@pytest.mark.slow
def test_a_host_that_launches_late_gets_the_actions_of_its_device(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1})
    for step in range(2):
        begin = 1000 * step
        trace.slice("user_annotation", f"ProfilerStep#{step}", begin, 1000, External_id=100 * step)
        trace.operator("autograd::engine::evaluate_function: MmBackward0", begin + 10, 980, 100 * step + 1)
        for number in range(30):
            launch, ids = begin + 20 + 30 * number, {"External_id": 100 * step + 1, "correlation": 100 * step + number}
            trace.slice("cuda_runtime", "cudaLaunchKernel", launch, 2, cbid=211, **ids)
            trace.on_gpu("kernel", "gemm", launch + 4, 3, 0, stream=7, **ids)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert _foreign(run) == {}
    advice = run.advice()
    assert "`torch.compile` or CUDA graphs" in advice["host_bound"].action
    assert "`torch.compile`" in advice["small_kernels"].action
    assert "the GPU is idle for" in advice["small_kernels"].detail


@pytest.mark.slow
@pytest.mark.parametrize("name", _TRACES)
def test_published_traces_of_gpus_have_no_word_of_an_npu(samples: Path, name: str) -> None:
    assert _foreign(npuprof.load(samples / "kineto" / f"{name}.json.gz")) == {}


@pytest.mark.slow
def test_a_job_on_gpus_has_no_word_of_an_npu(tmp_path: Path) -> None:
    runs = npuprof.load_set(TorchJob((400, 400, 640, 400), steps=3).write(tmp_path))
    shown = {
        "findings": str(runs.advice()),
        "json": runs.advice().to_json(),
        "overview": str(runs.overview()),
        "matrix": runs.plot_communication_matrix().to_json(),
    }
    assert {name: _OF_NPUS.findall(text) for name, text in shown.items() if _OF_NPUS.search(text)} == {}


def test_rules_about_npus_judge_no_gpu(gpu: Profile) -> None:
    names = {finding.rule for finding in gpu.advice().findings}
    assert names == {rule.name for rule in rules() if "GPU" in rule.devices}
    with pytest.raises(NpuprofError, match="there is no rule 'cube_efficiency'"):
        gpu.advice()["cube_efficiency"]


def test_collecting_advice_uses_the_recorders_words(gpu: Profile) -> None:
    assert "profile_memory=True" in gpu.advice()["memory_peak"].collect
    gpu.info.source = "recording, torch profiler trace"
    recorded = advise(gpu.tables, gpu.info, gpu.accounting)
    assert "collect with --memory" in recorded["memory_peak"].collect


def test_an_npu_keeps_its_words() -> None:
    run = factories.profile(40)
    assert _OF_NPUS.search(str(advise(run, factories.info(), account(run))))


@pytest.mark.parametrize(
    ("calls", "runtime"),
    [
        (["cudaLaunchKernel", "cudaMemcpyAsync"], "CUDA"),
        (["cuLaunchKernel"], "CUDA"),
        (["hipLaunchKernel"], "HIP"),
        (["zeCommandListAppendLaunchKernel"], "Level Zero"),
        (["aclrtMemcpyAsync", "AscendCL@aclopCompileAndExecute"], "CANN"),
        ([], "CANN"),
    ],
)
def test_the_runtime_is_known_by_its_calls(calls: list[str], runtime: str) -> None:
    assert runtime_of(calls) == runtime


@pytest.mark.slow
def test_lanes_and_frames_are_of_the_runtime_that_was_called(gpu: Profile) -> None:
    assert "CUDA" in gpu.timeline().to_json()
    assert "CUDA API" in gpu.flamegraph().to_json()
    assert "CUDA calls" in gpu._repr_html_()


def test_a_trace_of_operators_alone_asks_for_no_npu(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1})
    trace.operator("aten::mm", 1, 20, 1)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert not _OF_NPUS.search(str(run) + str(run.advice()))
