"""Build ``links`` from the flows of a timeline: cause and effect, both rows of sorted tables.

Category **and** id identify a flow; one begin may have several ends.

Source: sources/RESULTS.md section 2.4 and section 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from npuprof import tables
from npuprof.arrays import Bools, Int64, first_rows
from npuprof.sources.trace.columns import Trace
from npuprof.sources.trace.maker import TraceTables
from npuprof.sources.trace.marks import add_ids
from npuprof.sources.trace.nesting import innermost, starting_at
from npuprof.sources.trace.torch_categories import FORWARD_BACKWARD, GPU_LAUNCHES
from npuprof.tables.notes import Notes
from npuprof.words.quantities import share

_DEVICE = ("tasks", "communication")
_KINDS = {  # of links between operators
    "async_task_queue": "enqueue",
    "async_mindspore": "enqueue",
    **dict.fromkeys(FORWARD_BACKWARD, "forward_backward"),
}
_LAUNCHES = "HostToDevice"
_TORCH = "async_npu"
_MARKS = "MsTx"
_READ = (*_KINDS, _LAUNCHES, _TORCH, _MARKS)
_UNUSED = GPU_LAUNCHES  # of torch's own traces, in which the ids of calls and tasks are used instead


class Ends(NamedTuple):
    """One side of flows: table index and row; -1 for none."""

    table: Int64
    row: Int64


def build_links(trace: Trace, built: TraceTables, notes: Notes, source: str) -> pd.DataFrame:
    """Build ``links`` from the flows between the rows of `built`.

    ``operator_api`` links lead from the operator to the CANN call that launched its device task, or at Level0, without
    calls, to the task itself; ``api_task`` links from a CANN call to a task or a communication operator; ``mark`` links
    from a mark to its device side in ``tasks``.
    """
    if not len(trace.flows):
        _note_no_flows(built, notes, source)
        return tables.empty("links")
    finder = _Finder(trace, built, notes, source)
    parts = []
    for category, kind in _KINDS.items():
        begins, ends = finder.pairs(category)
        causes, effects = finder.at(begins, ("operators",)), finder.at(ends, ("operators",))
        finder.note_lost(category, causes, effects)
        parts.append(_part(kind, causes, effects))
    launch_begins, launch_ends = finder.pairs(_LAUNCHES)
    launches, launched = finder.around(launch_begins, ("api",)), finder.at(launch_ends, _DEVICE)
    if "api" in built.lanes:  # Level0 omits the calls but writes their flows
        finder.note_lost(_LAUNCHES, launches, launched, _DEVICE)
    parts.append(_part("api_task", launches, launched, ("api",), _DEVICE))
    begins, ends = finder.pairs(_TORCH)
    causes, effects = finder.at(begins, ("operators",)), finder.at(ends, _DEVICE)
    finder.note_lost(_TORCH, causes, effects, _DEVICE)
    calls = _launcher_of(effects, launches, launched)
    has_call = calls >= 0
    parts.append(_part("operator_api", _only(causes, has_call), Ends(np.zeros_like(calls), calls), target=("api",)))
    parts.append(_part("operator_api", _only(causes, ~has_call), effects, target=_DEVICE))
    begins, ends = finder.pairs(_MARKS)
    marked, seen = finder.at(begins, ("marks",)), finder.at(ends, ("tasks",))
    finder.note_lost(_MARKS, marked, seen)
    if len(begins):
        add_ids(built.tables, marked.row, finder.ids(begins))
    parts.append(_part("mark", marked, seen, ("marks",), ("tasks",)))
    finder.account_others()
    links = pd.concat(parts, ignore_index=True)
    is_kept = links[(links["source_row"] >= 0) & (links["target_row"] >= 0)].drop_duplicates()
    return tables.build("links", {name: is_kept[name].array for name in is_kept.columns})


def _note_no_flows(built: TraceTables, notes: Notes, source: str) -> None:
    """Warn of tasks that name their launching call, if the timeline has no flow between tasks and calls."""
    calls, device_tasks = built.tables.get("api"), built.tables.get("tasks")
    if calls is None or device_tasks is None:
        return
    is_launched = device_tasks["connection_id"].dropna().isin(calls["connection_id"].dropna())
    if count := int(is_launched.sum()):
        notes.warning(source, "a task has no flow from the call that launched it: a link is missing", count)


class _Finder:
    """Pairs the flows of a category, and finds the rows at their ends."""

    def __init__(self, trace: Trace, built: TraceTables, notes: Notes, source: str) -> None:
        self._flows = trace.flows
        self._built = built
        self._notes, self._source = notes, source
        self._categories = {name: code for code, name in enumerate(trace.flows.books["category"].values)}

    def pairs(self, category: str) -> tuple[Int64, Int64]:
        """Return begin and end events of the flows of a category; a begin is repeated for each of its ends."""
        flows = self._flows
        is_selected = flows["category"] == self._categories.get(category, -2)
        begins, ends = (
            np.flatnonzero(is_selected & (flows["phase"] == 1)),
            np.flatnonzero(is_selected & (flows["phase"] != 1)),
        )
        order = begins[np.lexsort((flows["start_ns"][begins], flows["id"][begins]))]
        ids, wanted = flows["id"][order], flows["id"][ends]
        place = np.searchsorted(ids, wanted)
        paired = place < len(ids)
        paired[paired] = ids[place[paired]] == wanted[paired]
        if (ids[1:] == ids[:-1]).any():  # of several processes: each end is of the latest begin before it
            begun = _latest(ids, flows["start_ns"][order], wanted, flows["start_ns"][ends])
            place = np.where(begun > place, begun, place)
        unpaired = int((~paired).sum()) + int((~np.isin(flows["id"][begins], flows["id"][ends])).sum())
        self._notes.leave_out(self._source, f"a flow of {category} has only one end", unpaired, affects=("links",))
        self._notes.ledger.use(self._source, len(begins) + len(ends) - unpaired)
        return order[place[paired]], ends[paired]

    def note_lost(self, category: str, causes: Ends, effects: Ends, targets: tuple[str, ...] = ()) -> None:
        """Warn of flows with an end that is not a row, and of the share of time in `targets` without its cause."""
        if lost_count := int(np.count_nonzero((causes.row < 0) | (effects.row < 0))):
            shares = []
            for number, name in enumerate(targets):
                rows = effects.row[(causes.row < 0) & (effects.row >= 0) & (effects.table == number)]
                if len(rows):
                    durations = self._built.tables[name]["duration_ns"]
                    part = int(durations.iloc[np.unique(rows)].sum())
                    shares.append(f"{share(part, int(durations.sum()))} of the time of {name}")
            of = f" ({', '.join(shares)} without its cause)" if shares else ""
            message = f"a flow of {category} has an end that is no row{of}: a link is missing"
            self._notes.warning(self._source, message, lost_count)

    def account_others(self) -> None:
        """Account for flows of categories that become no links."""
        codes = [self._categories[name] for name in (*_READ, *_UNUSED) if name in self._categories]
        unused = [self._categories[name] for name in _UNUSED if name in self._categories]
        category = self._flows["category"]
        self._notes.ledger.use(self._source, int(np.isin(category, unused).sum()))
        others = int((~np.isin(category, codes)).sum())
        nameless = int(np.count_nonzero(category == self._categories.get("", -2)))
        self._notes.leave_out(self._source, "a flow has no category, so no kind", nameless, affects=("links",))
        message = "a flow belongs to no kind of link"  # such as those of a step's parts
        self._notes.leave_out(self._source, message, others - nameless, severity="info")

    def ids(self, flow: Int64) -> list[str]:
        """Return the id of each flow as text."""
        texts = self._flows.books["id"].values
        return [texts[code] for code in self._flows["id"][flow].tolist()]

    def at(self, flow: Int64, names: tuple[str, ...]) -> Ends:
        """Return the rows that start on the flow's lane at its time, from the first table that has such a row."""
        lanes, moments = self._flows["lane"][flow], self._flows["start_ns"][flow]
        ends = Ends(np.full(len(flow), -1), np.full(len(flow), -1))
        for number, name in enumerate(names):
            if name not in self._built.lanes:
                continue
            starts = self._built.tables[name]["start_ns"].to_numpy()
            rows = starting_at(self._built.lanes[name], starts, lanes, moments)
            new = (ends.row < 0) & (rows >= 0)
            ends.table[new], ends.row[new] = number, rows[new]
        return ends

    def around(self, flow: Int64, names: tuple[str, ...]) -> Ends:
        """Return the innermost rows that run on the flow's lane at its time."""
        lanes, moments = self._flows["lane"][flow], self._flows["start_ns"][flow]
        result = Ends(np.full(len(flow), -1), np.full(len(flow), -1))
        for number, name in enumerate(names):
            if name in self._built.lanes:
                frame = self._built.tables[name]
                starts = frame["start_ns"].to_numpy()
                ends = starts + frame["duration_ns"].to_numpy()
                rows = innermost(self._built.lanes[name], starts, ends, lanes, moments)
                new = (result.row < 0) & (rows >= 0)
                result.table[new], result.row[new] = number, rows[new]
        return result


def _latest(ids: Int64, begins: Int64, wanted: Int64, ends: Int64) -> Int64:
    """Return the last of the sorted `ids` and `begins` that is not behind each wanted ID and end; it may be another ID.

    That is the number of begins before an end, less one, where both are put in order together.
    """
    numbers, moments = np.concatenate((ids, wanted)), np.concatenate((begins, ends))
    is_end = np.repeat([0, 1], [len(ids), len(wanted)])
    order = np.lexsort((is_end, moments, numbers))
    before = np.cumsum(is_end[order] == 0) - 1
    result = np.empty(len(order), np.int64)
    result[order] = before
    return result[len(ids) :]


def _launcher_of(effects: Ends, launches: Ends, launched: Ends) -> Int64:
    """Return the row of the CANN call that launched each effect; -1 if unknown."""
    good = (launches.row >= 0) & (launched.row >= 0)
    keys = launched.row[good] * len(_DEVICE) + launched.table[good]
    launch = first_rows(keys, effects.row * len(_DEVICE) + effects.table)
    if not len(keys):
        return launch
    return np.where((launch >= 0) & (effects.row >= 0), launches.row[good][launch], -1)


def _only(ends: Ends, is_selected: Bools) -> Ends:
    return Ends(ends.table, np.where(is_selected, ends.row, -1))


def _part(
    kind: str,
    causes: Ends,
    effects: Ends,
    source: tuple[str, ...] = ("operators",),
    target: tuple[str, ...] = ("operators",),
) -> pd.DataFrame:
    linked = ["operators", "api", *_DEVICE, "marks"]
    source_codes = np.array([linked.index(name) for name in source])
    target_codes = np.array([linked.index(name) for name in target])
    kinds = ["operator_api", "api_task", *dict.fromkeys(_KINDS.values()), "mark"]
    return pd.DataFrame(
        {
            "kind": tables.categorical(np.full(len(causes.row), kinds.index(kind)), kinds),
            "source_table": tables.categorical(source_codes[causes.table], linked),
            "source_row": causes.row,
            "target_table": tables.categorical(target_codes[effects.table], linked),
            "target_row": effects.row,
        }
    )


def renumbered(links: pd.DataFrame, name: str, former: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Redirect links to the rows of another form of the table `name`, and drop links to rows that it lacks.

    Rows of `former` and `frame` are matched by time and thread, equal rows in order.
    """
    keys = ["start_ns", "duration_ns", "thread_id"]
    before, now = (
        form[keys].assign(turn=form.groupby(keys).cumcount(), row=np.arange(len(form))) for form in (former, frame)
    )
    row = before.merge(now, "left", [*keys, "turn"])["row_y"].to_numpy(np.int64, na_value=-1)
    moved = links.copy()
    for side in ("source", "target"):
        mine = (links[f"{side}_table"] == name).to_numpy()
        moved.loc[mine, f"{side}_row"] = row[links.loc[mine, f"{side}_row"].to_numpy()]
    return moved[(moved["source_row"] >= 0) & (moved["target_row"] >= 0)].reset_index(drop=True)
