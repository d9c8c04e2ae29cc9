"""What the tools of the server say: texts of runs below one folder."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import pandas as pd

from npuprof.assistant.folder import Folder
from npuprof.assistant.tables import exact, rows_of
from npuprof.errors import NpuprofError, OptionsError
from npuprof.profiles.profile import Profile
from npuprof.words.names import markdown, quoted, without_names
from npuprof.words.quantities import counted, duration, formatted_ranks, share

if TYPE_CHECKING:
    from npuprof.advice.findings import Advice
    from npuprof.analysis.by import Key
    from npuprof.ranks.profile_set import ProfileSet
    from npuprof.sources.detect import DetectedResult

By: TypeAlias = Literal[
    "op_type", "kernel", "op", "line", "module", "shapes", "communication", "efficiency"
]  # what `top` sums by

_MS = 1_000_000
_SUMS = {"count": "count", "total_ns": "total", "share": "of kernel time", "mean_ns": "mean", "max_ns": "longest"}
_LANES = ("statements", "operators", "api", "kernels", "communication", "tasks")


class Answers:
    """Answers about the runs below a folder."""

    def __init__(self, folder: Folder, sql_s: float) -> None:
        self._folder, self._sql_s = folder, sql_s

    def list_runs(self, path: str) -> str:
        from npuprof.sources.detect import detect

        found = detect(self._folder.path(path))
        rows: list[dict[str, object]] = []
        outside = 0
        try:
            for run in found.results:
                if run.unpacked is None and not self._folder.holds(run.path.resolve()):
                    outside += 1
                    continue
                rows.append({"path": self._folder.shown(run.path), **self._known(run)})
        finally:
            for run in found.results:
                run.close()
        kept = pd.DataFrame(rows, columns=["path", "rank", "source", "started"])
        kept = kept.sort_values(["path", "rank"], kind="stable")
        columns = {"path": "path", "rank": "rank", "source": "format", "started": "started (UTC)"}
        folders = Counter(path.rpartition("/")[0] or "." for path in kept["path"])
        lines = [counted(len(kept), "run"), ""]
        lines += [f"- Set: {quoted(folder)} has {count:,} runs" for folder, count in folders.items() if count > 1]
        lines += [f"- {counted(outside, 'run')} left out: links to outside of the folder"] if outside else []
        return "\n".join([*lines, "", *rows_of(kept, columns, 1_000, "runs")] if rows else lines)

    def _known(self, run: DetectedResult) -> dict[str, object]:
        """Return rank, format and start of a run; why it cannot be described, in place of its format."""
        try:
            info = run.describe()
        except (NpuprofError, OSError) as error:
            return {"rank": None, "source": f"cannot be read: {error}", "started": None}
        second = None if info.started_ns is None else str(np.datetime64(info.started_ns // 10**9, "s"))
        source = info.source or run.source.name
        return {"rank": info.rank, "source": source, "started": second and second.replace("T", " ")}

    def describe(self, path: str, rank: int | None) -> str:
        opened = self._run(path, rank)
        said = opened._described()
        if isinstance(opened, Profile):
            return said
        columns = {"path": "path", "rank": "rank", "source": "format", "state": "state", "problem": "problem"}
        return "\n".join([said, "", *rows_of(opened.info, columns, 64, "runs")])

    def advise(self, path: str, rank: int | None, first: int) -> str:
        return self._run(path, rank)._advised_text(first)

    def breakdown(self, path: str, rank: int | None, step: int | None) -> str:
        opened = self._run(path, rank)
        if step is not None:
            return self._of_step(opened, step)
        advice = opened.advice()
        budget = advice.budget()
        whole = max(advice.step_ns, 1)
        exposed = int(budget["time_ns"][budget["part"].isin(["waiting", "moving", "communication"])].sum())
        alone = share(exposed, whole)
        table = budget.assign(share=budget["time_ns"] / whole)
        columns = {"part": "part", "cause": "cause", "time_ns": "time of a mean step", "share": "share"}
        return "\n".join(
            [
                markdown(advice.headline()),
                f"Communication not overlapped (waiting, moving, communication): {duration(exposed)}, {alone}",
                *map(markdown, advice.idle_lines()),
                "",
                *rows_of(table, {**columns, "collect": "to know the cause"}, 64, "rows"),
                *self._by_rank(opened, advice),
            ]
        )

    def _of_step(self, opened: Profile | ProfileSet, step: int) -> str:
        rows = opened.breakdown()
        kept = rows[(rows["step"] == step).fillna(False).to_numpy(bool)]
        if not len(kept):
            steps = sorted(rows["step"].dropna().unique().tolist())
            raise OptionsError(f"there is no step {step}: the steps are {formatted_ranks(map(int, steps))}")
        columns = {"rank": "rank", "device_id": "device", "part": "part", "cause": "cause", "duration_ns": "time"}
        return "\n".join([f"Step {step}", "", *rows_of(kept, columns, 200, "rows")])

    def _by_rank(self, opened: Profile | ProfileSet, advice: Advice) -> list[str]:
        if isinstance(opened, Profile) or advice.facts.device is None:
            return []
        try:
            by_rank = opened.overview().by_rank
        except NpuprofError:
            return []
        columns = {name: name.removesuffix("_ns").replace("duration", "step") for name in by_rank.columns}
        times = {name: f"{name}_ns" for name in by_rank.columns if name not in ("rank", "duration_ns")}
        shown = by_rank.rename(columns=times)
        return ["", *rows_of(shown, {times.get(name, name): heading for name, heading in columns.items()}, 64, "ranks")]

    def top(self, path: str, by: By, rank: int | None, rows: int) -> str:
        opened = self._run(path, rank)
        if by == "communication":
            return self._communication(opened, rows)
        if by == "efficiency":
            table = opened.efficiency()
            if not len(table):
                raise NpuprofError("no kernel has known operations or bytes: record shapes (--shapes) and level 1")
            lost = (table["total_ns"] * (1 - table["efficiency"].clip(upper=1).fillna(1))).astype("int64")
            table = table.assign(lost_ns=lost).sort_values("lost_ns", ascending=False, kind="stable")
            columns = {"op_type": "type", "input_shapes": "input shapes", "core": "core", "count": "count"}
            columns |= {"total_ns": "total", "efficiency": "of the chip's limit", "bound": "limit"}
            columns |= {"lost_ns": "total beyond the limit"}
            return "\n".join(["Kernels by time beyond the chip's limits", "", *rows_of(table, columns, rows, "groups")])
        keys: tuple[Key, ...] = ("op_type", "shapes") if by == "shapes" else (by,)
        table = opened.by(*keys)
        if by in ("line", "module") and not table[by].notna().any():
            raise NpuprofError(
                f"this run knows no {by} of a kernel: record it with --stacks; describe names what it has"
            )
        columns = {**{key: key for key in keys}, **_SUMS}
        head = f"{counted(int(table['count'].sum()), 'kernel')}, {duration(int(table['total_ns'].sum()))} in all"
        return "\n".join([f"{head}, by {by}", "", *rows_of(table, columns, rows, "groups")])

    def _communication(self, opened: Profile | ProfileSet, rows: int) -> str:
        table = opened.tables["communication"] if isinstance(opened, Profile) else opened.table("communication")
        if not len(table):
            raise NpuprofError("this run has no communication: breakdown says what a step consists of")
        keys = [key for key in ("op_type", "group") if table[key].notna().any()]
        grouped = table.assign(**{key: table[key].astype("string") for key in keys}).groupby(keys, dropna=False)
        sums = grouped["duration_ns"].agg(["count", "sum", "max"]).reset_index()
        sums = sums.rename(columns={"sum": "total_ns", "max": "max_ns"}).sort_values("total_ns", ascending=False)
        columns = {
            "op_type": "operator",
            "group": "group",
            **{key: _SUMS[key] for key in ("count", "total_ns", "max_ns")},
        }
        said = "Communication operators; their time includes waiting for other ranks"
        return "\n".join([said, "", *rows_of(sums, columns, rows, "operators")])

    def code(self, path: str, rank: int | None, lines: int) -> str:
        code = self._single(path, rank).code()
        table = code.to_frame()
        if not len(code):
            raise NpuprofError("this run knows no line of the code: record it with --stacks; top sums by op instead")
        known = table[table["line"].notna().to_numpy(bool)]
        weight = known[["device_ns", "idle_ns", "host_ns"]].fillna(0).sum(axis=1)
        kept = known[(weight > 0).to_numpy(bool)]
        kept = kept.loc[weight[kept.index].sort_values(ascending=False, kind="stable").index]
        columns = {"file": "file", "line": "line", "device_ns": "device", "idle_ns": "device idle", "host_ns": "host"}
        columns |= {"launches": "launches", "peak_bytes": "at the memory peak"}
        text = {} if not self._folder.with_source else {"text": "code"}
        shown = kept.assign(text=kept["text"].str.strip())
        return "\n".join(
            [f"{markdown(code.headline())}, in all", "", *rows_of(shown, {**columns, **text}, lines, "lines")]
        )

    def compare(self, a: str, b: str) -> str:
        from npuprof.loading import compare

        names = (a, b) if a != b else None
        return compare(self._folder.open(a), self._folder.open(b), names=names).to_markdown()

    def ranks(self, path: str) -> str:
        opened = self._folder.open(path)
        if isinstance(opened, Profile):
            raise NpuprofError(
                "this is one run: ranks needs the folder around the runs of a job, which list_runs names"
            )
        seen = opened.overview()
        lines = [markdown(seen.verdict), ""]
        lines += [f"- Slow: ranks {formatted_ranks(seen.slow)}"] if seen.slow else ["- No rank stands out as slow"]
        lines += [f"- Not here: ranks {formatted_ranks(seen.absent)}"] if seen.absent else []
        caused = seen.caused[(seen.caused > 0).to_numpy(bool)].sort_values(ascending=False, kind="stable")
        lines += self._waited_for(opened)
        if len(caused):
            frame = pd.DataFrame({"rank": caused.index, "wait_ns": caused.to_numpy()})
            lines += ["", "What all ranks wait, each step, for the own time of a rank:", ""]
            lines += rows_of(frame, {"rank": "rank", "wait_ns": "waited for it"}, 16, "ranks")
        return "\n".join([*lines, *self._by_rank(opened, opened.advice())])

    def _waited_for(self, opened: ProfileSet) -> list[str]:
        try:
            waits = opened.waits()
        except NpuprofError:
            return []
        sums = waits.assign(time=waits["wait_ns"].fillna(0) + (waits.get("absent_ns", waits["wait_ns"] * 0)).fillna(0))
        last = sums.groupby("last_rank")["time"].sum().sort_values(ascending=False).astype("int64")
        texts = [f"rank {rank} {duration(int(time))}" for rank, time in last[last > 0].head(8).items()]
        return [f"- Time that all ranks waited in all, by who came last: {', '.join(texts)}"] if texts else []

    def timeline(self, path: str, rank: int | None, start_ms: float, length_ms: float, rows: int) -> str:
        run = self._single(path, rank)
        tables = {name: run.aligned[name] for name in _LANES if len(run.aligned[name])}
        if "kernels" in tables:
            tables.pop("tasks", None)  # kernels are tasks
        if not tables:
            raise NpuprofError("this run has no rows with times: describe says what it has")
        first = min(int(table["start_ns"].min()) for table in tables.values())
        start, end = first + round(start_ms * _MS), first + round((start_ms + length_ms) * _MS)
        found = []
        for lane, table in tables.items():
            begins, lengths = table["start_ns"].to_numpy(np.int64), table["duration_ns"].to_numpy(np.int64)
            inside = table[(begins < end) & (begins + lengths > start)]
            name = "name" if "name" in inside else "file"
            names = inside[name].astype("string") if name == "name" else _places(inside)
            stream = inside["stream_id"] if "stream_id" in inside else inside.get("thread_id")
            found.append(pd.DataFrame({
                "lane": lane, "of": None if stream is None else stream.to_numpy(), "name": names.to_numpy(),
                **{key: inside[key].to_numpy(np.int64) for key in ("start_ns", "duration_ns")},
            }))  # fmt: skip
        every = pd.concat([frame for frame in found if len(frame)] or found[:1], ignore_index=True)
        kept = every.nlargest(rows, "duration_ns", keep="first").sort_values("start_ns", kind="stable")
        span = f"{start_ms:g} ms to {start_ms + length_ms:g} ms"
        busy = ", ".join(f"{len(frame):,} {lane}" for lane, frame in zip(tables, found, strict=True))
        lines = [f"{span} after the first row ({busy}); device times are on the host's clock", ""]
        lines += ["| at | took | what | stream or thread | name |", "|---|---|---|---|---|"]
        for row in kept.itertuples(index=False):
            at = f"{(int(row.start_ns) - first) / _MS:.6f} ms"
            of = "" if pd.isna(row.of) else str(row.of)
            lines.append(f"| {at} | {duration(int(row.duration_ns))} | {row.lane} | {of} | {quoted(row.name)} |")
        left = len(every) - len(kept)
        return "\n".join(
            [*lines, *([f"{left:,} shorter rows left out: a shorter window, or more `rows`"] if left else [])]
        )

    def sql(self, path: str, query: str, rank: int | None, rows: int) -> str:
        opened = self._run(path, rank)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            answer = opened.sql(query, most_rows=rows, timeout_s=self._sql_s)
        return "\n".join([*exact(answer), *(f"- {markdown(str(each.message))}" for each in said)])

    def explain(self, name: str) -> str:
        from npuprof.advice.job_rules import JOB_RULES
        from npuprof.advice.rules import RULES
        from npuprof.options import Options
        from npuprof.tables.schema import explain

        rules = {rule.name: rule.looks_for for rule in (*RULES, *JOB_RULES)}
        options = {field.name: field.metadata["option"].described for field in fields(Options)
                   if "option" in field.metadata}  # fmt: skip
        key = name.strip().removeprefix("--").replace("-", "_").replace(" ", "_")
        if key in rules:
            return f"The finding {key} looks for: {rules[key]}"
        if key in options:
            return f"The option {key}: {options[key]}"
        try:
            return explain(name)
        except OptionsError as error:
            raise OptionsError(f"{error}; findings are {', '.join(rules)}; options are {', '.join(options)}") from None

    def private(self, text: str) -> str:
        """Return a text without names of people and computers, and without the folder that is served."""
        return without_names(text.replace(str(self._folder.root), "."), self._folder.hosts, self._folder.users)

    def _run(self, path: str, rank: int | None) -> Profile | ProfileSet:
        opened = self._folder.open(path)
        if rank is None or (isinstance(opened, Profile) and opened.info.rank == rank):
            return opened
        if isinstance(opened, Profile):
            of = "has no rank" if opened.info.rank is None else f"is rank {opened.info.rank}"
            raise NpuprofError(f"this run {of}: leave `rank` out")
        if rank not in opened.ranks:
            raise NpuprofError(f"there is no rank {rank}: the ranks are {formatted_ranks(opened.ranks)}")
        return opened[rank]

    def _single(self, path: str, rank: int | None) -> Profile:
        opened = self._run(path, rank)
        if isinstance(opened, Profile):
            return opened
        raise NpuprofError(f"these are {len(opened):,} runs: give `rank`, one of {formatted_ranks(opened.ranks)}")


def _places(statements: pd.DataFrame) -> pd.Series[str]:
    return statements["file"].astype("string") + ":" + statements["line"].astype("string")


def page(text: str, limit: int, offset: int) -> str:
    """Return at most `limit` characters from `offset` on, cut at the end of a line, and how to ask for more."""
    if offset >= len(text) > 0:
        raise OptionsError(f"the answer has {len(text):,} characters: give an offset below that")
    rest = text[offset:]
    if len(rest) <= limit:
        return rest
    room = limit - 120
    cut = rest.rfind("\n", 1, room) if "\n" in rest[1:room] else room
    end = offset + cut
    return (
        f"{rest[:cut]}\n[characters {offset:,} to {end:,} of {len(text):,}: ask with offset={end}, or a greater limit]"
    )
