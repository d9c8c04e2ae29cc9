"""The torch front: torch computes on the CPU, and each aten operator launches its kernels on the simulated NPU."""

from __future__ import annotations

import importlib
import threading
import warnings
from collections import Counter
from contextlib import ExitStack
from functools import cache
from types import TracebackType
from typing import Any

from npuprof.errors import FrontEndAbsentError, NpuprofWarning
from npuprof.lines import call_stacks
from npuprof.recordings.clock import Clock
from npuprof.simulator import npu
from npuprof.simulator.calls import user_stack
from npuprof.simulator.catalogue import READ_BACK
from npuprof.simulator.clock import emulated, pass_modelled_ns
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.device import Device
from npuprof.simulator.framework import OperatorCall
from npuprof.simulator.npu.streams import device_of, launch_stream
from npuprof.simulator.torch_front.lowering import NOTHING, READS_A_VALUE, Call, Lowered, lower
from npuprof.simulator.torch_front.records import Calls, Node, residence_of

# Attributes of torch outside its documented interface.
_NEEDED = ("_current_autograd_node", "_current_graph_task_id", "_dispatch_has_kernel_for_dispatch_key")


@cache
def load_torch() -> Any:
    """Import torch; raise a FrontEndAbsentError if it is absent, broken or too old."""
    try:
        torch: Any = importlib.import_module("torch")
        importlib.import_module("torch.utils._python_dispatch")
    except (ImportError, OSError, RuntimeError) as error:
        raise FrontEndAbsentError(
            f"torch cannot be imported ({error}): `pip install torch`, of which the build for CPUs is enough, or use "
            "npuprof.simulator.npu, which needs NumPy only"
        ) from error
    if lacking := [name for name in _NEEDED if not hasattr(torch._C, name)]:
        raise FrontEndAbsentError(
            f"torch {torch.__version__} lacks {', '.join(lacking)}, so that its backward pass cannot be followed: "
            "install a newer version (2.13 works)"
        )
    return torch


_NAMESPACE = "aten"
_OF_THE_HOST = frozenset({"profiler", "prim", "c10d_functional", "_c10d_functional", "c10d"})
_OPEN_RANGE, _CLOSE_RANGE = ("_record_function_enter_new", "_record_function_enter"), ("_record_function_exit",)
_DISPATCH_NS = 3_000  # modelled: torch's overhead per call, for clocks that do not measure it
_MOST_NAMED = 12
_MAX_NODE = 1 << 63


class Front:
    """Torch on one simulated device; made by :func:`npuprof.simulator.torch`.

    Attributes
    ----------
    launched
        Number of launched kernels by operator type.
    estimated
        Number of calls of operators outside the catalogue, by name (``aten::name``). Each call is one elementwise
        kernel with that name.
    """

    simulated = True

    def __init__(self, device: int = 0) -> None:
        self.launched: Counter[str] = Counter()
        self.estimated: Counter[str] = Counter()
        self._device_id = device
        self._device: Device = device_of(device)
        self._entered: list[ExitStack] = []
        self._reported: set[str] = set()

    def __enter__(self) -> Front:
        self._device = device_of(self._device_id)  # the machine may have been reconfigured meanwhile
        calls = Calls(self._device.host)
        with ExitStack() as undo:
            undo.callback(calls.close_node)
            undo.enter_context(_mode(self, calls))
            self._entered.append(undo.pop_all())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.pop().__exit__(kind, error, traceback)
        if new := {name: count for name, count in self.estimated.items() if name not in self._reported}:
            self._reported.update(new)
            names = ", ".join(f"{name} ({count})" for name, count in list(new.items())[:_MOST_NAMED])
            more = f" and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
            warnings.warn(
                f"the simulated NPU has no model of {names}{more}: each call is estimated as an elementwise kernel, "
                "so its time is approximate",
                NpuprofWarning,
                stacklevel=2,
            )

    @property
    def clock(self) -> Clock:
        """The clock of the machine."""
        return self._device.host.clock

    def synchronize(self) -> None:
        """Wait for all tasks of the device."""
        npu.synchronize(self._device_id)

    def run(self, calls: Calls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute a call on the CPU and launch it on the device."""
        begin_ns = self._begin()
        result = func(*args, **kwargs)
        self._inside(calls, begin_ns)
        operands, outputs = tuple(_leaves((*args, *kwargs.values()))), tuple(_leaves((result,)))
        if func.namespace not in _OF_THE_HOST and not func.is_view:
            self._launch(func, (*args, *kwargs.values()), operands, outputs)
        self._end(calls, func, begin_ns, operands)
        return result

    def run_composite(self, calls: Calls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], mode: Any) -> Any:
        """Call an operator that is composed of other operators, which are dispatched one by one."""
        begin_ns = self._begin()
        with mode:
            result = func.decompose(*args, **kwargs)
        self._end(calls, func, begin_ns, tuple(_leaves((*args, *kwargs.values()))))
        return result

    # -- the host --------------------------------------------------------------------------------------------------

    def _begin(self) -> int:
        clock = self._device.host.clock
        begin_ns = clock.monotonic_raw_ns()
        pass_modelled_ns(clock, _DISPATCH_NS)
        return begin_ns

    def _inside(self, calls: Calls, begin_ns: int) -> None:
        torch = load_torch()
        node = torch._C._current_autograd_node()
        current = None
        if node is not None:
            sequence = node._sequence_nr()
            current = Node(node.name(), sequence if sequence < _MAX_NODE else -1)
        calls.inside(current, torch._C._current_graph_task_id(), begin_ns)

    def _end(self, calls: Calls, func: Any, begin_ns: int, operands: tuple[Any, ...]) -> None:
        sequence = calls.sees(load_torch()._C._autograd._get_sequence_nr())
        if not self._device.host.takes_calls:
            return
        described = [_describe(operand) for operand in operands]
        calls.called(
            OperatorCall(
                func._schema.name,
                threading.get_native_id(),
                begin_ns,
                self._device.host.clock.monotonic_raw_ns(),
                sequence,
                0,
                ";".join(",".join(map(str, operand.shape)) for operand in described),
                ";".join(operand.dtype for operand in described),
                # In the backward pass it is that of the call that started it, which is no operator's.
                user_stack() if call_stacks.current is not None and not calls.in_backward else "",
            )
        )

    # -- the device ------------------------------------------------------------------------------------------------

    def _launch(self, func: Any, args: tuple[Any, ...], operands: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        # A custom operator keeps its namespace, so that it is not mistaken for aten's.
        full_name = func._schema.name
        raw_name = full_name.removeprefix(f"{_NAMESPACE}::").replace("::", "_")
        in_place = raw_name.endswith("_") and not raw_name.endswith("__")
        name = raw_name[:-1] if in_place else raw_name
        if name in READS_A_VALUE:
            self._read_back(operands)
            return
        if name in NOTHING or not self._takes_part(operands, outputs):
            return
        described = tuple(_described(value) for value in args)
        call = Call(name, func._overloadname, described, tuple(_describe(value) for value in outputs), in_place)
        lowered = lower(call)
        self._make_resident(operands, outputs)
        self._launch_all(full_name, lowered)
        if name in READ_BACK or _selects(name, operands):
            self._wait_for(8 * max(1, len(outputs)))

    def _takes_part(self, operands: tuple[Any, ...], outputs: tuple[Any, ...]) -> bool:
        """Return whether a call runs on the device; a call on host scalars only does not, as on a real NPU."""
        tensors = (*operands, *outputs)
        if not tensors or not all(_has_plain_storage(tensor) for tensor in tensors):
            return False
        residence = residence_of(self._device)
        return any(tensor.dim() or residence.holds(tensor.untyped_storage()) for tensor in tensors)

    def _make_resident(self, operands: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        residence = residence_of(self._device)
        made = {id(tensor.untyped_storage()) for tensor in outputs} - {
            id(tensor.untyped_storage()) for tensor in operands
        }
        for tensor in operands:
            storage = tensor.untyped_storage()
            # A host scalar is passed with the launch.
            if (tensor.dim() or residence.holds(storage)) and storage.nbytes() and residence.hold(storage):
                self._device.copy("host_to_device", storage.nbytes(), launch_stream(self._device))
        for tensor in outputs:
            storage = tensor.untyped_storage()
            if id(storage) in made and storage.nbytes():
                residence.hold(storage)

    def _launch_all(self, full_name: str, lowered: Lowered) -> None:
        stream = launch_stream(self._device)
        for launch in lowered.launches:
            launch.run(self._device, stream)
            self.launched[launch.kernel.op_type] += 1
        if not lowered.known:
            self.estimated[full_name] += 1

    def _read_back(self, operands: tuple[Any, ...]) -> None:
        residence = residence_of(self._device)
        if any(residence.holds(operand.untyped_storage()) for operand in operands):
            self._wait_for(max(operand.element_size() for operand in operands))

    def _wait_for(self, size_bytes: int) -> None:
        stream = launch_stream(self._device)
        self._device.copy("device_to_host", size_bytes, stream)
        self._device.synchronize(stream)


def _mode(front: Front, calls: Calls) -> Any:
    """Return a dispatch mode of torch; its class needs torch."""
    torch = load_torch()
    base: Any = torch.utils._python_dispatch.TorchDispatchMode
    calls.starts_at(torch._C._autograd._get_sequence_nr())

    class SimulatedNpu(base):  # type: ignore[misc]  # torch may be absent where types are checked
        """Receives every operator that torch dispatches in this thread."""

        @emulated(lambda *_: front.clock)
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            del types
            named = kwargs or {}
            short = func._schema.name.rpartition("::")[2]
            if short in _OPEN_RANGE:
                calls.open_range(str(args[0]) if args else "")
            elif short in _CLOSE_RANGE:
                calls.close_range()
            elif _is_composite(torch, func):
                return front.run_composite(calls, func, args, named, self)
            else:
                return front.run(calls, func, args, named)
            return func(*args, **named)

    return SimulatedNpu()


def _is_composite(torch: Any, func: Any) -> bool:
    """Return whether an operator has no kernel but is composed of others, as inference mode dispatches them."""
    if func.namespace != _NAMESPACE:
        return False
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(func._can_decompose() and torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


def _selects(name: str, operands: tuple[Any, ...]) -> bool:
    return name == "index" and any(str(operand.dtype) in ("torch.bool", "torch.uint8") for operand in operands[1:])


def _has_plain_storage(tensor: Any) -> bool:
    """Return whether a tensor is a plain CPU tensor."""
    torch = load_torch()
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return False
    try:
        tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # a tensor that wraps another one, for example of torch.func
        return False
    return True


def _leaves(values: tuple[Any, ...] | list[Any]) -> list[Any]:
    """Return the tensors among arguments or results, with those in lists, in order."""
    tensor = load_torch().Tensor
    tensors: list[Any] = []
    for value in values:
        if isinstance(value, tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += _leaves(value)
    return tensors


def _describe(tensor: Any) -> Tensor:
    return Tensor(tuple(int(length) for length in tensor.shape), str(tensor.dtype).rpartition(".")[2])


def _described(value: Any) -> Any:
    """Replace tensors by descriptions, and lists by tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(_described(item) for item in value)
    return _describe(value) if isinstance(value, load_torch().Tensor) else value
