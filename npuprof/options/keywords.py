"""The options as keyword arguments, written by ``python -m npuprof.options``."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict


class OptionValues(TypedDict, total=False):
    """The options by name, each with the types that it takes; :class:`npuprof.options.Options` explains them."""

    collector: str
    level: str | int
    aic_metrics: str | None
    activities: str | Iterable[str]
    memory: bool
    stacks: bool
    shapes: bool
    l2: bool
    marks: bool
    host_sys: str | Iterable[str]
    name: str
    output: str | Path
    steps: bool
    step_line: int | None
    lines: bool
    code: bool
    processes: bool
    workers: bool
    engines: bool
    modules: bool
    flops: bool
    gc_detect_threshold: float | None
    record_op_args: bool
    op_attr: bool
    mstx_domain_include: str | Iterable[str]
    mstx_domain_exclude: str | Iterable[str]
    llc_profiling: str | None
    sys_io: bool
    sys_interconnection: bool
    dvpp: bool
    memory_freq: int | None
    io_freq: int | None
    interconnection_freq: int | None
    dvpp_freq: int | None
    host_sys_usage: str | Iterable[str]
    host_sys_usage_freq: int | None
    hccl: bool
    aicpu: bool
    runtime_api: bool
    ge_api: str
    training_trace: bool
    fp_point: str
    bp_point: str
    data_process: bool
    parallel_strategy: bool
    sync_enable: bool
    storage_limit: int | None
    devices: str | Iterable[int]
    data_simplification: bool
    export_type: str | Iterable[str]
    delay: int | None
    duration: int | None
