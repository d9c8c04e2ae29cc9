"""The report of a set of ranks: what it says first, what it draws, and what it says of sets that are no job."""

from __future__ import annotations

import re
import shutil
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from IPython.utils.capture import capture_output

from npuprof.loading import load, load_set
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator.jobs import SIZES, Faults, Plan, simulate, text
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.words.quantities import duration
from tests import factories
from tests.report.elements import HOSTILE, Elements

_SMALL = replace(SIZES[8], steps=4, microbatches=4, layers=1)
_WIDE = Plan(4, 4, 1, steps=4, microbatches=4, layers=1)
_EVEN = Plan(1, 1, 16, steps=4, microbatches=4, layers=1)

Job = Callable[..., ProfileSet]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Open a simulated job."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def opened(faults: Faults | None = None, plan: Plan = _SMALL, name: str = "job", **options: Any) -> ProfileSet:
        return load_set(text.write(simulate(plan, faults or Faults(), 1), tmp_path / name, **options))

    return opened


def _lanes(page: str) -> list[str]:
    """Return the names of the ranks that are drawn in bold."""
    return re.findall(r'npuprof-lane npuprof-strong">([^<]+)<', page)


@pytest.mark.slow
def test_says_first_what_slows_the_job(job: Job) -> None:
    runs = job(Faults(slow_ranks={5: 0.4}), kernels=True)
    page, said = runs._repr_html_(), str(runs)
    shown = Elements(page).text
    in_order = ["job", "8 ranks: 2 stages × 2 replicas × 2 tensor shards · ", " a step", "Rank 5 takes "]
    in_order += ["computing", "waiting for ranks", "rank 0", "rank 7", "Rank 5 is slow"]
    for report in (shown, said):
        places = [report.index(words) for words in in_order]
        assert places == sorted(places)
    folds = ["Ranks (8)", "Timeline", "Who waits for whom", "Communication", "Kernels", "All numbers"]
    assert [name for name in re.findall(r'npuprof-summary">([^<]+)<', page) if name in folds] == folds
    assert "checks need more data" in shown
    assert _lanes(page) == ["rank 5"]
    assert len(said.splitlines()) <= 32
    assert "simulated NPU" in said
    assert not re.search(r"<h\d|<svg|<script", page)


@pytest.mark.slow
def test_states_times_that_agree(job: Job) -> None:
    runs = job(Faults(slow_ranks={5: 0.4}), kernels=True)
    said = str(runs)
    advice = runs.advice()
    assert f"{duration(advice.step_ns)} a step" in said
    seen = runs.overview()
    assert sum(seen.parts.values()) == pytest.approx(advice.step_ns, abs=len(seen.parts))
    assert seen.parts == load_set(runs.root).overview().parts
    parts = [name for name in seen.parts if name in seen.by_rank]
    assert (seen.by_rank[parts].sum(axis=1) - seen.by_rank["duration_ns"]).abs().max() < len(parts)
    assert not seen.parts["communication"]  # when the ranks arrived tells waiting from moving


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "faults", "cause", "marked"),
    [
        (_WIDE, Faults(), "None stands out|Data moves|The stages wait|The ranks arrive", set[int]()),
        (_WIDE, Faults(slow_ranks={9: 0.3}), r"Rank 9 takes [\d.]+ ms longer", {9}),
        (_EVEN, Faults(late_hosts={1: 30_000_000}), r"The host of ranks 8-15 is [\d.]+ ms late", set(range(8, 16))),
        (
            _WIDE,
            Faults(heavy_stages={2: 0.6}),
            r"Stage 2 \(ranks 8-11\) takes [\d.]+ ms longer than the others",
            {8, 9, 10, 11},
        ),
    ],
)
def test_names_the_planted_fault(job: Job, plan: Plan, faults: Faults, cause: str, marked: set[int]) -> None:
    runs = job(faults, plan)
    seen = runs.overview()
    assert re.match(cause, seen.verdict)
    assert len(seen.verdict.split()) <= 20
    assert set(seen.slow) == marked
    page = runs._repr_html_()
    drawn = re.findall(r"npuprof-lane[^>]*>rank (\d+)<", page)
    assert len(drawn) == 8
    bold = {int(name.split()[1]) for name in _lanes(page)}
    assert bold <= marked
    assert bool(bold) == bool(marked)
    assert set(runs.info["state"]) == {"found"}  # small files suffice


@pytest.mark.slow
def test_draws_unread_ranks_from_their_collectives(job: Job) -> None:
    runs = job(plan=_WIDE)
    rows = runs.overview().lanes
    assert set(rows["part"]) == {"waiting", "moving", "rest"}
    for _, of_rank in rows.groupby("rank"):
        assert (of_rank["end_ns"].to_numpy()[:-1] <= of_rank["start_ns"].to_numpy()[1:]).all()
        assert of_rank["end_ns"].max() <= rows.attrs["length_ns"]
    drawn = [
        b64decode(found).decode() for found in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", runs._repr_html_())
    ]
    assert "between collectives" in Elements(runs._repr_html_()).text
    assert all(picture.startswith("<svg") for picture in drawn)


@pytest.mark.slow
def test_warns_of_absent_and_unreadable_ranks(job: Job) -> None:
    runs = job(Faults(slow_ranks={5: 0.4}), kernels=True)
    shutil.rmtree(runs.root / "rank3_ascend_pt")
    said = " ".join(str(load_set(runs.root)).split())
    assert "Rank 3 is not here: what looks like moving data may be waiting for it." in said
    assert "stages ×" not in said  # of all ranks, not of those that are here
    assert said.index("Rank 3 is not here") < said.index(" a step")


@pytest.mark.slow
def test_hostile_names_stay_text(job: Job) -> None:
    runs = job(name=f"{HOSTILE}`x`\u202e\u05d0".replace("/", "_"), plan=replace(_SMALL, steps=2))
    shown = Elements(runs._repr_html_())
    assert "script" not in shown.tags
    assert all(name != "onerror" for name, _ in shown.attributes)


def _saved(folder: Path, ranks: list[int | None]) -> ProfileSet:
    for number, rank in enumerate(ranks):
        info = replace(factories.info(rank=rank), started_ns=factories.info().started_ns)
        Profile(Decoded(factories.profile(30), info, Notes())).save(folder / f"run{number}")
    return load_set(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "sentence"),
    [
        ([None, None, None], "None of these runs has a rank, so they are no job."),
        ([0, 0], "These 2 runs are all of rank 0, so they are no job: load one of them."),
        ([0, None, None], "Of these 3 runs only 1 has a rank, so they are no job."),
    ],
)
def test_lists_runs_that_are_no_job(tmp_path: Path, ranks: list[int | None], sentence: str) -> None:
    runs = _saved(tmp_path, ranks)
    shown = Elements(runs._repr_html_()).text
    for report in (str(runs), shown):
        assert sentence in " ".join(report.split())
        assert all(f"run{number}" in report for number in range(len(ranks)))


@pytest.mark.slow
def test_lists_many_unread_runs_without_reading(tmp_path: Path) -> None:
    runs = _saved(tmp_path, [*range(9)])
    assert "runs.read()" in str(runs)
    assert "run8" in Elements(runs._repr_html_()).text
    assert set(runs.info["state"]) == {"found"}
    runs.read()
    assert "runs.read()" not in str(runs)


@pytest.mark.slow
@pytest.mark.usefixtures("shell")
def test_shown_below_a_cell_it_is_one_small_output(job: Job) -> None:
    runs = job(plan=_WIDE)
    with capture_output() as captured:
        runs._ipython_display_()
    (output,) = [output.data for output in captured.outputs]
    assert output["text/plain"] == str(runs)
    assert len(output["text/html"]) < 500_000


@pytest.mark.slow
def test_real_ranks_read_like_the_design(samples: Path) -> None:
    runs = load(samples / "torch_npu/llm_4ranks")
    said = str(runs)
    assert isinstance(runs, ProfileSet)
    assert "4 ranks: 2 stages × 2 replicas · 1 step" in said
    assert "810 ms a step" in said
    parts = re.findall(r"(computing|waiting for ranks|moving data|idle) ([\d.]+) %", said)
    assert dict(parts) == {"computing": "39.0", "waiting for ranks": "30.7", "moving data": "12.6", "idle": "17.7"}
    assert _lanes(runs._repr_html_()) == ["rank 2", "rank 3"]
