"""A recording: a directory that a collector fills, and its description.

The directory has the native front end's data (``PROF_*``), the sampled Python stacks, and ``recording.json``, the
description. If decoding fails, ``npuprof.load`` can be called on the directory again.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuprof.errors import CollectorError, NpuprofError, OptionsError, SourceError
from npuprof.files import atomic
from npuprof.words.texts import encodable, repaired

if TYPE_CHECKING:
    from npuprof.arrays import Int64

FILE_NAME = "recording.json"
EARLIER_WORKERS = "workers of an earlier cell"
"""What :attr:`Recording.unprofiled_children` calls processes that an earlier cell started."""
TOOK_NO_DATA = "took no data for a part of the run"
"""Says in a problem of a recording that its front end may have lost records."""

STACKS_FILE_NAME = "python_stacks.parquet"
JOURNAL_FILE_NAME = "journal.jsonl"
STACKS_JOURNAL_FILE_NAME = "python_stacks.jsonl"
LINES_FILE_NAME = "lines.parquet"
LINES_JOURNAL_FILE_NAME = "lines.jsonl"
"""Journals exist during the run, and remain if its process is killed."""
SAMPLING_INTERVAL_NS = 5_000_000
"""The time between two samples of the Python stacks."""
NOTEBOOK = "JPY_SESSION_NAME"
"""The environment variable by which Jupyter's servers name the notebook to the kernel that they start."""
METADATA_FILE_NAME = "profiler_metadata.json"
TRACE_FILE_NAME = "torch_trace.json"
FLOPS_FILE_NAME = "torch_flops.json"
FLOPS_DOMAIN = "mfu_flops"
"""The domain of the ranges in which torch_npu records FLOPs."""
BREAKS_JSON = re.compile(r'["\\\x00-\x1f]')
"""Characters that would break Kineto's JSON, which does not escape names; apostrophes replace them."""
_FORMAT = "npuprof-recording"
_MAX_METADATA_BYTES = 1 << 20
_MAX_MESSAGE_BYTES = 126  # length at which pyACL cuts a marker's message
_INSTEAD = "load the PROF_* directory next to it instead"
_MAX_BYTES = 64 << 20  # options, metadata, the list of files, and a million steps; a larger file is not from npuprof
_ROOM_BYTES = 1 << 16  # for about a thousand steps
_MANY_STEPS = 1_000  # with more steps, the file is not indented
_MAX_FILES = 50_000
_REWRITTEN = frozenset(
    {
        "processes.jsonl",
        "watched",
        FILE_NAME,
        JOURNAL_FILE_NAME,
        STACKS_JOURNAL_FILE_NAME,
        LINES_JOURNAL_FILE_NAME,
        METADATA_FILE_NAME,
    }
)
_OF_PARSERS = frozenset(
    {"ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_log", "mindstudio_profiler_output", "log", "logs", "sqlite"}
)
"""Directories of the vendor's parsers, which may write to them again at any time."""


@dataclass
class Recording:
    """The description of a recording."""

    directory: Path  # the path of the directory; private to the user (0o700)
    # name, collector, simulated, reason: see `Info`.
    name: str
    collector: str
    simulated: bool
    options: dict[str, Any] = field(default_factory=dict)  # `Options.to_dict()` of the session
    # started_ns, stopped_ns: UTC epoch nanoseconds around the profiled code, from a monotonic clock; `stopped_ns` is 0
    # before the stop.
    started_ns: int = 0
    stopped_ns: int = 0
    # Nanoseconds of the run after the code of its cells, in which IPython shows values, figures and errors.
    after_ns: int = 0
    # The UTC epoch nanoseconds at zero of CLOCK_MONOTONIC_RAW, the clock of frameworks; 0 if unknown.
    raw_clock_epoch_ns: int = 0
    clock_step_ns: int = 0  # the change of the system clock during the run, in nanoseconds; negative if it was set back
    # Time that the clock of a simulated run leaves out, because the computer was emulating the NPU.
    emulated_ns: int = 0
    overhead: dict[str, int] = field(default_factory=dict)  # the cost of profiling, see `Info`
    # `[step, start_ns, end_ns]` of every finished `step()`.
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    # `[message, domain, place]` of the markers with a domain, in call order, if the front end lacks domains; `place`
    # counts the markers with that message from 0.
    domains: list[tuple[str, str, int]] = field(default_factory=list)
    # The text of the profiled code by file, as stacks name it, unless `code` is off.
    code: dict[str, str] = field(default_factory=dict)
    # The profiled cell: `id` and `notebook`, as the front end names them, and its `number`; empty without one.
    cell: dict[str, str] = field(default_factory=dict)
    # The ids of the cells whose code ran, by number, as the front end names them.
    cells: dict[str, str] = field(default_factory=dict)
    # The numbers of cells by the file names of their code, where a framework records stacks, which have those names.
    cell_files: dict[str, int] = field(default_factory=dict)
    # `[name, start_ns, end_ns]` of each cell that ran, in a run that was started by hand in a notebook.
    executed: list[tuple[str, int, int]] = field(default_factory=list)
    # When the code of each of these cells had ended at the latest: IPython then shows figures.
    code_ended: list[int] = field(default_factory=list)
    # The names of those cells that began with `%%npuprof`: each is reported as its part of the run.
    parts: list[str] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)  # what the report of the run found, for `history`
    # In a job: the `rank` of the process and the number of ranks (`world_size`), the ranks of each of its `groups` by
    # name, the `backend` that they communicate with, its `parent`, its `arguments`, and what orders processes by their
    # starts (`born`), as far as they are known.
    process: dict[str, Any] = field(default_factory=dict)
    # How many processes that a profiled cell started imported each front end, by its module; they were not profiled.
    # Workers that an earlier cell started and that worked count as `EARLIER_WORKERS`.
    unprofiled_children: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)  # the user's metadata
    # versions, environment: facts about the software and the machine.
    versions: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    # The exception of the profiled code, as `Type: message`, in a process of a job with its line; empty without one.
    failed: str = ""
    reason: str = ""
    problems: list[str] = field(default_factory=list)  # problems that did not end the session
    stack_problems: list[str] = field(default_factory=list)  # problems of the Python stack sampler
    # Size in bytes of each file when the collector ended, by relative path; empty if it did not end.
    files: dict[str, int] = field(default_factory=dict)

    def end_with_code(self, times_ns: Int64, numbers: Int64) -> list[tuple[int, int]]:
        """End the run, or each of its cells, when its code ended; return what follows, as begins and ends.

        Parameters
        ----------
        times_ns, numbers
            The stamps of its cells in order, in epoch nanoseconds: those of a statement's end are below 0.
        """
        import numpy as np

        afterwards: list[tuple[int, int]] = []
        if not self.stopped_ns:
            return afterwards

        def end_of_code(start_ns: int, end_ns: int, latest_ns: int) -> int:
            last = int(np.searchsorted(times_ns, end_ns, side="right")) - 1
            is_known = last >= 0 and times_ns[last] >= start_ns and numbers[last] < 0
            code_ns = int(times_ns[last]) if is_known else latest_ns  # of a cell that was cancelled, or has no stamps
            if code_ns < end_ns:
                afterwards.append((code_ns, end_ns))
            return code_ns

        if not self.executed:
            self.stopped_ns = end_of_code(self.started_ns, self.stopped_ns, self.stopped_ns)
        latest = [*self.code_ended, *(end for _, _, end in self.executed[len(self.code_ended) :])]
        self.executed = [
            (name, start, end_of_code(start, end, ended))
            for (name, start, end), ended in zip(self.executed, latest, strict=False)
        ]
        return afterwards

    def list_files(self) -> None:
        """List files with their sizes, from which :func:`npuprof.load` detects files that are lost later."""
        self.files = {}
        try:
            for path, size in _sizes(os.fspath(self.directory)):
                if len(self.files) == _MAX_FILES:
                    raise OSError(f"there are more than {_MAX_FILES}")
                self.files[path] = size
        except OSError as error:
            self.problems.append(
                f"not all files of the recording could be listed ({error.strerror or error}): a later loss of an "
                "unlisted file will not be noticed"
            )

    def write(self, *, is_begun: bool = False) -> None:
        """Write ``recording.json`` atomically, or over itself where the disk is full.

        Parameters
        ----------
        is_begun
            Whether the end of the run is to follow: the file is then padded, so that the end has room in its place.
        """
        path = self.directory / FILE_NAME
        content = self._encoded(indent=1 if len(self.steps) < _MANY_STEPS else None)
        try:
            atomic.write(path, content.ljust(_ROOM_BYTES) if is_begun else content)
        except NpuprofError:
            if is_begun or not (atomic.overwrite(path, content) or atomic.overwrite(path, self._encoded(files={}))):
                raise

    def _encoded(self, indent: int | None = None, **changes: Any) -> bytes:
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        del values["directory"]  # a recording may be moved
        plain = {"format": _FORMAT, "version": 1, **values, **changes}
        return json.dumps(plain, indent=indent).encode()

    def write_metadata(self) -> None:
        """Write the metadata as ``profiler_metadata.json``, where the frameworks' tools expect it."""
        if self.metadata:
            atomic.write(self.directory / METADATA_FILE_NAME, json.dumps(self.metadata, indent=1).encode())

    def copy(self) -> Recording:
        """Return a copy whose lists and dictionaries a reader may change."""
        values: dict[str, Any] = {item.name: copy(getattr(self, item.name)) for item in fields(self)}
        return Recording(**values)

    @classmethod
    def read(cls, directory: Path) -> Recording:
        """Read the ``recording.json`` of a directory; damaged fields are left out and listed in `problems`."""
        from npuprof.files.small_files import read_fields, read_json  # takes a while to import

        path = directory / FILE_NAME
        try:
            plain = read_json(path, _MAX_BYTES)
        except (OSError, ValueError) as error:
            raise SourceError(f"{path} cannot be read ({error}); {_INSTEAD}") from error
        if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
            raise SourceError(f"{path} was not written by npuprof; {_INSTEAD}")
        values, problems = read_fields(cls, {key: plain[key] for key in plain if key != "directory"})
        if "simulated" not in values:
            raise SourceError(f"{path} does not say whether the NPU was simulated; {_INSTEAD}")
        recording = cls(directory, **{"name": "", "collector": "", **values})
        recording.problems += [f"{FILE_NAME}: {problem}, and is left out" for problem in problems]
        return recording


def _sizes(directory: str, inner: str = "") -> Iterator[tuple[str, int]]:
    """Yield the relative path and size of each file that will not be written to again."""
    with os.scandir(directory) as entries:
        for entry in entries:
            name = f"{inner}{entry.name}"
            if entry.is_dir(follow_symlinks=False) and entry.name not in _OF_PARSERS:
                yield from _sizes(entry.path, f"{name}/")
            elif entry.is_file(follow_symlinks=False) and not (
                name in _REWRITTEN or name.endswith((atomic.PARTIAL, ".complete")) or encodable(name) != name
            ):
                yield name, entry.stat(follow_symlinks=False).st_size


def stored_message(message: str) -> str:
    """Return a marker's message in the form that every front end stores.

    pyACL cuts messages to their first bytes, and torch replaces characters that would break its JSON.
    """
    if message.isascii() and len(message) <= _MAX_MESSAGE_BYTES and not BREAKS_JSON.search(message):
        return message  # the usual case, and the fastest
    whole = BREAKS_JSON.sub("'", message).encode()
    return whole[:_MAX_MESSAGE_BYTES].decode(errors="ignore")


def json_metadata(key: str, value: Any) -> dict[str, Any]:
    """Return metadata in the form stored in ``recording.json``."""
    try:
        fact: dict[str, Any] = repaired({str(key): value})
        size = len(json.dumps(fact))
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionsError(
            f"metadata {key!r} cannot be stored as JSON ({error}): give text, numbers or lists"
        ) from error
    if size > _MAX_METADATA_BYTES:
        raise OptionsError(f"metadata {key!r} is {size} bytes; the limit is {_MAX_METADATA_BYTES}")
    return fact


_ELSEWHERE = "choose another directory with --output"
_NUMBERS = count()  # none twice: who deletes old recordings by their paths must not meet a new one of the same second


def make_directory(output: Path, name: str, undo: ExitStack) -> Path:
    """Create the private directory of a new recording.

    Parameters
    ----------
    undo
        Receives callbacks that remove the new directories if they are empty, also after an interrupt in this function.
    """
    stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime())
    label = re.sub(r"[^\w.-]+", "_", name) or "run"
    try:
        output = output.absolute()
    except FileNotFoundError as error:
        raise CollectorError(
            f"no recording can be made in {output}: the working directory was deleted; change to another, or choose a "
            "whole path with --output"
        ) from error
    undo.callback(atomic.remove_empty, atomic.absent(output))
    try:
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in islice(_NUMBERS, 1000):
            directory = output / f"{label}_{stamp}_{os.getpid()}_{number:03d}"
            undo.callback(atomic.remove_empty, [directory])
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
                return directory
    except OSError as error:
        reason = atomic.reason(error, output, elsewhere=_ELSEWHERE)
        raise CollectorError(f"no recording can be made in {output}: {reason}") from error
    raise CollectorError(f"{output} already holds a thousand recordings made in this second: choose another --output")


@contextmanager
def explain_write_errors(directory: Path) -> Iterator[None]:
    """Raise a CollectorError that says what to do about a write error in the block.

    A front end that fails does not mention a full disk, so the disk is checked too.
    """
    try:
        yield
    except CollectorError as error:
        if lacking := atomic.lacking(directory, elsewhere=_ELSEWHERE):
            raise CollectorError(f"nothing can be written to {directory}: {lacking} ({error})") from error
        raise
    except (OSError, NpuprofError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        reason = atomic.reason(cause, directory, elsewhere=_ELSEWHERE)
        raise CollectorError(f"nothing can be written to {directory}: {reason}") from error
