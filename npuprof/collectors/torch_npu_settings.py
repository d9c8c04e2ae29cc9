"""Our options as torch_npu's profiler takes them, and those that it would change in silence.

Source: collectors/FRONTENDS.md sections 2 and 6; the Ascend PyTorch Profiler guide.
"""

from __future__ import annotations

from typing import Any

from npuprof.errors import OptionsError
from npuprof.options import Options
from npuprof.recording import FLOPS_DOMAIN

LEVELS = {"none": "Level_none", 0: "Level0", 1: "Level1", 2: "Level2"}
"""Names in ``torch_npu.profiler.ProfilerLevel`` by our level."""

DUMP_LIBRARY = "libascend_dump.so"
"""What record_op_args needs: without it, torch_npu's profiler fails at the start and can never again be stopped."""


def refuse_coerced(options: Options) -> None:
    """Refuse what torch_npu would leave out with a line in its output.

    Raises
    ------
    OptionsError
        With the reason and what to change.
    """
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
    """Return every argument of ``_ExperimentalConfig``; the level and the metrics by their names in the enums."""
    on_device = "npu" in options.activities
    return {
        "profiler_level": LEVELS[options.level] if on_device else "Level0",
        "aic_metrics": "AiCoreNone" if options.aic_metrics == "none" else str(options.aic_metrics),
        "l2_cache": options.l2,
        "msprof_tx": False,  # its older name for mstx, which warns of that
        "mstx": options.marks and on_device,
        "data_simplification": options.data_simplification,
        "record_op_args": options.record_op_args,
        "op_attr": options.op_attr,
        "gc_detect_threshold": None if options.gc_detect_threshold is None else float(options.gc_detect_threshold),
        "export_type": list(options.export_type),
        "host_sys": list(options.host_sys),
        "mstx_domain_include": _included(options) if on_device else [],
        "mstx_domain_exclude": list(options.mstx_domain_exclude) if on_device else [],
        "sys_io": options.sys_io,
        "sys_interconnection": options.sys_interconnection,
    }


def _included(options: Options) -> list[str]:
    """Return the domains to record: where some are chosen, that of the flops that are asked for is one of them."""
    included = list(options.mstx_domain_include)
    return [*included, FLOPS_DOMAIN] if included and options.flops and FLOPS_DOMAIN not in included else included
