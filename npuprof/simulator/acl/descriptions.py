"""The getters of ``acl.prof`` that read operator descriptions out of memory; values come first, the code last."""

from __future__ import annotations

import ctypes

from npuprof.simulator import codes
from npuprof.simulator.machine import current
from npuprof.simulator.models import Node
from npuprof.simulator.subscriptions import DESCRIPTION_BYTES, Described


def get_op_desc_size() -> tuple[int, int]:
    """Return the size of an operator's description, and the return code."""
    return DESCRIPTION_BYTES, codes.SUCCESS


def get_op_num(data: int, data_len: int) -> tuple[int, int]:
    """Return the number of descriptions in some memory; 100000 if it does not hold whole ones."""
    if not data or data_len <= 0 or data_len % DESCRIPTION_BYTES:
        return 0, codes.INVALID_PARAM
    return data_len // DESCRIPTION_BYTES, codes.SUCCESS


def get_model_id(data: int, data_len: int, index: int) -> int:
    """Return the model that an operator is of; 0 when there is no such description."""
    found = _described(data, data_len, index)
    return 0 if found is None else found.model_id


def get_op_start(data: int, data_len: int, index: int) -> int:
    """Return when an operator began, in ns of the host's monotonic clock."""
    found = _described(data, data_len, index)
    return 0 if found is None else found.start_ns


def get_op_end(data: int, data_len: int, index: int) -> int:
    """Return when an operator ended, in ns of the host's monotonic clock."""
    found = _described(data, data_len, index)
    return 0 if found is None else found.end_ns


def get_op_duration(data: int, data_len: int, index: int) -> int:
    """Return how long an operator ran, in ns."""
    found = _described(data, data_len, index)
    return 0 if found is None else found.duration_ns


def get_op_type_len(data: int, data_len: int, index: int) -> tuple[int, int]:
    """Return the length that :func:`get_op_type` needs, its end mark counted."""
    node = _node(data, data_len, index)
    return (0, codes.INVALID_PARAM) if node is None else (len(node.op_type) + 1, codes.SUCCESS)


def get_op_name_len(data: int, data_len: int, index: int) -> tuple[int, int]:
    """Return the length that :func:`get_op_name` needs, its end mark counted."""
    node = _node(data, data_len, index)
    return (0, codes.INVALID_PARAM) if node is None else (len(node.name) + 1, codes.SUCCESS)


def get_op_type(data: int, data_len: int, index: int, op_type_len: int) -> tuple[str, int]:
    """Return an operator's type, which fits into `op_type_len` with its end mark."""
    node = _node(data, data_len, index)
    return ("", codes.INVALID_PARAM) if node is None else _fitting(node.op_type, op_type_len)


def get_op_name(data: int, data_len: int, index: int, op_name_len: int) -> tuple[str, int]:
    """Return an operator's name, which fits into `op_name_len` with its end mark."""
    node = _node(data, data_len, index)
    return ("", codes.INVALID_PARAM) if node is None else _fitting(node.name, op_name_len)


def _fitting(text: str, length: int) -> tuple[str, int]:
    return (text, codes.SUCCESS) if len(text) < length else ("", codes.INVALID_PARAM)


def _described(data: int, data_len: int, index: int) -> Described | None:
    if not data or data_len <= 0:
        return None
    return current().subscriptions.described(ctypes.string_at(data, data_len), index)


def _node(data: int, data_len: int, index: int) -> Node | None:
    found = _described(data, data_len, index)
    return None if found is None else current().subscriptions.node(found.node_index)
