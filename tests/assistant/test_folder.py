"""The folder that an assistant may read: links, jobs side by side, and names of people."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from tests import factories
from tests.analysis.test_code_lines import cell
from tests.assistant.client import ask_here
from tests.difference.runs import run

pytestmark = pytest.mark.slow

_OUTSIDE = "is outside of the folder"
_LINK = "is a link to outside of the folder"


def _run(folder: Path, **about: object) -> Path:
    return Profile(Decoded(factories.all_tables(**cell()), factories.info(**about), Notes())).save(folder)


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("real", ""),
        ("to_real", ""),
        ("holds/to_real", ""),
        ("out", _OUTSIDE),
        ("..", _OUTSIDE),
        ("real/../../secret", _OUTSIDE),
        ("../none", _OUTSIDE),
        ("/etc", _OUTSIDE),
        ("~", "there is no"),
        ("none", "there is no"),
        ("loop", "cannot be read"),
        ("a\0b", "NUL"),
        ("linked", _LINK),
        ("through_another", _LINK),
        ("cycle", _LINK),
    ],
)
def test_only_the_folder_is_read(tmp_path: Path, path: str, refused: str) -> None:
    served, secret = tmp_path / "served", tmp_path / "secret"
    _run(served / "real")
    _run(secret / "run", name="secret")
    (served / "holds").mkdir()
    for link in (served / "to_real", served / "holds" / "to_real"):
        link.symlink_to(served / "real")
    (served / "out").symlink_to(secret / "run")
    (served / "loop").symlink_to(served / "loop")
    shutil.copytree(served / "real", served / "linked")
    (served / "linked" / "more.parquet").symlink_to(secret / "run" / "kernels.parquet")
    for name in ("through_another", "cycle", "bridge"):
        (served / name).mkdir()
    (served / "bridge" / "run").symlink_to(secret / "run")
    (served / "through_another" / "inner").symlink_to(served / "bridge")
    (served / "cycle" / "self").symlink_to(served / "cycle")
    (served / "cycle" / "bridge").symlink_to(served / "bridge")
    said = ask_here(served, ("top", {"path": path, "by": "op_type"}))[1]
    assert said.is_error == bool(refused)
    assert refused in said.text
    assert not refused or "list_runs" in said.text
    assert "secret" not in said.text.replace(repr(path), "")


def test_runs_of_several_jobs_are_listed(tmp_path: Path) -> None:
    for job, world_size in (("a", 2), ("b", 4)):
        (tmp_path / job).mkdir()
        for rank in (0, 1):
            trace = {
                "schemaVersion": 1,
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world_size},
                "traceEvents": [
                    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
                ],
            }
            (tmp_path / job / f"rank{rank}.json").write_text(json.dumps(trace))
    every, of_one = ask_here(tmp_path, ("list_runs", {}), ("list_runs", {"path": "b"}))[1:]
    assert not every.is_error, every.text
    assert all(f"`{job}/rank{rank}.json`" in every.text for job in "ab" for rank in (0, 1))
    assert "Set: `a` has 2 runs" in every.text
    assert "a/rank" not in of_one.text


def test_runs_outside_are_counted(tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "out").symlink_to(_run(tmp_path / "secret"))
    said = ask_here(tmp_path / "served", ("list_runs", {}))[1]
    assert said.text == "0 runs\n\n- 1 run left out: links to outside of the folder"


def test_names_in_errors_and_headlines_never_act(tmp_path: Path) -> None:
    evil = "![see](x) [click](y) <img src=z>"
    (tmp_path / f"{evil}.json").write_text("{}")
    made = run([[("MatMul", "2,2", 4_000_000)]] * 3)
    steps = made.tables["steps"]
    tables = {**made.tables, "steps": steps.assign(kind=pd.Categorical([evil] * len(steps)))}
    Profile(Decoded(tables, factories.info(), Notes())).save(tmp_path / "run")
    asked = [("describe", {"path": f"{evil}.json"}), ("breakdown", {"path": "run"}), ("list_runs", {"path": "none"})]
    texts = [said.text for said in ask_here(tmp_path, *asked)[1:]]
    assert "see" in texts[0]
    assert "see" in texts[1]
    assert not [text for text in texts if re.search(r"(?<!\\)(!\[|\]\(|<img)", re.sub("`[^`]*`", "", text))]


@pytest.mark.parametrize("with_source", [True, False])
def test_sets_are_served_without_code(tmp_path: Path, with_source: bool) -> None:
    for rank in (0, 1):
        _run(tmp_path / "job" / f"rank_{rank}", rank=rank, code={"<cell [3]>": "a\nb\nsecret = 42\nc\nd\n"})
    asked: list[tuple[str, dict[str, Any]]] = [
        *((tool, {"path": "job"}) for tool in ("describe", "advise", "ranks")),
        ("code", {"path": "job", "rank": 1}),
        ("compare", {"a": "job/rank_0", "b": "job/rank_1"}),
        ("advise", {"path": "job", "rank": 0}),
    ]
    texts = [said.text for said in ask_here(tmp_path, *asked, with_source=with_source)[1:]]
    assert any("secret = 42" in text for text in texts) == with_source
    assert "`<cell [3]>`" in texts[3]


def test_recorded_people_are_left_out(tmp_path: Path) -> None:
    code = {"<cell [3]>": "a\nb\n", "/home/jane.doe/model.py": "c\n"}
    about = {"environment": {"hostname": "trainbox7"}, "name": "of jane.doe on trainbox7", "options": {"name": "mine"}}
    _run(tmp_path / "run", code=code, **about)
    query = "select file, count(*) n from launches group by 1"
    asked = [("describe", {"path": "run"}), ("code", {"path": "run"}), ("sql", {"path": "run", "query": query})]
    text = "\n".join(said.text for said in ask_here(tmp_path, *asked)[1:])
    assert "`of <user> on <host>`" in text
    assert "~/model.py" in text
    assert not [name for name in ("jane", "trainbox7", str(tmp_path)) if name in text]
