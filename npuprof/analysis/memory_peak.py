"""Owners of device memory at its peak, and call sites whose memory is not released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.correlation import Causes, causes, nearest
from npuprof.analysis.intervals import covering
from npuprof.analysis.memory_life import unreleased
from npuprof.analysis.nesting import Nesting
from npuprof.analysis.places import Places, lines, places_of_stacks
from npuprof.arrays import Bools, Int64
from npuprof.words.quantities import counted

Category: TypeAlias = Literal["allocated before this run", "temporary", "optimizer", "backward", "forward", "unknown"]
"""The purpose of memory, as far as the recording shows."""

CATEGORIES: tuple[Category, ...] = get_args(Category)

LEAK_STEPS = 3
"""Number of steps whose memory at the end must grow before memory is called leaking."""

_BEFORE, _TEMPORARY, _OPTIMIZER, _BACKWARD, _FORWARD, _UNKNOWN = range(len(CATEGORIES))
_COMPONENTS = ("PTA+GE", "PTA", "GE", "CPU", "CUDA")  # the allocators that record blocks; first the sum of both
_TOTALS = ("allocation_total_allocated_bytes", "release_total_allocated_bytes")
_OF_RUNTIME = "aclrtMalloc"
_NEVER = np.iinfo(np.int64).max


def memory_peak(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the owners of memory at the peak of each device, and of the host where its blocks were recorded.

    Returns
    -------
    pandas.DataFrame
        ``device_id`` (absent for the host), ``time_ns`` of the peak (absent in a history without times), ``category``
        (see :data:`Category`), ``line`` and ``module`` of the user's code, ``op`` (the outermost operator there, or
        else the name of the allocation), ``blocks``, ``size_bytes`` and ``share`` of the peak; largest first. The sizes
        of a device add up to its peak in ``memory``: memory without an allocation in the run was allocated before. If
        more is in use than ``memory`` says, or ``memory`` is empty, the peak is the sum of the blocks in use.
    """
    allocations = tables["allocations"]
    host = tables if len(allocations) else {name: frame.iloc[:0] for name, frame in tables.items()}
    sites = call_sites(host)  # slow for a long run, and empty without allocations
    parts = [_owners(device, *_peak(tables, device), allocations, sites) for device in owning_devices(tables)]
    empty = _owners(0, 0, 0, 0, allocations.iloc[:0], sites.iloc[:0])
    return pd.concat(parts, ignore_index=True) if parts else empty.iloc[:0]


def call_sites(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the call site that allocated each block.

    Returns
    -------
    pandas.DataFrame
        A row per row of ``allocations``: ``line``, ``module``, ``op`` and ``category``.
    """
    correlation = causes(tables)
    rows = _operators_of(tables)
    at = np.where(rows >= 0, rows + correlation.first_row["operators"], -1)
    places = _places_of_blocks(tables, correlation, at)
    outer = _outer_operators(tables, correlation, at)
    names = tables["operators"]["name"]
    codes = np.append(names.cat.codes.to_numpy(np.int64), -1)[outer]
    called = schema.categorical(codes, list(names.cat.categories))
    op = pd.Series(called, dtype=object).where(
        codes >= 0, tables["allocations"]["name"].astype(object).reset_index(drop=True)
    )
    sites: pd.DataFrame = pd.DataFrame(
        {"line": lines(places), "module": places["module"].array, "op": op.astype("category").array}
    )
    codes = _categories(tables, correlation, at, outer)
    sites["category"] = schema.categorical(codes, list(CATEGORIES))
    return sites


def _places_of_blocks(tables: Mapping[str, pd.DataFrame], correlation: Causes, at: Int64) -> pd.DataFrame:
    """Return the location that allocated each block, in host row `at` unless blocks have stacks of their own."""
    if (stacks := tables["allocations"].get("stack")) is not None:
        return places_of_stacks(stacks)
    if not len(at):
        return places_of_stacks(pd.Series(schema.categorical(at, [])))
    calls = _next_calls(tables)
    rows = np.where((at < 0) & (calls >= 0), calls + correlation.first_row["api"], at)
    running = _running_python(tables)
    return Places.build(tables, correlation).at(
        np.where((rows < 0) & (running >= 0), running + correlation.first_row["python"], rows)
    )


def _next_calls(tables: Mapping[str, pd.DataFrame]) -> Int64:
    """Return for each block the call that follows it in the same statement of the profiled cell, -1 for none.

    A function such as NumPy's allocates its result, then launches the kernel that writes it.
    """
    statements, api, moments = tables["statements"], tables["api"], tables["allocations"]["allocated_ns"]
    rows = np.full(len(moments), -1, np.int64)
    if not len(statements):
        return rows
    calls = np.flatnonzero((api["thread_id"] == statements["thread_id"].iloc[0]).to_numpy(bool))
    calls = calls[np.argsort(api["start_ns"].to_numpy(np.int64)[calls], kind="stable")]
    starts, begins = api["start_ns"].to_numpy(np.int64)[calls], statements["start_ns"].to_numpy(np.int64)
    allocated = moments.to_numpy(np.int64, na_value=np.iinfo(np.int64).min)
    following = np.searchsorted(starts, allocated, side="left")
    next_start = np.append(starts, np.iinfo(np.int64).max)[following]
    statement, of_call = (np.searchsorted(begins, times, side="right") - 1 for times in (allocated, next_start))
    is_same = (following < len(calls)) & (statement >= 0) & (statement == of_call)
    rows[is_same] = calls[following[is_same]]
    return rows


def _running_python(tables: Mapping[str, pd.DataFrame]) -> Int64:
    """Return for each block the innermost Python row of the profiled cell that ran when it was allocated, -1 for none.

    Blocks name no thread: where a second one made calls, none is known.
    """
    statements, python, moments = tables["statements"], tables["python"], tables["allocations"]["allocated_ns"]
    threads = {*statements["thread_id"], *tables["api"]["thread_id"].dropna(), *tables["operators"]["thread_id"]}
    if len(threads) != 1 or not len(statements):
        return np.full(len(moments), -1, np.int64)
    own = np.flatnonzero((python["thread_id"] == statements["thread_id"].iloc[0]).to_numpy(bool))
    starts = python["start_ns"].to_numpy(np.int64)[own]
    ends = starts + python["duration_ns"].to_numpy(np.int64)[own]
    nesting = Nesting.build(starts, ends, np.zeros(len(own), np.int64))
    allocated = moments.to_numpy(np.int64, na_value=np.iinfo(np.int64).min)
    place = nesting.innermost(allocated, np.zeros(len(allocated), np.int64))
    return np.where(place >= 0, np.append(own[nesting.order], -1)[place], -1)


def blocks_at_peak(tables: Mapping[str, pd.DataFrame], correlation: Causes) -> pd.DataFrame:
    """Return the blocks in use at the peak of each device, or of the host in a run without a device.

    Returns
    -------
    pandas.DataFrame
        ``file``, ``line`` and ``function`` that allocated it, ``device_id`` and ``size_bytes``. Memory of a device
        without a block in the run is a row without a location, so that the sizes add up to those of
        :func:`memory_peak`.
    """
    allocations, devices = tables["allocations"], owning_devices(tables)
    rows = _operators_of(tables) if len(allocations) else np.zeros(0, np.int64)
    at = np.where(rows >= 0, rows + correlation.first_row["operators"], -1)
    places = _places_of_blocks(tables, correlation, at)[["file", "line", "function"]]
    parts = [places.iloc[:0].assign(size_bytes=np.zeros(0, np.int64), device_id=pd.array([], "Int64"))]
    for device in [device for device in devices if device is not None] or devices:
        place, _, peak = _peak(tables, device)
        begun, ended, size = _lifetimes(allocations, device)
        alive = (begun <= place) & (ended > place) & (size > 0)
        found = places[alive].assign(size_bytes=size[alive])
        if (before := peak - int(size[alive].sum())) > 0:
            rest = pd.DataFrame({"line": pd.array([pd.NA], "Int64"), "size_bytes": [before]})
            found = pd.concat([found, rest], ignore_index=True)
        parts.append(found.assign(device_id=pd.array([device] * len(found), "Int64")))
    return pd.concat(parts, ignore_index=True)


def owning_devices(tables: Mapping[str, pd.DataFrame]) -> list[int | None]:
    """Return the devices with memory, 0 for blocks that name none, and None for the host if its blocks were recorded.

    Only torch's own profiler records blocks of the host, with the allocator as their ``component``.
    """
    allocations = tables["allocations"]
    known = pd.concat([allocations["device_id"], tables["memory"]["device_id"]]).dropna()
    devices: list[int | None] = sorted(set(known.tolist()))
    if "component" in allocations:
        return devices + [None] * bool(allocations["device_id"].isna().any())
    return devices or [0] * bool(len(allocations))


def _of(frame: pd.DataFrame, device: int | None) -> Bools:
    """Return which rows are of a device, or of the host (None)."""
    is_there = frame["device_id"].isna() if device is None else frame["device_id"].isin([device])
    return is_there.to_numpy(bool)


BLOCKS = "blocks of operators"
"""The component of a peak that only blocks show, since the allocator's samples are missing or incomplete."""


def peak_of_blocks(allocations: pd.DataFrame, device: int | None) -> tuple[int, Any, int]:
    """Return place, time and size of the most memory that blocks show to be in use on a device, or on the host (None).

    It is the highest total that the allocator had at a block's allocation or release or, if more, the greatest sum of
    blocks in use; 0 without blocks. The place is the time or, in a history of an allocator, the number of its entry.
    """
    begun, ended, size = _lifetimes(allocations, device)
    times = np.concatenate((begun, ended[ended < _NEVER]))
    change = np.concatenate((size, -size[ended < _NEVER]))
    order = np.lexsort((change, times))  # at equal times, releases come first
    alive = np.cumsum(change[order])
    moment, most = (int(times[order][np.argmax(alive)]), int(alive.max())) if len(alive) else (0, 0)
    on_device = allocations[(size != 0) | _of(allocations, device)]
    for when, total in (("allocated_ns", _TOTALS[0]), ("released_ns", _TOTALS[1])):
        if total not in on_device:
            continue
        held = on_device[on_device[[total, when]].notna().all(axis=1)]
        if len(held) and int(held[total].max()) > most:
            highest = held.iloc[int(np.argmax(held[total].to_numpy(np.int64)))]
            moment, most = int(highest[when]), int(highest[total])
    return moment, moment, most


def _peak(tables: Mapping[str, pd.DataFrame], device: int | None) -> tuple[int, Any, int]:
    """Return place, time and size of a device's highest allocation: of its samples, or of blocks that show more."""
    memory, of_blocks = tables["memory"], peak_of_blocks(tables["allocations"], device)
    on_device = memory[_of(memory, device) & memory["allocated_bytes"].notna().to_numpy(bool)]
    for component in _COMPONENTS:
        samples = on_device[(on_device["component"] == component).to_numpy(bool)]
        if len(samples):
            highest = samples.iloc[int(np.argmax(samples["allocated_bytes"].to_numpy(np.int64)))]
            if int(highest["allocated_bytes"]) >= of_blocks[2]:
                place = highest["sequence" if "sequence" in samples else "time_ns"]
                return int(place), highest["time_ns"], int(highest["allocated_bytes"])
            break
    return of_blocks


def _lifetimes(allocations: pd.DataFrame, device: int | None) -> tuple[Int64, Int64, Int64]:
    """Return start, end and size of the blocks of a device, or of the host (None); other blocks have size 0."""
    on_device = _of(allocations, device)
    if "component" not in allocations:  # the only device need not be named
        on_device |= _of(allocations, None)
    size = np.where(on_device, np.maximum(allocations["size_bytes"].to_numpy(np.int64), 0), 0)
    unit = "sequence" if "allocated_sequence" in allocations else "ns"
    begun = allocations[f"allocated_{unit}"].to_numpy(np.int64, na_value=np.iinfo(np.int64).min)
    return begun, allocations[f"released_{unit}"].to_numpy(np.int64, na_value=_NEVER), size


def _owners(
    device: int | None, place: int, time_ns: Any, peak: int, allocations: pd.DataFrame, sites: pd.DataFrame
) -> pd.DataFrame:
    begun, ended, size = _lifetimes(allocations, device)
    alive = (begun <= place) & (ended > place) & (size > 0)
    keys = ["category", "line", "module", "op"]
    chosen = sites[alive].assign(size_bytes=size[alive])
    chosen.loc[(begun == np.iinfo(np.int64).min)[alive], "category"] = CATEGORIES[_BEFORE]
    groups = chosen.groupby(keys, observed=True, dropna=False, sort=False)["size_bytes"]
    owners = groups.agg(blocks="size", size_bytes="sum").reset_index()
    owners["blocks"] = owners["blocks"].astype("Int64")
    before = peak - int(size[alive].sum())
    if before > 0:
        remainder = pd.DataFrame({"category": [CATEGORIES[_BEFORE]], "blocks": pd.array([pd.NA], "Int64")})
        owners = pd.concat([owners, remainder.assign(size_bytes=before)], ignore_index=True)
    owners["category"] = pd.Categorical(owners["category"], list(CATEGORIES))
    owners["share"] = owners["size_bytes"] / max(int(owners["size_bytes"].sum()), 1)
    owners.insert(0, "device_id", pd.array([device] * len(owners), "Int64" if device is None else "int64"))
    owners.insert(1, "time_ns", pd.array([time_ns] * len(owners), "Int64"))
    order = np.argsort(-owners["size_bytes"].to_numpy(np.int64), kind="stable")
    return owners.iloc[order].reset_index(drop=True)


def _operators_of(tables: Mapping[str, pd.DataFrame]) -> Int64:
    """Return the operator that allocated each block: the innermost running one of the block's name; -1 for none.

    Blocks that the runtime allocated belong to the innermost operator of any name, if all operators are on one thread.
    """
    operators, allocations = tables["operators"], tables["allocations"]
    start = operators["start_ns"].to_numpy(np.int64)
    codes = operators["name"].cat.codes.to_numpy(np.int64)
    number = {name: code for code, name in enumerate(operators["name"].cat.categories)}
    asked = [number.get(name, -1) for name in allocations["name"].cat.categories]
    names = np.array([*asked, -1], np.int64)[allocations["name"].cat.codes.to_numpy()]
    moments = allocations["allocated_ns"].to_numpy(np.int64, na_value=np.iinfo(np.int64).min)
    if operators["thread_id"].nunique() == 1 and bool((allocations["name"] == _OF_RUNTIME).all()):
        codes, names = np.zeros(len(codes), np.int64), np.zeros(len(names), np.int64)
        moments = moments + 1  # it may allocate in the very nanosecond in which the operator begins
    nesting = Nesting.build(start, start + operators["duration_ns"].to_numpy(np.int64), codes)
    is_known = names >= 0
    rows = np.full(len(allocations), -1, np.int64)
    place = nesting.innermost(moments[is_known], names[is_known])
    rows[is_known] = np.where(place >= 0, np.append(nesting.order, -1)[place], -1)
    return rows


def _outer_operators(tables: Mapping[str, pd.DataFrame], causes: Causes, at: Int64) -> Int64:
    """Return for host rows the outermost operator of the framework's library around them, -1 for none."""
    first, count = causes.first_row["operators"], len(tables["operators"])
    library = tables["operators"]["name"].astype(object).astype(str).str.match(r"(?!autograd::|torch::)\w+::")
    is_wanted = np.zeros(len(causes.callers), bool)
    is_wanted[first : first + count] = library.to_numpy(bool)
    above = nearest(causes.callers, causes.callers, is_wanted)
    outer = nearest(causes.callers, at, is_wanted & (above < 0))
    return np.maximum(np.where(outer >= 0, outer, at) - first, -1)


def _categories(tables: Mapping[str, pd.DataFrame], causes: Causes, at: Int64, outer: Int64) -> Int64:
    operators, python = tables["operators"], tables["python"]
    first = causes.first_row["operators"]
    texts = operators["name"].astype(object).astype(str)
    released = tables["allocations"]["released_ns"].to_numpy(np.int64, na_value=_NEVER)
    ends = operators["start_ns"].to_numpy(np.int64) + operators["duration_ns"].to_numpy(np.int64)
    within = (outer >= 0) & (released <= np.append(ends, 0)[outer])
    module = python["name"].astype(object).astype(str).str.startswith("nn.Module: ").to_numpy(bool)
    conditions: list[tuple[int, Bools]] = [(_TEMPORARY, within)]
    for category, pattern in (
        (_OPTIMIZER, "Optimizer"),
        (_BACKWARD, "autograd::engine|Backward"),
        (_FORWARD, r"DistributedDataParallel\.forward"),
    ):
        is_wanted = np.zeros(len(causes.callers), bool)
        is_wanted[first:][: len(operators)] = texts.str.contains(pattern).to_numpy(bool)
        if category == _FORWARD:
            is_wanted[: len(python)] |= module
        is_within = nearest(causes.callers, at, is_wanted) >= 0
        if category == _OPTIMIZER:  # torch's profiler marks its step with a range
            is_within |= _in_ranges(tables, at - first, "Optimizer")
        conditions.append((category, is_within))
    return np.select([some for _, some in conditions], [category for category, _ in conditions], _UNKNOWN)


def _in_ranges(tables: Mapping[str, pd.DataFrame], rows: Int64, text: str) -> Bools:
    """Return whether operators, below 0 for none, began in a range of their thread whose message contains a text."""
    operators, marks = tables["operators"], tables["marks"]
    marks = marks[schema.matching(marks["message"], lambda message: text in message)]
    starts, threads = (
        np.append(operators[name].to_numpy(np.int64), 0)[np.maximum(rows, -1)] for name in ("start_ns", "thread_id")
    )
    inside = np.zeros(len(rows), bool)
    for thread, ranges in marks.groupby("thread_id"):
        begun, ended = covering(*(ranges[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")))
        place = np.searchsorted(begun, starts, side="right") - 1
        inside |= (threads == thread) & (rows >= 0) & (place >= 0) & (starts < np.append(ended, 0)[place])
    return inside


def memory_leaks(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the call sites whose memory grows from step to step.

    Returns
    -------
    pandas.DataFrame
        ``device_id``, ``line``, ``op``, ``steps`` (number of consecutive steps, up to the last, that ended with more
        memory of the call site than the step before), ``growth_bytes`` over them and ``bytes_per_step``; fastest growth
        first. ``attrs["state"]`` is ``fires``, ``clean`` or ``cannot tell``, for which ``attrs["why"]`` has the reason:
        a step's gradients stay until the next step, so fewer than three steps show nothing.
    """
    steps, allocations = tables["steps"], tables["allocations"]
    ends = np.sort(steps["start_ns"].to_numpy(np.int64) + steps["duration_ns"].to_numpy(np.int64))
    columns = ["device_id", "line", "op", "steps", "growth_bytes", "bytes_per_step"]
    if len(ends) < LEAK_STEPS or not len(allocations):
        nothing: pd.DataFrame = pd.DataFrame(columns=columns)
        reason = f"the run has {counted(len(ends), 'step')}; leaks need at least {LEAK_STEPS}"
        nothing.attrs.update(state="cannot tell", why=reason if len(allocations) else "the run has no allocations")
        return nothing
    sites = call_sites(tables)[["line", "op"]]
    site = sites.groupby(["line", "op"], observed=True, dropna=False, sort=False).ngroup().to_numpy()
    first = np.unique(site, return_index=True)[1]
    leaks = []
    for device in owning_devices(tables):
        floors = _floors(*_lifetimes(allocations, device), site, ends)
        grown = np.diff(floors, axis=1) > 0
        run = np.argmin(np.column_stack((grown[:, ::-1], np.zeros(len(grown), bool))), axis=1)  # growing up to the end
        rows = np.flatnonzero(run + 1 >= LEAK_STEPS)
        growth = floors[rows, -1] - floors[rows, -1 - run[rows]]
        growing = sites.iloc[first[rows]].reset_index(drop=True)
        growing["device_id"] = pd.array([device] * len(rows), "Int64" if device is None else "int64")
        leaks.append(growing.assign(steps=run[rows] + 1, growth_bytes=growth)[columns[:-1]])
    table: pd.DataFrame = pd.concat(leaks, ignore_index=True)
    table["bytes_per_step"] = table["growth_bytes"] // np.maximum(table["steps"] - 1, 1)
    table = table.sort_values("bytes_per_step", ascending=False, kind="stable", ignore_index=True)
    table.attrs.update(state="fires" if len(table) else "clean", why="")
    return table


def leaked_blocks(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the blocks of leaking call sites that were not released in the run, in order of time."""
    leaks = memory_leaks(tables)
    if not len(leaks):
        return tables["allocations"].iloc[:0]
    growing = pd.MultiIndex.from_frame(leaks[["line", "op"]].astype(object))
    leaked = pd.MultiIndex.from_frame(call_sites(tables)[["line", "op"]].astype(object)).isin(growing)
    return unreleased(tables["allocations"][leaked])


def _floors(begun: Int64, ended: Int64, size: Int64, site: Int64, ends: Int64) -> Int64:
    """Return the size of each call site's allocated memory at the end of each step."""
    count = int(site.max()) + 1
    change = np.zeros((count, len(ends) + 1), np.int64)
    np.add.at(change, (site, np.searchsorted(ends, begun)), size)
    np.subtract.at(change, (site, np.searchsorted(ends, ended)), size)
    return np.cumsum(change, axis=1)[:, :-1]
