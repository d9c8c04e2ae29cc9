"""Facts of a run for its report: origin, missing data, figures and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd

from npuprof.analysis.device_clocks import clock_text
from npuprof.analysis.memory_peak import BLOCKS
from npuprof.analysis.summary import PIPES, DeviceTimes, Summary
from npuprof.recordings.recording import EARLIER_WORKERS
from npuprof.report.damage import damaged_tables, marked
from npuprof.report.host import host_grids
from npuprof.report.model import Table
from npuprof.tables.info import Info
from npuprof.words.quantities import ABSENT, count, counted, duration, share, size

SIMULATED = "SIMULATED NPU"
"""Mark of a simulated run in every report."""

DEVICE_TIME = "Device time"
"""Prefix of the title of the table of devices."""

MOST_FINDINGS = 3
"""Maximum number of findings in a report; ``run.advice()`` has all of them."""

MOST_ERRORS = 3
"""Maximum number of errors below the title of a report; its notes have all of them."""

_MOST_DEVICES = 64


def origin(info: Info) -> list[str]:
    """Return chip, devices, rank, level, collector, source, start and excluded time, as far as they are known."""
    devices = ", ".join(map(str, info.devices))
    level = info.options.get("level")
    parts = [
        info.chip,
        f"device {devices}" if devices else "",
        "" if info.rank is None else f"rank {info.rank}",
        "" if level is None else f"level {level}",
        f"collector {info.collector}{f' ({info.reason})' if info.reason else ''}" if info.collector else "",
        f"read from {info.source}" if info.source else "",
        "" if info.started_ns is None else f"started {_second(info.started_ns)}",
        f"{duration(info.emulated_ns)} of emulation left out" if info.emulated_ns else "",
        f"thinking time, {duration(info.thinking_ns)}, left out" if info.thinking_ns and not info.selection else "",
    ]
    return [part for part in parts if part]


def overhead_text(info: Info) -> str:
    """Return the cost of profiling in one sentence; empty if it was not measured."""
    cost = info.overhead
    if "start_ns" not in cost or "stop_ns" not in cost:
        return ""
    on = [f"level {info.options['level']}"] if "level" in info.options else []
    on += [name for name in ("stacks", "memory", "shapes", "l2") if info.options.get(name) is True]
    parts = [f"{duration(cost['start_ns'])} to start", f"{duration(cost['stop_ns'])} to stop"]
    parts += [f"{size(cost['written_bytes'])} written"] if "written_bytes" in cost else []
    return " ".join(filter(None, [f"Profiling ({', '.join(on)}) took {', '.join(parts)}.", repeat_text(info)]))


def repeat_text(info: Info) -> str:
    """Return how long the cell took with and without the profiler; empty if it did not run twice."""
    code_ns, repeat_ns = info.overhead.get("code_ns", 0), info.overhead.get("repeat_ns", 0)
    if repeat_ns <= 0 or code_ns <= 0:
        return ""
    more = f"{share(code_ns - repeat_ns, repeat_ns)} more" if code_ns > repeat_ns else "no less"
    return (
        f"The cell ran twice: {duration(code_ns)} profiled, then {duration(repeat_ns)} unprofiled, {more}; "
        "what only a first run does, such as imports and compilation, is in the former alone."
    )


def clock_lines(info: Info) -> list[str]:
    """Return what analyses correct of the clocks of devices, as lines to show below a report's title.

    A clock that cannot be corrected is an error, which :func:`error_lines` returns.
    """
    lines = [text for clock in info.clocks if clock.joined and (text := clock_text(clock))]
    more = len(lines) - MOST_ERRORS
    return [*lines[:MOST_ERRORS], f"{count(more)} more in the notes below"] if more > 0 else lines


def key_figures(summary: Summary) -> list[tuple[str, str]]:
    """Return the figures of the run by name; unknown figures are dashes."""
    device = summary.devices[0] if len(summary.devices) == 1 else None
    peaks = summary.memory_peaks.sort_values("allocated_bytes", ascending=False, kind="stable")
    peak, of = peaks[["allocated_bytes", "component"]].iloc[0] if len(peaks) else (None, "")
    figures = [("wall time", duration(summary.wall_ns))]
    if len(summary.devices) < 2:
        figures += [
            ("computing", _with_share(device, None if device is None else device.computing_ns)),
            (
                "communication alone",
                _with_share(device, summary.communication_ns if device is None else device.communication_ns),
            ),
            ("device idle", _with_share(device, None if device is None else device.idle_ns)),
        ]
    figures += [
        ("kernels", count(summary.counts["kernels"])),
        (f"{summary.runtime} calls", count(summary.counts["api"])),
    ]
    if peak is not None:
        figures.append(("memory peak" + f" of {BLOCKS}" * (of == BLOCKS), size(int(peak))))
    if summary.step_ns is not None:
        figures.append(("mean step", duration(summary.step_ns)))
    return _host_figures(summary, figures) if summary.host.alone else figures


def _host_figures(summary: Summary, figures: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Replace the dashes of an absent device by the host's figures."""
    host = summary.host
    times = f"{duration(host.operators_ns)} ({share(host.operators_ns, summary.wall_ns)} of the wall time)"
    of_host = [
        ("operators", count(host.operators)),
        ("time in operators", times if host.operators is not None else ABSENT),
        ("Python calls", count(host.python)),
    ]
    return [figure for figure in (figures[0], *of_host, *figures[1:]) if figure[1] != ABSENT]


def tables_of(summary: Summary) -> list[Table]:
    """Return the tables of a report: devices, kernels and runtime calls; without a device, the host's tables."""
    some = [_devices(summary.devices), _top_ops(summary), _longest_kernels(summary)]
    some += host_grids(summary.host)
    some.append(_top_api(summary))
    return [grid for grid in some if grid.rows]


def known_figures(summary: Summary, info: Info, notes: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the key figures, and mark incomplete ones; device figures only where something was recorded."""
    figures = marked(key_figures(summary), damaged_tables(notes))
    return [figure for figure in figures if figure[1] != ABSENT] if nothing_text(summary, info) else figures


def nothing_text(summary: Summary, info: Info, notes: pd.DataFrame | None = None) -> str:
    """Return that a recording has nothing of the device or a framework, why, and what to do; empty where it has.

    `notes` tell whether the front end itself failed.
    """
    recorded = ("kernels", "tasks", "communication", "api", "operators")
    if info.recording is None or not info.collector or any(summary.counts[name] for name in recorded):
        return ""
    if not {"npu", "gpu"} & set(map(str, info.options.get("activities", ("npu",)))):
        return ""  # only the host was to be recorded
    on = "the simulated NPU" if info.simulated else "the device"
    if info.unprofiled_children:
        return children_text(info)
    if info.failed:
        return f"Nothing was recorded of {on}: the code raised {info.failed.partition(':')[0]} before its first launch."
    if notes is not None and ((notes["severity"] == "error") & (notes["source"] == info.collector)).any():
        return f"Nothing was recorded of {on}: {info.collector} failed, as its error says."
    remedy = "use arrays of npuprof.simulator.npu" if info.simulated else "move the model and its inputs to it"
    if "torch" in info.versions and "torch_npu" not in info.versions:
        remedy += ", or add --collector kineto to record torch on the CPU"
    return f"Nothing was recorded of {on}: {remedy}."


def children_text(info: Info) -> str:
    """Return that processes which the cell started used a front end, and how to profile them; empty if none did."""
    if not info.unprofiled_children:
        return ""
    started = {module: count for module, count in info.unprofiled_children.items() if module != EARLIER_WORKERS}
    sentences: list[str] = []
    if started:
        modules = ", ".join(f"{count:,} {module}" for module, count in started.items())
        sentences.append(
            f"Processes that this cell started used a front end, and were not profiled (imported at least by {modules})"
        )
    if earlier := info.unprofiled_children.get(EARLIER_WORKERS):
        workers = counted(earlier, "worker")
        sentences.append(f"{workers} of an earlier cell worked unprofiled")
    return f"{'. '.join(sentences)}: add --processes to profile them as ranks of one job."


def error_lines(notes: pd.DataFrame) -> list[str]:
    """Return the errors among the notes as lines to show below a report's title: the first few, and their number."""
    errors = note_rows(notes[(notes["severity"] == "error").to_numpy(bool)], MOST_ERRORS)
    more = int((notes["severity"] == "error").sum()) - len(errors)
    lines = [f"Error: {source}: {message}" for _, source, message in errors]
    return [*lines, f"{counted(more, 'more error')} in the notes below"] if more else lines


def note_rows(notes: pd.DataFrame, limit: int) -> list[tuple[str, str, str]]:
    """Return severity, source and message, with its count, of the most severe notes."""
    gravity = notes["severity"].map({"error": 0, "warning": 1, "info": 2}).to_numpy()
    columns = (notes[name].tolist() for name in ("severity", "source", "message", "count"))
    rows = list(zip(*columns, strict=True))
    gravest = [rows[row] for row in np.argsort(gravity, kind="stable")[:limit]]
    return [
        (str(severity), str(source), f"{message} ({times:,} times)" if times > 1 else str(message))
        for severity, source, message, times in gravest
    ]


def _second(epoch_ns: int) -> str:
    return f"{np.datetime64(epoch_ns // 1_000_000_000, 's')}".replace("T", " ") + " UTC"


def _with_share(device: DeviceTimes | None, part_ns: int | None) -> str:
    if device is None or part_ns is None:
        return duration(part_ns)
    whole = "the run" if device.basis == "run" else device.where
    return f"{duration(part_ns)} ({share(part_ns, device.span_ns)} of {whole})"


PART_LABELS: Mapping[str, str] = {
    "computing": "computing",
    "waiting": "waiting for ranks",
    "moving": "moving data",
    "communication": "communication",
    "copy": "copies",
    "idle": "idle",
    "between_steps": "between steps",
    "not_recorded": "not recorded",
}
"""Names of the parts of a step in reports; the three idle parts are one."""


def shown_parts(device: DeviceTimes) -> list[tuple[str, int]]:
    """Return the parts of a device's time by key of :data:`PART_LABELS`, without parts of zero time."""
    times = {**{part: time for part, time in device.parts.items() if part in PART_LABELS}, "idle": device.idle_ns}
    return [(part, times[part]) for part in PART_LABELS if times[part]]


def _devices(devices: Sequence[DeviceTimes]) -> Table:
    parts = [part for part in PART_LABELS if any(part in dict(shown_parts(each)) for each in devices)]
    rows = []
    for each in devices[:_MOST_DEVICES]:
        times = dict(shown_parts(each))
        cells = [f"{duration(times.get(part, 0))} ({share(times.get(part, 0), each.span_ns)})" for part in parts]
        rows.append((each.label, each.where, duration(each.span_ns), *cells))
    more = len(devices) - len(rows)
    title = f"{DEVICE_TIME} (the first {_MOST_DEVICES} of {len(devices):,})" if more else DEVICE_TIME
    return Table(title, ("device", "of", "time", *(PART_LABELS[part] for part in parts)), rows, 1 + len(parts))


def _top_ops(summary: Summary) -> Table:
    rows = [
        (
            _name(row.name),
            _name(row.op_type),
            count(int(row.calls)),
            duration(int(row.total_ns)),
            duration(int(row.mean_ns)),
            f"{100 * row.share:.1f} %",
        )
        for row in summary.top_ops.rename(columns={"count": "calls"}).itertuples(index=False)
    ]
    title = f"{counted(len(rows), 'kernel')} with the most time in all"
    return Table(title, ("kernel", "type", "count", "total", "mean", "of kernel time"), rows, 4)


def _longest_kernels(summary: Summary) -> Table:
    longest = summary.longest_kernels
    durations, bound = longest["duration_ns"].tolist(), [text for text in longest["bound"] if text]
    counter = "busiest pipe" if all(text.rsplit(" ", 2)[0] in PIPES for text in bound) else "counters"
    streams = ["?" if stream < 0 else str(stream) for stream in longest["stream_id"].fillna(-1).tolist()]
    rows = [
        (
            _name(row.name),
            _name(row.op_type),
            _name(row.input_shapes),
            *([_name(row.bound)] if bound else []),
            count(cast("int", row.row)),
            f"{row.device_id}:{stream}",
            count(times),
            duration(duration_ns),
        )
        for row, stream, times, duration_ns in zip(
            longest.itertuples(index=False), streams, longest["count"].tolist(), durations, strict=True
        )
    ]
    title = f"{len(rows)} longest kernels, by name and shapes" if len(rows) > 1 else "The longest kernel"
    # The row of run.kernels distinguishes kernels that are alike in everything else.
    headings = ("kernel", "type", "input shapes", *([counter] if bound else []), "row", "device:stream", "count")
    return Table(title, (*headings, "longest"), rows, 4)


def _top_api(summary: Summary) -> Table:
    rows = [
        (
            _name(row.name),
            _name(row.level),
            count(int(row.calls)),
            duration(int(row.total_ns)),
            duration(int(row.mean_ns)),
        )
        for row in summary.top_api.rename(columns={"count": "calls"}).itertuples(index=False)
    ]
    title = f"{counted(len(rows), f'{summary.runtime} call')} with the most time"
    return Table(title, ("call", "level", "count", "total", "mean"), rows, 3)


def _name(value: object) -> str:
    return value if isinstance(value, str) else ""
