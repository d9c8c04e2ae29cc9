"""What the campaign damages: recordings that the tests write, and copies of real ones where there are any."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import npuprof
from npuprof import simulator
from npuprof.simulator import Tensor, jobs
from npuprof.simulator.jobs import text
from npuprof.simulator.synthesis import synthesise
from tests.samples import FOLDER
from tests.sources.framework.writer import profiler_info
from tests.sources.kineto.jobs import TorchJob
from tests.sources.torch_npu.test_raw_files import run_around

REAL = {
    "text of torch_npu": "torch_npu/text/level1/rank0_ascend_pt",
    "database of torch_npu": "torch_npu/db/level1/rank1_ascend_pt",
}
"""Published results by name, below the folder of samples."""
_OTHER_NAME = (b"aten::", "算子::".encode())  # so that names are not all ASCII
_MOST = 24  # damages of each generated recording, which have up to a thousand files and streams
DEVICES = (2, 4, 8)
"""How many devices a recording of several has."""


def _raw(launches: int, folder: Path) -> Path:
    return synthesise(folder, launches=launches, streams=3)


def _recording(devices: int, folder: Path) -> Path:
    """Record a loop on each device that ends each step by waiting for it."""
    simulator.configure(devices=devices)
    try:
        with npuprof.profile(output=folder, collector="simulator", name="steps", memory=True) as session:
            for step in range(6):
                for device in map(simulator.current().device, range(devices)):
                    for size in (1 << 12, 1 << 16, 1 << 20):
                        tensor = Tensor((size + step,), "float16")
                        device.launch("Add", inputs=[tensor, tensor], outputs=[tensor])
                        device.launch("Mul", inputs=[tensor, tensor], outputs=[tensor])
                    device.synchronize()
                session.step()
    finally:
        simulator.reset()
    return next(folder.rglob("recording.json")).parent


def _job(folder: Path) -> Path:
    return text.write(jobs.simulate(jobs.SIZES[8], seed=3), folder, kernels=True) / "rank0_ascend_pt"


def _kineto(folder: Path) -> Path:
    return next(TorchJob([300, 420], steps=6).write(folder).iterdir())


def _not_analysed(folder: Path) -> Path:
    """Write the raw files of a run of torch_npu: those of the framework, and the collector's directory."""
    root = folder / "rank0_ascend_pt"
    root.mkdir(parents=True)
    device = synthesise(root, launches=60, streams=1)
    activities = {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"]}
    config = {"common_config": activities, "experimental_config": {"_profiler_level": "Level1"}}
    return run_around(device, through_queue=True).write(root, profiler_info() | {"config": config})


def copied(source: Path, folder: Path) -> Path:
    """Copy a recording, with names that are not all ASCII, so that its copy can be written to."""
    for path in [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]:
        place = folder / source.name / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)  # whose rights are those of a new file: a sample cannot be written to
        if path.suffix in (".csv", ".json"):
            place.write_bytes(path.read_bytes().replace(*_OTHER_NAME))
    return folder / source.name


GENERATED: Mapping[str, Callable[[Path], Path]] = {
    "raw data of the simulator": partial(_raw, 200),
    "a recording of the simulator": partial(_recording, 1),
    **{f"a recording of {count} simulated devices": partial(_recording, count) for count in DEVICES},
    "raw files of torch_npu": _not_analysed,
    "text of a simulated job": _job,
    "trace of torch": _kineto,
}
"""What writes each recording below a folder, and returns its path."""


def copies(paths: Sequence[Path]) -> Iterator[tuple[str, Callable[[Path], Path], int]]:
    """Yield recordings of other paths by name, all of whose damages are tried."""
    yield from ((str(path), partial(copied, path), 0) for path in paths)


def recordings() -> Iterator[tuple[str, Callable[[Path], Path], int]]:
    """Yield every recording by name, and how many damages to try, 0 for all: the real ones first, where they are."""
    for name, place in REAL.items():
        if (FOLDER / place).is_dir():
            yield name, partial(copied, FOLDER / place), 0
    yield from ((name, write, _MOST) for name, write in GENERATED.items())
