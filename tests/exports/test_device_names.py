"""What is written and drawn of a run names its own device and runtime, in every format."""

from __future__ import annotations

import gzip
import html
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof.analysis.device_words import runtime_of, torch_device
from npuprof.figures.embed import library
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from tests import factories
from tests.same_runs import assert_same_run
from tests.sources.kineto.jobs import TorchJob
from tests.sources.kineto.traces import KinetoTrace

pytestmark = pytest.mark.slow  # tables, figures and workbooks are made

_OF_NPUS = re.compile(
    r"\bNPU\b|torch_npu|\bnpu[:_]|Ascend(?!ing\b)|\bcann\b|\bHCCL\b|AI.?Core|\bcube\b|aic_metrics|--level|level=1"
    r"|at level \d|\(level \d|sys_hardware|step_trace_time|communication_matrix\.json",
    re.IGNORECASE,
)
_ALIKE = str.maketrans({**dict.fromkeys("023456789", "1"), **dict.fromkeys("<,", "\n")})
_TRACES = (
    "amd/mi250",
    "old_categories/inference_rank_1",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("two_ranks/rank-0", "nccl/nccl_data")),
    pytest.param("sendrecv/rank0", marks=pytest.mark.exhaustive),
)


def _unpacked(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return "".join(archive.read(name).decode() for name in archive.namelist())


def _page(path: Path) -> str:
    return html.unescape(path.read_text(encoding="utf-8").replace(library(), ""))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _packets(path: Path) -> str:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    return str(protos.Trace.FromString(gzip.decompress(path.read_bytes())))


_EXPORTS: dict[str, tuple[Callable[[Profile, Path], Path], Callable[[Path], str]]] = {
    "trace.json": (Profile.to_chrome_trace, _text),
    "trace.pftrace.gz": (Profile.to_perfetto, _packets),
    "speedscope.json": (Profile.to_speedscope, _text),
    "memory.json": (Profile.to_memory_timeline, _text),
    "stacks.txt": (Profile.to_folded_stacks, _text),
    "page.html": (Profile.to_html, _page),
    "tables.xlsx": (Profile.to_xlsx, _unpacked),
    "kernels.csv": (lambda run, path: run.to_csv(path, "kernels"), _text),
}


def _drawn(run: Profile) -> Iterator[tuple[str, Any]]:
    yield "timeline", run.timeline()
    yield "flamegraph", run.flamegraph()
    for name in sorted(name for name in dir(run) if name.startswith("plot_")):
        if name != "plot_difference":
            yield name, run.plot_kernel(0) if name == "plot_kernel" else getattr(run, name)()


def _foreign(run: Profile, folder: Path) -> dict[str, list[str]]:
    """Return the words of an NPU in everything that is written and drawn of a run, by its name."""
    texts = {name: read(write(run, folder / name)) for name, (write, read) in _EXPORTS.items()}
    texts |= {name: re.sub(r'"bdata":"[^"]*"', "", figure.to_json()) for name, figure in _drawn(run)}
    found = {name: _of_npus(text) for name, text in texts.items()}
    return {name: words for name, words in found.items() if words}


def _of_npus(text: str) -> list[str]:
    """Return the words of an NPU in a text, whose rows differ in little but their numbers: one of each is searched."""
    return sorted({*_OF_NPUS.findall("\n".join({*text.translate(_ALIKE).split("\n")}))})


def _processes(path: Path) -> list[str]:
    events = json.loads(path.read_text())["traceEvents"]
    return [event["args"]["name"] for event in events if event["name"] == "process_name"]


@pytest.fixture
def gpu(tmp_path: Path) -> Profile:
    return npuprof.load(TorchJob((9, 9), steps=3).write(tmp_path / "job", name="{rank}.json") / "0.json")


def test_a_generated_run_of_a_gpu(gpu: Profile, tmp_path: Path) -> None:
    assert _foreign(gpu, tmp_path) == {}


@pytest.mark.parametrize("name", _TRACES)
def test_published_runs_of_gpus(samples: Path, tmp_path: Path, name: str) -> None:
    assert _foreign(npuprof.load(samples / "kineto" / f"{name}.json.gz"), tmp_path) == {}


@pytest.mark.long
def test_a_job_on_gpus(tmp_path: Path) -> None:
    runs = npuprof.load_set(TorchJob((400, 400), steps=3).write(tmp_path / "job"))
    figures = [
        runs.plot_pipeline(),
        runs.plot_ranks(),
        runs.plot_memory(),
        runs.plot_communication(),
        runs.plot_steps(),
    ]
    texts = [figure.to_json() for figure in figures]
    texts += [_text(runs.to_chrome_trace(tmp_path / "t.json")), _page(runs.to_html(tmp_path / "p.html"))]
    assert [_of_npus(text) for text in texts] == [[]] * len(texts)
    assert {"CUDA (rank 0)", "CUDA (rank 1)", "GPU 0 (rank 0)"} <= set(_processes(tmp_path / "t.json"))


def test_processes_are_named_after_the_device_and_are_read_again(gpu: Profile, tmp_path: Path) -> None:
    path = gpu.to_chrome_trace(tmp_path / "t.json")
    assert {"CUDA", "GPU 0"} <= set(_processes(path))
    again = npuprof.load(path)
    assert_same_run(gpu, again)
    assert _processes(again.to_chrome_trace(tmp_path / "again.json")) == _processes(path)


def test_an_npu_keeps_the_names_of_its_vendor(tmp_path: Path) -> None:
    run = Profile(Decoded(factories.all_tables(**factories.profile(20)), factories.info()))
    assert {"CANN", "Ascend Hardware 0"} <= set(_processes(run.to_chrome_trace(tmp_path / "t.json")))
    assert "--aic-metrics" in run.plot_roofline().to_json() + run.plot_kernel(0).to_json()
    assert "--memory" in npuprof.Profile(Decoded()).plot_memory().to_json()


def test_memory_is_of_the_device_that_torch_names(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1})
    trace.memory(10, 512, 1, 512, device=0)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert all(name.startswith("cuda:0 ") for name in json.loads(_text(run.to_memory_timeline(tmp_path / "m.json"))))
    assert json.loads(_text(run.to_memory_timeline(tmp_path / "m.json", "cuda:0")))
    with pytest.raises(npuprof.errors.OptionsError, match="devices with samples: cuda:0"):
        run.to_memory_timeline(tmp_path / "m.json", "cuda:7")


def test_unknown_runtime_is_no_npu() -> None:
    assert runtime_of(["someLaunch"], Info(collector="kineto")) == "runtime"
    assert runtime_of(["launch"], Info(collector="acl")) == runtime_of(["launch"]) == "CANN"
    calls = factories.all_tables()
    assert torch_device(Info(collector="kineto"), calls) == "cuda"
    assert torch_device(Info(collector="acl"), calls) == "npu"
