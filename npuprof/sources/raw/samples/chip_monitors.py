"""Chip monitors: AI core counters in sample mode, ``stars_soc_profile`` and ``lpmInfoConv``.

Source: raw/FORMAT.md sections 5.3, 5.5, 5.7 and 6.
"""

from __future__ import annotations

import numpy as np

from npuprof.arrays import Int64, Records
from npuprof.sources.raw.device.metrics import UNSPLIT, metric_columns, metrics_of
from npuprof.sources.raw.device.pmu import Frequencies, is_sampled, profiling_events
from npuprof.sources.raw.device.reader import RawDevice
from npuprof.sources.raw.metadata.chip_families import Family
from npuprof.sources.raw.metadata.clocks import parse_frequency
from npuprof.sources.raw.metadata.dictionaries import NameColumn
from npuprof.sources.raw.records import chip_layouts, layouts
from npuprof.sources.raw.samples.counter_rows import CounterRows, passed_ns, rows
from npuprof.sources.raw.samples.streams import read_device_ns
from npuprof.sources.raw.samples.traffic import qos_names

_LAST_CUBE_CORE = 24  # higher core numbers are vector cores
_LAST_CUBE_CORES = {**dict.fromkeys(("7", "8", "11"), 0), "15": 35, "16": 69, "19": 35}  # by platform version
_VECTOR_STREAM = "aiVectorCore"
_STREAMS = ("aicore", "ffts_profile", _VECTOR_STREAM)  # STARS chips use the second one
_UNITS = {"_time_ns": "ns", "_gb_s": "GB/s", "_kb": "KB"}


def read_core_samples(device: RawDevice, frequencies: Frequencies) -> list[CounterRows]:
    """Read samples and derive the metrics of their events: ``aic_mac_ratio``, ``aiv_vec_time_ns`` ... by core.

    Counters are deltas since the previous sample. Timestamps are the device's CLOCK_MONOTONIC_RAW.
    """
    if not is_sampled(device):
        return []
    rated = float(parse_frequency(device.side.device_fact("aic_frequency")) or 0) or np.nan
    version = device.side.info.get("platform_version")
    is_v6, is_split = device.family is Family.STARS_V6, device.family is not Family.HWTS
    table = metrics_of(device.family, version)
    parts: list[CounterRows] = []
    for stream in _STREAMS:
        before = len(parts)
        layout = chip_layouts.CORE_SAMPLE_V6 if is_v6 else layouts.CORE_SAMPLE
        records, time_ns = read_device_ns(device, f"{stream}.data.{device.id}", layout)
        last = _LAST_CUBE_CORES.get(str(version), _LAST_CUBE_CORE)
        on_vector = records["core"] > last if is_split else np.full(len(records), stream == _VECTOR_STREAM)
        for core, is_wanted in (("aic", False), ("aiv", True)):
            at = np.flatnonzero(on_vector == is_wanted)
            if not len(at):
                continue
            cycles = records["cycles"][at].astype(np.float64)
            mhz = np.full(len(at), float(frequencies.mhz[-1]) if len(frequencies.mhz) else rated)
            counted_rows = records["counters"][at].astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                total_ns = cycles * 1e3 / mhz
            events = profiling_events(device, core, counted_rows.shape[1])
            kind = core if is_split else UNSPLIT
            metrics = metric_columns(kind, events, counted_rows, cycles, total_ns, mhz, table)
            instance = NameColumn.lookup(records["core"][at], str)
            prefix = f"{kind}_" if kind else ""
            for name, values in {f"{prefix}total_cycles": cycles, **metrics}.items():
                unit = next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)
                parts.append(rows(time_ns[at], device.id, values, name, unit, instance))
        device.keep_counters(stream, len(records), parts[before:])
    return parts


_STREAM = "stars_soc_profile"
_QOS, _SIO, _ACC, _CHIP, _SOC, _POWER = 0b011000, 0b011001, 0b011010, 0b011011, 0b011100, 0b011101
_PA_LINK, _PCIE = 0b111111, 0b100010
_ACC_NAMES = ("write_band_width", "read_bandwidth", "write_ost", "read_ost")
_SIO_NAMES = ("req_rx", "rsp_rx", "snp_rx", "dat_rx", "req_tx", "rsp_tx", "snp_tx", "dat_tx")
_SIO_V6 = [1, 2, 3, 4, 6, 7, 8, 9]  # records of ten words
_CHIP_NAMES = {
    _PA_LINK: ("PA Link Rx", "PA Link Tx"),
    _PCIE: ("PCIE Write Bandwidth", "PCIE Read Bandwidth"),
}
_LPM = {1: "AIC Voltage", 2: "BUS Voltage"}


def read_soc_profile(device: RawDevice) -> list[CounterRows]:
    """Read accelerator and inter-die traffic, bandwidth levels, transfers between chips, power and QoS."""
    records = device.read(_STREAM, layouts.SOC_PROFILE)
    function = records["head"] & 0x3F
    readers = {_ACC: _accelerators, _SIO: _dies, _SOC: _levels, _CHIP: _chips, _POWER: _power, _QOS: _qos}
    parts = []
    for code, reader in readers.items():
        of_type = records[function == code]
        if len(of_type):
            parts += reader(device, of_type, device.clock.counter.to_ns(of_type["counter"]))
    other = int((~np.isin(function, list(readers))).sum())
    device.skip(_STREAM, "records of other types skipped", other, info=True)
    others = _other_link_tables(device, records[function == _CHIP])
    device.skip(_STREAM, "transfers of other links skipped", others, info=True)
    return device.keep_counters(_STREAM, len(records) - other - others, parts)


def _accelerators(device: RawDevice, records: Records, time_ns: Int64) -> list[CounterRows]:
    instance = NameColumn.lookup(records["id"], str)
    return [
        rows(time_ns, device.id, records["wide"][:, column], f"Acc PMU {name}", None, instance)
        for column, name in enumerate(_ACC_NAMES)
    ]


def _dies(device: RawDevice, records: Records, time_ns: Int64) -> list[CounterRows]:
    """Read traffic between dies: deltas since the previous record of a die."""
    is_v6 = device.family is Family.STARS_V6
    die = (records["head"] >> 10 if is_v6 else records["id"]).astype(np.int64)
    counted_rows = records["narrow_v6"][:, _SIO_V6] if is_v6 else records["narrow"]
    order = np.lexsort((time_ns, die))
    counted_rows, time_ns, die = counted_rows[order], time_ns[order], die[order]
    seconds = passed_ns(die, time_ns) / 1e9
    instance = NameColumn.lookup(die, lambda number: f"die {number}")
    return [
        rows(time_ns, device.id, counted_rows[:, column] / seconds / 2**20, f"SIO {name}", "MB/s", instance)
        for column, name in enumerate(_SIO_NAMES)
    ]


def _levels(device: RawDevice, records: Records, time_ns: Int64) -> list[CounterRows]:
    """Read bandwidth levels, named as in the vendor's timeline; the vendor's parsers disagree on their order."""
    levels = records["narrow"][:, 0].astype(np.int64)
    return [
        rows(time_ns, device.id, levels & 7, "Stars Soc Info L2 Buffer Bw Level", None),
        rows(time_ns, device.id, levels >> 3 & 0xFF, "Stars Soc Info Mata Bw Level", None),
    ]


def _chips(device: RawDevice, records: Records, time_ns: Int64) -> list[CounterRows]:
    """Read transfers over PA links and PCIe; on the stars v6 family per die."""
    if device.family is Family.STARS_V6:
        die = NameColumn.lookup(records["head"] >> 10, lambda number: f"die {number}")
        return [
            rows(time_ns, device.id, records["wide_v6"][:, column], f"Stars Chip Trans {name}", None, die)
            for column, name in enumerate(_CHIP_NAMES[_PCIE])
        ]
    parts = []
    kind = records["head"] >> 10
    for code, names in _CHIP_NAMES.items():
        at = np.flatnonzero(kind == code)
        instance = NameColumn.lookup(records["id"][at] & 63, str)
        for column, name in enumerate(names):
            value = records["wide"][at, column]
            parts.append(rows(time_ns[at], device.id, value, f"Stars Chip Trans {name}", None, instance))
    return parts


def _other_link_tables(device: RawDevice, records: Records) -> int:
    is_v6 = device.family is Family.STARS_V6
    return 0 if is_v6 else int((~np.isin(records["head"] >> 10, list(_CHIP_NAMES))).sum())


def _power(device: RawDevice, records: Records, time_ns: Int64) -> list[CounterRows]:
    """Read the twenty values of a power sample, per die; their meaning is undocumented."""
    values = records["power"].reshape(-1, 10, 2)[:, :, ::-1].reshape(-1, 20)  # each pair is stored high half first
    instance = NameColumn.lookup(records["head"] >> 10, str)
    return [
        rows(time_ns, device.id, values[:, column], f"Low Power {column}", None, instance)
        for column in range(values.shape[1])
    ]


def _qos(device: RawDevice, records: Records, time_ns: Int64) -> list[CounterRows]:
    return [
        rows(time_ns, device.id, records["qos"][:, column], "QoS", "MB/s", name)
        for column, name in enumerate(qos_names(device))
    ]


def read_voltages(device: RawDevice) -> list[CounterRows]:
    """Read ``AIC Voltage`` and ``BUS Voltage`` (mV) of ``lpmInfoConv``, a row per change."""
    blocks = device.streams.read(f"lpmInfoConv.data.{device.id}", layouts.POWER_INFOS)
    counts = np.minimum(blocks["count"], layouts.FREQUENCIES_A_RECORD)
    values = blocks["values"][np.arange(layouts.FREQUENCIES_A_RECORD) < counts[:, None]]
    values = values[device.clock.counter.reaches(values["counter"])]
    parts = []
    for kind, name in _LPM.items():
        voltages = np.sort(values[values["kind"] == kind], order="counter", kind="stable")
        parts.append(rows(device.clock.counter.to_ns(voltages["counter"]), device.id, voltages["value"], name, "mV"))
    return device.keep_counters("lpmInfoConv", len(blocks), parts)
