"""Writes the database of a loop, small enough to be damaged often, with records of every kind."""

from __future__ import annotations

from pathlib import Path

from tests.sources.database.maker import PID, Maker, at, thread

_STEPS, _KERNELS, _NONE = 6, 10, 4294967295


def database_of_a_loop(folder: Path) -> Path:
    """Write six steps of ten kernels, a copy and a collective, each of which waits for all, and a block of memory."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rank0_ascend_pt" / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler_0.db"
    path.parent.mkdir(parents=True)
    maker = Maker(path)
    name = maker.text
    tasks, computed, calls, connections, steps = [], [], [], [], []
    torch: list[tuple[int | None, ...]] = []
    moved: list[tuple[int, ...]] = []
    collectives, samples, blocks = [], [], []
    for step in range(_STEPS):
        begin = 1000 + 300 * step
        steps.append((step, at(begin), at(begin + 300)))
        torch.append((at(begin), at(begin + 300), thread(6), None, name(f"ProfilerStep#{step}"), 50001))
        for number in range(_KERNELS + 2):
            key = 1 + step * (_KERNELS + 2) + number
            start, is_kernel, is_copy = begin + 5 + 20 * number, number < _KERNELS, number == _KERNELS
            torch.append((at(start), at(start + 15), thread(6), key, name("aten::mm"), 50001))
            connections.append((key, key))
            call = "launch" if is_kernel else "aclrtMemcpyAsync" if is_copy else "hcom_allReduce_"
            calls.append((at(start + 2), at(start + 6), 10000, thread(6), key, name(call)))
            kind = "KERNEL_AICORE" if is_kernel else "MEMCPY_ASYNC" if is_copy else "SDMA"
            stream = 2 if is_kernel or is_copy else 3
            ends = at(start + 10), at(start + 22 if is_kernel or is_copy else start + 40)
            tasks.append((*ends, 0, key, key, PID, name(kind), _NONE, stream, key, _NONE))
            if is_kernel:
                text = name(f"MatMul_{number % 3}"), name("AI_CORE"), name("MatMul")
                computed.append((text[0], key, 24, 0, text[1], text[2]))
            elif not is_copy:
                text = name(f"hcom_allReduce__{step}"), name("hcom_allReduce_"), name("Memcpy")
                collectives.append((text[0], *ends, key, name("g"), key, text[1]))
                moved.append((text[2], key, text[2], 0, name("g"), 0, 65535, 0, _NONE, 0, 5000, 4, 65535, key))
        end = begin + 5 + 20 * (_KERNELS + 2)
        calls.append((at(end), at(end + 25), 20000, thread(6), 5000 + step, name("aclrtSynchronizeDevice")))
        size = 1000 * (1 + step)
        blocks.append((name("aten::mm"), size, at(begin + 4), at(begin + 290), size, 1 << 20, 0, 1 << 20, 0))
        samples += [(name("PTA"), at(begin + 4), size, 1 << 20, 0, 0), (name("PTA"), at(begin + 290), 0, 1 << 20, 0, 0)]
    maker.table(
        "TASK",
        "startNs endNs deviceId connectionId globalTaskId globalPid taskType contextId streamId taskId modelId",
        tasks,
    )
    maker.table("COMPUTE_TASK_INFO", "name globalTaskId blockNum mixBlockNum taskType opType", computed)
    maker.table("CANN_API", "startNs endNs type globalTid connectionId name", calls)
    maker.table("PYTORCH_API", "startNs endNs globalTid connectionId name type", torch)
    maker.table("CONNECTION_IDS", "id connectionId", connections)
    maker.table("STEP_TIME", "id startNs endNs", steps)
    maker.table("COMMUNICATION_OP", "opName startNs endNs connectionId groupName opId opType", collectives)
    maker.table(
        "COMMUNICATION_TASK_INFO",
        "name globalTaskId taskType planeId groupName notifyId rdmaType srcRank dstRank transportType size dataType "
        "linkType opId",
        moved,
    )
    maker.table("MEMORY_RECORD", "component timestamp totalAllocated totalReserved totalActive deviceId", samples)
    maker.table(
        "OP_MEMORY",
        "name size allocationTime releaseTime allocationTotalAllocated allocationTotalReserved releaseTotalAllocated "
        "releaseTotalReserved deviceId",
        blocks,
    )
    maker.close()
    return folder / "rank0_ascend_pt"
