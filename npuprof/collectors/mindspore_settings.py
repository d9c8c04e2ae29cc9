"""Our options as MindSpore's profiler takes them, and those that it would change with no more than a warning.

Source: collectors/FRONTENDS.md sections 1 and 6; MindSpore's page ``mindspore.Profiler``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import FRAMEWORK_NAMES, Options

LEVELS = {"none": "LevelNone", 0: "Level0", 1: "Level1", 2: "Level2"}
"""Names in ``mindspore.profiler.ProfilerLevel`` by our level."""

NO_METRICS = "AiCoreNone"

DOCUMENTED = frozenset(
    (
        *("start_profile", "output_path", "profiler_level", "activities", "aicore_metrics", "with_stack"),
        *("profile_memory", "data_simplification", "l2_cache", "hbm_ddr", "pcie", "data_process"),
        *("parallel_strategy", "sync_enable"),
    )
)
"""Parameters of the older ``Profiler(...)``, for a release that does not list them itself."""

# What older releases call a setting. Where they have the newer name, the older one is deprecated.
_OLDER_NAMES = {"aic_metrics": "aicore_metrics", "sys_interconnection": "pcie"}


def refuse_coerced(options: Options) -> None:
    """Refuse what MindSpore would change or leave out with a warning.

    Raises
    ------
    OptionsError
        With the reason and what to change.
    """
    on_device = "npu" in options.activities
    if on_device and options.level in (1, 2) and options.aic_metrics == "none":
        raise OptionsError(
            f"MindSpore counts PipeUtilization at level {options.level} where no metrics are asked for: "
            "set level 0, or choose aic_metrics",
            "aic_metrics",
        )
    if not on_device and options.level == "none":
        raise OptionsError(
            "level none records markers by the device: add npu to activities, or set level 0, 1 or 2", "level"
        )
    if "cpu" not in options.activities:
        for option in ("shapes", "memory", "data_process"):
            if getattr(options, option):
                raise OptionsError(
                    f"MindSpore records {option} with its operators: add cpu to activities, or leave {option} out",
                    option,
                )
    if not options.sync_enable and "gpu" not in options.activities:
        raise OptionsError(
            "sync_enable is for operators on a GPU: add gpu to activities, or leave sync_enable out", "sync_enable"
        )


def config_arguments(options: Options) -> dict[str, Any]:
    """Return every argument of ``_ExperimentalConfig``; members of its enums by their names."""
    on_device = "npu" in options.activities
    return {
        "profiler_level": LEVELS[options.level] if on_device else "Level0",
        "aic_metrics": NO_METRICS if options.aic_metrics == "none" else str(options.aic_metrics),
        "l2_cache": options.l2,
        "mstx": options.marks and on_device,
        "data_simplification": options.data_simplification,
        "export_type": [name.capitalize() for name in options.export_type],
        "mstx_domain_include": list(options.mstx_domain_include) if on_device else [],
        "mstx_domain_exclude": list(options.mstx_domain_exclude) if on_device else [],
        "sys_io": options.sys_io,
        "sys_interconnection": options.sys_interconnection,
        "host_sys": [name.upper() for name in options.host_sys],
    }


def profile_arguments(options: Options) -> dict[str, Any]:
    """Return the switches of ``mindspore.profiler.profile``; its activities by the names of the enum."""
    return {
        "activities": [name.upper() for name in options.activities],
        "with_stack": options.stacks,
        "profile_memory": options.memory,
        "data_process": options.data_process,
        "parallel_strategy": options.parallel_strategy,
        "sync_enable": options.sync_enable,
        "record_shapes": options.shapes,
    }


def known_arguments(options: Options, known: Collection[str]) -> dict[str, Any]:
    """Return the arguments of all of a release's classes, by the names that it knows.

    Parameters
    ----------
    options
        What to collect.
    known
        The parameters of this release: of ``profile`` and ``_ExperimentalConfig``, or of the older ``Profiler``.

    Raises
    ------
    OptionsError
        If it has no parameter for something that was asked for.
    """
    default = Options(level=options.level, activities=options.activities, collector=options.collector)
    usual = {**config_arguments(default), **profile_arguments(default)}
    wanted = {**config_arguments(options), **profile_arguments(options)}
    arguments: dict[str, Any] = {}
    for name, value in wanted.items():
        if name in known:
            arguments[name] = value
        elif (older := _OLDER_NAMES.get(name)) is not None and older in known:
            arguments[older] = value
        elif value != usual[name] or (name == "mstx" and options.level == "none"):
            option = FRAMEWORK_NAMES[name]
            raise OptionsError(
                f"this release of MindSpore cannot collect {option}: leave it out, or upgrade MindSpore", option
            )
    if "sys_interconnection" not in known and "hbm_ddr" in known:
        arguments["hbm_ddr"] = options.memory  # in later releases, profile_memory samples the device's memory too
    return arguments
