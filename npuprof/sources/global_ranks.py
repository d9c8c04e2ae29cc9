"""Map the ranks within a communication group to global ranks.

Communication records, and the vendor's sums of them, number the ranks of each group from 0. The global ranks come from
``parallel_group_info`` of the metadata, by the name of the group (a record may hold only its hash, and an operator name
only the last digits); from the runs of a set, each of which has its number in its groups; and from the number of ranks.

Source: sources/RESULTS.md sections 1.1, 2.2 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pandas as pd

from npuprof.arrays import Int64
from npuprof.sources.base import Decoded
from npuprof.sources.columns.builders import ABSENT, optional
from npuprof.sources.raw.metadata.dictionaries import hash_of
from npuprof.tables.info import Info
from npuprof.tables.notes import Notes

MATRIX, TASKS = "communication_matrix", "communication_tasks"
MAX_RANK = 1_000_000
_SIDES = ("src", "dst")
_UNNAMED = re.compile(r"Group \d{1,9}")  # a group's name in a timeline
_DIGITS = re.compile(r".+__(\d{3})(?:_\d+){2,4}", re.DOTALL)  # digits of the group's hash in an operator name

Frames: TypeAlias = Mapping[str, pd.DataFrame]


class DecodedRun(Protocol):
    """The tables of a run: a ``Profile``, or a ``Decoded`` of a source."""

    @property
    def info(self) -> Info:
        """Facts about the run."""

    @property
    def tables(self) -> Mapping[str, pd.DataFrame]:
        """The tables by name."""

    @property
    def statistics(self) -> dict[str, pd.DataFrame]:
        """The vendor's sums by name."""


@dataclass
class Groups:
    """The known members of each group: global rank by number in the group, by the key of the group.

    `assumed` are the groups that are assumed to hold all ranks, since no file names their members.
    """

    members: dict[str, dict[int, int]] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)


def add_global_ranks(run: Decoded, notes: Notes) -> None:
    """Add the columns `src_global_rank` and `dst_global_rank` to the transfers of a run; <NA> where unknown."""
    if any("src_global_rank" in part.frame for part in _transfers(run.tables, run.statistics)):
        return  # a saved profile already has them
    groups = groups_of([run])
    for part in list(_transfers(run.tables, run.statistics)):
        (run.statistics if part.name == MATRIX else run.tables)[part.name] = part.with_global_ranks(groups)
    unknown = sum(_count_unknown(part.frame) for part in _transfers(run.tables, run.statistics))
    if unknown:
        notes.info(
            "ranks",
            "only the number in its group is known of a rank, since no parallel_group_info names the members: load all "
            "ranks together to learn them",
            unknown,
        )
    for key in sorted(groups.assumed):
        notes.info("ranks", f"no file names the members of group {key or 'without a name'}: it is taken for all ranks")


def with_global_ranks(
    tables: Frames, statistics: Frames, groups: Groups
) -> tuple[dict[str, pd.DataFrame], dict[str, pd.DataFrame]]:
    """Return the tables and statistics of a run, with the known global ranks of its transfers."""
    frames = dict(tables), dict(statistics)
    for part in _transfers(tables, statistics):
        frames[part.name == MATRIX][part.name] = part.with_global_ranks(groups)
    return frames


def groups_of(runs: Iterable[DecodedRun]) -> Groups:
    """Return the members of every group in the runs of a job."""
    declared: dict[str, dict[int, int]] = {}
    sizes: dict[str, int] = {}
    ranks_by_number: dict[str, dict[int, int]] = {}
    world = 0
    for run in runs:
        declared |= _declared_members(run.info.metadata)
        world = max(world, world_size(run.info))
        for transfers in _transfers(run.tables, run.statistics):
            for key, (size, number) in transfers.numbers().items():
                sizes[key] = max(sizes.get(key, 0), size)
                if number is not None and run.info.rank is not None:
                    ranks_by_number.setdefault(key, {})[number] = run.info.rank
    groups = Groups()
    largest = [key for key, size in sizes.items() if size == max(sizes.values())]
    for key, size in sizes.items():
        known = ranks_by_number.get(key, {})
        # Members are sorted: if a member's global rank equals its number, the same holds for all members before it.
        sure = (
            world
            if size == world
            else 1 + max((number for number, rank in known.items() if number == rank), default=-1)
        )
        members = _find_members(declared, key)
        alike = all(number == rank for number, rank in known.items())
        if members is None and sure < size and largest == [key] and alike:
            groups.assumed.add(key)
            sure = size
        groups.members[key] = {**{number: number for number in range(sure)}, **known} if members is None else members
    return groups


def world_size(info: Info) -> int:
    """Return the number of ranks in the run's metadata, or 0."""
    arguments = info.metadata.get("distributed_args")
    size = arguments.get("world_size") if isinstance(arguments, dict) else None
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= MAX_RANK else 0


def global_ranks_of(value: Any) -> list[int]:
    """Return the valid ranks of a list in the metadata."""
    parts = value if isinstance(value, list) else []
    return [rank for rank in parts if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MAX_RANK]


class _Transfers(NamedTuple):
    """A frame of transfers, with the code of each row's group; `keys` are the groups by code."""

    name: str
    frame: pd.DataFrame
    codes: Int64
    keys: list[str]

    def numbers(self) -> dict[str, tuple[int, int | None]]:
        """Return for each group the least number of ranks it has, and this run's number in it, or None."""
        sides = {side: _numbers(self.frame, side) for side in _SIDES}
        base = MAX_RANK + 1  # -1 is a rank that is not known
        senders, distinct = pd.factorize(self.codes * base + sides["src"] + 1)
        pairs = pd.unique(senders * base + sides["dst"] + 1)
        of_pair = distinct[pairs // base]
        columns = of_pair // base, of_pair % base - 1, pairs % base - 1
        largest: dict[int, int] = {}
        sources: dict[int, set[int]] = {}
        selves: dict[int, set[int]] = {}
        for code, sender, receiver in zip(*(column.tolist() for column in columns), strict=True):
            largest[code] = max(largest.get(code, -1), sender, receiver)
            sources.setdefault(code, set()).add(sender)
            if sender == receiver:
                selves.setdefault(code, set()).add(sender)
        sizes = {}
        for code, highest in sorted(largest.items()):
            candidates = selves.get(code) or sources[code]
            number = next(iter(candidates)) if len(candidates) == 1 else -1
            if highest >= 0:
                sizes[self.keys[code]] = (1 + highest, None if number < 0 else number)
        return sizes

    def with_global_ranks(self, groups: Groups) -> pd.DataFrame:
        """Return the frame with the global ranks of both sides."""
        columns = {f"{side}_global_rank": self._global_ranks(side, groups) for side in _SIDES}
        return self.frame.assign(**columns)

    def _global_ranks(self, side: str, groups: Groups) -> Any:
        """Return the global ranks of one side as a column."""
        numbers = _numbers(self.frame, side)
        places, pairs = pd.factorize(np.where(numbers < 0, -1, self.codes * MAX_RANK + numbers))
        ranks = [
            groups.members.get(self.keys[pair // MAX_RANK], {}).get(pair % MAX_RANK, ABSENT) if pair >= 0 else ABSENT
            for pair in pairs.tolist()
        ]
        return optional(np.array(ranks, np.int64)[places])


def _transfers(tables: Frames, statistics: Frames) -> Iterator[_Transfers]:
    tasks, matrix = tables.get(TASKS), statistics.get(MATRIX)
    if tasks is not None and len(tasks):
        codes, keys = _operator_keys(tables.get("communication"))
        row = tasks["op_id"].to_numpy(np.int64, na_value=-1)
        is_known = (row >= 0) & (row < len(codes))
        of_row = np.append(codes, len(keys))[np.where(is_known, row, -1)]
        yield _Transfers(TASKS, tasks, of_row, [*keys, ""])
    if matrix is not None and len(matrix) and {"group", "src_rank", "dst_rank"} <= set(matrix.columns):
        codes, names = pd.factorize(matrix["group"].astype(str))
        of_group = np.where(codes < 0, len(names), codes).astype(np.int64)  # rows may name no group
        yield _Transfers(MATRIX, matrix, of_group, [*(_key(name) for name in names), ""])


def _operator_keys(communication: pd.DataFrame | None) -> tuple[Int64, list[str]]:
    """Return the group code of each operator, and the group keys by code."""
    if communication is None or not len(communication):
        return np.zeros(0, np.int64), []
    group = communication["group"].astype(object)
    unnamed = (group.isna() | group.astype(str).str.fullmatch(_UNNAMED.pattern)).to_numpy(bool)
    if unnamed.any():
        digits = [
            match[1] if (match := _DIGITS.fullmatch(str(name))) else "" for name in communication["name"][unnamed]
        ]
        group[unnamed] = digits
    codes, names = pd.factorize(group)
    return codes.astype(np.int64), [_key(name) for name in names]


@lru_cache(maxsize=1 << 16)
def _key(name: str) -> str:
    """Return the hash of a group's name; a decimal name already is the hash."""
    return name if not name or name.isdecimal() else str(hash_of(name))


def _numbers(frame: pd.DataFrame, side: str) -> Int64:
    """Return the ranks of one side as in the file; -1 for a missing rank."""
    values = pd.to_numeric(frame[f"{side}_rank"], errors="coerce").to_numpy(np.float64, na_value=-1)
    sound = (values >= 0) & (values < MAX_RANK)
    return np.where(sound, values, -1).astype(np.int64)


def _count_unknown(frame: pd.DataFrame) -> int:
    """Count the ranks of a frame without a known global rank."""
    return sum(
        int(((_numbers(frame, side) >= 0) & frame[f"{side}_global_rank"].isna().to_numpy()).sum()) for side in _SIDES
    )


def _declared_members(metadata: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return the members of each group in the metadata, by the group's key."""
    groups = metadata.get("parallel_group_info")
    listed = {
        _key(str(name)): global_ranks_of(group.get("global_ranks"))
        for name, group in (groups.items() if isinstance(groups, dict) else ())
        if isinstance(group, dict)
    }
    return {key: dict(enumerate(ranks)) for key, ranks in listed.items() if ranks}


def _find_members(declared: Mapping[str, dict[int, int]], key: str) -> dict[int, int] | None:
    """Return the members of a group by its key, or by the key's last digits if they are unique."""
    if key in declared or len(key) != 3:
        return declared.get(key)
    ending = [name for name in declared if name.endswith(key)]
    return declared[ending[0]] if len(ending) == 1 else None
