"""Physical damage: files that are whole, and hold what no device can have done, or lack what it did.

Records of one kind are lost at the head, in the middle or at the tail; durations are doubled or cut short; a stream is
shifted; times are zero; calls do not return; the trace of another process is merged into it. All parts of a recording
that come from the same records are changed together, and the vendor's sums are removed, so that only the records
themselves can tell. For each damage and seed, the campaign says whether a figure moved by more than 1 % without a note
that concerns it.

``python -m tests.campaign.damage.physical --seeds 20 --write`` prints the table, and writes it into the page of
support.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import re
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from tests.campaign.damage.concerns import COMMUNICATION, HOST, KERNELS, STEPS, concerning
from tests.campaign.damage.page import write_physical
from tests.campaign.damage.recordings import GENERATED, REAL, copied
from tests.campaign.damage.trial import load
from tests.samples import FOLDER
from tests.sources.kineto.traces import KinetoTrace

CANNOT_TELL = re.compile(r"shorter durations|lost head of calls|trace of torch: (lost tail|doubled|shifted) .*device")
"""Damages that break no invariant, at least with some seeds: a shorter duration may be true, what ran first may have
been launched before the recording began, and where nothing waits for the device, what ran last in its stream may have
begun later, lasted longer, or run after the end.
"""

LIMIT = 0.01
"""By which share of it a figure may move without a note."""


@dataclass
class Row:
    """A record with a time, and what the format has of it."""

    kind: str
    lane: Any
    start_ns: int
    length_ns: int
    origin: Any = None
    lost: bool = False


@dataclass
class Records:
    """The records of a recording, and how to write them back."""

    rows: list[Row]
    write: Callable[[Sequence[Row]], None]
    merge: Callable[[random.Random], None] | None = None


def _wrote(time_ns: int) -> str:
    return f"{time_ns // 1000}.{time_ns % 1000:03}"


def _ns(text: Any) -> int:
    whole, _, digits = str(text).strip().partition(".")
    return int(whole) * 1000 + int(f"{digits:0<3}"[:3])


# -- formats -----------------------------------------------------------------------------------------------------------

_OF_KINETO = {
    "kernel": "device",
    "gpu_memcpy": "device",
    "gpu_memset": "device",
    "cuda_runtime": "calls",
    "cpu_op": "operators",
    "python_function": "python",
    "user_annotation": "steps",
}


_NUMBERS = (
    *("ts", "dur", "pid", "tid", "id", "correlation", "External id", "device", "stream", "context", "bytes", "Ev Idx"),
    *("Python id", "Python parent id", "baseTimeNanoseconds", "schemaVersion"),
)
_AS_NUMBER = re.compile(rf'"({"|".join(_NUMBERS)})": "(\d+(?:\.\d+)?)"')  # no time passes through a float


def _kineto(path: Path) -> Records:
    document = json.loads(path.read_bytes(), parse_float=str, parse_int=str)
    events = document["traceEvents"]
    rows = [
        Row(_OF_KINETO[event["cat"]], (event["pid"], event["tid"]), _ns(event["ts"]), _ns(event["dur"]), event)
        for event in events
        if event.get("ph") == "X" and event.get("cat") in _OF_KINETO
    ]

    def write(changed: Sequence[Row]) -> None:
        lost = {id(row.origin) for row in changed if row.lost}
        for row in changed:
            row.origin["ts"], row.origin["dur"] = _wrote(row.start_ns), _wrote(row.length_ns)
        document["traceEvents"] = [event for event in events if id(event) not in lost]
        path.write_text(_AS_NUMBER.sub(r'"\1": \2', json.dumps(document)))

    def merge(chance: random.Random) -> None:
        """Add the same events as of another process, which a tool gave other numbers or not, and a little later."""
        by, late = chance.choice((0, 1000, 10**7)), chance.randrange(1000, 9000)
        for event in list(events):
            times = {"ts": _wrote(_ns(event["ts"]) + late)} if "ts" in event else {}
            pid = event.get("pid")
            moved = {"pid": str(int(pid) + by)} if isinstance(pid, str) and pid.isdigit() else {}
            events.append({**event, **times, **moved})

    return Records(rows, write, merge)


_HOST = {"python": "python", "cann": "calls"}


def _text(root: Path) -> Records:
    trace = next(root.rglob("trace_view.json"), None)
    events = [] if trace is None else json.loads(trace.read_bytes(), parse_float=str)
    named = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("ph") == "M" and event["name"] == "process_name"
    }
    rows = []
    for event in events:
        process = str(named.get(event.get("pid"), "")).lower()
        if event.get("ph") != "X" or "overlap" in process:
            continue
        kind = next((kind for name, kind in _HOST.items() if name == process), "")
        if kind == "python":
            kind = "steps" if event["name"].startswith("ProfilerStep") else str(event.get("cat") or "operators")
            kind = {"cpu_op": "operators", "python_function": "python"}.get(kind, kind)
        if not kind:
            kind = "device" if re.search("hardware|communication|hccl", process) else process
        rows.append(Row(kind, (event["pid"], event["tid"]), _ns(event["ts"]), _ns(event.get("dur", 0)), event))
    (table,) = root.rglob("kernel_details.csv")
    lines = list(csv.reader(io.StringIO(table.read_text("utf-8"))))
    start, length = (lines[0].index(name) for name in ("Start Time(us)", "Duration(us)"))
    stream = lines[0].index("Stream ID") if "Stream ID" in lines[0] else None
    for line in lines[1:]:
        lane = None if stream is None else line[stream]
        rows.append(Row("device", lane, _ns(line[start]), _ns(line[length]), line))

    def write(changed: Sequence[Row]) -> None:
        lost = {id(row.origin) for row in changed if row.lost}
        for row in changed:
            if isinstance(row.origin, dict):
                row.origin["ts"], row.origin["dur"] = _wrote(row.start_ns), float(_wrote(row.length_ns))
            else:
                row.origin[start], row.origin[length] = f"{_wrote(row.start_ns)}\t", _wrote(row.length_ns)
        if trace is not None:
            trace.write_text(json.dumps([event for event in events if id(event) not in lost]))
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(line for line in lines if id(line) not in lost)
        for name in ("op_statistic", "api_statistic", "step_trace_time", "communication"):
            for path in root.rglob(f"{name}*"):
                path.unlink()

    return Records(rows, write)


_TABLES = {"TASK": "device", "COMMUNICATION_OP": "device", "CANN_API": "calls", "PYTORCH_API": "operators"}


def _database(root: Path) -> Records:
    (path,) = root.rglob("*profiler*.db")
    rows = []
    with closing(sqlite3.connect(path)) as opened:
        names = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in names & {*_TABLES}:
            columns = {name for _, name, *_ in opened.execute(f'PRAGMA table_info("{table}")')}
            lane = next(name for name in ("streamId", "globalTid", "deviceId", "groupName") if name in columns)
            query = f'SELECT rowid, startNs, endNs, "{lane}" FROM "{table}"'
            rows += [
                Row(_TABLES[table], (table, lane), int(start), int(end) - int(start), (table, key))
                for key, start, end, lane in opened.execute(query)
            ]

    def write(changed: Sequence[Row]) -> None:
        with closing(sqlite3.connect(path)) as opened:
            for row in changed:
                table, key = row.origin
                if row.lost:
                    opened.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (key,))
                else:
                    times = row.start_ns, row.start_ns + row.length_ns, key
                    opened.execute(f'UPDATE "{table}" SET startNs = ?, endNs = ? WHERE rowid = ?', times)
            for table in names & {"COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO"}:
                opened.execute(f'DELETE FROM "{table}" WHERE globalTaskId NOT IN (SELECT globalTaskId FROM TASK)')
            if {"COMMUNICATION_TASK_INFO", "COMMUNICATION_OP"} <= names:
                opened.execute(
                    "DELETE FROM COMMUNICATION_TASK_INFO WHERE opId NOT IN (SELECT opId FROM COMMUNICATION_OP)"
                )
            opened.commit()
        for other in root.rglob("analysis.db"):
            other.unlink()

    return Records(rows, write)


_RECORDS = {"stars_soc": ("device", 64), "api_event": ("calls", 40), "compact": ("launches", 64)}


def _raw(root: Path) -> Records:
    """Read the records of a raw directory, which are placed by their number: their times are not changed."""
    rows, files = [], {}
    for path in sorted(root.rglob("*.slice_*")):
        found = next((known for name, known in _RECORDS.items() if name in path.name), None)
        if found is None or path.name.endswith(".done") or "_dic." in path.name:
            continue
        kind, size = found
        content = path.read_bytes()
        files[path] = [content[at : at + size] for at in range(0, len(content), size)]
        rows += [Row(kind, None, number, 0, (path, number)) for number in range(len(files[path]))]

    def write(changed: Sequence[Row]) -> None:
        lost = {row.origin for row in changed if row.lost}
        for path, parts in files.items():
            path.write_bytes(b"".join(part for number, part in enumerate(parts) if (path, number) not in lost))
            done = path.with_name(f"{path.name}.done")
            if done.exists():
                done.write_text(re.sub(r"filesize:\d+", f"filesize:{path.stat().st_size}", done.read_text()))
        for path in [*root.rglob("ffts_profile*")]:
            path.unlink()

    return Records(rows, write)


# -- damages -----------------------------------------------------------------------------------------------------------

_Change = Callable[[list[Row], random.Random], None]


def _lost(part: str) -> _Change:
    def change(rows: list[Row], chance: random.Random) -> None:
        begin, end = min(row.start_ns for row in rows), max(row.start_ns for row in rows)
        share = chance.uniform(0.1, 0.4)
        at = {"head": 0.0, "tail": 1 - share, "middle": chance.uniform(0.05, 0.95 - share)}[part]
        low, high = begin + int((end - begin) * at), begin + int((end - begin) * (at + share))
        for row in rows:
            row.lost = (low <= row.start_ns <= high) if part != "tail" else row.start_ns >= low

    return change


def _doubled(rows: list[Row], chance: random.Random) -> None:
    for row in chance.sample(rows, max(1, len(rows) // 10)):
        row.length_ns *= chance.choice((2, 5, 50))


def _cut_short(rows: list[Row], chance: random.Random) -> None:
    for row in chance.sample(rows, max(1, len(rows) // 5)):
        row.length_ns //= 3


def _shifted(rows: list[Row], chance: random.Random) -> None:
    lane = chance.choice(sorted({str(row.lane) for row in rows}))
    by = chance.choice((-1, 1)) * chance.choice((100_000, 1_000_000, 10_000_000))
    for row in rows:
        row.start_ns += by if str(row.lane) == lane else 0


def _zeroed(rows: list[Row], chance: random.Random) -> None:
    for row in chance.sample(rows, max(1, len(rows) // 4)):
        row.start_ns = row.length_ns = 0


def _without_duration(rows: list[Row], chance: random.Random) -> None:
    for row in chance.sample(rows, max(1, len(rows) // 10)):
        row.length_ns = 0


def _not_returned(rows: list[Row], chance: random.Random) -> None:
    end = max(row.start_ns + row.length_ns for row in rows)
    for row in chance.sample(rows, max(1, len(rows) // 50)):
        row.length_ns = end - row.start_ns


_MERGED = "merged processes"
_ANY = ("device", "calls", "operators", "python", "steps", "launches")
_TIMED = ("kineto", "text", "database")
DAMAGES: Mapping[str, tuple[_Change, tuple[str, ...], bool]] = {
    "lost head": (_lost("head"), _ANY, True),
    "lost middle": (_lost("middle"), _ANY, True),
    "lost tail": (_lost("tail"), _ANY, True),
    "doubled durations": (_doubled, ("device",), False),
    "shorter durations": (_cut_short, ("device",), False),
    "durations of 0": (_without_duration, ("device",), False),
    "shifted stream": (_shifted, ("device",), False),
    "zeroed times": (_zeroed, ("device", "operators"), False),
    "missing returns": (_not_returned, ("calls", "operators"), False),
}
"""By name: the damage, the kinds of records, and whether records without times of their own can be damaged so."""


# -- figures -----------------------------------------------------------------------------------------------------------

_OF_FIGURES = {
    "parts": (*KERNELS, *COMMUNICATION, *HOST, *STEPS),
    "causes": (*KERNELS, *COMMUNICATION, *HOST, *STEPS),
    "kernels": KERNELS,
    "step": (*STEPS, *KERNELS),
}


def _figures(run: Profile) -> dict[str, dict[str, float]]:
    advice = run.advice()
    kernels = run.by("kernel")
    return {
        "parts": {name: float(time) for name, time in advice.parts().items()},
        "causes": {str(row["cause"]): float(row["time_ns"]) for _, row in advice.budget().iterrows() if row["cause"]},
        "kernels": dict(zip(kernels["kernel"].astype(str), kernels["total_ns"].astype(float), strict=True)),
        "step": {"": float(advice.step_ns)},
    }


def _moved(before: Mapping[str, float], now: Mapping[str, float], whole: float) -> float:
    """Return by which share of a step, or of all kernels, a figure moved."""
    return sum(abs(before.get(name, 0.0) - now.get(name, 0.0)) for name in {*before, *now}) / max(whole, 1.0)


def _notes(run: Profile) -> Counter[tuple[str, str]]:
    told = run.notes[run.notes["severity"] != "info"]
    return Counter({(source, message): count for _, source, message, count, *_ in told.itertuples(index=False)})


@dataclass(frozen=True)
class Verdict:
    """What a damage did: ``told``, ``same``, ``silent`` with the figures that moved, or ``crash``."""

    source: str
    damage: str
    seed: int
    outcome: str
    figures: tuple[str, ...] = ()


def _loop(folder: Path) -> Path:
    """Write a trace of six steps of ten kernels, of which each step waits for all."""
    folder.mkdir(parents=True, exist_ok=True)
    trace = KinetoTrace()
    for step in range(6):
        begin = 1000 + 300 * step
        first = 12 * step  # which torch numbers
        trace.slice("user_annotation", f"ProfilerStep#{step}", begin, 300, External_id=900 + step, Ev_Idx=first)
        call = {"Python_id": 1 + step, "Python_parent_id": None, "Ev_Idx": first + 1}
        trace.slice("python_function", "train.py(7): step", begin + 1, 298, **call)
        for number in range(10 * step + 1, 10 * step + 11):
            at, ids = begin + 5 + 20 * (number - 10 * step - 1), {"correlation": number, "External_id": number}
            trace.operator("aten::mm", at, 15, number, Ev_Idx=first + 1 + number - 10 * step)
            trace.slice("cuda_runtime", "cudaLaunchKernel", at + 2, 4, **ids)
            trace.on_gpu("kernel", f"gemm_{number % 3}", at + 10, 12, 0, stream=7, **ids)
        trace.slice("cuda_runtime", "cudaDeviceSynchronize", begin + 210, 15, correlation=5000 + step)
    return trace.write(folder / "loop.pt.trace.json")


def sources() -> Iterator[tuple[str, str, Callable[[Path], Path]]]:
    """Yield name, format and writer of each recording."""
    yield "trace of torch", "kineto", GENERATED["trace of torch"]
    yield "trace of a loop", "kineto", _loop
    yield "text of a simulated job", "text", GENERATED["text of a simulated job"]
    yield "raw data of the simulator", "raw", GENERATED["raw data of the simulator"]
    for name, form in (("text of torch_npu", "text"), ("database of torch_npu", "database")):
        place = FOLDER / REAL[name]
        if place.is_dir():
            yield name, form, partial(copied, place)


_READ = {"kineto": _kineto, "text": _text, "database": _database, "raw": _raw}


def is_find(verdict: Verdict) -> bool:
    """Return whether a damage that breaks an invariant moved a figure in silence, or anything crashed."""
    return verdict.outcome == "crash" or (
        verdict.outcome == "silent" and not CANNOT_TELL.search(f"{verdict.source}: {verdict.damage}")
    )


def trials(seeds: Sequence[int], only: str = "", damaged: str = "") -> Iterator[Verdict]:
    """Yield what comes of each damage of each recording with each seed; both may be chosen by a pattern."""
    for name, form, write in sources():
        if not re.search(only, name):
            continue
        with tempfile.TemporaryDirectory(prefix="npuprof-physical-") as folder:
            sound = write(Path(folder) / "sound")
            intact = load(sound)
            figures, notes = _figures(intact), _notes(intact)
            kinds = Counter(row.kind for row in _READ[form](sound).rows)
            (Path(folder) / "copy").mkdir()
            for damage, (change, of, untimed) in DAMAGES.items():
                for kind in of if re.search(damaged, damage) else ():
                    if kinds[kind] < 5 or (form not in _TIMED and not untimed):
                        continue
                    for seed in seeds:
                        shutil.rmtree(Path(folder) / "copy", ignore_errors=True)
                        path = Path(folder) / "copy" / sound.name
                        path.parent.mkdir()
                        (shutil.copytree if sound.is_dir() else shutil.copyfile)(sound, path)
                        records = _READ[form](path)
                        chance = random.Random(f"{damage} {kind} {seed}")
                        change([row for row in records.rows if row.kind == kind], chance)
                        records.write(records.rows)
                        yield _judged(name, f"{damage} of {kind}", seed, path, figures, notes)
            for seed in seeds if form == "kineto" and re.search(damaged, _MERGED) else ():
                path = Path(folder) / "copy" / sound.name
                shutil.copyfile(sound, path)
                yield _merged(form, name, seed, path)


def _merged(form: str, name: str, seed: int, path: Path) -> Verdict:
    """Return what comes of a trace into which that of another process was merged: a set, or an error."""
    records = _READ[form](path)
    assert records.merge is not None
    records.merge(random.Random(f"{_MERGED} {seed}"))
    records.write(records.rows)
    try:
        opened = npuprof.load(path)
    except NpuprofError:
        return Verdict(name, _MERGED, seed, "told")
    is_set = not isinstance(opened, Profile) and len(opened) == 2
    return Verdict(name, _MERGED, seed, "told" if is_set else "silent", () if is_set else ("one run of two processes",))


def _judged(
    source: str,
    damage: str,
    seed: int,
    path: Path,
    before: Mapping[str, Mapping[str, float]],
    notes: Counter[tuple[str, str]],
) -> Verdict:
    try:
        run = load(path)
        now, told = _figures(run), _notes(run) - notes
    except NpuprofError:
        return Verdict(source, damage, seed, "told")
    except Exception as error:  # noqa: BLE001 - each of them is a find
        return Verdict(source, damage, seed, "crash", (repr(error),))
    wholes = {"parts": before["step"][""], "causes": before["step"][""], "step": before["step"][""]}
    moved = {name: _moved(parts, now[name], wholes.get(name, sum(parts.values()))) for name, parts in before.items()}
    moved = {name: share for name, share in moved.items() if share > LIMIT}
    silent = tuple(f"{name} {share:+.1%}" for name, share in moved.items() if not concerning(told, _OF_FIGURES[name]))
    outcome = "silent" if silent else "told" if moved else "same"
    return Verdict(source, damage, seed, outcome, silent)


def table(verdicts: Sequence[Verdict]) -> str:
    """Return how many damages of each kind and source were told, as a table in Markdown."""
    lines = ["| source | damage | tried | told | same figures | silent |", "|---|---|---|---|---|---|"]
    for source, damage in dict.fromkeys((each.source, each.damage) for each in verdicts):
        some = [each.outcome for each in verdicts if (each.source, each.damage) == (source, damage)]
        counts = [some.count(outcome) for outcome in ("told", "same", "silent")]
        lines.append(f"| {source} | {damage} | {len(some)} | {' | '.join(map(str, counts))} |")
    totals = [sum(each.outcome == outcome for each in verdicts) for outcome in ("told", "same", "silent")]
    return "\n".join([*lines, f"| all |  | {len(verdicts)} | {' | '.join(map(str, totals))} |", ""])


def main() -> int:
    """Print the table; return 0 where nothing was silent."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.damage.physical", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="files of --into, to print in one table")
    parser.add_argument("--into", type=Path, help="a file that receives every verdict as a line of JSON")
    parser.add_argument("--source", default="", help="a pattern of the recordings")
    parser.add_argument("--write", action="store_true", help="write the table into the page of support")
    chosen = parser.parse_args()
    begin = time.monotonic()
    verdicts = [Verdict(**json.loads(line)) for path in chosen.known for line in path.read_text().splitlines()]
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    for verdict in trials(seeds if chosen.seeds else (), chosen.source):
        verdicts.append(verdict)
        if verdict.outcome in ("silent", "crash"):
            print(
                f"  {verdict.outcome}: {verdict.source}: {verdict.damage}, seed {verdict.seed}: {verdict.figures}",
                flush=True,
            )
    if chosen.into:
        chosen.into.write_text("".join(f"{json.dumps(asdict(one))}\n" for one in verdicts))
    print(table(verdicts))
    print(f"{len(verdicts)} damages in {time.monotonic() - begin:.0f} s")
    if chosen.write:
        write_physical(table(verdicts))
    return 1 if any(is_find(each) for each in verdicts) else 0


if __name__ == "__main__":
    raise SystemExit(main())
