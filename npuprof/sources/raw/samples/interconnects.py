"""Sampled traffic between chips and networks: PCIe, HCCS, NIC, RoCE, and bandwidth by quality of service.

Source: raw/FORMAT.md section 6.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Float64
from npuprof.sources.raw.device.reader import Device
from npuprof.sources.raw.metadata.dictionaries import Names
from npuprof.sources.raw.records import layouts
from npuprof.sources.raw.samples.counter_rows import CounterRows, passed_ns, rows
from npuprof.sources.raw.samples.streams import impossible, read_device_ns
from npuprof.sources.raw.samples.text_samples import device_table

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


def read_pcie(device: Device) -> list[CounterRows]:
    """Read ``PCIe post Tx`` and the like: averages as the vendor shows them, with ``min`` and ``max`` beside them.

    Rates are stored in 10**6 bytes a second and given in the vendor's MB/s; latencies, stored in ns, in us.
    """
    records, time_ns = read_device_ns(device, f"pcie.data.{device.id}", layouts.PCIE)
    parts = []
    for group, name in enumerate(_PCIE_GROUPS):
        late = "latency" in name
        for column, statistic in enumerate(_PCIE_STATISTICS):
            value = records["values"][:, group * 3 + column] * (1e-3 if late else _PCIE_MB_TO_MIB)
            parts.append(rows(time_ns, device.id, value, f"PCIe {name}{statistic}", "us" if late else "MB/s"))
    return device.keep_counters("pcie", len(records), parts)


def read_hccs(device: Device) -> list[CounterRows]:
    """Read ``HCCS Tx`` and ``HCCS Rx``: rates since the line before, NaN for the first one.

    The counters have 32 bits; one that is smaller than before has wrapped.
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


def read_network(device: Device, stream: str, label: str) -> list[CounterRows]:
    """Read ``nic`` or ``roce`` by port, `label` being NIC or RoCE.

    ``NIC Port Rx Packets`` is packets a second, as the vendor names it; shares are in percent, NaN where nothing moved.
    """
    time_ns, values = device_table(device, stream, len(_NET_COLUMNS) - 1, optional=1)
    values[np.isnan(values[:, _NET_FUNCTION]), _NET_FUNCTION] = 0  # old files name no port
    sound = (values[:, _NET_FUNCTION] >= 0) & (values[:, _NET_FUNCTION] < _HCCS_COUNTER)
    impossible(device, stream, "impossible ports", ~sound)
    time_ns, values = time_ns[sound], values[sound]
    port = Names.lookup(values[:, _NET_FUNCTION].astype(np.int64), str)
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


def read_qos(device: Device) -> list[CounterRows]:
    """Read ``QoS``: the bandwidth (MB/s) of every class of traffic that the options name, an instance each."""
    records = device.read("qos", layouts.QOS)
    time_ns = device.clock.counter.to_ns(records["counter"])
    parts = [
        rows(time_ns, device.id, records["values"][:, column], "QoS", "MB/s", name)
        for column, name in enumerate(qos_names(device))
        if len(records)
    ]
    return device.keep_counters("qos", len(records), parts)


def qos_names(device: Device) -> list[str]:
    """Name the classes of traffic, as the options name them; ``1`` and so on where they do not."""
    events = device.side.sample.get("qosEvents")
    names = [event.strip() for event in events.split(",")] if isinstance(events, str) and events.strip() else []
    names = names[:_MAX_EVENTS] or [str(number + 1) for number in range(_MAX_EVENTS)]
    return [name[:64] for name in names]


def _percent(part: Float64, whole: Float64) -> Float64:
    share = np.full(len(part), np.nan)
    np.divide(part * 100, whole, out=share, where=whole > 0)
    return share
