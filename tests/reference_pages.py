"""Reference pages made from the code: ``python -m tests.reference_pages`` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from npuprof import errors, tables
from npuprof.cli import main
from npuprof.dynamic import keys
from npuprof.options import SPECIFICATION, has_value
from npuprof.options.mindspore import SWITCHES
from npuprof.options.specification import FRONT_ENDS
from npuprof.tables import Column
from tests import vendor_settings

FOLDER = Path(__file__).parents[1] / "notebooks" / "reference"

_TABLES = """# Tables and columns

Every run has every table, as a pandas DataFrame: `run.kernels`, `run.tables["kernels"]`, and of a set
`runs.table("kernels")`, with `rank`, `run` and `host` in front. A table that the data does not have is empty. A source
may add columns after these. Times are whole nanoseconds of the UTC epoch; an absent value is `<NA>` or NaN, never a
number that means none. This page is written by `python -m tests.reference_pages` from `npuprof/tables.py`.

"""
_ERRORS = """# Errors

Each error says what happened, where, and what to do next; in a notebook only that is shown, without a traceback. All
but the warning derive from `NpuprofError`. This page is written by `python -m tests.reference_pages` from
`npuprof/errors.py`.

| error | is also | raised when |
|---|---|---|
"""
_UNITS = (("_ns", "ns"), ("_bytes", "bytes"), ("_gb_s", "GB/s"))
_KINDS = {
    "int": "whole number",
    "optional_int": "whole number, may be absent",
    "float": "number, may be absent",
    "name": "text, may be absent",
    "flag": "yes or no, may be absent",
}

MEANINGS = {
    "active_bytes": "allocated and not yet released by the streams that use it",
    "algorithm": "the algorithm of the collective, such as RING",
    "allocated_bytes": "what the component had handed out at that time",
    "allocated_ns": "when the block was allocated; absent: before the run",
    "bandwidth_gb_s": "bytes over time of the transfer",
    "batch_id": "with stream, task and context, what identifies a task",
    "block_num": "on how many cores it ran",
    "bubble_ns": "waiting for other stages of a pipeline",
    "communication_not_overlapped_ns": "communication that no kernel hides",
    "communication_ns": "communication",
    "component": "the allocator (PTA, GE ...), APP, Device, or a module of the driver",
    "computing_ns": "kernels",
    "connection_id": "what joins a call and the tasks that it launched",
    "context_id": "with stream, task and batch, what identifies a task",
    "core": "the kind of core: AI_CORE, AI_VECTOR_CORE, MIX_AIC, AI_CPU ...",
    "count": "elements of the operator's data",
    "counter": "what was sampled",
    "data_type": "the type of the data",
    "depth": "callers above it",
    "device_duration_ns": "how long the range took on the device's stream",
    "device_id": "the device",
    "device_start_ns": "when the device's stream came to it",
    "domain": "the domain that the marker was given",
    "dst_rank": "the receiving rank, numbered in its group",
    "duration_ns": "how long it took",
    "free_ns": "neither kernels nor communication",
    "group": "the communication group",
    "hf32": "whether the product may be computed in HF32",
    "id": "its number in this table, to which others refer",
    "input_dtypes": "types of the inputs, separated by semicolons",
    "input_formats": "memory formats of the inputs, separated by semicolons",
    "input_shapes": "shapes of the inputs, separated by semicolons",
    "instance": "which of several, such as a port",
    "kind": "see the table's first line",
    "level": "see the table's first line",
    "link": "the link that it went over",
    "message": "what the marker was given",
    "mix_block_num": "on how many cores of the other kind it ran",
    "name": "its name",
    "op_id": "the row of `communication`",
    "op_name": "the operator, as the framework names it",
    "op_state": "whether shapes were static or dynamic",
    "op_type": "the kind of operator, such as MatMulV3",
    "output_dtypes": "types of the outputs, separated by semicolons",
    "output_formats": "memory formats of the outputs, separated by semicolons",
    "output_shapes": "shapes of the outputs, separated by semicolons",
    "overlapped_ns": "communication that kernels hide",
    "parent_id": "the `id` of its caller",
    "plane_id": "the plane of the network",
    "preparing_ns": "before the first kernel or collective of the step",
    "released_ns": "when the block was released; absent: not in the run",
    "reserved_bytes": "what the component holds from the device",
    "sequence_number": "what joins an operator and its backward pass",
    "size_bytes": "how much",
    "source_row": "the row of the cause in its table",
    "source_table": "the table of the cause",
    "src_rank": "the sending rank, numbered in its group",
    "stack": "the Python stack, the innermost frame first",
    "stage_ns": "the step without waiting for other stages",
    "start_ns": "when it began",
    "step": "the step that it belongs to, as the training numbers it",
    "stream": "the stream that it was allocated for",
    "stream_id": "the stream",
    "target_row": "the row of the effect in its table",
    "target_table": "the table of the effect",
    "task_id": "with stream, batch and context, what identifies a task",
    "task_type": "what the device did, such as KERNEL_AICORE or MEMCPY_ASYNC",
    "thread_id": "the thread of the host",
    "time_ns": "when it was sampled",
    "transport": "HCCS, PCIE, RDMA, SDMA or LOCAL",
    "unit": "the unit of the value",
    "value": "the value",
    "wait_ns": "between the end of the kernel before it and its start",
}
"""What a column holds, by its name, which means the same in every table."""


def tables_page() -> str:
    """Return the reference of tables and columns in Markdown."""
    parts = []
    for table in tables.SCHEMA.values():
        rows = "".join(map(_row, table.columns))
        parts.append(
            f"## {table.name}\n\nA row is {table.row}.\n\n| column | unit | values | |\n|---|---|---|---|\n{rows}"
        )
    return _TABLES + "\n".join(parts)


def _row(column: Column) -> str:
    unit = next((unit for suffix, unit in _UNITS if column.name.endswith(suffix)), "")
    return f"| `{column.name}` | {unit} | {_KINDS[column.kind]} (`{column.dtype}`) | {MEANINGS[column.name]} |\n"


def errors_page() -> str:
    """Return the reference of errors in Markdown."""
    rows = "".join(
        f"| `{error.__name__}` | {', '.join(f'`{base.__name__}`' for base in error.__bases__)} | {_first(error)} |\n"
        for error in _classes()
    )
    statuses = re.search(r"return (0 .*)\.", main.__doc__ or "")
    assert statuses is not None
    return f"{_ERRORS}{rows}\nThe command `npuprof` returns {statuses[1]}.\n"


def _classes() -> Iterator[type[BaseException]]:
    found = (
        value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
    )
    for error in found:
        if issubclass(error, BaseException):
            yield error


def _first(error: type[BaseException]) -> str:
    return (error.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ").rstrip(".")


def vendors_page() -> str:
    """Return the page from the vendors' names to npuprof's: the written one with its tables of options made again."""
    written = (FOLDER / "vendors.md").read_text(encoding="utf-8")
    return re.sub(r"(?<=<!-- options of )(\w+)( -->\n).*?(?=<!-- end -->)", _options_of, written, flags=re.DOTALL)


def _options_of(found: re.Match[str]) -> str:
    if found[1] == "profiler_config":
        rows = _of_keys()
    elif found[1] == "MS_PROFILER_OPTIONS":
        rows = ((f"`{name}`", option) for name, option in SWITCHES.items())
    else:
        rows = ((_codes(names), option) for option, names in vendor_settings.set_by(found[1]))
    lines = (f"| {name} | `{option}` | {_values(found[1], option)} |\n" for name, option in rows)
    return f"{found[1]}{found[2]}\n| setting | option | its values |\n|---|---|---|\n{''.join(lines)}\n"


def _values(front_end: str, option: str) -> str:
    described = SPECIFICATION[option].values or "on or off"
    for word in SPECIFICATION[option].only:
        if front_end in FRONT_ENDS and not has_value(front_end, option, word):
            described = described.replace(f", {word}", "")
    return described


def _of_keys() -> Iterator[tuple[str, str]]:
    """Yield the keys of ``profiler_config.json`` that set an option, each option once."""
    names: dict[str, dict[str, None]] = {}
    for name, key in (*keys.TORCH_NPU.items(), *keys.TORCH_NPU_SPECIAL.items(), *keys.MINDSPORE.items()):
        if key.option:
            names.setdefault(key.option, {})[name] = None
    return ((_codes(found), option) for option, found in names.items())


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


PAGES = {"tables.md": tables_page, "errors.md": errors_page, "vendors.md": vendors_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
