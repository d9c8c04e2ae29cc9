"""Facts about a run besides its tables: machine, software, and how the run was collected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypedDict

from npuprof.words.texts import LongText, encodable, plain_lines


class Selected(TypedDict, total=False):
    """The selected part of a run: step numbers, or bounds in UTC epoch nanoseconds."""

    steps: list[int]
    start_ns: int
    end_ns: int


AFTER_CELL = "after the cell (IPython)"
"""The name of what follows the code of a cell: IPython shows its value, figures or error."""


@dataclass(frozen=True, order=True)
class Afterwards:
    """What IPython did after the code of a cell, which is no part of the run."""

    # start_ns, end_ns: UTC epoch nanoseconds from the end of the code until the run, or the cell in it, ended.
    start_ns: int
    end_ns: int
    # device_ns, launches: time and number of the kernels and collectives that were launched meanwhile.
    device_ns: int = 0
    launches: int = 0


@dataclass(frozen=True)
class DeviceClock:
    """The clock of a device beside that of its host, as causality shows it."""

    device_id: int
    # launches, early, earliest_ns: tasks compared with the calls that launched them; how many of them start before the
    # call, as recorded, and by how much at most.
    launches: int = 0
    early: int = 0
    earliest_ns: int = 0
    # waits, late, latest_ns: calls compared with the tasks that they waited for; how many of them return before the end
    # of these tasks, as recorded, and by how much at most.
    waits: int = 0
    late: int = 0
    latest_ns: int = 0
    left_out: int = 0  # early tasks that say nothing of the clock, since their links are wrong
    # shift_ns, drift_ppb, since_ns: what analysis adds to the recorded times of the device: `shift_ns` at the epoch
    # time `since_ns`, and `drift_ppb` nanoseconds more each second; 0 if the times are right as recorded.
    shift_ns: int = 0
    drift_ppb: int = 0
    since_ns: int = 0
    # least_ns, most_ns: the least and the most that could be added at `since_ns`; None if nothing bounds it.
    least_ns: int | None = None
    most_ns: int | None = None
    joined: bool = True  # whether times of device and host can be compared at all


@dataclass(frozen=True)
class Violation:
    """What cannot be so on a device, or is known to be missing: an entry of :attr:`Info.examination`."""

    # `overrun`: durations that run over the next kernel of their stream, or over the return of a wait for it;
    # `out_of_order`: kernels out of the order in which the work of their stream was launched; `after_wait`: work of an
    # NPU that ends after the return of a wait for it; `no_duration`: steps or kernels of no duration; `lost_tasks`:
    # launches whose tasks are missing; `outside`: rows outside of the recorded time; `repeated_id`: tasks with the id
    # of another one of their stream; `overlapping_blocks`: blocks of memory that were allocated where others were in
    # use; `outlives_caller`: operators or calls that end after the one around them; `below_zero`: totals of memory;
    # `pending`: launches at the end whose tasks may have run later, which is no loss; `unexplained_wait`: waits for
    # work that is not in the recording; `lost_end`: steps without any record of a device, beside a loss; `lost_rows`:
    # rows that were lost at unknown times.
    kind: str
    table: str  # the table that is wrong or lacks rows
    message: str  # what was found, and what follows
    # count, amount_ns: how many rows are wrong or missing, and the time that is doubtful because of them.
    count: int
    amount_ns: int = 0
    # device_id, stream_id: where; None if it is unknown, or several.
    device_id: int | None = None
    stream_id: int | None = None
    rank: int | None = None  # the rank, in facts of several runs
    steps: tuple[int, ...] = ()  # the numbers of the steps that it touches
    # Start and end of the times of the device, on the host's clock, in which it may have run what is not recorded.
    spans: tuple[tuple[int, int], ...] = field(default=(), repr=False)


def common_cells(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the ids of cells by number of several runs, without numbers that stand for different cells."""
    ids: dict[str, set[str]] = {}
    for cells in several:
        for number, id_ in cells.items():
            ids.setdefault(number, set()).add(id_)
    return {number: next(iter(known)) for number, known in ids.items() if len(known) == 1}


@dataclass(repr=False)
class Info(LongText):
    """Facts about one run."""

    name: str = ""  # the name that the user gave the run, or else the name of its directory
    # The front end that recorded the run: `acl`, `torch_npu`, `mindspore`, `tensorflow`, `msprof`, `kineto`,
    # `simulator`; empty if unknown.
    collector: str = ""
    source: str = ""  # the format that was read, and whether it is raw data or the vendor's parsed result
    simulated: bool = False  # whether any of the data comes from the simulated NPU
    chip: str = ""  # the chip's name, such as `Ascend 910B`
    # rank, devices: the global rank, if known, and the ids of the devices with data.
    rank: int | None = None
    devices: list[int] = field(default_factory=list)
    # started_ns, stopped_ns: start and end of collection, or of the code of the profiled cell, UTC epoch nanoseconds.
    started_ns: int | None = None
    stopped_ns: int | None = None
    # Software versions by name (`cann`, `driver`, `torch_npu`, `python` ...).
    versions: dict[str, str] = field(default_factory=dict)
    # The options of the session, in the form of `Options.to_dict`.
    options: dict[str, Any] = field(default_factory=dict)
    # Host name, operating system, CPU and whatever else the files have on the machine.
    environment: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)  # metadata that the user attached with `add_metadata`
    recording: Path | None = None  # the directory or file that was read
    # The selected part of the run; empty for the whole run: `steps`, or `start_ns` and `end_ns` in UTC epoch
    # nanoseconds. The other facts describe the whole run.
    selection: Selected = field(default_factory=Selected)
    # The exception of the profiled code, as `Type: message`, in a process of a job with its line; empty without one.
    failed: str = ""
    reason: str = ""  # why that front end was chosen; empty if the user requested it
    emulated_ns: int = 0  # time that a simulated run does not count, because the computer was emulating the NPU
    # The cost of profiling: `start_ns` and `stop_ns` of the collector, `code_ns` of the profiled code between them,
    # `written_bytes`, and, if measured, `repeat_ns` of the same code without profiling.
    overhead: dict[str, int] = field(default_factory=dict)
    # The clock of each device that has launches to compare; complete when notes are.
    clocks: list[DeviceClock] = field(default_factory=list)
    # What the examination of the tables found impossible or missing; complete when notes are.
    examination: list[Violation] = field(default_factory=list)
    # The text of the profiled code by file, if the recording has it: first that of the profiled cell.
    code: dict[str, str] = field(default_factory=dict, repr=False)
    # The ids of the notebook's cells whose code ran, by their numbers, as far as they are known.
    cells: dict[str, str] = field(default_factory=dict, repr=False)
    # Name, start and end of the code of each cell that ran, where a run was started by hand in a notebook; the time
    # between them is no part of the run.
    executed: list[tuple[str, int, int]] = field(default_factory=list)
    # What IPython did after the code of each cell, of which the tables have nothing.
    afterwards: list[Afterwards] = field(default_factory=list)
    unprofiled_children: dict[str, int] = field(default_factory=dict)  # as in `Recording`

    @property
    def recorded(self) -> tuple[int | None, int | None]:
        """Start and stop of the collection, as far as they are known."""
        return self.started_ns, self.stopped_ns

    @property
    def thinking_ns(self) -> int:
        """The time of the run between cells; 0 unless cells are known."""
        if not self.executed or self.started_ns is None or self.stopped_ns is None:
            return 0
        ran_ns = sum(end_ns - start_ns for _, start_ns, end_ns in self.executed)
        after_ns = sum(each.end_ns - each.start_ns for each in self.afterwards)
        return max(0, self.stopped_ns - self.started_ns - ran_ns - after_ns)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, encodable(value) if isinstance(value, str) else value)

    def _one_line(self) -> str:
        """Return the name of the run, its front end, chip and rank."""
        by = f" of {self.collector or self.source}" if self.collector or self.source else ""
        rank = "" if self.rank is None else f", rank {self.rank}"
        chip = f", {self.chip}" if self.chip else ""
        return f"{self.name}{by}{chip}{rank}{', simulated' if self.simulated else ''}; print() shows all facts"

    def __str__(self) -> str:
        """Return all facts that are known, one a line; of the code, the names of its files, of cells their numbers."""
        facts = {item.name: getattr(self, item.name) for item in fields(self)}
        facts |= {"code": list(self.code), "cells": list(self.cells)}
        return plain_lines(
            "\n".join(f"{name}: {value}" for name, value in facts.items() if value not in (None, "", [], {}))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dictionary, which :mod:`npuprof.files.small_files` reads back."""
        plain = asdict(self)
        plain["recording"] = None if self.recording is None else str(self.recording)
        return plain
