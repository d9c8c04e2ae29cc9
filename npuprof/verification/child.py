"""Verify a front end in a separate process: ``python -m npuprof.verification.child NAME OUTPUT ANSWER``."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from npuprof.machine import cann
from npuprof.session.session import Session
from npuprof.verification import checks, workloads
from npuprof.verification.checks import Check, examine

_MOST_FILES = 500


def verify_one(collector: str, output: Path) -> dict[str, Any]:
    """Record a known workload with a front end, decode and check it; return checks and facts for JSON."""
    workload = workloads.choose(collector)
    answer: dict[str, Any] = {"collector": collector, "workload": workload.name, "checks": []}
    checks: list[Check] = []
    try:
        run = workload.prepare()
        session = Session(workloads.options_for(collector, str(output)), title="npuprof doctor --verify")
        with session:
            run()
        recording = session.recording
        profile = session.result
        answer |= {
            "recording": str(recording.directory),
            "info": profile.info.to_dict(),
            "rows": {name: len(table) for name, table in profile.tables.items() if len(table)},
            "files": [
                f"{path.relative_to(recording.directory)} {path.stat().st_size}"
                for path in sorted(recording.directory.rglob("*"))[:_MOST_FILES]
                if path.is_file()
            ],
        }
        checks += examine(profile, recording, workload)
        checks += _against_vendor(recording.directory)
    except Exception as error:  # noqa: BLE001 - any failure is what the user wants to report
        checks.append(Check("run", False, f"{type(error).__name__}: {error}"))
        answer["traceback"] = traceback.format_exc()
    answer["checks"] = [check.to_dict() for check in checks]
    return answer


def _against_vendor(directory: Path) -> list[Check]:
    raw = sorted(directory.glob("**/PROF_*"))
    tool = cann.msprof()
    if not raw or tool is None:
        reason = "the vendor's msprof is not installed" if raw else "there is no raw data to export"
        return [Check("vendor's export", None, reason)]
    exported = checks.export(tool, raw[0])
    return [exported, *(checks.compare(raw[0]) if exported.passed else [])]


if __name__ == "__main__":
    _, name, folder, target = sys.argv
    Path(target).write_text(json.dumps(verify_one(name, Path(folder)), default=str), encoding="utf-8")
