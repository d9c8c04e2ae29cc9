"""What is said of damaged input is done, and the sentence goes away: each kind of next step that the code names."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import pytest

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import synthesise
from tests.campaign.fuzz.seeds import SEEDS, write
from tests.sources.cluster import maker as cluster
from tests.sources.database.maker import framework_database
from tests.sources.kineto.jobs import TorchJob
from tests.sources.msprof.results import SUMMARY_HEAD, csv, kernel
from tests.sources.test_broken_input import FILES, _raw_only, whole_result

_PACKAGE = Path(npuprof.__file__).parent
_VERBS = (
    "run export copy save analyse make load give check unpack open record free set collect put move name take use "
    "choose select pass try install"
)
_STEP = re.compile(
    rf"(?:[:;,(?]|\b(?:or|and|then))\s+(?=((?:`?msprof|`?(?:{_VERBS.replace(' ', '|')})|is it another)\b(?!\.)[^;]*))"
)
_AGAIN = r"\b(?:export|copy|save|analyse|record|make|load)\b(?: or \w+)?(?: \S+){0,3} again\b"

_DONE = {
    _AGAIN: "test_sound_file_silences_its_message",
    r"is it another\b": "test_sound_file_silences_its_message",
    r"run `git lfs pull` in its (folder|repository)": "test_git_lfs_pull_is_run_where_it_is_said",
    r"check (the file and its rights|its permissions|the path|the file$)": "test_rights_are_put_right",
    r"give (that|\{\}$|the path of (a recording|one run))|give the result that": "test_the_path_that_is_named_is_given",
    r"give the directory of (a|its) result|give the directory that it lies in": "test_the_path_that_is_named_is_given",
    r"give it (cluster_analysis_output|a recording)": "test_the_path_that_is_named_is_given",
    r"give the (\*_ascend_pt|directory \*_ascend_pt)|from which raw files": "test_the_path_that_is_named_is_given",
    r"give the file as it was exported": "test_a_table_of_a_spreadsheet_is_given_as_it_was_exported",
    r"save its content|open it in a browser, or give the result": "test_the_content_of_a_pipe_is_saved_to_a_file",
    r"load (it|each) by itself|load this (file|directory)": "test_what_is_not_shown_is_loaded_by_itself",
    r"load the (rank's own result|PROF_\*)|load an ascend": "test_a_reader_names_what_it_reads",
    r"unpack (it|the archive)|load (what it holds|that)|pack it as": "test_what_is_not_unpacked_is_unpacked",
    r"make the archive without --sparse": "test_what_is_not_unpacked_is_unpacked",
    r"`?(msprof --export|analyse\()": "test_commands_that_make_a_result_are_run",
    r"copy FRAMEWORK and PROF_": "test_raw_files_are_copied_into_a_result_that_was_not_analysed",
    r"copy its rows into a table of that name": "test_rows_of_a_view_are_copied_into_a_table",
    r"load all ranks together|load the ranks of one job": "test_ranks_are_loaded_together",
    r"load those of one job alone|move them into a folder of their own": "test_ranks_are_loaded_together",
}
"""Kinds of next steps, and the test that does them."""

_NOT_DONE = {
    r"(free|set TMPDIR|load (it on|a part)|load it, if|use a larger)": "full disks and memories",
    r"record (fewer|one with|them|again|with)|collect (them|the)": "another recording on a device",
    r"check (how it was made|it)$": "the program that made a path, or damage that nothing explains",
    r"give (the directory of a recording or|one further in|another directory|it at least|a row|an?|whole numbers)": (
        "of arguments, or an endless tree"
    ),
    r"(name|take|select|pass|choose) ": "of arguments that do not fit the data: tests of selections and sets",
    r"load the result with its trace_view|load the file of each rank": "a file that was left out by its owner",
    r"open it with MindStudio|load what export_chrome_trace wrote|msprof, and memory": "another tool",
    r"put right$|load the ranks again": "no next step, or a race with who writes",
}
"""Kinds of next steps that no test can do, or that others do, and why."""


def _texts(path: Path) -> Iterator[str]:
    """Yield the texts that a module makes messages of, with ``{}`` for what is filled in."""
    tree = ast.parse(path.read_text("utf-8"))
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside | documents:
            yield node.value


def steps_in(text: str) -> list[str]:
    """Return the next steps that a message names."""
    return [match[1].strip() for match in _STEP.finditer(text)]


def _places() -> list[Path]:
    return [*(_PACKAGE / "sources").rglob("*.py"), *(_PACKAGE / "ranks").rglob("*.py"), _PACKAGE / "loading.py"]


@pytest.mark.slow
def test_each_next_step_of_the_code_is_done_or_cannot_be() -> None:
    named = {step for path in _places() for text in _texts(path) for step in steps_in(text)}
    assert len(named) > 50
    known = [*_DONE, *_NOT_DONE]
    assert [step for step in sorted(named) if not any(re.match(pattern, step) for pattern in known)] == []
    assert {name for name in _DONE.values() if name not in globals()} == set()
    assert [pattern for pattern in known if not any(re.match(pattern, step) for step in named)] == []


# -- trials --------------------------------------------------------------------------------------------------------


def _load(path: Path, source: Literal["parsed"] | None = None) -> tuple[Profile | ProfileSet | None, list[str]]:
    """Return what is loaded, None where nothing can be, and the messages that name a next step."""
    try:
        run = npuprof.load(path, source=source)
    except NpuprofError as error:
        return None, [str(error)]
    told = run.notes["message"].tolist()
    return run, [message for message in told if steps_in(message)]


def _only(messages: list[str], part: str) -> str:
    (message,) = [each for each in messages if part in each]
    return message


_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "of zero bytes": lambda content: bytes(len(content)),
    "cut": lambda content: content[: len(content) // 2],
    "an image": lambda _: b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
    "of other columns": lambda _: b"first,second\n1,2\n",
}


_ONLY_COUNTED = ("raw", "raw collectives")  # records that are lost: nothing writes them again


def _check_damages(seed: str, folder: Path, of_each: int) -> None:
    """Check a set whose files are damaged one by one, each in so many ways; every way is tried with some file."""
    path = write(seed, folder)
    whole, before = _load(path)
    assert whole is not None
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    ways = cycle(_DAMAGES.values())
    told = 0
    for file in files:
        content = file.read_bytes()
        for damage in islice(ways, of_each):
            file.write_bytes(damage(content))
            told += bool(set(_load(path)[1]) - set(before))
        file.write_bytes(content)
        if of_each == len(_DAMAGES):
            assert _load(path)[1] == before
    assert _load(path)[1] == before
    assert bool(told) == (seed not in _ONLY_COUNTED)


_MANY_FILES = ("framework and device", "mindspore", "raw", "recording")


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=() if seed in ("text", "database") else pytest.mark.long) for seed in SEEDS]
)
def test_sound_file_silences_its_message(seed: str, tmp_path: Path) -> None:
    _check_damages(seed, tmp_path, 2 if seed in _MANY_FILES else len(_DAMAGES))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", _MANY_FILES)
def test_so_it_is_with_each_damage_of_each_file(seed: str, tmp_path: Path) -> None:
    _check_damages(seed, tmp_path, len(_DAMAGES))


_GIT = """#!/bin/sh
# `git lfs pull` of the working directory: pointers become what they point to.
[ "$1 $2" = "lfs pull" ] || exit 9
find . -type f | while read -r file; do
    oid=$(sed -n 's/^oid sha256://p' "$file" 2>/dev/null)
    [ -n "$oid" ] && cp "$STORE/$oid" "$file"
done
exit 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("alone", [True, False], ids=["a file", "a result"])
@pytest.mark.parametrize("name", [*FILES, "ascend_pytorch_profiler_3.db"])
def test_git_lfs_pull_is_run_where_it_is_said(
    name: str, *, alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = whole_result(tmp_path)
    file = root / "ASCEND_PROFILER_OUTPUT" / name
    if name.endswith(".db"):
        for other in file.parent.iterdir():
            other.unlink()
        framework_database(file)
    (tmp_path / "store").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(_GIT)
    (tmp_path / "bin" / "git").chmod(0o700)
    shutil.copyfile(file, tmp_path / "store" / "0123")
    path = file if alone else root
    _, sound = _load(path)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 870000000\n")
    _, messages = _load(path)
    said = next(iter(re.findall(r"run `([^`]+)` in its (folder|repository)", "\n".join(messages))))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("STORE", str(tmp_path / "store"))
    subprocess.run(said[0], shell=True, check=True, cwd=file.parent if said[1] == "folder" else root)
    assert _load(path)[1] == sound
    assert _load(path)[0] is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, "ascend_pytorch_profiler_3.db", "missing.csv"])
def test_rights_are_put_right(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / name
    if name.endswith(".db"):
        framework_database(file)
    elif name in FILES:
        file.write_bytes(FILES[name])
    denied = tmp_path / "other.csv" if name == "missing.csv" else file
    if name == "missing.csv":
        file.write_bytes(FILES["kernel_details.csv"])
    if denied == file:
        if os.geteuid() == 0:
            pytest.skip("root may read everything")
        file.chmod(0)
    loaded, messages = _load(denied)
    assert loaded is None
    assert re.search(r"check (the file and its rights|its permissions|the path)", messages[0])
    assert str(denied) in messages[0]
    file.chmod(0o600)
    assert _load(file)[0] is not None


@pytest.mark.slow
def test_the_path_that_is_named_is_given(tmp_path: Path) -> None:
    raw = synthesise(tmp_path / "raw", launches=3)
    named = re.search(r"it is a part of (.+), which can be read: give that", _load(raw / "host")[1][0])
    assert named is not None
    assert _load(Path(named[1]))[0] is not None

    root = whole_result(tmp_path / "torch_npu")
    facts = tmp_path / "apart" / "profiler_metadata.json"
    facts.parent.mkdir()
    facts.write_text('{"distributed_args": {"rank": 0}}')
    assert "give the directory that it lies in" in _load(facts)[1][0]
    shutil.copytree(root, facts.parent, dirs_exist_ok=True)
    assert _load(facts.parent)[0] is not None

    trace = tmp_path / "empty" / "trace_view.json"
    trace.parent.mkdir()
    trace.write_text('[{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "CANN"}}]')
    assert "give the directory of its result" in _load(trace)[1][0]
    assert _load(root)[0] is not None

    folder = tmp_path / "others"
    csv(folder / "kernel_details (1).csv", SUMMARY_HEAD, [kernel("A", 5, 1)])
    named = re.search(r"one at a time: give (.+)$", _load(folder)[1][0])
    assert named is not None
    assert _load(folder / named[1])[0] is not None


@pytest.mark.slow
@pytest.mark.parametrize("source", ["cluster", "database", "raw", "torch_npu", "framework", "folder of files"])
def test_a_reader_names_what_it_reads(source: str, tmp_path: Path) -> None:
    from npuprof.sources import cluster as of_clusters
    from npuprof.sources import database, folder_of_files, raw, torch_npu
    from npuprof.sources.torch_npu import raw_files

    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "notes.txt").write_text("nothing")
    readers: dict[str, tuple[Callable[[Path], object], str, Callable[[Path], Path]]] = {
        "cluster": (of_clusters.SOURCE.read, "give it cluster_analysis_output", cluster.text_result),
        "database": (database.SOURCE.read, "or the directory that holds it", lambda at: write("database", at).parent),
        "raw": (raw.SOURCE.read, "load the PROF_* directory", lambda at: synthesise(at, launches=3)),
        "torch_npu": (torch_npu.SOURCE.read, "give the *_ascend_pt directory", whole_result),
        "framework": (
            raw_files.SOURCE.read,
            "give the directory *_ascend_pt",
            lambda at: write("framework and device", at),
        ),
        "folder of files": (folder_of_files.SOURCE.read, "give the directory of a result", whole_result),
    }
    read, says, right = readers[source]
    with pytest.raises(NpuprofError, match=re.escape(says)):
        read(wrong)
    (tmp_path / "right").mkdir()
    assert _load(right(tmp_path / "right"))[0] is not None


@pytest.mark.slow
def test_a_table_of_a_spreadsheet_is_given_as_it_was_exported(tmp_path: Path) -> None:
    exported = csv(tmp_path / "kernel_details.csv", SUMMARY_HEAD, [kernel("A", 5, 1)])
    spoilt = tmp_path / "saved" / "kernel_details.csv"
    spoilt.parent.mkdir()
    spoilt.write_text(exported.read_text().replace(",", ";"))
    assert "give the file as it was exported" in _load(spoilt)[1][0]
    assert _load(exported) == (_load(exported)[0], []) or _load(exported)[1] == []


@pytest.mark.slow
def test_the_content_of_a_pipe_is_saved_to_a_file(tmp_path: Path) -> None:
    exported = csv(tmp_path / "kernel_details.csv", SUMMARY_HEAD, [kernel("A", 5, 1)])
    pipe, copy = tmp_path / "pipe", tmp_path / "copy.csv"
    os.mkfifo(pipe)
    assert "save its content to a file, and give that" in _load(pipe)[1][0]
    with subprocess.Popen(f"cat '{exported}' > '{pipe}'", shell=True):
        subprocess.run(f"cat '{pipe}' > '{copy}'", shell=True, check=True)
    assert _load(copy)[0] is not None
    page = npuprof.load(exported).to_html(tmp_path / "page.html")
    assert "give the result that it was made of" in _load(Path(page))[1][0]


@pytest.mark.slow
def test_what_is_not_shown_is_loaded_by_itself(tmp_path: Path) -> None:
    job = tmp_path / "job"
    for rank in range(2):
        whole_result(tmp_path / f"{rank}").rename(job / f"rank{rank}_ascend_pt") if job.exists() else None
        if not job.exists():
            job.mkdir()
            whole_result(tmp_path / f"{rank}").rename(job / f"rank{rank}_ascend_pt")
    shutil.make_archive(str(job / "rank2_ascend_pt"), "zip", whole_result(tmp_path / "2"))
    named = re.search(r"not opened \((.+?)\): load each by itself", "\n".join(_load(job)[1]))
    assert named is not None
    assert _load(Path(named[1]))[0] is not None
    shutil.unpack_archive(named[1], job / "rank2_ascend_pt")
    Path(named[1]).unlink()
    assert not any("not opened" in message for message in _load(job)[1])

    older, newer = (tmp_path / "msprof" / f"msprof_2026082112000{number}.db" for number in range(2))
    older.parent.mkdir()
    framework_database(older)
    framework_database(newer)
    run = npuprof.load(older.parent)
    told = run.notes[run.notes["message"].str.contains("load it by itself")]
    assert told["source"].tolist() == [older.name]
    assert not any("by itself" in message for message in _load(older)[1])


@pytest.mark.slow
def test_what_is_not_unpacked_is_unpacked(tmp_path: Path) -> None:
    root = whole_result(tmp_path / "whole")
    packed = tmp_path / "run.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(root, "rank0_ascend_pt")
    other = tmp_path / "run.tar.bz2"
    with tarfile.open(other, "w:bz2") as archive:
        archive.add(root, "rank0_ascend_pt")
    assert "unpack it and load what it holds, or pack it as .zip or .tar.gz" in _load(other)[1][0]
    shutil.unpack_archive(other, tmp_path / "unpacked")
    assert _load(tmp_path / "unpacked")[0] is not None
    for kind in ("zip", "gztar"):
        assert _load(Path(shutil.make_archive(str(tmp_path / f"again {kind}"), kind, root.parent)))[0] is not None

    locked = tmp_path / "locked.zip"
    with zipfile.ZipFile(locked, "w") as archive_of_zip:
        for name, content in FILES.items():
            archive_of_zip.writestr(name, content)
    packed_bytes = bytearray(locked.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for match in re.finditer(re.escape(magic), bytes(packed_bytes)):
            packed_bytes[match.start() + at] |= 1
    locked.write_bytes(packed_bytes)
    assert "unpack the archive with its password, and load that" in _load(locked)[1][0]
    (tmp_path / "with password").mkdir()
    for name, plain in FILES.items():
        (tmp_path / "with password" / name).write_bytes(plain)
    assert _load(tmp_path / "with password")[0] is not None

    large = root / "ASCEND_PROFILER_OUTPUT" / "holes.bin"
    with large.open("wb") as file:
        file.truncate(1 << 20)
    sparse, plain_tar = tmp_path / "sparse.tar", tmp_path / "plain.tar"
    for archive_path, option in ((sparse, ["--sparse"]), (plain_tar, [])):
        subprocess.run(["tar", "-cf", archive_path, *option, "-C", root.parent, root.name], check=True)
    assert any("make the archive without --sparse" in message for message in _load(sparse)[1])
    assert not any("--sparse" in message for message in _load(plain_tar)[1])


_MSPROF = """#!/bin/sh
[ "$1" = "--export=on" ] || exit 9
for given; do case "$given" in --output=*) cp -r "$SOUND"/. "${given#--output=}"/ ;; esac; done
"""


@pytest.mark.slow
def test_commands_that_make_a_result_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _raw_only(tmp_path)
    sound = write("msprof", tmp_path / "sound")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "msprof").write_text(_MSPROF)
    (tmp_path / "bin" / "msprof").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("SOUND", str(sound))
    loaded, messages = _load(path, source="parsed")
    assert loaded is None
    assert 'without source="parsed" whatever else is there is read' in messages[0]
    assert _load(path)[0] is not None
    command = re.search(r"`(msprof --export=on --output=PATH)`", messages[0])
    assert command is not None
    subprocess.run(command[1].replace("PATH", f"'{path}'"), shell=True, check=True)
    assert _load(path, source="parsed")[0] is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("facts", "framework"), [('{"config": {}}', "torch_npu"), ('{"ms_version": "2.7"}', "mindspore")]
)
def test_the_analysis_that_is_named_is_run(
    facts: str, framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "site" / framework / "profiler" / "profiler.py"
    module.parent.mkdir(parents=True)
    sound = whole_result(tmp_path / "sound")
    module.write_text(f"import shutil\ndef analyse(path): shutil.copytree({str(sound)!r}, path, dirs_exist_ok=True)\n")
    path = tmp_path / "run"
    (path / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    (path / "profiler_info_0.json").write_text(facts)
    _, messages = _load(path)
    code = re.search(r"`(from \S+ import analyse; analyse\(path\))`", messages[0])
    assert code is not None
    program = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); path = {str(path)!r}; {code[1]}"
    subprocess.run([sys.executable, "-c", program], check=True)
    assert _load(path)[0] is not None


@pytest.mark.slow
def test_raw_files_are_copied_into_a_result_that_was_not_analysed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    (path / "ASCEND_PROFILER_OUTPUT").mkdir(parents=True)
    (path / "profiler_info_0.json").write_text('{"config": {}}')
    assert "copy FRAMEWORK and PROF_* into it: npuprof reads these raw files" in _load(path)[1][0]
    (tmp_path / "device").mkdir()
    shutil.copytree(write("framework and device", tmp_path / "device"), path, dirs_exist_ok=True)
    run, _ = _load(path)
    assert isinstance(run, Profile)
    assert len(run.kernels)
    assert len(run.operators)


@pytest.mark.slow
def test_rows_of_a_view_are_copied_into_a_table(tmp_path: Path) -> None:
    path = framework_database(tmp_path / "ascend_pytorch_profiler_3.db")
    whole = npuprof.load(path)
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(
            "ALTER TABLE COMPUTE_TASK_INFO RENAME TO other; CREATE VIEW COMPUTE_TASK_INFO AS SELECT * FROM other"
        )
    _, messages = _load(path)
    assert "copy its rows into a table of that name" in _only(messages, "is a view or a virtual table")
    with closing(sqlite3.connect(path)) as opened:
        opened.executescript(
            "CREATE TABLE copy AS SELECT * FROM COMPUTE_TASK_INFO; DROP VIEW COMPUTE_TASK_INFO;"
            "ALTER TABLE copy RENAME TO COMPUTE_TASK_INFO"
        )
    run, messages = _load(path)
    assert isinstance(run, Profile)
    assert not any("view" in message for message in messages)
    assert len(run.kernels) == len(whole.kernels)


@pytest.mark.slow
def test_ranks_are_loaded_together(tmp_path: Path) -> None:
    both = tmp_path / "both"
    for size in (2, 3):
        TorchJob([300, 420, 360][:size], steps=3).write(both, name=f"node-{size}_{{process}}.{{time}}.pt.trace.json")
    assert "load those of one job alone: move them into a folder of their own" in _load(both)[1][0]
    alone = tmp_path / "alone"
    alone.mkdir()
    for file in both.glob("node-2_*"):
        file.rename(alone / file.name)
    for folder, size in ((both, 3), (alone, 2)):
        runs, _ = _load(folder)
        assert isinstance(runs, ProfileSet)
        assert len(runs) == size

    (tmp_path / "apart").mkdir()
    for rank in range(2):
        root = whole_result(tmp_path / f"job {rank}").rename(tmp_path / "apart" / f"rank{rank}_ascend_pt")
        (root / "profiler_info_0.json").rename(root / f"profiler_info_{rank}.json")
        collectives = root / "ASCEND_PROFILER_OUTPUT" / "communication.json"
        collectives.write_text(collectives.read_text().replace("@1", f"@{rank + 5}"))
    strangers = npuprof.load_set(tmp_path / "apart")
    with pytest.raises(NpuprofError, match="load the ranks of one job"):
        strangers.blame(0)
    assert len(npuprof.load_set(alone).blame(0))
