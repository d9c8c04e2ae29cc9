"""Samples that a test writes by the specification come back as rows: what no sample directory holds."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.raw.metadata.chip_families import FAMILIES, Family
from tests.sources.raw.writers.directory import DEVICE_COUNTER, HOST_COUNTER, MONO_NS, START_NS, RawDirectory

_DEVICE = "device_0/data"
_DEVICE_MONO_NS = 5  # of the directory's dev_start.log
_MS = 1_000_000


class Samples:
    """A directory into which a test puts streams of samples."""

    def __init__(self, path: Path) -> None:
        self.directory = RawDirectory(path)

    def put(self, stream: str, layout: str, *records: tuple[Any, ...]) -> None:
        content = b"".join(struct.pack("<" + layout, *record) for record in records)
        self.directory.streams[f"{_DEVICE}/{stream}.0"] += content

    def text(self, path: str, text: str) -> None:
        self.directory.streams[path] += text.encode()

    def change(self, file: str, **facts: Any) -> None:
        """Set facts of a control file."""
        path = self.directory.path / file
        path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))

    def read(self) -> Decoded:
        return raw.read(self.directory.finish())

    def counters(self) -> dict[tuple[str, str | None], list[tuple[int, Any]]]:
        """Nanoseconds after the start and values, by counter and instance; NaN is None."""
        found: dict[tuple[str, str | None], list[tuple[int, Any]]] = {}
        frame = self.read().tables["counters"]
        for time_ns, _, counter, instance, value, _ in frame.astype(object).itertuples(index=False):
            key = counter, instance if isinstance(instance, str) else None
            found.setdefault(key, []).append((time_ns - START_NS, value if value == value else None))
        return found


@pytest.fixture
def samples_dir(tmp_path: Path) -> Samples:
    return Samples(tmp_path / "PROF_test")


@pytest.mark.slow
def test_both_versions_of_hbm_are_read(samples_dir: Samples, tmp_path: Path) -> None:
    samples_dir.put("hbm.data", "QQII", (1000, 8, 0, 3), (2000, 1 << 20, 0, 3))
    newer = Samples(tmp_path / "PROF_newer")
    newer.change("device_0/info.json.0", version="2.0")
    stamps = (MONO_NS + 1 * _MS, MONO_NS + 2 * _MS)
    newer.put("hbm.data", "IIIIQQ", (0, 0, 0, 3, 8, stamps[0]), (0, 0, 0, 3, 1 << 20, stamps[1]))
    expected = {("HBM read", "3"): [(1 * _MS, None), (2 * _MS, 32_000.0)]}
    assert samples_dir.counters() == expected
    assert newer.counters() == expected


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_events_of_a_moment_are_one_row_of_the_cache(version: str, samples_dir: Samples) -> None:
    samples_dir.change("device_0/info.json.0", version=version)
    samples_dir.change("device_0/sample.json", llc_profiling="write")
    counts = {0x00: 1024, 0x01: 1024, 0x03: 10, 0x14: 20, 0x21: 100, 0x23: 30, 0x35: 100, 0x37: 40}
    for ms in (1, 2):
        for event, count in counts.items():
            if version == "1.0":
                samples_dir.put("llc.data", "QQII", (ms * 1000, count, event, 1))
            else:
                samples_dir.put("llc.data", "IIIIQ", (0, count, event, 1, MONO_NS + ms * _MS))
    found = samples_dir.counters()
    assert found["LLC write Hit Rate", "1"] == [(1 * _MS, 50.0), (2 * _MS, 50.0)]
    assert found["LLC write Throughput", "1"] == [(1 * _MS, None), (2 * _MS, pytest.approx(8 / 1e-3))]


def test_notes_name_sampled_cache_counters(samples_dir: Samples) -> None:
    samples_dir.change("device_0/sample.json", llc_profiling="capacity")
    samples_dir.put("llc.data", "QQII", (1000, 1, 0, 1))
    decoded = samples_dir.read()
    assert decoded.tables["counters"].empty
    assert "neither for reads nor for writes" in " ".join(decoded.notes.to_frame()["message"])


def test_ddr_controllers_are_summed_and_a_master_is_distinguished(samples_dir: Samples) -> None:
    none = 0xFFFFFFFF
    for us in (1000, 2000):
        samples_dir.put(
            "ddr.data", "IIIII", (us, 1 << 16, 0, 0, none), (us, 1 << 16, 0, 1, none), (us, 1 << 16, 1, 0, 7)
        )
    found = samples_dir.counters()
    assert found["DDR read", None] == [(1 * _MS, None), (2 * _MS, pytest.approx(2000.0))]
    assert found["DDR write by master", None] == [(1 * _MS, None), (2 * _MS, pytest.approx(1000.0))]


def test_memory_of_the_second_version_and_of_modules(samples_dir: Samples) -> None:
    samples_dir.change("device_0/info.json.0", version="2.0")
    samples_dir.put("npu_mem.data", "IIQQQ", (0, 1, MONO_NS + 3 * _MS, 5, 7))
    modules = (
        (45, 0, HOST_COUNTER + 100, 1 << 20),
        (500, 0, HOST_COUNTER + 200, 4),
        (7, 0, HOST_COUNTER, (1 << 64) - 1),
    )
    samples_dir.put("npu_module_mem.data", "IIQQ", *modules)
    decoded = samples_dir.read()
    memory = decoded.tables["memory"]
    rows = memory[["time_ns", "component", "reserved_bytes"]].astype(object).to_numpy().tolist()
    assert rows == [
        [START_NS + 1000, "GE (module)", 1 << 20],
        [START_NS + 2000, "500 (module)", 4],
        [START_NS + 3 * _MS, "Device", 12],
    ]
    assert memory["hbm_bytes"].isna().tolist() == [True, True, False]
    held = decoded.tables["counters"][["counter", "instance", "value", "unit"]].astype(object).to_numpy().tolist()
    assert [row for row in held if row[0].startswith("NPU MEM")] == [
        ["NPU MEM DDR", "Device", 5 / 1024, "KB"],
        ["NPU MEM HBM", "Device", 7 / 1024, "KB"],
        ["NPU MEM Memory", "Device", 12 / 1024, "KB"],
    ]
    assert "impossible sizes" in " ".join(decoded.notes.to_frame()["message"])


def _held_ms(samples_dir: Samples, stamps_ms: list[float]) -> tuple[list[float], str]:
    samples_dir.put(
        "npu_mem.data",
        "IIQQQ",
        *((round(ms * 1000) & 0xFFFFFFFF, 1, 0, 0, 7 + row) for row, ms in enumerate(stamps_ms)),
    )
    decoded = samples_dir.read()
    memory = decoded.tables["memory"].sort_values("hbm_bytes")  # in the order of the file
    return ((memory["time_ns"] - START_NS) / _MS).tolist(), " ".join(decoded.notes.to_frame()["message"])


_TURN_MS = (1 << 32) / 1000


def test_memory_stamps_survive_32_bit_turns(samples_dir: Samples) -> None:
    stamps_ms = [600_000.0 * step for step in range(20)]  # over three hours: they begin anew twice
    assert stamps_ms[-1] > 2 * _TURN_MS
    found, notes = _held_ms(samples_dir, stamps_ms)
    assert found == stamps_ms
    assert "out of order" not in notes


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 3, 9])
@pytest.mark.parametrize("damaged_ms", [3_000_000.0, 2_000_000.0, 4_294_000.0])
def test_a_damaged_stamp_of_memory_moves_no_other(place: int, damaged_ms: float, samples_dir: Samples) -> None:
    stamps_ms = [1000.0 * step for step in range(10)]
    damaged = [*stamps_ms]
    damaged[place] = damaged_ms
    found, _ = _held_ms(samples_dir, damaged)
    assert set(stamps_ms) - {stamps_ms[place]} <= set(found)


def test_unordered_memory_stamps_are_noted(samples_dir: Samples) -> None:
    stamps_ms = [0.0, 5000.0, 4000.0, 6000.0]
    found, notes = _held_ms(samples_dir, stamps_ms)
    assert found == stamps_ms
    assert "npu_mem.data.0: samples out of order, kept" in notes


def test_hccs_counters_that_wrap_go_on(samples_dir: Samples) -> None:
    lines = [(0, (1 << 32) - (1 << 20), 0), (_MS, 1 << 20, 1 << 20)]
    text = "timestamp tx rx\n" + "".join(f"{_DEVICE_MONO_NS + ns}: {tx} {rx}\n" for ns, tx, rx in lines)
    samples_dir.text(f"{_DEVICE}/hccs.data.0", text)
    found = samples_dir.counters()
    assert found["HCCS Tx", None] == [(0, None), (_MS, pytest.approx(2000.0))]
    assert found["HCCS Rx", None] == [(0, None), (_MS, pytest.approx(1000.0))]


def test_port_shares_are_percent(samples_dir: Samples) -> None:
    line = f"{_DEVICE_MONO_NS} 100 5 1310720 200 9 2 4 0 0 0 0 0 0"  # without the number of a port
    samples_dir.text(f"{_DEVICE}/nic.data.0", f"{line}\n")
    found = samples_dir.counters()
    assert found["NIC Port Rx Bandwidth Efficiency", "0"] == [(0, pytest.approx(10.0))]
    assert found["NIC Port Rx Error Rate", "0"] == [(0, 1.0)]
    assert found["NIC Port Rx Dropped Rate", "0"] == [(0, 2.0)]
    assert found["NIC Port Tx Error Rate", "0"] == [(0, None)]


def test_qos_is_named_by_the_options(samples_dir: Samples) -> None:
    samples_dir.change("device_0/sample.json", qosEvents="OTHERS, AI CORE")
    samples_dir.put("qos.data", "2I2Q10I", (0, 0, 0, DEVICE_COUNTER + 50, *range(10)))
    profile = struct.pack("<HHIQQ10I", 0b011000 | 1 << 10, 0x6BD3, 0, DEVICE_COUNTER + 100, 0, *range(10, 20))
    samples_dir.directory.streams[f"{_DEVICE}/stars_soc_profile.data.0"] += profile
    assert samples_dir.counters() == {
        ("QoS", "OTHERS"): [(1000, 0.0), (2000, 10.0)],
        ("QoS", "AI CORE"): [(1000, 1.0), (2000, 11.0)],
    }


@pytest.mark.slow
def test_links_between_chips_and_power_samples(samples_dir: Samples) -> None:
    link = struct.pack("<HHIQHHIIIQQ", 0b011011 | 0b111111 << 10, 0x6BD3, 0, DEVICE_COUNTER + 50, 0, 3, 0, 0, 0, 7, 8)
    power = struct.pack("<HHIQQ20H", 0b011101 | 1 << 10, 0x6BD3, 0, DEVICE_COUNTER + 50, 0, *range(20))
    other = struct.pack("<HHIQ", 0b000111, 0x6BD3, 0, DEVICE_COUNTER + 50)
    stream = b"".join(record.ljust(64, b"\0") for record in (link, power, other))
    samples_dir.directory.streams[f"{_DEVICE}/stars_soc_profile.data.0"] += stream
    found = samples_dir.counters()
    assert found["Stars Chip Trans PA Link Rx", "3"] == [(1000, 7.0)]
    assert found["Stars Chip Trans PA Link Tx", "3"] == [(1000, 8.0)]
    assert [found[f"Low Power {column}", "1"][0][1] for column in range(4)] == [1.0, 0.0, 3.0, 2.0]
    notes = samples_dir.read().notes.to_frame()["message"]
    assert "stars_soc_profile: records of other types skipped" in set(notes)


def test_voltages_are_distinguished_by_their_kind(samples_dir: Samples) -> None:
    changes = [(DEVICE_COUNTER + 100, 850, 1), (DEVICE_COUNTER + 50, 800, 1), (DEVICE_COUNTER, 900, 2)]
    values = [value for change in changes for value in change]
    samples_dir.put("lpmInfoConv.data", f"II{'QII' * 3}{52 * 16}x", (3, 0, *values))
    assert samples_dir.counters() == {
        ("AIC Voltage", None): [(1000, 800.0), (2000, 850.0)],
        ("BUS Voltage", None): [(0, 900.0)],
    }


@pytest.mark.slow
def test_cores_sampled_by_time_are_no_counters_of_kernels(samples_dir: Samples) -> None:
    samples_dir.change("device_0/sample.json", ai_core_profiling_mode="sample-based")
    for core in (2, 30):
        counters = (100, 500, 0, 0, 0, 0, 0, 0)  # vec and mac
        samples_dir.put(
            "ffts_profile.data", "BBHHH8QQQBB6x", (1, 0, 0, 0, 0, *counters, 1000, _DEVICE_MONO_NS + 9, 8, core)
        )
    samples_dir.directory.launch(0, "one", 3, 0)
    found = samples_dir.counters()
    assert found["aic_mac_ratio", "2"] == [(9, 0.5)]
    assert found["aiv_vec_ratio", "30"] == [(9, 0.1)]
    assert found["aic_total_cycles", "2"] == [(9, 1000.0)]
    decoded = samples_dir.read()
    assert len(decoded.tables["kernels"]) == 1
    assert not any(str(column).startswith("aic_") for column in decoded.tables["kernels"])
    assert not decoded.notes.to_frame()["message"].str.contains("ffts_profile").any()


def test_overfull_cpu_is_left_out(samples_dir: Samples) -> None:
    samples_dir.change("host/info.json", sysClockFreq=100, cpuNums=2)
    tail = "R " + "0 " * 10 + "{} 0 " + "0 " * 23 + "{}" + " 0" * 13
    for second, ticks in ((0, (0, 0, 0)), (1, (90, 90, 50))):
        lines = [f"time {HOST_COUNTER + second * 100_000_000}", f"{36_000 + second}.00 5.00"]
        for thread, (used, cpu) in enumerate(zip(ticks, (0, 0, 1), strict=True)):
            lines.append(f"{thread} (a b) c) " + tail.format(used, cpu))
        samples_dir.text("host/data/host_cpu.data", "\n".join(lines) + "\n")
    found = samples_dir.counters()
    assert found == {("CPU Usage CPU", "1"): [(0, 50.0)], ("CPU Usage CPU Avg", None): [(0, 115.0)]}


def test_disk_and_network_of_the_host(samples_dir: Samples) -> None:
    samples_dir.change("host/sample.json", host_disk_freq=50)
    samples_dir.change(
        "host/info.json", netCard=[{"netCardName": "eth0", "speed": 8}, {"netCardName": "lo", "speed": -1}]
    )
    iotop = "12:00:00 4242 be/4 root {} M/s 512.00 B/s 0.00 % {} % python\n"
    text = f"start_time {HOST_COUNTER + 100}\nTotal DISK READ : 0.00 B/s\n" + iotop.format("1.00", "2.5") * 2
    samples_dir.text("host/data/host_disk.data", text)
    for second in (0, 1):
        card = (
            f"  eth0: {second * 50_000} 1 0 0 0 0 0 0 {second * 50_000} 1 0 0 0 0 0 0\n    lo: 9 9 9 9 9 9 9 9 9 9 9\n"
        )
        samples_dir.text("host/data/host_network.data", f"time {HOST_COUNTER + second * 100_000_000}\n{card}")
    found = samples_dir.counters()
    assert found["Disk Usage", None] == [(1000, 2.5), (20_001_000, 2.5)]
    assert found["Disk Usage Read", None][0] == (1000, 1024.0)
    assert found["Disk Usage Write", None][0] == (1000, 0.5)
    assert found["Network Usage", None] == [(0, pytest.approx(10.0))]
    assert found["Network Usage Rate", None] == [(0, pytest.approx(100_000 / 1024))]


@pytest.mark.slow
@pytest.mark.parametrize("cards", [[], [{"netCardName": "eth0", "speed": -1}], None])
def test_the_rate_of_each_network_card_is_known_without_its_speed(samples_dir: Samples, cards: Any) -> None:
    samples_dir.change("host/info.json", netCard=cards)
    head = "Inter-|   Receive                    |  Transmit\n face |bytes    packets errs drop|bytes    packets errs\n"
    card = "  {}: {} 1 0 0 0 0 0 0 {} 1 0 0 0 0 0 0\n"
    for second in (0, 1, 2):
        text = card.format("eth0", second * 1024, second * 1024) + card.format("bond0", second * 4096, 0)
        text = f"time {HOST_COUNTER + second * 100_000_000}\n{head}{text}{card.format('lo', second * 9, second * 9)}"
        samples_dir.text("host/data/host_network.data", text)
    found = samples_dir.counters()
    assert {key: [value for _, value in rows] for key, rows in found.items()} == {
        ("Network Usage Rate", "eth0"): [2.0, 2.0],
        ("Network Usage Rate", "bond0"): [4.0, 4.0],
    }
    assert "usage in percent is unknown" in " ".join(samples_dir.read().notes.to_frame()["message"])


def _aicpu(kind: int, stamp: int, body: bytes) -> bytes:
    return (struct.pack("<HHIIIQ", 0x5A5A, 6000, kind, 1, 232, DEVICE_COUNTER + stamp) + body).ljust(256, b"\0")


def _node(stream: int, task: int, start: int, end: int) -> bytes:
    ticks = (DEVICE_COUNTER + start, DEVICE_COUNTER + end)
    head = struct.pack("<HHIQQQQQQQ", stream, task, 0, 0, ticks[0], 10, 13, 15, 0, ticks[1])
    tail = struct.pack("<IIQQQQIIIHBB", 0, 0, ticks[0] - 5, 0, 0, ticks[1] + 5, 0, 4, 0, 0, 1, 0)
    return _aicpu(0, start, head + tail)


def test_nodes_of_ai_cpus_belong_to_the_kernel_that_ran_then(samples_dir: Samples) -> None:
    for turn, at in enumerate((0, 10_000)):  # one task id, used twice
        samples_dir.directory.launch(at, f"node {turn}", 3, 0)
    stream = _node(3, 0, 5060, 5090) + _node(3, 0, 60, 90) + _node(9, 9, 60, 90) + _node(3, 0, 60, 20)
    samples_dir.directory.streams[f"{_DEVICE}/aicpu.data.0"] += stream
    decoded = samples_dir.read()
    rows = decoded.statistics["aicpu"][["Node", "Timestamp(ns)", "Compute_time(us)", "Memcpy_time(us)"]]
    assert rows["Node"].tolist() == ["node 1", "node 0", None]
    assert rows["Timestamp(ns)"].tolist() == [START_NS + 101_200, START_NS + 1200, START_NS + 1200]
    assert decoded.statistics["aicpu"]["Task_time(us)"].tolist() == [0.6] * 3
    assert decoded.statistics["aicpu"]["Total_time(us)"].tolist() == [0.8] * 3
    kernels = decoded.tables["kernels"]
    assert kernels["aicpu_compute_ns"].tolist() == [3000, 3000]
    assert kernels["aicpu_copy_ns"].tolist() == [2000, 2000]
    assert "nodes without start or end" in " ".join(decoded.notes.to_frame()["message"])


def test_other_records_of_ai_cpus_are_tables_of_their_own(samples_dir: Samples) -> None:
    stamps = [DEVICE_COUNTER + tick for tick in range(50, 57)]
    records = [
        _aicpu(1, 50, struct.pack("<16s64s8xQ", b"dequeue", b"queue_7", 9)),
        _aicpu(2, 50, struct.pack("<QIHHQ", 1, 2, 3, 0, 4)),
        _aicpu(3, 50, struct.pack("<IIQQQ", 1, 0, 5, 100, 250)),
        _aicpu(4, 50, struct.pack("<7QQIHHBBB", *stamps, 0, 0, 3, 1, 1, 2, 1)),
        _aicpu(5, 50, struct.pack("<3QQIHHBBB", *stamps[:2], 0, 0, 0, 3, 1, 1, 2, 1)),
        _aicpu(11, 50, struct.pack("<HHI", 3, 4, 5)),
        _aicpu(99, 50, b""),
    ]
    samples_dir.directory.streams[f"{_DEVICE}/aicpu.data.0"] += b"".join(records)
    decoded = samples_dir.read()
    found = {name: frame.astype(object).to_numpy().tolist() for name, frame in decoded.statistics.items()}
    moment = START_NS + 1000
    assert found["dp"] == [[0, moment, "dequeue", "queue_7", 9]]
    assert list(decoded.statistics["dp"].columns)[2:] == ["Action", "Source", "Cached Buffer Size"]
    assert found["aicpu_model"] == [[0, moment, 1, 2, 3, 4]]
    assert found["aicpu_mi"] == [[0, "GetNext_dequeue_wait", 100, 250, 5]]
    assert found["kfc_comm_turn"] == [[0, 3, 1, 2, 1, *(moment + tick * 20 for tick in range(7))]]
    assert found["kfc_compute_turn"][0][:7] == [0, 3, 1, 2, 1, moment, moment + 20]
    assert decoded.statistics["kfc_compute_turn"]["compute_end(ns)"].isna().all()
    assert found["aicpu_flip"] == [[0, moment, 3, 4, 5]]
    notes = decoded.notes.to_frame().set_index("message")["count"]
    assert notes["aicpu: records of other types are not decoded"] == 1


def test_cache_rates_of_a_task_id_used_twice_go_by_turns(samples_dir: Samples) -> None:
    samples_dir.change("device_0/sample.json", l2CacheTaskProfilingEvents="0xfb,0xfc,0x90,0x91,0x9c")
    for turn, at in enumerate((0, 10_000)):
        samples_dir.directory.launch(at, f"op {turn}", 3, 0)
    samples_dir.directory.launch(20_000, "alone", 3, 1)
    counters = (50, 50, 30, 40, 10, 0, 0, 0)
    tasks = ((0, 3, 0), (0, 3, 0), (0, 3, 1), (0, 3, 1))
    samples_dir.put("l2_cache.data", "HHHH8Q", *((*task, 0, *counters) for task in tasks))
    frame = samples_dir.read().statistics["l2_cache"]
    assert frame["Op Name"].tolist() == ["op 0", "op 1", None, None]  # two records, one kernel: whose is not known
    assert frame["Hit Rate"].isna().all()  # the vendor shows none for this chip
    assert frame["Victim Rate"].tolist() == [0.1] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "family"), FAMILIES.items())
def test_cache_hit_rate_follows_the_chip(samples_dir: Samples, platform: str, family: Family) -> None:
    samples_dir.change("device_0/info.json.0", platform_version=platform)
    events = {"0xfb": 4, "0xfc": 4, "0x90": 3, "0x91": 3, "0x9c": 2}
    if family is Family.HWTS:
        newer = {"0x78": 4, "0x79": 4, "0x6a": 6, "0x71": 2}
        events = {"0x59": 8, "0x5b": 6, "0x5c": 2} if platform == "1" else newer
    samples_dir.change("device_0/sample.json", l2CacheTaskProfilingEvents=",".join(events))
    samples_dir.put("l2_cache.data", "HHHH8Q", (0, 3, 0, 0, *events.values(), *[0] * (8 - len(events))))
    frame = samples_dir.read().statistics["l2_cache"]
    shown = [] if family in (Family.STARS, Family.STARS_V6) else [0.75]
    assert frame["Hit Rate"].dropna().tolist() == shown
    assert frame["Victim Rate"].tolist() == [0.25]


def test_rates_whose_events_were_not_counted_are_named_in_the_notes(samples_dir: Samples) -> None:
    samples_dir.put("l2_cache.data", "HHHH8Q", (0, 3, 0, 0, *range(8)))
    samples_dir.put("socpmu.data", "8B4H8Q", (*[0] * 8, 0, 3, 0, 1, *range(8)))
    decoded = samples_dir.read()
    assert not decoded.statistics
    messages = " ".join(decoded.notes.to_frame()["message"])
    assert "l2_cache: the events of its rates were not counted" in messages
    assert "socpmu: records that are not of the SMMU skipped" in messages


_ABSURD = (
    "nan nan nan",
    "inf 1 1",
    "1e400 1 1",
    "9" * 400 + " 1 1",
    "-5 -1 -1",
    "5 nan inf",
    "5 1e30 1",
    "\0" * 10_000,
    "5",
)


@pytest.mark.slow
@pytest.mark.parametrize("line", _ABSURD)
def test_absurd_lines_are_skipped_and_counted(line: str, samples_dir: Samples) -> None:
    samples_dir.text(f"{_DEVICE}/hccs.data.0", f"timestamp tx rx\n{line}\n5 1 1\n")
    decoded = samples_dir.read()
    assert decoded.tables["counters"]["time_ns"].tolist() == [START_NS] * 2
    assert "skipped" in " ".join(decoded.notes.to_frame()["message"])


@pytest.mark.long
@pytest.mark.parametrize(
    "line", [*_ABSURD, "\v", "\x85", "time nan", "time 99999999999999999999", "time", ")", "1 (a) R 1"]
)
@pytest.mark.parametrize("stream", ["host_cpu.data", "host_mem.data", "host_disk.data", "host_network.data"])
def test_absurd_lines_of_the_host_never_stop_the_reading(line: str, stream: str, samples_dir: Samples) -> None:
    samples_dir.change("host/info.json", memoryTotal=1 << 30, cpuNums=2, netCard=[None, {"speed": "x"}, 3])
    samples_dir.text(f"host/data/{stream}", f"{line}\n" * 3)
    values = samples_dir.read().tables["counters"]["value"]
    assert values.dropna().between(0, 100).all()


def _sample(second: int, *below: str) -> str:
    stamp = HOST_COUNTER + second * 100_000_000
    return "\n".join([f"TimeStamp:{stamp}", f"Index:{second}", "DataLen:99", *below, "", ""])


def _stat(used: int, system: int) -> str:
    return "7 (my (odd) name) S " + "0 " * 10 + f"{used} {system} " + "0 " * 30


def test_all_processes_and_the_machine_are_sampled(samples_dir: Samples) -> None:
    for second, (idle, busy) in enumerate(((0, 0), (60, 40))):
        machine = (f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0", f"cpu0 {busy} 0 0 0 {idle} 0 0 0 0 0")
        samples_dir.text("host/data/SystemCpuUsage.data", _sample(second, *machine))
        process = (_stat(busy // 4, busy // 4), "ProcessName:my (odd) name", machine[0])
        samples_dir.text("host/data/7-CpuUsage.data", _sample(second, *process))
    samples_dir.text(
        "host/data/Memory.data", _sample(0, "MemTotal:  4096 kB", "MemFree: 1024 kB", "HugePages_Total: 0")
    )
    samples_dir.text("host/data/7-Memory.data", _sample(0, "100 50 25 1 0 9 0", "ProcessName:sh"))
    found = samples_dir.counters()
    assert found == {
        ("System CPU Usage", "all"): [(0, 40.0)],
        ("System CPU Usage", "0"): [(0, 40.0)],
        ("Process CPU Usage", "7 my (odd) name"): [(0, 20.0)],
        ("System Memory Total", None): [(0, 4096.0)],
        ("System Memory Free", None): [(0, 1024.0)],
        ("Process Memory Size", "7 sh"): [(0, 400.0)],
        ("Process Memory Resident", "7 sh"): [(0, 200.0)],
        ("Process Memory Shared", "7 sh"): [(0, 100.0)],
    }


def test_process_stamps_may_be_monotonic(samples_dir: Samples) -> None:
    text = f"TimeStamp:{MONO_NS + 3}\nIndex:0\n100 50 25 1 0 9 0\n\n"
    samples_dir.text("host/data/7-Memory.data", text)
    assert samples_dir.counters()["Process Memory Size", "7"] == [(3, 400.0)]


@pytest.mark.long
@pytest.mark.parametrize(
    "line", [*_ABSURD, "\v", "TimeStamp:", "TimeStamp:nan", "TimeStamp:99999999999999999999", "cpu"]
)
@pytest.mark.parametrize("stream", ["SystemCpuUsage.data", "Memory.data", "7-CpuUsage.data", "7-Memory.data"])
def test_absurd_lines_of_processes_never_stop_the_reading(line: str, stream: str, samples_dir: Samples) -> None:
    samples_dir.text(f"host/data/{stream}", f"{line}\n" * 3 + _sample(0, line))
    values = samples_dir.read().tables["counters"]["value"]
    assert values.dropna().between(0, 100).all()


def test_many_processes_are_few_notes(samples_dir: Samples) -> None:
    for process in range(1, 61):
        samples_dir.text(f"host/data/{process}-CpuUsage.data", "torn\n" + _sample(0, "torn"))
    notes = samples_dir.read().notes.to_frame().set_index("source")["count"]
    assert notes["host_sys_usage"] == 120  # a line above the first sample, and a sample without numbers, of each
    assert not notes.index.str.contains("CpuUsage").any()
