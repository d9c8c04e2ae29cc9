"""Figures on pages are those of the code, were measured by a benchmark that the page names, or are told apart here."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import npuprof
from npuprof import browser
from npuprof.advice import budget, facts, finding, findings
from npuprof.advice.job_rules import JOB_RULES
from npuprof.advice.rules import RULES
from npuprof.analysis import (
    backlog,
    basis,
    device_clocks,
    digests,
    prediction,
    rank_blame,
    rank_fast,
    rank_joint,
    rank_lanes,
    rank_numbers,
    rank_pairs,
    rank_roles,
    rank_suspects,
    rank_waits,
)
from npuprof.difference import tree
from npuprof.exports import explorer
from npuprof.figures import drawing
from npuprof.files import cache
from npuprof.lines import cell_stamps, recorder, source_texts
from npuprof.noise import model
from npuprof.notebook import budget as report_budget
from npuprof.notebook import report
from npuprof.ranks import job, profile_set, scan
from npuprof.recordings import journal
from npuprof.recordings.recording import SAMPLING_INTERVAL_NS
from npuprof.report import code
from npuprof.session import engines, reruns
from npuprof.simulator import jobs
from npuprof.simulator.jobs import text
from npuprof.sources import unread
from npuprof.sources.files import members, walk
from npuprof.words.glossary import TERMS
from tests.advice.test_reference import section
from tests.campaign import bombs, cells
from tests.campaign.fuzz import trial, worker

_ROOT = Path(npuprof.__file__).parents[1]
_REFERENCE = _ROOT / "notebooks" / "reference"
_RUN_JS = (Path(browser.__file__).parent / "scripts" / "run.js").read_text("utf-8")


def _held() -> int:
    match = re.search(r"const MOST_HELD = ([\d_]+);", _RUN_JS)
    assert match is not None
    return int(match[1])


_STATED: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "limits": {
        "Of {} launches or more, one in {:,}": (device_clocks._FEW, device_clocks._MAY_CONTRADICT),
        "starts more than {} s after its launch": (device_clocks._MOST_DELAY_NS // 10**9,),
        "larger than {} KiB reads nothing": (unread.SMALL_BYTES >> 10,),
        "The limits are {:,} members, and the least of {} GiB, {} times the size of the archive (at least {} MiB)": (
            members.Limits.members,
            members.Limits.total_bytes >> 30,
            members._MAX_RATIO,
            members._ALWAYS_BYTES >> 20,
        ),
        "at most about {} s of CPU time and {} MiB, by": (
            report_budget.BUDGET_NS // 10**9,
            report_budget.BUDGET_BYTES >> 20,
        ),
        "From {:,} kernels on, what does not fit": (report_budget.ALWAYS_KERNELS,),
        "Each file is limited to {} MiB": (journal._MAX_BYTES >> 20,),
        "Where statements take {} µs or more": (cell_stamps._CHEAP_NS // 1000,),
        "whose statements take less than {} µs is thinned": (cell_stamps._CHEAP_NS // 1000,),
        "none of them farther than {} ms from the launch": (SAMPLING_INTERVAL_NS // 10**6,),
        "contains samples, taken every {} ms": (SAMPLING_INTERVAL_NS // 10**6,),
        "up to {} files of {} KiB, {} MiB together": (
            source_texts._MOST_FILES,
            source_texts._MOST_FILE >> 10,
            source_texts._MOST_BYTES >> 20,
        ),
        "shows up to {} lines of a cell, and of other files the lines with at least {:g} %": (
            code._MOST_LINES[0],
            100 * code._MATTERS,
        ),
        "within {} MB (`run.explore(saved_bytes=...)`)": (report.SAVED_BYTES // 10**6,),
        "A page of `to_html` has {} MB for up to {:,} slices, and {} bytes for each further one": (
            explorer.PAGE_BYTES // 10**6,
            explorer.PAGE_BYTES // explorer.PAGE_BYTES_A_SLICE,
            explorer.PAGE_BYTES_A_SLICE,
        ),
        "it holds {:g} million slices at most": (_held() / 1e6,),
    },
    "SECURITY": {
        "after every {} inputs": (worker._ROUND,),
        "{} GiB of zeros in {} kinds of file, {} GiB compressed in {} ways, each within {} MiB": (
            bombs._SPARSE_BYTES >> 30,
            len(bombs._SPARSE),
            bombs._UNPACKED_BYTES >> 30,
            len(bombs._PACKED),
            bombs._MOST_MIB,
        ),
        "fuzz: {} MiB and {:g} s of CPU time per input": (trial._MORE_MIB, trial._PER_INPUT_S),
        "no more memory (within {} MiB)": (cells._MORE_MIB,),
    },
    "processes": {"sent in pieces of {} MiB": (engines._PIECE_BYTES >> 20,)},
    "cluster": {
        "If more than {} ranks are unread": (scan.FEW,),
        "ranks of at most {} MiB together": (profile_set._SMALL_BYTES >> 20,),
        "steps of jobs of more than {} ranks come from": (job.FEW,),
        "jobs of up to {} ranks and {} MiB are read completely": (job.FEW, profile_set._SMALL_BYTES >> 20),
        "Up to {} ranks and {} MiB are read for it": (job.FEW, profile_set._SMALL_BYTES >> 20),
        "of more than {} kernels come from a t-digest": (digests.EXACT,),
        "at most {} GiB, the least recently used": (cache.MOST_BYTES >> 30,),
        "simulated jobs of {} and {} ranks": tuple(jobs.SIZES)[:2],
        "analyses a simulated job of {} ranks": (list(jobs.SIZES)[1],),
    },
    "viewers": {
        "the explorer of the run, at most {} MB": (report.SAVED_BYTES // 10**6,),
        "as `text/html` with a script, at most {} MB": (report.SAVED_BYTES // 10**6,),
        "a plain SVG of at most {} kB": (drawing.LIMIT_BYTES // 1000,),
    },
    "compare": {
        "Recordings of more than {} MiB are not read": (reruns._LARGEST_BYTES >> 20,),
        "(the first {:,} of a step)": (tree._MOST_OF_STEP,),
        "at most one in {:g} of the rows called": (1 / model.LEVEL,),
        "of the whole step is of {:g} %": (100 * (1 - model.LEVEL),),
    },
    "advice": {
        "a possible gain of at least {:g} % of a step are listed": (100 * findings._SHOWN,),
        "has more than {:,} tasks": (facts._MOST_TASKS,),
        "known by ending within {:g} ms of each other": (rank_pairs.CLOSE_NS / 1e6,),
        "somebody waited for more than {:g} ms in it": (rank_waits.LEAST_WAIT_NS / 1e6,),
        "wait by wait in jobs of up to {} ranks": (rank_blame._MOST_RANKS,),
        "in some step begins within {:g} µs after it": (rank_lanes._NEAR_NS / 1e3,),
        "and above {:g} % the lower limit is 0": (100 * prediction.TOLERANCE,),
        "ranks that make no other wait for {:g} % of the time in sum": (100 * rank_blame._WORTH,),
        "differs from the recording by more than {:g} %, the run is refused": (100 * prediction.TOLERANCE,),
        "differs from the recording by more than {:g} %. `runs": (100 * prediction.TOLERANCE,),
        "is {:g} standard deviations beyond the median of the faster half": (rank_roles.BEYOND,),
        "and by {:.0f} % or by {:g} % of the step; the deviation": (
            100 * (rank_suspects._OVER_MANY - 1),
            100 * rank_suspects.WORTH,
        ),
        "{:.0f} % over the faster half are needed, or {:.0f} % of the step over the mean": (
            *2 * [100 * (rank_suspects._OVER_FEW - 1)],
        ),
        "one that takes {:.0f} % longer than their mean in both": (100 * (rank_suspects._OVER_FEW - 1),),
        "All suspects, at most {} (the smallest": (rank_joint.MOST,),
        "as long as that loses less than {:g} % of the step": (100 * rank_suspects.WORTH,),
        "| `version` | {} |": (findings._VERSION,),
    },
}
"""Sentences with figures of the code, by page."""

_MEASURED: Mapping[str, tuple[str, ...]] = {
    "limits": (
        "about 8 µs of CPU time per step, 15 µs per marker and 18 µs per range on a slow machine",
        "a cell of ten steps with operators takes 1.05 times as long",
        "A stamp takes about 0.2 µs, an iteration 0.4, and 0.03 while its loop is thinned, plus 0.005 for each",
        "1.2 to 1.9 % (±0.6) of a run of a second, and 1 to 2 % more of one of a tenth of a second",
        "0.8 µs for three frames",
        "exact for planted functions that alternate every 20 µs",
    ),
    "advice": (
        "take less than 4 CPU seconds and 0.7 GB beyond the tables",
        "generated jobs of 64 ranks with one to eight faults at once",
        "a noise of 1 to 20 % of each piece of computing",
        "Faults count that alone cost 2 % of the step",
    ),
    "assistant": (
        "Within two calls and 4,000 characters of an answer, npuprof answered 16 of 16",
        "10 of 10 about the runs. `msprof-mcp` 0.1.8, asked with",
        "for each question, answered 2 of 16",
        "A tool list is 9,900 characters long here, and 23,500 there",
    ),
    "processes": (
        "0.22 s of CPU of its own with torch and 0.17 s with the simulated NPU",
        "of a Python process that imports no front end, 0.013 s",
        "takes 1.4 s beside it, and `import torch` 1.6 s",
        "took 1.3 s. There, to read 8 ranks with 10,000 kernels each and show their report took 5.1 s of CPU",
        "took 0.59 s of CPU more than alone, where ten million additions took 0.38 s",
    ),
}
"""Sentences with what was measured: a benchmark is named in their paragraph."""

_OTHERWISE: Mapping[str, Mapping[str, str]] = {
    "limits": {
        r"910A, 310P and 610 \(`hwts`; one real recording of 2020": "chips and the sample's year",
        r"310B, the 950 family|Tasks of the 310|tables of the 950 family|before CANN 9|of early 2024": "names",
        r"`share_error` \(95 %\)": "tests/analysis/test_sampled_functions.py",
    },
    "SECURITY": {
        r"its exit status is 1 if": "tests/campaign",
        r"directories 0700, files 0600": "tests/recordings/test_recording.py",
    },
    "errors": {r"returns 0 for success, 1 for a failure .*? 2 for .*? 3 for .*? 4 for one": "tests/test_cli.py"},
    "cluster": {
        r"rank 17": "an example",
        r"the 95 % quantile is between the exact 94 and 96 % quantiles": "tests/analysis/test_digests.py",
    },
    "advice": {
        r"as at most 60 lines of Markdown": "tests/report/test_markdown.py",
        r"m \+ max\(5 x 1\.4826 MAD, 0\.2 m\)": "tests/advice/test_outliers.py",
        r"less than 80 % of it": "tests/advice/test_outliers.py",
        r"Of 60 generated jobs.*?(?=Pipelines and tensor)": "printed by tests.benchmarks.bench_overlapped",
        r"Every 50th step takes 50 ms longer: line 5.{1,12}4 of 200 steps": "tests/advice/test_outliers.py",
        r"\| rule \| fires if.*?(?=Gains come|Several causes)": "the tables of rules: see below",
        r"\| jobs \| faults of 2 %.*?(?=## As data)": "printed by tests.benchmarks.bench_blame, which the page names",
        r"--fail-on .step > 160ms.*?condition holds": "tests/test_cli.py",
        r"0.6 ms of `0-6 ms|by 0 and the|\(level 0\)": "an example, limits of 0, and a name",
        r"with 3 if a finding may gain at least 5 %|, 4 if the run is|[,;] 0 if neither holds, 1 if the|, and 2 if": (
            "tests/test_cli.py"
        ),
        r"if the 95 % interval of its mean|its 95 % interval": "compare.md states the level, and is tested above",
    },
    "assistant": {
        r"at most 8,000 characters|ends after 20 s|2 GB of memory, or 1,000 rows": "tests/assistant/test_server.py",
        r"in November 2026": "when the clients' documentation was read",
        r"computes 30 % longer": "tests/benchmarks/bench_assistant.py",
        r"No answer may take more than 5 s, nor the server more than 2 GiB": "tests/assistant/test_large.py",
    },
    "viewers": {r"JupyterLab 4, Notebook 7|JupyterLab 4 and Notebook 7": "releases"},
    "processes": {},
}
"""Patterns of sentences whose figures are neither, and what they are or who tests them."""

_NUMBER = re.compile(r"(?<![\w.\-/])\d[\d,]*(?:\.\d+)?(?!\w)")


def _page(name: str) -> str:
    folder = _ROOT if name.isupper() else _REFERENCE
    text = re.sub(r"```.*?```", " ", (folder / f"{name}.md").read_text("utf-8"), flags=re.DOTALL)
    return " ".join(text.split())


def _stated(name: str) -> list[str]:
    return [sentence.format(*values) for sentence, values in _STATED.get(name, {}).items()]


def _plain(text: str) -> str:
    """The text without what is in code or the address of a link, as many characters as before."""
    blank = re.compile(r"`[^`]*`|\]\([^)]*\)")
    return blank.sub(lambda match: "_" * len(match[0]), text)


@pytest.mark.parametrize("name", [name for name in _STATED if _STATED[name]])
def test_a_page_states_the_figures_of_the_code(name: str) -> None:
    page = _page(name)
    assert [sentence for sentence in _stated(name) if sentence not in page] == []


@pytest.mark.parametrize("name", _MEASURED)
def test_what_was_measured_names_its_benchmark(name: str) -> None:
    whole = (_REFERENCE / f"{name}.md").read_text("utf-8")
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\n|\n- ", whole)]
    for sentence in _MEASURED[name]:
        (paragraph,) = [each for each in paragraphs if sentence in each]
        (named, *_) = re.findall(r"tests\.benchmarks\.(\w+)", paragraph)
        assert (_ROOT / "tests" / "benchmarks" / f"{named}.py").is_file(), sentence


@pytest.mark.parametrize("name", _OTHERWISE)
def test_every_figure_of_a_page_is_of_the_code_or_measured(name: str) -> None:
    page = _page(name)
    known: set[int] = set()
    for sentence in [*_stated(name), *_MEASURED.get(name, ())]:
        at = page.index(sentence)
        known |= set(range(at, at + len(sentence)))
    for pattern, who in _OTHERWISE[name].items():
        found = list(re.finditer(pattern, page))
        assert found, pattern
        assert not who.startswith("tests/") or (_ROOT / who).exists(), who
        known |= {place for match in found for place in range(match.start(), match.end())}
    left = [
        page[max(match.start() - 40, 0) : match.end() + 20]
        for match in _NUMBER.finditer(_plain(page))
        if match.start() not in known
    ]
    assert left == [], "the figure stands in _STATED, _MEASURED or _OTHERWISE"


# -- thresholds of rules -------------------------------------------------------------------------------------------

_UNITS = {
    "%": 0.01,
    "us": 1e3,
    "ms": 1e6,
    "bytes": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GB/s": 1,
    "": 1,
}
_ELSEWHERE: Mapping[str, str] = {
    "host_bound": "npuprof.advice.host_causes",
    "fusible_repeats": "npuprof.analysis.repeats",
    "outliers": "npuprof.advice.outliers",
    "environment": "npuprof.advice.rules.host_bound",
    "slow_link": "npuprof.analysis.links",
    "pipeline_imbalance": "npuprof.analysis.rank_stages",
    "late_host": "npuprof.analysis.rank_suspects",
    "stall": "npuprof.analysis.rank_suspects",
}
"""Modules that hold thresholds of a rule beside its own."""

_NO_THRESHOLD = re.compile(r"within a factor of 2|at least 0 |gains 0,|_ 0 or 1,|\(p - 1\) / \(m \+ p - 1\)")
"""Powers of two and formulas, which no constant holds, and values of variables."""


def _held_in(value: Any) -> Iterator[float]:
    """Yield the numbers in a constant."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, Mapping | tuple | list):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _held_in(each)


@pytest.mark.parametrize("rule", [*RULES, *JOB_RULES], ids=lambda rule: f"{rule.check.__module__.split('.', 2)[2]}")
def test_thresholds_match_the_rules(rule: Any) -> None:
    modules = [import_module(name) for name in (rule.check.__module__, _ELSEWHERE.get(rule.name, "")) if name]
    held = [number for module in modules for value in vars(module).values() for number in _held_in(value)]
    table = section("Rules" if rule in RULES else "Ranks")
    rows = re.findall(rf"^\| `{rule.name}` \|.*$", table, re.MULTILINE)
    assert rows
    for row in rows:
        text = _NO_THRESHOLD.sub("", _plain(row))
        for number, unit in re.findall(rf"({_NUMBER.pattern})(?: ?(%|us|ms|bytes|KiB|MiB|GB/s)(?!\w))?", text):
            value = float(number.replace(",", "")) * _UNITS[unit]
            assert any(math.isclose(value, other) for other in held), f"{number} {unit} is of no constant of {modules}"


def test_order_of_findings_is_stated() -> None:
    assert finding._WAY_TO_IDEAL == 10
    told = "a tenth of the way from", "the lower to the upper one"
    assert all(part in TERMS["bounded"] for part in told)
    assert "or a tenth of the way from its lower limit to the upper one" in _page("advice")


@pytest.mark.parametrize(
    ("page", "sentence", "values", "said"),
    [
        (
            "advice",
            "max(5 x 1.4826 MAD, 0.2 m), where m is the median, and such steps are fewer than half of at least four",
            (float(basis._SPREADS), float(basis._OVER), basis._LEAST),
            (7.413, 0.2, 4),
        ),
        ("advice", "for more than three times the error of the clocks", (rank_waits._CLOCK_ERRORS,), (3,)),
        ("advice", "at least a tenth of a step is idle without a known cause", (budget._FIRST,), (0.1,)),
        ("advice", "takes a tenth longer for a step than the host does", (backlog._LONGER,), (1.1,)),
        ("advice", "half of the time to the others apart from each", (rank_fast._APART,), (0.5,)),
        ("advice", "Of fewer than four ranks", (rank_roles.FEW,), (4,)),
        ("advice", "four times closer than any other shift", (rank_numbers._CLEARLY,), (4,)),
        ("advice", "agree within a quarter of a step", (rank_numbers._NEAR,), (0.25,)),
        (
            "limits",
            "After eight million stamps",
            (recorder._MOST_STAMPS,),
            (8_000_000,),
        ),
        ("limits", "off by more than a second", (device_clocks._MOST_SHIFT_NS,), (10**9,)),
        ("limits", "searched six levels deep", (walk.MAX_DEPTH,), (6,)),
    ],
)
def test_figures_in_words_are_those_of_the_code(page: str, sentence: str, values: Any, said: Any) -> None:
    assert sentence in _page(page)
    assert values == said


@pytest.mark.long
def test_the_columns_that_a_set_adds_are_its_last(tmp_path: Path) -> None:
    runs = npuprof.load_set(text.write(jobs.simulate(jobs.SIZES[8]), tmp_path))
    assert "whose last columns are `run`, `rank` and `host`" in _page("tables")
    for name in ("communication", "step_times", "kernels", "api"):
        assert list(runs.table(name))[-3:] == ["run", "rank", "host"]
