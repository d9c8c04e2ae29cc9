"""The report of code that ended because the memory of a device was full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import npuprof
from npuprof import simulator
from npuprof.report.out_of_memory import FailedAllocation, failed_allocation
from tests.notebook.cells import Cells

_MIB, _GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(
            "RuntimeError: NPU out of memory. Tried to allocate 22.00 MiB (NPU 3; 61.00 GiB total capacity; 10.25 GiB "
            "already allocated; 10.25 GiB current active; 19.50 MiB free; 10.50 GiB reserved in total by PyTorch) If "
            "reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
            FailedAllocation(3, 22 * _MIB, 61 * _GIB, 41 * _GIB // 4, 39 * _MIB // 2),
            id="torch_npu",
        ),
        pytest.param(
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 15.75 GiB total capacity; 14.25 "
            "GiB already allocated; 512.00 MiB free; 14.50 GiB reserved in total by PyTorch)",
            FailedAllocation(0, 3 * _GIB // 2, 63 * _GIB // 4, 57 * _GIB // 4, 512 * _MIB),
            id="CUDA before torch 2.2",
        ),
        pytest.param(
            "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacity of 79.25 "
            "GiB of which 3.00 MiB is free. Process 7 has 79.00 GiB memory in use.",
            FailedAllocation(1, 20 * _MIB, 317 * _GIB // 4, None, 3 * _MIB),
            id="CUDA",
        ),
        pytest.param(
            "RuntimeError: NPU out of memory. Tried to allocate more than 1EB memory", FailedAllocation(), id="1 EB"
        ),
        pytest.param(
            "RuntimeError: Memory not enough: Device(id:2) memory isn't enough and alloc failed, kernel name: "
            "Default/MatMul-op1, alloc size: 16777216B.",
            FailedAllocation(2, 16 * _MIB),
            id="MindSpore",
        ),
        pytest.param(
            "RuntimeError: Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE module.\n"
            "Call rtMalloc fail, purpose: page caching, type = 2, size:3221291008, device_id:0[FUNC:Alloc]",
            FailedAllocation(0, 3221291008),
            id="CANN",
        ),
        pytest.param(
            "MemoryError: simulated device 0 has no room for 2048 bytes (1024 bytes are free): delete arrays",
            FailedAllocation(0, 2048, None, None, 1024),
            id="simulated",
        ),
        pytest.param("MemoryError: Unable to allocate 8.00 GiB for an array with shape (1,)", None, id="of the host"),
        pytest.param("ZeroDivisionError: division by zero", None, id="another error"),
        pytest.param("", None, id="none"),
    ],
)
def test_reads_the_error(error: str, expected: FailedAllocation | None) -> None:
    assert failed_allocation(error) == expected


_FULL = """
weights = npu.empty((3 << 10, 1 << 20), np.float32)
for i in range(100):
    small = small + small
    kept.append(layer(512))
"""


@pytest.fixture
def cells(tmp_path: Path) -> Iterator[Cells]:
    simulator.reset()
    made = Cells(tmp_path)
    made.run(
        "import numpy as np\nfrom npuprof.simulator import npu\nkept, small = [], npu.ones((64, 64), np.float32)\n"
        "def layer(rows):\n    return [npu.empty((rows, 1 << 20), np.float32) for _ in range(4)]"
    )
    yield made
    made.magics.uninstall()
    simulator.reset()


@pytest.mark.parametrize(
    ("options", "peak", "lines"),
    [
        ("--memory", "peak 62.0 GiB of 64.0 GiB", ["   50.0 GiB (80.6 %)  line 6: `kept.append(layer(512))`",
          "   12.0 GiB (19.4 %)  line 3: `weights = npu.empty((3 << 10, 1 << 20), np.float32)`",
          "  16.0 KiB (< 0.1 %)  line 5: `small = small + small`"]),
        ("", "the device has 64.0 GiB", ["with --memory"]),
    ],
)  # fmt: skip
def test_begins_with_what_held_memory(cells: Cells, options: str, peak: str, lines: list[str]) -> None:
    with pytest.raises(MemoryError):
        cells.profile(_FULL, options)
    said = str(npuprof.last())
    assert said.index("Out of device memory") < said.index("a step")
    for text in [peak, *lines]:
        assert text in said
    assert "raised MemoryError" not in said
