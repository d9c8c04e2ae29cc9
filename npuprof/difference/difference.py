"""``a - b``: how much longer a step of one run is than a step of another, and where that time is spent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from npuprof.analysis.device_words import device_of
from npuprof.arrays import Bools, Int64
from npuprof.difference.exact import depths, per_step
from npuprof.difference.gaps import host_rows
from npuprof.difference.guards import doubts, guards
from npuprof.difference.lines import places
from npuprof.difference.noise import KIND_OF_PART, KINDS, Noise
from npuprof.difference.owners import OWNERS
from npuprof.difference.reasons import reasons
from npuprof.difference.side import WITHOUT_WORK, Side
from npuprof.difference.tree import nodes
from npuprof.errors import NpuprofError
from npuprof.parameters import checked
from npuprof.words.quantities import counted, duration, printable, signed
from npuprof.words.texts import LongText

_SHOWN = 10
_VERSION = 3
_WORDS = {
    "computing": "computing",
    "waiting": "waiting for other ranks",
    "moving": "moving data between ranks",
    "communication": "communication",
    "copy": "copies",
    "idle": "an idle {}",
    "between_steps": "time between steps",
    "not_recorded": "time that is not recorded",
    "host": "the host",
    "outliers": "outliers",
}
OUTLIERS = "outliers"
"""The part of the row that has what outliers add to the usual step."""

_COMMON = {
    "kernels": ("kernels", "a lower frequency"),
    "host": ("causes of idle time", "a busier host"),
    "communication": ("collectives", "a busier network"),
}


@checked
class Difference(LongText):
    """A step of run `a` minus a step of run `b`.

    Attributes
    ----------
    a, b
        The sides.
    names
        The names of the sides in texts.
    rows
        A tree: a row for each part of a step, with its components as children. The children of a row add up to it
        exactly, and the rows of depth 0 to :attr:`delta_ns`:

        * ``depth``, ``parent`` (row, -1 at the top), ``part`` (of the usual step, or ``outliers``), ``name``,
          ``path`` and ``place`` (source line);
        * ``a_ns``, ``b_ns``, ``delta_ns``: nanoseconds per step, the mean over usual steps; that of outliers is what
          they add, so that the rows of depth 0 add up to the mean step;
        * ``a_count``, ``b_count``: kernels, collectives or copies per step;
        * ``by_count_ns``, ``by_mean_ns``: the parts of the difference due to their number, and to their mean duration;
        * ``share`` of the difference of the step;
        * ``low_ns``, ``high_ns``, ``p_value``: the interval of the difference at the level that all rows together
          leave it, which excludes 0 exactly if the row's time differs by more than noise, and the p-value;
        * ``ratio``, ``ratio_low``, ``ratio_high``, ``ratio_p_value``: the same of the relative change beside the rows
          of its kind, which may all be slower alike;
        * ``significant``: whether either says so, and ``fired``: which (``difference``, ``ratio``, ``both``). All of
          these are absent with one step on a side; see :mod:`npuprof.noise`;
        * ``why``: ``new``, ``gone``, ``count``, ``shape``, ``dtype``, ``frequency``, ``slower``, ``faster``, ``gap``,
          ``wait`` ...
    guards
        Other differences between the sides that affect the comparison, a sentence each.
    """

    def __init__(self, a: Side, b: Side, names: tuple[str, str] = ("a", "b")) -> None:
        of_host = [any(run.accounting.of_host for run in side.runs) for side in (a, b)]
        for side, name, alone in zip((a, b), names, of_host, strict=True):
            if not len(side.steps) or (alone and not all(of_host)):
                raise NpuprofError(
                    f"{name} has no kernels, no tasks of a device and no step times, so there is nothing to compare: "
                    "load a result with the tables of its device"
                )
        self.a, self.b, self.names = a, b, names
        self.guards = guards(a, b, names)

    @property
    def simulated(self) -> bool:
        """Whether any of the runs was recorded on a simulated NPU."""
        return any(run.info.simulated for side in (self.a, self.b) for run in side.runs)

    @property
    def a_ns(self) -> int:
        """The mean duration of a step of `a`."""
        return self.a.basis.mean_ns

    @property
    def b_ns(self) -> int:
        """The mean duration of a step of `b`."""
        return self.b.basis.mean_ns

    @property
    def delta_ns(self) -> int:
        """The mean step of `a` minus the mean step of `b`; positive if `a` is slower."""
        return self.a_ns - self.b_ns

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows of the difference, a tree whose children add up to their parent.

        Returns
        -------
        pandas.DataFrame
            ``depth``, ``parent`` (row, -1 at the top), ``part``, ``name``, ``path``, ``place`` (source line); ``a_ns``,
            ``b_ns`` and ``delta_ns`` per step; ``a_count`` and ``b_count`` per step; ``by_count_ns`` and
            ``by_mean_ns`` (due to their number, and to their mean duration); ``share``; ``low_ns``, ``high_ns`` and
            ``p_value`` of the difference; ``ratio``, ``ratio_low``, ``ratio_high`` and ``ratio_p_value`` beside the
            rows of its kind; ``significant``, ``fired`` (``difference``, ``ratio`` or ``both``) and ``why``. More on
            each is said of the class.
        """
        nodes, (of_a, of_b) = self._nodes
        parents = nodes["parent"].to_numpy(np.int64)
        sides = [_sum_by_step(side, node, parents) for side, node in ((self.a, of_a), (self.b, of_b))]
        times = [
            per_step(sums.sum(axis=1), parents, len(side.steps), side.basis.usual_ns)
            for (sums, _), side in zip(sides, (self.a, self.b), strict=True)
        ]
        counts = [count / len(side.steps) for (_, count), side in zip(sides, (self.a, self.b), strict=True)]
        delta = times[0] - times[1]
        by_count = _by_count(times, counts)
        frame: pd.DataFrame = nodes.assign(
            a_ns=times[0],
            b_ns=times[1],
            delta_ns=delta,
            a_count=counts[0],
            b_count=counts[1],
            by_count_ns=by_count,
            by_mean_ns=delta - by_count,
            share=delta / self.delta_ns if self.delta_ns else np.full(len(nodes), np.nan),
            **self.noise.columns(nodes, sides[0][0], sides[1][0], delta),
        )
        frame["why"] = reasons(frame, (self.a, self.b), self._nodes[1])
        frame["place"] = places(self._nodes[0], (self.a, self.b), self._nodes[1])
        return self._with_outliers(frame)

    def _with_outliers(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the usual step, and below them what outliers add to it, if any side has some."""
        excess = self.a.basis.excess_ns, self.b.basis.excess_ns
        if not (self.a.basis.outliers or self.b.basis.outliers):
            return frame
        delta = excess[0] - excess[1]
        row = {"depth": 0, "parent": -1, "part": OUTLIERS, "name": OUTLIERS, "path": "", "place": ""}
        row |= {"a_ns": excess[0], "b_ns": excess[1], "delta_ns": delta, "by_count_ns": 0, "by_mean_ns": delta}
        row |= {"a_count": 0.0, "b_count": 0.0, "share": delta / self.delta_ns if self.delta_ns else np.nan}
        row |= {"fired": "", "why": "outliers"}
        last = pd.DataFrame([row]).reindex(columns=frame.columns).astype(frame.dtypes)
        return pd.concat([frame, last], ignore_index=True)

    @property
    def significant(self) -> pd.DataFrame:
        """The rows that differ by more than noise, the greatest difference first."""
        rows = self.rows
        selected_rows = rows[rows["significant"].fillna(False).to_numpy(bool)]
        return selected_rows.iloc[np.argsort(-selected_rows["delta_ns"].abs().to_numpy(), kind="stable")]

    @cached_property
    def noise(self) -> Noise:
        """How sure the difference is."""
        return Noise(self.a, self.b)

    @property
    def basis(self) -> str:
        """The basis of the difference as text: steps and devices of each side, and whether noise is known."""
        counts = len(self.a.every), len(self.b.every)
        steps = f"{steps_text(self.a)} against {steps_text(self.b)}"
        if not self.noise.is_known:
            return "one step each: noise unknown" if counts == (1, 1) else f"{steps}: noise unknown"
        if self.a.basis.outliers or self.b.basis.outliers:
            steps += f"; {_longer(self.a)} against {_longer(self.b)}, in a row of their own"
        return "; ".join([steps, "intervals of 95 % for all rows together", *self.noise.caveats()])

    def evidence(self, row: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the rows of ``kernels``, ``communication`` or ``tasks`` that a row aggregates, on each side.

        For idle time, these are the host rows that it is attributed to: of ``api``, ``operators``, ``python`` or
        ``marks``.

        Raises
        ------
        NpuprofError
            If there is no such row.
        """
        (nodes, of), count = self._nodes, len(self.rows)
        if not 0 <= row < count:
            raise NpuprofError(f"there is no row {row}; rows are numbered from 0 to {count - 1}")
        if row == len(nodes):  # that of outliers
            return self.a.every[self.a.basis.outlier], self.b.every[self.b.basis.outlier]
        below = _below(nodes["parent"].to_numpy(np.int64), row)
        frames = [_rows_of(side, np.isin(node, below)) for side, node in zip((self.a, self.b), of, strict=True)]
        return frames[0], frames[1]

    def sentence(self) -> str:
        """Return the difference in one sentence: its size, the largest part, and whether it may be noise."""
        names = [printable(name, 60) for name in self.names]
        total = self.delta_ns
        if not total:
            return f"A step of {names[0]} takes as long as one of {names[1]}: {duration(self.a_ns)}."
        comparative = "slower" if total > 0 else "faster"
        first = f"A step of {names[0]} is {duration(abs(total))} {comparative} than one of {names[1]}"
        top = self.rows[self.rows["depth"] == 0]
        sure = top["significant"].fillna(False).to_numpy(bool)
        low, high = self._bounds if self.noise.is_known else (0, 0)
        if self.noise.is_known:
            judged = len(self.a.judged) + len(self.b.judged) < len(self.a.every) + len(self.b.every)
            first += f" (95 % interval {self.step_interval()}{' without single outliers' * judged})"
        if self.noise.is_known and low <= 0 <= high and not sure.any():
            return f"{first}, which may be noise: no part of it differs by more than the steps of either side vary."
        with_sign = top[(np.sign(top["delta_ns"]) == np.sign(total)).to_numpy(bool)]
        most = with_sign.loc[with_sign["delta_ns"].abs().idxmax()]
        device = device_of(self.a.runs[0].info, self.a.runs[0].tables)
        part, amount = _WORDS[str(most["part"])].format(device), duration(abs(int(most["delta_ns"])))
        caveat = ", not your kernels" if most["part"] in ("waiting", *WITHOUT_WORK) else ""
        is_sure = most["part"] == OUTLIERS or sure[top.index.get_loc(most.name)]
        caveat += ", which may be noise" if self.noise.is_known and not is_sure else ""
        if abs(most["delta_ns"]) > abs(total):
            return f"{first}: {part} takes {amount} {'more' if total > 0 else 'less'}{caveat}."
        return f"{first}: {amount} of it is {part}{caveat}."

    def slower_by(self, share: float) -> bool | None:
        """Return whether a step of `a` is longer than one of `b` by more than a share of it, without single outliers.

        None if noise is unknown, if records of a side are missing, or if it is longer by more, but the 95 % interval
        holds the limit.
        """
        if not self.noise.is_known or any(doubts(side) for side in (self.a, self.b)):
            return None
        limit = share * float(self.b.judged["duration_ns"].mean())
        if self.noise.total.value[0] <= limit:
            return False
        return True if self.noise.total.bounds()[0][0] > limit else None

    def common(self) -> list[str]:
        """Return what all rows of a kind have in common, a sentence each."""
        self.rows  # noqa: B018 - which finds it
        return [
            f"All {_COMMON[common.kind][0]} are {abs(common.change):.1%} {'slower' if common.change > 0 else 'faster'} "
            f"({common.low:+.1%} to {common.high:+.1%}): {_COMMON[common.kind][1]}?"
            for common in self.noise.common
        ]

    def largest(self, limit: int = _SHOWN) -> pd.DataFrame:
        """Return the leaf rows with the largest differences, the largest first."""
        rows: pd.DataFrame = self.rows
        inner = set(rows["parent"])
        leaves = rows[~rows.index.isin(inner)]
        ordered = leaves.iloc[np.argsort(-leaves["delta_ns"].abs().to_numpy(), kind="stable")]
        return ordered[(ordered["delta_ns"] != 0).to_numpy(bool)].iloc[:limit]

    def lines(self) -> list[str]:
        """Return the difference as lines of text: guards, the sentence, the parts and the largest rows."""
        lines = [*(f"! {guard}" for guard in self.guards), self.sentence(), *self.common(), self.basis]
        rows = self.rows
        for _, row in rows[rows["depth"] == 0].iterrows():
            lines.append(f"{signed(int(row['delta_ns']))}  {row['name']}{_bracketed(self.interval(row))}")
        lines.append("")
        for _, row in self.largest().iterrows():
            place = f"  {row['place']}" if row["place"] else ""
            noise = _bracketed(self.interval(row))
            lines.append(f"{signed(int(row['delta_ns']))}  {self.title(row)}  {row['why']}{place}{noise}")
        return [printable(line, 300) for line in lines]

    def title(self, row: pd.Series[Any]) -> str:
        """Return the title of a row of :attr:`rows`: its name, after that of its part or module."""
        names = [str(row["name"])]
        if row["depth"] and row["part"] != "computing":
            names.insert(0, str(row["part"]))
        elif row["path"] and row["path"] != row["name"]:
            names.insert(0, str(row["path"]).rpartition("/")[2])
        return ": ".join(names)

    @property
    def _bounds(self) -> tuple[int, int]:
        low, high = (round(float(bound[0])) for bound in self.noise.total.bounds())
        return low, high

    def step_interval(self) -> str:
        """Return the 95 % interval of the difference of the step as text; empty without noise."""
        return " to ".join(map(signed, self._bounds)) if self.noise.is_known else ""

    def interval(self, row: pd.Series[Any]) -> str:
        """Return the interval of a row of :attr:`rows` as text, of what tells that it changed; empty without noise."""
        if pd.isna(row["low_ns"]):
            return ""
        if row["fired"] == "ratio":
            bounds = f"{row['ratio_low']:+.1%} to {row['ratio_high']:+.1%}"
            return f"{row['ratio']:+.1%} beside the other {KINDS[KIND_OF_PART[row['part']]]}, {bounds}"
        mark = "" if row["significant"] or not row["delta_ns"] else ", may be noise"
        return f"{signed(int(row['low_ns']))} to {signed(int(row['high_ns']))}{mark}"

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON-serializable values."""
        rows = self.rows.astype(object).where(self.rows.notna(), None)
        return {
            "version": _VERSION,
            "a": self.names[0],
            "b": self.names[1],
            "simulated": self.simulated,
            "a_ns": self.a_ns,
            "b_ns": self.b_ns,
            "delta_ns": self.delta_ns,
            "usual_ns": [self.a.basis.usual_ns, self.b.basis.usual_ns],
            "excess_ns": [self.a.basis.excess_ns, self.b.basis.excess_ns],
            "steps": [len(self.a.every), len(self.b.every)],
            "guards": self.guards,
            "sentence": self.sentence(),
            "common": self.common(),
            "interval_ns": _bounds(self.noise),
            "rows": [{str(key): _plain(value) for key, value in row.items()} for row in rows.to_dict("records")],
        }

    def to_json(self) -> str:
        """Return :meth:`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def _one_line(self) -> str:
        """Return the difference of the whole step as one sentence; see :meth:`sentence`."""
        return self.sentence()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @cached_property
    def _nodes(self) -> tuple[pd.DataFrame, tuple[Int64, Int64]]:
        return nodes(self.a, self.b)


def _sum_by_step(side: Side, node: Int64, parents: Int64) -> tuple[npt.NDArray[np.int64], Int64]:
    """Return the time of each row in each step of a side, and its total number of kernels, collectives or copies."""
    of = node[side.kind]
    stretches = side.stretches
    times = np.zeros((len(parents), len(side.steps)), np.int64)
    np.add.at(times, (of, stretches["unit"].to_numpy(np.int64)), stretches["duration_ns"].to_numpy(np.int64))
    counted_rows = np.flatnonzero(stretches["count"].to_numpy() > 0)
    # A collective has a stretch for waiting and one for moving; in a row that holds both it counts once.
    shared = stretches["table"].to_numpy()[counted_rows] == OWNERS.index("communication")
    several = counted_rows[shared]
    keys = np.stack([of[several], stretches["run"].to_numpy()[several], stretches["row"].to_numpy()[several]])
    once = np.concatenate((counted_rows[~shared], several[np.unique(keys, axis=1, return_index=True)[1]]))
    counts = np.bincount(of[once], minlength=len(parents)).astype(np.int64)
    for rows in depths(parents)[:0:-1]:
        np.add.at(times, parents[rows], times[rows])
        np.add.at(counts, parents[rows], counts[rows])
    return times, counts


def _by_count(times: Sequence[Int64], counts: Sequence[npt.NDArray[np.float64]]) -> Int64:
    """Return the time of each row due to its count: difference of counts times mean duration of `b`, else of `a`."""
    base = np.where(counts[1] > 0, times[1], times[0]) / np.maximum(np.where(counts[1] > 0, counts[1], counts[0]), 1e-9)
    alone = (counts[0] == 0) | (counts[1] == 0)
    split = np.rint((counts[0] - counts[1]) * base).astype(np.int64)
    is_known = (counts[0] > 0) | (counts[1] > 0)
    return np.where(is_known, np.where(alone, times[0] - times[1], split), 0)


def _below(parents: Int64, row: int) -> list[int]:
    chosen = {row}
    for number, parent in enumerate(parents.tolist()):
        if parent in chosen:
            chosen.add(number)
    return sorted(chosen)


def _rows_of(side: Side, kinds: Bools) -> pd.DataFrame:
    """Return the table rows behind some kinds of stretches; for idle time, the host rows."""
    stretches = side.stretches
    of_kind = stretches[kinds[side.kind] & (stretches["row"] >= 0).to_numpy(bool)]
    frames = []
    for (run, table), group in of_kind.groupby(["run", "table"]):
        frame = side.runs[int(run)].tables[OWNERS[int(table)]]
        frames.append(frame.iloc[np.unique(group["row"].to_numpy())])
    causes = side.kinds["cause"][kinds & side.kinds["part"].isin(WITHOUT_WORK).to_numpy(bool)].unique()
    for of_run in side.runs:
        of_causes = [pair for cause in causes for pair in host_rows(of_run, cause).items()]
        for name in dict.fromkeys(name for name, _ in of_causes):
            rows = np.unique(np.concatenate([rows for other, (rows, _) in of_causes if other == name]))
            frames.append(of_run.tables[name].iloc[rows])
    return pd.concat([frame for frame in frames if len(frame)] or [pd.DataFrame()])


def steps_text(side: Side) -> str:
    """Return the number of steps of a side as text: ``4 steps on each of 2 devices``, ``4 steps in each of 3 runs``."""
    counts = side.every.groupby(["run", "rank", "device_id"], dropna=False).size()
    few, largest, runs = int(counts.min()), int(counts.max()), len(side.repeats)
    steps = f"{few} to {largest} steps" if few < largest else counted(largest, "step")
    if len(counts) == runs:
        return f"{steps} in each of {runs} runs" if runs > 1 else steps
    return f"{steps} on each of {len(counts)} devices" + (f" of {runs} runs" if runs > 1 else "")


def _longer(side: Side) -> str:
    """Return how many steps of a side are outliers, as text; empty without any."""
    count = side.basis.outliers
    return f"{counted(count, 'outlier')} of {side.basis.count:,} steps" if count else "no outlier"


def _bracketed(text: str) -> str:
    return f"  ({text})" if text else ""


def _bounds(noise: Noise) -> list[int] | None:
    return [round(float(bound[0])) for bound in noise.total.bounds()] if noise.is_known else None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value
