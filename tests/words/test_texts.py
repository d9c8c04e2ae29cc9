"""No text that reaches a terminal holds characters that act on it, wherever they come from."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from IPython.core.formatters import PlainTextFormatter

import npuprof
from npuprof import cli, tables
from npuprof.dynamic.monitor import Log
from npuprof.errors import NpuprofError, NpuprofWarning, OptionsError
from npuprof.machine.doctor import Diagnosis
from npuprof.profiles.profile import Profile
from npuprof.progress import TerminalBar, report_progress, watched
from npuprof.session import from_environment
from npuprof.simulator import synthesise
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.words.texts import json_or_text, plain_line, plain_lines, repaired_json
from tests import factories, pace

ACTING = [*map(chr, [*range(32), *range(0x7F, 0xA0)]), *"\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"]
NAME = "a\x1b[2Jb\x1b]0;owned\x07c\rd\u202eexe\u061c.\u2066\x9b31m"
HOSTILE = NAME + "\ud800"


def assert_plain(text: str) -> None:
    assert text.encode()
    assert not set(text) & set(ACTING) - {"\n"}


@pytest.mark.parametrize("character", ACTING)
def test_each_acting_character_is_a_space(character: str) -> None:
    assert plain_line(f"MatMul{character}V3 µ→中é") == "MatMul V3 µ→中é"
    kept = "\n" if character == "\n" else " "
    assert plain_lines(f"one{character}two") == f"one{kept}two"


def test_errors_and_warnings_are_plain() -> None:
    for kind in (NpuprofError, OptionsError, NpuprofWarning):
        assert_plain(str(kind(f"{HOSTILE} cannot be read")))
    assert_plain("".join(OptionsError(HOSTILE)._render_traceback_()))


@pytest.mark.slow
def test_folded_stacks_and_summaries_are_plain(tmp_path: Path) -> None:
    made = factories.profile(6, kernel_names=(NAME,))
    made["python"] = made["python"].assign(name=tables.categorical(np.zeros(len(made["python"]), np.int64), [NAME]))
    notes = Notes()
    notes.warning(NAME, NAME)
    run = Profile(Decoded(made, factories.info(name=NAME, failed=NAME), notes))
    for weight in ("host", "device"):
        text = run.to_folded_stacks(tmp_path / weight, weight).read_text(encoding="utf-8")
        assert_plain(text)
        assert "exe" in text
    assert_plain(str(run))


def test_texts_print_in_one_line(tmp_path: Path) -> None:
    synthesise(tmp_path / f"{NAME}_PROF", launches=4)
    run = npuprof.load(tmp_path)
    runs = npuprof.load_set(tmp_path)
    with npuprof.profile(collector="simulator", output=tmp_path / "out") as session:
        pass
    shown = PlainTextFormatter()
    texts = (run, runs, run.advice(), run.code(), run - run, runs.overview(), run.info)
    for one in (*texts, session, run.accounting, *run.advice()):
        assert "\n" not in repr(one)
        assert_plain(repr(one))
        assert len(repr(one)) < 500
    for one in texts:
        assert shown(one) == str(one)
        assert repr(one) in shown([one])
    assert "\n" not in repr(run.breakdown)
    assert "print() shows its report" in repr(run)


def test_what_a_command_prints_is_plain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["open", str(tmp_path / NAME)]) == 1
    assert_plain(capsys.readouterr().err)
    monkeypatch.setattr("npuprof.machine.doctor.diagnose", lambda _: [Diagnosis(HOSTILE, "ok", HOSTILE)])
    assert cli.main(["doctor"]) == 0
    assert_plain(capsys.readouterr().out)
    for rank in range(2):
        folder = tmp_path / "all" / f"{NAME}{rank}"
        folder.mkdir(parents=True)
        synthesise(folder, launches=4)
    assert cli.main(["open", str(tmp_path / "all")]) == 0
    assert_plain(capsys.readouterr().out)


def test_progress_and_logs_are_plain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = io.StringIO()
    with watched(TerminalBar(terminal).show):
        report_progress(HOSTILE, 1, 2)
    assert_plain(terminal.getvalue().removeprefix("\r\x1b[K"))
    log = Log(tmp_path, 0)
    log.error(HOSTILE)
    assert_plain(log.path.read_text(encoding="utf-8"))
    from_environment._print(HOSTILE)
    assert_plain(capsys.readouterr().err)


@pytest.mark.slow
@pytest.mark.skipif(not sys.prefix.isascii(), reason="such a Python cannot import NumPy from a path that is not ASCII")
def test_a_terminal_that_has_no_such_character_shows_a_question_mark(tmp_path: Path) -> None:
    path = synthesise(tmp_path, launches=4)
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment.pop("PYTHONIOENCODING", None)
    command = [sys.executable, "-c", "import sys; from npuprof.cli import main; sys.exit(main())", "open", str(path)]
    environment["PYTHONPATH"] = str(Path(npuprof.__file__).parents[1])
    ran = subprocess.run(command, env=environment, capture_output=True, timeout=pace.seconds(300), check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.search(rb"The NPU", ran.stdout)
    assert b"?" in ran.stdout
    assert ran.stdout.isascii()


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (rb'"\ud83d\ude00 \uD83D\uDE00"', "\U0001f600 \U0001f600"),
        (rb'"\ud83dx\ude00 \ud83d\ud83d\ude00"', "\ufffdx\ufffd \ufffd\U0001f600"),
        (rb'"\\ud83d \\\ud83d"', "\\ud83d \\\ufffd"),
        (b'{"\xff": "\xc3\xa9"}', {"\ufffd": "é"}),
        (b'"\xed\xa0\x80"', "\ufffd" * 3),
    ],
)
def test_json_of_others_becomes_text_that_every_file_takes(content: bytes, plain: Any) -> None:
    assert msgspec.json.decode(repaired_json(content)) == plain


def test_text_of_others_is_the_json_that_it_holds_or_itself() -> None:
    assert json_or_text(r'{"\ud800": ["\ud83d\ude00"]}') == {r"\ud800": ["\U0001f600"]}
    assert json_or_text("{") == "{"
    assert json_or_text("[" * 100_000) == "[" * 100_000
    assert json_or_text(None) is None
