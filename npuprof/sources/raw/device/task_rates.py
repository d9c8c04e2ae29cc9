"""Cache rates by task: L2 cache (``l2_cache``) and address translation (``socpmu``), with the vendor's formulas.

Source: raw/FORMAT.md section 5.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.arrays import Float64, Int64, Records
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.records import layouts
from npuprof.tables.ledger import STATISTICS

_STREAM_BITS = 11
_MOST_EVENTS = 8
_SMMU = 2

_L2 = {"requests": (0xFB, 0xFC), "hits": (0x90, 0x91), "victims": (0x9C,)}
_L2_V3: dict[str, tuple[int, ...]] = {"requests": (0x78, 0x79), "hits": (0x6A,), "victims": (0x71,)}
_L2_OF_CHIP: Mapping[str, dict[str, tuple[int, ...]]] = {
    "1": {"requests": (0x59,), "hits": (0x5B,), "victims": (0x5C,)},
    **dict.fromkeys(("2", "3", "4"), _L2_V3),
}
"""Events of older chips by platform version."""
_WITHOUT_HITS = (Family.STARS, Family.STARS_V6)
_TLB = {"requests": (0x8A,), "hits": (0x8C, 0x8D), "misses": (0x02,)}


def read_task_rates(devices: Sequence[RawDevice], run: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Read the tables ``l2_cache`` and ``soc_pmu``, where they have rows; they name the kernels of the tables `run`.

    Columns are the vendor's: Device_id, Stream Id, Task Id, two rates and Op Name. Rates are fractions; a hit rate
    above 1 (more hits than requests) is NaN, which the vendor shows as N/A, and so is that of every chip whose tasks
    are scheduled by STARS (910B and later), for which the vendor shows no hit rate at all.
    """
    readers: dict[str, Callable[[RawDevice], pd.DataFrame | None]] = {"l2_cache": _l2_cache, "soc_pmu": _soc_pmu}
    frames = {}
    for name, reader in readers.items():
        parts = [part for device in devices if (part := reader(device)) is not None]
        if parts:
            frame = pd.concat(parts, ignore_index=True)
            frames[name] = frame.assign(**{"Op Name": _operator_names(frame, run["kernels"])})
    return frames


def _l2_cache(device: RawDevice) -> pd.DataFrame | None:
    records = device.streams.read(f"l2_cache.data.{device.id}", layouts.L2_CACHE)
    wanted = _L2_OF_CHIP.get(str(device.side.info.get("platform_version")), _L2)
    sums = _sums(device, "l2_cache", records, str(device.side.sample.get("l2CacheTaskProfilingEvents") or ""), wanted)
    if sums is None:
        return None
    hit_rate = _share(sums["hits"], sums["requests"])
    hit_rate[(hit_rate > 1) | (device.family in _WITHOUT_HITS)] = np.nan
    return _frame(device, records, {"Hit Rate": hit_rate, "Victim Rate": _share(sums["victims"], sums["requests"])})


def _soc_pmu(device: RawDevice) -> pd.DataFrame | None:
    if device.family is Family.STARS_V6:  # these records have another, undocumented layout
        return None
    records = device.streams.read(f"socpmu.data.{device.id}", layouts.SOC_PMU)
    other = int((records["kind"] != _SMMU).sum())
    device.skip("socpmu", "records that are not of the SMMU skipped", other, info=True)
    records = records[records["kind"] == _SMMU]
    options = str(device.side.sample.get("npuEvents") or "").split(";")
    events = next((option.partition(":")[2] for option in options if option.strip().upper().startswith("SMMU:")), "")
    sums = _sums(device, "socpmu", records, events, _TLB)
    if sums is None:
        return None
    rates = {
        "TLB Hit Rate": _share(sums["hits"], sums["requests"]),
        "TLB Miss Rate": _share(sums["misses"], sums["requests"]),
    }
    return _frame(device, records, rates)


def _sums(
    device: RawDevice, stream: str, records: Records, events: str, wanted: dict[str, tuple[int, ...]]
) -> dict[str, Float64] | None:
    """Return the event sums that a rate needs; None, with a note, if an event was not counted."""
    if not len(records):
        return None
    try:
        numbers = [int(word, 16) for word in events.split(",") if word.strip()][:_MOST_EVENTS]
    except ValueError:
        numbers = []
    place = {number: column for column, number in enumerate(numbers)}
    if not all(event in place for group in wanted.values() for event in group):
        device.skip(stream, "the events of its rates were not counted; not decoded", len(records), info=True)
        return None
    device.keep(stream, STATISTICS, len(records))
    counters = records["counters"].astype(np.float64)
    return {name: counters[:, [place[event] for event in group]].sum(axis=1) for name, group in wanted.items()}


def _share(part: Float64, whole: Float64) -> Float64:
    share = np.full(len(part), np.nan)
    np.divide(part, whole, out=share, where=whole > 0)
    return share


def _frame(device: RawDevice, records: Records, rates: dict[str, Float64]) -> pd.DataFrame:
    stream = records["stream"].astype(np.int64)
    columns: dict[str, Any] = {
        "Device_id": np.full(len(records), device.id),
        "Stream Id": stream & 0x7FFF if device.expanded else stream & ((1 << _STREAM_BITS) - 1),
        "Task Id": records["task"].astype(np.int64),
        **rates,
    }
    return pd.DataFrame(columns)


def _operator_names(frame: pd.DataFrame, kernels: pd.DataFrame) -> Any:
    """Return the operator names of records without a time, matched in order with the kernels of the same task id.

    If a task id has unequal numbers of records and kernels, the name is absent.
    """
    keys = ["device_id", "stream_id", "task_id", "batch_id", "connection_id"]
    tasks = kernels.drop_duplicates(keys)  # parts of a task share its record
    kernel_codes = _keys(*(tasks[key].to_numpy(np.int64, na_value=-1) for key in keys[:3]))
    record_codes = _keys(*(frame[key].to_numpy(np.int64) for key in ("Device_id", "Stream Id", "Task Id")))
    distinct, codes = np.unique(np.concatenate((record_codes, kernel_codes)), return_inverse=True)
    record_codes, kernel_codes = codes[: len(record_codes)], codes[len(record_codes) :]
    known = np.bincount(record_codes, minlength=len(distinct)) == np.bincount(kernel_codes, minlength=len(distinct))
    turns = pd.Series(tasks["op_name"].astype(object).to_numpy(), index=_turns(kernel_codes))
    names = turns.reindex(_turns(record_codes)).to_numpy(object)
    return pd.Series(np.where(known[record_codes], names, None), dtype=object)


def _keys(device: Int64, stream: Int64, task: Int64) -> Int64:
    return device << 32 | stream << 16 | task


def _turns(codes: npt.NDArray[Any]) -> Int64:
    """Return keys that combine a code and its number of earlier occurrences."""
    return codes.astype(np.int64) << 32 | joins.turns(codes.astype(np.int64))
