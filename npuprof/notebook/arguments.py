"""The arguments of the magics, in one table that parses them and documents them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser, argument, magic_arguments

from npuprof.errors import OptionsError
from npuprof.options import (
    ACTIVITIES,
    AIC_METRICS,
    COLLECTORS,
    EXPORT_TYPES,
    FREQUENCIES,
    GE_API,
    HOST_SYS,
    HOST_SYS_USAGE,
    LEVELS,
    LLC,
    Options,
    default_output,
)

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Arguments:
    """What the words after ``%%npuprof`` ask for.

    Attributes
    ----------
    options
        What to collect.
    report
        Whether to show the report when the run ends.
    run_anyway
        Whether the cell is run unprofiled when the profiler cannot be started.
    """

    options: Options
    report: bool
    run_anyway: bool


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


def _option(flag: str, what: str, **settings: Any) -> argument:
    """Describe one option; one that is not given is absent, so that Options knows its default."""
    return argument(flag, **{"default": argparse.SUPPRESS, "help": what, **settings})


def _switch(flag: str, what: str) -> argument:
    return _option(flag, what, action="store_true")


def _frequency(flag: str) -> argument:
    needs, most = FREQUENCIES[flag.removeprefix("--").replace("-", "_")]
    needs = needs.replace("_", "-")
    return _option(flag, f"How often to sample with --{needs}, in Hz: 1 to {most}.", type=int, metavar="HZ")


_TABLE: tuple[argument, ...] = (
    _option("--level", f"How much to collect: one of {_listed(LEVELS)}. Default: 1."),
    _option(
        "--aic-metrics",
        f"AI Core metrics: one of {_listed(AIC_METRICS)}, none. "
        "Default: PipeUtilization at levels 1 and 2, none below.",
        metavar="GROUP",
    ),
    _option("--activities", f"What to watch: any of {_listed(ACTIVITIES)}, joined by commas. Default: cpu,npu."),
    _switch("--memory", "Sample the device's memory."),
    _switch("--stacks", "Record the Python stack of each framework operator."),
    _switch("--shapes", "Record the shapes of operators' tensors."),
    _switch("--l2", "Record the L2 cache's hits and victims."),
    _option("--marks", "Record markers and ranges. Default: on.", action=argparse.BooleanOptionalAction),
    _option("--host-sys", f"Host samples to take: any of {_listed(HOST_SYS)}, joined by commas.", metavar="KINDS"),
    _option("--output", f"Directory in which recordings are kept. Default: {default_output()}.", metavar="DIRECTORY"),
    _option("--name", "What to call the run."),
    _option("--collector", f"The front end to use: one of {_listed(COLLECTORS)}. Default: auto.", metavar="FRONT_END"),
    _switch("--modules", "Record the module hierarchy of framework operators."),
    _switch("--flops", "Estimate the floating-point operations of framework operators."),
    _option(
        "--gc-detect-threshold",
        "Record garbage collections of at least so many milliseconds.",
        type=float,
        metavar="MS",
    ),
    _switch("--record-op-args", "Record the arguments of framework operators."),
    _switch("--op-attr", "Record the attributes of CANN's operators."),
    _option("--mstx-domain-include", "Record the markers of these domains only, joined by commas.", metavar="DOMAINS"),
    _option("--mstx-domain-exclude", "Leave out the markers of these domains, joined by commas.", metavar="DOMAINS"),
    _option("--llc-profiling", "Which side of the last level cache to sample with --memory.", choices=LLC),
    _switch("--sys-io", "Sample NIC and RoCE."),
    _switch("--sys-interconnection", "Sample the links between chips: HCCS and PCIe."),
    _switch("--dvpp", "Sample the image units."),
    _frequency("--memory-freq"),
    _frequency("--io-freq"),
    _frequency("--interconnection-freq"),
    _frequency("--dvpp-freq"),
    _option(
        "--host-sys-usage",
        f"Host samples of all processes to take: any of {_listed(HOST_SYS_USAGE)}, joined by commas.",
        metavar="KINDS",
    ),
    _frequency("--host-sys-usage-freq"),
    _switch("--hccl", "Record communication below level 1."),
    _switch("--aicpu", "Record AI CPU operators below level 2."),
    _switch("--runtime-api", "Record runtime calls below level 2."),
    _option("--ge-api", "Calls of the graph engine: of dynamic shapes (l0), or all (l1).", choices=GE_API),
    _switch("--training-trace", "Record the iteration trace."),
    _option("--fp-point", "The operator at which the forward pass begins.", metavar="OPERATOR"),
    _option("--bp-point", "The operator at which the backward pass ends.", metavar="OPERATOR"),
    _switch("--data-process", "Record MindSpore's data pipeline."),
    _switch("--parallel-strategy", "Record MindSpore's parallel strategy."),
    _option(
        "--sync-enable",
        "Whether MindSpore waits for the device at both ends of an operator. Default: on.",
        action=argparse.BooleanOptionalAction,
    ),
    _option("--storage-limit", "The most to keep on disk, in MB: at least 200.", type=int, metavar="MB"),
    _option("--devices", "Ids of the devices to collect from, joined by commas. Default: all visible ones."),
    _option(
        "--data-simplification",
        "Whether the vendor's parser, where it runs, leaves out its intermediate files. Default: on.",
        action=argparse.BooleanOptionalAction,
    ),
    _option(
        "--export-type",
        f"What the vendor's parser, where it runs, writes: any of {_listed(EXPORT_TYPES)}, joined by commas.",
        metavar="TYPES",
    ),
    _option("--delay", "Seconds until the msprof tool begins.", type=int, metavar="SECONDS"),
    _option("--duration", "Seconds that the msprof tool collects for.", type=int, metavar="SECONDS"),
    _option(
        "--if-unavailable",
        "What to do when the profiler cannot be started: refuse with an error (error, the default), "
        "or run without it and say so (run).",
        choices=("error", "run"),
    ),
    _option("--no-report", "Collect without showing the report.", dest="report", action="store_false"),
)


def profiling_arguments(function: _Function) -> _Function:
    """Decorate a magic with the options of the table; stands below ``@magic_arguments``."""
    for entry in reversed(_TABLE):
        function = entry(function)
    return function


def parse(parser: MagicArgumentParser, line: str) -> dict[str, Any]:
    """Split a line as a shell does and parse its words.

    Raises
    ------
    UsageError
        If a word is no argument of the magic, or its value is none that the argument takes.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the arguments cannot be read ({error}): {line}") from None
    known, unknown = parser.parse_known_args(words)
    if unknown:
        flags = sorted(flag for action in parser._actions for flag in action.option_strings)
        raise UsageError(
            f"unknown argument {' '.join(unknown)}: the options are {', '.join(flags)}; %%npuprof? explains them"
        )
    return vars(known)


def interpret(words: Mapping[str, Any]) -> Arguments:
    """Make the options of the run from parsed words.

    Raises
    ------
    UsageError
        If a value is not allowed or two exclude each other; the message says what is allowed.
    """
    chosen = dict(words)
    report, policy = chosen.pop("report", True), chosen.pop("if_unavailable", "error")
    try:
        return Arguments(Options.from_dict(chosen), report, policy == "run")
    except OptionsError as error:
        raise UsageError(str(error)) from None


@magic_arguments("options")
@profiling_arguments
def _options_only() -> None:
    """Hold the table of options for a line that has nothing else."""


def typed_options(line: str) -> dict[str, Any]:
    """Give the options of a line by name, as :class:`npuprof.options.Options` takes them.

    Raises
    ------
    UsageError
        If a word is no option, or its value is none that the option takes.
    """
    words = parse(_options_only.parser, line)
    if others := sorted({"report", "if_unavailable"} & words.keys()):
        raise UsageError(f"{', '.join(others)} of %%npuprof is no option of what to collect: leave it out")
    return words
