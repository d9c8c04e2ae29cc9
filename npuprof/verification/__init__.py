"""``npuprof doctor --verify``: check that recordings of this machine decode to the work that was run.

Each ready front end profiles a small known workload in a separate process; the raw data is decoded, checked, and
compared row by row with the vendor's export if its tool is installed. Without an NPU, the simulated one is verified.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from npuprof.errors import NpuprofError
from npuprof.files import atomic
from npuprof.machine import environment as machine
from npuprof.machine.doctor import Diagnosis, diagnose
from npuprof.options import DEFAULT_OUTPUT
from npuprof.words.quantities import counted

# Variables that affect the profiler; no others are included.
_TELLING = re.compile(
    r"ASCEND_\w+|HCCL_\w+|NPU\w*|PROFIL\w+|GE_\w+|MS_\w+|RANK(_\w+)?|WORLD_SIZE|DEVICE_ID|TORCH_DEVICE_BACKEND_AUTOLOAD"
    r"|LD_LIBRARY_PATH|PYTHONPATH"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY|CREDENTIAL|AUTH", re.IGNORECASE)
_URL_LOGIN = re.compile(r"(\w+://)[^/\s@]+@")


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that affect profiling, without possible secrets."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if _TELLING.fullmatch(name) and not _SECRET.search(name)
    }


def write(output: Path, plain: Mapping[str, Any]) -> Path:
    """Write the report, without the user's home, name and host."""
    path = output / f"npuprof-verification_{time.strftime('%Y%m%d_%H%M%S')}_{os.getpid()}.json"
    atomic.write(path, json.dumps(_without_names(dict(plain)), indent=1).encode())
    return path


def _without_names(value: Any) -> Any:
    if isinstance(value, dict):
        return {_clean(str(name)): _without_names(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_names(each) for each in value]
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    home, host = str(Path.home()), platform.node()
    text = _URL_LOGIN.sub(r"\1", text)
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "HOST", text) if host else text


__all__ = ["Verdict", "verify"]

_ONE_S = 900.0
_PREFIX = "front end "


@dataclass(frozen=True)
class Verdict:
    """The result of a verification."""

    passed: bool  # whether all checks of all ready front ends passed
    text: str  # the verdict as a sentence
    report: Path  # the file to attach to a bug report


def verify(output: Path = DEFAULT_OUTPUT, show: Callable[[str], object] = print) -> Verdict:
    """Verify every front end of this machine."""
    try:
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise NpuprofError(f"{output} cannot be made ({error.strerror or error}): choose another --output") from error
    findings = diagnose(output)
    answers = []
    for name in _present(findings):
        answer = _verify_apart(name, output)
        answers.append(answer)
        for check in answer["checks"]:
            show(f"{_word(check['passed']):8}{name + ': ' + check['name']:40}  {check['detail']}")
    failed = [
        f"{answer['collector']}: {check['name']}"
        for answer in answers
        for check in answer["checks"]
        if check["passed"] is False
    ]
    names = [answer["collector"] for answer in answers]
    outcome = f"{counted(len(failed), 'check')} failed ({', '.join(failed)})" if failed else "every check holds"
    text = f"verified {', '.join(names)}: {outcome}"
    if "simulator" in names:
        text += ". No front end of an NPU is ready on this machine, so the NPU was simulated"
    plain = {
        "format": "npuprof-verification",
        "version": 1,
        "verdict": text,
        "versions": machine.versions(),
        "machine": {"os": platform.platform(), "cpus": os.cpu_count(), "architecture": platform.machine()},
        "findings": [asdict(finding) for finding in findings],
        "environment": environment(os.environ),
        "front_ends": answers,
    }
    return Verdict(not failed, text, write(output, plain))


def _present(findings: list[Diagnosis]) -> list[str]:
    """Return the ready front ends; the simulated one only without a native one."""
    ready = [
        finding.subject.removeprefix(_PREFIX)
        for finding in findings
        if finding.subject.startswith(_PREFIX) and finding.state == "ok"
    ]
    without_npu = ("simulator", "kineto", *(["mindspore"] if not _on_npu(findings, "mindspore") else []))
    native = [name for name in ready if name not in without_npu]
    return [name for name in ready if name != "simulator" or not native]


def _on_npu(findings: list[Diagnosis], name: str) -> bool:
    """Return whether a front end that also runs without an NPU uses one."""
    return any(finding.subject == _PREFIX + name and "target Ascend" in finding.detail for finding in findings)


def _verify_apart(name: str, output: Path) -> dict[str, Any]:
    """Verify a front end in a separate process, which may crash."""
    variables = {**machine.of_own_process(), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    variables.pop("PROFILING_MODE", None)
    if name == "msprof":
        variables["PROFILING_MODE"] = "dynamic"  # it attaches only to a process that starts with this variable
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "npuprof.verification.child", name, str(output.absolute()), str(target)]
        try:
            done = subprocess.run(  # noqa: S603 - this Python with a module of our own
                command, env=variables, capture_output=True, stdin=subprocess.DEVNULL, timeout=_ONE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return _failure(name, f"it took more than {_ONE_S:g} s")
        try:
            answer: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            errors = done.stderr.decode(errors="replace").strip().splitlines()
            return _failure(name, f"its process ended with status {done.returncode}: {' | '.join(errors[-5:])}")
    return answer


def _failure(name: str, reason: str) -> dict[str, Any]:
    return {"collector": name, "checks": [{"name": "run", "passed": False, "detail": reason}]}


def _word(passed: bool | None) -> str:
    return {True: "pass", False: "FAIL", None: "skipped"}[passed]
