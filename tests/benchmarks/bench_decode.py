"""What decoding a raw directory costs: run by hand, ``python -m tests.benchmarks.bench_decode``.

A recording of the simulated NPU is loaded, which decodes and joins all records; then its kernels are touched, or all
tables are made. Beside it, in the same run and in alternating order, the core records are decoded and joined by plain
NumPy without checks, names, shapes, counters or tables: the floor. Then a twentieth of the run is selected, by time.
Targets: a load within 3 times the floor, and of a million launches within 1 GB; all tables in 0.6 s for 100,000
launches, 6 s and 1 GB for a million; time a launch must stay the same as runs grow, as far as it does for the floor,
whose records leave the caches too. Times are of the processor, which other work on the machine disturbs less than the
clock's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import npuprof
from npuprof.simulator import synthesise
from npuprof.sources import raw

TARGET_S_PER_100_000 = 0.6
TARGET_FLOORS = 3
TARGET_MIB = {100_000: 300, 1_000_000: 953}  # 10**9 bytes
_SELECTED = 20  # one in so many launches


@dataclass(frozen=True)
class Measured:
    """The medians of one recording, in seconds, and the peak memory of all tables in MiB."""

    launches: int
    load_s: float
    kernels_s: float
    decode_s: float
    floor_s: float
    part_s: float
    peak_mib: float


def _stream(folder: Path, name: str, size: int) -> npt.NDArray[np.uint8]:
    files = [file for file in (folder / "data").glob(f"*{name}*.slice_*") if not file.name.endswith(".done")]
    files.sort(key=lambda file: int(file.name.rpartition("_")[2]))
    content = np.concatenate([np.fromfile(file, np.uint8) for file in files])
    return content[: len(content) // size * size].reshape(-1, size)


def _field(records: npt.NDArray[np.uint8], at: int, kind: str) -> npt.NDArray[Any]:
    return np.ascontiguousarray(records[:, at : at + np.dtype(kind).itemsize]).view(kind).ravel()


def floor(path: Path) -> int:
    """Decode calls, operators, launched tasks and device tasks, and join them; give how many tasks got an operator.

    Source: raw/FORMAT.md sections 4.1, 5.1 and 8; offsets are written out here, apart from the decoder's.
    """
    host = path / "host"
    calls = _stream(host, "api_event", 40)
    calls = calls[_field(calls, 2, "<u2") == 10000]  # those that launch: of the node level
    begins, ends, threads = _field(calls, 16, "<u8"), _field(calls, 24, "<u8"), _field(calls, 8, "<u4")
    order = np.lexsort((begins, threads))
    begins, ends, threads = begins[order], ends[order], threads[order]
    low = begins.min()
    keys = threads.astype(np.uint64) << np.uint64(44) | (begins - low)

    def launch_of(records: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        stamps = _field(records, 16, "<u8")
        wanted = _field(records, 8, "<u4").astype(np.uint64) << np.uint64(44) | (stamps - low)
        at = np.searchsorted(keys, wanted) - 1
        return np.where((at >= 0) & (ends[at] >= stamps), at, -1)

    nodes, tracks = _stream(host, "node_basic_info", 64), _stream(host, "task_track", 64)
    operator = np.full(len(calls) + 1, -1, np.int64)
    operator[launch_of(nodes)] = np.arange(len(nodes))
    launched = operator[launch_of(tracks)]
    stars = _stream(path / "device_0", "stars_soc", 64)
    starts, stops = (stars[_field(stars, 0, "<u2") & 0x3F == kind] for kind in (0, 1))
    first, last = (
        part[np.argsort(_field(part, 4, "<u4"), kind="stable")] for part in (starts, stops)
    )  # stream and task id, in order of time
    duration = _field(last, 8, "<u8") - _field(first, 8, "<u8")
    own = np.argsort(_field(tracks, 26, "<u2").astype(np.uint32) | _field(tracks, 28, "<u2").astype(np.uint32) << 16)
    return int(np.count_nonzero((launched[own] >= 0)[: len(duration)]))


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def peak_memory(path: Path) -> tuple[float, float, float]:
    """Give this process's peak memory (MiB) before loading, after, and with all tables; for a fresh process."""
    before = _high_water_mib()
    run = npuprof.load(path)
    loaded = _high_water_mib()
    _ = run.notes
    return before, loaded, _high_water_mib()


def _all_tables(path: Path) -> None:
    _ = npuprof.load(path).notes  # whatever shows notes makes all tables


def _high_water_mib() -> float:
    # Not getrusage: its maximum survives the start of a process, and would be that of its parent.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _selected(path: Path) -> tuple[int, int]:
    """Return a stretch in the middle of a run with one in so many of its launches."""
    starts = raw.read(path).tables["tasks"]["start_ns"].to_numpy()
    first = len(starts) // 2
    return int(starts[first]), int(starts[min(first + len(starts) // _SELECTED, len(starts) - 1)])


def measure(launches: int, rounds: int, folder: Path) -> Measured:
    """Print the figures of one recording and give them."""
    path = synthesise(folder, launches=launches)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    start, end = _selected(path)  # the first read fills the page cache
    joined = floor(path)
    assert joined >= 0.99 * launches, f"the floor joins only {joined} of {launches}"
    works: dict[str, Callable[[], object]] = {
        "load": lambda: npuprof.load(path),
        "floor": lambda: floor(path),
        "kernels": lambda: npuprof.load(path).kernels,
        "all": lambda: _all_tables(path),
        "part": lambda: npuprof.load(path, start=start, end=end),
    }
    took: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            took[name].append(_seconds(work))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        before_mib, loaded_mib, peak_mib = fresh.submit(peak_memory, path).result()
    load, base, kernels, whole, part = (statistics.median(seconds) for seconds in took.values())
    found = Measured(launches, load, kernels, whole, base, part, peak_mib)
    target = TARGET_S_PER_100_000 * launches / 100_000
    target_mib = min((mib for size_of, mib in TARGET_MIB.items() if size_of >= launches), default=TARGET_MIB[1_000_000])
    print(f"{launches:,} launches, {size / 2**20:.0f} MiB, {rounds} rounds")
    print(f"  floor           {base:.3f} s (best {min(took['floor']):.3f})")
    print(f"  load            {load:.3f} s (best {min(took['load']):.3f}), {load / base:.1f} floors,", end=" ")
    print(f"target {TARGET_FLOORS}: {'met' if load <= TARGET_FLOORS * base else 'missed'}")
    print(f"  and kernels     {kernels:.3f} s (best {min(took['kernels']):.3f}), {kernels / base:.1f} floors")
    print(f"  and all tables  {whole:.3f} s (best {min(took['all']):.3f}), {whole / base:.1f} floors,", end=" ")
    print(f"target {target:.1f} s: {'met' if whole <= target else 'missed'}")
    print(f"  a {_SELECTED}th, selected {part:.3f} s of {whole:.3f} s for all: {part / whole:.0%}")
    print(f"  memory before   {before_mib:.0f} MiB")
    for what, mib in (("a load", loaded_mib), ("all tables", peak_mib)):
        met = "met" if mib <= target_mib else "missed"
        print(f"  peak of {what:<10}  {mib:.0f} MiB, target {target_mib:.0f} MiB: {met}")
    return found


def compare(found: list[Measured]) -> None:
    """Print how time and memory a launch grow with the number of launches."""
    if len(found) < 2:
        return
    frame = pd.DataFrame(
        {
            "launches": [f"{one.launches:,}" for one in found],
            "load us/launch": [one.load_s / one.launches * 1e6 for one in found],
            "decode us/launch": [one.decode_s / one.launches * 1e6 for one in found],
            "floor us/launch": [one.floor_s / one.launches * 1e6 for one in found],
            "peak KiB/launch": [one.peak_mib / one.launches * 1024 for one in found],
        }
    )
    for column in list(frame.columns[1:]):
        frame[f"{column.split()[0]} ratio"] = frame[column] / frame[column][0]
    print(frame.to_string(index=False, float_format="%.2f"))


def main() -> None:
    """Measure as asked on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, nargs="+", default=[100_000])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    found = []
    for launches in arguments.launches:
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(launches, arguments.rounds, Path(folder)))
    compare(found)


if __name__ == "__main__":
    main()
