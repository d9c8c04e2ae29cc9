"""Arguments for torch_npu's profiler, and the messages that it prints.

torch_npu silently coerces some options. Its methods catch every exception and print a line; during a call, these lines
are taken out of standard output, so that the collector can raise them or warn. All other output passes through.
Source: collectors/FRONTENDS.md sections 2 and 6; the Ascend PyTorch Profiler guide.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

from npuprof.errors import OptionsError
from npuprof.options import Options
from npuprof.recordings.recording import FLOPS_DOMAIN

LEVELS = {"none": "Level_none", 0: "Level0", 1: "Level1", 2: "Level2"}
"""Names in ``torch_npu.profiler.ProfilerLevel``, by npuprof's level."""

DUMP_LIBRARY = "libascend_dump.so"
"""Needed by record_op_args: without it, torch_npu's profiler fails at the start and can never be stopped."""


def refuse_coerced(options: Options) -> None:
    """Raise an OptionsError for options that torch_npu would ignore with a line of output."""
    if "cpu" not in options.activities:
        wanted = {"shapes": options.shapes, "gc_detect_threshold": options.gc_detect_threshold is not None}
        for option in filter(wanted.__getitem__, wanted):
            raise OptionsError(
                f"torch_npu records {option} with the operators of the framework: add cpu to activities, "
                f"or leave {option} out",
                option,
            )
    if "npu" not in options.activities and options.level == "none":
        raise OptionsError(
            "level none records markers by the device: add npu to activities, or set level 0, 1 or 2", "level"
        )
    if options.op_attr and "db" not in options.export_type:
        raise OptionsError(
            "torch_npu records op_attr only where it is asked to export a database: add db to export_type, "
            "or leave op_attr out",
            "op_attr",
        )
    if options.op_attr and options.level == "none":
        raise OptionsError("op_attr needs operators to describe: set level 0, 1 or 2, or leave op_attr out", "op_attr")
    if options.flops and not (options.marks and "npu" in options.activities):
        raise OptionsError(
            "torch_npu records flops as ranges of its markers: turn marks on and add npu to activities, or "
            "leave flops out",
            "flops",
        )
    if options.flops and FLOPS_DOMAIN in options.mstx_domain_exclude:
        raise OptionsError(
            f"torch_npu records flops in the domain {FLOPS_DOMAIN}: take it out of mstx_domain_exclude, or leave "
            "flops out",
            "flops",
        )


def profile_arguments(options: Options) -> dict[str, bool]:
    """Return the switches of ``torch_npu.profiler.profile``."""
    return {
        "record_shapes": options.shapes,
        "profile_memory": options.memory,
        "with_stack": options.stacks,
        "with_flops": options.flops,
        "with_modules": options.modules,
    }


def experimental_arguments(options: Options) -> dict[str, Any]:
    """Return the arguments of ``_ExperimentalConfig``, with the level and metrics by enum name."""
    on_device = "npu" in options.activities
    return {
        "profiler_level": LEVELS[options.level] if on_device else "Level0",
        "aic_metrics": "AiCoreNone" if options.aic_metrics == "none" else str(options.aic_metrics),
        "l2_cache": options.l2,
        "msprof_tx": False,  # the older name of mstx, which warns of the deprecation
        "mstx": options.marks and on_device,
        "data_simplification": options.data_simplification,
        "record_op_args": options.record_op_args,
        "op_attr": options.op_attr,
        "gc_detect_threshold": None if options.gc_detect_threshold is None else float(options.gc_detect_threshold),
        "export_type": list(options.export_type),
        "host_sys": list(options.host_sys),
        "mstx_domain_include": _included_domains(options) if on_device else [],
        "mstx_domain_exclude": list(options.mstx_domain_exclude) if on_device else [],
        "sys_io": options.sys_io,
        "sys_interconnection": options.sys_interconnection,
    }


def _included_domains(options: Options) -> list[str]:
    """Return the domains to record, including that of FLOPs if domains are chosen."""
    included = list(options.mstx_domain_include)
    return [*included, FLOPS_DOMAIN] if included and options.flops and FLOPS_DOMAIN not in included else included


_MESSAGE = re.compile(r"\[[\d: -]+\] \[(INFO|WARNING|ERROR)\] \[\d+\] profiler\.py: (.*)")
_CODE = re.compile(r"\[ERROR\] .*\(PID:\d+.*\bERR\d+ .*")  # the vendor's error code, on a separate line
_MOST_HELD = 1 << 16


@dataclass
class VendorMessages:
    """Messages of torch_npu's profiler, without times and process ids."""

    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def take(self, line: str) -> bool:
        """Keep a line of torch_npu's profiler; return whether the line is such a message."""
        match = _MESSAGE.fullmatch(line)
        if match is None:
            return _CODE.fullmatch(line) is not None
        if match[1] != "INFO":
            (self.errors if match[1] == "ERROR" else self.warnings).append(match[2].strip())
        return True


class _Sieve:
    """A text stream that forwards everything except torch_npu's messages."""

    def __init__(self, stream: TextIO, messages: VendorMessages) -> None:
        self._stream, self._messages, self._held = stream, messages, ""
        self._lock = threading.RLock()  # other threads may print meanwhile

    def write(self, text: str) -> int:
        """Write text, except for complete lines that are messages of torch_npu."""
        with self._lock:
            self._held += text
            *lines, self._held = self._held.split("\n")
            for line in lines:
                if not self._messages.take(line):
                    self._stream.write(f"{line}\n")
            if self._held and (self._held[0] != "[" or len(self._held) > _MOST_HELD):
                self.flush_pending()
        return len(text)

    def flush_pending(self) -> None:
        """Write out the pending part of an unfinished line."""
        with self._lock:
            held, self._held = self._held, ""
            if held and not self._messages.take(held):
                self._stream.write(held)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def vendor_messages() -> Iterator[VendorMessages]:
    """Capture the messages of torch_npu's profiler in the block."""
    messages = VendorMessages()
    sieve = _Sieve(sys.stdout, messages)
    with redirect_stdout(cast("TextIO", sieve)):
        try:
            yield messages
        finally:
            sieve.flush_pending()
