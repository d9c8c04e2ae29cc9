"""Atomic writes of ``profiler_config.json``, so that a loop sees either the old or the new content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from os import PathLike
from pathlib import Path
from typing import Any

from npuprof.dynamic import keys, requests
from npuprof.errors import NpuprofError, OptionsError, SourceError
from npuprof.files import atomic
from npuprof.options import Options
from npuprof.options.values import listed


def config_path(path: str | PathLike[str]) -> Path:
    """Return the path of the file for a directory, or for the file itself."""
    given = Path(path).expanduser().absolute()
    return given if given.suffix == ".json" else given / requests.FILE_NAME


def write(path: Path, plain: Mapping[str, Any]) -> None:
    """Write the file atomically, private to the user or with the owner and permissions of the replaced file.

    If ranks of other users trust root's file, ``chmod 644`` by root lets them read it permanently.
    """
    try:
        with atomic.replacing(path, like_before=True) as file:
            file.write(f"{json.dumps(plain, indent=4)}\n".encode())
    except NpuprofError as error:
        raise SourceError(str(error)) from error


def edit(path: str | PathLike[str], /, **changes: Any) -> dict[str, Any]:
    """Change ``profiler_config.json`` from another notebook or process, atomically and after validation.

    Parameters
    ----------
    **changes
        Keys of the file, or of its ``experimental_config``, with new values; or options of npuprof
        (:class:`npuprof.options.Options`) for which the file has no key.

    Examples
    --------
    >>> npuprof.dynamic.edit("dynamic", start_step=-1, active=3, profiler_level="Level1")
    """
    target = config_path(path)
    plain, _ = requests.read_file(target)
    dialect = requests.dialect_of(plain)
    known = keys.DIALECTS[dialect]
    names = {field.name for field in fields(Options)}
    for name, value in changes.items():
        if name in known:
            plain[name] = value
        elif dialect == "torch_npu" and name in keys.TORCH_NPU_SPECIAL:
            plain.setdefault("experimental_config", {})[name] = value
        elif name in names:
            plain.setdefault("npuprof", {})[name] = value
        else:
            words = sorted({*known, *(keys.TORCH_NPU_SPECIAL if dialect == "torch_npu" else ()), *names})
            raise OptionsError(f"unknown key {name} in {dialect}'s file: it takes {listed(words)}")
    requests.understand(plain)
    write(target, plain)
    return plain
