"""Operations and bytes of kernels: from hardware counters, or else the least that their shapes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.kernel_flops import bytes_from_shapes, flops_range
from npuprof.analysis.launches import launches
from npuprof.arrays import Float64, Int64

COUNTED, FROM_SHAPES = "counted", "from shapes"
"""The origin of a figure: hardware counters, or shapes and data types."""

_KEYS = ("op_type", "core", "input_shapes", "input_dtypes", "input_formats", "output_shapes", "output_dtypes", "hf32")
_FLOPS = ("aic_cube_fops", "aiv_vector_fops")
_TRANSFERS = tuple(f"{core}_{way}_main_memory_kb" for core in ("aic", "aiv") for way in ("read", "write"))
_OWN_BLOCKS = {"aic": ("AI_CORE", "MIX_AIC", "AICORE", "AIC"), "aiv": ("AI_VECTOR_CORE", "MIX_AIV", "AIVECTOR", "AIV")}
_MOST_BLOCKS = {"aic": 25, "aiv": 50}  # with more blocks than cores, the time is of an unknown number of rounds


def kernel_work(
    kernels: pd.DataFrame, limit: int | None = None, framework_shapes: pd.Series[Any] | None = None
) -> pd.DataFrame:
    """Return the operations and bytes of kernels, with equal kernels in one row.

    Parameters
    ----------
    kernels
        The table ``kernels``. Kernels of the same type, core, shapes and data types become one row.
    framework_shapes
        The input shapes of the framework's operator that launched each kernel, where known: the kernel of a
        convolution only has padded shapes.

    Returns
    -------
    pandas.DataFrame
        ``op_type, core, input_shapes, input_dtypes`` and the other columns that are equal, ``launches``, ``total_ns``,
        and averaged over launches ``mean_ns``, ``flops``, ``bytes`` (NaN if unknown), with ``flops_from`` and
        ``bytes_from``, :data:`COUNTED` or :data:`FROM_SHAPES` or empty, ``flops_most`` where operations depend on more
        than shapes (a mask), and ``row``, the first of these kernels. Operations are counted in a run with
        ``aic_metrics=ArithmeticUtilization``, bytes with ``Memory`` or ``MemoryAccess``. From shapes, operations are
        those of the operator's definition, and bytes are all operands once: the least that a kernel needs.
    """
    return _kernel_work(kernels, limit, framework_shapes)[0]


def work_of_run(tables: Mapping[str, pd.DataFrame], limit: int | None = None) -> tuple[pd.DataFrame, Int64]:
    """Return the work of a run's kernels, see :func:`kernel_work`, and the row of the result for each kernel.

    Convolutions get the shapes of the framework's operator that launched them. Kernels whose row is left out because of
    `limit` have -1.
    """
    kernels, operators = tables["kernels"], tables["operators"]
    convolutions = kernels["op_type"].cat.categories.astype(str).str.contains("Conv", regex=False)
    if not len(operators) or not convolutions.any():
        return _kernel_work(kernels, limit, None)
    row = launches(tables)["op_row"].to_numpy(np.int64, na_value=-1)
    codes = np.append(operators["input_shapes"].cat.codes.to_numpy(), -1)[row]
    names = [str(name) for name in operators["input_shapes"].cat.categories]
    shapes = pd.Series(schema.categorical(codes, names))
    return _kernel_work(kernels, limit, shapes)


def _kernel_work(
    kernels: pd.DataFrame, limit: int | None, framework_shapes: pd.Series[Any] | None
) -> tuple[pd.DataFrame, Int64]:
    keys, alike = list(_KEYS), kernels
    if framework_shapes is not None:
        convolution = kernels["op_type"].astype(object).astype(str).str.contains("Conv", regex=False)
        alike = kernels[keys].assign(framework_shapes=framework_shapes.where(convolution.reset_index(drop=True)).array)
        keys.append("framework_shapes")
    codes = alike.groupby(keys, observed=True, dropna=False, sort=False).ngroup().to_numpy()
    groups = int(codes.max()) + 1 if len(codes) else 0
    total = np.zeros(groups, np.int64)
    np.add.at(total, codes, kernels["duration_ns"].to_numpy(np.int64))
    number = np.bincount(codes, minlength=groups)
    first = np.full(groups, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    kept = np.argsort(-total, kind="stable")[:limit]
    work: pd.DataFrame = alike.iloc[first[kept]][keys].reset_index(drop=True)
    alike_rows: list[Any] = work.to_dict("records")
    figures = [(*flops_range(row), bytes_from_shapes(row)) for row in alike_rows]
    least_flops, most_flops, sizes = np.array(figures, np.float64).reshape(-1, 3).T
    work["row"] = first[kept]
    work["launches"], work["total_ns"] = number[kept], total[kept]
    work["mean_ns"] = total[kept] / np.maximum(number[kept], 1)
    for name, measured, shaped in (
        ("flops", _sum_of(kernels, _FLOPS), least_flops),
        ("bytes", _counted_bytes(kernels), sizes),
    ):
        counted = _mean_of(measured, codes, groups)[kept]
        work[name] = np.where(counted > 0, counted, shaped)
        origin = np.where(np.isnan(shaped), "", FROM_SHAPES)
        work[f"{name}_from"] = np.where(counted > 0, COUNTED, origin)
    work["flops_most"] = np.where(work["flops_from"] == COUNTED, work["flops"], most_flops)
    place = np.full(groups, -1, np.int64)
    place[kept] = np.arange(len(kept))
    return work, place[codes]


def _counted_bytes(kernels: pd.DataFrame) -> Float64:
    """Return the bytes between cores and memory; 0 if they were not counted.

    Bandwidths are in units of 2**30 bytes per second per core; the time of a core is the total time of the blocks
    divided by their number. Source: raw/FORMAT.md section 9.
    """
    moved = 1_024.0 * _sum_of(kernels, _TRANSFERS)
    cores = kernels["core"].astype(str)
    for core, kinds in _OWN_BLOCKS.items():
        speed = _sum_of(kernels, [f"{core}_main_mem_{way}_bw_gb_s" for way in ("read", "write")])
        of_core = cores.isin(kinds).to_numpy(bool)
        blocks = np.where(of_core, _values(kernels, "block_num"), _values(kernels, "mix_block_num"))
        blocks[blocks > _MOST_BLOCKS[core]] = 0
        moved = moved + speed * 2**30 / 1e9 * _sum_of(kernels, [f"{core}_total_time_ns"]) * blocks
    return moved


def _sum_of(kernels: pd.DataFrame, columns: Sequence[str]) -> Float64:
    total = np.zeros(len(kernels), np.float64)
    for name in columns:
        if name in kernels:
            total += _values(kernels, name)
    return total


def _values(kernels: pd.DataFrame, column: str) -> Float64:
    values: Float64 = kernels[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, 0.0)


def _mean_of(values: Float64, codes: Int64, groups: int) -> Float64:
    """Average over the rows that have a value."""
    weight = np.bincount(codes, weights=values > 0, minlength=groups)
    return np.bincount(codes, weights=values, minlength=groups) / np.maximum(weight, 1)
