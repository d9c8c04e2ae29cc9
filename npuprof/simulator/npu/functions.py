"""NumPy's functions and ufuncs on arrays of the simulated NPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.catalogue import CAST, Kernel, generic
from npuprof.simulator.cost_model import Tensor
from npuprof.simulator.npu import operators, products
from npuprof.simulator.npu.operands import (
    Operands,
    cast,
    delivered,
    launch,
    launch_on,
    read_back,
    run,
    target_of,
    unsupported,
    wrapped,
)
from npuprof.simulator.npu.operators import FUNCTIONS, Rule, kernel
from npuprof.simulator.npu.products import einsum
from npuprof.simulator.npu.streams import DeviceArray

_Inputs: TypeAlias = tuple[Any, ...]
_Options: TypeAlias = dict[str, Any]

_HOST_ARRAYS = (np.ndarray, np.memmap)  # a subclass may carry more than values: a mask, a unit
_HOST_TYPES = (np.generic, bool, int, float, complex, list, tuple)


def apply_ufunc(like: DeviceArray, ufunc: np.ufunc, method: str, inputs: _Inputs, options: _Options) -> Any:
    """Compute a ufunc or one of its methods, for ``__array_ufunc__``.

    Returns
    -------
    NpuArray, tuple of NpuArray or None
        The ufunc's result; ``NotImplemented`` for unknown types of operands.
    """
    out = options.get("out") or ()
    if not all(map(_is_known, inputs)) or not all(each is None or _is_known(each) for each in out):
        return NotImplemented
    if ufunc.signature is not None:
        return products.apply_generalised(like, ufunc, method, inputs, options)
    if (implementation := _METHODS.get(method)) is None:
        raise unsupported(f"np.{ufunc.__name__}.{method}")
    return implementation(like, ufunc, inputs, options)


def _is_known(value: Any) -> bool:
    return isinstance(value, (DeviceArray, *_HOST_TYPES)) or type(value) in _HOST_ARRAYS


def power_of_scalar(like: DeviceArray, exponent: float) -> DeviceArray:
    """Compute ``x ** exponent``; like NumPy, as a square or a root where possible."""
    values = np.asarray(like._values**exponent)
    made = like._make(values, like._device_id)
    kernel = operators.elementwise(np.square, scalar=False, in_place=False)
    if exponent != 2:
        kernel = operators.POWER_OF_SCALAR
    operand = cast(like._values, values.dtype, like._device_id)
    output = Tensor(values.shape, values.dtype.name)
    launch(kernel, [operand], [output], device_id=like._device_id)
    return made


# -- the methods ---------------------------------------------------------------------------------------------


def _call(like: DeviceArray, ufunc: np.ufunc, inputs: _Inputs, options: _Options) -> Any:
    operands = Operands(like._device_id)
    values = [operands.take_operand(value) for value in inputs]
    mask = operands.take_operand(options.pop("where", True))
    out = options.pop("out", ())
    targets = tuple(None if each is None else target_of(each, like._device_id) for each in out)
    result = ufunc(*values, **options, where=mask, **({"out": targets} if targets else {}))
    outputs = [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]
    made = [
        like._make(each, like._device_id) if target is None else target
        for each, target in zip(outputs, out or (None,) * len(outputs), strict=True)
    ]
    operands.upload()
    kernel = operators.elementwise(
        ufunc,
        scalar=len(values) > 1 and not isinstance(values[-1], np.ndarray),
        in_place=len(out) == 1 and out[0] is inputs[0],
    )
    is_written = any(target is not None for target in targets)
    dtype = _computed_in(values, outputs, options, is_written)
    _launch(kernel, values, outputs, dtype, like._device_id, written=is_written)
    if isinstance(mask, np.ndarray):
        launch_on(operators.kernel("where"), [mask, *outputs], outputs, like._device_id)
    results = tuple(delivered(each, like._device_id) for each in made)
    return results if isinstance(result, tuple) else results[0]


def _computed_in(
    values: list[Any], outputs: list[Records], options: Mapping[str, Any], is_written: bool
) -> np.dtype[Any]:
    """Return the data type of the computation, which may differ from the result's and from ``out``."""
    dtype: np.dtype[Any]
    if options.get("dtype") is not None:
        dtype = np.dtype(options["dtype"])
    else:
        dtype = np.result_type(*values) if is_written or outputs[0].dtype == np.bool_ else outputs[0].dtype
    return dtype


def _launch(
    kernel: Kernel, values: list[Any], outputs: list[Records], dtype: np.dtype[Any], device_id: int, *, written: bool
) -> None:
    """Launch an elementwise operator, after the casts of its operands and before the cast into ``out``."""
    inputs = [
        cast(value, dtype, device_id) if isinstance(value, np.ndarray) else Tensor((), dtype.name) for value in values
    ]
    results = [
        Tensor(output.shape, (dtype if written and output.dtype != np.bool_ else output.dtype).name)
        for output in outputs
    ]
    elements = max(output.size for output in outputs)
    launch(kernel, inputs, results, device_id=device_id, flops=kernel.operations * elements)
    for output, result in zip(outputs, results, strict=True):
        if output.dtype.name != result.dtype:
            final = Tensor(output.shape, output.dtype.name)
            launch(CAST, [result], [final], device_id=device_id)


def _reduce(like: DeviceArray, ufunc: np.ufunc, inputs: _Inputs, options: _Options) -> Any:
    kernel = operators.REDUCE.get(ufunc) or generic(f"reduce_{ufunc.__name__}")
    return run(Rule(kernel, promotes=True), like, ufunc.reduce, inputs, options)


def _accumulate(like: DeviceArray, ufunc: np.ufunc, inputs: _Inputs, options: _Options) -> Any:
    kernel = operators.ACCUMULATE.get(ufunc) or generic(f"cumulative_{ufunc.__name__}")
    return run(Rule(kernel, promotes=True), like, ufunc.accumulate, inputs, options)


def _outer(like: DeviceArray, ufunc: np.ufunc, inputs: _Inputs, options: _Options) -> Any:
    kernel = operators.elementwise(ufunc, scalar=False, in_place=False)
    return run(Rule(kernel, promotes=ufunc in _PROMOTING_OUTER), like, ufunc.outer, inputs, options)


def _at(like: DeviceArray, ufunc: np.ufunc, inputs: _Inputs, options: _Options) -> None:
    kernel = operators.SCATTER.get(ufunc)
    target = inputs[0]
    if kernel is None or not isinstance(target, DeviceArray):
        raise unsupported(f"np.{ufunc.__name__}.at")
    operands = Operands(like._device_id)
    values, index, *remaining = (operands.take_operand(value) for value in inputs)
    ufunc.at(values, index, *remaining, **options)
    operands.upload()
    # The operator touches the updated part, not the whole target.
    updates = [value for value in (index, *remaining) if isinstance(value, np.ndarray)]
    launch_on(kernel, updates, [np.asarray(values[index])], like._device_id)


_PROMOTING_OUTER = frozenset({np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.minimum})

_METHODS: Mapping[str, Callable[[DeviceArray, np.ufunc, _Inputs, _Options], Any]] = {
    "__call__": _call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "at": _at,
}


_COUNT = kernel("count_nonzero")
_BOOL_BYTES = 1
_COUNT_BYTES = 8


def apply_function(
    like: DeviceArray,
    function: Callable[..., Any],
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Compute a NumPy function, for ``__array_function__``.

    Returns
    -------
    object
        NumPy's result, with arrays of the device; ``NotImplemented`` for unknown types.
    """
    if not all(kind is np.ndarray or kind is np.memmap or issubclass(kind, DeviceArray) for kind in types):
        return NotImplemented
    if (handler := _HANDLERS.get(function)) is not None:
        return handler(like, *args, **kwargs)
    if (rule := FUNCTIONS.get(function)) is not None:
        return run(rule, like, function, args, kwargs)
    operands = Operands(like._device_id)
    if function in operators.DESCRIPTIONS or function in operators.VIEWS:
        arguments = [operands.take(value) for value in args]
        result = function(*arguments, **{name: operands.take(value) for name, value in kwargs.items()})
        return result if function in operators.DESCRIPTIONS else _view(like, result, operands)
    raise unsupported(_name(function))


def _view(like: DeviceArray, result: Any, operands: Operands) -> Any:
    """Return views as views; launch a copy for any other result."""
    for each in result if isinstance(result, (list, tuple)) else [result]:
        if not any(np.may_share_memory(each, values) for values in operands.values):
            operands.upload()
            launch_on(kernel("copy"), operands.values, [np.asarray(each)], like._device_id)
    return wrapped(like, result, operands)


def _name(function: Callable[..., Any]) -> str:
    """Return a function's name as users write it."""
    module = function.__module__.replace("numpy", "np", 1).replace(".lib.", ".").split("._")[0]
    return f"{module}.{function.__name__}"


def _where(like: DeviceArray, condition: Any, *choices: Any) -> Any:
    if not choices:
        return np.nonzero(condition)
    return run(Rule(kernel("where")), like, np.where, (condition, *choices), {})


def _empty_like(like: DeviceArray, prototype: Any, **how: Any) -> Any:
    return like._make(np.empty_like(Operands(like._device_id).take(prototype), **how), like._device_id)


def _copyto(like: DeviceArray, dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    operands = Operands(like._device_id)
    target, source, mask = target_of(dst, like._device_id), operands.take_operand(src), operands.take(where)
    np.copyto(target, source, casting=casting, where=mask)
    if isinstance(dst, DeviceArray):
        operands.upload()
        launch_on(kernel("copy" if operands.values else "full"), operands.values, [target], like._device_id)
    else:
        read_back(target.nbytes, like._device_id)


def _comparison(function: Callable[..., bool], first: str) -> Callable[..., bool]:
    """Return the handler of a comparison of whole arrays; the host waits for the result."""
    comparison = generic(first)

    def compare(like: DeviceArray, a: Any, b: Any, *args: Any, **kwargs: Any) -> bool:
        """Launch the comparison and its reduction, and read the result."""
        operands = Operands(like._device_id)
        left, right = operands.take_operand(a), operands.take_operand(b)
        answer = function(left, right, *args, **kwargs)
        operands.upload()
        if np.shape(left) == np.shape(right) or function is np.allclose:
            equal = np.empty(np.broadcast_shapes(np.shape(left), np.shape(right)), np.bool_)
            launch_on(comparison, operands.values, [equal], like._device_id)
            launch_on(kernel("all"), [equal], [np.empty((), np.bool_)], like._device_id)
            read_back(_BOOL_BYTES, like._device_id)
        return bool(answer)

    return compare


def _count_nonzero(like: DeviceArray, a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if axis is not None or keepdims:
        return run(Rule(_COUNT), like, np.count_nonzero, (a,), {"axis": axis, "keepdims": keepdims})
    operands = Operands(like._device_id)
    count = int(np.count_nonzero(operands.take(a)))
    launch_on(_COUNT, operands.values, [np.empty((), np.int64)], like._device_id)
    read_back(_COUNT_BYTES, like._device_id)
    return count


def _linalg(names: Iterable[str], handler: Callable[..., Any]) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return the handlers of functions that newer NumPy repeats in ``np.linalg``."""
    return {getattr(np.linalg, name): handler for name in names if hasattr(np.linalg, name)}


def _matmul(_: DeviceArray, x1: Any, x2: Any) -> Any:
    return np.matmul(x1, x2)


_HANDLERS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    **_linalg(["matmul"], _matmul),
    **_linalg(["tensordot"], products.tensordot),
    np.dot: products.dot,
    np.inner: products.inner,
    np.vdot: products.vdot,
    np.tensordot: products.tensordot,
    np.einsum: einsum,
    np.where: _where,
    np.empty_like: _empty_like,
    np.copyto: _copyto,
    np.allclose: _comparison(np.allclose, "IsClose"),
    np.array_equal: _comparison(np.array_equal, "Equal"),
    np.count_nonzero: _count_nonzero,
}
