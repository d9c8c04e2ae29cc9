"""The figures of one run never contradict each other, whichever file of it they were read from.

The table of invariants is :mod:`tests.campaign.damage.invariants`; the campaign tries it with damaged recordings too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import npuprof
from npuprof import tables as schema
from npuprof.errors import SourceError
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.ranks.profile_set import ProfileSet
from npuprof.simulator import jobs
from npuprof.simulator.jobs import text
from npuprof.sources.base import Decoded, Preference
from npuprof.tables.notes import Notes
from tests import factories
from tests.campaign.damage.invariants import OF_RUN, contradictions
from tests.campaign.damage.recordings import GENERATED
from tests.campaign.fuzz import seeds
from tests.samples.forms import forms
from tests.sources.kineto.jobs import TorchJob

FOLDERS = (
    "cluster",
    "mindspore",
    "msprof",
    "raw",
    *(f"torch_npu/{name}" for name in ("text", "db", "llm_4ranks", "llm_pp2dp2", "cann7_2023", "host_only_raw")),
)
_DATA = "data"  # folders of raw records, of which no file is a run by itself
_ROUNDED_NS = 2  # of each row, in files whose starts and durations were each rounded


def whole(folder: Path) -> Iterator[Profile | ProfileSet]:
    """Read the runs below a folder, in both forms where it has raw data."""
    preferences: tuple[Preference, ...] = ("raw", "parsed") if any(folder.rglob("host")) else (None,)
    for source in preferences:
        with suppress(SourceError):
            yield open_path(folder, source=source)


def alone(files: Iterable[Path]) -> Iterator[Profile]:
    """Read the files that are runs by themselves."""
    for file in files:
        with suppress(SourceError):
            found = open_path(file)
            if isinstance(found, Profile):
                yield found


def forms_below(folder: Path) -> list[list[Path]]:
    """Return the files below a folder of which each may be a run by itself, those of one form together."""
    return forms(
        file
        for file in folder.rglob("*")
        if file.is_file() and _DATA not in file.parts and file.suffix in (".json", ".csv", ".db", ".gz")
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if "simulated devices" in name else ()) for name in GENERATED]
)
def test_generated_recordings_say_the_same_in_every_way(tmp_path: Path, name: str) -> None:
    run = npuprof.load(GENERATED[name](tmp_path))
    assert len(run.kernels)
    assert not contradictions(run, dear=True)


@pytest.mark.long
def test_generated_sets_say_the_same_in_every_way(tmp_path: Path) -> None:
    of_npus = npuprof.load_set(text.write(jobs.simulate(jobs.SIZES[8], seed=1), tmp_path / "job", kernels=True))
    of_gpus = npuprof.load_set(TorchJob([300, 420]).write(tmp_path / "torch"))
    for found in (of_npus, of_gpus):
        assert not contradictions(found)


def test_a_contradiction_is_found_and_a_note_explains_it() -> None:
    tables, notes = factories.profile(60), Notes()
    times = {"step": [0], "device_id": [0], "computing_ns": [10**12], "communication_ns": [0], "free_ns": [0]}
    known = contradictions(Profile(Decoded(tables, factories.info())))
    tables["step_times"] = schema.build("step_times", times)
    (found,) = {*contradictions(Profile(Decoded(tables, factories.info(), notes)))} - {*known}
    assert found.startswith("computing: vendor's steps and kernels: 1e+12 and ")
    notes.warning("step_times", "the vendor counts otherwise")
    assert found not in contradictions(Profile(Decoded(tables, factories.info(), notes)))


@pytest.mark.slow
def test_every_invariant_compares_two_answers_of_some_run(tmp_path: Path) -> None:
    writers = [GENERATED["a recording of the simulator"], GENERATED["text of a simulated job"], seeds.SEEDS["text"]]
    found = [npuprof.load(write(tmp_path / str(number))) for number, write in enumerate(writers)]
    compared = {one.name for one in OF_RUN for run in found if one.one(run) and one.other(run) is not None}
    # The second way is empty where nothing contradicts the first; two of the vendor's files only real results have.
    exceptions = {one.name for one in OF_RUN if one.name.endswith("memory_peak()") or "by('step')" in one.name}
    exceptions |= {one.name for one in OF_RUN if "api_statistic" in one.name or "operator_details" in one.name}
    assert {one.name for one in OF_RUN} - compared <= exceptions


each_folder = pytest.mark.parametrize("folder", [*FOLDERS, "kineto"])


def _compared(found: Profile | ProfileSet) -> int:
    """Return how many kernels a result has that says the same in every way."""
    assert not contradictions(found, dear=isinstance(found, Profile)), found
    count = 0
    for run in [found] if isinstance(found, Profile) else found:
        count += len(run.kernels)
        assert run is found or not contradictions(run), run.info.recording
        contradicts = run.notes["source"].isin(["overlap", "step_times"]) & (run.notes["severity"] == "warning")
        assert not contradicts.any(), run.notes
    return count


@pytest.mark.long
@each_folder
def test_real_results_say_the_same_in_every_way(samples: Path, folder: str) -> None:
    files = [same[0] for same in forms_below(samples / folder)]
    compared = sum(_compared(found) for found in (*whole(samples / folder), *alone(files)))
    assert bool(compared) != (folder in ("cluster", "mindspore", "torch_npu/host_only_raw"))


@pytest.mark.exhaustive
@each_folder
def test_further_files_of_a_form_say_the_same_in_every_way(samples: Path, folder: str) -> None:
    for found in alone(file for same in forms_below(samples / folder) for file in same[1:]):
        _compared(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["text/level0/rank0_ascend_pt", "text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt"]
)
def test_a_timeline_alone_has_the_kernels_of_the_whole_result(samples: Path, name: str) -> None:
    root = samples / "torch_npu" / name
    complete, timeline = npuprof.load(root), npuprof.load(root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    assert timeline.kernels["name"].tolist() == complete.kernels["name"].tolist()
    assert (timeline.kernels["duration_ns"] - complete.kernels["duration_ns"]).abs().max() <= _ROUNDED_NS
    assert not set(timeline.kernels["task_type"]) & {"Other", "NOTIFY_WAIT", "MEMCPY_ASYNC"}


def test_of_the_oldest_timeline_copies_are_no_kernels(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/cann7_2023/trace_view.json")
    assert "MEMCPY_ASYNC" in set(run.tasks["name"])
    assert "MEMCPY_ASYNC" not in set(run.kernels["name"])
    assert len(run.kernels) == 274
