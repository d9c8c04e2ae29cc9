"""Traces of torch's profiler: exact times, operators, GPU tasks and what caused them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.profiles.profile import Profile
from npuprof.sources import kineto
from npuprof.sources.detect import detect
from npuprof.sources.kineto.kernel_names import short_name
from npuprof.sources.kineto.layouts import joined
from tests.sources.kineto.traces import PROCESS, KinetoTrace, ns

_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array<char*, 1> >(int, float)"
)


@pytest.fixture
def trace() -> KinetoTrace:
    """A step on the CPU and a GPU: a copy, an operator with a kernel, its backward, blocks of memory."""
    trace = KinetoTrace(head={"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU X"}], "with_stack": 1})
    trace.slice("user_annotation", "ProfilerStep#7", 0.001, 100.5, External_id=1)
    trace.slice("user_annotation", "forward", 1.25, 40, External_id=2)
    trace.slice("python_function", "train.py(3): step", 0.5, 90, Python_id=1, Python_parent_id=None)
    trace.slice("python_function", "nn.Module: Linear_0", 1.5, 30, Python_id=2, Python_parent_id=1)
    trace.slice("python_function", "linear.py(9): forward", 1.75, 29, Python_id=3, Python_parent_id=2)
    shapes = {"Input_Dims": [[16], [4, 8], []], "Input_type": ["float", "float", "Scalar"]}
    trace.operator("aten::addmm", 2.125, 20, 10, Sequence_number=3, Fwd_thread_id=0, **shapes)
    trace.operator("aten::fill_", 3, 5, 11)
    trace.slice("cuda_runtime", "cudaLaunchKernel", 4, 2, cbid=211, correlation=77, External_id=11)
    trace.slice("cuda_runtime", "cudaMemcpyAsync", 12, 3, cbid=41, correlation=78, External_id=10)
    trace.on_gpu(
        "kernel",
        _KERNEL,
        8.002,
        6.5,
        0,
        stream=7,
        correlation=77,
        External_id=11,
        grid=[4, 2, 1],
        block=[128, 1, 1],
        registers_per_thread=16,
        shared_memory=1024,
    )
    trace.on_gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 16, 4, 0, stream=7, correlation=78, bytes=4096)
    trace.on_gpu("gpu_user_annotation", "forward", 8, 12, 0, stream=7, External_id=2)
    trace.operator("AddmmBackward0", 60, 10, 20, Sequence_number=3, Fwd_thread_id=1)
    for phase, moment in (("s", 2.125), ("f", 60)):
        trace.add(phase, "fwdbwd", moment, cat="fwdbwd", id=5)
    trace.memory(2.5, 512, 4096, 512)
    trace.memory(50.5, -512, 4096, 0)
    trace.memory(3.5, 2048, 8192, 2048, device=0, reserved=1 << 20)
    trace.add("i", "Record Window End", 101, pid="", tid="", s="g")
    return trace


@pytest.fixture
def run(trace: KinetoTrace, tmp_path: Path) -> Profile:
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    for name in tables.NAMES:
        tables.check(name, getattr(run, name))
    return run


@pytest.mark.slow
def test_trace_is_never_an_npus(run: Profile) -> None:
    info = run.info
    assert (info.collector, info.source, info.chip, info.devices) == ("kineto", "torch profiler trace", "GPU X", [0])
    assert info.options == {"stacks": True}
    assert not info.simulated
    assert (info.started_ns, info.stopped_ns) == (ns(0.001), ns(100.501))
    assert not len(run.notes)


def test_times_are_exact_however_far_they_are_from_the_base(run: Profile) -> None:
    assert run.steps[["step", "start_ns", "duration_ns"]].values.tolist() == [[7, ns(0.001), 100_500]]
    assert run.operators["start_ns"].tolist() == [ns(2.125), ns(3), ns(60)]
    assert run.kernels["start_ns"].tolist() == [ns(8.002)]


@pytest.mark.slow
@given(st.integers(0, 8_000_000_000_000_000))
def test_any_time_of_three_decimals_is_exact(relative_ns: int) -> None:
    moment = f"{relative_ns // 1000}.{relative_ns % 1000:03d}"
    text = '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, '
    text += f'"ts": {moment}, "dur": 1.001}}], "baseTimeNanoseconds": 1000000000000000001}}'
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as directory:
        path = Path(directory) / "t.json"
        path.write_text(text)
        operators = kineto.read(path).tables["operators"]
    assert operators["start_ns"].tolist() == [1_000_000_000_000_000_001 + relative_ns]
    assert operators["duration_ns"].tolist() == [1001]


@pytest.mark.slow
def test_operators_have_shapes_steps_and_stacks(run: Profile) -> None:
    first, second, backward = (run.operators.iloc[row] for row in range(3))
    assert (first["name"], first["input_shapes"], first["input_dtypes"]) == (
        "aten::addmm",
        "16;4,8;",
        "float;float;Scalar",
    )
    assert (first["sequence_number"], first["step"], first["thread_id"]) == (3, 7, PROCESS)
    assert first["stack"] == "linear.py(9): forward\ntrain.py(3): step"
    assert pd.isna(second["input_shapes"])
    assert backward["stack"] == "train.py(3): step"
    assert run.python["depth"].tolist() == [0, 1, 2]


def test_user_ranges_are_marks_with_gpu_time(run: Profile) -> None:
    assert run.marks["message"].tolist() == ["forward"]
    mark = run.marks.iloc[0]
    assert (mark["start_ns"], mark["duration_ns"]) == (ns(1.25), 40_000)
    assert (mark["device_start_ns"], mark["device_duration_ns"]) == (ns(8), 12_000)


@pytest.mark.slow
def test_gpu_work_is_tasks_and_kernels(run: Profile) -> None:
    assert run.tasks["task_type"].tolist() == ["kernel", "gpu_memcpy"]
    assert run.tasks["stream_id"].tolist() == [7, 7]
    assert run.tasks["copied_bytes"].tolist()[1] == 4096
    kernel = run.kernels.iloc[0]
    assert (kernel["op_name"], kernel["op_type"]) == ("aten::fill_", "vectorized_elementwise_kernel")
    assert (kernel["name"], kernel["block_num"], kernel["threads_per_block"]) == (_KERNEL, 8, 128)
    assert (kernel["step"], kernel["shared_memory_bytes"], kernel["connection_id"]) == (7, 1024, 77)


def test_a_collective_is_communication_and_no_kernel(trace: KinetoTrace, tmp_path: Path) -> None:
    told = {"Collective_name": "allreduce", "dtype": "Float", "In_msg_nelems": 65664, "Process_Group_Name": "0"}
    trace.operator("nccl:all_reduce", 25, 4, 12)
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace.on_gpu("kernel", name, 30, 9, 0, stream=20, correlation=80, External_id=12, Group_size=2, **told)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    tables.check("communication", run.communication)
    assert run.kernels["op_name"].tolist() == ["aten::fill_"]
    row = run.communication.iloc[0]
    assert (row["op_type"], row["data_type"], row["count"], row["group"]) == ("allreduce", "Float", 65664, "0")
    assert (row["name"], row["start_ns"], row["rank_size"], row["step"]) == (name, ns(30), 2, 7)
    assert run.tasks["name"].tolist()[-1] == name


@pytest.mark.slow
def test_causes_lead_from_the_operator_over_the_call_to_the_task(run: Profile) -> None:
    rows = [tuple(row) for row in run.links.astype(object).values.tolist()]
    assert sorted(rows) == [
        ("api_task", "api", 0, "tasks", 0),
        ("api_task", "api", 1, "tasks", 1),
        ("forward_backward", "operators", 0, "operators", 2),
        ("operator_api", "operators", 0, "api", 1),
        ("operator_api", "operators", 1, "api", 0),
    ]
    assert run.api["level"].tolist() == ["runtime", "runtime"]


def test_allocations_live_from_one_event_of_their_address_to_the_next(run: Profile) -> None:
    assert run.memory["component"].tolist() == ["CPU", "CUDA", "CPU"]
    assert run.memory["device_id"].fillna(-1).tolist() == [-1, 0, -1]
    assert run.memory["reserved_bytes"].fillna(-1).tolist() == [-1, 1 << 20, -1]
    assert run.allocations["size_bytes"].tolist() == [512, 2048]
    assert run.allocations["allocated_ns"].tolist() == [ns(2.5), ns(3.5)]
    assert run.allocations["released_ns"].fillna(-1).tolist() == [ns(50.5), -1]


def test_a_block_freed_that_was_allocated_before_has_its_end_only(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.operator("aten::add", 0, 1, 1)
    trace.memory(1, -64, 4096, 0)
    trace.memory(2, 32, 4096, 32)
    trace.memory(3, 16, 4096, 48)  # the end of the one before was lost
    blocks = kineto.read(trace.write(tmp_path / "t.json")).tables["allocations"]
    assert blocks["size_bytes"].tolist() == [64, 32, 16]
    assert blocks["allocated_ns"].fillna(-1).tolist() == [-1, ns(2), ns(3)]
    assert blocks["released_ns"].fillna(-1).tolist() == [ns(1), ns(3), -1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_older_versions_have_the_time_base_after_the_events(trace: KinetoTrace, tmp_path: Path, name: str) -> None:
    trace.base_behind = True
    path = trace.write(tmp_path / name)
    assert detect(path).results[0].source.name == "kineto"
    assert npuprof.load(path).operators["start_ns"].iloc[0] == ns(2.125)


def test_times_of_day_need_no_base(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    event = (
        '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1736408883674584.732, "dur": 3}'
    )
    path.write_text('{"schemaVersion": 1, "traceEvents": [' + event + "]}")
    assert kineto.read(path).tables["operators"]["start_ns"].tolist() == [1_736_408_883_674_584_732]


def test_other_timelines_are_not_taken_for_ones_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "trace_view.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": "1.0", "dur": 1}]}))
    assert not kineto.recognises(path)
    assert not kineto.recognises(tmp_path)
    assert not kineto.recognises(tmp_path / "absent")


def test_cut_trace_keeps_whole_events(trace: KinetoTrace, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(trace.text()[:2500])
    decoded = kineto.read(path)
    assert len(decoded.tables["operators"]) == 2
    assert decoded.notes.to_frame()["message"].str.contains("incomplete").any()


@pytest.mark.parametrize("name", ['say "hi"', '"""', '"{x"} "', '"a" "b"'])
def test_unescaped_quotes_belong_to_names(trace: KinetoTrace, tmp_path: Path, name: str) -> None:
    path = tmp_path / "quote.json"
    path.write_text(trace.text().replace('"name": "aten::fill_"', f'"name": "{name}"'))
    decoded = kineto.read(path)
    assert decoded.tables["operators"]["name"].tolist() == ["aten::addmm", name, "AddmmBackward0"]
    notes = decoded.notes.to_frame()
    assert notes[["severity", "count"]].to_numpy().tolist() == [["info", 1]]


def test_no_trace_at_all_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("")
    with pytest.raises(SourceError, match="is empty"):
        kineto.read(path)


@pytest.mark.slow
@given(st.binary(max_size=400), st.integers(0, 3000))
def test_damage_never_ends_the_reading_badly(noise: bytes, place: int) -> None:
    from tempfile import TemporaryDirectory

    trace = KinetoTrace()
    trace.operator("aten::add", 0, 1, 1, Input_Dims=[[2], [3, 4]])
    trace.on_gpu("kernel", _KERNEL, 2, 1, 0, correlation=1, grid=[1, 2, 3])
    trace.memory(3, 16, 4096, 48)
    text = trace.text().encode()
    with TemporaryDirectory() as directory:
        path = Path(directory) / "t.json"
        path.write_bytes(text[:place] + noise + text[place + len(noise) :])
        try:
            decoded = kineto.read(path)
        except SourceError:
            return
    for name, frame in decoded.tables.items():
        tables.check(name, frame)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", None),
        (b"null", None),
        (b"[]", None),
        (b"[[16], [4, 8], []]", "16;4,8;"),
        (b'["float", "Scalar"]', "float;Scalar"),
        (b'"16;4"', "16;4"),
        (b"[[1", None),
        (b"\xff", None),
    ],
)
def test_lists_of_shapes_and_dtypes_as_the_tables_write_them(raw: bytes, text: str | None) -> None:
    assert joined(raw) == text


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        (_KERNEL, "vectorized_elementwise_kernel"),
        ("void at::native::(anonymous namespace)::softmax<float>(float*)", "softmax"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "ampere_sgemm_32x32_sliced1x4_tn"),
        ("", ""),
    ],
)
def test_a_kernel_is_called_by_its_function(symbol: str, name: str) -> None:
    assert short_name(symbol) == name


def test_counters_that_another_tool_added_are_read(tmp_path: Path) -> None:
    trace = KinetoTrace()
    trace.operator("aten::mm", 1, 2, 3)
    trace.add("C", "Queue Length", 5, args={"stream 7": 12})
    trace.add("C", "Queue Length", 6, args={"stream 7": 13.5})
    run = npuprof.load(trace.write(tmp_path / "trace.json"))
    assert run.counters["time_ns"].tolist() == [ns(5), ns(6)]
    assert run.counters["value"].tolist() == [12.0, 13.5]
    assert run.ledger[["rows", "in_tables", "left_out"]].to_numpy().tolist() == [[3, 3, 0]]
    assert not run.notes["message"].str.contains("unknown reason").any()


@pytest.mark.parametrize("category", ["kernel", "Kernel"])
@pytest.mark.parametrize(
    "name", ["ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "ncclDevKernel_Generic_1(Storage<4ul>)"]
)
def test_name_identifies_collective_without_arguments(
    trace: KinetoTrace, tmp_path: Path, category: str, name: str
) -> None:
    trace.slice("cuda_runtime", "cudaLaunchKernelExC", 20, 2, cbid=430, correlation=80)
    trace.on_gpu(category, name, 30, 9, 0, stream=20, correlation=80)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert run.communication["name"].tolist() == [name]
    assert len(run.kernels) == 1
    assert run.notes[["severity", "count"]].to_numpy().tolist() == [["info", 1]]  # it names no group


def test_traces_of_2021_are_read_with_their_own_words(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1})
    trace.slice("Operator", "aten::mm", 1, 20, **{"External id": 5, "Input dims": [[2, 3]], "Input type": ["float"]})
    trace.slice("Runtime", "cudaLaunchKernel", 4, 2, cbid=211, correlation=77, external_id=5)
    trace.slice("Runtime", "cudaMemsetAsync", 7, 2, cbid=51, correlation=78, external_id=5)
    lane = {"lane": {"pid": 0, "tid": "stream 7"}}
    trace.slice("Kernel", "sgemm", 9, 3, device=0, stream=7, correlation=77, external_id=5, **lane)
    trace.slice("Memset", "Memset (Device)", 13, 2, device=0, stream=7, correlation=78, external_id=5, **lane)
    for phase, moment in (("s", 4), ("f", 9)):
        trace.add(phase, "cudaLaunchKernel", moment, cat="async_gpu", id=77)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert run.info.collector == "kineto"
    assert run.operators["input_shapes"].tolist() == ["2,3"]
    assert run.kernels["op_name"].tolist() == ["aten::mm"]
    assert run.tasks["task_type"].tolist() == ["kernel", "gpu_memset"]
    assert run.breakdown().set_index("part")["duration_ns"].to_dict()["copy"] == 2000
    assert not len(run.notes)


def test_slices_of_unknown_devices_follow_arguments(trace: KinetoTrace, tmp_path: Path) -> None:
    trace.slice("new_runtime", "newLaunch", 40, 2, cbid=1, correlation=90)
    trace.on_gpu("new_task", "copies", 43, 2, 0, stream=3, correlation=90)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert run.api["name"].tolist()[-1] == "newLaunch"
    assert run.tasks["task_type"].tolist()[-1] == "new_task"
    assert not len(run.notes)


def test_nameless_task_belongs_to_its_launcher(trace: KinetoTrace, tmp_path: Path) -> None:
    """GIVEN ids of operators that only repeat the correlation THEN they are not looked up among operators."""
    trace.slice("cuda_runtime", "cudaLaunchKernel", 6, 1, cbid=211, correlation=10, External_id=10)
    trace.on_gpu("kernel", "gemm", 20, 5, 0, stream=7, correlation=10, External_id=10)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert (
        run.kernels.set_index("name")["op_name"].to_dict()["gemm"] == "aten::fill_"
    )  # not aten::addmm, whose id is 10
    assert run.kernels["step"].tolist() == [7, 7]
    kinds = run.links[["kind", "target_table"]].astype(str).value_counts().to_dict()
    assert kinds["operator_api", "api"] == 2
    assert kinds["api_task", "tasks"] == 3


def test_waiting_threads_are_left_out(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1, "with_stack": 1})
    stack = ["<frozen runpy>(198): _run", "ipykernel_launcher.py(18): <module>", "asyncio/base_events.py(600): run"]
    stack += ["npuprof/session/session.py(40): __enter__", "/tmp/ipykernel_7/1.py(1): <module>", "nn.Module: Linear_0"]
    for depth, name in enumerate(stack):
        parent = depth or None
        trace.slice("python_function", name, depth, 100 - 2 * depth, Python_id=depth + 1, Python_parent_id=parent)
    waiting = ["threading.py(1002): _bootstrap", "IPython/core/history.py(1006): run", "<built-in method acquire>"]
    for depth, name in enumerate(waiting, 20):
        lane = {"pid": PROCESS, "tid": 99}
        ids = {"Python_id": depth, "Python_parent_id": depth - 1 if depth > 20 else None}
        trace.slice("python_function", name, depth - 20, 90, lane=lane, **ids)
    trace.operator("aten::mm", 10, 20, 3)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert run.python["name"].tolist() == ["/tmp/ipykernel_7/1.py(1): <module>", "nn.Module: Linear_0"]
    assert run.python["depth"].tolist() == [0, 1]
    assert run.python["parent_id"].fillna(-1).tolist() == [-1, 5]
    assert run.operators["stack"].tolist() == ["/tmp/ipykernel_7/1.py(1): <module>"]
    assert not len(run.notes)
    assert run.ledger[["rows", "in_tables", "used", "left_out"]].to_numpy().tolist() == [[10, 3, 7, 0]]


def test_sends_join_by_named_ranks(tmp_path: Path) -> None:
    """Rank 1 receives from rank 0 and sends to rank 2 so soon after that ends do not tell the two apart."""
    sends = {0: [("send", 1, 100, 200)], 1: [("recv", 0, 150, 200), ("send", 2, 210, 260)], 2: [("recv", 1, 215, 260)]}
    for rank, operators in sends.items():
        trace = KinetoTrace(head={"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 3}})
        trace.slice("user_annotation", "ProfilerStep#1", 0, 1000)
        for number, (kind, peer, begin, end) in enumerate(operators):
            trace.slice("cuda_runtime", "cudaLaunchKernelExC", 10 + number, 1, correlation=number + 1)
            args: dict[str, object] = {
                "Collective name": kind,
                "Process Group Name": "pp",
                "Process Group Ranks": "[0, 1, 2]",
            }
            args["Dst Rank" if kind == "send" else "Src Rank"] = peer
            name = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
            trace.on_gpu("kernel", name, begin, end - begin, 0, stream=20, correlation=number + 1, **args)
        trace.write(tmp_path / f"rank{rank}.pt.trace.json")
    waits = npuprof.load_set(tmp_path).waits()
    of_op = waits.groupby("op")["rank"].agg(list).tolist()
    assert of_op == [[0, 1], [1, 2]]
    assert set(waits["group"]) == {"pp, ranks 0 and 1", "pp, ranks 1 and 2"}


@pytest.mark.slow
def test_deep_recursion_keeps_innermost_frames(tmp_path: Path) -> None:
    trace = KinetoTrace(head={"schemaVersion": 1, "with_stack": 1})
    levels, name = 600, "walk_" + "x" * 2_000
    for level in range(levels):
        lasting = 4 * levels - 3 * level
        trace.slice(
            "python_function",
            f"walk.py({level + 1}): {name}",
            2 * level,
            lasting,
            Python_id=level + 1,
            Python_parent_id=level or None,
        )
        trace.operator("aten::add", 2 * level + 1, 0.5, level + 1)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    stacks = run.operators["stack"].cat.categories
    assert len(stacks) == levels
    assert sum(map(len, stacks)) < 140_000_000 < levels * levels / 2 * len(name)
    deepest = str(run.operators["stack"].iloc[-1]).split("\n")
    assert deepest == [f"walk.py({levels - back}): {name}" for back in range(len(deepest))]
    assert len(run.python) == levels
    (note,) = run.notes[run.notes["message"].str.contains("outermost frames")].to_dict("records")
    assert note["severity"] == "warning"


@pytest.mark.parametrize("streams", [(7, 7), (7, 8), (8, 7)])
def test_kernels_that_start_together_keep_their_operators(tmp_path: Path, streams: tuple[int, int]) -> None:
    trace = KinetoTrace()
    for number, (name, stream) in enumerate(zip(("aten::mul", "aten::add"), streams, strict=True), 1):
        trace.operator(name, 10 * number, 8, number)
        ids = {"correlation": number, "External_id": number}
        trace.slice("cuda_runtime", "cudaLaunchKernel", 10 * number + 2, 4, **ids)
        trace.slice("kernel", f"kernel_{number}", 50, 0 if number == 1 else 3, **ids, device=0, stream=stream)
    run = npuprof.load(trace.write(tmp_path / "t.json"))
    assert isinstance(run, Profile)
    assert run.by("op").set_index("op")["count"].to_dict() == {"aten::mul": 1, "aten::add": 1}
