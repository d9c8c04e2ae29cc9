"""The command line: ``npuprof demo``, ``npuprof open PATH`` and ``npuprof doctor``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from npuprof.errors import NpuprofError
from npuprof.options import DEFAULT_OUTPUT


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; give the exit status: 0 done, 1 failed with a message, 2 wrong usage."""
    parsed = _parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except (NpuprofError, OSError) as error:
        print(f"npuprof: {error}", file=sys.stderr)  # noqa: T201 - a command prints
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="npuprof", description="Profile Huawei Ascend NPUs from the notebook.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="run a profiled notebook on the simulated NPU and write its report")
    demo.add_argument("--output", type=Path, default=Path("npuprof-demo"), help="directory to work in (%(default)s)")
    demo.set_defaults(run=_demo)

    open_ = commands.add_parser("open", help="read a recording or result and print its summary")
    open_.add_argument("path", type=Path, help="what to read")
    open_.add_argument("--html", type=Path, help="also write one self-contained page to this file")
    open_.set_defaults(run=_open)

    doctor = commands.add_parser("doctor", help="tell what this machine can profile with, and what is missing")
    doctor.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="directory of recordings (%(default)s)")
    doctor.set_defaults(run=_doctor)
    return parser


def _demo(parsed: argparse.Namespace) -> int:
    from npuprof.demo import run_demo

    profile, page = run_demo(parsed.output)
    print(repr(profile))  # noqa: T201
    print(f"\nThe whole report, one self-contained file: {page}")  # noqa: T201
    return 0


def _open(parsed: argparse.Namespace) -> int:
    from npuprof.profiles import Profile, open_path

    profile = open_path(parsed.path)
    print(repr(profile))  # noqa: T201
    if parsed.html is not None:
        if not isinstance(profile, Profile):
            raise NpuprofError(f"{parsed.path} holds {len(profile)} runs: give one of them to have its page")
        print(f"\nThe whole report, one self-contained file: {profile.to_html(parsed.html)}")  # noqa: T201
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    from npuprof.doctor import diagnose

    findings = diagnose(parsed.output)
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        print(f"{finding.state:8}{finding.subject:{width + 2}}{finding.detail}")  # noqa: T201
    return 1 if any(finding.state == "problem" for finding in findings) else 0
