"""The tables from the vendors' interfaces to npuprof: no name is missing, and every counterpart is there."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError

import npuprof
from npuprof import cli, tables
from npuprof.dynamic import monitor as ranks
from npuprof.machine import environment
from npuprof.notebook import magics
from npuprof.notebook.arguments import typed_options
from npuprof.notebook.magics import NpuprofMagics
from npuprof.options import Options
from npuprof.profiles.profile import Profile
from npuprof.recordings import recording
from npuprof.session.session import Session

_PAGE = Path(__file__).parents[1] / "notebooks" / "reference" / "vendors.md"

_METRICS = "AiCoreNone PipeUtilization ArithmeticUtilization Memory MemoryL0 MemoryUB ResourceConflictRatio L2Cache"

# Every class, method, parameter, environment variable and key of the vendors' pages, by the page's section.
# Source: the vendors' pages, collectors/FRONTENDS.md section 7.
_NAMES = {
    "torch_npu.profiler": f"""
        profile _KinetoProfile with start stop step activities ProfilerActivity.CPU ProfilerActivity.NPU use_cuda
        schedule wait active warmup repeat skip_first ProfilerAction.NONE WARMUP RECORD RECORD_AND_SAVE
        on_trace_ready tensorboard_trace_handler dir_name worker_name analyse_flag ASCEND_WORK_PATH
        record_shapes profile_memory with_stack with_modules with_flops experimental_config _ExperimentalConfig
        profiler_level ProfilerLevel Level_none Level0 Level1 Level2 aic_metrics AiCMetrics {_METRICS}
        l2_cache op_attr record_op_args msprof_tx mstx data_simplification export_type ExportType.Text Db
        add_metadata add_metadata_json key value profiler_metadata.json export_chrome_trace export_stacks path metric
        self_cpu_time_total self_npu_time_total flamegraph.pl supported_activities supported_profiler_level
        supported_ai_core_metrics supported_export_type dynamic_profile.init profiler_config_path profiler_config.json
        torch_npu.npu.mstx mark message
    """,
    "mindspore.profiler": f"""
        Profiler with start stop step start_profile activities ProfilerActivity.CPU ProfilerActivity.NPU
        ProfilerActivity.GPU profiler_level ProfilerLevel Level0 Level1 Level2 aicore_metrics AicoreMetrics {_METRICS}
        with_stack profile_memory hbm_ddr data_process parallel_strategy sync_enable l2_cache pcie data_simplification
        output_path schedule ProfilerAction on_trace_ready tensor_board_trace_handler analyse offline_path pretty
        step_list mode Profiler.offline_analyse path profiler_metadata.json StopAtStep start_step stop_step StopAtEpoch
        start_epoch stop_epoch DynamicProfilerMonitor cfg_path profiler_config.json _build_profile_cb ProfileMonitor
        MS_PROFILER_OPTIONS get_rank RANK_ID
    """,
    "TensorFlow": """
        npu_bridge.profiler.profiler.Profiler NPURunConfig profiling_config ProfilingConfig enable_profiling
        profiling_options sess.run NpuOptimizer use_off_line profiling_mode remapping npu_device.global_options
        npu_device.open().as_default PROFILING_OPTIONS output training_trace task_trace fp_point bp_point aic_metrics
        task_time runtime_api hccl aicpu l2 msproftx sys_hardware_mem_freq llc_profiling sys_io_sampling_freq
        sys_interconnection_freq dvpp_freq host_sys host_sys_usage host_sys_usage_freq msprof
    """,
    "pyACL": """
        acl.init acl.prof.init create_config device_list start stop destroy_config finalize set_config
        ACL_PROF_ACL_API ACL_PROF_TASK_TIME ACL_PROF_AICORE_METRICS ACL_PROF_AICPU ACL_PROF_AICPU_TRACE
        ACL_PROF_HCCL_TRACE ACL_PROF_L2CACHE ACL_PROF_MSPROFTX ACL_PROF_SYS_HARDWARE_MEM_FREQ
        ACL_AICORE_ARITHMETIC_UTILIZATION ACL_AICORE_NONE create_stamp set_stamp_trace_message mark mark_ex push pop
        range_start range_stop destroy_stamp create_subscribe_config model_subscribe model_unsubscribe
        destroy_subscribe_config get_op_desc_size get_op_num get_op_type get_op_name get_op_start get_op_end
        get_op_duration get_model_id acl.util.start_thread stop_thread bytes_to_ptr acl.rt.set_context
    """,
    "Dynamic profiling": """
        dynamic_profile.init step activities prof_dir analyse record_shapes profile_memory with_stack with_flops
        with_modules active experimental_config profiler_level aic_metrics l2_cache op_attr data_simplification
        record_op_args export_type msprof_tx start_step stop_step aicore_metrics profile_framework analyse_mode
        profile_communication parallel_strategy
    """,
    "From the environment": """
        MS_PROFILER_OPTIONS start output_path op_time profile_memory profile_communication aicore_metrics l2_cache
        timeline_limit data_process parallel_strategy profile_framework
    """,
}

# What a counterpart may be called besides: not npuprof's own, but that of the code around it.
_FOREIGN = ("tf.Session", "flamegraph.pl", "with", "Model", "use_cuda", "PROF_*", "PROFILING_MODE=dynamic", "cpu")
_FILES = (recording.METADATA_FILE_NAME, "log/npuprof_rank<r>_<pid>.log", "rank<r>_start<first>_stop<last>")


def _sections() -> dict[str, list[tuple[str, str]]]:
    """The rows of the tables, by the first words of the heading above them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in _PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        drawn = re.findall(r"(?:^\|.*\n)+", body, re.MULTILINE)
        rows = [line.strip("| ").split(" | ") for table in drawn for line in table.splitlines()[2:]]
        found[heading.partition(" (")[0]] = [(row[0], row[1]) for row in rows]
    return found


_SECTIONS = _sections()
_COUNTERPARTS = sorted(
    {
        (section, code)
        for section, rows in _SECTIONS.items()
        for _, cell in rows
        for code in re.findall("`([^`]+)`", cell)
    }
)


@pytest.mark.parametrize("section", _NAMES)
def test_every_name_of_the_vendors_pages_is_in_a_table(section: str) -> None:
    named = " ".join(code for left, _ in _SECTIONS[section] for code in re.findall("`([^`]+)`", left))
    missing = [name for name in _NAMES[section].split() if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", named)]
    assert missing == []


@pytest.mark.parametrize("section", _NAMES)
def test_every_row_has_a_counterpart_or_says_why_there_is_none(section: str) -> None:
    assert len(_SECTIONS[section]) >= 5
    for left, right in _SECTIONS[section]:
        said = re.match("nothing|no effect|refused|the same|whether|(the )?options|a directory", right) or "`" in right
        assert said, left


@pytest.mark.parametrize(("section", "code"), _COUNTERPARTS)
def test_every_counterpart_is_there(section: str, code: str) -> None:
    for resolve in (_is_given, _is_magic, _is_flag, _is_command, _is_option, _is_expression):
        if resolve(code):
            return
    pytest.fail(f"{section}: nothing is called {code}")


@pytest.mark.parametrize(
    "code",
    ["npuprof.no_such", "npuprof.load(no_such=1)", "prof.no_such()", "%%npuprof --no-such", "--no-such", "no_such",
     "no_such=1", 'aic_metrics="NoSuch"', "%npuprof no_such", "npuprof no_such", "npuprof.mark(a, b, c, d)"],
)  # fmt: skip
def test_what_is_not_there_would_be_found_out(code: str) -> None:
    with pytest.raises(pytest.fail.Exception, match="nothing is called"):
        test_every_counterpart_is_there("section", code)


def _is_given(code: str) -> bool:
    return code in _FOREIGN or code in _FILES or code in environment.ASKING or code in ranks.VARIABLES


def _is_magic(code: str) -> bool:
    kind, _, line = code.partition("npuprof")
    if kind == "%%":
        return _parses(typed_options, line)
    return kind == "%" and line.split()[0] in magics._COMMANDS and callable(NpuprofMagics.npuprof_line)


def _is_flag(code: str) -> bool:
    return code.startswith("--") and _parses(typed_options, code)


def _is_command(code: str) -> bool:
    words = code.split()
    if words[0] != "npuprof" or len(words) < 2:
        return False
    try:
        cli._parser().parse_args(words[1:])
    except SystemExit:
        return False
    return True


def _parses(parse: Callable[[str], dict[str, Any]], line: str) -> bool:
    try:
        Options.from_dict(parse(line))
    except (UsageError, npuprof.NpuprofError):
        return False
    return True


def _is_option(code: str) -> bool:
    """Return whether it is an option's name, some of them with values that are allowed, or a key of the file's own."""
    if code == '"npuprof": {...}':
        return True
    if re.fullmatch(r"\w+", code):
        return code in Options.__dataclass_fields__
    try:
        call = ast.parse(f"Options({code})", mode="eval").body
    except SyntaxError:
        return False
    if not isinstance(call, ast.Call) or call.args or not call.keywords:
        return False
    try:
        Options(**{str(word.arg): ast.literal_eval(word.value) for word in call.keywords})
    except (npuprof.NpuprofError, TypeError, ValueError):
        return False
    return True


def _is_expression(code: str) -> bool:
    """Return whether each name below ``npuprof``, ``prof`` or ``run`` exists, and each call fits its signature."""
    try:
        statement = ast.parse(code).body[0]
    except SyntaxError:
        return False
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return False
    chains = list(_chains(statement))
    return bool(chains) and all(_fits(names, call) for names, call in chains)


def _chains(node: ast.AST, call: ast.Call | None = None) -> Iterator[tuple[list[str], ast.Call | None]]:
    """Return each dotted name of an expression, with the call that it makes."""
    if isinstance(node, ast.Call):
        yield from _chains(node.func, node)
        for part in (*node.args, *(word.value for word in node.keywords)):
            yield from _chains(part)
    elif isinstance(node, ast.Attribute):
        names, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            names.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield [inner.id, *names], call
        else:
            yield from _chains(inner)
    elif not isinstance(node, ast.Name):
        for child in ast.iter_child_nodes(node):
            yield from _chains(child)


def _fits(names: list[str], call: ast.Call | None) -> bool:
    if ".".join(names) in _FOREIGN:
        return True
    roots: dict[str, Any] = {"npuprof": npuprof, "prof": Session, "run": Profile}
    found = roots.get(names[0])
    for place, name in enumerate(names[1:], 1):
        if found is Profile and name in tables.NAMES:  # what can be done with a DataFrame is pandas'
            return place < len(names)
        found = getattr(found, name, None)
    if found is None or call is None:
        return found is not None
    return _takes(found, call, of_object=names[0] != "npuprof")


def _takes(called: Any, call: ast.Call, *, of_object: bool) -> bool:
    if any(isinstance(argument, ast.Constant) and argument.value is ... for argument in call.args):
        return callable(called)
    words = [str(word.arg) for word in call.keywords]
    if called is npuprof.profile:
        known = {*inspect.signature(called).parameters, *Options.__dataclass_fields__} - {"options"}
        return not call.args and set(words) <= known
    given = [None] * (len(call.args) + of_object)
    try:
        inspect.signature(called).bind(*given, **dict.fromkeys(words))
    except TypeError:
        return False
    return True
