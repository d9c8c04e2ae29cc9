"""The launchers of this machine, and whether the ranks that they start can be profiled with ``--processes``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "msrun", "mpirun", "ipcluster")
_EXEC = re.compile(rb"""'''exec' "?([^"\n]+?)"? "\$0\"""")
_PROBE_S = 30.0
_HEAD_BYTES = 512


def describe() -> str:
    """Return which launchers there are, with what becomes of the ranks of each."""
    present = [(name, place) for name in _LAUNCHERS if (place := _place(name)) is not None]
    if not present:
        return "none: `subprocess`, `multiprocessing` and `!python` start ranks, too (--processes)"
    by_text: dict[str, list[str]] = {}
    for name, place in present:
        by_text.setdefault(_of(place), []).append(name)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in by_text.items())


def _place(name: str) -> Path | None:
    """Return the file of a launcher: beside this Python, or else on PATH."""
    beside = Path(sys.executable).parent / name
    file = str(beside) if beside.is_file() else shutil.which(name)
    return None if file is None else Path(file)


def _of(place: Path) -> str:
    python = _python_of(place)
    if python is None:
        return "starts what it is given; ranks in this Python are profiled (--processes)"
    if python.parent == Path(sys.executable).parent:
        return "ranks are profiled (--processes)"
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter of an installed program
            [str(python), "-c", "import npuprof"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"its Python, {python}, does not run"
    if done.returncode:
        return f"ranks run unprofiled, since its Python, {python}, has no npuprof: install it there"
    return f"ranks are profiled (--processes) in its Python, {python}"


def _python_of(place: Path) -> Path | None:
    """Return the interpreter that the first line of a script names; None for a program of another kind."""
    try:
        with place.open("rb") as file:
            first, _, rest = file.read(_HEAD_BYTES).partition(b"\n")
    except OSError:
        return None
    words = first.removeprefix(b"#!").split()
    if first.startswith(b"#!/bin/sh") and (ours := _EXEC.search(rest)):  # pip's form for a path too long or with spaces
        words = [ours[1]]
    if not first.startswith(b"#!") or not words or b"python" not in words[0].rpartition(b"/")[2]:
        return None
    return Path(words[0].decode(errors="surrogateescape"))
