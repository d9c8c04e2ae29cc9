"""The figures of one run never contradict each other, whichever file of it they were read from.

The table of invariants is :mod:`tests.campaign.damage.invariants`; the campaign tries it with damaged recordings too.
"""

from __future__ import annotations

from collections.abc import Iterator
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


def runs(folder: Path) -> Iterator[Profile]:
    """Read every run below a folder, in both forms where it has raw data, and every file that is one by itself."""
    for found in _found(folder):
        yield from [found] if isinstance(found, Profile) else found


def _found(folder: Path) -> Iterator[Profile | ProfileSet]:
    preferences: tuple[Preference, ...] = ("raw", "parsed") if any(folder.rglob("host")) else (None,)
    for source in preferences:
        try:
            yield open_path(folder, source=source)
        except SourceError:
            continue
    for file in sorted(folder.rglob("*")):
        if file.is_file() and _DATA not in file.parts and file.suffix in (".json", ".csv", ".db", ".gz"):
            try:
                found = open_path(file)
            except SourceError:
                continue
            if isinstance(found, Profile):
                yield found


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


@pytest.mark.long
@pytest.mark.parametrize("folder", [*FOLDERS, "kineto"])
def test_real_results_say_the_same_in_every_way(samples: Path, folder: str) -> None:
    compared = 0
    for found in _found(samples / folder):
        assert not contradictions(found, dear=isinstance(found, Profile)), found
        for run in [found] if isinstance(found, Profile) else found:
            compared += len(run.kernels)
            assert not contradictions(run), run.info.recording
            contradicts = run.notes["source"].isin(["overlap", "step_times"]) & (run.notes["severity"] == "warning")
            assert not contradicts.any(), run.notes
    assert bool(compared) != (folder in ("cluster", "mindspore", "torch_npu/host_only_raw"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["text/level0/rank0_ascend_pt", "text/level1/rank0_ascend_pt", "text/level1/rank1_ascend_pt"]
)
def test_a_timeline_alone_has_the_kernels_of_the_whole_result(samples: Path, name: str) -> None:
    root = samples / "torch_npu" / name
    whole, alone = npuprof.load(root), npuprof.load(root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json")
    assert alone.kernels["name"].tolist() == whole.kernels["name"].tolist()
    assert (alone.kernels["duration_ns"] - whole.kernels["duration_ns"]).abs().max() <= _ROUNDED_NS
    assert not set(alone.kernels["task_type"]) & {"Other", "NOTIFY_WAIT", "MEMCPY_ASYNC"}


def test_of_the_oldest_timeline_copies_are_no_kernels(samples: Path) -> None:
    run = npuprof.load(samples / "torch_npu/cann7_2023/trace_view.json")
    assert "MEMCPY_ASYNC" in set(run.tasks["name"])
    assert "MEMCPY_ASYNC" not in set(run.kernels["name"])
    assert len(run.kernels) == 274
