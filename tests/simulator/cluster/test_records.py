"""Records of communication: put to the rules of the vendor's parser, and read byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from npuprof import simulator
from npuprof.simulator.cluster.ranks import Rank
from tests.simulator import reading, vendor_checks, vendor_rules
from tests.simulator.vendor_rules import Layout, Recording

pytestmark = pytest.mark.slow

NONE = 0xFFFFFFFF
# Added to what recordings without communication may hold. Source: raw/FORMAT.md sections 4.1, 4.2, 4.4 and 5.1.
HOST = {
    "additional.hccl_info": Layout(256, 5500, 1, "QQQIIIIIIQIIdQQQIIIII"),
    "compact.hccl_op_info": Layout(64, 10000, 10, "BBQQQ"),
}
TASK_TYPES = {14: "NOTIFY_WAIT", 15: "NOTIFY_RECORD", 16: "RDMA_SEND", 92: "REDUCE_ASYNC_V2"}
SQE_TYPES = {6, 7, 16}
# By the device's kind of queue entry, what the host may have launched.
LAUNCHED = {6: {15}, 7: {14}, 11: {5, 92}, 16: {16}}


def work(rank: Rank) -> None:
    x = np.ones(4 << 10, np.float32)
    for _ in range(2):
        rank.device.launch("Add")
        rank.all_reduce(x)
        rank.all_gather(x.astype(np.float16))
        rank.broadcast(x, src=1)
        if rank.rank < 2:
            rank.group([0, 1]).all_reduce(x)


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    for name, layout in HOST.items():
        monkeypatch.setitem(vendor_rules.HOST, name, layout)
    for number, task_type in TASK_TYPES.items():
        monkeypatch.setitem(vendor_rules.TASK_TYPES, number, task_type)
    monkeypatch.setattr(vendor_checks, "LEVELS", vendor_rules.LEVELS | {5500})
    monkeypatch.setattr(vendor_checks, "SQE_TYPES", vendor_rules.SQE_TYPES | SQE_TYPES)
    simulator.ranks(4, per_server=2).run(work, tmp_path)
    return [next((tmp_path / f"rank_{rank}").glob("PROF_*")) for rank in range(4)]


@pytest.mark.slow
def test_recordings_of_ranks_keep_the_rules(recordings: list[Path]) -> None:
    for path in recordings:
        recording = Recording(path)
        for rule in vendor_checks.RULES:
            if rule is not vendor_checks.copies_match_their_tasks:  # those of a collective are told by its own records
                rule(recording)


def test_each_operator_has_its_type(recordings: list[Path]) -> None:
    recording = Recording(recordings[0])
    told = [record for record in recording.host("compact.node_basic_info") if record.values[1] == 9]
    operators = [api for api in recording.apis if api.level == 10000 and api.type >> 16 == 2]
    assert len(told) == len(operators) > 0
    for record, api in zip(told, operators, strict=True):
        assert api.begin < record.time <= api.end
        assert recording.hashes[record.values[2]] == recording.types[10000, api.type]
        assert record.values == (api.item, 9, record.values[2], 0, 0)


@pytest.mark.slow
def test_each_directory_says_which_rank_it_is(recordings: list[Path]) -> None:
    for rank, path in enumerate(recordings):
        assert reading.content(path, "host/info.json")["rank_id"] == rank
        assert reading.content(path, "device_0/info.json.0")["rank_id"] == rank


@pytest.mark.slow
def test_track_lies_in_its_step_and_operator(recordings: list[Path]) -> None:
    recording = Recording(recordings[0])
    steps = [api for api in recording.apis if api.level == 5500]
    operators = [api for api in recording.apis if api.level == 10000 and api.type >> 16 == 2]
    told = [track for track in recording.tracks if track.values[4] in {5, *TASK_TYPES}]
    assert len(steps) == len(told) > 0
    for step, track in zip(steps, told, strict=True):
        assert step.begin < track.time <= step.end
        assert sum(each.begin < step.begin and step.end < each.end for each in operators) == 1
        assert recording.types[5500, step.type] in ("master", "slave")


@pytest.mark.slow
def test_launched_work_is_executed_work(recordings: list[Path]) -> None:
    recording = Recording(recordings[2])
    host = {(track.values[1], track.values[2]): track.values[4] for track in recording.tracks}
    seen = set()
    for row in reading.soc(recordings[2]):
        if row.sqe in LAUNCHED:
            assert host[row.stream, row.task] in LAUNCHED[row.sqe]
            seen.add(row.sqe)
    assert seen == set(LAUNCHED)


@pytest.mark.slow
def test_a_transfer_has_its_ranks_size_and_link(recordings: list[Path]) -> None:
    names = {int(key): name for key, name in reading.dictionary(recordings[1], "hash_dic").items()}
    rows = []
    for data in reading.cut(reading.stream(recordings[1], "aging.additional.hccl_info"), 256):
        (item, _, group, local, remote, size, _, plane, context, notify) = struct.unpack_from("<3Q6IQ", data, 24)
        (estimated,) = struct.unpack_from("<d", data, 88)
        (moved, _, dtype, link, transport, rdma) = struct.unpack_from("<Q5I", data, 112)
        assert (local, size, context, plane) == (1, 2 if "group" in names[group][:5] else 4, NONE, plane)
        assert estimated > 0
        rows.append((names[item], names[group], remote, moved, dtype, link, transport, rdma, notify > 0))
    world = "hccl_world_group"
    # An all-reduce of 16 KiB of single precision: inside the server, across in two rounds, and inside again.
    assert ("Reduce_Inline", world, 0, 8 << 10, 4, 1, 0, NONE, False) in rows
    assert ("RDMASend", world, 3, 4 << 10, 4, 3, 1, 1, False) in rows
    assert ("Notify_Wait", world, 3, 0, 4, 3, 1, NONE, True) in rows
    assert ("Memcpy", world, 0, 16 << 10, 3, 1, 0, NONE, False) in rows  # the gathering of half precision
    assert ("Reduce_Inline", "group_0_1", 0, 8 << 10, 4, 1, 0, NONE, False) in rows


@pytest.mark.slow
def test_an_operator_has_its_data_and_algorithm(recordings: list[Path]) -> None:
    names = {int(key): name for key, name in reading.dictionary(recordings[0], "hash_dic").items()}
    rows = []
    for data in reading.cut(reading.stream(recordings[0], "aging.compact.hccl_op_info"), 64):
        flags, dtype, algorithm, count, group = struct.unpack_from("<BBQQQ", data, 24)
        rows.append((flags, dtype, names[algorithm], count, names[group]))
    assert rows[:4] == [
        (0, 4, "MESH-RING", 4 << 10, "hccl_world_group"),
        (0, 3, "MESH-RING", 4 << 10, "hccl_world_group"),
        (0, 4, "CHAIN-MESH", 4 << 10, "hccl_world_group"),
        (0, 4, "MESH", 4 << 10, "group_0_1"),
    ]
