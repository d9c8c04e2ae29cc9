"""Broken input is normal: what can be read is, what was lost is counted, and an error says what would help."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import npuprof
from npuprof.errors import NpuprofError, SourceError
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from tests.sources.mindspore.maker import OPERATOR, TRANSFER
from tests.sources.msprof.results import STAMP, STEP_HEAD, SUMMARY_HEAD, TX_HEAD, csv, device_trace, kernel, result
from tests.sources.text.kinds import KINDS
from tests.sources.trace.maker import at, small_trace

KERNELS = (
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim",
    [f"7,MatMul1,MatMulV2,AI_CORE,{at(us)}\t,10.5,0,8" for us in (100.001, 150, 400)],
)
TABLES = {
    "memory_record": (
        "Component,Timestamp(us),Total Allocated(MB),Total Reserved(MB),Device Type",
        [f"PTA,{at(us)}\t,1,2,NPU:1" for us in range(4)],
    ),
    "npu_module_mem": (
        "Component,Timestamp(us),Total Reserved(MB),Device",
        [f"RUNTIME,{at(us)}\t,1,NPU:1" for us in range(3)],
    ),
    "operator_memory": (
        "Name,Size(KB),Allocation Time(us),Release Time(us),Duration(us),Device Type",
        [f"a,1,{at(us)}\t,{at(us + 1)}\t,1,NPU:1" for us in range(3)],
    ),
    "step_trace_time": ("Step,Computing,Communication,Free", ["5,2,3,4", "6,2,3,4", "7,2,3,4"]),
    "op_statistic": ("OP Type,Core Type,Count,Total Time(us)", ["Add,AI_CORE,1,2", "Mul,AI_CORE,2,2"]),
    "kernel_details": KERNELS,
}
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 870000000\n"


def _files() -> dict[str, bytes]:
    files = {f"{name}.csv": "\r\n".join([head, *rows, ""]).encode() for name, (head, rows) in TABLES.items()}
    files["trace_view.json"] = json.dumps(small_trace().events).encode()
    files["communication.json"] = json.dumps({"step7": {"collective": {"hcom_a@1": OPERATOR}}}).encode()
    matrix = {"step7": {"collective": {"allreduce-top1@1": {"0-1": TRANSFER}}}}
    files["communication_matrix.json"] = json.dumps(matrix).encode()
    return files


FILES = _files()


def _cut(content: bytes) -> bytes:
    """Stop in the middle of the last row, or of the text."""
    rows = content.rstrip().split(b"\r\n")
    return b"\r\n".join([*rows[:-1], rows[-1].split(b",")[0]]) if len(rows) > 1 else content[: len(content) * 2 // 3]


def _trailing_comma(content: bytes) -> bytes:
    rows = content.rstrip().split(b"\r\n")
    return b"\r\n".join([*rows[:-1], rows[-1] + b","]) if len(rows) > 1 else content[:-1] + b",]"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": _cut,
    "trailing comma": _trailing_comma,
    "glued": lambda content: content[: len(content) - 7] + content,
    "of zero bytes": lambda content: b"\0" * len(content),
    "empty": lambda _: b"",
    "a pointer": lambda _: POINTER,
    "an image": lambda _: b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "a web page": lambda _: b"<!DOCTYPE html>\n<html><body>404</body></html>\n",
    "a cut archive": lambda content: gzip.compress(content)[:-20],
    "of other columns": lambda _: b"first,second\n1,2\n",
}
HELP = re.compile(
    r"export|git lfs pull|git-LFS|another file|give it|analyse|export it again|is it another|the copy failed|give the"
)


def whole_result(root: Path) -> Path:
    """Write a result of torch_npu with all of these files."""
    output = root / "rank0"
    (output / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    for name, content in FILES.items():
        (output / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(content)
    (output / "profiler_info_0.json").write_text('{"config": {}}')
    return output


@pytest.mark.slow
def test_the_whole_result_has_nothing_to_note(tmp_path: Path) -> None:
    run = npuprof.load(whole_result(tmp_path))
    assert len(run.kernels) == 3
    assert not (run.notes["severity"] == "error").any()
    assert not run.notes["message"].str.contains("cut|damaged|left out").any()


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_reported_and_the_others_are_read(tmp_path: Path, name: str, damage: str) -> None:
    path = whole_result(tmp_path)
    (path / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(DAMAGE[damage](FILES[name]))
    run = npuprof.load(path)
    if damage == "of other columns" and name == "op_statistic.csv":  # a frame has whichever columns its file has
        assert run.statistics["op_statistic"].columns.tolist() == ["first", "second"]
    elif damage == "a web page" and name == "op_statistic.csv":
        assert len(run.statistics["op_statistic"]) == 1
    else:
        told = run.notes[run.notes["source"] == name]
        assert len(told), run.notes.to_string()
        assert (told["count"] >= 1).all()
    others = {"memory_record.csv": run.memory, "kernel_details.csv": run.kernels, "trace_view.json": run.operators}
    assert all(len(frame) for other, frame in others.items() if other != name)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_by_itself_is_noted_or_refused_with_help(tmp_path: Path, name: str, damage: str) -> None:
    path = tmp_path / name
    path.write_bytes(DAMAGE[damage](FILES[name]))
    try:
        run = npuprof.load(path)
    except NpuprofError as error:
        told = str(error)
    else:
        assert len(run.notes)
        return
    assert str(path) in told
    assert HELP.search(told)


@pytest.mark.slow
@pytest.mark.parametrize("spelling", ["1.23E+15", "1.76E+15", "1.76360000000010E+15", "#######", "########\t"])
@pytest.mark.parametrize(
    ("name", "head", "row"),
    [
        ("kernels.csv", SUMMARY_HEAD, kernel("A", 5, 1)),
        ("steps.csv", STEP_HEAD, f"1,3,N/A,N/A,{at(5)}\t,4.5,3,0,N/A,7"),
        ("marks.csv", TX_HEAD, f"host,9,5,0,start/end,0,0,{at(5)}\t,{at(6)}\t,0,forward,mine,N/A,N/A"),
        *(
            (f"{kind.module}.csv", kind.head, kind.row)
            for kind in KINDS
            if at(5) in kind.row and kind.table in ("memory", "tasks", "allocations")
        ),
    ],
)
def test_times_that_a_spreadsheet_spoilt_are_counted_and_not_used(
    tmp_path: Path, name: str, head: str, row: str, spelling: str
) -> None:
    spoilt = row.replace(f"{at(5)}\t", spelling).replace(at(5), spelling)
    run = npuprof.load(csv(tmp_path / name, head, [row, spoilt]))
    frame = next(frame for frame in run.tables.values() if len(frame))
    moment = next(column for column in ("start_ns", "time_ns", "allocated_ns") if column in frame)
    assert frame[moment].notna().sum() == 1
    assert run.notes["count"].sum() >= 1
    assert run.notes["message"].str.contains("spreadsheet|left out|no end or time").any()


def test_a_spreadsheets_times_in_a_timeline_are_counted(tmp_path: Path) -> None:
    maker = device_trace()
    slices = [event for event in maker.events if event["ph"] == "X"]
    slices[0]["ts"] = "1.23E+15"
    run = npuprof.load(maker.write(tmp_path / "trace.json"))
    assert len(run.tasks) == 0
    assert run.notes.set_index("message")["count"].to_dict()["an event has no readable time; left out"] == 1


def _raw_only(root: Path) -> Path:
    data = root / "PROF_000001_20260101000000000_AAAAAAAAAAAAAAAA" / "host" / "data"
    data.mkdir(parents=True)
    (data / "unaging.api_event.data.slice_0").write_bytes(b"\0" * 64)
    (data.parent / "info.json").write_text("{}")
    return data.parents[1]


def test_unparsed_result_names_commands(tmp_path: Path) -> None:
    path = _raw_only(tmp_path)
    with pytest.raises(SourceError) as raised:
        npuprof.load(path, source="parsed")
    message = str(raised.value)
    assert "msprof --export=on --output=" in message
    assert "analyse(PATH)" in message
    assert "torch_npu.profiler.profiler" in message
    assert "mindspore.profiler.profiler" in message
    assert 'without source="parsed" whatever else is there is read' in message
    assert npuprof.load(path).info.source == "raw"


@pytest.mark.parametrize(
    ("told", "module"),
    [('{"config": {}}', "torch_npu.profiler.profiler"), ('{"ms_version": "2.7"}', "mindspore.profiler.profiler")],
)
def test_a_failed_analysis_names_the_command_of_its_front_end(tmp_path: Path, told: str, module: str) -> None:
    (tmp_path / "run" / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    (tmp_path / "run" / "profiler_info_0.json").write_text(told)
    with pytest.raises(SourceError, match=re.escape(f"`from {module} import analyse; analyse(path)`")) as raised:
        npuprof.load(tmp_path / "run")
    assert "npuprof reads these raw files" in str(raised.value)


def test_a_result_of_another_tool_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "OPPROF_20260101000000_AAAA"
    csv(folder / "OpBasicInfo.csv", "Op Name,Op Type,Task Duration(us)", ["Add,Add,5"])
    with pytest.raises(SourceError, match="a result of msopprof, which measures one operator"):
        npuprof.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("missing", [*FILES, "profiler_info_0.json"])
def test_any_file_may_be_missing(tmp_path: Path, missing: str) -> None:
    path = whole_result(tmp_path)
    next(path.rglob(missing)).unlink()
    run = npuprof.load(path)
    assert len(run.kernels)
    errors = run.notes[run.notes["severity"] == "error"]
    assert errors["message"].str.startswith(f"{missing} is missing: the run has no ").all()
    assert bool(len(errors)) == (missing in ("trace_view.json", "operator_memory.csv"))


@pytest.mark.slow
def test_a_rank_that_failed_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    for rank in range(3):
        whole_result(tmp_path / f"{rank}").rename(tmp_path / f"rank{rank}_ascend_pt")
        (tmp_path / f"rank{rank}_ascend_pt" / "profiler_info_0.json").rename(
            tmp_path / f"rank{rank}_ascend_pt" / f"profiler_info_{rank}.json"
        )
        (tmp_path / f"{rank}").rmdir()
    for path in (tmp_path / "rank1_ascend_pt" / "ASCEND_PROFILER_OUTPUT").iterdir():
        path.write_bytes(b"")
    runs: Profile | ProfileSet = npuprof.load(tmp_path)
    assert isinstance(runs, ProfileSet)
    assert [run.info.rank for run in runs] == [0, 2]
    assert list(runs.failed) == [1]
    assert "is empty" in runs.failed[1]


@pytest.mark.slow
def test_a_directory_in_place_of_a_file_is_no_file(tmp_path: Path) -> None:
    path = whole_result(tmp_path)
    (path / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv").unlink()
    (path / "ASCEND_PROFILER_OUTPUT" / "op_statistic.csv").mkdir()
    assert "op_statistic" not in npuprof.load(path).statistics


def test_a_broken_file_of_msprof_is_reported_by_its_name(tmp_path: Path) -> None:
    root = result(tmp_path / "PROF_1")
    for name, content in (("op_statistic", b""), ("fusion_op", POINTER), ("hbm", b"\0" * 9)):
        (root / "mindstudio_profiler_output" / f"{name}_{STAMP}.csv").write_bytes(content)
    run = npuprof.load(root)
    errors = run.notes[run.notes["severity"] == "error"]
    assert set(errors["source"]) == {f"{name}_{STAMP}.csv" for name in ("op_statistic", "fusion_op", "hbm")}
    assert len(run.kernels) == 1
