"""The efficiency of kernels against the chip's limits: operations, bytes, achieved rates, and the roof."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from npuprof import tables as schema
from npuprof.analysis.chip_limits import ChipLimits, measured_limits, or_count
from npuprof.analysis.device_words import runtime_of
from npuprof.analysis.kernel_flops import is_of_cube
from npuprof.analysis.kernel_work import work_of_run
from npuprof.arrays import Bools, Float64, Int64
from npuprof.errors import OptionsError

_TOO_GOOD = 1.1
_NOTES = (
    "",
    "faster than HBM: its operands fit in L2",
    "shape or peak is wrong",
    "up to flops_most, unless the mask is causal",
    "at the roof: above 1 by as much as its figures are off",
)
_RESOURCES = ("", "cube", "vector", "memory")
_UNKNOWN, _CUBE, _VECTOR, _MEMORY = range(len(_RESOURCES))
_LONG_NS = 10_000  # the best rate comes from longer kernels: times of short ones are mostly rounding
_ALIKE = ("op_type", "core", "input_shapes", "input_dtypes", "hf32")
_EACH = ("name", *_ALIKE, "start_ns", "device_id", "stream_id", "step")

_UNKNOWN_CHIP = 'the chip is unknown: pass it, as limits=npuprof.chip("910B3")'
_UNKNOWN_GPU = "the limits of this GPU are unknown: pass them, as limits=npuprof.analysis.chip_limits.ChipLimits(...)"


def efficiency(
    tables: Mapping[str, pd.DataFrame],
    chip: str,
    *,
    each: Literal["shapes", "kernel"] = "shapes",
    limits: ChipLimits | None = None,
) -> pd.DataFrame:
    """Return the achieved rates of kernels, and their share of the chip's limits.

    Parameters
    ----------
    each
        ``shapes``: a row per type, shapes and data types; ``kernel``: a row per kernel, in the order of ``kernels``.

    Returns
    -------
    pandas.DataFrame
        Identity of the kernels, ``count``, ``total_ns``, ``share`` of all kernel time, and per kernel ``mean_ns``,
        ``flops`` (at least; ``flops_most`` without a mask), ``bytes`` (at least), their origin (``flops_from``,
        ``bytes_from``: ``counted`` or ``from shapes``), ``flops_per_s``, ``bytes_per_s``, ``roof_ns`` (the time at the
        chip's limits), ``efficiency`` (``roof_ns`` over the mean, 0..1; above 1 ``note`` says why), ``bound``
        (``cube``, ``vector`` or ``memory``; empty where operations are unknown), ``of_best`` (the rate relative to the
        best rate in the run, of the resource in ``bound``) and ``note``. ``attrs`` has ``chip``, the ``source`` of its
        limits, ``coverage_flops`` and ``coverage_bytes`` (the share of all kernel time for which they are known),
        ``best_bytes_per_s`` (in the run, or NaN) and ``notes``.
    """
    if each not in ("shapes", "kernel"):
        raise OptionsError(f"each is {each!r}, but must be 'shapes' or 'kernel'")
    kernels = tables["kernels"]
    work, codes = work_of_run(tables)
    known, differs = (limits, "") if limits is not None else _limits_of(tables, chip)
    rows, whole = work if each == "shapes" else _each_share(kernels, work, codes), int(kernels["duration_ns"].sum())
    columns = [*(_ALIKE if each == "shapes" else _EACH), "launches", "total_ns", "mean_ns"]
    table = rows[columns].rename(columns={"launches": "count"})
    table.insert(table.columns.get_loc("total_ns") + 1, "share", rows["total_ns"] / max(whole, 1))
    shares = {name: rows[name].array for name in ("flops", "flops_most", "flops_from", "bytes", "bytes_from")}
    achieved = _add_achieved(table.assign(**shares), work, known)
    achieved.attrs.update(_attributes(work, whole, known, differs), best_bytes_per_s=_best(work, known)["memory"])
    return achieved


def _limits_of(tables: Mapping[str, pd.DataFrame], chip: str) -> tuple[ChipLimits | None, str]:
    """Return the limits of the chip that ran the kernels, or None and why they are unknown."""
    known, differs = measured_limits(tables["kernels"], chip, tables["counters"])
    if known is None and not differs:
        is_npu = runtime_of(tables["api"]["name"].cat.categories) == "CANN"
        differs = f"{_UNKNOWN_CHIP}{or_count(tables['kernels'])}" if is_npu else _UNKNOWN_GPU
    if not len(tables["kernels"]):
        differs = "no kernels were recorded"
    return known, differs


def _each_share(kernels: pd.DataFrame, work: pd.DataFrame, codes: Int64) -> pd.DataFrame:
    taken = work.iloc[codes].reset_index(drop=True)
    columns: dict[str, Any] = {name: kernels[name].array for name in _EACH}
    durations = kernels["duration_ns"].to_numpy(np.int64)
    return taken.assign(**columns, launches=1, total_ns=durations, mean_ns=durations.astype(np.float64))


def _add_achieved(table: pd.DataFrame, work: pd.DataFrame, limits: ChipLimits | None) -> pd.DataFrame:
    """Add achieved rates, the roof, and the efficiency."""
    flops_per_s, bytes_per_s = _speeds(table)
    of_cube = _of_cube(table)
    compute_s = compute_ns(table, limits) / 1e9
    memory_s = table["bytes"].to_numpy(np.float64) / (limits.memory_bytes_per_s if limits else math.nan)
    is_known = ~np.isnan(compute_s) & ((compute_s > 0) | ~np.isnan(memory_s))
    roof_ns = np.fmax(compute_s, memory_s) * 1e9  # without operations, the least that its bytes take
    mean_ns = table["mean_ns"].to_numpy(np.float64)
    ratio = np.divide(roof_ns, mean_ns, out=np.full(len(table), np.nan), where=(mean_ns > 0) & (roof_ns > 0))
    in_memory = ~(compute_s > memory_s) & ~np.isnan(memory_s)
    bound = np.select([~is_known, in_memory, of_cube], [_UNKNOWN, _MEMORY, _CUBE], _VECTOR)
    return table.assign(
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        roof_ns=roof_ns,
        efficiency=ratio,
        bound=schema.categorical(bound, list(_RESOURCES)),
        of_best=_relative_rates(table, _best(work, limits), bound, of_cube),
        note=_notes(ratio, table, bound, limits),
    )


def compute_ns(table: pd.DataFrame, limits: ChipLimits | None) -> Float64:
    """Return the time of each row's operations at the peak of the cores and its data type; NaN if unknown.

    Parameters
    ----------
    table
        Rows with ``op_type``, ``input_dtypes``, ``hf32`` and ``flops``, such as the result of :func:`efficiency`.
    """
    return 1e9 * table["flops"].to_numpy(np.float64) / _peaks(table, limits, _of_cube(table))


def _speeds(table: pd.DataFrame) -> tuple[Float64, Float64]:
    seconds = table["mean_ns"].to_numpy(np.float64) / 1e9
    seconds[seconds <= 0] = np.nan
    return table["flops"].to_numpy(np.float64) / seconds, table["bytes"].to_numpy(np.float64) / seconds


def _of_cube(table: pd.DataFrame) -> Bools:
    types = table["op_type"]
    on_cube = [is_of_cube(name) for name in types.cat.categories]
    return np.array([*on_cube, False], bool)[types.cat.codes.to_numpy()]


def _peaks(table: pd.DataFrame, limits: ChipLimits | None, of_cube: Bools) -> Float64:
    """Return the peak operations per second of each row, by the data type of its first operand.

    Single-precision matrix products may run with shortened mantissas (HF32), whose peak is unknown.
    """
    if limits is None:
        return np.full(len(table), np.nan)
    types = table["input_dtypes"].astype("category")
    first = [str(name).strip('"').partition(";")[0] for name in types.cat.categories] + [""]
    peaks = np.array([[limits.vector_peak(name) for name in first], [limits.cube_peak(name) for name in first]])
    of_kernel: Float64 = peaks[of_cube.astype(np.int64), types.cat.codes.to_numpy()]
    single = np.array([name.upper() in ("FLOAT", "FLOAT32") for name in first])[types.cat.codes.to_numpy()]
    truncated_rows = table["hf32"].to_numpy(bool, na_value=False)
    return np.where(of_cube & single & truncated_rows, np.nan, of_kernel)


def _best(work: pd.DataFrame, limits: ChipLimits | None) -> dict[str, float]:
    """Return the best rates of the longer kernels: on the cube, on vector cores, of memory (beyond L2 if any)."""
    lasting, cube = work["mean_ns"].to_numpy(np.float64) >= _LONG_NS, _of_cube(work)
    flops, moved = _speeds(work)
    beyond = lasting & ~cube & (work["bytes"].to_numpy(np.float64) > (limits.l2_bytes if limits else 0))
    chosen = {
        "cube": flops[lasting & cube],
        "vector": flops[lasting & ~cube],
        "memory": moved[beyond if beyond.any() else lasting & ~cube],
    }
    return {resource: float(np.nanmax(np.append(speed, 0.0))) or math.nan for resource, speed in chosen.items()}


def _relative_rates(table: pd.DataFrame, best: Mapping[str, float], bound: Int64, of_cube: Bools) -> Float64:
    """Return the rate of each row relative to the best of the run, for its bounding resource."""
    flops, moved = _speeds(table)
    of_flops = flops / np.where(of_cube, best["cube"], best["vector"])
    ratio: Float64 = np.where(bound == _MEMORY, moved / best["memory"], of_flops)
    ratio[bound == _UNKNOWN] = np.nan
    return ratio


def _notes(ratio: Float64, table: pd.DataFrame, bound: Int64, limits: ChipLimits | None) -> pd.Categorical:
    cached = (bound == _MEMORY) & (table["bytes"].to_numpy(np.float64) <= (limits.l2_bytes if limits else 0))
    masked = (table["flops_most"] > table["flops"]).to_numpy(bool)
    high = ratio > _TOO_GOOD
    notes = np.select([high & cached, high, ratio > 1, masked], [1, 2, 4, 3], 0)
    return schema.categorical(notes, list(_NOTES))


def _attributes(work: pd.DataFrame, whole: int, limits: ChipLimits | None, differs: str) -> dict[str, Any]:
    known = {name: int(work["total_ns"].to_numpy()[work[name].notna().to_numpy()].sum()) for name in ("flops", "bytes")}
    return {
        "chip": limits.name if limits else "",
        "source": limits.source if limits else "",
        "coverage_flops": known["flops"] / max(whole, 1),
        "coverage_bytes": known["bytes"] / max(whole, 1),
        "notes": [differs] if differs else [],
    }
