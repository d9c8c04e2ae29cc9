"""Capabilities of the front ends: unsupported options are refused before the profiled code runs, never dropped.

The native collector samples the host with programs that it runs by ``sudo`` and a vendor script; without them it
silently records nothing. Front ends silently drop features that CANN does not advertise. Source:
collectors/FRONTENDS.md section 2.
"""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuprof.collectors.registry import choose
from npuprof.errors import OptionsError
from npuprof.options import SPECIFICATION, Options, has_value, lacks, refusal

# Their markers (torch_npu: points in time only, not ranges) have no domain field, so the recording keeps the domain.
DOMAINS_KEPT_BESIDE = frozenset({"acl", "simulator", "msprof", "kineto", "torch_npu"})

# They record markers only while they record the NPU, and say nothing when they drop them.
MARKS_OF_NPU = frozenset({"torch_npu"})

# The calls that launch device work pass through Python, where their stacks can be taken.
LAUNCH_IN_PYTHON = frozenset({"acl", "simulator"})


def check(collector: str, options: Options) -> None:
    """Check that a front end supports the options, and that this machine supports the host samples.

    Raises
    ------
    OptionsError
        With the option, the front end, the reason, and the front ends that support the option.
    """
    for name, option in SPECIFICATION.items():
        for word, having in option.only.items():
            if word in (getattr(options, name) or ()) and not has_value(collector, name, word):
                raise OptionsError(
                    f"{collector} has no {word} among {name}: leave it out, or use --collector {', '.join(having)}",
                    name,
                )
    usual = Options(level=options.level, activities=options.activities, collector=options.collector)
    for name, option in SPECIFICATION.items():
        default = option.usual if name == "level" else getattr(usual, name)
        if getattr(options, name) != default and (reason := lacks(collector, name)):
            raise OptionsError(refusal(collector, name, reason), name)
    if collector != "simulator":
        check_host_tools(options)


_SCRIPT = Path("/usr/bin/msprof_data_collection.sh")
_TOOLS: Mapping[str, tuple[str, ...]] = {"disk": ("iotop",), "osrt": ("perf", "ltrace"), "numa": ("perf",)}
_BY_SCRIPT = ("disk", "osrt")
_WHERE = "/usr/bin:/usr/sbin"  # where the collector looks, whatever PATH says


def missing_host_tools(kind: str) -> list[str]:
    """Return the programs missing on this machine for a kind of ``host_sys``."""
    needed_names = (*_TOOLS.get(kind, ()), *("sudo",) * (kind in _TOOLS))
    lacking = [tool for tool in needed_names if shutil.which(tool, path=_WHERE) is None]
    return lacking + [str(_SCRIPT)] * (kind in _BY_SCRIPT and not _SCRIPT.exists())


def check_host_tools(options: Options) -> None:
    """Raise an OptionsError if a program for the requested host samples is missing."""
    for kind in options.host_sys:
        if lacking := missing_host_tools(kind):
            raise OptionsError(
                f"CANN samples the host's {kind} with {' and '.join(_TOOLS[kind])}, and this machine lacks "
                f"{', '.join(lacking)}: install what is missing (the script, and the right to use it by sudo, are in "
                f"CANN's page on configuring user permissions), or leave {kind} out of host_sys",
                "host_sys",
                remaining={"host_sys": tuple(other for other in options.host_sys if other != kind)},
            )


MEMORY_ACCESS = "MemoryAccess"
ATTRIBUTES = "ATTR"

_LIBRARY = "libmsprofiler.so"
_CALLS = ("aclprofGetSupportedFeaturesV2", "aclprofGetSupportedFeatures")
_NAME_BYTES, _RECORD_BYTES = 64, 256  # a record begins with its name; versions and components follow
_MOST = 1024  # a longer list is not a list of features


def advertised_features() -> frozenset[str]:
    """Return the names of the features that CANN advertises; empty if CANN cannot be asked."""
    try:
        return features_of(ctypes.CDLL(_LIBRARY))
    except OSError:
        return frozenset()


def features_of(library: Any) -> frozenset[str]:
    """Return the features that a loaded library advertises."""
    for name in _CALLS:
        count, records = ctypes.c_size_t(), ctypes.c_void_p()
        try:
            code = getattr(library, name)(ctypes.byref(count), ctypes.byref(records))
        except AttributeError:
            continue
        if code == 0 and records.value and count.value <= _MOST:
            names = (ctypes.string_at(records.value + row * _RECORD_BYTES, _NAME_BYTES) for row in range(count.value))
            return frozenset(name.partition(b"\0")[0].decode(errors="replace") for name in names)
    return frozenset()


def can_load(library: str) -> bool:
    """Return whether the dynamic linker finds a library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _supported(option: str, collector: str) -> set[str | int]:
    name = choose("auto").collector.name if collector == "auto" else collector
    values = SPECIFICATION[option].choices
    return set() if lacks(name, option) else {value for value in values if has_value(name, option, value)}


def supported_activities(collector: str = "auto") -> set[str]:
    """Return the activities that a front end supports; ``auto`` is the front end that this process would use."""
    return set(map(str, _supported("activities", collector)))


def supported_profiler_level(collector: str = "auto") -> set[str | int]:
    """Return the levels that a front end supports; a single level if it has no choice."""
    return _supported("level", collector) or {SPECIFICATION["level"].usual}


def supported_ai_core_metrics(collector: str = "auto") -> set[str]:
    """Return the groups of AI Core metrics that a front end supports; the chip may have fewer."""
    return {*map(str, _supported("aic_metrics", collector)), "none"}


def supported_export_type(collector: str = "auto") -> set[str]:
    """Return the export formats of the vendor's parser; npuprof reads both and needs neither."""
    return set(map(str, _supported("export_type", collector)))
