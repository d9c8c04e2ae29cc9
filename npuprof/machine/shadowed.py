"""Files of the user with the name of a module of the standard library, such as ``calendar.py``: pandas imports them."""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

_NOT_HIDDEN = {*sys.builtin_module_names, "test"}  # Python finds its own first, or nothing imports it


def shadowing_files() -> list[str]:
    """Return the files here, or before the standard library on the path, that have the name of one of its modules."""
    stdlib = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    first = next((at for at, entry in enumerate(sys.path) if entry in stdlib), len(sys.path))
    found = set()
    for entry in ("", *sys.path[:first]):
        with suppress(OSError):  # not a folder
            found |= {os.fspath(file) for file in Path(entry).absolute().iterdir() if _hides_module(file)}
    return sorted(found)


def _hides_module(file: Path) -> bool:
    is_module = file.suffix == ".py" or (file / "__init__.py").exists()
    return is_module and file.stem in sys.stdlib_module_names - _NOT_HIDDEN


def explanation(error: BaseException) -> str:
    """Return the likely reason for a failed import where such files exist; empty otherwise."""
    files = shadowing_files() if isinstance(error, ImportError | AttributeError) else []
    if not files:
        return ""
    return f"rename {', '.join(files)}, which Python imports instead of the standard library, and restart the kernel"
