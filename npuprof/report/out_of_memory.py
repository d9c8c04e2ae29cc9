"""The report on code that ended because a device ran out of memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from npuprof.advice.facts import Facts
from npuprof.analysis.memory_peak import blocks_at_peak, memory_peak
from npuprof.report.model import Markup, Warned, code, plain
from npuprof.words.quantities import share, size

MOST_LINES = 3
"""Lines that are named, those that held most."""

Place = Callable[[str, int], tuple[str, str]]
"""Returns the name and the text of a line, by file and number."""

_SIZE = r"[\d.]+ ?(?:[KMGTPE]i?B|bytes|B)\b"
_FORMS = tuple(
    re.compile(form.replace("SIZE", _SIZE), re.DOTALL)
    for form in (
        # torch_npu, and torch with CUDA before 2.2
        (
            r"(?:NPU|CUDA) out of memory\. Tried to allocate (?P<requested>SIZE) \(\w+ (?P<device>\d+); "
            r"(?P<limit>SIZE) total capacity; (?P<allocated>SIZE) already allocated;.*?(?P<free>SIZE) free"
        ),
        # torch with CUDA
        (
            r"out of memory\. Tried to allocate (?P<requested>SIZE)\. GPU (?P<device>\d+) has a total capacity of "
            r"(?P<limit>SIZE) of which (?P<free>SIZE) is free"
        ),
        r"(?:NPU|CUDA) out of memory(?:\. Tried to allocate (?P<requested>SIZE))?",
        # MindSpore
        (
            r"(?:Device\(id:(?P<device>\d+)\) )?memory isn't enough and alloc failed"
            r"(?:.*?alloc size: ?(?P<requested>\d+))?"
        ),
        # CANN
        r"rtMalloc fail.*?size: ?(?P<requested>\d+), device_id: ?(?P<device>\d+)",
        r"Memory_Allocation_Failure|EL0004",
        # the simulated NPU
        r"simulated device (?P<device>\d+) has no room for (?P<requested>SIZE) \((?P<free>SIZE) are free\)",
    )
)
_SIZE_PARTS = re.compile(r"([\d.]+) ?([KMGTPE]?)(i?)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


@dataclass(frozen=True)
class FailedAllocation:
    """The facts of an allocation that failed, by its error; None where the error does not state them."""

    device_id: int | None = None
    requested_bytes: int | None = None
    limit_bytes: int | None = None
    allocated_bytes: int | None = None
    free_bytes: int | None = None


def failed_allocation(error: str) -> FailedAllocation | None:
    """Return the device memory that an error reports; None for other errors."""
    for form in _FORMS:
        if found := form.search(error):
            said = found.groupdict()
            device = said.get("device")
            return FailedAllocation(
                None if device is None else int(device),
                *(_bytes(said.get(name)) for name in ("requested", "limit", "allocated", "free")),
            )
    return None


def _bytes(text: str | None) -> int | None:
    if text is None or (found := _SIZE_PARTS.match(text)) is None:
        return None
    number, prefix, binary = found.groups()
    return round(float(number) * (1024 if binary or not prefix else 1000) ** _POWERS[prefix])


def out_of_memory(failed: FailedAllocation, facts: Facts, place: Place) -> Warned:
    """Return the peak, the limit, the request that failed, and the lines that held most."""
    tables, device = facts.tables, _device(facts.tables, failed.device_id)
    owners = memory_peak(tables)
    peak = int(owners.loc[owners["device_id"].isin([device]).to_numpy(bool), "size_bytes"].sum())
    peak = max(peak, failed.allocated_bytes or 0)
    limit = failed.limit_bytes or (facts.limits.hbm_bytes if facts.limits is not None else 0)
    of = f" of {size(limit)}" if limit else ""
    said = [f"peak {size(peak)}{of}"] if peak else [f"the device has {size(limit)}"] if limit else []
    if failed.requested_bytes is not None:
        free = "" if failed.free_bytes is None else f", with {size(failed.free_bytes)} free"
        said.append(f"a request of {size(failed.requested_bytes)} failed{free}")
    text = f"Out of device memory: {'; '.join(said)}." if said else "Out of device memory."
    rows = _held(tables, device, facts, place, peak)
    if not rows and (needed := facts.needs("--memory")):
        text = f"{text} Which lines held it: {needed}."
    return Warned("error", plain(text), rows)


def _device(tables: Mapping[str, pd.DataFrame], named: int | None) -> int:
    known = pd.concat([tables[name]["device_id"] for name in ("allocations", "memory")]).dropna()
    if named is not None and (named in known.to_numpy() or not len(known)):
        return named
    return int(known.mode().iloc[0]) if len(known) else 0  # a process numbers its own devices from 0


def _held(
    tables: Mapping[str, pd.DataFrame], device: int, facts: Facts, place: Place, peak: int
) -> list[tuple[str, Markup]]:
    """Return how much the lines that held most held, and which they are."""
    if not len(tables["allocations"]):
        return []
    blocks = blocks_at_peak(tables, facts.causes)
    blocks = blocks[(blocks["line"].notna() & blocks["device_id"].isin([device])).to_numpy(bool)]
    sums = blocks.groupby(["file", "line"], observed=True)["size_bytes"].sum()
    sums = sums.iloc[np.argsort(-sums.to_numpy(np.int64), kind="stable")[:MOST_LINES]]
    rows = []
    for (file, line), held in sums.items():
        name, text = place(str(file), int(line))
        quoted = f": {code(text.strip())}" if text.strip() else ""
        rows.append((f"{size(int(held))} ({share(int(held), max(peak, 1))})", f"{plain(name)}{quoted}"))
    return rows
