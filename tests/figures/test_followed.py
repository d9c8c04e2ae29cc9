"""What figures and answers without data say is done, and the sentence goes away: each of them has a trial."""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import plotly.graph_objects as go
import pytest

import npuprof
from npuprof.collectors import capabilities
from npuprof.errors import NpuprofError, OptionsError
from npuprof.figures import chart
from npuprof.figures.memory import plot_memory
from npuprof.options import Options
from npuprof.options.specification import FRONT_ENDS
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import jobs, npu, ranks
from npuprof.simulator.jobs import text
from npuprof.tables.info import Info
from tests import factories
from tests.advice.test_collected_as_told import asked_for, beginnings
from tests.analysis.test_launches import training
from tests.report.test_code import profile as run_of
from tests.sources.test_followed import _texts

_PACKAGE = Path(npuprof.__file__).parent


class Trial(NamedTuple):
    """An answer of what was collected, what it says among others, and what is done about it."""

    of: Callable[[Any], str]
    says: str
    before: Callable[[Path], Any]
    after: Callable[[Path, str], Any]


def _text(figure: go.Figure) -> str:
    """Return what a figure says where it has no data, and in its title."""
    notes = "" if figure.data else " ".join(note.text for note in figure.layout.annotations)
    return f"{figure.layout.title.text} {notes}"


def _train(size: int, *, steps: bool, host_s: float) -> None:
    x = npu.ones((size, size))
    for _ in range(3):
        x = x @ x / size
        end = time.monotonic() + host_s
        while time.monotonic() < end:
            pass
        if steps:
            npuprof.step()


def _run(folder: Path, size: int = 64, *, steps: bool = False, host_s: float = 0, **options: Any) -> Profile:
    with npuprof.profile(collector="simulator", output=folder, **options) as session:
        _train(size, steps=steps, host_s=host_s)
    return session.result


def _as_told(folder: Path, said: str, **options: Any) -> Profile:
    """Collect again with the options that a sentence names."""
    told = re.search(r"collect with (--[^<]*)", said)
    assert told is not None, said
    return _run(folder, **{**options, **asked_for(told[0])})


def _of_ranks(folder: Path, *, level: int = 1, marked: bool = True) -> ProfileSet:
    def train(rank: Any) -> None:
        x = npu.ones((64, 64))
        for _ in range(3):
            if marked:
                rank.step()
            x = x @ x / 64
            rank.all_reduce(x.mean()).item()
        if marked:
            rank.step()

    ranks(2).run(train, folder, level=level)
    return npuprof.load_set(folder)


def _job(folder: Path, *stages: int, kernels_of: tuple[int, ...] = ()) -> ProfileSet:
    """Load the ranks of some stages of a pipeline, some with kernels."""
    plan = jobs.SIZES[8]
    job = jobs.simulate(plan, seed=1)
    for rank in job.recorded_ranks:
        if rank // (plan.ranks // plan.pipeline) in stages:
            text.write_rank(job, rank, folder / f"rank{rank}_ascend_pt", kernels=rank in kernels_of)
    return npuprof.load_set(folder)


def _error(answer: Callable[[], object]) -> str:
    try:
        answer()
    except NpuprofError as error:
        return str(error)
    return ""


def _of_chip(run: Profile, name: str) -> Profile:
    run.info.chip = name
    return run


def _by_torch(run: Profile) -> Profile:
    run.info.collector = "torch_npu"
    return run


def _without(run: Profile, table: str) -> Profile:
    """The run without a table, such as the links of the kernels of a captured graph."""
    run.tables[table] = run.tables[table].iloc[:0]
    return run


def _apart(folder: Path, *, level: int) -> ProfileSet:
    """Two runs that have nothing to do with each other."""
    for name in ("one", "other"):
        _run(folder, name=name, level=level)
    return npuprof.load_set(folder)


def _titles(figure: go.Figure) -> list[str]:
    return [note.text for note in figure.layout.annotations]


_TRIALS: dict[str, Trial] = {
    "memory": Trial(
        lambda run: _text(run.plot_memory()),
        "collect with --memory",
        lambda folder: _run(folder, level=0),
        lambda folder, said: _as_told(folder, said, level=0),
    ),
    "memory of a host": Trial(
        lambda run: _text(run.plot_memory()),
        "collect with --activities cpu,npu --memory",
        lambda folder: _run(folder, activities=("cpu",)),
        lambda folder, said: _as_told(folder, said),
    ),
    "counters": Trial(
        lambda run: _text(run.plot_counters()),
        "collect with --activities cpu,npu --memory, or --activities cpu,npu --host-sys cpu,mem",
        lambda folder: _run(folder, activities=("cpu",)),
        lambda folder, said: _as_told(folder, said.partition(", or ")[0]),
    ),
    "the other counters": Trial(
        lambda run: _text(run.plot_counters()),
        "--host-sys cpu,mem",
        lambda folder: _run(folder, activities=("cpu",)),
        lambda folder, said: _as_told(folder, f"collect with {said.partition(', or ')[2]}"),
    ),
    "chosen counters": Trial(
        lambda run: _text(run.plot_counters(counters=["Nothing" if run.info.name == "wrong" else "AI Core Freq"])),
        "none of the requested counters was sampled<br>sampled counters: AI Core Freq",
        lambda folder: _run(folder, name="wrong"),
        lambda folder, _: _run(folder),
    ),
    "roofline": Trial(
        lambda run: _text(run.plot_roofline()),
        "collect with --level 1 --aic-metrics ArithmeticUtilization",
        lambda folder: _run(folder, level=0),
        lambda folder, said: _as_told(folder, said, level=0),
    ),
    "roofline of a host": Trial(
        lambda run: _text(run.plot_roofline()),
        "this run has no kernels<br>collect with --activities cpu,npu --aic-metrics ArithmeticUtilization",
        lambda folder: _run(folder, activities=("cpu",)),
        lambda folder, said: _as_told(folder, said),
    ),
    "kernel": Trial(
        lambda run: _text(run.plot_kernel(1)),
        "collect with --level 1 --aic-metrics PipeUtilization",
        lambda folder: _run(folder, level=0),
        lambda folder, said: _as_told(folder, said, level=0),
    ),
    "kernel at a level": Trial(
        lambda run: _text(run.plot_kernel(1)),
        "collect with --aic-metrics PipeUtilization",
        lambda folder: _run(folder, aic_metrics="none"),
        lambda folder, said: _as_told(folder, said, aic_metrics="none"),
    ),
    "steps": Trial(
        lambda run: _text(run.plot_steps()),
        "mark them with npuprof.step()",
        lambda folder: _run(folder),
        lambda folder, _: _run(folder, steps=True),
    ),
    "steps of ranks": Trial(
        lambda runs: _text(runs.plot_overview()),
        "mark them with prof.step() or a schedule",
        lambda folder: _of_ranks(folder, marked=False),
        lambda folder, _: _of_ranks(folder),
    ),
    "communication": Trial(
        lambda runs: _text(runs.plot_communication()),
        "collect several ranks",
        lambda folder: _run(folder),
        lambda folder, _: _of_ranks(folder, level=0),
    ),
    "waiting": Trial(
        lambda runs: _text(runs.plot_communication()) + " ".join(_titles(runs.plot_communication())),
        "collect at level 1 or higher",
        lambda folder: _of_ranks(folder, level=0),
        lambda folder, _: _of_ranks(folder, level=1),
    ),
    "matrix": Trial(
        lambda runs: _text(runs.plot_communication_matrix()),
        "collect several ranks at level 1 or higher",
        lambda folder: _run(folder),
        lambda folder, _: _of_ranks(folder, level=1),
    ),
    "clock": Trial(
        lambda runs: _text(runs.plot_ranks()),
        "collect communication (level 1 or higher) on the ranks of one job",
        lambda folder: _apart(folder, level=0),
        lambda folder, _: _of_ranks(folder),
    ),
    "clock of runs at a level": Trial(
        lambda runs: _text(runs.plot_ranks()),
        "load ranks that take part in the same collectives",
        lambda folder: _apart(folder, level=1),
        lambda folder, _: _of_ranks(folder),
    ),
    "pipeline": Trial(
        lambda runs: _text(runs.plot_pipeline()),
        "load the ranks of all stages of a pipeline, collected at level 1 or higher",
        lambda folder: _of_ranks(folder),
        lambda folder, _: _job(folder, 0, 1),
    ),
    "what if: host": Trial(
        lambda run: _error(lambda: run.what_if(cause={"sync_call": 0})),
        "so its factor has no effect; level=1 records it",
        lambda folder: _without(_run(folder, level=0), "api"),
        lambda folder, _: _run(folder, level=1),
    ),
    "what if: Python": Trial(
        lambda run: _error(lambda: run.what_if(cause={"python": 0})),
        "so its factor has no effect; the activity cpu",
        lambda folder: _run(folder, activities=("npu",), host_s=0.02),
        lambda folder, _: _run(folder, host_s=0.02),
    ),
    "what if: launches": Trial(
        lambda run: _error(lambda: run.what_if(cause={"python": 0})),
        "the host cannot be replayed: collect with level=1, without captured graphs",
        lambda folder: _without(_run(folder, host_s=0.02), "links"),
        lambda folder, _: _run(folder, level=1, host_s=0.02),
    ),
    "what if: waiting": Trial(
        lambda run: _error(lambda: run.what_if(part={"moving": 0})),
        "waiting and moving of collectives cannot be separated: collect with level=1",
        lambda folder: _without(_of_ranks(folder)[0], "communication_tasks"),
        lambda folder, _: _of_ranks(folder, level=1)[0],
    ),
    "what if: kernels of ranks": Trial(
        lambda runs: _error(lambda: runs.what_if(kernel={"MatMulV3": 0.5})),
        "collect kernels on one rank of each pipeline stage",
        lambda folder: _job(folder, 0, 1, kernels_of=(0,)),
        lambda folder, _: _job(folder, 0, 1, kernels_of=(0, 4)),
    ),
    "efficiency": Trial(
        lambda run: " ".join(run.efficiency().attrs["notes"]),
        "or collect at level 1 with aic_metrics=PipeUtilization",
        lambda folder: _of_chip(_run(folder, 512, level=0), ""),
        lambda folder, _: _of_chip(_run(folder, 512, level=1, aic_metrics="PipeUtilization"), ""),
    ),
    "efficiency of a family": Trial(
        lambda run: " ".join(run.efficiency().attrs["notes"]),
        "or collect at level 1 with aic_metrics=PipeUtilization",
        lambda folder: _of_chip(_run(folder, 512, level=0), "Ascend 910B"),
        lambda folder, _: _of_chip(_run(folder, 512, level=1, aic_metrics="PipeUtilization"), "Ascend 910B"),
    ),
    "lines": Trial(
        lambda run: " ".join(str(run.code()).split()),
        "The run knows no line of it: collect with --stacks, or profile a cell with %%npuprof.",
        lambda _: _by_torch(run_of(factories.all_tables())),
        lambda _, __: run_of(training()),
    ),
    "timeline of memory": Trial(
        lambda run: _error(
            lambda: run.to_memory_timeline(Path(run.info.recording or ".") / "memory.json", device="npu:0")
        ),
        "devices with samples: none: collect with memory on",
        lambda folder: _run(folder),
        lambda folder, _: _run(folder, memory=True),
    ),
    "lines to select": Trial(
        lambda run: _error(lambda: run.select(line=4)),
        "the run does not know lines of code: record with Python stacks, or a cell",
        lambda _: run_of(factories.all_tables()),
        lambda _, __: run_of(training()),
    ),
}
"""Figures of :mod:`npuprof.figures`, then other answers."""


@pytest.mark.long
@pytest.mark.parametrize("trial", list(_TRIALS.values()), ids=list(_TRIALS))
def test_followed_advice_silences_the_sentence(trial: Trial, tmp_path: Path) -> None:
    said = trial.of(trial.before(tmp_path / "before"))
    assert trial.says in said
    again = trial.of(trial.after(tmp_path / "after", said))
    assert trial.says not in again
    assert not re.search(r"has no |no record|unknown", again)


@pytest.mark.long
def test_advising_figures_are_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reached: set[tuple[str, int]] = set()
    make = chart.nothing

    def made(*words: Any, **named: Any) -> go.Figure:
        code = sys._getframe(1)
        reached.add((Path(code.f_code.co_filename).name, code.f_lineno))
        return make(*words, **named)

    sites = set()
    for path in (_PACKAGE / "figures").glob("*.py"):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "nothing"
        ]
        if calls:
            monkeypatch.setattr(f"npuprof.figures.{path.stem}.nothing", made)
        sites |= {(path.name, node.lineno) for node in calls if len(node.args) > 3}
    assert len(sites) > 7
    for number, trial in enumerate(_TRIALS.values()):
        trial.of(trial.before(tmp_path / f"{number}"))
    assert sites - reached == set(), "a figure that says what to do has a trial in _TRIALS"


_SAYS = re.compile(
    r"\b(?:collect|collected|record|mark them|load) (?:with|at|it|them|several|the ranks|all ranks|[a-z]+ on)\b"
)
_ELSEWHERE = {
    r"load (the ranks of one job|the ranks of all stages|all ranks together)|record several ranks": "of torch",
    r"collect with \{\}$|\{\}, (or load results|collected at)": "parts of the sentences that trials of figures follow",
    r"torch.profiler does not record them|.* records? it\b|this run has no record": "states a fact",
    r"no rank has a collective with a group|no collective synchronises": "of sets: tests of replays",
}
"""What is said in other places, and where that is tried."""


@pytest.mark.long
def test_advising_answers_are_tried() -> None:
    rooms = ("figures", "flame", "timeline", "analysis", "exports", "browser", "noise", "difference", "profiles")
    places = [*(path for room in rooms for path in (_PACKAGE / room).rglob("*.py")), *_PACKAGE.glob("*.py")]
    named = sorted({told for path in places for told in _texts(path) if len(told) < 400 and _SAYS.search(told)})
    known = [re.escape(trial.says) for trial in _TRIALS.values()]
    left = [
        told
        for told in named
        if not any(re.match(pattern, told) for pattern in _ELSEWHERE)
        if not any(
            re.search(pattern, told) or told.strip(" ,()") in trial.says
            for pattern, trial in zip(known, _TRIALS.values(), strict=True)
        )
    ]
    assert len(named) > 10
    assert left == []
    assert [each for each in _ELSEWHERE if not any(re.match(each, told) for told in named)] == []


@pytest.mark.long
@pytest.mark.parametrize("collector", FRONT_ENDS)
def test_front_ends_are_not_told_refused_options(collector: str) -> None:
    """Figures of empty runs of each front end, however they began: what they name is not refused, and is new."""
    tried = 0
    for _, given in (each for each in beginnings() if each[0] == collector):
        try:
            options = Options.from_dict({"collector": collector, **given})
            capabilities.check(collector, options)
        except OptionsError:
            continue
        run = run_of(factories.all_tables())
        run.info.collector, run.info.options, run.info.source = collector, options.to_dict(), "recording, raw data"
        for figure in (run.plot_memory(), run.plot_counters(), run.plot_roofline()):
            for words in filter(None, _text(figure).partition("collect with ")[2].split(", or ")):
                tried += 1
                changed = Options.from_dict({**options.to_dict(), **asked_for(words), "collector": collector})
                capabilities.check(collector, changed)
                assert changed != options, words
    assert tried >= 3


@pytest.mark.parametrize(
    ("versions", "told"), [({"npuprof": "1"}, "collect with --memory"), ({}, "profile_memory=True")]
)
def test_torch_ranks_use_the_recorders_words(versions: dict[str, str], told: str) -> None:
    figure = plot_memory(factories.all_tables(), Info(collector="kineto", versions=versions))
    assert told in _text(figure)
