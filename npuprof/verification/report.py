"""The one file that is worth attaching to a bug report: facts without secrets."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof import atomic

# Variables that change what the profiler does; all others stay out.
_TELLING = re.compile(
    r"ASCEND_\w+|HCCL_\w+|NPU\w*|PROFIL\w+|GE_\w+|MS_\w+|RANK(_\w+)?|WORLD_SIZE|DEVICE_ID|TORCH_DEVICE_BACKEND_AUTOLOAD"
    r"|LD_LIBRARY_PATH|PYTHONPATH"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(\w+://)[^/\s@]+@")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that matter to profiling, without those that may be secret."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if _TELLING.fullmatch(name) and not _SECRET.search(name)
    }


def write(output: Path, plain: Mapping[str, Any]) -> Path:
    """Write the file, with the user's home, name and host taken out of every text."""
    path = output / f"npuprof-verification_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}.json"
    atomic.write(path, json.dumps(_without_names(dict(plain)), indent=1).encode())
    return path


def _without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {_cleaned(str(name)): _without_names(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_names(each) for each in value]
    return _cleaned(value) if isinstance(value, str) else value


def _cleaned(text: str) -> str:
    home, host = str(Path.home()), platform.node()
    text = _URL_LOGIN.sub(r"\1", text)
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text) if host else text
