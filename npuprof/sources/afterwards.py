"""What IPython did after the code of a cell: it shows values, figures and errors, which is no part of the run.

What was recorded meanwhile is left out of the tables, with the work of the device that was launched there; sums of it
stay in :attr:`npuprof.tables.info.Info.afterwards`. What the code itself launched belongs to the run, whenever it ends.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuprof.analysis.correlation import launch_moments, whole_links
from npuprof.arrays import Bools, Int64
from npuprof.sources.base import Decoded
from npuprof.sources.lazy_tables import completed
from npuprof.sources.slicing import kept_rows
from npuprof.tables.info import AFTER_CELL
from npuprof.words.quantities import counted, duration

_OF_HOST = ("python", "operators", "api", "marks")
_OF_DEVICE = ("tasks", "kernels", "communication")
_SOURCE = "recording"


def leave_out(decoded: Decoded) -> None:
    """Leave out, in place, what was recorded after the code of the cells."""
    info = decoded.info
    spans = sorted((each.start_ns, each.end_ns) for each in info.afterwards)
    if not spans:
        return
    starts, ends = np.array(spans, np.int64).T

    def span_of(moments: Int64) -> Int64:
        at = np.searchsorted(starts, moments, side="right") - 1
        return np.where((at >= 0) & (moments < ends[at]), at, -1)

    frames = dict(completed(decoded.tables))
    links = frames["links"] = whole_links(frames)
    kept: dict[str, Bools] = {name: np.ones(len(frame), bool) for name, frame in frames.items() if name != "links"}
    of_host: dict[str, Int64] = {}
    for name in (each for each in _OF_HOST if each in frames):
        of_host[name] = span_of(frames[name]["start_ns"].to_numpy(np.int64))
        kept[name] = of_host[name] < 0
    if "sampled_lines" in frames:
        kept["sampled_lines"] = span_of(frames["sampled_lines"]["time_ns"].to_numpy(np.int64) - 1) < 0
    device_ns, launches = np.zeros(len(spans), np.int64), np.zeros(len(spans), np.int64)
    source, target = (links[f"{side}_table"].astype(object).to_numpy() for side in ("source", "target"))
    source_row, target_row = (links[f"{side}_row"].to_numpy(np.int64) for side in ("source", "target"))
    for name in (each for each in _OF_DEVICE if each in frames):
        launched = np.full(len(frames[name]), -1, np.int64)
        for of, span in of_host.items():
            at = np.flatnonzero((target == name) & (source == of))
            launched[target_row[at]] = np.maximum(launched[target_row[at]], span[source_row[at]])
        if name == "kernels":  # links may name their tasks only
            moments = launch_moments(frames).to_numpy(np.int64, na_value=-1)
            launched = np.maximum(launched, span_of(moments))
        kept[name] = launched < 0
        if name != "tasks":
            out = np.flatnonzero(launched >= 0)
            np.add.at(device_ns, launched[out], frames[name]["duration_ns"].to_numpy(np.int64)[out])
            np.add.at(launches, launched[out], 1)
    if "communication_tasks" in frames and "communication" in frames:
        collectives = frames["communication_tasks"]["op_id"].to_numpy(np.int64, na_value=-1)
        kept["communication_tasks"] = np.append(kept["communication"], True)[collectives]
    decoded.tables = kept_rows(frames, kept)
    for name in decoded.notes.ledger.made().keys() & frames.keys():
        decoded.notes.ledger.deselect(name, len(frames[name]) - len(decoded.tables[name]))
    info.afterwards = [
        replace(each, device_ns=int(of_device), launches=int(count))
        for each, of_device, count in zip(sorted(info.afterwards), device_ns, launches, strict=True)
    ]
    if info.overhead.get("code_ns"):
        after_ns = sum(each.end_ns - each.start_ns for each in info.afterwards)
        info.overhead = {**info.overhead, "code_ns": max(0, info.overhead["code_ns"] - after_ns)}
    if launched_ns := int(device_ns.sum()):
        decoded.notes.info(
            _SOURCE,
            f"{counted(int(launches.sum()), 'kernel')} of {duration(launched_ns)} were launched {AFTER_CELL}, such as "
            "by the text of a value: info.afterwards has their time, no table",
        )
