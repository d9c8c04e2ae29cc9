"""Ten questions to an assistant's tools, each with a truth that is computed without npuprof.

By hand: ``python -m tests.benchmarks.bench_assistant [--peer .../bin/msprof-mcp]``

Questions are asked of published results (``torch_npu/text/level1`` and ``torch_npu/llm_4ranks``), whose truth is
computed from their CSV and JSON files, and of generated runs, whose truth is what they were made of. Each may take two
calls, and 4,000 characters of an answer. With ``--peer``, msprof-mcp 0.1.8 (with ``mcp<2``, in an environment of its
own) is asked about the same files, by the tools that its descriptions name for a question.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mcp import Client, StdioServerParameters

from npuprof.simulator.jobs import SIZES, Faults, simulate, text
from npuprof.words.quantities import duration
from tests.analysis.test_code_lines import cell
from tests.difference import runs
from tests.samples import FOLDER

MOST_CALLS, MOST_CHARACTERS = 2, 4_000
_OUTPUT = "ASCEND_PROFILER_OUTPUT"
_MS = 1_000_000

Call: TypeAlias = tuple[str, dict[str, Any]]
Check: TypeAlias = Callable[[str], bool]


@dataclass(frozen=True)
class Question:
    """A question, the calls that answer it, and whether an answer holds the truth."""

    name: str
    calls: tuple[Call, ...]
    is_right: Check
    truth: str
    # The calls of msprof-mcp, and whether its answer holds the truth in any form.
    peers: tuple[Call, ...] = ()
    is_peer_right: Check = lambda _: False


@dataclass(frozen=True)
class Outcome:
    """What came of a question."""

    question: Question
    is_right: bool
    calls: int
    characters: int  # of the longest answer
    seconds: float

    @property
    def is_within(self) -> bool:
        """Whether it kept to the limits of calls and characters."""
        return self.calls <= MOST_CALLS and self.characters <= MOST_CHARACTERS


def ask(server: Any, questions: Sequence[Question], *, peer: bool = False) -> list[Outcome]:
    """Ask a server all questions, one after another."""

    async def talk() -> list[Outcome]:
        outcomes = []
        async with Client(server) as client:
            for question in questions:
                started, answers = time.perf_counter(), []
                for name, arguments in question.peers if peer else question.calls:
                    given = arguments if peer else {**arguments, "limit": MOST_CHARACTERS}
                    told = await client.call_tool(name, given)
                    answers.append("".join(getattr(part, "text", "") for part in told.content))
                took = time.perf_counter() - started
                longest = max(map(len, answers), default=0)
                check = question.is_peer_right if peer else question.is_right
                right = bool(answers) and check("\n".join(answers))
                outcomes.append(Outcome(question, right, len(answers), longest, took))
        return outcomes

    return asyncio.run(talk())


def _near(pattern: str, truth_ns: float, tolerance: float = 0.006) -> Check:
    """Return whether an answer has a time, as the group of a pattern, that is the truth within rounding."""

    def check(answer: str) -> bool:
        found = re.search(pattern, answer)
        return found is not None and abs(_nanoseconds(found[1]) - truth_ns) <= tolerance * truth_ns + 1

    return check


def _has(*patterns: str) -> Check:
    return lambda answer: all(re.search(pattern, answer) for pattern in patterns)


def _both(*checks: Check) -> Check:
    return lambda answer: all(check(answer) for check in checks)


def _first_row(name: str) -> Check:
    """Return whether the first row of an answer's table begins with a name."""
    return lambda answer: bool(re.search(rf"\|-[-|: ]*\n\| `{re.escape(name)}`", answer))


def _nanoseconds(text: str) -> float:
    number, unit = text.split()
    return float(number.replace(",", "")) * {"ns": 1, "µs": 1_000, "ms": _MS, "s": 1_000 * _MS}[unit]


_TIME = r"([\d.,]+ (?:ns|µs|ms|s))"


# -- published results -------------------------------------------------------------------------------------------------


def _rows(run: Path, name: str) -> Iterator[dict[str, str]]:
    path = run / _OUTPUT / name
    if path.exists():
        with path.open(encoding="utf-8-sig") as file:
            yield from csv.DictReader(file)


def _types(folder: Path) -> Counter[str]:
    times: Counter[str] = Counter()
    for run in sorted(folder.glob("rank*")):
        for row in _rows(run, "op_statistic.csv"):
            times[row["OP Type"]] += round(float(row["Total Time(us)"]) * 1_000)
    return times


def _steps(folder: Path, column: str) -> list[float]:
    """Return a column of the vendor's steps in nanoseconds, a rank each."""
    return [
        1_000 * float(row[column]) for run in sorted(folder.glob("rank*")) for row in _rows(run, "step_trace_time.csv")
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _waited_for(folder: Path) -> int:
    """Return the rank whose notifications ranks waited for longest, by the tasks of their collectives."""
    waits: Counter[int] = Counter()
    for file in sorted(folder.glob(f"rank*/{_OUTPUT}/trace_view.json")):
        for event in json.loads(file.read_text("utf-8")):
            if event.get("name") == "Notify_Wait":
                waits[int(event["args"]["dst rank"])] += round(1_000 * float(event["dur"]))
    return waits.most_common(1)[0][0]


def _costliest_line(run: Path) -> str:
    """Return the line of the user's script below which most device time was launched."""
    times: Counter[str] = Counter()
    for row in _rows(run, "operator_details.csv"):
        if found := re.search(r"/main\.py\((\d+)\)", row["Call Stack"] or ""):
            times[found[1]] += round(1_000 * float(row["Device Self Duration(us)"]))
    return times.most_common(1)[0][0]


def _slowest_product(folder: Path) -> str:
    """Return the shapes of the matrix product with the fewest operations a second, of those with 1 % of kernel time."""
    times: dict[str, float] = {}
    counts: Counter[str] = Counter()
    whole = 0.0
    for run in sorted(folder.glob("rank*")):
        for row in _rows(run, "kernel_details.csv"):
            took = float(row["Duration(us)"])
            whole += took
            shapes = row["Input Shapes"].strip('"')
            if row["Type"].startswith("MatMul") and shapes.count(",") == 2:
                times[shapes] = times.get(shapes, 0.0) + took
                counts[shapes] += 1

    def operations(shapes: str) -> float:
        first, second = ([int(size) for size in shape.split(",")] for shape in shapes.split(";"))
        common = next(size for size in first if size in second)
        return 2.0 * common * (first[0] * first[1] // common) * (second[0] * second[1] // common)

    known = [shapes for shapes in times if times[shapes] >= 0.01 * whole]
    return min(known, key=lambda shapes: operations(shapes) * counts[shapes] / times[shapes])


def published(root: Path) -> list[Question]:
    """Return questions about two published results below a folder, with the truth of their files."""
    small, large = root / "text" / "level1", root / "llm_4ranks"
    questions = []
    for folder in (small, large):
        at = str(folder.relative_to(root))
        most, time_ns = _types(folder).most_common(1)[0]
        exposed = _mean(_steps(folder, "Communication(Not Overlapped)"))
        output = str(folder / ("rank0_ascend_pt" if folder is small else "rank_0_ascend_pt") / _OUTPUT)
        questions += [
            Question(
                f"{at}: kernel type with most time",
                (("top", {"path": at, "by": "op_type"}),),
                _both(_first_row(most), _near(rf"`{most}` \| [^\n]*?{_TIME}", time_ns)),
                f"{most}, {duration(time_ns)}",
                (("analyze_op_statistic", {"csv_path": f"{output}/op_statistic.csv"}),),
                _has(rf'"top_operators": \[\s*{{\s*"op_type": "{most}"'),
            ),
            Question(
                f"{at}: communication not overlapped",
                (("breakdown", {"path": at}),),
                _near(rf"[Cc]ommunication not overlapped[^:\n]*: {_TIME}", exposed),
                f"{duration(round(exposed))} a step",
                (("analyze_overlap", {"trace_path": f"{output}/trace_view.json"}),),
                _has(f"{_steps(folder, 'Communication(Not Overlapped)')[0] / _MS:.3f}"),  # of the rank that it reads
            ),
        ]
    line, absent = _costliest_line(small / "rank0_ascend_pt"), _waited_for(small)
    computing = _steps(large, "Computing")
    slow = [rank for rank, time_ns in enumerate(computing) if time_ns > 1.2 * min(computing)]
    free = _mean(_steps(large, "Free"))
    product = _slowest_product(large)
    changed = _steps(large, "Computing")[2] - _steps(large, "Computing")[0]
    waited = _steps(small, "Communication(Not Overlapped)")
    without = [
        rank for rank in range(4) if not (large / f"rank_{rank}_ascend_pt" / _OUTPUT / "kernel_details.csv").exists()
    ]
    details = {"csv_path": str(large / "rank_2_ascend_pt" / _OUTPUT / "kernel_details.csv")}
    matrix = {"json_path": str(large / "rank_0_ascend_pt" / _OUTPUT / "communication_matrix.json")}
    trace = {"trace_path": str(small / "rank0_ascend_pt" / _OUTPUT / "trace_view.json")}
    both = r"ranks? 2(?:,| and) 3"
    return [
        *questions,
        Question(
            "text/level1: who is waited for",
            (("ranks", {"path": "text/level1"}), ("advise", {"path": "text/level1"})),
            _has(rf"wait for rank {absent}\b"),
            f"rank {absent}, which is not here",
            (("analyze_overlap", trace),),
            _has(rf"rank\D{{0,5}}{absent}\b"),
        ),
        Question(
            "llm_4ranks: who is waited for",
            (("ranks", {"path": "llm_4ranks"}),),
            _has(both, r"\| `?rank 3[^|]*\|[^\n]*356 ms|\| 3 \| 356 ms"),
            "ranks 2 and 3",
            (("analyze_communication", matrix),),
            _has(r"rank\D{0,5}2\b", r"rank\D{0,5}3\b"),
        ),
        Question(
            "text/level1: line with most device time",
            (("top", {"path": "text/level1", "by": "line"}),),
            _first_row(f"main.py:{line}"),
            f"main.py:{line}",
            (("find_slices", {**trace, "pattern": "main.py"}),),
            _has(rf'"aggregates": \[\s*{{\s*"name": "main.py\({line}\)'),
        ),
        Question(
            "llm_4ranks: idle, and why",
            (("breakdown", {"path": "llm_4ranks"}),),
            _has(rf"{100 * free / _mean(_steps(large, 'Stage')):.1f} % idle", "no calls of the host"),
            f"{duration(round(free))} a step; no call of the host was recorded",
            (("analyze_kernel_details", details),),
            _has("(?i)host"),
        ),
        Question(
            "text/level1: idle, and why",
            (("breakdown", {"path": "text/level1"}),),
            _has(r"idle 29\.\d %: forward dispatch 9\.\d %"),
            "the host dispatches operators",
            (("analyze_overlap", trace),),
            _has("(?i)dispatch"),
        ),
        Question(
            "llm_4ranks: slow rank",
            (("ranks", {"path": "llm_4ranks"}),),
            _has(both),
            f"ranks {slow}",
            (("analyze_communication", matrix),),
            _has(r"(?i)slow[^\n]*rank\D{0,5}2\b"),
        ),
        Question(
            "text/level1: slow rank",
            (("ranks", {"path": "text/level1"}),),
            _has("[Nn]o rank stands out"),
            "none of the two",
            (),
        ),
        Question(
            "llm_4ranks: inefficient matmul",
            (("top", {"path": "llm_4ranks", "by": "efficiency"}),),
            _has(rf"MatMulV3` \| `{product}` \|[^\n]*\| 2[5-7]\.?\d* %"),
            product,
            (("analyze_kernel_details", details),),
            _has(product),
        ),
        Question(
            "llm_4ranks: what changed between stages",
            (("compare", {"a": "llm_4ranks/rank_2_ascend_pt", "b": "llm_4ranks/rank_0_ascend_pt"}),),
            _has(rf"computing[^\n]*\+{duration(round(changed))}", product),
            f"computing +{duration(round(changed))}",
            (("analyze_kernel_details", details),),
            _has(r"169\.\d"),
        ),
        Question(
            "text/level1: what changed between ranks",
            (("compare", {"a": "text/level1/rank0_ascend_pt", "b": "text/level1/rank1_ascend_pt"}),),
            _has(r"waiting[^\n]*\+5\.6\d ms"),
            f"waiting +{duration(round(waited[0] - waited[1]))}",
            (("analyze_overlap", trace),),
            _has(r"\b5\.6\d*"),
        ),
        Question(
            "text/level1: what is missing",
            (("describe", {"path": "text/level1"}),),
            _has("ranks 2-7"),
            "ranks 2 to 7 of the eight",
            (),
        ),
        Question(
            "llm_4ranks: what is missing",
            (("advise", {"path": "llm_4ranks"}),),
            _has(f"ranks {without[0]} and {without[1]}: load the whole result, this one has no kernels"),
            f"kernels of ranks {without}",
            (("get_profiler_config", {"json_path": f"{large}/rank_0_ascend_pt/profiler_info_0.json"}),),
        ),
    ]


# -- generated runs ----------------------------------------------------------------------------------------------------

_SLOW, _SLOWER = 3, 0.3


def make(folder: Path) -> None:
    """Write the generated runs: a job with a slow rank, the same without, two runs of kernels, and one with code."""
    plan = SIZES[8]
    text.write(simulate(plan, Faults(slow_ranks={_SLOW: _SLOWER}), seed=3), folder / "slow_job", kernels=True)
    text.write(simulate(plan, Faults(), seed=3), folder / "job", kernels=True)
    for name, product_ns in (("before", 4 * _MS), ("after", 7 * _MS)):
        steps = [[("MatMulV3", "4096,4096;4096,4096", product_ns), ("Add", "1024", _MS)]] * 6
        runs.run(steps, name=name, chip="Ascend 910B3").save(folder / name)
    runs.profile(cell(), code={"<cell [3]>": "a\nb\nc\nd\ne\n"}, name="cell").save(folder / "cell")


def generated() -> list[Question]:
    """Return the ten questions about generated runs."""
    plan = SIZES[8]
    slow, usual = simulate(plan, Faults(slow_ranks={_SLOW: _SLOWER}), seed=3), simulate(plan, Faults(), seed=3)
    gain_ns = (slow.duration_ns - usual.duration_ns) / plan.steps
    return [
        Question(
            "made: kernel type with most time",
            (("top", {"path": "after", "by": "op_type"}),),
            _both(_first_row("MatMulV3"), _near(rf"MatMulV3` \| [^\n]*?{_TIME}", 42 * _MS)),
            "MatMulV3, 42.0 ms",
        ),
        Question(
            "made: communication not overlapped",
            (("breakdown", {"path": "after"}),),
            _has(r"[Cc]ommunication not overlapped[^:\n]*: 0 ns"),
            "none",
        ),
        Question(
            "made: who is waited for", (("ranks", {"path": "slow_job"}),), _has(rf"rank {_SLOW}\b"), f"rank {_SLOW}"
        ),
        Question(
            "made: line with most device time",
            (("code", {"path": "cell"}), ("top", {"path": "cell", "by": "line"})),
            _first_row("model.py:7"),
            "model.py:7, 80 ns of 130 ns",
        ),
        Question(
            "made: idle, and why",
            (("breakdown", {"path": "after"}),),
            _has(r"20\.0 %", "idle"),
            "2 ms of 10 ms, without a host",
        ),
        Question(
            "made: slow rank",
            (("ranks", {"path": "slow_job"}),),
            _has(rf"[Ss]low[^\n]*: ranks {_SLOW}\b"),
            f"rank {_SLOW}",
        ),
        Question(
            "made: inefficient matmul",
            (("top", {"path": "after", "by": "efficiency"}),),
            _first_row("MatMulV3"),
            "MatMulV3 4096,4096;4096,4096",
        ),
        Question(
            "made: what changed",
            (("compare", {"a": "after", "b": "before"}),),
            _has(r"MatMulV3[^\n]*\+3\.00 ms"),
            "MatMulV3 +3.00 ms",
        ),
        Question(
            "made: gain of a fix",
            (("advise", {"path": "slow_job"}),),
            _near(rf"[Rr]ank {_SLOW}\b[^\n]*?−{_TIME}", gain_ns, 0.05),
            f"{duration(round(gain_ns))} a step",
        ),
        Question(
            "made: what is missing",
            (("describe", {"path": "after"}),),
            _has(r"[Ww]ithout rows:[^\n]*operators"),
            "operators and others",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="the command of msprof-mcp")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        make(made)
        asked = [(made, generated(), False)]
        samples = FOLDER / "torch_npu"
        if samples.is_dir():
            asked += [(samples, published(samples), False)]
            asked += [(samples, published(samples), True)] if parsed.peer else []
        for folder, questions, is_peer in asked:
            command = str(parsed.peer) if is_peer else sys.executable
            options = [] if is_peer else ["-m", "npuprof", "mcp", str(folder)]
            outcomes = ask(StdioServerParameters(command=command, args=options), questions, peer=is_peer)
            print(f"{'msprof-mcp' if is_peer else 'npuprof'}: {folder.name}")
            for each in outcomes:
                verdict = "right" if each.is_right else "WRONG"
                limits = "" if each.is_within else "  beyond the limits"
                print(f"  {verdict}  {each.calls} calls {each.characters:7,} characters {each.seconds:6.2f} s  "
                      f"{each.question.name}: {each.question.truth}{limits}")  # fmt: skip
            print(f"  {sum(each.is_right for each in outcomes)} of {len(outcomes)} right")


if __name__ == "__main__":
    main()
