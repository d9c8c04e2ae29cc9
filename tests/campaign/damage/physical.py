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
import json
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pandas as pd

import npuprof
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from tests.campaign.damage.concerns import COMMUNICATION, HOST, KERNELS, MEMORY, STEPS, concerning
from tests.campaign.damage.loops import database_of_a_loop
from tests.campaign.damage.page import write_physical
from tests.campaign.damage.recordings import GENERATED, REAL, copied
from tests.campaign.damage.records import READERS, Row
from tests.campaign.damage.trial import load
from tests.samples import FOLDER
from tests.sources.kineto.traces import KinetoTrace

CANNOT_TELL: Mapping[str, str] = {
    "shorter durations of device": "a duration that is shorter may be true: kernels of one name differ",
    "lost tail of memory": "an allocator may have done no more before the recording ended",
    "lost head of memory": "an allocator may have done nothing before, and its totals may begin anywhere",
    "text of a simulated job: lost .* of (device|kernels)": "kernel_details.csv alone: no call says what was launched",
    "trace of torch: lost tail of (device|communication|kernels)": "nothing waits: it may have run after the end",
    "trace of torch: doubled durations of device": "nothing waits: the last row of a stream may have lasted longer",
    "trace of torch: shifted stream of device": "nothing waits: a stream that ran later may have",
    "raw data of the simulator: shifted stream of device": "nothing waits: a stream that ran later may have",
    "raw data of a simulated loop: doubled durations of device": "a wait returns less than 10 µs before the end",
}
"""Patterns of damages that break no invariant, at least with some seeds, and why."""

_LEAST = 5  # records of a kind: of fewer, a share is not one
LIMIT = 0.01
"""By which share of it a figure may move without a note."""


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
_OF_DEVICES = ("device", "kernels", "copies", "communication")
_ANY = (*_OF_DEVICES, "calls", "operators", "python", "steps", "launches", "memory")
DAMAGES: Mapping[str, tuple[_Change, tuple[str, ...]]] = {
    "lost head": (_lost("head"), _ANY),
    "lost middle": (_lost("middle"), _ANY),
    "lost tail": (_lost("tail"), _ANY),
    "doubled durations": (_doubled, ("device",)),
    "shorter durations": (_cut_short, ("device",)),
    "durations of 0": (_without_duration, ("device",)),
    "shifted stream": (_shifted, ("device",)),
    "zeroed times": (_zeroed, ("device", "operators")),
    "missing returns": (_not_returned, ("calls", "operators")),
}
"""By name: the damage, and the kinds of records that can be damaged so."""


# -- figures -----------------------------------------------------------------------------------------------------------

_OF_FIGURES = {
    "parts": (*KERNELS, *COMMUNICATION, *HOST, *STEPS),
    "causes": (*KERNELS, *COMMUNICATION, *HOST, *STEPS),
    "kernels": KERNELS,
    "copies": (*KERNELS, "cop(y|ies)"),
    "collectives": (*COMMUNICATION, *KERNELS),  # which are kernels on a GPU
    "memory": MEMORY,
    "step": (*STEPS, *KERNELS),
}


def _figures(run: Profile) -> dict[str, dict[str, float]]:
    advice = run.advice()
    kernels, peaks = run.by("kernel"), run.summary.memory_peaks
    copies = run.tasks[run.tasks["task_type"].astype(str).str.contains("memcpy|memset|sdma", case=False)]
    return {
        "parts": {name: float(time) for name, time in advice.parts().items()},
        "causes": {str(row["cause"]): float(row["time_ns"]) for _, row in advice.budget().iterrows() if row["cause"]},
        "kernels": dict(zip(kernels["kernel"].astype(str), kernels["total_ns"].astype(float), strict=True)),
        "copies": _sums(copies, "task_type"),
        "collectives": _sums(run.communication, "name"),
        "memory": _sums(peaks.assign(duration_ns=peaks["allocated_bytes"]), "component"),
        "step": {"": float(advice.step_ns)},
    }


def _sums(rows: pd.DataFrame, name: str) -> dict[str, float]:
    sums = rows["duration_ns"].astype(float).groupby(rows[name].astype(str)).sum()
    return {str(key): float(value) for key, value in sums.items()}


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
    """Write a trace of six steps of ten kernels and a copy, of which each step waits for all, and a block of memory."""
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
        trace.slice("cuda_runtime", "cudaMemcpyAsync", begin + 206, 3, correlation=4000 + step)
        trace.on_gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", begin + 212, 6, 0, correlation=4000 + step)
        trace.slice("cuda_runtime", "cudaDeviceSynchronize", begin + 210, 15, correlation=5000 + step)
        for at, size, total in ((4, 512 * (1 + step), 512 * (1 + step)), (230, -512 * (1 + step), 0)):
            trace.memory(begin + at, size, 4096, total, device=0, reserved=1 << 20)
    return trace.write(folder / "loop.pt.trace.json")


_PUBLISHED = (
    ("text of torch_npu", "text", REAL["text of torch_npu"]),
    ("database of torch_npu", "database", REAL["database of torch_npu"]),
    ("raw data of many launches", "raw", "raw/sliced_2k"),
)


def sources() -> Iterator[tuple[str, str, Callable[[Path], Path]]]:
    """Yield name, format and writer of each recording."""
    yield "trace of torch", "kineto", GENERATED["trace of torch"]
    yield "trace of a loop", "kineto", _loop
    yield "text of a simulated job", "text", GENERATED["text of a simulated job"]
    yield "database of a loop", "database", database_of_a_loop
    yield "raw data of the simulator", "raw", GENERATED["raw data of the simulator"]
    yield "raw data of a simulated loop", "raw", GENERATED["a recording of the simulator"]
    for name, form, place in _PUBLISHED:
        if (FOLDER / place).is_dir():
            yield name, form, partial(copied, FOLDER / place)


def is_find(verdict: Verdict) -> bool:
    """Return whether a damage that breaks an invariant moved a figure in silence, or anything crashed."""
    what = f"{verdict.source}: {verdict.damage}"
    is_silent = verdict.outcome == "silent" and not any(re.search(pattern, what) for pattern in CANNOT_TELL)
    return verdict.outcome == "crash" or is_silent


def trials(seeds: Sequence[int], only: str = "", damaged: str = "") -> Iterator[Verdict]:
    """Yield what comes of each damage of each recording with each seed; both may be chosen by a pattern."""
    for name, form, write in sources():
        if not re.search(only, name):
            continue
        with tempfile.TemporaryDirectory(prefix="npuprof-physical-") as folder:
            sound = write(Path(folder) / "sound")
            records = READERS[form](sound)
            records.write(records.rows)  # without the vendor's sums, which is no damage
            intact = load(sound)
            figures, notes = _figures(intact), _notes(intact)
            kinds = Counter(kind for row in records.rows for kind in row.kinds)
            (Path(folder) / "copy").mkdir()
            for damage, (change, of) in DAMAGES.items():
                for kind in of:
                    if kinds[kind] < _LEAST or not re.search(damaged, f"{damage} of {kind}"):
                        continue
                    for seed in seeds:
                        shutil.rmtree(Path(folder) / "copy", ignore_errors=True)
                        path = Path(folder) / "copy" / sound.name
                        path.parent.mkdir()
                        (shutil.copytree if sound.is_dir() else shutil.copyfile)(sound, path)
                        records = READERS[form](path)
                        chance = random.Random(f"{damage} {kind} {seed}")
                        change([row for row in records.rows if kind in row.kinds], chance)
                        records.write(records.rows)
                        yield _judged(name, f"{damage} of {kind}", seed, path, figures, notes)
            for seed in seeds if form == "kineto" and re.search(damaged, _MERGED) else ():
                path = Path(folder) / "copy" / sound.name
                shutil.copyfile(sound, path)
                yield _merged(form, name, seed, path)


def _merged(form: str, name: str, seed: int, path: Path) -> Verdict:
    """Return what comes of a trace into which that of another process was merged: a set, or an error."""
    records = READERS[form](path)
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
