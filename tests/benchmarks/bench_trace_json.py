"""A timeline of about a million events to tables, beside ``json.load`` plus a frame with exact times.

By hand: ``python -m tests.benchmarks.bench_trace_json [trace_view.json] [--megabytes 200] [--runs 3]``

Without a file it takes the level 1 sample (the folder that ``NPUPROF_SAMPLES`` names). The trace is repeated with
fresh ids, moved in time, its times text as they were, in a temporary directory. Every reading is a process of
its own, the readers in turns; of several readings the fastest counts, and its peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.apart import compare

_SAMPLE = "torch_npu/text/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"
_READERS = ("npuprof", "json+pandas", "json alone")
_GAP_NS = 50_000_000


def repeated(events: list[dict[str, Any]], rounds: int) -> Iterator[dict[str, Any]]:
    """Give the events again and again, each round later than the last and with ids of its own."""
    times = [_ns(event["ts"]) for event in events if "ts" in event]
    span_ns = max(times) - min(times) + _GAP_NS
    for number in range(rounds):
        for event in events:
            if event["ph"] == "M":
                if number == 0:
                    yield event
            else:
                yield _moved(event, number, number * span_ns)


def _ns(text: str) -> int:
    whole, _, part = text.partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def _moved(event: dict[str, Any], number: int, by_ns: int) -> dict[str, Any]:
    moved = dict(event)
    at_ns = _ns(event["ts"]) + by_ns
    moved["ts"] = f"{at_ns // 1000}.{at_ns % 1000:03d}"
    if "id" in event:
        fresh = int(event["id"]) + (by_ns if event["cat"] == "async_npu" else number << 44)
        moved["id"] = str(fresh) if isinstance(event["id"], str) else fresh
    args = event.get("args", {})
    if "Python id" in args:
        fresh_ids = {key: args[key] + (number << 24) for key in ("Python id", "Python parent id")}
        moved["args"] = {**args, **fresh_ids}
    return moved


def write_big(source: Path, target: Path, megabytes: int) -> int:
    """Write the repeated trace; give the number of its events."""
    events = json.loads(source.read_bytes())
    rounds = max(1, (megabytes << 20) // source.stat().st_size)
    count = 0
    with target.open("w", encoding="utf-8") as file:
        for event in repeated(events, rounds):
            file.write(", " if count else "[")
            file.write(json.dumps(event))
            count += 1
        file.write("]")
    return count


def read_once(reader: str, path: Path) -> dict[str, Any]:
    """Read the file in this process; give seconds, the process's peak memory and rows."""
    if reader == "npuprof":
        from npuprof.sources import torch_npu

        began = time.perf_counter()
        rows = sum(map(len, torch_npu.read(path).tables.values()))
    else:
        import pandas as pd

        began = time.perf_counter()
        with path.open("rb") as file:
            events = json.load(file)
        rows = len(events)
        if reader == "json+pandas":
            frame = pd.DataFrame(events)
            frame["start_ns"] = pd.array([pd.NA if ts != ts else _ns(ts) for ts in frame["ts"]], dtype="Int64")
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--read", choices=_READERS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_once(options.read, options.path)))
        return
    samples = Path(os.environ.get("NPUPROF_SAMPLES", Path(__file__).parents[3] / "shared" / "samples"))
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        big = Path(folder) / "trace_view.json"
        count = write_big(options.path or samples / _SAMPLE, big, options.megabytes)
        print(f"{count:,} events, {big.stat().st_size / 1e6:.0f} MB; fastest of {options.runs}")
        compare("tests.benchmarks.bench_trace_json", _READERS, big, options.runs)


if __name__ == "__main__":
    main()
