"""Tables `communication` and `communication_tasks`: collectives, their steps, and the bandwidth of the steps.

Source: raw/FORMAT.md sections 4.1, 4.2 and 8.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Float64, Int64, Records, Uint64
from npuprof.sources.columns.builders import optional, recoded
from npuprof.sources.raw.correlation.launch_tables import DecodedLaunches
from npuprof.sources.raw.device import track_records
from npuprof.sources.raw.host.hccl import Hccl
from npuprof.sources.raw.host.operators import take
from npuprof.sources.raw.join_keys import joins
from npuprof.sources.raw.metadata.dictionaries import Dictionaries, NameColumn
from npuprof.sources.raw.records import enums

_CLOSING_STEPS = 4  # after RDMA payloads: a notification of arrival, and a barrier
_CLOSING_STEPS_POINT_TO_POINT = 2  # without the barrier


def bandwidth_gb_s(
    start_ns: Int64, end_ns: Int64, size: Float64, lane: Int64, payload: Bools, point_to_point: Bools
) -> Float64:
    """Return the bandwidth of each step in GB/s (10**9 bytes per second).

    Parameters
    ----------
    payload
        Whether it is an RDMA payload. Its task only submits it: consecutive payloads last until the last of their
        closing steps.
    """
    result = _ratio(size, end_ns - start_ns)
    if not bool(payload.any()):
        return result
    order = np.argsort(lane, kind="stable")
    ordered, is_payload = lane[order], payload[order]
    is_same = np.concatenate(([False], (ordered[1:] == ordered[:-1]) & (is_payload[1:] == is_payload[:-1])))
    first = np.flatnonzero(~is_same & is_payload)
    last = np.append(np.flatnonzero(~is_same), len(order))
    last = last[np.searchsorted(last, first, side="right")] - 1
    closing = last + np.where(point_to_point[order][first], _CLOSING_STEPS_POINT_TO_POINT, _CLOSING_STEPS)
    is_closed = closing < np.searchsorted(ordered, ordered[first], side="right")
    first, last, closing = first[is_closed], last[is_closed], closing[is_closed]
    total = np.concatenate(([0.0], np.cumsum(np.where(is_payload, np.nan_to_num(size[order]), 0))))
    together = _ratio(total[last + 1] - total[first], end_ns[order][closing] - start_ns[order][first])
    counts = last - first + 1
    rows = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts) + np.arange(counts.sum())
    result[order[rows]] = np.repeat(together, counts)
    return result


def _ratio(size: Float64, duration_ns: Int64) -> Float64:
    return size / np.where(duration_ns > 0, duration_ns.astype(np.float64), np.nan)


_NO_RANK = 0xFFFFFFFF
_MOST = 1 << 62  # a larger value is not a size: it is absent or damaged
_NO_GROUP = "N/A"  # replaces the digits of an unknown group in operator names
_DIGITS = 3  # digits of the group's hash in operator names
_RDMA_PAYLOAD = 1
_POINT_TO_POINT = ("send", "receive")


class Communication:
    """Operators and steps of communication with their host records."""

    def __init__(self, run: DecodedLaunches, hccl: Hccl, names: Dictionaries) -> None:
        self._run, self._hccl, self._names = run, hccl, names
        self._operators, self._api = run.collectives, run.api
        track = run.launches.track[run.collectives.task]
        self._context = run.tasks.context[run.collectives.task]
        self._record = hccl.steps_of(take(run.tracks.step, track), track, self._context)

    def operators_table(self, steps_frame: pd.DataFrame) -> pd.DataFrame:
        """Build `communication`, with the steps of the table `steps`.

        `rank_size`, `relay` and `retry` are added after the columns of the schema.
        """
        operators, api = self._operators, self._api
        row = self._hccl.operators_of(operators.call)
        records, is_known = self._hccl.operators[row], row >= 0
        first = self._first_records()
        group, has_group = self._groups(records, is_known, first)
        names, op_types = self._operator_names(group, has_group)
        algorithm = self._names.names_of(records["algorithm"]).where(is_known & (records["algorithm"] != 0))
        ranks = self._hccl.steps["rank_size"][first].astype(np.int64)
        return tables.build(
            "communication",
            {
                "start_ns": operators.start_ns,
                "duration_ns": operators.end_ns - operators.start_ns,
                "device_id": operators.device,
                "name": names.categorical(),
                "op_type": op_types.categorical(),
                "group": self._names.names_of(group).where(has_group).categorical(),
                "data_type": _enum_names(records["data_type"], enums.HCCL_DATA_TYPES, is_known),
                "algorithm": algorithm.categorical(),
                "count": _count(records["count"], is_known),
                "connection_id": api.rows[operators.call] + 1,
                "step": track_records.steps_on_device(operators.start_ns, operators.device, steps_frame),
                "rank_size": pd.arrays.IntegerArray(ranks, (first < 0) | (ranks == 0)),
                "relay": pd.arrays.BooleanArray(records["flags"] & 1 != 0, ~is_known),
                "retry": pd.arrays.BooleanArray(records["flags"] & 2 != 0, ~is_known),
            },
        )

    def tasks_table(self) -> pd.DataFrame:
        """Build `communication_tasks`; task ids, data and estimates of the host follow the schema's columns."""
        operators, run = self._operators, self._run
        start, duration = run.tasks.start_ns[operators.task], run.tasks.duration_ns[operators.task]
        records, is_known = self._hccl.steps[self._record], self._record >= 0
        named = self._names.names_of(records["item"]).where(is_known & (records["item"] != 0))
        kind = (
            run.tasks.kind.take(operators.task)
            .where(self._context >= 0)
            .fill(run.launches.task_type.take(operators.task))
        )
        size = _count(records["size"], is_known)
        columns = {
            "start_ns": start,
            "duration_ns": duration,
            "device_id": operators.device[operators.operator],
            "op_id": operators.operator,
            "plane_id": _number(records["plane"], is_known),
            "task_type": named.fill(kind).categorical(),
            "src_rank": _number(records["local_rank"], is_known),
            "dst_rank": _number(records["remote_rank"], is_known),
            "transport": _enum_names(records["transport"], enums.HCCL_TRANSPORTS, is_known),
            "link": _enum_names(records["link"], enums.HCCL_LINKS, is_known),
            "size_bytes": size,
            "bandwidth_gb_s": self._bandwidth(start, duration, size, records),
            "stream_id": optional(run.tasks.stream[operators.task]),
            "task_id": optional(run.tasks.task[operators.task]),
            "context_id": pd.arrays.IntegerArray(self._context, self._context < 0),
            "data_type": _enum_names(records["data_type"], enums.HCCL_DATA_TYPES, is_known),
            "rdma_type": _enum_names(records["rdma"], enums.HCCL_RDMA_TYPES, is_known),
            "notify_id": _count(records["notify"], is_known),
            "estimated_us": np.where(is_known & np.isfinite(records["estimated_us"]), records["estimated_us"], np.nan),
        }
        return tables.build("communication_tasks", columns)

    def _bandwidth(self, start: Int64, duration: Int64, size: pd.arrays.IntegerArray, records: Records) -> Float64:
        operator = self._operators.operator
        return bandwidth_gb_s(
            start,
            start + duration,
            size.to_numpy(np.float64, na_value=np.nan),
            operator << 32 | records["plane"].astype(np.int64),
            (self._record >= 0) & (records["rdma"] == _RDMA_PAYLOAD),
            self._are_point_to_point()[operator],
        )

    def _first_records(self) -> Int64:
        """Return the host record of each operator's first step that has a record; -1 for none."""
        known_rows = np.flatnonzero(self._record >= 0)
        first = np.full(len(self._operators), -1, np.int64)
        first[self._operators.operator[known_rows][::-1]] = self._record[known_rows][::-1]
        return first

    def _groups(self, records: Records, is_known: Bools, first: Int64) -> tuple[Uint64, Bools]:
        by_operator = is_known & (records["group"] != 0)
        group = np.where(by_operator, records["group"], self._hccl.steps["group"][first])
        return group, group != 0

    def _operator_names(self, group: Uint64, has_group: Bools) -> tuple[NameColumn, NameColumn]:
        """Return the vendor's operator names: call, last digits of the group, number in it, and execution number."""
        operators, api = self._operators, self._api
        rows = api.rows[operators.call]
        types = api.name.take(rows)
        named = self._names.names_of(api.item[rows]).where(api.item[rows] != 0).fill(types)
        ends = zip(group.tolist(), has_group.tolist(), strict=True)
        digits = [str(hashed)[-_DIGITS:] if known else _NO_GROUP for hashed, known in ends]
        groups, _ = pd.factorize(group)
        numbers = joins.turns(operators.device * (len(group) + 1) + groups)
        parts = zip(named.codes.tolist(), digits, numbers.tolist(), operators.turn.tolist(), strict=True)
        whole = [f"{named.names[code]}_{of_group}_{number}_{turn}" for code, of_group, number, turn in parts]
        return NameColumn.distinct(np.arange(len(whole)), whole), types.where(api.level[rows] == enums.NODE)

    def _are_point_to_point(self) -> Bools:
        types = self._api.name.take(self._api.rows[self._operators.call])
        sends = [any(word in name.lower() for word in _POINT_TO_POINT) for name in types.names]
        return np.array([*sends, False])[types.codes]


def _enum_names(values: npt.NDArray[Any], names: Mapping[int, str], is_known: Bools) -> pd.Categorical:
    codes, distinct = pd.factorize(values)
    return recoded(np.where(is_known, codes, -1), [names.get(value) for value in distinct.tolist()])


def _number(values: npt.NDArray[Any], is_known: Bools) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(values.astype(np.int64), ~is_known | (values == _NO_RANK))


def _count(values: npt.NDArray[Any], is_known: Bools) -> pd.arrays.IntegerArray:
    sound = is_known & (values < _MOST)
    return pd.arrays.IntegerArray(np.where(sound, values, 0).astype(np.int64), ~sound)
