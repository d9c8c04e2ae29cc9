"""Programs that tests put on PATH."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def write_python_program(path: Path, source: str) -> None:
    """Write an executable that runs a source with this Python, wherever that is.

    The first line of a script cannot name a program whose path has a space or more than 127 bytes: a shell starts
    this Python, for which the shell's lines are a text.
    """
    start = f"#!/bin/sh\n'''exec' {shlex.quote(sys.executable)} \"$0\" \"$@\"\n' '''\n"
    path.write_text(start + source, encoding="utf-8")
    path.chmod(0o755)
