"""A timeline of about a million events to tables, beside other ways to read it.

By hand: ``python -m tests.benchmarks.bench_trace_json [trace_view.json] [--megabytes 200] [--runs 3] [--hta PYTHON]``

Without a file it takes the level 1 sample (the folder that ``NPUPROF_SAMPLES`` names). The trace is repeated with
fresh ids, moved in time, its times text as they were, in a temporary directory. Every reading is a process of
its own, the readers in turns; of several readings the fastest counts, and its peak memory.

The peers: `json+pandas` does with ``json.load`` and pandas what our tables hold (exact times, arguments in columns,
flows joined); `json+frame` stops at one frame of events with exact starts; `json alone` only decodes; `HTA` is
HolisticTraceAnalysis on its own dialect of the same events, measured where the interpreter that ``--hta`` names
can import it (0.5 needs pandas before 3).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import samples
from tests.benchmarks import trace_readers
from tests.benchmarks.apart import compare, measured
from tests.benchmarks.trace_readers import exact_ns

SAMPLE = "torch_npu/text/level1/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json"
_GAP_NS = 50_000_000


def repeated(events: list[dict[str, Any]], rounds: int) -> Iterator[dict[str, Any]]:
    """Return the events again and again, each round later than the last and with ids of its own."""
    times = [exact_ns(event["ts"]) for event in events if "ts" in event]
    span_ns = max(times) - min(times) + _GAP_NS
    for number in range(rounds):
        for event in events:
            if event["ph"] == "M":
                if number == 0:
                    yield event
            else:
                yield _moved(event, number, number * span_ns)


def _moved(event: dict[str, Any], number: int, by_ns: int) -> dict[str, Any]:
    moved = dict(event)
    at_ns = exact_ns(event["ts"]) + by_ns
    moved["ts"] = f"{at_ns // 1000}.{at_ns % 1000:03d}"
    if "id" in event:
        fresh = int(event["id"]) + (by_ns if event["cat"] == "async_npu" else number << 44)
        moved["id"] = str(fresh) if isinstance(event["id"], str) else fresh
    args = event.get("args", {})
    if "Python id" in args:
        fresh_ids = {key: args[key] + (number << 24) for key in ("Python id", "Python parent id")}
        moved["args"] = {**args, **fresh_ids}
    return moved


def write_big(source: Path, target: Path, megabytes: int, *, kineto: bool = False) -> int:
    """Write the repeated trace, also in torch's own dialect if asked; give the number of its events."""
    events = json.loads(source.read_bytes())
    rounds = max(1, (megabytes << 20) // source.stat().st_size)
    count = 0
    with target.open("w", encoding="utf-8") as file:
        for event in repeated(events, rounds):
            file.write(", " if count else "[")
            file.write(json.dumps(event))
            count += 1
        file.write("]")
    if kineto:
        trace_readers.write_kineto(repeated(events, rounds), target.with_name(trace_readers.KINETO))
    return count


def read_tables(path: Path) -> int:
    """Read the tables; give the number of their rows."""
    from npuprof.sources import torch_npu

    return sum(map(len, torch_npu.read(path).tables.values()))


_READERS = {
    "npuprof": read_tables,
    "json+pandas": trace_readers.read_joined,
    "json+frame": trace_readers.read_frame,
    "json alone": trace_readers.read_json,
    "HTA": trace_readers.read_hta,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("path", nargs="?", type=Path)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hta", default=sys.executable, help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--read", choices=_READERS)
    options = parser.parse_args()
    if options.read:
        try:
            print(json.dumps(measured(lambda: _READERS[options.read](options.path))))
        except ImportError as error:
            print(json.dumps({"absent": f"{error}: name a Python that has it, with --hta"}))
        return
    with tempfile.TemporaryDirectory(prefix="npuprof-bench-") as folder:
        big = Path(folder) / "trace_view.json"
        count = write_big(options.path or samples.FOLDER / SAMPLE, big, options.megabytes, kineto=True)
        print(f"{count:,} events, {big.stat().st_size / 1e6:.0f} MB; fastest of {options.runs}")
        compare("tests.benchmarks.bench_trace_json", list(_READERS), big, options.runs, {"HTA": options.hta})


if __name__ == "__main__":
    main()
