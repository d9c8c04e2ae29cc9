"""Tables of kernels under every line of column names that they had, with the counters of every choice of metrics."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof import tables
from npuprof.sources.text.kernels_of_tasks import damaged_types
from npuprof.tables.schema import SCHEMA
from tests.sources.msprof.results import csv
from tests.sources.trace.maker import at, ns

CELLS = {
    "Step Id": "7",
    "Step ID": "7",
    "Device_id": "3",
    "Model Name": "net",
    "Model ID": "4294967295",
    "Infer ID": "1",
    "Task ID": "12",
    "Stream ID": "2",
    "Name": "MatMul_0",
    "Op Name": "MatMul_0",
    "Type": "MatMulV3",
    "OP Type": "MatMulV3",
    "OP State": "dynamic",
    "Accelerator Core": "AI_CORE",
    "Task Type": "AI_CORE",
    "Start Time(us)": f"{at(5)}\t",
    "Task Start Time(us)": f"{at(5)}\t",
    "Task Start Time": f'"{at(5)}\t"',
    "Duration(us)": "10.5",
    "Task Duration(us)": "10.5",
    "Wait Time(us)": "1.5",
    "Task Wait Time(us)": "1.5",
    "Block Dim": "24",
    "Block Num": "24",
    "Mix Block Dim": "0",
    "Mix Block Num": "0",
    "HF32 Eligible": "NO",
    "Input Shapes": '"""2,3;;4"""',
    "Input Data Types": "DT_BF16;FLOAT",
    "Input Formats": "FORMAT_ND;NC1HWC0",
    "Output Shapes": '"""2,4"""',
    "Output Data Types": "DT_BF16",
    "Output Formats": "ND",
    "Context ID": "N/A",
}
SHAPES = "Input Shapes|Input Data Types|Input Formats|Output Shapes|Output Data Types|Output Formats"
TORCH = "Name|Type|OP State|Accelerator Core|Start Time(us)|Duration(us)|Wait Time(us)"
SUMMARY = "Op Name|OP Type|OP State|Task Type|Task Start Time(us)|Task Duration(us)|Task Wait Time(us)"
HEADS = {
    "torch 2023": "Step Id|Model ID|Task ID|Stream ID|Name|Type|Accelerator Core|Start Time(us)|Duration(us)|"
    f"Wait Time(us)|Block Dim|{SHAPES}",
    "torch Level0": "Step Id|Name|Type|Accelerator Core|Start Time(us)|Duration(us)|Wait Time(us)|Block Dim",
    "torch CANN 8.0": f"Step Id|Model ID|Task ID|Stream ID|{TORCH}|Block Dim|Mix Block Dim|HF32 Eligible|{SHAPES}|"
    "Context ID",
    "torch CANN 8.3": f"Step Id|Device_id|Model ID|Task ID|Stream ID|{TORCH}|Block Dim|Mix Block Dim|HF32 Eligible|"
    f"{SHAPES}|Context ID",
    "torch CANN 9": f"Step Id|Device_id|Model ID|Task ID|Stream ID|{TORCH}|Block Num|Mix Block Num|HF32 Eligible|"
    f"{SHAPES}|Context ID",
    "torch, hybrid": "Step Id|Device_id|Model ID|Task ID|Stream ID|Op Name|OP Type|Accelerator Core|Start Time(us)|"
    f"Task Duration(us)|Wait Time(us)|Block Dim|{SHAPES}",
    "MindSpore": f"Model ID|Task ID|Stream ID|{TORCH}|Block Dim|Mix Block Dim|HF32 Eligible|{SHAPES}|Context ID|"
    "Step ID",
    "msprof CANN 6": f"Model Name|Model ID|Task ID|Stream ID|Infer ID|Op Name|OP Type|Task Type|Task Start Time|"
    f"Task Duration(us)|Task Wait Time(us)|Block Dim|{SHAPES}",
    "msprof 910A": f"Device_id|Model ID|Task ID|Stream ID|{SUMMARY}|Block Dim|HF32 Eligible|{SHAPES}",
    "msprof CANN 8": f"Device_id|Model ID|Task ID|Stream ID|{SUMMARY}|Block Dim|Mix Block Dim|HF32 Eligible|{SHAPES}|"
    "Context ID",
    "msprof CANN 9": f"Device_id|Model Name|Model ID|Task ID|Stream ID|Infer ID|{SUMMARY}|Block Num|Mix Block Num|"
    f"HF32 Eligible|{SHAPES}|Context ID",
}
PIPES = {"aic": "mac scalar mte1 mte2 mte3 fixpipe", "aiv": "vec scalar mte2 mte3"}
BOTH_CORES = {
    "PipeUtilization": {
        core: [f"{pipe}_{what}" for pipe in pipes.split() for what in ("time(us)", "ratio")] + ["icache_miss_rate"]
        for core, pipes in PIPES.items()
    },
    "ArithmeticUtilization": {
        "aic": ["mac_fp16_ratio", "mac_int8_ratio", "cube_fops"],
        "aiv": ["vec_fp32_ratio", "vec_fp16_ratio", "vec_int32_ratio", "vec_misc_ratio", "vector_fops"],
    },
    "Memory": {
        core: [f"{unit}_{way}_bw(GB/s)" for unit in (first, "main_mem", "l2") for way in ("read", "write")]
        for core, first in (("aic", "l1"), ("aiv", "ub"))
    },
    "MemoryL0": {
        core: [f"{unit}_{way}_bw(GB/s)" for unit in ("l0a", "l0b") for way in ("read", "write")]
        + ["l0c_read_bw_cube(GB/s)", "l0c_write_bw_cube(GB/s)"]
        for core in PIPES
    },
    "MemoryUB": {
        "aic": ["ub_read_bw_scalar(GB/s)", "ub_write_bw_scalar(GB/s)"],
        "aiv": [f"ub_{way}_bw_{unit}(GB/s)" for unit in ("vector", "scalar") for way in ("read", "write")],
    },
    "ResourceConflictRatio": {
        "aic": [],
        "aiv": ["vec_bankgroup_cflt_ratio", "vec_bank_cflt_ratio", "vec_resc_cflt_ratio"],
    },
    "L2Cache": {
        core: [
            f"{what}_cache_{result}" for what in ("write", "r0_read", "r1_read") for result in ("hit", "miss_allocate")
        ]
        for core in PIPES
    },
    "MemoryAccess": {
        core: [
            f"{what}_datas(KB)"
            for what in (
                *("read_main_memory", "write_main_memory", "GM_to_L1", "L0C_to_L1"),
                *("L0C_to_GM", "GM_to_UB", "UB_to_GM"),
            )
        ]
        for core in PIPES
    },
}
ONE_CORE = {
    "PipeUtilization": [
        *(
            f"{pipe}_{what}"
            for pipe in ("vec", "mac", "scalar", "mte1", "mte2", "mte3")
            for what in ("time(us)", "ratio")
        ),
        *("icache_miss_rate", "memory_bound", "cube_utilization(%)"),
    ],
    "ArithmeticUtilization": [
        *("mac_fp16_ratio", "mac_int8_ratio", "vec_fp32_ratio", "vec_fp16_ratio", "vec_int32_ratio", "vec_misc_ratio"),
        *("cube_fops", "vector_fops"),
    ],
    "Memory": [f"{unit}_{way}_bw(GB/s)" for unit in ("ub", "l1", "l2", "main_mem") for way in ("read", "write")],
    "MemoryL0": [f"{unit}_{way}_bw(GB/s)" for unit in ("l0a", "l0b", "l0c") for way in ("read", "write")]
    + ["l0c_read_bw_cube(GB/s)", "l0c_write_bw_cube(GB/s)"],
    "MemoryUB": [f"ub_{way}_bw_{unit}(GB/s)" for unit in ("vector", "scalar") for way in ("read", "write")],
    "ResourceConflictRatio": ["vec_bankgroup_cflt_ratio", "vec_bank_cflt_ratio", "vec_resc_cflt_ratio"],
    "L2Cache": ["write_cache_hit", "write_cache_miss_allocate", "r0_read_cache_hit", "r0_read_cache_miss_allocate"],
    "PipelineExecuteUtilization": ["vec_exe_time(us)", "vec_exe_ratio", "cube_exe_time(us)", "cube_exe_ratio"],
}
UNITS = {"(us)": "_ns", "(GB/s)": "_gb_s", "_datas(KB)": "_kb", "(%)": "_percent"}


def _ours(header: str) -> str:
    unit = next((unit for unit in UNITS if header.endswith(unit)), "")
    return header.removesuffix(unit).lower() + UNITS.get(unit, "")


def _kernels(tmp_path: Path, heads: str, cells: list[str]) -> pd.DataFrame:
    names = heads.split("|")
    row = [*(CELLS[name] for name in names[: len(names) - len(cells)]), *cells]
    run = npuprof.load(csv(tmp_path / "kernels.csv", ",".join(names), [",".join(row)]))
    tables.check("kernels", run.kernels)
    assert not len(run.notes)
    return run.kernels


@pytest.mark.slow
@pytest.mark.parametrize("generation", HEADS)
def test_every_line_of_names_gives_the_same_kernel(tmp_path: Path, generation: str) -> None:
    heads = HEADS[generation]
    kernel = _kernels(tmp_path, heads, [])
    known = {
        "start_ns": ns(5),
        "duration_ns": 10_500,
        "wait_ns": 1500,
        "name": "MatMul_0",
        "op_name": "MatMul_0",
        "op_type": "MatMulV3",
        "core": "AI_CORE",
        "block_num": 24,
        "device_id": 3 if "Device_id" in heads else 0,
    }
    if "Step I" in heads:
        known["step"] = 7
    if "Stream ID" in heads:
        known |= {"stream_id": 2, "task_id": 12}
    if "Input Shapes" in heads:
        known |= {"input_shapes": "2,3;;4", "input_dtypes": "DT_BF16;FLOAT", "input_formats": "ND;NC1HWC0"}
        known |= {"output_shapes": "2,4", "output_dtypes": "DT_BF16", "output_formats": "ND"}
    if "HF32" in heads:
        known["hf32"] = False
    if "OP State" in heads:
        known["op_state"] = "dynamic"
    if "Mix Block" in heads:
        known["mix_block_num"] = 0
    assert {name: kernel[name].iloc[0] for name in known} == known
    absent = {column.name for column in SCHEMA["kernels"].columns} - {*known, "task_type"}
    assert [name for name in absent if kernel[name].notna().any()] == []
    if "Model Name" in heads:
        assert kernel[["model_name", "infer_id"]].iloc[0].tolist() == ["net", 1]


def _cells(headers: list[str]) -> list[str]:
    """Return a value for each counter; ratios are fractions."""
    return [
        f"{number % 8 / 8 if header.endswith(('_ratio', '_rate')) else number + 0.125}"
        for number, header in enumerate(headers)
    ]


def _check_counters(kernels: pd.DataFrame, headers: list[str], cells: list[str]) -> None:
    for header, cell in zip(headers, cells, strict=True):
        name = _ours(header)
        value = kernels[name].iloc[0]
        if cell == "N/A":
            assert pd.isna(value), name
        elif name.endswith(("_ns", "_cycles")):
            assert (value, pd.api.types.is_integer_dtype(kernels[name])) == (
                round(float(cell) * (1000 if name.endswith("_ns") else 1)),
                True,
            )
        else:
            assert (value, str(kernels[name].dtype)) == (float(cell), "float64")


@pytest.mark.long
@pytest.mark.parametrize("absent", [False, True], ids=["measured", "N/A"])
@pytest.mark.parametrize("generation", ["torch CANN 8.0", "MindSpore", "msprof CANN 9"])
@pytest.mark.parametrize("metrics", BOTH_CORES)
def test_counters_of_chips_with_two_kinds_of_cores(tmp_path: Path, metrics: str, generation: str, absent: bool) -> None:
    headers = [f"{core}_{name}" for core, names in BOTH_CORES[metrics].items() for name in names]
    totals = ["aicore_time(us)", "aic_total_cycles", "aiv_time(us)", "aiv_total_cycles"]
    cells = ["N/A"] * len(headers) if absent else _cells(headers)
    heads = "|".join([HEADS[generation], *totals, *headers])
    kernels = _kernels(tmp_path, heads, ["982.7", "367200", "0.0", "0", *cells])
    _check_counters(kernels, headers, cells)
    assert kernels[["aic_total_time_ns", "aic_total_cycles"]].iloc[0].tolist() == [982_700, 367_200]
    assert kernels[["aiv_total_time_ns", "aiv_total_cycles"]].iloc[0].tolist() == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("metrics", ONE_CORE)
def test_counters_of_chips_with_one_kind_of_core(tmp_path: Path, metrics: str) -> None:
    headers = ["aicore_time(us)", "total_cycles", *ONE_CORE[metrics]]
    cells = ["9.5", "100", *_cells(ONE_CORE[metrics])]
    kernels = _kernels(tmp_path, "|".join([HEADS["msprof 910A"], *headers]), cells)
    _check_counters(kernels, headers, cells)


def test_counters_that_the_user_chose_and_words_are_kept(tmp_path: Path) -> None:
    heads = f"{HEADS['torch CANN 8.0']}|aic_total_cycles|aic_r49(Custom)|Attr Info"
    kernels = _kernels(tmp_path, heads, ["5", "12", "beta=1"])
    assert kernels["aic_r49_custom"].tolist() == [12.0]
    assert kernels["attributes"].tolist() == ["beta=1"]


@pytest.mark.parametrize("name", ["allreduceAivKernel", "HcclAicpuKernel"])
def test_a_kernel_by_which_communication_is_done_is_no_operator(tmp_path: Path, name: str) -> None:
    head = "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us)"
    rows = [
        f"0,hcom_allReduce__586_0_1,hcom_allReduce_,COMMUNICATION,{at(1)}\t,30",
        f"0,{name},{name},COMMUNICATION,{at(2)}\t,20",
        f"0,MatMul_0,MatMulV3,AI_CORE,{at(40)}\t,10",
    ]
    run = npuprof.load(csv(tmp_path / "op_summary_20250101000000.csv", head, rows))
    assert run.communication["name"].tolist() == ["hcom_allReduce__586_0_1"]
    assert run.kernels["name"].tolist() == [name, "MatMul_0"]
    assert run.kernels["task_type"].tolist() == ["COMMUNICATION", "AI_CORE"]
    assert run.ledger[["rows", "in_tables"]].iloc[0].tolist() == [3, 3]


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "cell"), [("us", "1234.5"), ("ms", "1.2345"), ("ns", "1234500")])
def test_counters_are_nanoseconds_in_any_unit(tmp_path: Path, unit: str, cell: str) -> None:
    kernel = _kernels(tmp_path, f"{HEADS['torch Level0']}|vec_time({unit})", [cell])
    assert kernel["vec_time_ns"].tolist() == [1_234_500]


@pytest.mark.parametrize(
    ("task_type", "is_damaged"),
    [
        *[(name, True) for name in ("\ufffdI_CORE", "AI_CORF", "AI_CPX", "MIX_AIK", "AI_VECTOR_C0RE", "1e30", "x", "")],
        *[(name, False) for name in ("AI_CORE", "KERNEL_AIVEC", "aicpu", "SDMA_SQE", "Notify Wait", "MsTx", "Other")],
    ],
)
def test_damaged_core_type_is_recognised(task_type: str, *, is_damaged: bool) -> None:
    tasks = pd.DataFrame({"task_type": pd.Categorical([task_type, None])})
    assert damaged_types(tasks).tolist() == [is_damaged, True]


def test_tasks_of_a_timeline_without_types_are_not_damaged() -> None:
    assert damaged_types(pd.DataFrame({"task_type": pd.Categorical([None, None])})).tolist() == [False, False]
