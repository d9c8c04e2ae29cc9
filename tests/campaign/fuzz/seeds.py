"""Small results of every format, written by the tests' own makers: what the fuzzer damages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import npuprof
from npuprof import simulator
from npuprof.options import Options
from npuprof.session.session import Session
from npuprof.simulator import Tensor
from npuprof.simulator.synthesis import synthesise
from tests.sources.cluster import maker as cluster
from tests.sources.database.maker import framework_database
from tests.sources.framework.writer import small
from tests.sources.kineto.traces import KinetoTrace
from tests.sources.mindspore import maker as mindspore
from tests.sources.msprof import results as msprof
from tests.sources.raw.writers.communication import CommunicationDirectory
from tests.sources.test_broken_input import FILES
from tests.sources.torch_npu.test_raw_files import run_around

_LAUNCHES = 12


def _text(root: Path) -> Path:
    output = root / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    for name, content in FILES.items():
        (output / name).write_bytes(content)
    return output.parent


def _kineto(root: Path) -> Path:
    trace = KinetoTrace(head={"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU X"}]})
    trace.slice("user_annotation", "ProfilerStep#7", 0.001, 100.5, External_id=1)
    trace.slice("python_function", "train.py(3): step", 0.5, 90, Python_id=1, Python_parent_id=None)
    trace.operator("aten::fill_", 3, 5, 11)
    trace.slice("cuda_runtime", "cudaLaunchKernel", 4, 2, cbid=211, correlation=77, External_id=11)
    trace.on_gpu("kernel", "fill", 8.002, 6.5, 0, stream=7, correlation=77, External_id=11)
    trace.memory(5, 512, 4096, 512)
    return trace.write(root / "trace.json")


def _msprof(root: Path) -> Path:
    return msprof.result(root / "PROF_000001_20260101000000000_A")


def _old_msprof(root: Path) -> Path:
    return msprof.old_result(root / "PROF_1")


def _database(root: Path) -> Path:
    return framework_database(root / "ascend_pytorch_profiler_3.db")


def _cluster_text(root: Path) -> Path:
    return cluster.text_result(root)


def _cluster_database(root: Path) -> Path:
    return cluster.database(root / "cluster_analysis.db")


def _mindspore(root: Path) -> Path:
    return mindspore.result(root / "rank_2_ascend_ms")


def _raw(root: Path) -> Path:
    return synthesise(root, launches=_LAUNCHES, streams=2)


def _raw_collectives(root: Path) -> Path:
    writer = CommunicationDirectory(root / "PROF_000001_20260101000000000_A")
    writer.collective(100, 900)
    for number in range(4):
        writer.communicate(120 + 100 * number, "Memcpy", 3, number)
    return writer.finish()


def _framework(root: Path) -> Path:
    return small().write(root)


def _framework_and_device(root: Path) -> Path:
    folder = root / "run"
    folder.mkdir()
    return run_around(synthesise(folder, launches=20, streams=1)).write(folder)


def _recording(root: Path) -> Path:
    simulator.reset()
    session = Session(Options.from_dict({"collector": "simulator", "output": root, "name": "fuzz"})).start()
    device = simulator.current().device(0)
    for _ in range(2):
        device.launch("Add", inputs=[Tensor((64,), "float16")], outputs=[Tensor((64,), "float16")])
        session.step()
    session.stop()
    simulator.reset()
    return next(root.rglob("recording.json")).parent


def _saved(root: Path) -> Path:
    run = npuprof.load(_text(root / "result"))
    saved = run.save(root / "saved")
    shutil.rmtree(root / "result")
    return saved


SEEDS: Mapping[str, Callable[[Path], Path]] = {
    "text": _text,
    "kineto": _kineto,
    "msprof": _msprof,
    "msprof of CANN 6": _old_msprof,
    "database": _database,
    "cluster text": _cluster_text,
    "cluster database": _cluster_database,
    "mindspore": _mindspore,
    "raw": _raw,
    "raw collectives": _raw_collectives,
    "framework": _framework,
    "framework and device": _framework_and_device,
    "recording": _recording,
    "saved": _saved,
}
"""What writes a result below a folder and returns its path, by the name of its format."""

WITH_MANIFEST = ("recording", "saved")
"""The formats that list their own files, so that each missing row can be told."""


def write(name: str, folder: Path) -> Path:
    """Write a seed below a folder; return the path to load."""
    folder.mkdir(parents=True, exist_ok=True)
    return SEEDS[name](folder)
