"""Write a simulated job as result folders of torch_npu: the parts of the vendor's text form that a set of ranks needs.

Starts of operators are floats of microseconds, in steps of 0.25; other times have all their digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from npuprof.simulator.jobs import frames
from npuprof.simulator.jobs.model import FIRST_STEP, START_NS, TRANSFER, Group, Job, Op

_TIMES = {
    "computing_ns": "Computing",
    "communication_ns": "Communication",
    "overlapped_ns": "Overlapped",
    "communication_not_overlapped_ns": "Communication(Not Overlapped)",
    "free_ns": "Free",
    "stage_ns": "Stage",
    "bubble_ns": "Bubble",
    "preparing_ns": "Preparing",
    "communication_not_overlapped_exclude_receive_ns": "Communication(Not Overlapped and Exclude Receive)",
}
_KERNEL_HEAD = (
    "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),"
    "Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,"
    "Output Data Types,Output Formats,Context ID\n"
)
_KERNEL_TAIL = ',0,20,0,NO,"""4096,1024""",DT_BF16,ND,"""4096,1024""",DT_BF16,ND,N/A\n'
_NO_LINK = (
    '{"Transit Size(MB)": 0, "Transit Time(ms)": 0, "Bandwidth(GB/s)": 0, "Large Packet Ratio": 0, '
    '"Size Distribution": {}}'
)


def write(job: Job, parent: Path, *, kernels: bool = False) -> Path:
    """Write the result of each rank as ``rank<N>_ascend_pt`` below a folder; return the folder."""
    for rank in job.recorded_ranks:
        write_rank(job, rank, parent / f"rank{rank}_ascend_pt", kernels=kernels)
    return parent


def write_rank(job: Job, rank: int, folder: Path, *, kernels: bool = False) -> None:
    """Write the result of one rank."""
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (folder / f"profiler_info_{rank}.json").write_text(json.dumps(_profiler_info(job, rank)))
    (folder / "profiler_metadata.json").write_text(json.dumps(frames.metadata(job, rank)))
    (output / "step_trace_time.csv").write_text(_step_trace_time(job, rank))
    communication = _communication(job, rank)
    cut = len(communication) // 2 if rank in job.faults.truncated else None
    (output / "communication.json").write_text(communication[:cut])
    (output / "communication_matrix.json").write_text(json.dumps(_matrix(job, rank)))
    if kernels:
        (output / "kernel_details.csv").write_text(_kernel_details(job, rank))


def _profiler_info(job: Job, rank: int) -> dict[str, object]:
    stage, replica, part = job.place(rank)
    began, ended = job.recorded(rank, np.array([0, int(job.stages[stage].end[-1, replica, part])])).tolist()
    up_ns = START_NS // 1000  # clocks of the machine: its uptime differs from that of other ranks
    return {
        "config": {
            "common_config": {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"], "record_shapes": True},
            "experimental_config": {"_profiler_level": "Level1", "_export_type": ["text"]},
        },
        "start_info": {"start_monotonic": up_ns + job.host(rank) * 10**12},
        "end_info": {
            "collectionTimeEnd": ended,
            "MonotonicTimeEnd": up_ns + job.host(rank) * 10**12 + ended - began,
        },
        "torch_npu_version": "2.7.1",
        "cann_version": "8.3.RC1",
        "rank_id": str(rank),
    }


def _step_trace_time(job: Job, rank: int) -> str:
    table = {name: values.tolist() for name, values in frames.rank_step_times(job, rank).items()}
    times = zip(*([f"{value / 1e3}" for value in table[name]] for name in _TIMES), strict=True)
    rows = zip(table["device_id"], table["step"], times, strict=True)
    lines = [f"{device},{step},{','.join(row)}\n" for device, step, row in rows]
    return ",".join(["Device_id", "Step", *_TIMES.values()]) + "\n" + "".join(lines)


def _communication(job: Job, rank: int) -> str:
    """Return ``communication.json``: the operators of each step, p2p before collectives."""
    stage, replica, part = job.place(rank)
    done = job.stages[stage]
    parts: dict[int, tuple[list[str], list[str]]] = {
        step: ([], []) for step in range(FIRST_STEP, FIRST_STEP + job.plan.steps)
    }
    groups = job.groups(rank)
    links = {kind: _link(job, group) for kind, group in groups.items()}
    rows = zip(done.ops, frames.operator_names(job, rank), _times(job, rank), strict=True)
    for (op, name, (start, elapsed, wait)), moved in zip(rows, done.transfer[:, replica, part].tolist(), strict=True):
        transit, waited = moved / 1e6, wait / 1e6
        text = (
            f'"{name}@{groups[op.kind].key}": {{"Communication Time Info": {{"Start Timestamp(us)": {start / 1e3!r}, '
            f'"Elapse Time(ms)": {elapsed / 1e6!r}, "Transit Time(ms)": {transit!r}, "Wait Time(ms)": {waited!r}, '
            f'"Synchronization Time(ms)": {waited!r}, "Idle Time(ms)": 0.0, '
            f'"Wait Time Ratio": {wait / (wait + moved):.4f}, "Synchronization Time Ratio": 1.0}}, '
            f'"Communication Bandwidth Info": {{{_bandwidth(op, links[op.kind], moved)}}}}}'
        )
        parts[op.step][op.kind not in ("next", "prev")].append(text)
    return "{" + ", ".join(_step(step, p2p, remaining) for step, (p2p, remaining) in parts.items()) + "}"


def _step(step: int, p2p: list[str], collectives: list[str]) -> str:
    total = '"Total Op Info": {"Communication Time Info": {"Elapse Time(ms)": 0}, "Communication Bandwidth Info": {}}'
    inner = (f'"{kind}": {{{", ".join([*ops, total])}}}' for kind, ops in (("p2p", p2p), ("collective", collectives)))
    return f'"step{step}": {{{", ".join(inner)}}}'


def _times(job: Job, rank: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start, the duration, and the wait for the last rank of each operator."""
    stage, replica, part = job.place(rank)
    done = job.stages[stage]
    start = job.recorded(rank, done.start[:, replica, part])
    elapsed = np.maximum(job.recorded(rank, done.end[:, replica, part]) - start, 1)
    wait = np.maximum(elapsed - done.transfer[:, replica, part], 0)
    yield from zip(start.tolist(), elapsed.tolist(), wait.tolist(), strict=True)


def _link(job: Job, group: Group) -> str:
    return "HCCS" if len({job.host(member) for member in group.members}) == 1 else "RDMA"


def _bandwidth(op: Op, link: str, moved_ns: int) -> str:
    size = TRANSFER[op.kind][1]
    used = (
        f'{{"Transit Size(MB)": {size / 1e6!r}, "Transit Time(ms)": {moved_ns / 1e6!r}, "Bandwidth(GB/s)": '
        f'{size / moved_ns:.4f}, "Large Packet Ratio": 1.0, "Size Distribution": {{"{size / 1e6!r}": [1, '
        f"{moved_ns / 1e6!r}]}}}}"
    )
    sums = {"HCCS": ("HCCS", "SDMA"), "RDMA": ("RDMA",)}[link]
    return ", ".join(
        f'"{each}": {used if each in sums else _NO_LINK}' for each in ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
    )


def _matrix(job: Job, rank: int) -> dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]]:
    plain: dict[str, dict[str, dict[str, dict[str, dict[str, object]]]]] = {}
    fields = ("Transport Type", "Transit Size(MB)", "Transit Time(ms)", "Bandwidth(GB/s)")
    for row in frames.rank_matrix(job, rank):
        kinds = plain.setdefault(row["step"], {"p2p": {}, "collective": {}})
        pairs = kinds[row["kind"]].setdefault(f"{row['name']}@{row['group']}", {})
        pairs[f"{row['src_rank']}-{row['dst_rank']}"] = {field: row[field] for field in fields}
    return plain


def _kernel_details(job: Job, rank: int) -> str:
    lines = [_KERNEL_HEAD]
    for row in frames.kernels(job, rank).to_dict("records"):
        start, length = int(row["start_ns"]), int(row["duration_ns"])
        lines.append(
            f"{row['step']},{row['device_id']},4294967295,{row['task_id']},2,{row['name']},{row['op_type']},dynamic,"
            f"{row['core']},{start // 1000}.{start % 1000:03}\t,{length // 1000}.{length % 1000:03}{_KERNEL_TAIL}"
        )
    return "".join(lines)
