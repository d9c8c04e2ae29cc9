"""Sampled traffic of memories, caches, links between chips, and networks.

A value covers the time since the previous row of its series; the first row is NaN, where the vendor shows 0. Rates are
the vendor's MB/s of 2**20 bytes per second.

Source: raw/FORMAT.md section 6.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npuprof.arrays import Float64, Int64, Records
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import layouts
from npuprof.sources.raw.samples.counter_rows import CounterRows, passed_ns, rows
from npuprof.sources.raw.samples.streams import (
    device_table,
    impossible,
    layout_version,
    read_device_ns,
    read_host_ns,
    read_us,
)

_HBM_BYTES = 256 // 8
_DDR_BYTES = 128 // 8  # the bus of STARS chips; older chips have 256 bits
_LLC_BYTES = 64 * 64  # bytes per counted event
_MANY = 1 << 16  # ids of controllers and caches are small

# Events of the last-level cache: in both directions the first two count traffic and the next four count hits; the last
# two count all accesses.
_LLC_TRAFFIC = (0x00, 0x01)
_LLC_HITS = {"read": (0x02, 0x13, 0x22, 0x36), "write": (0x03, 0x14, 0x23, 0x37)}
_LLC_ACCESSES = {"read": (0x20, 0x34), "write": (0x21, 0x35)}


def read_hbm(device: RawDevice) -> list[CounterRows]:
    """Read ``HBM read`` and ``HBM write`` by HBM."""
    records, time_ns = _read_versioned(device, "hbm", layouts.HBM, layouts.HBM_V2)
    writes = (records["event"] != 0).astype(np.int64)
    series = records["instance"].astype(np.int64) << 1 | writes
    order = np.lexsort((time_ns, series))
    records, series, time_ns = records[order], series[order], time_ns[order]
    value = _mb_a_second(records["count"] * np.float64(_HBM_BYTES), passed_ns(series, time_ns))
    names = NameColumn.distinct(series & 1, ["HBM read", "HBM write"])
    parts = [rows(time_ns, device.id, value, names, "MB/s", NameColumn.lookup(records["instance"], str))]
    return device.keep_counters("hbm", len(records), parts)


def read_ddr(device: RawDevice) -> list[CounterRows]:
    """Read ``DDR read`` and ``DDR write``, summed over controllers as the vendor does.

    Traffic of the selected master (option `ddr_master_id`) is named ``DDR read by master`` etc.
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
        "ddr", len(order), [rows(time_ns, device.id, value, NameColumn.distinct(series, names), "MB/s")]
    )


def read_llc(device: RawDevice) -> list[CounterRows]:
    """Read ``LLC read Hit Rate`` (percent) and ``LLC read Throughput``, or those of writes, by cache.

    The events of one time form a row; a value is NaN if one of its events is missing.
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
        return np.sum([_event_records(records, row, event, len(cache)) for event in events], axis=0)

    with np.errstate(divide="ignore", invalid="ignore"):
        hits = total(_LLC_HITS[mode]) / total(_LLC_ACCESSES[mode]) * 100
    hits[~np.isfinite(hits)] = np.nan
    moved = _mb_a_second(total(_LLC_TRAFFIC) * _LLC_BYTES, passed_ns(cache, moment_ns))
    instance = NameColumn.lookup(cache, str)
    parts = [
        rows(moment_ns, device.id, hits, f"LLC {mode} Hit Rate", "%", instance),
        rows(moment_ns, device.id, moved, f"LLC {mode} Throughput", "MB/s", instance),
    ]
    return device.keep_counters("llc", len(records), parts)


def _event_records(records: Records, row: Int64, event: int, count: int) -> Float64:
    values = np.full(count, np.nan)
    is_selected = records["event"] == event
    values[row[is_selected]] = records["count"][is_selected]
    return values


def _read_versioned(
    device: RawDevice, stream: str, first: np.dtype[Any], second: np.dtype[Any]
) -> tuple[Records, Int64]:
    """Read a stream whose records have host clock timestamps since version 2.0."""
    version = layout_version(device, stream)
    name = f"{stream}.data.{device.id}"
    if version is None:
        return np.empty(0, first), np.empty(0, np.int64)
    stamped = read_us(device, name, first) if version == "1.0" else read_host_ns(device, name, second)
    return _with_instances(device, stream, stamped)


def _with_instances(device: RawDevice, stream: str, stamped: tuple[Records, Int64]) -> tuple[Records, Int64]:
    """Return the records with a valid number of the controller or cache."""
    records, time_ns = stamped
    good = records["instance"] < _MANY
    impossible(device, stream, "impossible ids", ~good)
    return records[good], time_ns[good]


def _mb_a_second(size_bytes: Float64, interval_ns: Float64) -> Float64:
    return size_bytes / 2**20 / (interval_ns / 1e9)


_PCIE_GROUPS = ("post Tx", "nonpost Tx", "cpl Tx", "nonpost_latency Tx", "post Rx", "nonpost Rx", "cpl Rx")
_PCIE_STATISTICS = (" min", " max", "")  # the vendor's timeline shows the averages
_PCIE_MB_TO_MIB = 1e6 / 2**20
_HCCS_COUNTER = 1 << 32
_NET_COLUMNS = (
    *("bandwidth", "rxPacket/s", "rxByte/s", "rxPackets", "rxBytes", "rxErrors", "rxDropped"),
    *("txPacket/s", "txByte/s", "txPackets", "txBytes", "txErrors", "txDropped", "funcId"),
)
_NET_FUNCTION = len(_NET_COLUMNS) - 1
_MAX_EVENTS = 10


def read_pcie(device: RawDevice) -> list[CounterRows]:
    """Read ``PCIe post Tx`` etc.: averages, as the vendor shows, with separate ``min`` and ``max``.

    Rates, stored in 10**6 bytes per second, are in the vendor's MB/s; latencies, stored in ns, in us.
    """
    records, time_ns = read_device_ns(device, f"pcie.data.{device.id}", layouts.PCIE)
    parts = []
    for group, name in enumerate(_PCIE_GROUPS):
        late = "latency" in name
        for column, statistic in enumerate(_PCIE_STATISTICS):
            value = records["values"][:, group * 3 + column] * (1e-3 if late else _PCIE_MB_TO_MIB)
            parts.append(rows(time_ns, device.id, value, f"PCIe {name}{statistic}", "us" if late else "MB/s"))
    return device.keep_counters("pcie", len(records), parts)


def read_hccs(device: RawDevice) -> list[CounterRows]:
    """Read ``HCCS Tx`` and ``HCCS Rx``: rates since the previous line, NaN for the first.

    The counters have 32 bits; a decrease is a wrap.
    """
    time_ns, values = device_table(device, "hccs", 2)
    order = np.argsort(time_ns, kind="stable")
    time_ns, values = time_ns[order], values[order]
    seconds = passed_ns(np.zeros(len(time_ns), np.int64), time_ns) / 1e9
    parts = []
    for column, name in enumerate(("HCCS Tx", "HCCS Rx")):
        moved = np.diff(values[:, column], prepend=0)
        moved[moved < 0] += _HCCS_COUNTER
        parts.append(rows(time_ns, device.id, moved / seconds / 2**20, name, "MB/s"))
    return device.keep_counters("hccs", len(time_ns), parts)


def read_network(device: RawDevice, stream: str, label: str) -> list[CounterRows]:
    """Read ``nic`` or ``roce`` by port, `label` being NIC or RoCE.

    ``NIC Port Rx Packets`` is packets per second, with the vendor's name; shares are in percent, NaN without traffic.
    """
    time_ns, values = device_table(device, stream, len(_NET_COLUMNS) - 1, optional=1)
    values[np.isnan(values[:, _NET_FUNCTION]), _NET_FUNCTION] = 0  # old files do not name the port
    sound = (values[:, _NET_FUNCTION] >= 0) & (values[:, _NET_FUNCTION] < _HCCS_COUNTER)
    impossible(device, stream, "impossible ports", ~sound)
    time_ns, values = time_ns[sound], values[sound]
    port = NameColumn.lookup(values[:, _NET_FUNCTION].astype(np.int64), str)
    parts = [rows(time_ns, device.id, values[:, 0], f"{label} Bandwidth", "MB/s", port)]
    for first, way in ((1, "Rx"), (7, "Tx")):
        packets_s, bytes_s, packets, size, errors, dropped = values[:, first : first + 6].T
        for name, unit, value in (
            ("Packets", "1/s", packets_s),
            ("Bytes", "byte/s", bytes_s),
            ("Packets total", None, packets),
            ("Bytes total", "byte", size),
            ("Errors", None, errors),
            ("Dropped", None, dropped),
            ("Bandwidth Efficiency", "%", _percent(bytes_s * 8, values[:, 0] * 2**20)),
            ("Error Rate", "%", _percent(errors, packets)),
            ("Dropped Rate", "%", _percent(dropped, packets)),
        ):
            parts.append(rows(time_ns, device.id, value, f"{label} Port {way} {name}", unit, port))
    return device.keep_counters(stream, len(time_ns), parts)


def read_qos(device: RawDevice) -> list[CounterRows]:
    """Read ``QoS``: the bandwidth (MB/s) of every traffic class in the options, one instance per class."""
    records = device.read("qos", layouts.QOS)
    time_ns = device.clock.counter.to_ns(records["counter"])
    parts = [
        rows(time_ns, device.id, records["values"][:, column], "QoS", "MB/s", name)
        for column, name in enumerate(qos_names(device))
        if len(records)
    ]
    return device.keep_counters("qos", len(records), parts)


def qos_names(device: RawDevice) -> list[str]:
    """Return the names of the traffic classes in the options; ``1`` etc. for classes without a name."""
    events = device.side.sample.get("qosEvents")
    names = [event.strip() for event in events.split(",")] if isinstance(events, str) and events.strip() else []
    names = names[:_MAX_EVENTS] or [str(number + 1) for number in range(_MAX_EVENTS)]
    return [name[:64] for name in names]


def _percent(part: Float64, whole: Float64) -> Float64:
    share = np.full(len(part), np.nan)
    np.divide(part * 100, whole, out=share, where=whole > 0)
    return share
