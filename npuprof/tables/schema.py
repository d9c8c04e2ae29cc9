"""The columns of all tables: kind, meaning, and the names that the sources have for them.

This is the only place that defines a column. The page of tables, :func:`explain`, the tooltips of the explorer and the
readers take from it. A line of a table below is a column::

    block_num  int?  on how many cores it ran | csv Block Num, Block Dim | db blockNum, blockDim

A line that begins with a bar continues the one before. A name ends in its unit, if it has one. The kind is ``int``
(present in every row), ``int?``, ``float``, ``name`` (text that repeats thousands of times) or ``flag``. ``csv`` lists
the headers over the versions of the CSV files that fill the table, ``db`` the columns of its table in a database; the
first one that a file has is read.

Source: sources/RESULTS.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal, TypeAlias

from npuprof.errors import OptionsError
from npuprof.words.glossary import TERMS

Kind: TypeAlias = Literal["int", "int?", "float", "name", "flag"]

DTYPES: Mapping[Kind, str] = {
    "int": "int64",  # always present: times, durations, row numbers
    "int?": "Int64",  # may be absent: <NA>
    "float": "float64",  # may be absent: NaN
    "name": "category",  # values repeat thousands of times; may be absent: NaN
    "flag": "boolean",  # may be absent: <NA>
}
_KINDS: Mapping[str, Kind] = {kind: kind for kind in DTYPES}
_SOURCES = {"csv": "header in CSV files", "db": "column in databases"}
_WORDS: Mapping[Kind, str] = {
    "int": "whole number",
    "int?": "whole number",
    "float": "number",
    "name": "text",
    "flag": "yes or no",
}
_UNITS = (("_ns", "ns"), ("_bytes", "bytes"), ("_gb_s", "GB/s"))


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name
        Snake case, ending in the unit, if there is one.
    kind
        The kind of values, which determines the dtype.
    meaning
        What a value says, in words that follow the name of the column.
    names
        The names that sources have for it, by source (``csv``, ``db``).
    """

    name: str
    kind: Kind
    meaning: str
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def dtype(self) -> str:
        """The pandas dtype of the kind."""
        return DTYPES[self.kind]

    @property
    def unit(self) -> str:
        """The unit of a value; empty for a number without one, and for text."""
        return next((unit for suffix, unit in _UNITS if self.name.endswith(suffix)), "")

    @property
    def values(self) -> str:
        """The kind of values in words, such as ``whole number``."""
        return _WORDS[self.kind]

    @property
    def may_be_absent(self) -> bool:
        """Whether a row may lack a value."""
        return self.kind != "int"


@dataclass(frozen=True)
class Table:
    """The meaning of a row of a table, and its first columns in order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    def with_only(self, names: Collection[str]) -> Table:
        """Return the table with only the named columns; with all columns if no names are given."""
        return replace(self, columns=tuple(column for column in self.columns if column.name in names or not names))

    def meaning_of(self, name: str) -> str:
        """Return the meaning of a column; empty for one that a source has added."""
        return next((column.meaning for column in self.columns if column.name == name), "")

    def names_in(self, source: str) -> dict[str, tuple[str, ...]]:
        """Return the names that a source (``csv``, ``db``) has for the columns that it fills, by column."""
        return {column.name: column.names[source] for column in self.columns if source in column.names}


def _column(line: str) -> Column:
    described, *sources = (part.strip() for part in line.split(" | "))
    name, kind, meaning = described.split(maxsplit=2)
    names = (source.partition(" ") for source in sources)
    return Column(name, _KINDS[kind], meaning, {source: tuple(listed.split(", ")) for source, _, listed in names})


def _table(text: str) -> Table:
    """Return the table of a text: ``name: a row``, then its columns."""
    head, *lines = text.replace("\n|", " |").splitlines()
    name, _, row = head.partition(": ")
    return Table(name, row, tuple(map(_column, lines)))


_SPAN = """\
start_ns     int  when it began
duration_ns  int  how long it took"""
_SPAN_IN_DATABASES = """\
start_ns     int  when it began | db startNs
duration_ns  int  how long it took"""

_TABLES = (
    f"""\
steps: an iteration
step  int?  the step, as the training numbers it | db id
{_SPAN_IN_DATABASES}""",
    f"""\
python: a Python function call
{_SPAN}
name       name  its name
thread_id  int   the thread of the host
id         int   its number in this table, to which others refer
parent_id  int?  the `id` of its caller
depth      int   callers above it""",
    """\
sampled_lines: the line of the user's code that a thread ran when it was sampled
time_ns    int   when it was sampled
file       name  the file, or the cell, as `launches` names it
line       int   the line
function   name  the function that the line is in
thread_id  int   the thread of the host""",
    f"""\
statements: a statement of the profiled cell as it ran, until the next one began
{_SPAN}
file       name  the cell, as `launches` names it
line       int   its first line in the cell
last_line  int   its last line in the cell
thread_id  int   the thread of the cell
loop       int?  the line of the innermost loop around it
iteration  int?  of that loop, counted from 0 over the whole run""",
    f"""\
iterations: an iteration of a loop of the profiled cell
{_SPAN}
loop             int   the line of the loop in the cell
iteration        int   its number, counted from 0 over the whole run
outer_iteration  int?  the iteration of the loop around it""",
    f"""\
operators: a framework operator call (kind: op, enqueue or dequeue)
{_SPAN_IN_DATABASES}
name             name  its name | db name
thread_id        int   the thread of the host | db globalTid
kind             name  op, enqueue or dequeue | db type
input_shapes     name  shapes of the inputs, separated by semicolons | db inputShapes
input_dtypes     name  types of the inputs, separated by semicolons | db inputDtypes
stack            name  the Python stack, the innermost frame first | db callchainId
sequence_number  int?  what joins an operator and its backward pass | db sequenceNumber
id               int   its number in this table, to which others refer
step             int?  the step that it belongs to, as the training numbers it""",
    f"""\
api: a CANN call (level: acl, model, node, communication or runtime)
{_SPAN_IN_DATABASES}
name           name  its name | db name
level          name  acl, model, node, communication or runtime | db type
thread_id      int   the thread of the host | db globalTid
connection_id  int?  what joins a call and the tasks that it launched | db connectionId""",
    f"""\
tasks: a device task of any kind
{_SPAN_IN_DATABASES}
device_id      int   the device | db deviceId
stream_id      int?  the stream | db streamId
task_id        int?  with stream, batch and context, what identifies a task | db taskId
batch_id       int?  with stream, task and context, what identifies a task
context_id     int?  with stream, task and batch, what identifies a task | db contextId
task_type      name  what the device did, such as KERNEL_AICORE or MEMCPY_ASYNC | db taskType
name           name  its name | db name
connection_id  int?  what joins a call and the tasks that it launched | db connectionId""",
    """\
kernels: a compute kernel
start_ns       int   when it began | csv Start Time(us), Task Start Time(us), Task Start Time | db startNs
duration_ns    int   how long it took | csv Duration(us), Task Duration(us)
device_id      int   the device | csv Device_id | db deviceId
stream_id      int?  the stream | csv Stream ID | db streamId
task_id        int?  with stream, batch and context, what identifies a task | csv Task ID | db taskId
batch_id       int?  with stream, task and context, what identifies a task
context_id     int?  with stream, task and batch, what identifies a task | csv Context ID | db contextId
task_type      name  what the device did, such as KERNEL_AICORE or MEMCPY_ASYNC | db taskType
name           name  its name | csv Name, Op Name | db name
connection_id  int?  what joins a call and the tasks that it launched | db connectionId
op_name         name   the operator, as the framework names it | db name
op_type         name   the kind of operator, such as MatMulV3 | csv Type, OP Type | db opType
core            name   the kind of core: AI_CORE, AI_VECTOR_CORE, MIX_AIC, AI_CPU ...
| csv Accelerator Core, Task Type | db taskType
op_state        name   whether shapes were static or dynamic | csv OP State | db opState
block_num       int?   on how many cores it ran | csv Block Num, Block Dim | db blockNum, blockDim, block_num, block_dim
mix_block_num   int?   on how many cores of the other kind it ran | csv Mix Block Num, Mix Block Dim
| db mixBlockNum, mixBlockDim, mix_block_num, mix_block_dim
hf32            flag   whether the product may be computed in HF32 | csv HF32 Eligible | db hf32Eligible
input_shapes    name   shapes of the inputs, separated by semicolons | csv Input Shapes | db inputShapes
input_dtypes    name   types of the inputs, separated by semicolons | csv Input Data Types | db inputDataTypes
input_formats   name   memory formats of the inputs, separated by semicolons | csv Input Formats | db inputFormats
output_shapes   name   shapes of the outputs, separated by semicolons | csv Output Shapes | db outputShapes
output_dtypes   name   types of the outputs, separated by semicolons | csv Output Data Types | db outputDataTypes
output_formats  name   memory formats of the outputs, separated by semicolons | csv Output Formats | db outputFormats
attributes      name   attributes of the operator, such as strides=2 (option --op-attr) | csv Attr Info | db attrInfo
wait_ns         int?   between the end of the kernel before it and its start | csv Wait Time(us), Task Wait Time(us)
step            int?   the step that it belongs to, as the training numbers it | csv Step Id, Step ID""",
    f"""\
communication: a collective or point-to-point operator
{_SPAN_IN_DATABASES}
device_id      int   the device | db deviceId
name           name  its name | db opName
op_type        name  the kind of collective, such as allReduce | db opType
group          name  the communication group | db groupName
data_type      name  the type of the data | db dataType
algorithm      name  the algorithm of the collective, such as RING | db algType
count          int?  elements of the operator's data | db count
connection_id  int?  what joins a call and the tasks that it launched | db connectionId
step           int?  the step that it belongs to, as the training numbers it""",
    f"""\
communication_tasks: a step of a communication operator (op_id: row of `communication`; ranks are numbered in its group)
{_SPAN}
device_id       int    the device
op_id           int?   the row of `communication` | db opId
plane_id        int?   the plane of the network | db planeId
task_type       name   what the device did, such as Memcpy or Notify_Wait | db taskType
src_rank        int?   the sending rank, numbered in its group | db srcRank
dst_rank        int?   the receiving rank, numbered in its group | db dstRank
transport       name   HCCS, PCIE, RDMA, SDMA or LOCAL | db transportType
link            name   the link that it went over | db linkType
size_bytes      int?   how much it moved | db size
bandwidth_gb_s  float  bytes over time of the transfer""",
    """\
links: a cause and its effect (kind: operator_api, api_task, enqueue, forward_backward or mark)
kind          name  operator_api, api_task, enqueue, forward_backward or mark
source_table  name  the table of the cause
source_row    int   the row of the cause in its table
target_table  name  the table of the effect
target_row    int   the row of the effect in its table""",
    f"""\
overlap: an interval of device time (kind: computing, communication, communication_not_overlapped or free)
{_SPAN_IN_DATABASES}
device_id  int   the device | db deviceId
kind       name  computing, communication, communication_not_overlapped or free | db type""",
    """\
step_times: the vendor's breakdown of a step
step                             int?  the step, as the training numbers it | csv Step
device_id                        int?  the device | csv Device_id
computing_ns                     int?  kernels | csv Computing
communication_ns                 int?  communication | csv Communication
overlapped_ns                    int?  communication that kernels hide | csv Overlapped
communication_not_overlapped_ns  int?  communication that no kernel hides | csv Communication(Not Overlapped)
free_ns                          int?  neither kernels nor communication | csv Free
stage_ns                         int?  the step without waiting for other stages | csv Stage
bubble_ns                        int?  waiting for other stages of a pipeline | csv Bubble
preparing_ns                     int?  before the first kernel or collective of the step | csv Preparing""",
    """\
memory: an allocator or device memory sample
time_ns          int?  when it was sampled; absent in memory snapshots of older torch
| csv Timestamp(us), timestamp(us) | db timestamp
device_id        int?  the device | csv Device_id, Device Type, Device | db deviceId
component        name  the allocator (PTA, GE ...), APP, Device, or a module of the driver
| csv Component, event | db component
allocated_bytes  int?  what the component had handed out at that time
| csv Total Allocated(KB), Total Allocated(MB) | db totalAllocated
reserved_bytes   int?  what the component holds from the device
| csv Total Reserved(KB), Total Reserved(MB), memory(KB), memory(MB) | db totalReserved
active_bytes     int?  allocated and not yet released by the streams that use it
| csv Total Active(KB), Total Active(MB) | db totalActive""",
    """\
allocations: the life of an allocated block
name          name  the operator that asked for it | csv Name | db name
size_bytes    int   its size | csv Size(KB), Size(MB) | db size
allocated_ns  int?  when the block was allocated; absent: before the run | csv Allocation Time(us) | db allocationTime
released_ns   int?  when the block was released; absent: not in the run | csv Release Time(us) | db releaseTime
device_id     int?  the device | csv Device_id, Device Type, Device | db deviceId
stream        int?  the stream that it was allocated for | csv Stream Ptr | db streamPtr""",
    """\
counters: a sampled value
time_ns    int    when it was sampled
device_id  int?   the device
counter    name   what was sampled
instance   name   which of several, such as a port
value      float  the value
unit       name   the unit of the value""",
    f"""\
marks: a marker (duration 0) or a range
{_SPAN_IN_DATABASES}
message             name  what the marker was given | db message
domain              name  the domain that the marker was given | db domainId
thread_id           int   the thread of the host | db globalTid
device_start_ns     int?  when the device's stream came to it
device_duration_ns  int?  how long the range took on the device's stream
id                  int?  its number in this table, to which others refer""",
)

SCHEMA: Mapping[str, Table] = {table.name: table for table in map(_table, _TABLES)}
"""All tables of a profile by name."""


def explain(name: str) -> str:
    """Return what a column or table holds, or a word of reports means: ``npuprof.explain("kernels.block_num")``.

    Parameters
    ----------
    name
        ``table.column``, ``table``, or a word such as ``HCCS``.

    Returns
    -------
    str
        For a column: its meaning, unit, dtype, whether a row may lack it, and its names in the sources; for a table:
        what a row is, and a line for each column; for a word: its meaning.

    Raises
    ------
    OptionsError
        If there is no such table, column or word.
    """
    table_name, _, column_name = name.partition(".")
    table = SCHEMA.get(table_name)
    if table is None:
        words = {word.lower(): word for word in TERMS}
        if name.lower() in words:
            return f"{words[name.lower()]}: {TERMS[words[name.lower()]]}"
        near = get_close_matches(name.lower(), words, 3)
        alike = f" (did you mean {', '.join(words[word] for word in near)}?)" if near else ""
        raise OptionsError(f"there is no table or word {name!r}{alike}: tables are {', '.join(SCHEMA)}")
    if not column_name:
        width = max(len(column.name) for column in table.columns)
        lines = (f"  {column.name:{width}}  {column.meaning}" for column in table.columns)
        return "\n".join([f"{table.name}: a row is {table.row}", *lines])
    column = next((column for column in table.columns if column.name == column_name), None)
    if column is None:
        names = [column.name for column in table.columns]
        near = get_close_matches(column_name, names, 3) or names
        raise OptionsError(
            f"{table.name} has no column {column_name!r} that every run has: is it {', '.join(near)}? "
            "Counters of a chip, and columns that only one format has, are named as their source names them"
        )
    absent = "; may be absent" if column.may_be_absent else ""
    sources = (f"{_SOURCES[source]}: {', '.join(names)}" for source, names in column.names.items())
    return "\n".join([f"{name}: {column.meaning} ({column.unit or column.values}, {column.dtype}{absent})", *sources])
