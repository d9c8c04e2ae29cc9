"""Scripts run under a stand-in for the CANN libraries, each in a process of its own.

The real torch_npu imports and profiles there without an NPU. Every native profiling call is written to a file, and
any of them can be made to fail.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import pace

_TOOLS = Path(__file__).parents[3] / "shared" / "tools"
_CALL = re.compile(r"^((?:int|void\*)\s*(aclprof\w+|aclrtSetDevice)\([^)]*\)\{)", re.MULTILINE)
_TIMEOUT_S = 300


@dataclass(frozen=True)
class Outcome:
    """What a script's process left: the native calls, what it told with ``tell()``, and all that it printed."""

    calls: list[str]
    told: list[Any]
    output: str

    def names(self) -> list[str]:
        """Return the names of the profiling calls alone, in order."""
        return [call.split()[0] for call in self.calls if call.startswith("aclprof")]


@dataclass(frozen=True)
class StandIn:
    """The built libraries."""

    libraries: Path

    def run(self, script: str, directory: Path, **variables: str) -> Outcome:
        """Run a script in `directory`, where it may also call ``tell(value)`` and ``note(line)``.

        The latter puts a line between the native calls. Setting CANN_REFUSE makes the named calls fail, and CANN_SIGINT
        lets ``aclprofInit`` take the handler of interrupts away, as the vendor's does.
        """
        calls = directory / "calls.log"
        (directory / "script.py").write_text(_PROLOGUE + script)
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(self.libraries),
            "CANN_CALLS": str(calls),
            "PYTHONWARNINGS": "default",
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=pace.seconds(_TIMEOUT_S),
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        told = [json.loads(line.removeprefix(_TOLD)) for line in done.stdout.splitlines() if line.startswith(_TOLD)]
        return Outcome(calls.read_text().splitlines() if calls.is_file() else [], told, output)


_TOLD = "told: "
_PROLOGUE = f"""
import json, os

def tell(value):
    print("\\n{_TOLD}" + json.dumps(value), flush=True)

def note(line):
    with open(os.environ["CANN_CALLS"], "a") as file:
        file.write(line + "\\n")

"""


def why_absent() -> str:
    """Return why there can be no stand-in here; empty where there can."""
    tool = _tool()
    if not (tool / "build.py").is_file():
        return f"no stand-in for CANN in {tool}: set NPUPROF_TOOLS to its folder"
    if importlib.util.find_spec("torch_npu") is None:
        return "torch_npu is not installed for this Python"
    return "" if shutil.which("gcc") else "gcc is needed to build the stand-in for CANN"


def build(directory: Path) -> StandIn:
    """Build the stand-in, with every profiling call able to fail."""
    source, out = directory / "source", directory / "libraries"
    shutil.copytree(_tool(), source)
    for copied in (source, *source.iterdir()):
        copied.chmod(0o755)
    code = (source / "cann.c").read_text()
    refusing = (
        'const char*refused=getenv("CANN_REFUSE");if(refused&&strstr(refused,"{0}")){{L("{0} refused");return {1};}}'
    )
    code = _CALL.sub(
        lambda call: call[1] + refusing.format(call[2], "0" if call[1].startswith("void") else "500005"), code
    )
    taken = 'if(getenv("CANN_SIGINT")){signal(SIGINT,SIG_IGN);L("SIGINT taken");}'
    code = "#include <signal.h>\n" + re.sub(
        r"^int\s*aclprofInit\([^)]*\)\{", rf"\g<0>{taken}", code, flags=re.MULTILINE
    )
    (source / "cann.c").write_text(code)
    subprocess.run(
        [sys.executable, "build.py", str(out)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=pace.seconds(_TIMEOUT_S),
    )
    return StandIn(out)


def _tool() -> Path:
    return Path(os.environ.get("NPUPROF_TOOLS", _TOOLS)) / "torch_npu_cpu"
