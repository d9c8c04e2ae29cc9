"""The command line: ``npuprof demo``, ``open``, ``advise``, ``compare``, ``mcp``, ``run`` and ``doctor``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import npuprof
from npuprof.conditions import Quantity
from npuprof.errors import NoRankError, NpuprofError
from npuprof.options import default_output
from npuprof.options.load_arguments import add_load_arguments, load_arguments
from npuprof.words.commands import own_command
from npuprof.words.quantities import share
from npuprof.words.texts import plain_lines

if TYPE_CHECKING:
    from npuprof.advice.findings import Advice
    from npuprof.profiles.profile import Profile
    from npuprof.ranks.profile_set import ProfileSet

_FIRST = """\
Begin with
  npuprof doctor       what this machine can profile with, and the next command
  npuprof demo         a profiled notebook on the simulated NPU, and its report
  npuprof open PATH    the summary of a recording or of a vendor's result"""
_CLOSED = 141  # as a shell reports a program that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Returns
    -------
    int
        0 for success, 1 for a failure with a message, 2 for wrong usage, 3 for a gate that fails, 4 for one that cannot
        tell.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without µ shows a question mark
    parsed = _parser().parse_args(arguments)
    if "run" not in parsed:
        _say(f"{_parser().format_help()}\n{_FIRST}", sys.stderr)
        return 2
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:  # the program that reads the output has enough of it, as ``head``
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CLOSED
    except (NpuprofError, OSError) as error:
        _say(f"npuprof: {error}", sys.stderr)
        return 1
    return status


def _say(text: str, stream: TextIO | None = None) -> None:
    """Print a text that may quote names and contents of files."""
    print(plain_lines(text), file=stream)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="npuprof", description="Profile Huawei Ascend NPUs from the notebook.")
    parser.add_argument("--version", action="version", version=f"npuprof {npuprof.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")

    demo = commands.add_parser("demo", help="run a profiled notebook on the simulated NPU and write its report")
    demo.add_argument("--output", type=Path, default=Path("npuprof-demo"), help="directory to work in (%(default)s)")
    demo.set_defaults(run=_demo)

    open_ = commands.add_parser("open", help="read a recording or result and print its summary")
    open_.add_argument("path", type=Path, help="what to read")
    open_.add_argument("--html", type=Path, help="also write one self-contained page to this file")
    add_load_arguments(open_)
    open_.set_defaults(run=_open)

    advise = commands.add_parser(
        "advise",
        help="show what makes a step slow, and fail if it may gain too much",
        epilog="Exit status with --fail-on: 0 no finding may gain so much, 3 one may, 4 the noise of the steps does "
        "not tell, or none may, but for so much of a step nothing tells why it passes, or runs were not judged, 1 an "
        "error.",
    )
    advise.add_argument("path", type=Path, help="what to read")
    form = advise.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the findings as JSON")
    form.add_argument(
        "--markdown",
        action="store_true",
        help="print the report as at most 60 lines of Markdown, for an issue, a pull request or an assistant",
    )
    advise.add_argument(
        "--fail-on",
        type=_percent_or_condition,
        metavar="LIMIT",
        help="exit with 3 if a finding may gain at least so much of a step, such as 5%%, or if a condition holds, such "
        "as 'step > 160ms'",
    )
    add_load_arguments(advise)
    advise.set_defaults(run=_advise)

    _add_compare(commands)

    mcp = commands.add_parser(
        "mcp",
        help="serve the runs of a folder to an assistant, over stdio",
        description="Serve the runs below a folder to an assistant, by the Model Context Protocol over stdio: an "
        "editor or another client starts this command. It only reads, and nothing outside of the folder.",
    )
    mcp.add_argument("folder", type=Path, nargs="?", default=Path(), help="what is served (the working directory)")
    mcp.add_argument("--no-source", action="store_true", help="serve the numbers of lines without the text of the code")
    mcp.add_argument("--sql-seconds", type=float, default=20.0, help="longest query of SQL (%(default)g)")
    mcp.set_defaults(run=_mcp)

    # Its words are read as those of the magic are; without a prefix, none of them is an option here.
    run = commands.add_parser("run", help="run and profile a program, or its ranks", add_help=False, prefix_chars="\0")
    run.add_argument("words", nargs=argparse.REMAINDER, help="options, the script, and its arguments")
    run.set_defaults(run=_run)

    doctor = commands.add_parser("doctor", help="show what this machine can profile with, and what is missing")
    doctor.add_argument("--output", type=Path, default=default_output(), help="directory of recordings (%(default)s)")
    doctor.add_argument(
        "--verify",
        action="store_true",
        help="profile a small known workload with each front end, judge what is decoded, and write one file for a "
        "bug report",
    )
    doctor.set_defaults(run=_doctor)
    return parser


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    compare = commands.add_parser(
        "compare",
        help="show what made a step of A longer than one of B, and fail if it is slower",
        epilog="Exit status with --fail-on: 0 not slower by more, 3 slower by more, 4 it cannot tell (one step on a "
        "side, or the interval holds the limit), 1 an error.",
    )
    compare.add_argument("a", type=Path, help="a recording or a result")
    compare.add_argument("b", type=Path, help="what it is compared with, such as a baseline that was saved before")
    compare.add_argument("--json", action="store_true", help="print the difference as JSON")
    compare.add_argument("--html", type=Path, help="also write one self-contained page to this file")
    compare.add_argument(
        "--fail-on",
        type=_percent,
        metavar="PERCENT",
        help="exit with 3 if a step of A is longer by more than so much of one of B, such as 3%%, beyond noise",
    )
    compare.set_defaults(run=_compare)


def _demo(parsed: argparse.Namespace) -> int:
    from npuprof.demo import run_demo

    profile, page = run_demo(parsed.output)
    _say(str(profile))
    _say(f"\nThe whole report, one self-contained file: {page}")
    return 0


def _open(parsed: argparse.Namespace) -> int:
    from npuprof.loading import open_path
    from npuprof.profiles.profile import Profile

    profile = open_path(parsed.path, **load_arguments(parsed))
    _say(str(profile))
    if not isinstance(profile, Profile) and parsed.path.is_dir():
        if len(profile.ranks) > 1:
            _say(f"\nWhat makes a step of all ranks slow: {own_command('advise', parsed.path)}")
        _say(f"\nOne of them: {own_command('open', parsed.path / profile.info['path'].iloc[0])}")
    if parsed.html is not None:
        _say(f"\nThe whole report, one self-contained file: {profile.to_html(parsed.html)}")
    return 0


def _mcp(parsed: argparse.Namespace) -> int:
    from npuprof.assistant import serve

    serve(parsed.folder, with_source=not parsed.no_source, sql_s=parsed.sql_seconds)
    return 0


def _percent_or_condition(text: str) -> float | str:
    return text if Quantity.of(text) is None and any(sign in text for sign in "<>=") else _percent(text)


def _percent(text: str) -> float:
    """Read ``5%`` or ``5`` as 0.05."""
    quantity = Quantity.of(text)
    value = float(quantity.number) if quantity is not None and quantity.unit in ("", "%") else -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0 and 100, such as 5%")
    return value / 100


def _advise(parsed: argparse.Namespace) -> int:
    from npuprof.loading import open_path

    opened = open_path(parsed.path, **load_arguments(parsed))
    try:
        advice = opened.advice()
    except NoRankError as error:
        raise NpuprofError(f"{error.problem}: {_one_at_a_time(parsed.path, opened)}") from error
    _say(advice.to_json() if parsed.json else opened.to_markdown() if parsed.markdown else str(advice))
    if advice.unjudged and not parsed.json:
        _say(f"{advice.unjudged}: {_one_at_a_time(parsed.path, opened)}", sys.stderr)
    if parsed.fail_on is None:
        return 0
    has_steps = advice.facts.accounting.has_steps
    is_judged = bool(advice.step_ns) and (has_steps or not advice.facts.accounting.of_host)
    if not is_judged and not advice.unjudged:
        raise NpuprofError(f"{parsed.path} has no step and no device time, so --fail-on has nothing to check")
    if advice.doubts:
        _say(f"npuprof: cannot tell: {parsed.path} is incomplete ({'; '.join(advice.doubts)})", sys.stderr)
        return 4
    if isinstance(parsed.fail_on, str):
        return _judge(advice, parsed.fail_on)
    gains = advice.gains_at_least(parsed.fail_on)
    if gains:
        return 3
    if gains is None:
        noise = f"the 95 % interval over the steps contains {100 * parsed.fail_on:g} %: record more steps"
        _say(f"npuprof: cannot tell whether a finding gains so much: {noise}", sys.stderr)
        return 4
    unknown = advice.unjudged
    if advice.unknown_ns and advice.unknown_ns >= parsed.fail_on * advice.step_ns:
        what = "the host's" if advice.facts.accounting.of_host else "idle"
        unknown = f"{share(advice.unknown_ns, advice.step_ns)} of a step is {what} time without a known cause"
    if not unknown:
        return 0
    _say(f"npuprof: cannot tell: no finding may gain {100 * parsed.fail_on:g} %, but {unknown}", sys.stderr)
    return 4


def _judge(advice: Advice, condition: str) -> int:
    """Return 3 if a condition holds for the usual step, else 0, and print its figures."""
    from npuprof.advice.gate import check, figures

    if advice.unjudged:
        _say(f"npuprof: cannot tell: {advice.unjudged}", sys.stderr)
        return 4
    compared = check(condition, figures(advice))
    holds = all(each.holds for each in compared)
    _say(f"npuprof: {'; '.join(map(str, compared))}: {'holds' if holds else 'does not hold'}", sys.stderr)
    return 3 if holds else 0


def _one_at_a_time(path: Path, opened: Profile | ProfileSet) -> str:
    """Return the command that judges one run of a folder."""
    from npuprof.profiles.profile import Profile

    if isinstance(opened, Profile):  # the one run of a folder is judged
        return ""
    runs = opened.info
    first = runs["path"][runs["rank"].isna().to_numpy(bool)].iloc[0]
    return f"judge them one at a time: {own_command('advise', path / first)}"


def _compare(parsed: argparse.Namespace) -> int:
    from npuprof.loading import compare

    pairs = (parsed.a.name, parsed.b.name), (str(parsed.a), str(parsed.b))
    difference = compare(parsed.a, parsed.b, names=next((pair for pair in pairs if pair[0] != pair[1]), None))
    _say(difference.to_json() if parsed.json else str(difference))
    if parsed.html is not None:
        _say(f"\nThe whole comparison, one self-contained file: {difference.to_html(parsed.html)}", sys.stderr)
    if parsed.fail_on is None:
        return 0
    slower = difference.slower_by(parsed.fail_on)
    verdict = {
        True: "slower by more than",
        False: "not slower by more than",
        None: "cannot tell whether it is slower by",
    }
    _say(f"npuprof: {verdict[slower]} {100 * parsed.fail_on:g} %", sys.stderr)
    return {True: 3, False: 0, None: 4}[slower]


def _run(parsed: argparse.Namespace) -> int:
    from npuprof.loading import load
    from npuprof.notebook.arguments import UsageError, parse_run, usage
    from npuprof.session.applications import run_application
    from npuprof.session.programs import run_processes

    if not parsed.words or parsed.words[0] in ("-h", "--help"):
        _say(usage())
        return 0 if parsed.words else 2
    try:
        words = parse_run(parsed.words)
    except UsageError as error:
        _say(f"npuprof run: {error}", sys.stderr)
        return 2
    if words.saved_bytes is not None:
        _say("npuprof run: --saved-bytes is for notebooks: leave it out", sys.stderr)
        return 2
    if words.options.processes:
        ran = run_processes(words.program, words.options, timeout_s=words.timeout_s)
        _say(f"\nThe recordings are in {ran.session.recording.directory.parent}", sys.stderr)
        if words.report:
            _say(str(_overview(ran.session.result)), sys.stderr)
        return ran.status if ran.status >= 0 else 128 - ran.status
    recording = run_application(words.program, words.options, echo=sys.stdout.write, timeout_s=words.timeout_s)
    _say(f"\nThe recording is {recording.directory}")
    if words.report:
        _say(str(load(recording.directory)))
    if recording.failed:
        raise NpuprofError(f"the program failed: {recording.failed}")
    return 0


def _overview(runs: Any) -> object:
    """Return what to show of the processes of a program: the overview of a set, or a single run."""
    from npuprof.profiles.profile import Profile

    return runs if isinstance(runs, Profile) else runs.read().overview()


def _doctor(parsed: argparse.Namespace) -> int:
    from npuprof.machine.doctor import diagnose, next_step

    if parsed.verify:
        return _verify(parsed.output)
    findings = diagnose(parsed.output)
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        _say(f"{finding.state:8}{finding.subject:{width + 2}}{finding.detail}")
    step = next_step(findings, parsed.output if parsed.output != default_output() else None)
    _say(f"\nNext: {step.what}\n  {step.command}")
    return 1 if any(finding.state == "problem" for finding in findings) else 0


def _verify(output: Path) -> int:
    from npuprof.verification import verify

    verdict = verify(output)
    _say(f"\n{verdict.text}\nThe file to attach to a bug report: {verdict.report}")
    return 0 if verdict.passed else 1
