"""What decoding a raw directory costs: run by hand, ``python -m tests.benchmarks.bench_decode``.

A recording of the simulated NPU is decoded to all tables. Beside it, in the same run and in alternating order, the
same files are only read (``np.fromfile``) and the stamps of their records sorted: what no decoder can do without. The
figure is the ratio of the two medians. The target is half a second for 100,000 launches.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from npuprof.simulator import synthesise
from npuprof.sources import raw

TARGET_S_PER_100_000 = 0.5
_RECORD_BYTES = {"api_event": 40, "compact": 64, "additional": 256, "stars_soc": 64, "ffts_profile": 128}
_STAMP_AT = {"stars_soc": 8, "ffts_profile": 112}  # elsewhere, 16


def baseline(folder: Path) -> None:
    """Read every slice and sort the stamps of the records of each stream."""
    streams: dict[str, list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]] = {}
    for file in sorted(folder.glob("*/data/*.slice_*")):
        if not file.name.endswith(".done"):
            streams.setdefault(file.name.rsplit(".", 1)[0], []).append(np.fromfile(file, np.uint8))
    for name, slices in streams.items():
        kind = next((kind for kind in _RECORD_BYTES if kind in name and "_dic" not in name), None)
        if kind is None:
            continue
        content = np.concatenate(slices)
        size, at = _RECORD_BYTES[kind], _STAMP_AT.get(kind, 16)
        records = content[: len(content) // size * size].reshape(-1, size)
        np.argsort(np.ascontiguousarray(records[:, at : at + 8]).view("<u8").ravel(), kind="stable")


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def peak_memory(path: Path) -> tuple[float, float]:
    """Decode once in this process and give its peak memory (MiB) before and after; for a fresh process."""
    before = _high_water_mib()
    raw.read(path)
    return before, _high_water_mib()


def _high_water_mib() -> float:
    # Not getrusage: its maximum survives the start of a process, and would be that of its parent.
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure(launches: int, rounds: int, folder: Path) -> None:
    """Print the figures of one recording."""
    path = synthesise(folder, launches=launches)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    baseline(path)  # the first read fills the page cache
    decode_s, baseline_s = [], []
    for _ in range(rounds):
        decode_s.append(_seconds(lambda: raw.read(path)))
        baseline_s.append(_seconds(lambda: baseline(path)))
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as fresh:
        before_mib, peak_mib = fresh.submit(peak_memory, path).result()
    decode, base = statistics.median(decode_s), statistics.median(baseline_s)
    target = TARGET_S_PER_100_000 * launches / 100_000
    print(f"{launches:,} launches, {size / 2**20:.0f} MiB, {rounds} rounds")
    print(f"  full decode     {decode:.3f} s (best {min(decode_s):.3f}), {launches / decode:,.0f} launches/s")
    print(f"  read and sort   {base:.3f} s: ratio {decode / base:.1f}")
    print(f"  peak memory     {peak_mib:.0f} MiB ({before_mib:.0f} before decoding)")
    print(f"  target          {target:.1f} s: {'met' if decode <= target else 'missed'}")


def main() -> None:
    """Measure as asked on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, nargs="+", default=[100_000])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    for launches in arguments.launches:
        with tempfile.TemporaryDirectory() as folder:
            measure(launches, arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
