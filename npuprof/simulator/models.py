"""Models for ``acl.mdl``: a list of operators in a small JSON file.

A real offline model (``*.om``) is compiled vendor code, and is rejected.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from npuprof.simulator.cost_model import Core, Tensor
from npuprof.simulator.device import Device
from npuprof.simulator.device_view import Stream, Task

_FORMAT = "npuprof-simulated-model"
_MAX_BYTES = 16 << 20
_MAX_NODES = 100_000


@dataclass(frozen=True)
class Node:
    """An operator of a model; operands are in half precision."""

    name: str
    op_type: str
    core: Core = "AI_VECTOR_CORE"
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    flops: int = 0

    def launch(self, device: Device, stream: Stream) -> Task:
        """Launch the operator on a device."""
        return device.launch(
            self.op_type,
            core=self.core,
            inputs=[Tensor(shape, "float16") for shape in self.inputs],
            outputs=[Tensor(shape, "float16") for shape in self.outputs],
            flops=self.flops,
            name=self.name,
            api="aclmdlExecute",
            stream=stream,
        )


@dataclass(frozen=True)
class Model:
    """Operators in execution order."""

    nodes: tuple[Node, ...]


def write_model(path: str | PathLike[str], nodes: Sequence[Node]) -> Path:
    """Write a model for ``acl.mdl.load_from_file`` of the simulated NPU."""
    plain = {"format": _FORMAT, "version": 1, "nodes": [asdict(node) for node in nodes]}
    target = Path(path)
    target.write_text(json.dumps(plain), encoding="utf-8")
    return target


def perceptron(batch: int = 32, widths: Sequence[int] = (256, 512, 128)) -> tuple[Node, ...]:
    """Return the operators of a perceptron: a matrix product, an addition and an activation per layer."""
    nodes: list[Node] = []
    for layer, (inside, outside) in enumerate(itertools.pairwise(widths)):
        result = (batch, outside)
        flops = 2 * batch * inside * outside
        nodes += [
            Node(f"MatMul_{layer}", "MatMulV3", "AI_CORE", ((batch, inside), (inside, outside)), (result,), flops),
            Node(f"Add_{layer}", "Add", inputs=(result, (outside,)), outputs=(result,), flops=batch * outside),
            Node(f"Relu_{layer}", "Relu", inputs=(result,), outputs=(result,), flops=batch * outside),
        ]
    return tuple(nodes)


def parse_model(content: bytes) -> Model | None:
    """Parse the content of a model file; None for any other file."""
    if len(content) > _MAX_BYTES:
        return None
    try:
        plain = json.loads(content)
        if plain["format"] != _FORMAT or len(plain["nodes"]) > _MAX_NODES:
            return None
        return Model(tuple(_node(each) for each in plain["nodes"]))
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _node(plain: Mapping[str, Any]) -> Node:
    if plain["core"] not in ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV") or int(plain["flops"]) < 0:
        raise ValueError("no such operator can be launched")
    shapes = {key: tuple(tuple(int(axis) for axis in shape) for shape in plain[key]) for key in ("inputs", "outputs")}
    if any(not 0 <= axis <= 1 << 20 for each in shapes.values() for shape in each for axis in shape):
        raise ValueError("an operand of this size does not fit")
    return Node(
        str(plain["name"])[:256], str(plain["op_type"])[:64], plain["core"], flops=int(plain["flops"]), **shapes
    )
