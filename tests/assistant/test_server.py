"""The server that an assistant asks, by the official client: what it answers, and what it refuses."""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import Any

import pytest

from npuprof import cli
from npuprof.loading import load
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.assistant.client import ask, ask_here
from tests.report.test_markdown import without_code

pytestmark = pytest.mark.slow

_TOOLS = "list_runs describe advise breakdown top code compare ranks timeline sql explain"
_EVIL = "![x](http://evil.example/p)"
_SECRET = "key = 'hunter2'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a job of two ranks, another run, and a link to outside."""
    pytest.importorskip("mcp", reason="mcp is not installed")
    root = tmp_path_factory.mktemp("served")
    for rank in (0, 1):
        tables = factories.profile(100, kernel_names=("MatMul", _EVIL, "a`b\x1b[2J"))
        info = factories.info(rank=rank, name="job", environment={"hostname": "node17.cluster"})
        Profile(Decoded(tables, info, Notes())).save(root / "job" / f"rank_{rank}")
    code = {"<cell [3]>": f"{_SECRET}\nloss.item()\n"}
    Profile(Decoded(factories.profile(200), factories.info(code=code), Notes())).save(root / "other")
    outside = tmp_path_factory.mktemp("outside")
    Profile(Decoded(factories.profile(20), factories.info(), Notes())).save(outside / "run")
    (root / "away").symlink_to(outside / "run")
    linked = Profile(Decoded(factories.profile(20), factories.info(), Notes())).save(root / "linked")
    (linked / "extra.parquet").symlink_to(outside / "run" / "kernels.parquet")
    return root


def test_every_tool_answers(folder: Path) -> None:
    tools, runs, described, advised, *others = ask(
        folder,
        ("list_runs", {}),
        ("describe", {"path": "other"}),
        ("advise", {"path": "other"}),
        ("describe", {"path": "job"}),
        ("breakdown", {"path": "other"}),
        ("breakdown", {"path": "other", "step": 1}),
        ("top", {"path": "other", "by": "op_type"}),
        ("top", {"path": "other", "by": "communication"}),
        ("code", {"path": "other"}),
        ("compare", {"a": "other", "b": "job/rank_0"}),
        ("ranks", {"path": "job"}),
        ("timeline", {"path": "other", "start_ms": 0, "length_ms": 1}),
        ("sql", {"path": "other", "query": "select count(*) n, sum(duration_ns) from kernels"}),
        ("explain", {"name": "kernels.block_num"}),
        ("explain", {"name": "host_bound"}),
        ("explain", {"name": "--stacks"}),
    )
    assert tools.text == _TOOLS
    assert "`job/rank_1`" in runs.text
    assert "`job` has 2 runs" in runs.text
    run = load(folder / "other")
    assert f"{described.text}\n\n{advised.text}" == run.to_markdown()
    assert not [said.text for said in others if said.is_error]
    assert f"| {len(run.kernels)} | {run.kernels['duration_ns'].sum()} |" in others[9].text
    assert max(len(said.text) for said in others) <= 8_000


_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("describe", {"path": "../outside"}, "list_runs"),
    ("describe", {"path": "/etc"}, "list_runs"),
    ("describe", {"path": "away"}, "list_runs"),
    ("describe", {"path": "linked"}, "list_runs"),
    ("describe", {"path": "a\0b"}, "list_runs"),
    ("describe", {"path": "job", "rank": 7}, "the ranks are 0, 1"),
    ("code", {"path": "job"}, "give `rank`, one of 0, 1"),
    ("ranks", {"path": "other"}, "list_runs"),
    ("breakdown", {"path": "other", "step": 999}, "the steps are"),
    ("top", {"path": "other", "by": "nothing"}, "'op_type'"),
    ("explain", {"name": "nothing"}, "findings are"),
    ("sql", {"path": "other", "query": "select * from nowhere"}, "The tables are"),
]


def test_refusals_name_the_next_step(folder: Path) -> None:
    answers = ask_here(folder, *((tool, arguments) for tool, arguments, _ in _REFUSED))[1:]
    for said, (_, _, next_step) in zip(answers, _REFUSED, strict=True):
        assert said.is_error
        assert next_step in said.text
        assert str(folder) not in said.text


_OUTSIDE = [
    "copy kernels to '{file}'",
    "copy (select 1) to '{file}'",
    "attach '{file}' as other",
    "select * from read_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from read_text('/etc/passwd')",
    "select * from glob('/etc/*')",
    "install httpfs",
    "load httpfs",
    "pragma database_list",
    "set memory_limit = '100GB'",
    "set enable_external_access = true",
    "create table t as select 1",
    "delete from kernels",
    "export database '{file}'",
    "select 1; select 2",
    "call pragma_version()",
    "select getenv('HOME')",
]


def test_sql_only_selects_from_the_run(folder: Path, tmp_path: Path) -> None:
    queries = [query.format(file=tmp_path / "written") for query in _OUTSIDE]
    answers = ask_here(folder, *(("sql", {"path": "other", "query": query}) for query in queries))[1:]
    assert [query for query, said in zip(queries, answers, strict=True) if not said.is_error] == []
    assert not [said.text for said in answers if "root:" in said.text]
    assert not (tmp_path / "written").exists()


@pytest.mark.long
def test_sql_ends_in_time_and_in_bounds(folder: Path) -> None:
    endless = "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r"
    crossed = "select count(*), sum(a.i * b.i) from range(1000000) a(i), range(1000000) b(i)"
    large = "select list(i) l from range(2000000000) t(i)"
    rows = "select * from range(5000)"
    asked = [("sql", {"path": "other", "query": query}) for query in (endless, crossed, large, rows)]
    said = ask(folder, *asked, options=("--sql-seconds", "2"))[1:]
    assert [each.is_error for each in said] == [True, True, True, False]
    assert [bool(re.search("took more than 2 s|2 GB of memory", each.text)) for each in said[:3]] == [True] * 3
    assert "these are the first" in said[3].text


def test_names_are_data(folder: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("top", {"path": "job", "by": "kernel"}),
        ("timeline", {"path": "job", "rank": 1, "length_ms": 1}),
        ("sql", {"path": "job", "query": "select distinct name from kernels"}),
        ("describe", {"path": "job"}),
        ("advise", {"path": "job"}),
    ]
    for said in ask_here(folder, *calls)[1:]:
        assert not said.is_error
        assert "\x1b" not in said.text
        assert not re.search(r"(?<!\\)\]\(|(?<!\\)!\[|://", without_code(said.text))
        assert "node17" not in said.text
        assert getpass.getuser() == "root" or getpass.getuser() not in said.text


@pytest.mark.long
def test_long_answers_are_paged(folder: Path) -> None:
    query = {"path": "other", "query": "select name, start_ns from kernels order by 2", "rows": 200}
    whole, first = ask_here(folder, ("sql", {**query, "limit": 100_000}), ("sql", {**query, "limit": 2_000}))[1:]
    kept, offset = "", 0
    while match := re.search(r"\n\[characters .*offset=(\d+).*\]$", first.text):
        assert len(first.text) <= 2_000
        kept += first.text[: match.start()]
        offset = int(match[1])
        first = ask_here(folder, ("sql", {**query, "limit": 2_000, "offset": offset}))[1]
    assert kept + first.text == whole.text


@pytest.mark.long
def test_numbers_are_served_without_code(folder: Path) -> None:
    calls = [
        ("code", {"path": "other"}),
        ("advise", {"path": "other"}),
        ("describe", {"path": "other"}),
        ("compare", {"a": "other", "b": "job/rank_0"}),
        ("sql", {"path": "other", "query": "select * from statements"}),
    ]
    for said in ask(folder, *calls, options=("--no-source",))[1:]:
        assert "hunter2" not in said.text
        assert "loss.item" not in said.text


def test_missing_folder_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed")
    assert cli.main(["mcp", str(tmp_path / "missing")]) == 1
    assert "is no folder" in capsys.readouterr().err
