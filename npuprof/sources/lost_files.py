"""Report files of a result that are missing or cannot be read, with the tables that the run lacks because of them.

A file that is gone is known by the files that are written with it, and by the run's options. What counts is what is
missing in the end: of two forms of a run, one may have the tables of a damaged file of the other.

Source: sources/RESULTS.md sections 1.1, 1.2, 4 and 5, and collectors/FRONTENDS.md section 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from npuprof import tables as schema
from npuprof.sources.base import Decoded
from npuprof.sources.database.connection import is_database
from npuprof.sources.database.layout import ANALYSIS, kind_of_file
from npuprof.sources.framework.mindspore import COLLECTOR as MINDSPORE
from npuprof.sources.result_folder.layout import OUTPUT, ResultFiles, find_files, of_directory
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

_TRACE, _KERNELS, _STEP_TIMES = "trace_view.json", "kernel_details.csv", "step_trace_time.csv"
_OF_HOST = ("steps", "operators", "python")
_OF_TEXT: Mapping[str, tuple[str, ...]] = {
    _TRACE: (*_OF_HOST, "api", "tasks", "communication_tasks", "links", "counters", "marks"),
    _KERNELS: ("kernels",),
    _STEP_TIMES: ("step_times",),
    "memory_record.csv": ("memory",),
    "operator_memory.csv": ("allocations",),
}
_OF_MAIN = (
    *_OF_HOST,
    *("api", "tasks", "kernels", "communication", "communication_tasks", "links"),
    *("memory", "allocations", "counters", "marks"),
)
_OF_FRAMEWORK = {
    "torch.op_range": "operators and steps",
    "torch.op_mark": "enqueues and dequeues, which link operators to the calls of another thread",
    "torch.memory_usage": "samples of the allocator and blocks",
    "torch.python_tracer_func": "Python calls",
    "torch.python_tracer_hash": "names of Python functions",
}  # what each file has
_NOT_AT_LEVEL_0 = {"api", "communication_tasks"}  # of a timeline; a database has them at level 0 too
_MAIN = "ascend_*_profiler*.db"
_DONE = "analyse.done"
_OF_TORCH_NPU = "_ascend_pt"  # the end of the names of its directories; those of MindSpore may lack the file
_COMMUNICATION = ("communication.json", "communication_matrix.json")
_MEMORY = ("memory_record.csv", "operator_memory.csv")
_WRITTEN_WITH = {
    **dict.fromkeys(_COMMUNICATION, _COMMUNICATION),
    **dict.fromkeys(_MEMORY, _MEMORY),
    "op_statistic.csv": (_KERNELS,),
}  # files that are always written together
_MISSING, _DAMAGED, _EMPTY, _ROWLESS = "missing", "damaged at the beginning", "empty", "damaged or without rows"
_TABLELESS = "without any table of a profile"
_NO_CALLS = "the run has no python, and no lines, modules and causes of idle time from them"
_AGAIN = "copy the whole result again, or export it again"
_MAX_LISTED = 10_000


class _Lost(NamedTuple):
    """A file that is missing or damaged, and the tables that no other file of its form has."""

    name: str
    fault: str
    tables: Iterable[str]


def note_lost_results(path: Path, decoded: Decoded, frames: Mapping[str, pd.DataFrame]) -> None:
    """Note the result files that are missing or unreadable, and the tables that the run lacks without them."""
    layout = of_directory(path) if path.is_dir() else None
    if layout is not None and layout.output is None:
        layout = find_files(path) or ResultFiles(path, path, None)
    if layout is None or layout.output is None:
        return
    info, notes, lacking = decoded.info, decoded.notes, _lacking(decoded.info, frames)
    _note_no_info(layout, info, notes)
    databases = [path for path in islice(layout.output.iterdir(), _MAX_LISTED) if path.suffix == ".db"]
    lost_files = [*_lost_text(layout, info, frames), *_lost_databases(databases, info, has_text=_has_text(layout))]
    source = layout.output.name or OUTPUT
    for fault in dict.fromkeys(lost.fault for lost in lost_files):
        lost = {file.name: lacking.intersection(file.tables) for file in lost_files if file.fault == fault}
        if names := [name for name, tables in lost.items() if tables]:
            tables = [table for table in schema.NAMES if any(table in lost[name] for name in names)]
            verb = "is" if len(names) == 1 else "are"
            message = f"{_listed(names)} {verb} {fault}: the run has no {_listed(tables)}; {_AGAIN}"
            # Of many ranks, often only the files with sums are copied.
            has_rows = any(map(_is_main, databases)) or any(map(layout.file, (_TRACE, _KERNELS)))
            (notes.error if has_rows or fault != _MISSING or _MAIN in names else notes.warning)(source, message)
        others = sorted(lost.keys() - names)
        if others and fault == _MISSING:
            # Only releases that write their version also write the mark.
            unfinished = "torch_npu" in info.versions and layout.file(_DONE) is None
            reason = f"; there is no {_DONE}, so the analysis may not have finished" if unfinished else ""
            message = f"missing, though due by the run's options or other files: {', '.join(others)}{reason}"
            notes.warning(source, message, len(others))
        for name in others if fault in (_DAMAGED, _EMPTY) else ():
            notes.warning(name, f"the file is {fault}: what is shown comes from other files; {_AGAIN}")
    # The timeline of MindSpore has stacks without calls.
    is_due = info.options.get("stacks") is True and info.collector == "torch_npu" and layout.file(_TRACE) is not None
    if is_due and len(frames.get("operators", ())) and not len(frames.get("python", ())):
        notes.warning(_TRACE, f"it has no Python calls, though the options call for stacks: {_NO_CALLS}; {_AGAIN}")


def note_lost_records(layout: ResultFiles, info: Info, notes: Notes) -> None:
    """Note the files of the framework that the options call for and that are missing or empty, as errors."""
    _note_no_info(layout, info, notes)
    options, activities = info.options, info.options.get("activities", ())
    is_queued = info.environment.get("TASK_QUEUE_ENABLE") != "0"
    due = {
        "torch.op_range": "cpu" in activities,
        "torch.op_mark": {"cpu", "npu"} <= {*activities} and is_queued,
        "torch.memory_usage": options.get("memory"),
        **dict.fromkeys(("torch.python_tracer_func", "torch.python_tracer_hash"), options.get("stacks")),
    }
    for name, content in _OF_FRAMEWORK.items():
        path = layout.framework / name
        state = _MISSING if not path.is_file() else "" if path.stat().st_size else _EMPTY
        if due[name] and state:
            reason = f"is {state}, though the options of the run in profiler_info.json call for it"
            notes.error(name, f"{reason}: there are no {content}; copy the whole recording again")


def _note_no_info(layout: ResultFiles, info: Info, notes: Notes) -> None:
    if layout.profiler_info is None and layout.root.name.endswith(_OF_TORCH_NPU):
        unknown = "options, versions and when the collection began are unknown, and which other files are missing"
        rank = "the rank, " if info.rank is None else ""
        message = f"profiler_info*.json is missing: {rank}{unknown}; wall time is that of the rows"
        notes.warning(layout.root.name, f"{message}; copy the whole result again")


def _lacking(info: Info, frames: Mapping[str, pd.DataFrame]) -> set[str]:
    """Return the empty tables that the options call for; all empty ones if the options are unknown."""
    empty = {name for name in (*_OF_MAIN, "step_times") if not len(frames.get(name, ()))}
    options = info.options
    if "activities" not in options:
        return empty
    on_device = "npu" in options["activities"] and options.get("level") != "none"
    wanted = {
        **dict.fromkeys(("operators", "steps"), "cpu" in options["activities"]),
        **dict.fromkeys(("api", "tasks", "kernels", "counters", "step_times"), on_device),
        "links": on_device and "cpu" in options["activities"],
        "communication_tasks": on_device and bool(len(frames.get("communication", ()))),
        "python": options.get("stacks"),
        **dict.fromkeys(("memory", "allocations"), options.get("memory")),
        "marks": options.get("marks"),
    }
    return {name for name in empty if wanted.get(name)}


def _lost_text(layout: ResultFiles, info: Info, frames: Mapping[str, pd.DataFrame]) -> Iterator[_Lost]:
    """Yield each text file that is missing or that gave no rows."""
    if not _has_text(layout):
        return
    due = {name for file, names in _WRITTEN_WITH.items() if layout.file(file) is not None for name in names}
    due.update(_due(info, communicates=bool(len(frames.get("communication", ())))))
    absent = _NOT_AT_LEVEL_0 if info.options.get("level") == 0 else ()
    for name in [*_OF_TEXT, *sorted(due - _OF_TEXT.keys())]:
        tables = [table for table in _OF_TEXT.get(name, ()) if table not in absent]
        if layout.file(name) is None:
            if name in due:
                yield _Lost(name, _MISSING, tables)
        elif not any(len(frames.get(table, ())) for table in tables):
            yield _Lost(name, _ROWLESS, tables)


def _has_text(layout: ResultFiles) -> bool:
    return any(layout.file(name) is not None for name in (*_OF_TEXT, *_COMMUNICATION))


def _lost_databases(databases: Sequence[Path], info: Info, *, has_text: bool) -> Iterator[_Lost]:
    """Yield each database that is missing or damaged."""
    for path in databases:
        tables = ("step_times",) if path.name == ANALYSIS else _OF_MAIN
        if not is_database(path):
            yield _Lost(path.name, _DAMAGED if path.stat().st_size else _EMPTY, tables)
        elif not kind_of_file(path):
            yield _Lost(path.name, _TABLELESS, tables)
    exported = info.options.get("export_type") or ()
    is_due = "db" in (exported if isinstance(exported, list) else [exported])
    has_main, has_analysis = any(map(_is_main, databases)), any(path.name == ANALYSIS for path in databases)
    if not has_main and (is_due or (has_analysis and not has_text)):
        yield _Lost(_MAIN, _MISSING, _OF_MAIN)
    if has_main and not has_analysis and not has_text and info.collector == "torch_npu":
        yield _Lost(ANALYSIS, _MISSING, ("step_times",))


def _is_main(path: Path) -> bool:
    """Return whether a database is that of a run, or is damaged and may have been."""
    return path.name != ANALYSIS and (not is_database(path) or kind_of_file(path) == "profile")


def _due(info: Info, *, communicates: bool) -> Iterator[str]:
    """Yield the text files that the run's options imply; only the timeline if the options are unknown."""
    options, level = info.options, info.options.get("level")
    exported = options.get("export_type") or "text"
    if "text" not in (exported if isinstance(exported, list) else [exported]):
        return
    yield _TRACE
    if not options:
        return
    activities = options.get("activities", ())
    if options.get("memory"):
        yield from _MEMORY
    if options.get("shapes") if info.collector == MINDSPORE else "cpu" in activities:
        yield "operator_details.csv"
    if "npu" not in activities or level == "none":
        return
    yield from (_KERNELS, _STEP_TIMES)
    if options.get("l2"):
        yield "l2_cache.csv"
    if level in (1, 2):
        yield from ("op_statistic.csv", "api_statistic.csv", *(["npu_module_mem.csv"] if options.get("memory") else []))
        if communicates:
            yield from _COMMUNICATION


def _listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
