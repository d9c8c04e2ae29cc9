"""Whoever loads a large file sees how far it is, and can end it."""

from __future__ import annotations

import io
import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import npuprof
from npuprof import progress
from npuprof.progress import Progress, TerminalBar, report_progress, shown, watched
from tests.sources.trace.maker import at


class Screen(io.StringIO):
    """A terminal that keeps all that was written to it."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        return self.getvalue().split("\r\x1b[K")[1:]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Show everything at once, in a terminal, whatever runs the tests."""
    made = Screen()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=made, modules={}))
    monkeypatch.setattr(progress, "_DELAY_S", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.0)
    monkeypatch.setenv("COLUMNS", "100")
    return made


def timeline(path: Path) -> Path:
    """Write a timeline of several blocks."""
    events = [
        {
            "ph": "X",
            "name": f"op {row % 90}",
            "pid": 1,
            "tid": 2,
            "ts": at(row),
            "dur": 0.5,
            "cat": "cpu_op",
            "args": {},
        }
        for row in range(30_000)
    ]
    path.write_text(json.dumps(events), encoding="utf-8")
    return path


def database(path: Path) -> Path:
    """Write a database whose largest table has several batches."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE STRING_IDS (id INTEGER, value TEXT)")
        connection.execute("INSERT INTO STRING_IDS VALUES (1, 'aclnnAdd')")
        connection.execute(
            "CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, "
            "connectionId INTEGER, name INTEGER)"
        )
        rows = [(1_700_000_000_000_000_000 + row, 1_700_000_000_000_000_001 + row, 1, 7, row, 1) for row in range(9000)]
        connection.executemany("INSERT INTO CANN_API VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.commit()
    return path


def table(path: Path) -> Path:
    """Write a CSV of kernels."""
    rows = "".join(f"Add,AddOp,AI_CORE,{at(row)}\t,1.5\n" for row in range(5000))
    path.write_text(f"Name,Type,Accelerator Core,Start Time(us),Duration(us)\n{rows}", encoding="utf-8")
    return path


FILES = [
    pytest.param(timeline, "trace_view.json", id="timeline"),
    pytest.param(database, "ascend_pytorch_profiler_0.db", id="database"),
    pytest.param(table, "kernel_details.csv", id="csv"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("write", "name"), FILES)
def test_loading_reports_progress(tmp_path: Path, write: Callable[[Path], Path], name: str) -> None:
    told: list[Progress] = []
    path = write(tmp_path / name)
    with watched(told.append):
        _ = npuprof.load(path).info
    own = [one for one in told if one.name.startswith(name)]
    assert own
    in_bytes = [one for one in own if one.unit == "bytes"]
    assert all(one.total == path.stat().st_size for one in in_bytes)
    assert not in_bytes or in_bytes[-1].fraction == 1.0
    assert [one.done for one in in_bytes] == sorted(one.done for one in in_bytes)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("write", "name"), FILES)
def test_an_interrupt_ends_the_loading_and_leaves_nothing(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], Path], name: str
) -> None:
    path = write(tmp_path / name)
    rest = tmp_path / "temporary"
    rest.mkdir()
    monkeypatch.setenv("TMPDIR", str(rest))
    show = TerminalBar.show

    def interrupted(bar: TerminalBar, what: Progress) -> None:
        show(bar, what)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TerminalBar, "show", interrupted)
    content = path.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        _ = npuprof.load(path).info
    assert (path.read_bytes(), _open_files(tmp_path)) == (content, [])
    assert sorted(tmp_path.iterdir()) == sorted([path, rest])
    assert not list(rest.iterdir())
    assert len(screen.lines) == 2
    assert screen.lines[-1] == ""
    report_progress("after it", 1, 2)
    assert len(screen.lines) == 2
    monkeypatch.setattr(TerminalBar, "show", show)
    assert any(map(len, npuprof.load(path).tables.values()))


def _open_files(below: Path) -> list[str]:
    """Return the open files below a folder: others may be closed meanwhile, where they are garbage of other tests."""
    links = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return sorted(link for link in links if link.startswith(str(below)))


@pytest.mark.slow
def test_terminal_line_is_wiped_at_the_end(tmp_path: Path, screen: Screen) -> None:
    path = timeline(tmp_path / "trace_view.json")
    npuprof.load(path)
    assert "\n" not in screen.getvalue()
    assert screen.lines[-1] == ""
    size = f"{path.stat().st_size / (1 << 20):.1f} MiB"
    assert screen.lines[0].startswith("[")
    assert screen.lines[-2] == f"[{'#' * 24}] trace_view.json: {size} of {size} read"
    assert all(len(line) < 100 for line in screen.lines)


def test_what_takes_no_second_shows_nothing(tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_DELAY_S", 3600.0)
    npuprof.load(table(tmp_path / "kernel_details.csv"))
    assert screen.getvalue() == ""


def test_where_there_is_no_terminal_nothing_is_written(
    tmp_path: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Screen, "isatty", lambda _screen: False)
    npuprof.load(table(tmp_path / "kernel_details.csv"))
    assert screen.getvalue() == ""


def test_a_bar_that_cannot_be_drawn_does_not_end_the_reading(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def broken(_bar: TerminalBar, what: Progress) -> None:
        calls.append(what)
        raise OSError("the terminal is gone")

    monkeypatch.setattr(TerminalBar, "show", broken)
    with shown():
        report_progress("a", 1, 2)
        report_progress("a", 2, 2)
    assert len(calls) == 1


def test_a_block_within_a_watched_one_belongs_to_its_watcher(screen: Screen) -> None:
    told: list[Any] = []
    with watched(told.append), shown():
        report_progress("a", 1, 2)
    assert told == [Progress("a", 1, 2)]
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (Progress("a.json", 3 << 20, 1 << 30), "a.json: 3.0 MiB of 1.0 GiB read"),
        (Progress("a.db, TASK", 12_000, 0, "rows"), "a.db, TASK: 12,000 rows read"),
        (Progress("a", 5, 0), "a: 5 bytes read"),
    ],
)
def test_amounts_are_in_words(what: Progress, text: str) -> None:
    assert str(what) == text
