"""Texts that leave the machine: home folders, users and hosts shortened, and names as data of Markdown."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from npuprof.words.quantities import printable

_HOMES = re.compile(r"(?:/(?:home|Users)/|\b[A-Za-z]:[\\/]Users[\\/])([^/\\\s`'\":,;)]+)|/root(?![\w.-])")
_GENERIC = {  # words that name nobody
    *("root", "user", "localhost", "admin", "ubuntu", "npu", "ascend", "jovyan"),
    *("default", "ec2-user", "hwhiaiuser", "ma-user", "public", "runner", "shared", "work"),
}
_LEAST = 3  # letters of a name: shorter ones are parts of everything
_ACTS = re.compile(r"[\\*\[\]|~]|<(?=[A-Za-z/!?])|(?<!\w)_|_(?!\w)")
_LEADS = re.compile(r"(?=[#+>-]|\d+[.)])")
_ADDRESS = re.compile(r"(?<=[A-Za-z])://|(?<=\bwww)\.", re.IGNORECASE)


def users_in(text: str) -> set[str]:
    """Return the users whose home folders a text names."""
    return {match[1] for match in _HOMES.finditer(text) if match[1]}


def without_names(text: str, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> str:
    """Shorten home folders to ``~``, and names of users and hosts to ``<user>`` and ``<host>``.

    `hosts` and `users` are those that recordings name, beside this computer, its user, and users whose home folders the
    text names. Words such as ``root`` and ``localhost`` stay, and names of one or two letters.
    """
    home, user, own = _known()
    everyone = {user, *users, *users_in(text)}
    shortened = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text) if len(home) > 1 else text
    shortened = _HOMES.sub("~", shortened)
    named = [*((host, "<host>") for host in (own, *hosts)), *((each, "<user>") for each in sorted(everyone))]
    for name, stands in sorted(named, key=lambda each: -len(each[0])):
        if name.lower() not in _GENERIC and len(name) >= _LEAST:
            around = r"[A-Za-z0-9]" if stands == "<host>" or name == user else r"[\w-]"  # others may be words of code
            shortened = re.sub(rf"(?<!{around}){re.escape(name)}(?!{around})", stands, shortened)
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
