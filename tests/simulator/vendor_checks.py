"""The demands of the vendor's parser, one function for each kind; `check` puts a recording to all of them."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, defaultdict
from pathlib import Path

from tests.simulator.vendor_rules import (
    DEVICE,
    DEVICE_INFO,
    DICTIONARIES,
    FLIP,
    HOST,
    INFO,
    LEVELS,
    METRICS,
    NO_CONTEXT,
    SAMPLE,
    SLICE_BYTES,
    SQE_TYPES,
    STEP_TAGS,
    TASK_TYPES,
    Api,
    Record,
    Recording,
    device_keys,
    host_keys,
    vendor_hash,
)

Interval = tuple[int, int]


def check(path: Path) -> Recording:
    """Put a recording to every rule; gives it for questions of the caller's own."""
    recording = Recording(path)
    for rule in RULES:
        rule(recording)
    return recording


# -- control files -----------------------------------------------------------------------------------------------------


def control_files_hold_what_is_looked_up(recording: Recording) -> None:
    for side in recording.sides:
        info, sample = recording.json(side, "info.json"), recording.json(side, "sample.json")
        assert {key: type(info[key]) for key in INFO} == INFO
        assert {key: type(sample[key]) for key in SAMPLE} == SAMPLE
        assert info["simulated"] is True
        assert info["version"] == "1.0"  # by it the parser chooses the layouts of hbm and npu_mem
        # The two are merged, sample.json winning, and a null would delete a key.
        assert all(info[key] == sample[key] for key in info.keys() & sample.keys())
        assert None not in [*info.values(), *sample.values()]
        assert info["CPU"]
        assert all(isinstance(cpu["Frequency"], str) for cpu in info["CPU"])
        assert info["devices"].isdecimal()
        assert info["pid"].isdecimal()
        assert info["drvVersion"] >= 467473
        assert re.match(r"\d+\.\d+", info["cannVersion"])
        assert all(isinstance(card["speed"], int) for card in info["netCard"])
        assert sample["instrProfilingFreq"] > 0
        assert len(info["DeviceInfo"]) == (side.name != "host")
        for device in info["DeviceInfo"]:
            assert {key: type(device[key]) for key in DEVICE_INFO} == DEVICE_INFO
            assert device["aic_frequency"].isdecimal()
            assert float(device["hwts_frequency"]) > 0
        assert info["devices"] == ("64" if side.name == "host" else side.name.removeprefix("device_"))


def clocks_meet(recording: Recording) -> None:
    for side in recording.sides:
        start, end = recording.json(side, "start_info"), recording.json(side, "end_info")
        assert all(isinstance(value, str) for value in (*start.values(), *end.values()))
        # The parser subtracts without a sign.
        assert int(start["collectionTimeBegin"]) * 1000 >= int(start["clockMonotonicRaw"])
        assert int(start["collectionTimeBegin"]) <= int(end["collectionTimeEnd"])
        host = recording.log(side, "host_start.log")
        assert {"clock_monotonic_raw", "cntvct", "cntvct_diff"} <= host.keys()
        section = recording.conf(side, "host_start.log").read_text().splitlines()[0]
        assert section == ("[Host]" if side.name == "host" else f"[Device{side.name.removeprefix('device_')}]")
        if side.name != "host":
            device = recording.log(side, "dev_start.log")
            assert device["clock_monotonic_raw"] > 0
            assert device["cntvct"] > 0


def span(recording: Recording) -> Interval:
    start, end = (recording.json(recording.sides[0], f"{which}_info") for which in ("start", "end"))
    return int(start["clockMonotonicRaw"]), int(end["clockMonotonicRaw"])


# -- files -------------------------------------------------------------------------------------------------------------


def files_are_named_and_cut_right(recording: Recording) -> None:
    for side in recording.sides:
        suffix = "" if side.name == "host" else f".{side.name.removeprefix('device_')}"
        sizes = {f"aging.{kind}": layout.size for kind, layout in HOST.items()} | {"aging.api_event.data": 40}
        if suffix:
            sizes = {name + suffix: size for name, size in DEVICE.items()}
        slices: dict[str, list[int]] = defaultdict(list)
        for path in (side / "data").iterdir():
            if path.suffix == ".done":
                continue
            match = re.fullmatch(r"(.+)\.slice_(\d+)", path.name)
            assert match, path.name
            size = path.stat().st_size
            assert size
            assert path.with_name(path.name + ".done").read_text() == f"filesize:{size}\n"
            if match[1] not in DICTIONARIES or suffix:
                assert size <= SLICE_BYTES
                # A slice of the host that holds part of a record ends the parser.
                assert suffix or size % sizes[match[1]] == 0
            slices[match[1]].append(int(match[2]))
        for name, numbers in slices.items():
            assert sorted(numbers) == list(range(len(numbers)))
            assert name in DICTIONARIES or len(recording.data(side, name)) % sizes[name] == 0


# -- host --------------------------------------------------------------------------------------------------------------


def host_records_are_well_formed(recording: Recording) -> None:
    begin, end = span(recording)
    for kind, layout in HOST.items():
        records = recording.host(kind)
        assert {(each.magic, each.level, each.type) for each in records} <= {(0x5A5A, layout.level, layout.type)}
        assert all(begin <= each.time <= end and each.length for each in records)
        if records:
            assert recording.types[layout.level, layout.type] == kind.partition(".")[2]
    for api in recording.apis:
        assert api.magic == 0x5A5A
        assert begin <= api.begin < api.end <= end
    for kind in ("tensor_info", "context_id_info"):
        assert all(0 < record.values[1] <= 5 for record in recording.host(f"additional.{kind}"))
    memory = recording.host("additional.task_memory_info")
    assert all(record.length >= 48 for record in memory)


def everything_has_a_name(recording: Recording) -> None:
    assert {level for level, _ in recording.types} <= LEVELS
    assert all((api.level, api.type) in recording.types for api in recording.apis)
    used = {track.values[4] for track in recording.tracks}
    assert {number: recording.types[5000, number] for number in used} == {number: TASK_TYPES[number] for number in used}
    hashes = {api.item for api in recording.apis if api.level == 10000} | {
        number
        for kind, places in (
            ("compact.node_basic_info", (0, 2)),
            ("compact.task_track", (5,)),
            ("additional.tensor_info", (0,)),
            ("additional.context_id_info", (0,)),
            ("additional.task_memory_info", (2,)),
            ("additional.msproftx", (14,)),
        )
        for record in recording.host(kind)
        for number in (record.values[place] for place in places)
    }
    names = recording.hashes
    assert hashes - {0} <= names.keys()
    assert all(vendor_hash(name) == number for number, name in names.items())


def calls_of_a_thread_nest(recording: Recording) -> None:
    for thread in {api.thread for api in recording.apis}:
        open_calls: list[Api] = []
        last_end: dict[int, int] = {}
        for api in (each for each in recording.apis if each.thread == thread):
            # Of two calls of one level that touch, the parser drops the later.
            assert last_end.get(api.level, -1) < api.begin
            last_end[api.level] = api.end
            while open_calls and open_calls[-1].end < api.begin:
                open_calls.pop()
            assert not open_calls or (api.end <= open_calls[-1].end and api.level < open_calls[-1].level)
            open_calls.append(api)


def _holder(calls: list[Api], record: Record) -> Api:
    (found,) = [api for api in calls if api.begin < record.time <= api.end]
    return found


def records_lie_in_their_calls(recording: Recording) -> None:
    calls: dict[tuple[int, int], list[Api]] = defaultdict(list)
    for api in recording.apis:
        calls[api.thread, api.level].append(api)
    for kind in ("compact.node_basic_info", "additional.tensor_info", "additional.context_id_info"):
        for record in recording.host(kind):
            assert _holder(calls[record.thread, 10000], record).item == record.values[0]
    for track in recording.tracks:
        if track.values[4] == FLIP:
            continue
        kernel = recording.types[5000, track.values[4]].startswith("KERNEL")
        if kernel:
            assert _holder(calls[track.thread, 10000], track).item == track.values[5]
        if (track.thread, 20000) in calls:
            _holder(calls[track.thread, 20000], track)


def copies_match_their_tasks(recording: Recording) -> None:
    tracks = Counter((track.thread, track.time) for track in recording.tracks if track.values[4] == 5)
    for record in recording.host("compact.memcpy_info"):
        size, largest, direction = record.values
        assert direction in (1, 2, 3)
        assert tracks.pop((record.thread, record.time)) == max(1, -(-size // largest))
    assert not tracks


def marks_are_whole(recording: Recording) -> None:
    segments: dict[int, list[int]] = defaultdict(list)
    for record in recording.host("additional.msproftx"):
        extended, segment, _, magic, tag, _, thread, _, kind, _, _, begin, end, mark_id, domain, *_ = record.values
        assert (magic, tag, thread) == (0x5A5A, 120, record.thread)
        assert (kind == 3) == (extended == 1) == bool(domain)
        assert record.time == begin <= end
        assert record.values[-1][-1] == 0
        segments[mark_id].append(segment)
    assert all(numbers == list(range(len(numbers))) for numbers in segments.values())
    for device_id in recording.device_ids:
        for data in recording.device(device_id, "ts_track.data"):
            function, index, tag = data[1], *struct.unpack_from("<Q", data, 16), *struct.unpack_from("<H", data, 36)
            assert function in (0x0A, 0x0E)
            assert function == 0x0E or tag in STEP_TAGS
            assert function == 0x0E or tag != 11 or index in segments


# -- device ------------------------------------------------------------------------------------------------------------


def tasks_of_host_and_device_agree(recording: Recording) -> None:
    for device_id in recording.device_ids:
        host, device = host_keys(recording, device_id), device_keys(recording, device_id)
        assert host.keys() == {key[:3] for key in device}
        soc = recording.device(device_id, "stars_soc.data")
        assert len(soc) != 1
        first, last = span(recording)
        for number, data in enumerate(soc):
            head, magic = struct.unpack_from("<HH", data)
            assert (magic, head >> 6 & 15) == (0x6BD3, number % 16)
            assert head >> 10 in SQE_TYPES
        anchor = recording.log(recording.path / f"device_{device_id}", "host_start.log")["clock_monotonic_raw"]
        counter = recording.log(recording.path / f"device_{device_id}", "dev_start.log")["cntvct"]
        for key, (begin, end) in device.items():
            assert first <= host[key[:3]].time <= anchor + (begin - counter) * 20
            assert anchor + (end - counter) * 20 <= last
        mixed = {key[:3] for key in device if key[3] != NO_CONTEXT}
        assert mixed == {key for key, track in host.items() if track.values[4] in (108, 109)}
        assert all((*key, 0) in device and (*key, NO_CONTEXT) in device for key in mixed)


def counters_join_their_tasks(recording: Recording) -> None:
    sample = recording.json(recording.sides[-1], "sample.json")
    assert sample["ai_core_profiling_mode"] == sample["aiv_profiling_mode"] == "task-based"
    for device_id in recording.device_ids:
        records = recording.device(device_id, "ffts_profile.data")
        if not records:
            continue
        events, shares = METRICS[sample["ai_core_metrics"]]
        places = {int(event, 16): place for place, event in enumerate(sample["ai_core_profiling_events"].split(","))}
        assert set(events) == places.keys()
        assert len(places) <= 8
        assert sample["aiv_metrics"] == sample["ai_core_metrics"]
        assert sample["aiv_profiling_events"] == sample["ai_core_profiling_events"]
        tasks: dict[tuple[int, int, int], list[Interval]] = defaultdict(list)
        for key, times in device_keys(recording, device_id).items():
            tasks[key[0], key[2], key[3]].append(times)
        for number, data in enumerate(records):
            head, magic, stream, task = struct.unpack_from("<HHHH", data)
            subtask, context, core, kind = struct.unpack_from("<HHBB", data, 16)
            cycles, _, *counters, begin, end = struct.unpack_from("<QQ8QQQ", data, 32)
            assert (magic, head >> 6 & 15) == (0x6BD3, number % 16)
            plus = kind >> 5 == 4
            assert plus or head & 63 == 40  # only mixed kernels have records of blocks
            assert subtask in ((6, 7) if plus else (0,))
            assert head & 63 == 40 or core & 1 == (subtask == 6)
            # Without tasks there is nothing to join.
            owners = tasks[stream, task, context if plus else NO_CONTEXT]
            assert not tasks or any(first <= begin <= end <= last for first, last in owners)
            assert all(counters[places[event]] <= cycles for event in shares)


def cores_are_no_more_than_the_chip_has(recording: Recording) -> None:
    """Check cycles as the vendor computes with them: cube utilisation, and the time of each kind of core."""
    for device_id in recording.device_ids:
        side = recording.path / f"device_{device_id}"
        (facts,) = recording.json(side, "info.json")["DeviceInfo"]
        cores = {0: facts["ai_core_num"], 1: facts["aiv_num"]}
        cycles: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for data in recording.device(device_id, "ffts_profile.data"):
            head, _, stream, task, _, _, subtask, _, core, kind = struct.unpack_from("<HHHHIIHHBB", data)
            vector = core & 1 if head & 63 == 41 else int(subtask == 7 or (kind >> 5 != 4 and head >> 10 == 2))
            begin, end = struct.unpack_from("<QQ", data, 112)
            cycles[stream, task, vector, end - begin + 1].append(struct.unpack_from("<Q", data, 32)[0])
        for (_, _, vector, ticks), found in cycles.items():
            available = ticks * 20 * int(facts["aic_frequency"]) // 1000
            assert sum(found) <= available * cores[vector]
            assert len(found) == 1 or max(found) * math.ceil(len(found) / cores[vector]) <= available


def other_device_data_is_well_formed(recording: Recording) -> None:
    for device_id in recording.device_ids:
        side = recording.path / f"device_{device_id}"
        counter = recording.log(side, "dev_start.log")["cntvct"]
        entries = []
        for data in recording.device(device_id, "lpmFreqConv.data"):
            count = struct.unpack_from("<I", data)[0]
            assert 0 < count <= 55
            entries += [struct.unpack_from("<QI", data, 8 + 16 * place) for place in range(count)]
        assert entries == sorted(entries)
        assert all(mhz for _, mhz in entries)
        assert not entries or entries[0][0] < counter  # else the parser assumes a frequency for the beginning
        hbm = [struct.unpack("<QQII", data) for data in recording.device(device_id, "hbm.data")]
        assert [row[0] for row in hbm] == sorted(row[0] for row in hbm)
        assert {row[2] for row in hbm} <= {0, 1}
        sample = recording.json(side, "sample.json")
        assert not hbm or sample["hbm_profiling_events"] == "read,write"
        for name, event in (("npu_mem.app", 0), ("npu_mem.data", 1)):
            assert all(struct.unpack_from("<II", data)[1] == event for data in recording.device(device_id, name))
        if l2 := recording.device(device_id, "l2_cache.data"):
            events = sample["l2CacheTaskProfilingEvents"].split(",")
            assert events == ["0xfb", "0xfc", "0x90", "0x91", "0x9c"]
            for data in l2:
                first, second, *hits, _ = struct.unpack_from("<5Q", data, 8)
                assert sum(hits) <= first + second
        flips = [
            struct.unpack_from("<QHHHH", data, 8)
            for data in recording.device(device_id, "ts_track.data")
            if data[1] == 14
        ]
        host = [track for track in recording.tracks if track.values[0] == device_id and track.values[4] == FLIP]
        assert Counter((row[1], row[2]) for row in flips) == Counter((each.values[1], each.values[3]) for each in host)


RULES = (
    control_files_hold_what_is_looked_up,
    clocks_meet,
    files_are_named_and_cut_right,
    host_records_are_well_formed,
    everything_has_a_name,
    calls_of_a_thread_nest,
    records_lie_in_their_calls,
    copies_match_their_tasks,
    marks_are_whole,
    tasks_of_host_and_device_agree,
    counters_join_their_tasks,
    cores_are_no_more_than_the_chip_has,
    other_device_data_is_well_formed,
)
