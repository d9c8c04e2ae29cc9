"""Each kind of damage to a text file that leaves it readable is told by a warning that counts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import npuprof
from npuprof.sources.files import memory_limit as sparse
from tests.sources.mindspore import maker as mindspore
from tests.sources.msprof.results import STEP_HEAD, csv
from tests.sources.test_broken_input import FILES, whole_result
from tests.sources.trace.maker import HBM, at, small_trace

CASES: dict[str, tuple[str, Callable[[bytes], bytes], str, int]] = {
    "a blank time": (
        "memory_record.csv",
        lambda content: content.replace(f"PTA,{at(1)}\t".encode(), b"PTA,"),
        "a row has no readable time; left out; counts and sums of memory are too low",
        1,
    ),
    "blank sizes": (
        "operator_memory.csv",
        lambda content: content.replace(b"a,1,", b"a,,", 2),
        "a row has no readable size; left out; counts and sums of allocations are too low",
        2,
    ),
    "blank totals": (
        "memory_record.csv",
        lambda content: content.replace(b"\t,1,2,", b"\t,,2,", 3),
        "a cell is blank or no number, unlike in other rows of its component",
        3,
    ),
    "a cut in the last cell": (
        "operator_memory.csv",
        lambda content: content.rstrip()[:-1],
        "its last line has no line end: the file was cut",
        1,
    ),
    "rows that are gone": (
        "kernel_details.csv",
        lambda content: b"\r\n".join([*content.split(b"\r\n")[:2], b""]),
        "it counts 3 rows of kernels, which has 2",  # of which the timeline has one
        1,
    ),
    "a negative duration": (
        "kernel_details.csv",
        lambda content: content.replace(b"\t,", b"\t,-", 1),
        "'Duration(us)': a duration is negative; taken as 0",
        1,
    ),
    "a column that is there twice": (
        "kernel_details.csv",
        lambda content: content.replace(b"\r\n", b",Name\r\n").replace(b",Name", b",Duration(us)", 1),
        "the column 'Duration(us)' occurs more than once: the first is shown",
        1,
    ),
    "a pair of ranks without numbers": (
        "communication_matrix.json",
        lambda content: content.replace(b'"Transit Size(MB)": 4, ', b""),
        "an entry has no Transit Size(MB)",
        1,
    ),
    "an operator that is none": (
        "communication.json",
        lambda content: json.dumps({"step7": {"collective": {"a@1": 5, **_collective(content)}}}).encode(),
        "an entry is no JSON object; left out; counts and sums of the statistics of communication are too low",
        1,
    ),
}


def _collective(content: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(content)["step7"]["collective"]
    return found


def _warned(path: Path) -> dict[str, int]:
    notes = npuprof.load(path).notes
    told = notes[notes["severity"] != "info"]
    return dict(zip(told["message"], told["count"].tolist(), strict=True))


def _count(warned: dict[str, int], words: str) -> int:
    return sum(count for message, count in warned.items() if words in message)


@pytest.mark.slow
@pytest.mark.parametrize("what", CASES)
def test_damage_of_a_result_is_reported_and_counted(tmp_path: Path, what: str) -> None:
    name, damage, words, count = CASES[what]
    root = whole_result(tmp_path)
    assert not _count(_warned(root), words)
    path = root / "ASCEND_PROFILER_OUTPUT" / name
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert path.read_bytes() != content
    assert _count(_warned(root), words) == count


@pytest.mark.long
@pytest.mark.parametrize("name", ["memory_record.csv", "operator_memory.csv", "npu_module_mem.csv"])
def test_cut_mindspore_memory_file_is_reported(tmp_path: Path, name: str) -> None:
    path = mindspore.result(tmp_path / "ms") / "ASCEND_PROFILER_OUTPUT" / name
    before = _warned(tmp_path / "ms")
    head, row = path.read_bytes().rstrip().split(b"\n", 1)
    for content, words in ((head + b"\n" + row[:-1], "the file was cut"), (head + b"\n", "its table is empty")):
        path.write_bytes(content)
        warned = _warned(tmp_path / "ms")
        assert _count(warned, words) == 1
        assert not _count(before, words)


@pytest.mark.long
def test_a_cut_header_of_mindspore_is_reported(tmp_path: Path) -> None:
    root = mindspore.result(tmp_path / "ms")
    for path in sorted((root / "ASCEND_PROFILER_OUTPUT").glob("*.csv")):
        content = path.read_bytes()
        path.write_bytes(content[: content.index(b"\n") // 2])
        notes = npuprof.load(root).notes
        told = notes[(notes["severity"] != "info") & (notes["source"] == path.name)]
        assert len(told), path.name
        path.write_bytes(content)


def test_counters_without_values_are_counted(tmp_path: Path) -> None:
    trace = small_trace()
    for us, args in ((7, {}), (8, {}), (9, {"Read(MB/s)": None})):
        trace.events.append({"ph": "C", "name": "HBM 0/Read", "pid": HBM, "ts": at(us), "args": args})
    warned = _warned(trace.write(tmp_path / "trace_view.json"))
    assert _count(warned, "a counter event holds no value; left out; counts and sums of counters are too low") == 2
    assert _count(warned, "the value of a counter is no number") == 1


def test_reports_bad_numbers_in_step_trace(tmp_path: Path) -> None:
    cells = [at(us) + "\t" for us in (1, 2, 9.5)]
    row = f"0,1,{cells[0]},{cells[1]},{cells[2]},8.5,1,x,0,1"
    csv(tmp_path / "step_trace_0.csv", STEP_HEAD, [row])
    assert _count(_warned(tmp_path / "step_trace_0.csv"), "a cell is blank or no number") == 1


@pytest.mark.parametrize("tail", [b"", b"2,Mul,Mul,AI_CORE,9,1,0,1\n"], ids=["at the end", "in between"])
def test_unwritten_table_parts_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail: bytes) -> None:
    monkeypatch.setattr(sparse, "ALWAYS_BYTES", 1 << 20)
    path = tmp_path / "kernel_details.csv"
    names = b"Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim\n"
    head = names + b"1,Add,Add,AI_CORE,5,2,0,1\n"
    with path.open("wb") as file:
        file.write(head)
        file.truncate(1 << 40)  # read as a whole, it would not fit into any memory
        file.seek(1 << 39)
        file.write(tail)
    run = npuprof.load(path)
    assert run.kernels["name"].astype(str).tolist() == ["Add", "Mul"][: 1 + bool(tail)]
    assert _warned(path) == {"preallocated bytes that were never written, left out": (1 << 40) - len(head + tail)}


_OF_EVERY_VERSION = {
    "kernel_details.csv": ("Type", "Accelerator Core", "Wait Time(us)", "Block Dim"),
    "memory_record.csv": ("Total Allocated(MB)", "Total Reserved(MB)", "Device Type"),
    "npu_module_mem.csv": ("Total Reserved(MB)", "Device"),
    "operator_memory.csv": ("Allocation Time(us)", "Device Type"),
    "step_trace_time.csv": ("Step", "Computing", "Communication", "Free"),
}


@pytest.mark.long
@pytest.mark.parametrize(("name", "columns"), _OF_EVERY_VERSION.items())
def test_a_column_that_somebody_removed_is_reported(tmp_path: Path, name: str, columns: tuple[str, ...]) -> None:
    rows = [line.split(",") for line in FILES[name].decode().splitlines()]
    root = whole_result(tmp_path)
    for column in columns:
        place = rows[0].index(column)
        text = "".join(",".join(row[:place] + row[place + 1 :]) + "\n" for row in rows)
        (root / "ASCEND_PROFILER_OUTPUT" / name).write_text(text)
        assert sum("is missing: its values are absent" in message for message in _warned(root)) == 1, column


def test_unclosed_quote_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "hbm.csv"
    row = "0,Average,2.309,2.390\n"
    path.write_text(f"Device_id,Metric,Read(MB/s),Write(MB/s)\n{row}{row}{row}")
    assert _warned(path) == {}
    path.write_text(path.read_text().replace(row + row, row + row.replace("2.390", '"'), 1))
    assert len(npuprof.load(path).statistics["hbm"]) < 3
    assert any("a quote is not closed" in message for message in _warned(path))
