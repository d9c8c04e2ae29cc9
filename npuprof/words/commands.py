"""Commands that a user can paste: into a POSIX shell with ``$'...'``, or behind a magic."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from npuprof.words.texts import plain_line

_NAME = "npuprof"


def shell_word(text: str | os.PathLike[str]) -> str:
    r"""Return a text as one word of a shell's command.

    Parameters
    ----------
    text
        Any text. A path that begins with a dash gets a ``./``, or a program would take it for an option. What no
        message can hold, such as control characters and bytes that are not UTF-8, is escaped as in ``$'a\033b'``.
    """
    word = os.fspath(text)
    if isinstance(text, os.PathLike) and word.startswith("-"):
        word = f"./{word}"
    if plain_line(word) == word:
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def shell_command(*words: str | os.PathLike[str]) -> str:
    """Return a shell's command of these words."""
    return " ".join(map(shell_word, words))


def own_command(*words: str | os.PathLike[str]) -> str:
    """Return a shell's command that runs npuprof of this Python, also where its script is not on PATH."""
    script = shutil.which(_NAME)
    scripts = (Path(sys.executable).with_name(_NAME), Path(sys.argv[0]))
    if script is not None and any(path.is_file() and path.samefile(script) for path in scripts):
        return shell_command(_NAME, *words)
    return shell_command(sys.executable, "-m", _NAME, *words)


def magic_word(text: str) -> str:
    """Return a text as one word of the line of a magic, which IPython formats, and npuprof splits as a shell does."""
    word = shlex.quote(text)
    # IPython replaces `$name`, outside pairs of quotes, and `{expression}`.
    word = word.replace("{", "{{").replace("}", "}}").replace("$", "$''")
    return "".join(char if plain_line(char) == char else f"{{chr({ord(char)})}}" for char in word)


def _escaped(char: str) -> str:
    if char in "'\\":
        return f"\\{char}"
    if plain_line(char) == char:
        return char
    try:
        content = char.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        content = char.encode("utf-8", "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in content)
