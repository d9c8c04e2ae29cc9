"""The records that each happening leaves."""

from __future__ import annotations

import struct
import threading

import pytest

from npuprof.simulator import Event, Simulator, Tensor, acl
from npuprof.simulator.cost_model import Core
from npuprof.simulator.device_view import Task
from npuprof.sources import raw
from tests.conftest import FakeClock
from tests.simulator import reading
from tests.simulator.conftest import Record
from tests.simulator.work import HALF, everything, matmul


def test_the_calls_of_a_launch_are_nested(record: Record) -> None:
    recording = record(matmul)
    acl_call, node, runtime = reading.apis(recording)
    assert reading.api_names(recording) == ["aclnnMatmul", "launch", "KernelLaunch"]
    (track,) = reading.tracks(recording)
    basic = reading.stream(recording, "aging.compact.node_basic_info")
    (described,) = struct.unpack_from("<Q", basic, 16)
    assert acl_call[5] < node[5] < runtime[5] < track.time < runtime[6] < described < node[6] < acl_call[6]
    assert {call[3] for call in (acl_call, node, runtime)} == {track.thread} == {threading.get_native_id()}
    names = reading.dictionary(recording, "hash_dic")
    assert names[str(node[7])] == names[str(track.name)] == "aclnnMatmul_MatMulV3_MatMulV3"
    assert names[str(struct.unpack_from("<Q", basic, 36)[0])] == "MatMulV3"
    assert (track.task_type, track.blocks) == (0, 24)
    assert struct.unpack_from("<I", basic, 44) == (24,)


def test_the_device_says_when_the_task_ran(record: Record) -> None:
    tasks = []
    recording = record(lambda machine: tasks.append(machine.device(0).launch("Add", outputs=(HALF,))))
    start, end = reading.soc(recording)
    assert (start.function, end.function, start.sqe, start.counter, end.counter) == (0, 1, 2, 0, 1)
    assert reading.device_ns(recording, start.tick) == tasks[0].start_ns
    assert reading.device_ns(recording, end.tick) == tasks[0].end_ns


def test_more_than_five_operands_take_several_records(record: Record) -> None:
    inputs = tuple(Tensor((2, index + 1), "float32", "NCHW") for index in range(6))
    recording = record(lambda machine: machine.device(0).launch("Concat", inputs=inputs, outputs=(Tensor(()),)))
    first, second = reading.cut(reading.stream(recording, "aging.additional.tensor_info"), 256)
    assert first[16:32] == second[16:32]  # the same time and operator
    assert (struct.unpack_from("<I", first, 32), struct.unpack_from("<I", second, 32)) == ((5,), (2,))
    assert struct.unpack_from("<11I", first, 36 + 44) == (0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0)
    assert struct.unpack_from("<11I", second, 36 + 44) == (1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0)


def test_counters_give_back_the_roofline(record: Record) -> None:
    recording = record(matmul)
    (data,) = reading.cut(reading.stream(recording, "ffts_profile.data.0"), 128)
    cycles, *counters = struct.unpack_from("<Q8x8Q", data, 32)
    start, end = reading.soc(recording)
    duration_us = (end.tick - start.tick) / 50
    assert cycles == pytest.approx(duration_us * 1800 * 24, rel=1e-3)
    assert struct.unpack_from("<H", data)[0] & 63 == 0b101000
    assert struct.unpack_from("<2Q", data, 112) == (start.tick, end.tick - 1)
    mac = dict(zip((0x8, 0xA, 0x9, 0xB, 0xC, 0xD, 0x54, 0x55), counters, strict=True))[0xA]
    assert mac == pytest.approx(2 * 1024**3 / 8192, rel=1e-3)
    assert max(counters) < cycles


def test_mixed_kernel_has_inner_task_and_counters(record: Record) -> None:
    recording = record(
        lambda machine: machine.device(0).launch("FlashAttentionScore", core="MIX_AIC", block_num=3, flops=10**9)
    )
    assert [row.function for row in reading.soc(recording)] == [0, 0b100010, 1, 0b100011]
    context, *blocks = reading.cut(reading.stream(recording, "ffts_profile.data.0"), 128)
    assert len(blocks) == 3 * 2
    assert context[16] == 6
    assert struct.unpack_from("<H", context, 20)[0] >> 13 == 4
    assert [struct.unpack_from("<2H", block, 28) for block in blocks] == [(s, b) for b in range(3) for s in range(2)]
    assert {block[20] & 1 for block in blocks} == {1}
    (track,) = reading.tracks(recording)
    assert (track.task_type, track.blocks, track.mix) == (108, 3, 2)


def test_vector_kernel_keeps_no_cube_busy(record: Record) -> None:
    recording = record(lambda machine: machine.device(0).launch("LpNormV2", core="MIX_AIV", block_num=48, flops=10**6))
    assert [row.function for row in reading.soc(recording)] == [0, 0b100010, 1, 0b100011]
    (context,) = reading.cut(reading.stream(recording, "ffts_profile.data.0"), 128)
    assert context[16] == 7
    (track,) = reading.tracks(recording)
    assert (track.task_type, track.blocks, track.mix) == (109, 48, 0)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 24, 48, 100])
def test_no_core_is_busier_than_its_task_lasts(record: Record, blocks: int) -> None:
    """The vendor divides the cube's cycles by the duration of the task: counters of two cores for one gave 200 %."""
    tasks: list[Task] = []
    cores: tuple[Core, ...] = ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV")

    def work(machine: Simulator) -> None:
        launch = machine.device(0).launch
        tasks.extend(launch(core, core=core, block_num=blocks, outputs=(HALF,), flops=10**9) for core in cores)

    kernels = raw.read(record(work)).tables["kernels"].set_index("core")
    assert list(kernels.index) == list(cores)
    assert kernels["duration_ns"].tolist() == [task.end_ns - task.start_ns for task in tasks]
    used = kernels["cube_utilization_percent"]
    assert used[["AI_VECTOR_CORE", "MIX_AIV"]].fillna(0).tolist() == [0, 0]
    assert ((used > 0) & (used <= 100.5))[["AI_CORE", "MIX_AIC"]].all()  # a tick of 20 ns is less than 0.5 % of them
    for unit in ("aic", "aiv"):
        busy_ns = kernels[f"{unit}_total_cycles"] / 1.8 / kernels["duration_ns"]  # at 1,800 MHz, of all cores together
        assert (busy_ns.fillna(0) <= {"aic": 24, "aiv": 48}[unit] * 1.005).all()


def test_a_copy_is_described_once_and_tracked_for_each_part(record: Record) -> None:
    recording = record(lambda machine: machine.device(0).copy("host_to_device", 100 << 20))
    (info,) = reading.cut(reading.stream(recording, "aging.compact.memcpy_info"), 64)
    assert struct.unpack_from("<QQH", info, 24) == (100 << 20, 64 << 20, 1)
    tracks = reading.tracks(recording)
    assert [track.task_type for track in tracks] == [5, 5]
    assert {track.time for track in tracks} == {struct.unpack_from("<Q", info, 16)[0]}
    assert {row.sqe for row in reading.soc(recording)} == {17}


def test_events_are_tasks(record: Record) -> None:
    def work(machine: Simulator) -> None:
        event = Event()
        machine.device(0).record_event(event)
        machine.device(0).wait_event(event)

    recording = record(work)
    assert [track.task_type for track in reading.tracks(recording)] == [2, 3]
    assert [row.sqe for row in reading.soc(recording)] == [4, 4, 5, 5]


def test_a_wrap_of_task_ids_is_announced_on_both_sides(record: Record) -> None:
    def work(machine: Simulator) -> None:
        machine.device(0).default_stream.next_task_id = 0xFFFF
        matmul(machine, 2)

    recording = record(work)
    last, flip, first = reading.tracks(recording)
    assert (last.task, flip.task, flip.flip, flip.task_type, first.task) == (0xFFFF, 0, 1, 98, 0)
    assert last.time < flip.time < first.time
    (data,) = reading.cut(reading.stream(recording, "ts_track.data.0"), 40)
    function, tick, stream, count = struct.unpack_from("<xB6xQHH", data)
    assert (function, stream, count) == (0x0E, 0, 1)
    ticks = [row.tick for row in reading.soc(recording)]
    assert ticks[1] < tick < ticks[2]


def test_a_destroyed_stream_is_announced(record: Record) -> None:
    def work(machine: Simulator) -> None:
        stream = machine.device(0).create_stream()
        machine.device(0).launch("Add", stream=stream)
        machine.device(0).destroy_stream(stream)

    recording = record(work)
    _, track = reading.tracks(recording)
    assert (track.task_type, track.stream, track.flip) == (98, 1, 0xFFFF)
    (data,) = reading.cut(reading.stream(recording, "ts_track.data.0"), 40)
    tick, stream, count = struct.unpack_from("<QHH", data, 8)
    assert (stream, count) == (1, 0xFFFF)
    assert tick > reading.soc(recording)[-1].tick


def test_marks(record: Record, clock: FakeClock) -> None:
    def work(machine: Simulator) -> None:
        marker = machine.marker
        stamp = marker.create_stamp()
        marker.set_message(stamp, "däta")
        marker.push(stamp)
        clock.advance(1000)
        marker.mark(stamp)
        marker.pop()
        number, _ = marker.range_start(stamp)
        clock.advance(500)
        marker.range_stop(number)
        marker.mark_on_stream("on the device", machine.device(0), machine.device(0).default_stream)

    recording = record(work, 0x80)
    rows = reading.cut(reading.stream(recording, "aging.additional.msproftx"), 256)
    fields = [struct.unpack_from("<HH4xHH4xIII", row, 24) for row in rows]
    spans = [struct.unpack_from("<QQQ", row, 64) for row in rows]
    assert [kind for *_, kind in [struct.unpack_from("<I", row, 48) for row in rows]] == [0, 1, 2, 3]
    assert [end - start for start, end, _ in spans] == [0, 1000, 500, 0]
    assert [row[100:].partition(b"\0")[0].decode() for row in rows] == ["däta"] * 3 + ["on the device"]
    assert [info_type for info_type, *_ in fields] == [0, 0, 0, 1]
    (track,) = reading.cut(reading.stream(recording, "ts_track.data.0"), 40)
    index, tag = struct.unpack_from("<Q", track, 16)[0], struct.unpack_from("<H", track, 36)[0]
    assert (track[1], index, tag) == (0x0A, spans[3][2], 11)
    domain = struct.unpack_from("<Q", rows[3], 88)[0]
    assert reading.dictionary(recording, "hash_dic")[str(domain)] == "default"


def test_steps_are_tagged_on_the_device(record: Record) -> None:
    def work(machine: Simulator) -> None:
        step = machine.marker.create_step_info()
        for tag in (0, 1, 60000, 60001):
            assert machine.marker.step(step, tag, machine.device(0), None) == 0
        assert machine.marker.step(step, 7, machine.device(0), None) == 100000

    rows = reading.cut(reading.stream(record(work), "ts_track.data.0"), 40)
    assert [(row[1], *struct.unpack_from("<Q", row, 16), *struct.unpack_from("<H", row, 36)) for row in rows] == [
        (0x0A, 1, 60000),
        (0x0A, 1, 60001),
        (0x0A, 2, 60000),
        (0x0A, 2, 60001),
    ]


def test_memory_is_sampled_at_the_frequency_asked_for(record: Record, clock: FakeClock) -> None:
    def work(machine: Simulator) -> None:
        device = machine.device(0)
        acl.rt.set_device(0)
        clock.advance(25_000_000)
        device.allocate(1 << 30)
        device.copy("device_to_device", 64 << 20)
        clock.advance(50_000_000)

    recording = record(work, 0x1000, settings={3: "50"})
    process = list(struct.iter_unpack("<IIQQQ", reading.stream(recording, "npu_mem.app.0")))
    device = list(struct.iter_unpack("<IIQQQ", reading.stream(recording, "npu_mem.data.0")))
    assert [row[0] for row in process] == [0, 20_000, 40_000, 60_000]
    assert [row[4] for row in process] == [0, 0, 1 << 30, 1 << 30]
    assert {row[1] for row in process} == {0}
    assert {row[1] for row in device} == {1}
    traffic = list(struct.iter_unpack("<QQII", reading.stream(recording, "hbm.data.0")))
    for event in (0, 1):
        assert sum(count * 32 for _, count, kind, _ in traffic if kind == event) == pytest.approx(64 << 20, rel=1e-6)
    assert {time_us for time_us, count, *_ in traffic if count} == {40_000}


def test_stop_waits_until_the_device_has_run_everything(record: Record, clock: FakeClock) -> None:
    tasks = []

    def work(machine: Simulator) -> None:
        big = Tensor((16384, 16384), "float16")
        tasks.append(machine.device(0).launch("Add", inputs=(big, big), outputs=(big,)))

    recording = record(work)
    assert clock.now_ns >= tasks[0].end_ns
    assert int(reading.content(recording, "host/end_info")["clockMonotonicRaw"]) >= tasks[0].end_ns
    assert len(reading.soc(recording)) == 2


def test_device_records_are_in_order_of_time_and_numbered(record: Record) -> None:
    def work(machine: Simulator) -> None:
        other = machine.device(0).create_stream()
        for _ in range(20):
            big = Tensor((4096, 4096), "float16")
            machine.device(0).launch("Add", inputs=(big, big), outputs=(big,))
            machine.device(0).launch("Cast", inputs=(HALF,), outputs=(HALF,), stream=other)

    rows = reading.soc(record(work))
    assert [row.tick for row in rows] == sorted(row.tick for row in rows)
    assert [row.counter for row in rows] == [number % 16 for number in range(80)]


def test_threads_can_be_recorded_at_once(record: Record) -> None:
    def work(machine: Simulator) -> None:
        threads = [threading.Thread(target=matmul, args=(machine, 100)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = record(work)
    tracks = reading.tracks(recording)
    assert sorted(track.task for track in tracks) == list(range(400))
    assert len({track.thread for track in tracks}) == 4
    assert len(reading.apis(recording)) == 1200


def test_the_same_work_on_the_same_clock_gives_the_same_bytes(record: Record, clock: FakeClock) -> None:
    begin_ns = clock.now_ns
    contents = []
    for _ in range(2):
        clock.now_ns = begin_ns
        contents.append(reading.stream(record(lambda machine: matmul(machine, 3)), "aging.api_event.data"))
    assert contents[0] == contents[1]


@pytest.mark.slow
@pytest.mark.parametrize("metric", [0, 1, 2, 3, 4, 5, 6, 8])
def test_every_metric_set_names_its_events_and_counts_within_reason(metric: int, record: Record) -> None:
    recording = record(everything, 0x27, metric)
    events = reading.content(recording, "device_0/sample.json")["ai_core_profiling_events"].split(",")
    rows = reading.cut(reading.stream(recording, "ffts_profile.data.0"), 128)
    counters = [struct.unpack_from("<8Q", row, 48) for row in rows]
    assert all(not any(row[len(events) :]) for row in counters)
    assert any(any(row) for row in counters)
    assert all(int(event, 16) for event in events)
