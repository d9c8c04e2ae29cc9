"""Sampled traffic of memories and caches: HBM, DDR and last-level cache.

A row's value is that of the time since the row before of the same series; a series' first row has no such time and
is NaN, where the vendor shows 0. Rates are the vendor's MB/s: 2**20 bytes a second.
Source: raw/FORMAT.md section 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npuprof.arrays import Float64, Int64, Records
from npuprof.sources.raw.device.reader import Device
from npuprof.sources.raw.metadata.dictionaries import Names
from npuprof.sources.raw.records import layouts
from npuprof.sources.raw.samples.counter_rows import CounterRows, passed_ns, rows
from npuprof.sources.raw.samples.streams import impossible, layout_version, read_host_ns, read_us

_HBM_BYTES = 256 // 8
_DDR_BYTES = 128 // 8  # the bus of every stars chip; older ones have 256 bits
_LLC_BYTES = 64 * 64  # of an event counted
_MANY = 1 << 16  # ids of controllers and caches are small numbers

# Events of the last-level cache: both directions count traffic by the first two, hits by the next four; the last two
# are the accesses that these are a part of.
_LLC_TRAFFIC = (0x00, 0x01)
_LLC_HITS = {"read": (0x02, 0x13, 0x22, 0x36), "write": (0x03, 0x14, 0x23, 0x37)}
_LLC_ACCESSES = {"read": (0x20, 0x34), "write": (0x21, 0x35)}


def read_hbm(device: Device) -> list[CounterRows]:
    """Read ``HBM read`` and ``HBM write`` by HBM."""
    records, time_ns = _read_versioned(device, "hbm", layouts.HBM, layouts.HBM_V2)
    writes = (records["event"] != 0).astype(np.int64)
    series = records["instance"].astype(np.int64) << 1 | writes
    order = np.lexsort((time_ns, series))
    records, series, time_ns = records[order], series[order], time_ns[order]
    value = _mb_a_second(records["count"] * np.float64(_HBM_BYTES), passed_ns(series, time_ns))
    names = Names.distinct(series & 1, ["HBM read", "HBM write"])
    parts = [rows(time_ns, device.id, value, names, "MB/s", Names.lookup(records["instance"], str))]
    return device.keep_counters("hbm", len(records), parts)


def read_ddr(device: Device) -> list[CounterRows]:
    """Read ``DDR read`` and ``DDR write``, summed over controllers as the vendor does.

    What a chosen master moved (`ddr_master_id` of the options) is named ``DDR read by master`` and so on.
    """
    records, time_ns = _with_instances(device, "ddr", read_us(device, f"ddr.data.{device.id}", layouts.DDR))
    series = (records["event"] != 0).astype(np.int64) | (records["master"] != 0xFFFFFFFF).astype(np.int64) << 1
    order = np.lexsort((time_ns, series))
    series, time_ns, count = series[order], time_ns[order], records["count"][order].astype(np.float64)
    first = np.ones(len(order), bool)
    first[1:] = (series[1:] != series[:-1]) | (time_ns[1:] != time_ns[:-1])
    at = np.flatnonzero(first)
    if not len(at):
        return []
    series, time_ns, total = series[at], time_ns[at], np.add.reduceat(count, at)
    value = _mb_a_second(total * _DDR_BYTES, passed_ns(series, time_ns))
    names = ["DDR read", "DDR write", "DDR read by master", "DDR write by master"]
    return device.keep_counters(
        "ddr", len(order), [rows(time_ns, device.id, value, Names.distinct(series, names), "MB/s")]
    )


def read_llc(device: Device) -> list[CounterRows]:
    """Read ``LLC read Hit Rate`` (percent) and ``LLC read Throughput``, or those of writes, by cache.

    The events of one moment make one row; where one of those that a value needs is missing, it is NaN.
    """
    records, time_ns = _read_versioned(device, "llc", layouts.LLC, layouts.LLC_V2)
    mode = device.side.sample.get("llc_profiling")
    if not len(records):
        return []
    if mode not in _LLC_HITS:
        device.skip("llc", "sampled neither for reads nor for writes, not decoded", len(records), info=True)
        return []
    keys = np.stack((records["instance"].astype(np.int64), time_ns))
    moments, row = np.unique(keys, axis=1, return_inverse=True)
    row = row.reshape(-1)
    cache, moment_ns = moments[0], moments[1]

    def total(events: tuple[int, ...]) -> Float64:
        summed: Float64 = np.sum([_of_event(records, row, event, len(cache)) for event in events], axis=0)
        return summed

    with np.errstate(divide="ignore", invalid="ignore"):
        hits = total(_LLC_HITS[mode]) / total(_LLC_ACCESSES[mode]) * 100
    hits[~np.isfinite(hits)] = np.nan
    moved = _mb_a_second(total(_LLC_TRAFFIC) * _LLC_BYTES, passed_ns(cache, moment_ns))
    instance = Names.lookup(cache, str)
    parts = [
        rows(moment_ns, device.id, hits, f"LLC {mode} Hit Rate", "%", instance),
        rows(moment_ns, device.id, moved, f"LLC {mode} Throughput", "MB/s", instance),
    ]
    return device.keep_counters("llc", len(records), parts)


def _of_event(records: Records, row: Int64, event: int, count: int) -> Float64:
    values = np.full(count, np.nan)
    chosen = records["event"] == event
    values[row[chosen]] = records["count"][chosen]
    return values


def _read_versioned(device: Device, stream: str, first: np.dtype[Any], second: np.dtype[Any]) -> tuple[Records, Int64]:
    """Read one of the streams whose records changed with version 2.0, which stamps them with the host's clock."""
    version = layout_version(device, stream)
    name = f"{stream}.data.{device.id}"
    if version is None:
        return np.empty(0, first), np.empty(0, np.int64)
    stamped = read_us(device, name, first) if version == "1.0" else read_host_ns(device, name, second)
    return _with_instances(device, stream, stamped)


def _with_instances(device: Device, stream: str, stamped: tuple[Records, Int64]) -> tuple[Records, Int64]:
    """Return the records whose controller, or cache, has a possible number."""
    records, time_ns = stamped
    good = records["instance"] < _MANY
    impossible(device, stream, "impossible ids", ~good)
    return records[good], time_ns[good]


def _mb_a_second(size_bytes: Float64, interval_ns: Float64) -> Float64:
    return size_bytes / 2**20 / (interval_ns / 1e9)
