"""Device memory that is nearly full, or fragmented."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.advice.actions import less_fragments
from npuprof.advice.facts import Facts
from npuprof.advice.finding import Finding, Rule
from npuprof.analysis.device_words import GPU, NPU
from npuprof.analysis.memory_peak import memory_peak
from npuprof.words.quantities import share, size

NAME = "memory_peak"
_FULL = 0.9  # of the device's memory
_HALF = 0.5  # of the device's memory: with less in use, there is no risk
_SMALLEST = 22 << 30  # the memory of the smallest chip, for runs that do not name their chip
_FRAGMENTED = 0.2  # of the memory reserved by the allocator
_LEAST_BYTES = 1 << 28  # less fragmented memory is not worth a line
_ALLOCATORS = ("PTA+GE", "PTA", "GE", "CUDA")
_MOST = 3


def check(facts: Facts) -> Finding:
    """Fire if over 90 % of device memory is in use, or 20 % of the allocator's reserve is fragmented."""
    memory = facts.tables["memory"]
    used = int(memory["reserved_bytes"].max()) if memory["reserved_bytes"].notna().any() else 0
    if not used:
        if len(memory):
            return Finding(NAME, "cannot tell", collect="its memory events lack what the allocator reserved")
        missing = "record memory again: its events are missing"
        is_asked = bool(facts.info.options.get("memory"))
        return Finding(NAME, "cannot tell", collect=missing if is_asked else facts.needs("--memory") or missing)
    whole = facts.limits.hbm_bytes if facts.limits is not None else 0
    allocated, reserved = _peak(memory)
    pieces = reserved - allocated
    full = bool(whole) and used > _FULL * whole
    fragmented = pieces > max(_FRAGMENTED * reserved, _LEAST_BYTES)
    if not full and (not fragmented or used < _HALF * (whole or _SMALLEST)):
        return Finding(NAME, "clean")
    parts = [f"{size(used)} in use" + (f", {share(used, whole)} of the {size(whole)} of the device" if whole else "")]
    if fragmented:
        parts.append(f"{size(pieces)} ({share(pieces, reserved)}) of what the allocator holds is free but in pieces")
    table = "allocations" if len(facts.tables["allocations"]) else "memory"
    owners = memory_peak(facts.tables)[:_MOST] if table == "allocations" else pd.DataFrame()
    parts += [f"most by {_owners(owners)}"] if len(owners) else []
    fix = less_fragments(facts) if fragmented else "Recompute activations, or offload them"
    return Finding(
        NAME,
        "fires",
        title=f"Device memory is nearly full: {size(used)} in use"
        if full
        else f"Device memory is fragmented: {size(pieces)} free in pieces",
        detail="; ".join(parts),
        action=f"{fix}; `run.memory_peak()` has every owner.",
        table="memory",
        rows=memory[(memory["reserved_bytes"] == memory["reserved_bytes"].max()).fillna(value=False).to_numpy(bool)],
    )


def _peak(memory: pd.DataFrame) -> tuple[int, int]:
    """Return the highest allocation, and the memory that the allocator had reserved then."""
    known_rows = memory[(memory["allocated_bytes"].notna() & memory["reserved_bytes"].notna()).to_numpy(bool)]
    for component in _ALLOCATORS:
        samples = known_rows[(known_rows["component"] == component).to_numpy(bool)]
        if len(samples):
            highest = samples.iloc[int(np.argmax(samples["allocated_bytes"].to_numpy(np.int64)))]
            return int(highest["allocated_bytes"]), int(highest["reserved_bytes"])
    return 0, 0


def _owners(owners: pd.DataFrame) -> str:
    called = owners["line"].astype(object).fillna(owners["op"].astype(object)).fillna(owners["category"].astype(object))
    return ", ".join(f"{name} {size(int(held))}" for name, held in zip(called, owners["size_bytes"], strict=True))


RULE = Rule(NAME, "memory that is nearly full or fragmented", check, frozenset({GPU, NPU}))
