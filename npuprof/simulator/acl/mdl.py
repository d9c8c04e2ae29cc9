"""``acl.mdl``: loads and executes models of the simulated NPU; the values of their operands are not computed."""

from __future__ import annotations

import itertools
from pathlib import Path

from npuprof.simulator import codes
from npuprof.simulator.acl.rt import resolve_stream
from npuprof.simulator.acl.util import ptr_to_bytes
from npuprof.simulator.machine import current, emulated
from npuprof.simulator.models import Model, parse_model

_MAX_BYTES = 16 << 20
_ids = itertools.count(1)


class Dataset:
    """The buffer handles of a model's operands."""

    def __init__(self) -> None:
        self.buffers: list[int] = []


def load_from_file(path: str) -> tuple[int, int]:
    """Load a model that :func:`npuprof.simulator.models.write_model` wrote; return its id and a code."""
    try:
        with Path(path).open("rb") as file:
            return _load(file.read(_MAX_BYTES + 1))
    except (OSError, ValueError):
        return 0, codes.INVALID_FILE


def load_from_mem(address: int, size: int) -> tuple[int, int]:
    """Load a model from memory."""
    return _load(ptr_to_bytes(address, size)) if address and 0 < size <= _MAX_BYTES else (0, codes.INVALID_PARAM)


def _load(content: bytes) -> tuple[int, int]:
    model = parse_model(content)
    if model is None:
        return 0, codes.INVALID_FILE
    model_id = next(_ids)
    current().models[model_id] = model
    return model_id, codes.SUCCESS


def unload(model_id: int) -> int:
    return codes.SUCCESS if current().models.pop(model_id, None) is not None else codes.INVALID_MODEL_ID


def create_dataset() -> int:
    """Return a handle for a model's operands."""
    return current().handles.add(Dataset())


def destroy_dataset(dataset: int) -> int:
    return codes.INVALID_PARAM if current().handles.remove(dataset, Dataset) is None else codes.SUCCESS


def add_dataset_buffer(dataset: int, buffer: int) -> tuple[int, int]:
    """Add an operand; return the dataset and a code."""
    target = current().handles.get(dataset, Dataset)
    if target is None:
        return 0, codes.INVALID_PARAM
    target.buffers.append(buffer)
    return dataset, codes.SUCCESS


def execute(model_id: int, inputs: int, outputs: int) -> int:
    """Execute a model on the calling thread's device and wait."""
    del inputs, outputs
    return _execute(model_id, 0, wait=True)


def execute_async(model_id: int, inputs: int, outputs: int, stream: int) -> int:
    del inputs, outputs
    return _execute(model_id, stream, wait=False)


@emulated
def _execute(model_id: int, stream: int, *, wait: bool) -> int:
    simulator = current()
    model: Model | None = simulator.models.get(model_id)
    if model is None:
        return codes.INVALID_MODEL_ID
    resolved = resolve_stream(stream)
    if resolved is None:
        return codes.RT_STREAM_CONTEXT if stream else codes.RT_CONTEXT_NULL
    device, target = resolved
    tasks = [node.launch(device, target) for node in model.nodes]
    if wait:
        device.synchronize(target)
    simulator.subscriptions.executed(model_id, model, tasks)
    return codes.SUCCESS
