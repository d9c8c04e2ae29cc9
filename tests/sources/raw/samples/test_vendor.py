"""Sampled streams equal what the vendor made of the same bytes; where it lost digits, the exact value is right."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.trace.columns import gather
from npuprof.sources.trace.conversion import build_tables
from npuprof.sources.trace.events import read_events
from npuprof.tables.notes import Notes
from tests.sources.raw.conftest import raw_sample

_ROUNDED_NS = 128  # half the grain of a float64 near today's epoch
_MIB = 2**20
_HOST_RUNS = ("torch_npu/host_only_raw", "msprof/app_host_only")


@pytest.fixture(scope="module")
def everything(samples: Path) -> Decoded:
    return raw.read(raw_sample(samples, "everything"))


@pytest.fixture(scope="module")
def counters(everything: Decoded) -> pd.DataFrame:
    return _plain(everything.tables["counters"])


@pytest.fixture(scope="module")
def expected(samples: Path) -> Path:
    return samples / "raw" / "everything" / "expected"


@pytest.fixture(scope="module")
def database(expected: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"{next(expected.glob('*.db')).as_uri()}?mode=ro&immutable=1", uri=True)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def shown(expected: Path) -> pd.DataFrame:
    """The counters of the vendor's timeline, as a text result of the same run has them."""
    return _timeline(next(expected.glob("msprof_2*.json")))


def _timeline(path: Path) -> pd.DataFrame:
    notes = Notes()
    trace = gather(read_events(path, notes), notes, path.name)
    return _plain(build_tables(trace, notes, path.name).tables["counters"])


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    plain: pd.DataFrame = frame.astype({"counter": object, "instance": object, "unit": object})
    return plain


def _series(frame: pd.DataFrame, counter: str, instance: str | None = None) -> pd.DataFrame:
    chosen = frame["counter"] == counter
    if instance is not None:
        chosen &= frame["instance"] == instance
    rows: pd.DataFrame = frame[chosen]
    return rows


def _values(frame: pd.DataFrame, counter: str, instance: str | None = None) -> list[Any]:
    found = _series(frame, counter, instance)
    return list(zip(found["time_ns"].tolist(), found["value"].tolist(), strict=True))


def _csv(expected: Path, name: str) -> pd.DataFrame:
    frame: pd.DataFrame = pd.read_csv(next(expected.glob(f"{name}_2*.csv")), dtype=str, keep_default_na=False)
    stripped: pd.DataFrame = pd.DataFrame({name: column.str.strip() for name, column in frame.items()})
    return stripped


@pytest.mark.slow
def test_every_stream_of_the_sample_is_decoded(everything: Decoded) -> None:
    notes = everything.notes.to_frame()
    assert not notes["message"].str.contains("not decoded").any()


@pytest.mark.slow
def test_counters_match_text_names(counters: pd.DataFrame, shown: pd.DataFrame) -> None:
    ours = set(counters["counter"])
    assert set(shown["counter"]) <= ours
    units = dict(zip(counters["counter"], counters["unit"], strict=True))
    for name, unit in set(zip(shown["counter"], shown["unit"], strict=True)):
        if name in ours and isinstance(unit, str):
            assert units[name] == unit
    for name in ("HBM read", "LLC read Throughput", "NIC Port Rx Packets", "SIO req_rx"):
        assert set(_series(counters, name)["instance"]) == set(_series(shown, name)["instance"])


@pytest.mark.slow
def test_every_value_that_the_timeline_shows_is_a_row(counters: pd.DataFrame, shown: pd.DataFrame) -> None:
    compared = 0
    for key, rows in shown.groupby(shown["counter"] + "\n" + shown["instance"].fillna("")):
        name, _, instance = str(key).partition("\n")
        if name == "AI Core Freq":
            continue  # drawn twice, with points added
        ours = _series(counters, name, instance or None)
        for time_ns, value in zip(rows["time_ns"], rows["value"], strict=True):
            (found,) = ours.loc[(ours["time_ns"] - time_ns).abs() <= _ROUNDED_NS, "value"]
            if found == found:
                # HBM: an interval bent by the float64 of its stamps; the rest is rounded to three decimals
                assert found == pytest.approx(value, rel=3e-5, abs=0.0005)
            else:
                assert value == 0  # the first of a series, and a rate whose events were not all counted
            compared += 1
    assert compared > 100


def test_pcie_is_that_of_pcie(database: sqlite3.Connection, counters: pd.DataFrame) -> None:
    groups = {
        **{f"{side}{column}": f"{name} {side.capitalize()}" for side in ("tx", "rx") for column, name in _PCIE.items()},
        "txNonpostLatency": "nonpost_latency Tx",
    }
    for column, name in groups.items():
        for end, suffix in (("Min", " min"), ("Max", " max"), ("Avg", "")):
            worth = 1000 if "Latency" in column else _MIB
            rows = database.execute(f"SELECT timestampNs, {column}{end} FROM PCIE ORDER BY timestampNs")
            wanted = [(time_ns, pytest.approx(value / worth)) for time_ns, value in rows]
            assert _values(counters, f"PCIe {name}{suffix}") == wanted
            assert len(wanted) == 3


_PCIE = {"Post": "post", "Nonpost": "nonpost", "Cpl": "cpl"}


@pytest.mark.parametrize("label", ["NIC", "RoCE"])
def test_networks_are_those_of_nic_and_roce(label: str, database: sqlite3.Connection, counters: pd.DataFrame) -> None:
    columns = {"bandwidth": (f"{label} Bandwidth", _MIB)}
    for side in ("rx", "tx"):
        named = {"PacketRate": "Packets", "ByteRate": "Bytes", "Packets": "Packets total", "Bytes": "Bytes total"}
        named |= {"Errors": "Errors", "Dropped": "Dropped"}
        columns |= {f"{side}{end}": (f"{label} Port {side.capitalize()} {name}", 1) for end, name in named.items()}
    for column, (name, worth) in columns.items():
        query = f"SELECT timestampNs, {column}, funcId FROM {label.upper()} ORDER BY timestampNs"
        wanted = [(time_ns, value / worth) for time_ns, value, port in database.execute(query) if port == 0]
        assert _values(counters, name, "0") == wanted
        assert len(wanted) == 4


def test_hccs_counts_its_own_interval(database: sqlite3.Connection, counters: pd.DataFrame) -> None:
    for column, name in (("txThroughput", "HCCS Tx"), ("rxThroughput", "HCCS Rx")):
        query = f"SELECT timestampNs, {column} FROM HCCS ORDER BY timestampNs"
        wanted = [(time_ns, pytest.approx(value / _MIB, abs=0.0005)) for time_ns, value in database.execute(query)]
        found = _values(counters, name)
        assert found[1:-1] == wanted  # the vendor drops the last interval of a file
        assert found[0][1] != found[0][1]  # nothing came before the first line
        assert found[-1] == (1763600000570547330, wanted[-1][1])


def test_the_accelerators_are_those_of_acc_pmu(database: sqlite3.Connection, counters: pd.DataFrame) -> None:
    rows = database.execute(
        "SELECT accId, timestampNs, readBwLevel, writeBwLevel, readOstLevel, writeOstLevel FROM ACC_PMU"
    )
    names = ("read_bandwidth", "write_band_width", "read_ost", "write_ost")
    count = 0
    for acc, time_ns, *values in rows:
        for name, value in zip(names, values, strict=True):
            assert _values(counters, f"Acc PMU {name}", str(acc)) == [(time_ns, value)]
            count += 1
    assert count == 16


def test_traffic_between_dies_is_that_of_sio(database: sqlite3.Connection, counters: pd.DataFrame) -> None:
    strings = dict(database.execute("SELECT id, value FROM STRING_IDS"))
    columns = [f"{side}{kind}" for side in ("rx", "tx") for kind in ("Req", "Rsp", "Snp", "Dat")]
    for name, time_ns, *values in database.execute(f"SELECT name, timestampNs, {', '.join(columns)} FROM SIO"):
        for column, value in zip(columns, values, strict=True):
            (first, second) = _values(counters, f"SIO {column[2:].lower()}_{column[:2]}", strings[name])
            assert first[1] != first[1]  # nothing came before it
            assert second == (time_ns, pytest.approx(value / _MIB))


def test_bandwidth_levels_are_those_of_soc_bandwidth_level(
    database: sqlite3.Connection, counters: pd.DataFrame
) -> None:
    for column, name in (("l2BufferBwLevel", "L2 Buffer"), ("mataBwLevel", "Mata")):
        query = f"SELECT timestampNs, {column} FROM SOC_BANDWIDTH_LEVEL ORDER BY timestampNs"
        assert _values(counters, f"Stars Soc Info {name} Bw Level") == database.execute(query).fetchall()


def test_cache_rows_need_their_events(database: sqlite3.Connection, counters: pd.DataFrame) -> None:
    rows = database.execute("SELECT timestampNs, llcId, hitRate, throughput FROM LLC ORDER BY timestampNs").fetchall()
    for name in ("LLC read Hit Rate", "LLC read Throughput"):
        found = _values(counters, name, "0")
        for (time_ns, value), (vendor_ns, llc, *zeros) in zip(found, rows, strict=True):
            assert time_ns % 1000 == 330  # exact; the vendor's float64 shows .456 and .328
            assert abs(time_ns - vendor_ns) <= _ROUNDED_NS
            assert (llc, zeros) == (0, [0, 0])
            assert value != value  # each moment holds one event of the two that are summed: the vendor shows 0


def test_older_module_memory_is_left_out(everything: Decoded, database: sqlite3.Connection) -> None:
    assert not database.execute("SELECT name FROM sqlite_master WHERE name = 'NPU_MODULE_MEM'").fetchall()
    notes = everything.notes.to_frame().set_index("message")["count"]
    assert notes["npu_module_mem: samples from before the collection began skipped"] == 3


def test_cache_rates_match_l2_and_soc_pmu(everything: Decoded, expected: Path) -> None:
    for name, rates in (("l2_cache", ["Hit Rate", "Victim Rate"]), ("soc_pmu", ["TLB Hit Rate", "TLB Miss Rate"])):
        wanted, found = _csv(expected, name), everything.statistics[name]
        assert list(found.columns) == list(wanted.columns)
        for column in ("Device_id", "Stream Id", "Task Id", "Op Name"):
            assert found[column].astype(str).tolist() == wanted[column].tolist()
        for column in rates:
            for value, text in zip(found[column], wanted[column], strict=True):
                assert (value != value) if text == "N/A" else value == pytest.approx(float(text), abs=5e-7)


def test_ai_cpu_nodes_are_those_of_aicpu(everything: Decoded, expected: Path) -> None:
    (wanted,) = _csv(expected, "aicpu").to_dict("records")
    (found,) = everything.statistics["aicpu"].to_dict("records")
    assert found.pop("Timestamp(ns)") == Decimal(wanted.pop("Timestamp(us)")) * 1000
    assert found.pop("Node") is None
    assert wanted.pop("Node") == "N/A"
    assert {name: float(value) for name, value in found.items()} == {name: float(text) for name, text in wanted.items()}


def _host_run(samples: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame, Callable[[str], pd.Series[Any]]]:
    folder = next((samples / name).rglob("PROF_*"))
    output = folder / "mindstudio_profiler_output"
    frame = _plain(raw.read(folder).tables["counters"])

    def summed(kind: str) -> pd.Series[Any]:
        return pd.read_csv(next(output.glob(f"host_{kind}_usage_*.csv"))).iloc[0]

    return frame, _timeline(next(output.glob("msprof_2*.json"))), summed


@pytest.mark.parametrize("name", _HOST_RUNS)
def test_real_cpu_samples_match_the_timeline(name: str, samples: Path) -> None:
    frame, shown, summed = _host_run(samples, name)
    for counter, instance in (("CPU Usage CPU", "0"), ("CPU Usage CPU", "1"), ("CPU Usage CPU Avg", None)):
        ours, vendor = _values(frame, counter, instance), _values(shown, counter, instance)
        ours = [row for row in ours if row[0] >= vendor[0][0] - _ROUNDED_NS]  # one run lacks its first interval there
        assert len(ours) == len(vendor) > 4
        for (time_ns, value), (vendor_ns, vendor_value) in zip(ours, vendor, strict=True):
            assert abs(time_ns - vendor_ns) <= _ROUNDED_NS
            assert value == pytest.approx(vendor_value, abs=5e-7)
    assert summed("cpu")["Total Cpu Numbers"] == _series(frame, "CPU Usage CPU")["instance"].nunique()


@pytest.mark.slow
@pytest.mark.parametrize("name", _HOST_RUNS)
def test_real_host_memory_samples_stand_at_their_own_time(name: str, samples: Path) -> None:
    frame, shown, summed = _host_run(samples, name)
    ours, vendor = _values(frame, "Memory Usage"), _values(shown, "Memory Usage")
    skipped = len(ours) - 1 - len(vendor)
    assert 0 <= skipped <= 1  # one run lacks its first interval there
    for before, sample, shown_one in zip(ours[skipped:], ours[skipped + 1 :], vendor, strict=False):
        assert abs(before[0] - shown_one[0]) <= _ROUNDED_NS  # the vendor shows each sample at the time of the last one
        assert sample[1] == pytest.approx(shown_one[1], abs=0.0005)
    total_kib = summed("mem")["Total Memory(KB)"]
    peak_kib = max(value for _, value in ours) / 100 * total_kib
    assert peak_kib == pytest.approx(summed("mem")["Peak Used Memory(KB)"], abs=total_kib * 5e-6)
    assert peak_kib == pytest.approx(round(peak_kib / 4) * 4)  # whole pages: exact
