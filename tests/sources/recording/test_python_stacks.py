from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuprof import tables
from npuprof.analysis.intervals import covering, within
from npuprof.errors import SourceError
from npuprof.lines.frames import Frame
from npuprof.sources.recording import python_stacks
from npuprof.sources.recording.python_stacks import Samples, merge, node_depths
from npuprof.tables.notes import Notes

EPOCH_NS = 1_763_600_000_000_000_000
_TEXT = ("frame_file", "frame_function", "frame_module")
_LONG = ("time_ns", "thread_id", "stopped_ns", "sample_ns")


def stored(folder: Path, **columns: list[Any]) -> Path:
    arrays = {}
    for name, values in columns.items():
        kind = pa.string() if name in _TEXT else pa.int64() if name in _LONG else pa.int32()
        arrays[name] = pa.array([values], type=pa.list_(kind))
    path = folder / "stacks.parquet"
    pq.write_table(pa.table(arrays), path)
    return path


def read(path: Path, notes: Notes) -> pd.DataFrame:
    return python_stacks.read(path, notes)["python"]


def recorded(
    frames: list[tuple[str, int, str, str]], stacks: list[list[int]], **other: list[Any]
) -> dict[str, list[Any]]:
    """Return the columns of one thread that is in one stack of frame numbers after another, 10 ns each."""
    nodes: dict[tuple[int, int], int] = {}
    leaves = []
    for stack in stacks:
        node = -1
        for frame in stack:
            node = nodes.setdefault((node, frame), len(nodes))
        leaves.append(node)
    columns: dict[str, list[Any]] = {
        "time_ns": [EPOCH_NS + 10 * index for index in range(len(stacks))],
        "thread_id": [77] * len(stacks),
        "node": leaves,
        "stopped_ns": [EPOCH_NS + 10 * len(stacks)],
        "node_parent": [parent for parent, _ in nodes],
        "node_frame": [frame for _, frame in nodes],
        "frame_file": [frame[0] for frame in frames],
        "frame_line": [frame[1] for frame in frames],
        "frame_function": [frame[2] for frame in frames],
        "frame_module": [frame[3] for frame in frames],
    }
    return {**columns, **other}


USER = [
    ("/home/u/model.py", 12, "train", "model"),
    ("/home/u/model.py", 30, "step", "model"),
    ("op.py", 1, "add", "op"),
]


def spans(table: pd.DataFrame) -> list[tuple[str, int, int, int]]:
    return [
        (row.name_, row.start_ns - EPOCH_NS, row.duration_ns, row.depth)
        for row in table.rename(columns={"name": "name_"}).itertuples()
    ]


def test_thread_has_no_stack_outside_cells(tmp_path: Path) -> None:
    moments = [EPOCH_NS + 10 * at for at in range(1, 7)]
    path = stored(tmp_path, **recorded(USER, [[0], [0], [0, 1], [1], [1], [2]], sample_ns=moments, line=[1] * 6))
    edges = [(5, 15), (18, 33), (33, 34), (38, 42), (45, 52)]
    cells = (
        np.array([EPOCH_NS + start for start, _ in edges], np.int64),
        np.array([EPOCH_NS + end for _, end in edges], np.int64),
    )
    tables_read = python_stacks.read(path, Notes(), cells)
    tables.check("python", tables_read["python"])
    assert spans(tables_read["python"]) == [
        ("model.py(12): train", 5, 10, 0),
        ("model.py(12): train", 18, 12, 0),
        ("model.py(30): step", 20, 10, 1),
        ("model.py(30): step", 38, 4, 0),  # from 30 on, but seen at 40: not in the cells before
        ("model.py(30): step", 45, 5, 0),
        # the last one, from 50 on, was seen at 60, when no cell ran
        ("op.py(1): add", 50, 2, 0),
    ]
    seen = (tables_read["sampled_lines"]["time_ns"] - EPOCH_NS).tolist()
    assert seen == [10, 20, 30, 40, 50]


@given(st.data())
def test_times_within_cells_add_up(data: st.DataObject) -> None:
    stacks = data.draw(st.lists(st.sampled_from([[], [0], [0, 1], [2]]), min_size=1, max_size=12))
    edges = sorted(data.draw(st.sets(st.integers(-5, 130), max_size=8)))
    edges = edges[: len(edges) // 2 * 2]
    bounds = np.array(edges, np.int64).reshape(-1, 2).T + EPOCH_NS
    moments = [EPOCH_NS + 10 * at for at in range(1, len(stacks) + 1)]
    columns = recorded(USER, stacks, sample_ns=moments, line=[])
    cells = (bounds[0], bounds[1])
    whole, cut = (python_stacks.read_columns(columns, Path("x"), Notes(), some)["python"] for some in (None, cells))
    starts, ends = cut["start_ns"].to_numpy(np.int64), (cut["start_ns"] + cut["duration_ns"]).to_numpy(np.int64)
    at = np.searchsorted(bounds[0], starts, side="right") - 1
    assert ((at >= 0) & (ends <= np.append(bounds[1], 0)[at])).all()
    for depth in (0, 1):
        before, after = (frame[frame["depth"] == depth] for frame in (whole, cut))
        spent = covering(before["start_ns"].to_numpy(np.int64), before["duration_ns"].to_numpy(np.int64))
        assert after["duration_ns"].sum() <= within(spent, *cells).sum()


def test_samples_with_the_same_outer_frames_are_one_call(tmp_path: Path) -> None:
    table = read(stored(tmp_path, **recorded(USER, [[0], [0, 1], [0, 1, 2], [0, 2], [], [0]])), Notes())
    tables.check("python", table)
    assert spans(table) == [
        ("model.py(12): train", 0, 40, 0),
        ("model.py(30): step", 10, 20, 1),
        ("op.py(1): add", 20, 10, 2),
        ("op.py(1): add", 30, 10, 1),
        ("model.py(12): train", 50, 10, 0),
    ]
    assert table["parent_id"].tolist() == [pd.NA, 0, 1, 0, pd.NA]
    assert set(table["thread_id"]) == {77}


@pytest.mark.parametrize(
    ("file", "short"),
    [
        ("/tmp/ipykernel_4711/123456.py", "<cell>"),
        ("<ipython-input-3-0a1b2c>", "<cell [3]>"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("C:\\code\\net.py", "net.py"),
        ("/home/me/npuprof/net.py", "net.py"),
        # enough folders to tell code of packages and Python from the user's
        ("/home/me/queue.py", "me/queue.py"),
        ("/usr/lib/python3.11/queue.py", "queue.py"),
        ("/usr/lib/python3.11/logging/config.py", "logging/config.py"),
        ("/usr/lib/python3.11/xml/dom/pulldom.py", "lib/python3.11/xml/dom/pulldom.py"),
        ("/v/lib/python3.11/site-packages/torch/nn/functional.py", "torch/nn/functional.py"),
        ("/v/lib/python3.11/site-packages/pandas/core/frame.py", "site-packages/pandas/core/frame.py"),
        ("/v/site-packages" + "/deep" * 100_000 + "/x.py", "/v/site-packages" + "/deep" * 100_000 + "/x.py"),
    ],
    ids=lambda value: value[:60],
)
def test_names_are_short(tmp_path: Path, file: str, short: str) -> None:
    table = read(stored(tmp_path, **recorded([USER[0], (file, 5, "f", "__main__")], [[0, 1]])), Notes())
    assert table["name"].tolist()[1:] == [f"{short}(5): f"]
    assert Frame(short, 5, "f").is_users == Frame(file, 5, "f").is_users


def test_users_program_may_be_named_like_the_launcher(tmp_path: Path) -> None:
    frames = [("/home/me/ipykernel_launcher.py", 5, "train", "my.ipykernel_launcher")]
    assert len(read(stored(tmp_path, **recorded(frames, [[0]])), Notes())) == 1


MIXED = [
    ("/lib/ipykernel_launcher.py", 1, "<module>", "__main__"),
    ("/lib/asyncio/base_events.py", 9, "run_forever", "asyncio.base_events"),
    ("/tmp/ipykernel_1/2.py", 1, "<module>", "__main__"),
    ("/lib/npuprof/session/session.py", 3, "stop", "npuprof.session.session"),
    ("/lib/threading.py", 8, "join", "threading"),
    ("/lib/numpy/lib/mixins.py", 4, "func", "numpy.lib.mixins"),
    ("/lib/npuprof/simulator/device.py", 6, "launch", "npuprof.simulator.device"),
    ("/lib/IPython/core/displayhook.py", 6, "__call__", "IPython.core.displayhook"),
    ("/lib/IPython/core/interactiveshell.py", 7, "showtraceback", "IPython.core.interactiveshell"),
    ("/lib/inspect.py", 5, "getmodule", "inspect"),
    ("/lib/npuprof/session/active.py", 5, "stop", "npuprof.session.active"),
    ("/lib/contextlib.py", 5, "__exit__", "contextlib"),
    ("/lib/IPython/core/interactiveshell.py", 8, "_format_exception_for_storage", "IPython.core.interactiveshell"),
]


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ([0, 1, 2], ["<module>"]),
        ([0, 1], []),
        ([0, 1, 2, 1], ["<module>", "run_forever"]),
        ([0, 2, 3, 4], ["<module>"]),
        ([0, 2, 3, 2, 4], ["<module>", "<module>", "join"]),
        ([0, 2, 5, 6], ["<module>"]),
        ([0, 2, 7, 4], ["<module>"]),
        ([0, 3, 4], []),
        ([0, 8, 9], []),
        ([0, 12, 9], []),
        ([0, 2, 8, 9], ["<module>"]),
        ([0, 10, 11], []),
        ([0, 2, 3, 10, 11], ["<module>"]),
        ([0, 2, 11], ["<module>", "__exit__"]),
        ([0, 1, 11, 1], []),
        ([0, 1, 11, 2], ["<module>"]),
    ],
)
def test_frames_outside_the_cell_are_left_out(tmp_path: Path, stack: list[int], expected: list[str]) -> None:
    notes = Notes()
    table = read(stored(tmp_path, **recorded(MIXED, [stack])), notes)
    assert [name.rpartition(": ")[2] for name in table["name"]] == expected
    assert len(notes) == (0 if expected else 1)


def test_stacks_differing_in_omissions_are_one(tmp_path: Path) -> None:
    table = read(stored(tmp_path, **recorded(MIXED, [[0, 2], [0, 1, 2], [2, 3, 4]])), Notes())
    assert spans(table) == [("<cell>(1): <module>", 0, 30, 0)]


@st.composite
def samples(draw: st.DrawFn) -> Samples:
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, index - 1)) for index in range(count)]
    changes = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3), st.integers(-1, count - 1)), max_size=40))
    times, threads, nodes = (
        (np.array(part, np.int64) for part in zip(*changes, strict=True))
        if changes
        else (np.zeros(0, np.int64) for _ in range(3))
    )
    return Samples(times, threads, nodes, 60, np.array(parents, np.int64), np.arange(count))


def _sampled_ns(given_: Samples) -> int:
    """The time in any stack times its depth, the plain way."""
    depth = node_depths(given_.node_parent)
    total = 0
    for thread in set(given_.thread_id.tolist()):
        mine = np.flatnonzero(given_.thread_id == thread)
        mine = mine[np.argsort(given_.time_ns[mine], kind="stable")]
        times = [*given_.time_ns[mine].tolist(), given_.stopped_ns]
        for index, node in enumerate(given_.node[mine].tolist()):
            total += (times[index + 1] - times[index]) * (int(depth[node]) + 1 if node >= 0 else 0)
    return total


@given(samples())
def test_calls_nest_and_their_times_add_up(given_: Samples) -> None:
    calls = merge(given_)
    end = calls.start_ns + calls.duration_ns
    assert (calls.duration_ns > 0).all()
    assert (np.diff(calls.start_ns) >= 0).all()
    assert int(calls.duration_ns.sum()) == _sampled_ns(given_)
    inner = np.flatnonzero(calls.parent >= 0)
    outer = calls.parent[inner]
    assert (outer < inner).all()
    assert (calls.start_ns[outer] <= calls.start_ns[inner]).all()
    assert (end[inner] <= end[outer]).all()
    assert (calls.depth[inner] == calls.depth[outer] + 1).all()
    assert (calls.thread_id[inner] == calls.thread_id[outer]).all()
    assert (given_.node_parent[calls.node[inner]] == calls.node[outer]).all()
    assert (calls.depth[calls.parent < 0] == 0).all()


@given(samples())
def test_calls_of_one_level_of_a_thread_do_not_overlap(given_: Samples) -> None:
    calls = merge(given_)
    order = np.lexsort((calls.start_ns, calls.depth, calls.thread_id))
    start, end = calls.start_ns[order], (calls.start_ns + calls.duration_ns)[order]
    same = (np.diff(calls.thread_id[order]) == 0) & (np.diff(calls.depth[order]) == 0)
    assert (start[1:][same] >= end[:-1][same]).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"node": [0, 1, 9]},
        {"node": [0, -2, 0]},
        {"node_parent": [1, 0]},
        {"node_parent": [0, 0]},
        {"node_frame": [0, 3]},
        {"node_frame": [-1, 0]},
        {"time_ns": [1]},
        {"node_parent": [-1]},
        {"frame_line": [1]},
        {"stopped_ns": []},
        {"thread_id": [1, 2, None]},
    ],
    ids=str,
)
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, wrong: dict[str, list[Any]]) -> None:
    path = stored(tmp_path, **recorded(USER, [[0], [0, 1], [0]], **wrong))
    with pytest.raises(SourceError, match=r"stacks\.parquet"):
        read(path, Notes())


@pytest.mark.parametrize(
    ("text", "told"), [(b"strange.py", "has a text that is no UTF-8"), (b"frame_file", "cannot be read")]
)
def test_broken_utf8_is_one_clear_error(tmp_path: Path, text: bytes, told: str) -> None:
    path = stored(tmp_path, **recorded([("strange.py", 1, "f", "m")], [[0], [0]]))
    content = path.read_bytes()
    path.write_bytes(content.replace(text, b"\xff" * len(text)))
    assert path.read_bytes() != content
    with pytest.raises(SourceError, match=rf"stacks\.parquet {told}"):
        read(path, Notes())


def test_each_sample_has_the_line_that_it_saw(tmp_path: Path) -> None:
    installed = ("/usr/lib/python3.11/queue.py", 154, "get", "queue")
    columns = recorded([*USER[:2], installed], [[0], [0, 1], [0, 1], [0, 2], [2], []], line=[14, 31, 33, 15, 0, 0])
    columns["sample_ns"] = [EPOCH_NS + 10 * number for number in range(1, 7)]
    lines = python_stacks.read(stored(tmp_path, **columns), Notes())["sampled_lines"]
    tables.check("sampled_lines", lines)
    assert [(time - EPOCH_NS, *row) for time, *row in lines.itertuples(index=False)] == [
        (10, "/home/u/model.py", 14, "train", 77),
        (20, "/home/u/model.py", 31, "step", 77),
        (30, "/home/u/model.py", 33, "step", 77),
        (40, "/home/u/model.py", 15, "train", 77),
    ]


def test_cell_of_npuprof_calls_took_no_time(tmp_path: Path) -> None:
    line_magic = ("/lib/IPython/core/interactiveshell.py", 9, "run_line_magic", "IPython.core.interactiveshell")
    stop = ("/lib/npuprof/notebook/magics.py", 4, "npuprof", "npuprof.notebook.magics")
    other = ("/lib/IPython/core/magics/execution.py", 4, "time", "IPython.core.magics.execution")
    frames = [MIXED[2], line_magic, stop, USER[0], other]
    stacks = [[0], [0, 1, 2], [0, 1, 2, 3], [0, 1, 4], [0]]  # before, stop, a script that it runs, %time, after
    columns = recorded(frames, stacks, line=[2, 3, 14, 4, 5])
    columns["sample_ns"] = [EPOCH_NS + 10 * number for number in range(1, 6)]
    read_ = python_stacks.read(stored(tmp_path, **columns), Notes())
    assert spans(read_["python"]) == [
        ("<cell>(1): <module>", 0, 10, 0),
        ("<cell>(1): <module>", 20, 30, 0),
        ("model.py(12): train", 20, 10, 1),
    ]
    assert read_["sampled_lines"]["line"].tolist() == [2, 14, 4, 5]


def test_recordings_without_sampled_lines_are_read(tmp_path: Path) -> None:
    frames = python_stacks.read(stored(tmp_path, **recorded(USER, [[0], [0, 1]])), Notes())
    assert (len(frames["python"]), len(frames["sampled_lines"])) == (2, 0)


def test_lines_of_other_length_than_their_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="different lengths among node, line"):
        read(stored(tmp_path, **recorded(USER, [[0], [0, 1]], line=[1])), Notes())


def test_endless_stacks_are_refused(tmp_path: Path) -> None:
    path = stored(tmp_path, **recorded(USER, [[0] * 1_200]))
    with pytest.raises(SourceError, match="1000 frames"):
        read(path, Notes())


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing of that kind PAR1"])
def test_foreign_parquet_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "stacks.parquet"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="cannot be read"):
        read(path, Notes())


def test_other_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"time_ns": [1, 2]}), path)
    with pytest.raises(SourceError, match="no column"):
        read(path, Notes())
    columns = recorded(USER, [[0]])
    del columns["frame_module"]
    with pytest.raises(SourceError, match="frame_module"):
        read(stored(tmp_path, **columns), Notes())


def test_an_absent_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read(tmp_path / "absent.parquet", Notes())


def test_reading_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = stored(tmp_path, **recorded(USER, [[0]]))
    path.chmod(0o400)
    before = path.read_bytes()
    read(path, Notes())
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
