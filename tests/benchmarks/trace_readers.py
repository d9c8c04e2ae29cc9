"""Other ways to read a timeline, and its form for those who read only torch's own: peers in its benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

KINETO = "kineto.json"
"""The name of the file that :func:`read_hta` reads, beside the timeline."""


def exact_ns(text: str) -> int:
    """Return the nanoseconds of microseconds as text, without a float."""
    whole, _, part = text.partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0"))


def read_json(path: Path) -> int:
    """Decode alone: what every reader that begins with ``json.load`` must do before anything else."""
    with path.open("rb") as file:
        return len(json.load(file))


def read_frame(path: Path) -> int:
    """Make one frame of all events with exact starts; arguments stay dicts, flows stay events."""
    return len(_frame(path))


def read_joined(path: Path) -> int:
    """Do with pandas what a user would do who needs what the tables of npuprof hold.

    That is: exact starts and durations, the arguments of slices and counters in columns, the slices that each flow
    joins. Left out are the parts that have no short form in pandas (nesting, the call around a launch, units).
    """
    import pandas as pd

    frame = _frame(path)
    slices = frame[frame["ph"] == "X"].reset_index(drop=True)
    slices["duration_ns"] = (slices["dur"] * 1000).round().astype("int64")
    slices = slices.join(pd.DataFrame([one if isinstance(one, dict) else {} for one in slices["args"]]), rsuffix="_arg")
    counters = frame[frame["ph"] == "C"].reset_index(drop=True)
    counters = counters.join(pd.DataFrame(counters["args"].tolist()), rsuffix="_arg")
    lane = ["pid", "tid", "start_ns"]
    flows = frame[frame["ph"].isin(["s", "f"])].assign(id=frame["id"].astype(str))
    pairs = flows[flows["ph"] == "s"].merge(flows[flows["ph"] == "f"], on=["cat", "id"], suffixes=("_from", "_to"))
    starts = slices[lane].assign(row=slices.index).drop_duplicates(lane)
    for side in ("from", "to"):
        renamed = starts.rename(columns={name: f"{name}_{side}" for name in (*lane, "row")})
        pairs = pairs.merge(renamed, on=[f"{name}_{side}" for name in lane], how="left")
    return len(slices) + len(counters) + len(pairs)


def _frame(path: Path) -> Any:
    import pandas as pd

    with path.open("rb") as file:
        frame = pd.DataFrame(json.load(file))
    frame["start_ns"] = pd.array([exact_ns(ts) if isinstance(ts, str) else pd.NA for ts in frame["ts"]], dtype="Int64")
    return frame


def read_hta(path: Path) -> int:
    """Read the same events with HolisticTraceAnalysis, in the form that torch writes for other accelerators.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    trace = import_module("hta.common.trace")
    import_module("hta.configs.config").logger.disabled = True
    _, frame, _ = trace.parse_trace_file(str(path.with_name(KINETO)))
    return len(frame)


def write_kineto(events: Iterable[dict[str, Any]], target: Path) -> None:
    """Write events as torch writes those of other accelerators: float times, tasks as kernels with stream numbers."""
    with target.open("w", encoding="utf-8") as file:
        file.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": [')
        for number, event in enumerate(events):
            file.write(",\n" if number else "\n")
            file.write(json.dumps(_as_kineto(event)))
        file.write("\n]}")


def _as_kineto(event: dict[str, Any]) -> dict[str, Any]:
    changed = dict(event)
    if "ts" in event:
        changed["ts"] = float(event["ts"])
    args = event.get("args", {})
    if event["ph"] != "X" or "cat" in event:
        return changed
    if "Task Type" in args or "task type" in args:
        stream = args.get("Physic Stream Id", args.get("stream id", 0))
        own = {"stream": stream, "correlation": args.get("connection_id", -1), "device": 0}
        changed |= {"cat": "kernel", "args": {**args, **own}}
    elif "level" in args:
        changed |= {"cat": "cuda_runtime", "args": {**args, "correlation": args.get("connection_id", -1)}}
    return changed
