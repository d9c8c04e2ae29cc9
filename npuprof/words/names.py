"""Texts that leave the machine: home folders, users and hosts shortened, and names as data of Markdown."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from npuprof.words.quantities import printable

_HOMES = re.compile(r"(?:/(?:home|Users)/|\b[A-Za-z]:[\\/]Users[\\/])[^/\\\s`'\":,;)]+|/root(?![\w.-])")
_GENERIC = {"", "root", "user", "localhost", "admin", "ubuntu", "npu", "ascend", "jovyan"}  # words that name nobody
_ACTS = re.compile(r"[\\*\[\]|~]|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w)")
_LEADS = re.compile(r"(?=[#+>-]|\d+[.)])")
_ADDRESS = re.compile(r"(?<=[A-Za-z])://|(?<=\bwww)\.", re.IGNORECASE)


def without_names(text: str, hosts: Iterable[str] = ()) -> str:
    """Shorten home folders to ``~``, and names of users and hosts to ``<user>`` and ``<host>``.

    `hosts` are those that recordings name, beside this computer. Words such as ``root`` and ``localhost`` stay.
    """
    home, user, own = _known()
    shortened = _HOMES.sub("~", text.replace(home, "~") if len(home) > 1 else text)
    for name, stands in (*((host, "<host>") for host in (own, *hosts)), (user, "<user>")):
        if name.lower() not in _GENERIC:
            shortened = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", stands, shortened)
    return shortened


@lru_cache(maxsize=1)
def _known() -> tuple[str, str, str]:
    try:
        home = str(Path.home())
    except RuntimeError:
        home = ""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # no such user is known to the system
        user = ""
    return home, user, platform.node()


def markdown(text: str, longest: int = 1_200) -> str:
    """Return text, whose code is in backticks, as Markdown on one line: nothing else in it is markup, link or image."""
    parts = printable(text, longest).split("`")
    if len(parts) % 2 == 0:
        parts[-2:] = ["'".join(parts[-2:])]
    return "".join(f"`{part}`" * bool(part) if at % 2 else _escaped(part, at == 0) for at, part in enumerate(parts))


def quoted(name: object, longest: int = 96) -> str:
    """Return a recorded name as code of Markdown: on one line, bounded, without backticks and bars."""
    text = printable(str(name), longest).replace("`", "'").replace("|", "¦")
    return f"`{text}`" if text.strip() else ""


def fenced(lines: Iterable[str]) -> list[str]:
    """Return lines as a block of text, whose fence is longer than any row of backticks in it."""
    kept = list(lines)
    longest = max((len(row) for line in kept for row in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *kept, fence]


def _escaped(text: str, is_first: bool) -> str:
    text = _ADDRESS.sub(lambda match: "&#58;//" if match[0] == "://" else "&#46;", text)
    text = _ACTS.sub(lambda match: f"\\{match[0]}", text)
    return f"\\{text}" if is_first and _LEADS.match(text) and not text[:1].isdigit() else text
