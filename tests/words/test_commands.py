"""Every command that npuprof prints can be pasted, whatever a path in it is called."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell

import npuprof
from npuprof import cli, simulator
from npuprof.errors import SourceError
from npuprof.files import cache
from npuprof.machine import cann, doctor
from npuprof.notebook.arguments import parse_load, typed_options
from npuprof.notebook.panel.form import OptionsForm
from npuprof.sources import msprof
from npuprof.words.commands import magic_word, own_command, shell_command, shell_word
from npuprof.words.texts import plain_line, plain_lines
from tests.budget import examples

_PACKAGE = Path(npuprof.__file__).parent
_NAMES = [
    "my wörk",
    "it's",
    'a "b" c',
    "$HOME",
    "`id`",
    "a;b & c|d>e",
    "-x",
    "--help",
    "back\\slash",
    "{x}",
    "{{1+1}}",
    "$x'$y",
    "*?[a]~#!",
    "a\x1b[2Jb\nc\td",
    "\u202egnp",
    os.fsdecode(b"\xff\xfe"),
    "中文 µ",
]
_BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(_BASH is None, reason="there is no bash, which reads $'...'")


def words_of(command: str) -> list[str]:
    """Return the words that bash makes of a command, without running it."""
    line = f"set -f -- {command}\nprintf '%s\\0' \"$@\""
    done = subprocess.run([str(_BASH), "-c", os.fsencode(line)], capture_output=True, check=True)
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


def commands_in(text: str) -> list[str]:
    """Return what a user can paste of a message: what stands in backquotes, on a line of its own, or after a colon."""
    lines = re.findall(r"(?:^  |^One of them: |^What makes a step of all ranks slow: )(.+)$", text, re.MULTILINE)
    if len(ends := [match.start() for match in re.finditer("`", text)]) >= 2:  # a path may have backquotes, too
        starts = [match.end() for match in re.finditer(r"`(?=\w+ )", text)]
        lines += [text[start : ends[-1]] for start in starts]
    return lines


@needs_bash
@pytest.mark.parametrize("name", _NAMES, ids=ascii)
def test_word_is_safe_for_shells(name: str) -> None:
    word = shell_word(name)
    assert plain_line(word) == plain_lines(word) == word
    assert words_of(shell_command("rm", "-r", name)) == ["rm", "-r", name]
    assert words_of(shell_word(Path(name))) == [f"./{name}" if name.startswith("-") else name]


@needs_bash
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
@settings(max_examples=examples(40))
def test_any_text_is_one_word(text: str) -> None:
    assert words_of(shell_word(text)) == [text]


@pytest.mark.parametrize("on_path", [True, False])
def test_npuprofs_own_command_is_that_of_this_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_path: bool
) -> None:
    python = tmp_path / "my venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    script, other = python.with_name("npuprof"), tmp_path / "npuprof"
    for program in (script, other):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", str(script.parent if on_path else other.parent))
    expected = "npuprof open 'a b'" if on_path else f"'{python}' -m npuprof open 'a b'"
    assert own_command("open", "a b") == expected
    monkeypatch.setattr(sys, "argv", [str(other), "doctor"])
    assert own_command("open", "a b") == "npuprof open 'a b'"  # as it was called


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in "ab":
        simulator.synthesise(folder / name, launches=20)
    return folder


@pytest.mark.long
@needs_bash
@pytest.mark.parametrize("name", _NAMES, ids=ascii)
def test_the_command_that_opens_one_of_many_runs(
    runs: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["open", f"./{name}"]) == 0
    (command,) = commands_in(capsys.readouterr().out)[-1:]
    *_, verb, path = words_of(command)
    assert verb == "open"
    assert cli.main([verb, path]) == 0


@needs_bash
@pytest.mark.parametrize("name", _NAMES, ids=ascii)
@pytest.mark.parametrize("subject", ["recordings", "free disk", "front end acl", "hardware", "none", "npu"])
def test_the_next_step_of_the_doctor(name: str, subject: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / name
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(sys, "executable", str(home / "python"))
    monkeypatch.setattr(doctor, "_version", lambda _: "" if subject == "none" else "1")
    problem = doctor.Diagnosis(subject, "problem", f"davinci{name} are closed to this user")
    found = [doctor.Diagnosis("hardware", "ok", ""), doctor.Diagnosis("front end acl", "ok", "")]
    step = doctor.next_step(found if subject in ("none", "npu") else [problem, *found], home / "out")
    if subject == "hardware":
        (node,) = re.findall(r"%G (.*)\)\"", step.command, re.DOTALL)
        assert words_of(node) == [f"/dev/davinci{name.partition(' ')[0].rstrip(',')}"]
        return
    words = words_of(step.command)
    assert words[0] == str(home / "python")
    if subject in ("recordings", "free disk"):
        assert Path(words[-1]).parent == home
    elif subject == "npu":
        assert words[-1] == str(home / "out")


@needs_bash
@pytest.mark.parametrize("name", _NAMES, ids=ascii)
def test_commands_in_what_the_doctor_finds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    tool = tmp_path / name / "msprof"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setattr(cann, "msprof", lambda: tool)
    (clear,) = commands_in(doctor._cache().detail)
    assert words_of(clear) == ["rm", "-r", str(cache.directory())]
    said = doctor._msprof().detail
    assert said.startswith(f"`{shell_command(tool, '--help')}` ended with status 3")


@needs_bash
@pytest.mark.parametrize("name", _NAMES, ids=ascii)
def test_commands_of_msprof_in_errors(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as raised:
        msprof.SOURCE.read(tmp_path / name)
    (command,) = commands_in(str(raised.value))[-1:]
    assert words_of(command) == ["msprof", "--export=on", f"--output={tmp_path / name}"]


@pytest.mark.parametrize("name", _NAMES, ids=ascii)
def test_panel_line_reads_as_it_says(name: str, tmp_path: Path) -> None:
    form = OptionsForm()
    for output in (name, str(tmp_path / name)):
        form.choose("output", output)
        line = form.magic()
        assert plain_line(line) == line
        magic, _, words = line.partition(" ")
        assert magic == "%%npuprof"
        assert typed_options(expanded(words))["output"] == str(Path(output))
    assert parse_load(expanded(magic_word(str(tmp_path / name))))[0] == str(tmp_path / name)


@given(st.text(max_size=20))
@settings(max_examples=examples(100))
def test_any_text_is_one_word_of_a_magic(text: str) -> None:
    assert shlex.split(expanded(magic_word(text))) == [text]


def expanded(line: str) -> str:
    """Return the line of a magic as IPython hands it on, in a shell that has some variables."""
    shell: Any = SimpleNamespace(user_ns={"x": "expanded", "y": "expanded", "HOME": "expanded"})
    expand: Any = InteractiveShell.var_expand
    return str(expand(shell, line))


# What the source says, so that a command that is added later is found as well.

_QUOTING = {"shell_word", "shell_command", "own_command", "magic_word"}
_VALUE = "\0"  # an interpolated value in the text of an f-string
_PROGRAMS = (
    r"(?:pip3? (?:install|download|uninstall)|python3? -[mc]|npu-smi |sudo |unset |jupyter |git |rm -|source [/\0])"
)
_COMMAND = re.compile(
    rf"(?<![\w'])(?:%{{0,2}}npuprof (?:demo|open|advise|run|doctor|load|start|assert|sql) (?!in )|{_PROGRAMS}|"
    rf"msprof(?:-analyze)? -|{_VALUE} -(?:[mc] |-\w))[^`\n]*|`[^`\n]* [^`\n]*`"
)


def _pieces(node: ast.JoinedStr) -> tuple[str, list[ast.expr]]:
    text, values = "", []
    for piece in node.values:
        if isinstance(piece, ast.FormattedValue) and piece.format_spec and ast.unparse(piece.format_spec) == "f'd'":
            text += "0"  # a number
        elif isinstance(piece, ast.FormattedValue):
            text += _VALUE
            values.append(piece.value)
        else:
            text += str(piece.value) if isinstance(piece, ast.Constant) else ""
    return text, values


def _is_quoted(value: ast.expr, tree: ast.Module) -> bool:
    """Return whether a value is quoted, or a name of quoted values only, or of a constant that needs no quotes."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in _QUOTING
    if not isinstance(value, ast.Name):
        return False
    given_ = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == value.id for target in node.targets)
    ]
    return bool(given_) and all(
        (isinstance(each, ast.Call) and _is_quoted(each, tree))
        or (isinstance(each, ast.Constant) and isinstance(each.value, str) and shlex.quote(each.value) == each.value)
        for each in given_
    )


def _in_f_strings(node: ast.AST, tree: ast.Module) -> Iterator[str]:
    if isinstance(node, ast.JoinedStr):
        text, values = _pieces(node)
        for command in _COMMAND.finditer(text):
            first = text[: command.start()].count(_VALUE)
            for value in values[first : first + command[0].count(_VALUE)]:
                if not _is_quoted(value, tree):
                    yield f"{ast.unparse(value)} in {command[0].replace(_VALUE, '{}')}"


def _in_templates(node: ast.AST) -> Iterator[str]:
    """Yield constants that ``str.format`` or ``%`` fill, or that something is added to."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        template = re.sub(r"\{\w*\}|%[sr]", _VALUE, node.value)
        yield from (node.value for command in _COMMAND.finditer(template) if _VALUE in command[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.Constant):
        yield from (ast.unparse(node) for _ in _COMMAND.finditer(f"{node.left.value!s}{_VALUE}"))


def _in_calls(node: ast.AST) -> Iterator[str]:
    """Yield other quoting functions, and lists of words that are joined by spaces."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    if ast.unparse(node.func) in ("shlex.quote", "shlex.join"):
        yield f"{ast.unparse(node)} beside npuprof.words.commands"
    if ast.unparse(node.func) == "' '.join" and isinstance(words := node.args[0], ast.List | ast.Tuple):
        first = words.elts[0] if words.elts else None
        if isinstance(first, ast.Constant) and first.value in ("npuprof", "pip", "python", "python3", "msprof", "rm"):
            yield ast.unparse(node)


def unquoted(source: str) -> list[str]:
    """Return the commands in a module's texts whose values are not quoted, and what else builds a command."""
    tree = ast.parse(source)
    return [
        f"line {getattr(node, 'lineno', 0)}: {wrong}"
        for node in ast.walk(tree)
        for wrong in (*_in_f_strings(node, tree), *_in_templates(node), *_in_calls(node))
    ]


@pytest.mark.parametrize(
    "source",
    [
        'f"One of them: npuprof open {path}"',
        'f"{sys.executable} -m pip install x"',
        'f"run `rm -r {path}`"',
        'f"`{tool} --help` failed"',
        'f"export it with `msprof --export=on --output={path!r}`"',
        'f"%npuprof load {path}"',
        'f"pip install {shlex.quote(name)}"',
        '"export it again with `msprof --export=on --output={0}`".format(path)',
        '"npuprof open %s" % path',
        '"npuprof open " + path',
        '" ".join(["npuprof", "open", path])',
        'path = shell_word(x)\npath = other\nf"npuprof open {path}"',
    ],
)
def test_a_command_that_is_not_quoted_is_noticed(source: str) -> None:
    assert unquoted(source)


@pytest.mark.parametrize(
    "source",
    [
        "f\"One of them: {own_command('open', path)}\"",
        'node = shell_word(path)\nf"sudo chown me {node}"',
        '_PLACE = "/usr/set_env.sh"\nf"source {_PLACE}"',
        'f"{path} cannot be read: run `npuprof doctor`"',
        'f"npuprof run: {error}"',
        'f"msprof ended with status {status}"',
    ],
)
def test_quoted_commands_and_prose_are_let_pass(source: str) -> None:
    assert unquoted(source) == []


@pytest.mark.long
def test_every_command_in_the_source_is_quoted() -> None:
    wrong = {
        path.relative_to(_PACKAGE).as_posix(): found
        for path in sorted(_PACKAGE.rglob("*.py"))
        if path.name != "commands.py" and (found := unquoted(path.read_text(encoding="utf-8")))
    }
    assert wrong == {}
