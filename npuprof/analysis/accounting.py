"""Each nanosecond of each step: the device's work, and the host's work while the device was idle."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.basis import Basis, basis_of
from npuprof.analysis.host_accounting import HOST, activities, is_of_host
from npuprof.analysis.idle_causes import UNKNOWN, idle_causes, unmeasured_causes
from npuprof.analysis.intervals import Spans, covering, executed_spans, intersection, pieces, subtract, union
from npuprof.analysis.step_windows import Origin, StepWindows, step_windows
from npuprof.arrays import Bools, Int64
from npuprof.tables.info import Info, Selected, Violation
from npuprof.words import quantities

BETWEEN_STEPS = "between_steps"
"""The part of a step between the end of its mark (of its last task) and the start of the next step."""

NOT_RECORDED = "not_recorded"
"""The part of a step in which the device may have run what is not in the recording."""

PARTS = (
    "computing",
    "waiting",
    "moving",
    "communication",
    "copy",
    "idle_head",
    "idle_inside",
    "idle_tail",
    BETWEEN_STEPS,
    NOT_RECORDED,
    HOST,
)
"""Disjoint parts of a step, in this order.

``computing`` is time of kernels. Exposed communication, which no kernel overlaps, is ``moving`` while data moves and
``waiting`` (for other ranks) otherwise, or ``communication`` where the profile lacks the tasks of collectives that tell
them apart. ``copy`` is time of copies outside both. The device is idle before its first task of the step
(``idle_head``), after its last task (``idle_tail``), and between them (``idle_inside``). A step lasts to the start of
the next consecutive one: what the device does between the end of its mark and that start keeps its part, and the rest
is ``between_steps``. Where records are missing (:attr:`npuprof.tables.info.Info.examination`), time without recorded
work is ``not_recorded``: it is neither known to be idle, nor to be the host's fault. Of a run without a device all time
in a mark is ``host``, with what the host did as the causes.
"""

IDLE = ("idle_head", "idle_inside", "idle_tail")
"""The parts in which the device had no work."""
WAITS = ("waiting", "moving", "communication")
"""The parts in which a rank is in a collective."""
SPLIT_UNKNOWN = "split unknown"
"""Cause of ``communication``: waiting and moving cannot be separated."""
MISSING = "missing records"
"""Cause of ``not_recorded``."""
BUBBLE = "bubble"
"""Cause of ``communication``: the vendor's pipeline bubble, which is receives from another stage."""

MATTERS = 0.01
"""The share of a step that lost records may move before its figures cannot be trusted."""

RUNS_OVER = "runs_over_ns"
"""The column of ``kernels``, ``communication`` and ``tasks``, present where a duration runs over the next row of its
stream: by how much."""

_MOVING = ("memcpy", "reduceinline", "inlinereduce", "rdmasend", "rdmasendpayload", "sdmacopy", "reduceasync")
_COPY_TYPES = ("PCIE_DMA_SQE", "SDMA_SQE", "MEMCPY_ASYNC", "gpu_memcpy", "gpu_memset")
_ALWAYS = int(np.iinfo(np.int64).min)
_NO_DEVICE = -1  # in a run of the host alone
_VENDOR_TIMES = ("computing_ns", "communication_not_overlapped_ns", "free_ns")


@dataclass(frozen=True)
class Accounting:
    """The steps of a run, and the intervals of their parts."""

    # A row for each step and device: `rank`, `device_id`, `step` (<NA> for a run without steps), `duration_ns`, `basis`
    # (`Origin`), `head_known` (whether the device was idle before the first task of the step, and not busy with an
    # earlier step that is not in the profile), `closed` (see `lasting`) and `complete` (whether lost records move none
    # of its parts by more than 1 %). The duration is the time of the step's mark that no step covers which began later,
    # and the time to the start of the next consecutive step: no moment belongs to two steps of a device.
    steps: pd.DataFrame
    # A row for each interval: `row` (of `steps`), `part`, `cause`, `start_ns`, `duration_ns`. The vendor's step times
    # have no position: their start is <NA>.
    intervals: pd.DataFrame
    # Causes of idle time for which the recording has no rows, with the option that records them.
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    # Which of the steps are outliers of the job that the run is a rank of; None where the run alone tells.
    outlier: Bools | None = None

    def __repr__(self) -> str:
        sums = self.intervals.groupby("part", observed=True)["duration_ns"].sum()
        whole = int(self.steps["duration_ns"].sum())
        parts = ", ".join(f"{part} {quantities.share(int(time), whole)}" for part, time in sums.items() if time)
        of = f"{quantities.counted(len(self.steps), 'step')}, {quantities.duration(whole)}"
        return f"<Accounting of {of}: {parts or 'nothing recorded'}>"

    @property
    def of_host(self) -> bool:
        """Whether the run has no device, so that the steps are divided by what the host did."""
        return bool((self.intervals["part"] == HOST).any())

    @property
    def has_steps(self) -> bool:
        """Whether the run has steps; without, its only one is the whole run."""
        return bool((self.steps["basis"] != "run").any())

    @cached_property
    def basis(self) -> Basis:
        """The steps that figures per step rest on."""
        return basis_of(self.steps, self.outlier)

    def windows(self, rows: Int64) -> tuple[Spans, Int64]:
        """Return the time of some steps of a device as disjoint intervals, and the row of each."""
        is_of = np.zeros(len(self.steps), bool)
        is_of[rows] = True
        placed = is_of[self.intervals["row"].to_numpy()] & self.intervals["start_ns"].notna().to_numpy(bool)
        starts, lengths, row = (
            self.intervals[name][placed].to_numpy(np.int64) for name in ("start_ns", "duration_ns", "row")
        )
        order = np.argsort(starts, kind="stable")
        starts, ends, row = starts[order], (starts + lengths)[order], row[order]
        is_first = np.ones(len(row), bool)
        is_first[1:] = (row[1:] != row[:-1]) | (starts[1:] != ends[:-1])
        return (starts[is_first], ends[np.append(is_first[1:], True)[: len(row)]]), row[is_first]

    def breakdown(self) -> pd.DataFrame:
        """Sum the intervals by step, part and cause.

        Returns
        -------
        pandas.DataFrame
            ``rank``, ``device_id``, ``step``, ``part``, ``cause`` and ``duration_ns``. The rows of a step add up to its
            duration in :attr:`steps` exactly.
        """
        rows = self.intervals
        sums = rows.groupby(["row", "part", "cause"], observed=True, sort=True)["duration_ns"].sum().reset_index()
        steps = self.steps.iloc[sums["row"].to_numpy()].reset_index(drop=True)
        columns = [steps[["rank", "device_id", "step"]], sums[["part", "cause", "duration_ns"]]]
        return pd.concat(columns, axis=1)

    def by_part(self) -> pd.DataFrame:
        """Sum the intervals by step and part.

        Returns
        -------
        pandas.DataFrame
            The rows of :attr:`steps`, with a column of nanoseconds for each of :data:`PARTS`, which add up to
            ``duration_ns``.
        """
        rows = self.intervals
        sums = np.zeros((len(self.steps), len(PARTS)), np.int64)
        np.add.at(sums, (rows["row"].to_numpy(), rows["part"].cat.codes.to_numpy()), rows["duration_ns"].to_numpy())
        return self.steps.assign(**dict(zip(PARTS, sums.T, strict=True)))


def account(
    tables: Mapping[str, pd.DataFrame],
    rank: int | None = None,
    selection: Selected | None = None,
    apart: Collection[int] = (),
    executed: Collection[tuple[str, int, int]] = (),
    examination: Collection[Violation] = (),
    recorded: tuple[int | None, int | None] = (None, None),
) -> Accounting:
    """Attribute each nanosecond of each step of each device to one part and one cause.

    Parameters
    ----------
    apart
        The devices whose times cannot be compared with those of the host: causes of their idle time are unknown.
    executed
        Name, start and end of the cells of a run that was started by hand. Of a run without steps, only their time and
        that of the device's work is accounted for.
    """
    cells = executed_spans(executed)
    windows = {
        device: step_windows(tables, device, joined=device not in apart).timed().lasting()
        for device in devices_of(tables)
    }
    bounds = (selection or {}).get("start_ns"), (selection or {}).get("end_ns")
    if bounds != (None, None):
        windows = {device: window.clipped(*bounds) for device, window in windows.items()}
    times = _vendor_rows(tables["step_times"])
    known = times["device_id"].fillna(next(iter(windows), -1))  # a run of one device may lack its number
    devices = [device for device, window in windows.items() if window.basis != "run" or not (known == device).any()]
    accounted = [
        _device(tables, device, windows[device], cells, unrecorded(examination, device), joined=device not in apart)
        for device in devices
    ]
    accounted.append(_vendor(times[~known.isin(devices).to_numpy(bool)] if "rank" not in times else times))
    if is_of_host(tables):
        alone = step_windows(tables, _NO_DEVICE).timed().lasting()
        begin, end = recorded
        if alone.basis == "run" and len(alone.starts) == 1 and begin is not None and end is not None and begin < end:
            alone = replace(alone, starts=np.array([begin]), ends=np.array([end]))
        accounted = [_host(tables, _within_cells(alone.clipped(*bounds), cells))]
    steps: pd.DataFrame = pd.concat([device.steps for device in accounted], ignore_index=True)
    if rank is not None:
        steps["rank"] = steps["rank"].fillna(rank)
    return Accounting(steps, _intervals(accounted), unmeasured_causes(tables) if devices else {})


def of_every_kind(accounting: Accounting, tables: Mapping[str, pd.DataFrame], info: Info) -> Accounting:
    """Return the accounting of a run with the steps of other kinds, such as an evaluation, too."""
    if "counted" not in tables["steps"]:
        return accounting
    tables = {**tables, "steps": tables["steps"].drop(columns="counted")}
    without_host = [clock.device_id for clock in info.clocks if not clock.joined]
    return account(tables, info.rank, info.selection, without_host, info.executed, info.examination, info.recorded)


def unrecorded(examination: Iterable[Violation], device_id: int) -> Spans:
    """Return the times in which a device may have run unrecorded work."""
    spans = [span for violation in examination if violation.device_id in (None, device_id) for span in violation.spans]
    edges = np.array(spans, np.int64).reshape(-1, 2)
    return union(edges[:, 0], edges[:, 1])


def doubtful_steps(windows: StepWindows, missing: Spans, computing: Spans) -> Bools:
    """Return the steps in which a part may be wrong by more than 1 %."""
    starts, ends, window = pieces(subtract(missing, computing), windows.spans)
    moved = np.zeros(len(windows.steps), np.int64)
    np.add.at(moved, windows.owner[window], ends - starts)
    return moved > MATTERS * windows.durations()


@dataclass(frozen=True)
class _Stretches:
    """Intervals of one part and cause; `row` is the step, `starts` is None for sums without a position in time."""

    part: str
    cause: str
    row: Int64
    starts: Int64 | None
    durations: Int64

    def lasting(self) -> _Stretches:
        """Return the intervals that take time."""
        kept = self.durations > 0
        if self.starts is None or kept.all():
            return self
        return replace(self, row=self.row[kept], starts=self.starts[kept], durations=self.durations[kept])


@dataclass(frozen=True)
class _Accounted:
    """The steps of a device, and their intervals."""

    steps: pd.DataFrame
    stretches: list[_Stretches]


def _intervals(accounted: list[_Accounted]) -> pd.DataFrame:
    kept, rows, offset = [], [np.zeros(0, np.int64)], 0
    for device in accounted:
        kept += [stretch for stretch in device.stretches if len(stretch.row)]
        rows += [stretch.row + offset for stretch in device.stretches]
        offset += len(device.steps)
    counts = [len(stretch.row) for stretch in kept]
    causes = sorted({stretch.cause for stretch in kept})
    empty = np.zeros(0, np.int64)
    starts = np.concatenate(
        [empty, *(stretch.durations * 0 if stretch.starts is None else stretch.starts for stretch in kept)]
    )
    absent = np.repeat([stretch.starts is None for stretch in kept], counts).astype(bool)
    return pd.DataFrame(
        {
            "row": np.concatenate(rows),
            "part": schema.categorical(np.repeat([PARTS.index(stretch.part) for stretch in kept], counts), list(PARTS)),
            "cause": schema.categorical(np.repeat([causes.index(stretch.cause) for stretch in kept], counts), causes),
            "start_ns": pd.arrays.IntegerArray(starts, absent),
            "duration_ns": np.concatenate([empty, *(stretch.durations for stretch in kept)]),
        },
        copy=False,  # columns of millions of rows are not copied into blocks
    )


def devices_of(tables: Mapping[str, pd.DataFrame]) -> list[int]:
    """Return the devices with tasks; if only collectives are known, the rest of the time cannot be called idle."""
    devices: set[int] = set()
    for name in ("kernels", "tasks"):
        devices.update(tables[name]["device_id"].unique().tolist())
    return sorted(devices)


def overrun_steps(tables: Mapping[str, pd.DataFrame], device_id: int, windows: StepWindows) -> Bools:
    """Return the steps in which overrunning work takes more than 1 %."""
    wrong = [
        _covered_spans(frame[(frame[RUNS_OVER] > 0).to_numpy(bool) & (frame["device_id"] == device_id).to_numpy(bool)])
        for frame in (tables[name] for name in ("kernels", "communication", "tasks"))
        if RUNS_OVER in frame
    ]
    if not wrong:
        return np.zeros(len(windows.steps), bool)
    nothing = np.zeros(0, np.int64)
    return doubtful_steps(windows, union(*map(np.concatenate, zip(*wrong, strict=True))), (nothing, nothing))


def _within_cells(windows: StepWindows, *spans: Spans) -> StepWindows:
    """Return the windows without the time outside of cells, if they are known, of work and of the marks of steps."""
    if not len(spans[0][0]):
        return windows
    if windows.basis != "run":
        spans = (*spans, (windows.starts[~windows.between], windows.ends[~windows.between]))
    return windows.within(union(*map(np.concatenate, zip(*spans, strict=True))))


def _device(
    tables: Mapping[str, pd.DataFrame],
    device_id: int,
    lasting: StepWindows,
    cells: Spans,
    missing: Spans,
    *,
    joined: bool,
) -> _Accounted:
    parts, busy = device_parts(tables, device_id)
    parts.append((NOT_RECORDED, MISSING, subtract(missing, busy)))
    doubtful = doubtful_steps(lasting, missing, parts[0][2]) | overrun_steps(tables, device_id, lasting)
    busy = union(*(np.concatenate(edges) for edges in zip(busy, missing, strict=True)))
    windows = _within_cells(lasting, cells, busy)
    stretches = []

    def add(part: str, cause: str, starts: Int64, ends: Int64, row: Int64) -> None:
        stretches.append(_Stretches(part, cause, row, starts, ends - starts))

    for part, cause, spans in parts:
        starts, ends, window = pieces(spans, windows.spans)
        add(part, cause, starts, ends, windows.owner[window])
    first, last = _busy_bounds(busy, windows)
    known_from = _known_from(tables, windows, first, last)
    idle = subtract(union(*windows.spans), busy)
    for cause, spans in idle_causes(tables, idle) if joined else [(UNKNOWN, idle)]:
        starts, ends, window = pieces(spans, windows.spans)
        row = windows.owner[window]
        between = windows.between[window]
        head = ~between & (ends <= first[row])
        tail = ~between & ~head & (starts >= last[row])
        known = np.clip(known_from[row], starts, ends)
        add("idle_head", UNKNOWN, starts[head], known[head], row[head])
        add("idle_head", cause, known[head], ends[head], row[head])
        for part, is_selected in (
            ("idle_inside", ~between & ~head & ~tail),
            ("idle_tail", tail),
            (BETWEEN_STEPS, between),
        ):
            add(part, cause, starts[is_selected], ends[is_selected], row[is_selected])
    known = known_from == _ALWAYS
    steps = _steps(windows.steps, device_id, windows.durations(), windows.basis, known, windows.closed)
    return _Accounted(steps.assign(complete=~doubtful), [stretch.lasting() for stretch in stretches])


def _host(tables: Mapping[str, pd.DataFrame], windows: StepWindows) -> _Accounted:
    stretches = []
    for activity, spans in activities(tables, union(*windows.spans)):
        starts, ends, window = pieces(spans, windows.spans)
        between = windows.between[window]
        for part, rows in ((HOST, ~between), (BETWEEN_STEPS, between)):
            stretches.append(
                _Stretches(part, activity, windows.owner[window[rows]], starts[rows], (ends - starts)[rows])
            )
    steps = _steps(windows.steps, pd.NA, windows.durations(), windows.basis, False, windows.closed)
    return _Accounted(steps.astype({"device_id": "Int64"}), stretches)


def _steps(
    step: object, device_id: object, durations: Int64, basis: Origin, head_known: object, closed: object
) -> pd.DataFrame:
    count = len(durations)
    return pd.DataFrame(
        {
            "rank": pd.array([pd.NA] * count, dtype="Int64"),
            "device_id": device_id,
            "step": step,
            "duration_ns": durations,
            "basis": basis,
            "head_known": head_known,
            "closed": closed,
            "complete": True,
        }
    )


def device_parts(tables: Mapping[str, pd.DataFrame], device_id: int) -> tuple[list[tuple[str, str, Spans]], Spans]:
    """Return the disjoint intervals of a device over the whole run, with part and cause, and their union."""
    kernels, communication, tasks, moves = (
        frame[(frame["device_id"] == device_id).to_numpy(bool)]
        for frame in (tables[name] for name in ("kernels", "communication", "tasks", "communication_tasks"))
    )
    computing = _covered_spans(kernels)
    exposed = subtract(_covered_spans(communication), computing)
    # A collective without tasks, or with tasks of unknown type, cannot be split, even if other collectives can.
    moves = moves[moves["task_type"].notna().to_numpy(bool)]
    ops = moves["op_id"].dropna().unique()
    with_tasks = communication[communication.index.isin(ops)]
    if len(moves) and not len(ops):
        with_tasks = communication
    split = intersection(exposed, _covered_spans(with_tasks))
    moving = intersection(split, _covered_spans(moves[moves_data(moves)]))
    busy = union(*(np.concatenate(edges) for edges in zip(computing, exposed, strict=True)))
    copy = subtract(_covered_spans(tasks[copies(tasks)]), busy)
    everything = union(*(np.concatenate(edges) for edges in zip(busy, copy, strict=True)))
    parts = [
        ("computing", "kernels", computing),
        ("waiting", "other ranks", subtract(split, moving)),
        ("moving", "transfer", moving),
        ("communication", SPLIT_UNKNOWN, subtract(exposed, split)),
        ("copy", "copies", copy),
    ]
    return parts, everything


def moves_data(communication_tasks: pd.DataFrame) -> Bools:
    """Return the rows of ``communication_tasks`` that move data, as a mask."""
    return schema.matching(communication_tasks["task_type"], lambda kind: re.sub("[^a-z]", "", kind.lower()) in _MOVING)


def copies(tasks: pd.DataFrame) -> Bools:
    """Return the rows of ``tasks`` that copy memory, as a mask."""
    kinds: Bools = tasks["task_type"].isin(_COPY_TYPES).to_numpy(bool)
    return kinds | schema.matching(tasks["name"], lambda name: "MEMCPY_ASYNC" in name)


def _covered_spans(frame: pd.DataFrame) -> Spans:
    return covering(frame["start_ns"].to_numpy(np.int64), frame["duration_ns"].to_numpy(np.int64))


def _busy_bounds(busy: Spans, windows: StepWindows) -> tuple[Int64, Int64]:
    """Return the first start and last end of device work per step; a step without work has no head and no tail."""
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    starts, ends, window = pieces(busy, windows.spans)
    first, last = np.full(len(windows.steps), high), np.full(len(windows.steps), low)
    np.minimum.at(first, windows.owner[window], starts)
    np.maximum.at(last, windows.owner[window], ends)
    nothing = first > last
    first[nothing], last[nothing] = low, high
    return first, last


def _known_from(tables: Mapping[str, pd.DataFrame], windows: StepWindows, first: Int64, last: Int64) -> Int64:
    """Return from when on the device is known to have finished all earlier work, for each step.

    This is so from its beginning on if the previous step is in the profile, or if a host call in the step waits until
    its last task ended; else from the return of a call on that waited for all streams before the first task of the
    step; else never.
    """
    if windows.basis == "run":
        return np.full(len(windows.steps), _ALWAYS)  # nothing came before the run
    known_from = np.full(len(windows.steps), np.iinfo(np.int64).max)
    api = tables["api"]
    waits = api[schema.matching(api["name"], lambda name: "Synchronize" in name)]
    begins = waits["start_ns"].to_numpy(np.int64)
    returns = begins + waits["duration_ns"].to_numpy(np.int64)
    streams = tables["tasks"][["device_id", "stream_id"]].drop_duplicates()
    if streams["device_id"].nunique() == 1:
        for_all = schema.matching(
            waits["name"],
            lambda name: "Event" not in name and ("Stream" not in name or len(streams) == 1),
        )
        returned = np.append(np.iinfo(np.int64).max, np.sort(returns[for_all]))
        latest = returned[np.searchsorted(returned[1:], first, side="right")]
        begun = np.full(len(windows.steps), np.iinfo(np.int64).max)
        np.minimum.at(begun, windows.owner, windows.starts)
        known_from = np.where(latest <= begun, _ALWAYS, latest)
    known_from[windows.owner[windows.owner != windows.owner[:1].sum()]] = _ALWAYS
    place = np.searchsorted(windows.starts, begins, side="right") - 1
    inside = (place >= 0) & (begins < windows.ends[place]) if len(windows.ends) else np.zeros(len(begins), bool)
    owner = windows.owner[place[inside]] if len(windows.owner) else np.zeros(0, np.int64)
    late = returns[inside] > last[owner]
    known_from[owner[late]] = _ALWAYS
    return known_from


def _vendor_rows(step_times: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the vendor's step times that are of a single device or rank."""
    rows: pd.DataFrame = step_times[step_times[list(_VENDOR_TIMES)].notna().any(axis=1).to_numpy(bool)]
    if "kind" in rows:  # a stage's times are the longest of its ranks
        rows = rows[(rows["kind"] == "rank").to_numpy(dtype=bool, na_value=False)]
    return rows


def _vendor(rows: pd.DataFrame) -> _Accounted:
    """Account for the vendor's step times, whose parts have no position in time; a negative one is no time."""
    computing, exposed, free, bubble = (
        np.maximum(rows[name].fillna(0).to_numpy(np.int64), 0) for name in (*_VENDOR_TIMES, "bubble_ns")
    )
    bubble = np.minimum(bubble, exposed)
    sums = [
        ("computing", "kernels", computing),
        ("communication", BUBBLE, bubble),
        ("communication", SPLIT_UNKNOWN, exposed - bubble),
        ("idle_inside", UNKNOWN, free),
    ]
    stretches = [_Stretches(part, cause, np.flatnonzero(times), None, times[times > 0]) for part, cause, times in sums]
    steps = _steps(rows["step"].array, rows["device_id"].array, computing + exposed + free, "step_times", False, True)
    if "rank" in rows:
        steps["rank"] = rows["rank"].array
    return _Accounted(steps, stretches)


def joined(parts: Sequence[Accounting]) -> Accounting:
    """Return the steps of several runs as one accounting."""
    first = np.cumsum([0, *(len(part.steps) for part in parts)])
    causes = sorted({cause for part in parts for cause in part.intervals["cause"].cat.categories})
    intervals = [
        rows.assign(row=rows["row"] + begin, cause=rows["cause"].cat.set_categories(causes))
        for rows, begin in zip((part.intervals for part in parts), first, strict=False)
    ]
    unmeasured = {cause: reason for part in parts for cause, reason in part.unmeasured.items()}
    steps: pd.DataFrame = pd.concat([part.steps for part in parts], ignore_index=True)
    return Accounting(steps, pd.concat(intervals, ignore_index=True), unmeasured)
