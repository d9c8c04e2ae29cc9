"""``acl.prof``: collection, markers, subscriptions. Source: collectors/FRONTENDS.md section 3.2."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from npuprof.simulator import codes
from npuprof.simulator.acl.rt import resolve_stream
from npuprof.simulator.machine import current
from npuprof.simulator.models import Node
from npuprof.simulator.subscriptions import DESCRIPTION_BYTES, Described

__all__ = [
    "create_config",
    "create_stamp",
    "create_step_info",
    "create_subscribe_config",
    "destroy_config",
    "destroy_stamp",
    "destroy_step_info",
    "destroy_subscribe_config",
    "finalize",
    "get_model_id",
    "get_op_desc_size",
    "get_op_duration",
    "get_op_end",
    "get_op_name",
    "get_op_name_len",
    "get_op_num",
    "get_op_start",
    "get_op_type",
    "get_op_type_len",
    "get_step_timestamp",
    "init",
    "mark",
    "mark_ex",
    "model_subscribe",
    "model_un_subscribe",
    "model_unsubscribe",
    "pop",
    "push",
    "range_start",
    "range_stop",
    "set_config",
    "set_stamp_trace_message",
    "start",
    "stop",
    "warmup",
]


def init(path: str) -> int:
    """Set the directory that recordings go to."""
    return current().profiler.init(path)


def finalize() -> int:
    """End profiling."""
    return current().profiler.finalize()


def create_config(
    device_list: Sequence[int], aicore_metrics: int, aicore_events: int = 0, data_type_config: int = 0
) -> int:
    """Return the handle of a configuration, 0 for wrong devices; `aicore_events` is ignored, as in pyACL."""
    del aicore_events
    return current().profiler.create_config(device_list, aicore_metrics, data_type_config)


def destroy_config(config: int) -> int:
    """Destroy a configuration."""
    return current().profiler.destroy_config(config)


def set_config(config_type: int, config: str) -> int:
    """Set an option that the mask does not cover, such as 3 (memory sampling, in Hz)."""
    return current().profiler.set_config(config_type, config)


def warmup(config: int) -> int:
    """Prepare a start."""
    return current().profiler.warmup(config)


def start(config: int) -> int:
    """Start a recording."""
    return current().profiler.start(config)


def stop(config: int) -> int:
    """Stop the recording."""
    return current().profiler.stop(config)


# -- extension -------------------------------------------------------------------------------------------------


def create_stamp() -> int:
    """Return the handle of a stamp; 0 while no markers are recorded."""
    return current().marker.create_stamp()


def destroy_stamp(stamp: int) -> None:
    current().marker.destroy_stamp(stamp)


def set_stamp_trace_message(stamp: int, message: str, message_length: int | None = None) -> int:
    """Set the message of a stamp; `message_length` is ignored."""
    del message_length
    return current().marker.set_message(stamp, message)


def mark(stamp: int) -> int:
    """Set a marker."""
    return current().marker.mark(stamp)


def mark_ex(message: str, *length_and_stream: int) -> int:
    """Set a marker on the host and on a stream: ``mark_ex(message, stream)``, or with the length between them."""
    stream = length_and_stream[-1] if length_and_stream else 0
    resolved = resolve_stream(stream) if stream else None
    device, target = (None, None) if resolved is None else resolved
    return current().marker.mark_on_stream(message, device, target)


def push(stamp: int) -> int:
    """Begin a range of this thread."""
    return current().marker.push(stamp)


def pop(stamp: int = 0) -> int:
    """End the innermost range of this thread; `stamp` is ignored."""
    del stamp
    return current().marker.pop()


def range_start(stamp: int) -> tuple[int, int]:
    """Begin a range that any thread can end; return its id and a code."""
    return current().marker.range_start(stamp)


def range_stop(range_id: int) -> int:
    """End a range."""
    return current().marker.range_stop(range_id)


def create_step_info() -> int:
    """Return the handle of a step counter."""
    return current().marker.create_step_info()


def destroy_step_info(step_info: int) -> int:
    """Destroy a step counter."""
    return current().marker.destroy_step_info(step_info)


def get_step_timestamp(step_info: int, tag: int, stream: int) -> int:
    """Record the begin (0, or 60000) or the end (1, or 60001) of a step in a stream."""
    resolved = resolve_stream(stream)
    device, target = (None, None) if resolved is None else resolved
    return current().marker.step(step_info, tag, device, target)


# -- subscription ----------------------------------------------------------------------------------------------


def create_subscribe_config(time_info_switch: int, aicore_metrics: int, fd: int) -> int:
    """Return the handle of a subscription that writes into the pipe `fd`; 0 for a wrong argument."""
    return current().subscriptions.create_config(time_info_switch, aicore_metrics, fd)


def destroy_subscribe_config(config: int) -> int:
    """Destroy a configuration; its subscriptions continue."""
    return current().subscriptions.destroy_config(config)


def model_subscribe(model_id: int, config: int) -> int:
    """Describe the operators of each execution of a model."""
    return current().subscriptions.subscribe(model_id, config)


def model_unsubscribe(model_id: int) -> int:
    """End a subscription, after the descriptions of past executions are written."""
    return current().subscriptions.unsubscribe(model_id)


model_un_subscribe = model_unsubscribe


def get_op_desc_size() -> tuple[int, int]:
    """Return the size of an operator's description, and a code."""
    return DESCRIPTION_BYTES, codes.SUCCESS


def get_op_num(data: int, data_len: int) -> tuple[int, int]:
    """Return the number of descriptions in a buffer; code 100000 for a partial one."""
    if not data or data_len <= 0 or data_len % DESCRIPTION_BYTES:
        return 0, codes.INVALID_PARAM
    return data_len // DESCRIPTION_BYTES, codes.SUCCESS


def get_model_id(data: int, data_len: int, index: int) -> int:
    """Return the model of an operator; 0 without such a description."""
    described = _description(data, data_len, index)
    return 0 if described is None else described.model_id


def get_op_start(data: int, data_len: int, index: int) -> int:
    """Return the start of an operator, in ns of the host's monotonic clock."""
    described = _description(data, data_len, index)
    return 0 if described is None else described.start_ns


def get_op_end(data: int, data_len: int, index: int) -> int:
    """Return the end of an operator, in ns of the host's monotonic clock."""
    described = _description(data, data_len, index)
    return 0 if described is None else described.end_ns


def get_op_duration(data: int, data_len: int, index: int) -> int:
    """Return the duration of an operator in ns."""
    described = _description(data, data_len, index)
    return 0 if described is None else described.duration_ns


def get_op_type_len(data: int, data_len: int, index: int) -> tuple[int, int]:
    """Return the buffer length for :func:`get_op_type`, with the terminator."""
    node = _node(data, data_len, index)
    return (0, codes.INVALID_PARAM) if node is None else (len(node.op_type) + 1, codes.SUCCESS)


def get_op_name_len(data: int, data_len: int, index: int) -> tuple[int, int]:
    """Return the buffer length for :func:`get_op_name`, with the terminator."""
    node = _node(data, data_len, index)
    return (0, codes.INVALID_PARAM) if node is None else (len(node.name) + 1, codes.SUCCESS)


def get_op_type(data: int, data_len: int, index: int, op_type_len: int) -> tuple[str, int]:
    """Return an operator's type, if it fits into `op_type_len` with the terminator."""
    node = _node(data, data_len, index)
    return ("", codes.INVALID_PARAM) if node is None else _fitting(node.op_type, op_type_len)


def get_op_name(data: int, data_len: int, index: int, op_name_len: int) -> tuple[str, int]:
    """Return an operator's name, if it fits into `op_name_len` with the terminator."""
    node = _node(data, data_len, index)
    return ("", codes.INVALID_PARAM) if node is None else _fitting(node.name, op_name_len)


def _fitting(text: str, length: int) -> tuple[str, int]:
    return (text, codes.SUCCESS) if len(text) < length else ("", codes.INVALID_PARAM)


def _description(data: int, data_len: int, index: int) -> Described | None:
    if not data or data_len <= 0:
        return None
    return current().subscriptions.described(ctypes.string_at(data, data_len), index)


def _node(data: int, data_len: int, index: int) -> Node | None:
    described = _description(data, data_len, index)
    return None if described is None else current().subscriptions.node(described.node_index)
