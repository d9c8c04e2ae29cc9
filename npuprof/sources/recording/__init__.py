"""A recording of npuprof: the native front end's data, the sampled Python stacks and ``recording.json``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.analysis.intervals import Spans, executed_spans
from npuprof.analysis.loops import iterations
from npuprof.errors import SourceError
from npuprof.lines.frames import cell_name
from npuprof.recordings import unwritten
from npuprof.recordings.job_folder import rank_of
from npuprof.recordings.recording import (
    FILE_NAME,
    JOURNAL_FILE_NAME,
    LINES_FILE_NAME,
    LINES_JOURNAL_FILE_NAME,
    STACKS_FILE_NAME,
    STACKS_JOURNAL_FILE_NAME,
    TOOK_NO_DATA,
    Recording,
)
from npuprof.sources.base import Decoded, Source
from npuprof.sources.columns.builders import recoded
from npuprof.sources.kineto.host_collectives import name_group, steps_of_optimizer
from npuprof.sources.raw import NOT_USED
from npuprof.sources.recording import files, journal, lines, lists, loops, python_stacks
from npuprof.sources.recording.files import note_changes, take_steps
from npuprof.sources.recording.native import clock_epoch, read_native
from npuprof.sources.selection import SelectedPart, SelectedWindows, Selection
from npuprof.tables.info import Afterwards, Info
from npuprof.words.quantities import counted, duration


def recognises(path: Path) -> bool:
    """Return whether `path` is a directory that npuprof recorded into."""
    return (path / FILE_NAME).is_file() or unwritten.find(path) is not None


def lacks_its_own_file(path: Path) -> bool:
    """Return whether a directory holds files of a recording, but no ``recording.json``."""
    beside = (STACKS_FILE_NAME, STACKS_JOURNAL_FILE_NAME, JOURNAL_FILE_NAME)
    return not (path / FILE_NAME).is_file() and any((path / name).is_file() for name in beside)


def read(path: Path) -> Decoded:
    """Read a recording."""
    return _read(path, None)


def read_part(path: Path, selection: Selection) -> Decoded:
    """Read the selected part of a recording, and possibly more; see :func:`read`."""
    return _read(path, selection)


def _read(path: Path, selection: Selection | None) -> Decoded:
    run = unwritten.find(path)
    recording = Recording.read(path) if run is None else run.recording.copy()
    recovered = _recover(path, recording, b"" if run is None else run.journal_lines)
    stacks = None if run is None else run.stack_columns
    decoded = _native(path, recording, selection, has_more=bool(recovered or stacks))
    note_changes(path, recording.files, decoded.notes)
    if recording.cell_files:
        _name_cells(decoded, recording)
    columns = _line_columns(decoded, path, None if run is None else run.line_columns)
    if columns is not None:
        times = columns["stamp_time_ns"] + clock_epoch(path, recording)
        after = recording.end_with_code(times, columns["stamp_number"])
        decoded.info.afterwards = [Afterwards(*span) for span in after]
    read_lines = None if columns is None else _add_lines(decoded, path, recording, columns)
    _add_stacks(decoded, path, recording, stacks)
    if recovered is not None:
        journal.complete(decoded, recovered.marks)
    take_steps(decoded.tables, _steps(recording), recording.collector, decoded.notes)
    if read_lines is not None and recording.options.get("steps", True) and not len(decoded.tables.get("steps", ())):
        step_line = recording.options.get("step_line")
        chosen = step_line if isinstance(step_line, int) else None
        loops.add_steps(decoded, read_lines, chosen, recording.collector, of_cell=not recording.executed)
    if recording.process:
        _describe_process(decoded, recording)
    if recording.domains and "marks" in decoded.tables:
        decoded.tables["marks"] = files.assign(decoded.tables["marks"], recording.domains, decoded.notes)
    _describe(decoded, recording, path)
    if not recording.stopped_ns:
        message = _NO_END.format(recording.collector) if run is None else _NO_END_YET
        decoded.notes.warning("recording", message, lacks=_OF_DEVICE if run is None else ())
    return decoded


_USED_BY_CHILDREN = "processes that the cell started used it, and the processes option, which profiles them, was off"
_OF_DEVICE = ("kernels", "tasks", "communication")
_LOST = (
    "What had been written by then is shown; lost are what {} had not written yet, the step and the ranges that had "
    "not ended, and the Python stacks of the last tenth of a second"
)
_SEPARATORS = re.compile(r"[/\\]")
_CODE_OF_CELL = re.compile(r"[^;\n(]*ipykernel_\d+[/\\]\d+\.py(?=\(\d+\))")
_NO_END = f"the recording has no end: its process was killed, could write nothing more, or is still recording. {_LOST}"
_NO_END_YET = "the run has not stopped: what has been written by now is shown"


def _name_cells(decoded: Decoded, recording: Recording) -> None:
    """Name the cells in the stacks of a framework, which have the last parts of the file names of their code."""
    parts = {"/".join(_SEPARATORS.split(file)[-2:]): number for file, number in recording.cell_files.items()}

    def named(frame: re.Match[str]) -> str:
        return cell_name(frame[0], parts.get("/".join(_SEPARATORS.split(frame[0])[-2:]), 0))

    for name, column in (("python", "name"), ("operators", "stack")):
        table = decoded.tables.get(name)
        if table is not None and column in table:
            known = table[column].array
            texts = [_CODE_OF_CELL.sub(named, str(text)) for text in known.categories]
            decoded.tables[name] = table.assign(**{column: recoded(known.codes, [*texts])})


def _add_stacks(
    decoded: Decoded, path: Path, recording: Recording, columns: Mapping[str, Sequence[Any]] | None
) -> None:
    """Add the sampled Python stacks: from memory if they are not on disk, else from their file or its journal."""
    readers: list[tuple[str, Callable[..., dict[str, pd.DataFrame]]]] = [
        (STACKS_FILE_NAME, python_stacks.read),
        (STACKS_JOURNAL_FILE_NAME, python_stacks.read_journal),
    ]
    readers = [reader for reader in readers if (path / reader[0]).is_file()]
    if columns is not None:
        readers = [(STACKS_FILE_NAME, partial(python_stacks.read_columns, columns))]
    statements = decoded.tables.get("statements")
    cells = _cells(recording)
    if cells is None and recording.stopped_ns and statements is not None and len(statements):
        # The sampler sees IPython compile the cell before the first statement.
        cells = np.array([statements["start_ns"].min()]), np.array([recording.stopped_ns])
    for name, read_stacks in readers:
        try:
            frames = read_stacks(path / name, decoded.notes, cells, statements)
            decoded.tables["python"] = _within_run(frames["python"], recording)
            decoded.tables["sampled_lines"] = frames["sampled_lines"]
            break
        except SourceError as error:
            decoded.notes.error(name, str(error))


def _cells(recording: Recording) -> Spans | None:
    """Return begins and ends of the cells that ran in a run that spans cells and has ended."""
    return executed_spans(recording.executed) if recording.executed and recording.stopped_ns else None


def _line_columns(
    decoded: Decoded, path: Path, columns: Mapping[str, Sequence[Any]] | None
) -> Mapping[str, Any] | None:
    """Return the stamps of the cell and the stacks of calls: from memory, else from their file or its journal."""
    file, journal_file = path / LINES_FILE_NAME, path / LINES_JOURNAL_FILE_NAME
    try:
        if columns is not None:
            return lists.arrays(columns, lines.KINDS, file)
        if file.is_file():
            return lists.read(file, lines.KINDS)
        if journal_file.is_file():
            return lists.read_journal(journal_file, lines.KINDS, decoded.notes, lines.SOURCE)
    except SourceError as error:
        decoded.notes.error(lines.SOURCE, str(error))
    return None


def _add_lines(decoded: Decoded, path: Path, recording: Recording, columns: Mapping[str, Any]) -> lines.Lines | None:
    """Add the statements of the cell and the stacks of calls."""
    try:
        epoch_ns, cells = clock_epoch(path, recording), _cells(recording)
        read = lines.decode(columns, path / LINES_FILE_NAME, epoch_ns, recording.stopped_ns, decoded.notes, cells)
    except SourceError as error:
        decoded.notes.error(lines.SOURCE, str(error))
        return None
    if not recording.options.get("lines", True):
        decoded.notes.ledger.use(lines.SOURCE, len(read.statements))  # for steps
        return read
    ran = read.statements[(read.statements["line"] > 0).to_numpy(bool)].reset_index(drop=True)
    decoded.notes.ledger.keep(lines.SOURCE, "statements", len(ran))
    decoded.notes.ledger.use(lines.SOURCE, len(read.statements) - len(ran))  # they end others
    decoded.tables["statements"] = ran
    decoded.tables["iterations"] = iterations(read.loops, read.statements)
    if len(read.calls) and "api" in decoded.tables:
        decoded.tables["api"] = lines.with_stacks(decoded.tables["api"], read.calls)
    return read


def _within_run(calls: pd.DataFrame, recording: Recording) -> pd.DataFrame:
    """Return Python calls cut to the run: sampling starts with the collector, before the profiled code."""
    least, latest = recording.started_ns, recording.stopped_ns or np.iinfo(np.int64).max
    starts = calls["start_ns"].to_numpy(np.int64)
    ends = np.clip(starts + calls["duration_ns"].to_numpy(np.int64), least, latest)
    starts = np.clip(starts, least, latest)
    return calls.assign(start_ns=starts, duration_ns=ends - starts)


def _recover(path: Path, recording: Recording, lines: bytes) -> journal.Recovered | None:
    """Read the journal, and the lines of it that are in memory only, and add its facts to the recording."""
    if not (path / JOURNAL_FILE_NAME).is_file() and not lines:
        return None
    try:
        recovered = journal.read(path / JOURNAL_FILE_NAME, lines)
    except OSError as error:
        recording.problems.append(f"{JOURNAL_FILE_NAME} cannot be read ({error.strerror or error})")
        return None
    if recovered.damaged:
        left_out = counted(recovered.damaged, "damaged line")
        recording.problems.append(f"{JOURNAL_FILE_NAME} has {left_out}: left out")
    recording.started_ns = recovered.started_ns or recording.started_ns
    if len(recovered.steps) > len(recording.steps):
        recording.steps = [(step.number, step.start_ns, step.end_ns) for step in recovered.steps]
    recording.metadata = {**recovered.metadata, **recording.metadata}
    return recovered


def _native(path: Path, recording: Recording, selection: Selection | None, *, has_more: bool) -> Decoded:
    """Read what the front end wrote; an error is only noted if there is more than that."""
    try:
        has_lines = any((path / name).is_file() for name in (LINES_FILE_NAME, LINES_JOURNAL_FILE_NAME))
        return read_native(path, recording, _part(recording, selection, has_lines=has_lines))
    except SourceError as error:
        if not has_more:
            raise
        decoded = Decoded()
        decoded.notes.error(recording.collector, str(error))
        return decoded


def _part(recording: Recording, selection: Selection | None, *, has_lines: bool) -> SelectedPart:
    """Return the selected intervals by the session's steps, or by the raw data if the session has none."""
    if selection is not None and selection.steps is not None and not recording.steps and has_lines:
        return None  # the steps may be those of a loop, which launches tell
    if selection is None or not (recording.started_ns if selection.steps is None else recording.steps):
        return selection
    windows = selection.windows(_steps(recording), recording.started_ns)
    return SelectedWindows(windows) if selection.steps is None else SelectedWindows(windows, windows)


def _steps(recording: Recording) -> pd.DataFrame:
    rows = np.array(recording.steps, dtype=np.int64).reshape(-1, 3)
    columns = {"step": rows[:, 0], "start_ns": rows[:, 1], "duration_ns": np.maximum(rows[:, 2] - rows[:, 1], 0)}
    return tables.build("steps", columns)


def _describe(decoded: Decoded, recording: Recording, path: Path) -> None:
    """Replace facts of the raw files by those of the recording, which knows the session."""
    info = decoded.info
    info.name = recording.name or path.name
    info.collector = recording.collector
    info.source = f"recording, {info.source}" if info.source else "recording"
    # Either source may say so: simulated data must never pass for real.
    info.simulated = info.simulated or recording.simulated
    info.emulated_ns, info.overhead = recording.emulated_ns, recording.overhead
    info.started_ns = recording.started_ns or info.started_ns
    info.stopped_ns = recording.stopped_ns or info.stopped_ns
    info.versions = {**info.versions, **recording.versions}
    info.environment = {**info.environment, **recording.environment}
    info.options = recording.options
    info.metadata = {**_of_process(recording), **recording.metadata}
    info.rank = info.rank if (rank := rank_of(recording)) is None else rank
    info.failed, info.reason = recording.failed, recording.reason
    info.recording = path
    if recording.stopped_ns:  # of a killed run the last cell is not known to have ended
        info.executed = [(name, start, max(start, end)) for name, start, end in recording.executed]
    info.code, info.cells = recording.code, recording.cells
    info.unprofiled_children = recording.unprofiled_children
    if recording.unprofiled_children:
        decoded.notes.rewrite(lambda text: text.replace(NOT_USED, _USED_BY_CHILDREN))
    for problem in recording.problems:
        decoded.notes.error(recording.collector, problem, lacks=_OF_DEVICE if TOOK_NO_DATA in problem else ())
    for problem in recording.stack_problems:
        decoded.notes.warning(python_stacks.SOURCE, problem)
    if recording.clock_step_ns:
        step = f"{'forward' if recording.clock_step_ns > 0 else 'back'} by {duration(abs(recording.clock_step_ns))}"
        decoded.notes.warning(
            "clock", f"the system's clock was set {step} during the run: times are shown as if it had not been"
        )


def _describe_process(decoded: Decoded, recording: Recording) -> None:
    """Add the steps and the group that the recording of a process of a job does not have otherwise."""
    steps = steps_of_optimizer(decoded.tables, decoded.notes, recording.collector)
    if steps is not None:
        take_steps(decoded.tables, steps, recording.collector, decoded.notes, "the optimizer")
    groups = recording.process.get("groups")
    if isinstance(groups, dict):
        name_group(decoded, {name: ranks for name, ranks in groups.items() if isinstance(ranks, list)})


def _of_process(recording: Recording) -> dict[str, Any]:
    """Return the rank and the groups of a process of a job as the metadata of a framework has them."""
    process, rank = recording.process, rank_of(recording)
    if rank is None:
        return {}
    groups = process.get("groups")
    named = groups if isinstance(groups, dict) else {}
    facts: dict[str, Any] = {
        "distributed_args": {name: process[name] for name in ("rank", "world_size", "backend") if name in process}
    }
    if named:
        facts["parallel_group_info"] = {
            name: {"group_name": "default_group" if name == min(named) else "", "global_ranks": ranks}
            for name, ranks in named.items()
        }
    return facts


def describe(path: Path) -> Info:
    """Return the metadata of a run from ``recording.json``."""
    recording = Recording.read(path)
    return Info(
        name=recording.name or path.name,
        collector=recording.collector,
        source="recording",
        started_ns=recording.started_ns or None,
        stopped_ns=recording.stopped_ns or None,
        recording=path,
        rank=rank_of(recording),
        failed=recording.failed,
        metadata=_of_process(recording),
        environment={"hostname": host} if (host := recording.environment.get("hostname")) else {},
    )


SOURCE = Source("recording", (None, "raw"), recognises, read, read_part, describe, is_raw=True)
