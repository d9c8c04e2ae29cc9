"""``np.einsum`` as what a device makes of it: products, transpositions and sums of two operands at a time.

The value is NumPy's, from one call; the kernels are those of a contraction from left to right.
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npuprof.arrays import Records
from npuprof.simulator.npu.launches import cast, launch
from npuprof.simulator.npu.operands import Operands, delivered, target_of
from npuprof.simulator.npu.operators import kernel
from npuprof.simulator.npu.products import Extent, launch_product
from npuprof.simulator.npu.storage import DeviceArray, wrap
from npuprof.simulator.tensors import Tensor


class _Term(NamedTuple):
    """An operand: a letter for each axis."""

    labels: str
    tensor: Tensor


def einsum(like: DeviceArray, subscripts: Any, *inputs: Any, out: Any = None, **how: Any) -> Any:
    """Compute ``np.einsum`` with its subscripts in a string.

    Raises
    ------
    TypeError
        For the form with lists of axes instead of subscripts.
    """
    if not isinstance(subscripts, str):
        raise TypeError("np.einsum on the simulated NPU needs its subscripts as a string, such as 'ij,jk->ik'")
    operands = Operands(like._device_id)
    values = [np.asarray(operands.take_operand(value)) for value in inputs]
    if out is not None:
        how["out"] = target_of(out, like._device_id)
    result = np.asarray(np.einsum(subscripts, *values, **how))
    # A single operand can come back as a view, which belongs to its base.
    made = wrap(like, result, operands.arrays) if out is None else out
    operands.upload()
    _Contraction(like._device_id, subscripts, values, result.dtype).launch()
    return delivered(made, like._device_id)


class _Contraction:
    """The kernels of one call.

    Parameters
    ----------
    device_id
        Where they run.
    subscripts, values
        As NumPy has accepted them.
    dtype
        What they compute in.
    """

    def __init__(self, device_id: int, subscripts: str, values: Sequence[Records], dtype: np.dtype[Any]) -> None:
        self._device_id = device_id
        self._dtype = dtype.name
        labels, self._output = parse(subscripts, [value.ndim for value in values])
        self._lengths: dict[str, int] = {}
        for term, value in zip(labels, values, strict=True):
            for label, length in zip(term, value.shape, strict=True):
                self._lengths[label] = max(length, self._lengths.get(label, 0))
        self._terms = [_Term(term, cast(value, dtype, device_id)) for term, value in zip(labels, values, strict=True)]

    def launch(self) -> None:
        """Launch them."""
        first, *rest = self._terms
        for index, second in enumerate(rest):
            needed = self._output + "".join(term.labels for term in rest[index + 1 :])
            first = self._pair(
                self._single(first, second.labels + needed), self._single(second, first.labels + needed), needed
            )
        self._arrange(self._single(first, self._output), self._output)

    def _single(self, term: _Term, needed: str) -> _Term:
        """Take the diagonal of repeated axes, and sum along those that nothing else needs."""
        distinct = "".join(dict.fromkeys(term.labels))
        if distinct != term.labels:
            term = self._kernel("diagonal_copy", [term], distinct)
        kept = "".join(label for label in term.labels if label in needed)
        return term if kept == term.labels else self._kernel("sum", [term], kept)

    def _pair(self, first: _Term, second: _Term, needed: str) -> _Term:
        """Contract two operands; what they share and nothing else needs is summed."""
        shared = [label for label in first.labels if label in second.labels]
        k = "".join(label for label in shared if label not in needed)
        batch = "".join(label for label in shared if label in needed)
        m = "".join(label for label in first.labels if label not in shared)
        n = "".join(label for label in second.labels if label not in shared)
        if not k:
            return self._kernel("mul", [first, second], batch + m + n)
        first = self._arrange(first, batch + m + k, batch + k + m)
        second = self._arrange(second, batch + k + n, batch + n + k)
        extent = Extent(*(math.prod(self._shape(labels)) for labels in (batch, m, k, n)))
        launch_product(extent, (first.tensor, second.tensor), self._dtype, self._device_id)
        return _Term(batch + m + n, self._tensor(batch + m + n))

    def _arrange(self, term: _Term, *orders: str) -> _Term:
        """Bring the axes into the first of the orders, unless they are in one of them."""
        return term if term.labels in orders else self._kernel("permute", [term], orders[0])

    def _kernel(self, operator: str, inputs: Sequence[_Term], labels: str) -> _Term:
        result = self._tensor(labels)
        launch(kernel(operator), [term.tensor for term in inputs], [result], device_id=self._device_id)
        return _Term(labels, result)

    def _shape(self, labels: str) -> tuple[int, ...]:
        return tuple(self._lengths[label] for label in labels)

    def _tensor(self, labels: str) -> Tensor:
        return Tensor(self._shape(labels), self._dtype)


def parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Read subscripts that NumPy has accepted.

    Parameters
    ----------
    subscripts
        Such as ``'...ij,...jk->...ik'``; the output may be left out.
    ranks
        Number of axes of each operand.

    Returns
    -------
    list of str, str
        A letter for each axis of each operand, and of the output, with the axes of an ellipsis spelled out.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    spare = [letter for letter in string.ascii_letters if letter not in subscripts]
    hidden = [
        rank - len(term.replace("...", "")) if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)
    ]
    ellipsis = "".join(spare[: max(hidden)])
    terms = [term.replace("...", ellipsis[len(ellipsis) - count :]) for term, count in zip(terms, hidden, strict=True)]
    if arrow:
        return terms, output.replace("...", ellipsis)
    counts: Mapping[str, int] = {label: "".join(terms).count(label) for label in "".join(terms)}
    once = sorted(label for label, count in counts.items() if count == 1 and label not in ellipsis)
    return terms, ellipsis + "".join(once)
