"""Of a raw directory only what a selection needs is joined, and that is exactly as in the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.simulator import synthesise
from npuprof.sources import raw
from npuprof.sources.base import Decoded
from npuprof.sources.selection import choose
from npuprof.sources.slicing import cut
from tests.budget import examples
from tests.sources.raw.conftest import raw_sample
from tests.sources.raw.writers.communication import SLAVE, CommunicationDirectory


def busy(path: Path, turns: int = 60) -> Path:
    """Write kernels, copies, collectives on two groups and a fused launch, with device times in another order."""
    random = np.random.default_rng(5)
    directory = CommunicationDirectory(path)
    number = iter(range(10_000))
    for turn in range(turns):
        at = 30_000 * turn
        late = int(random.integers(0, 200_000))
        directory.launch(at, f"Add_{turn % 7}", 3, next(number))
        directory.launch(at + 90, f"Mul_{turn % 3}", 4, next(number), thread=8)
        if turn % 5 == 0:
            directory.collective(at + 150, at + 250)
            directory.operator(at + 240, 13_339 + turn % 2)
            for step in range(2):
                task = next(number)
                directory.communicate(at + 160 + 30 * step, "Memcpy", 5 + step, task, on=SLAVE if step else 0x010001)
                begin = at + 400 + late + 40 * step
                directory.task(begin, begin + 100, 5 + step, task, sqe=11)
    return directory.finish()


def simulated(path: Path) -> Path:
    return synthesise(path, launches=3000, streams=3, threads=3)


@pytest.fixture(scope="module", params=[busy, simulated, "sliced_2k", "everything", "minimal", "model_step"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if isinstance(request.param, str):
        return raw_sample(request.getfixturevalue("samples"), request.param)
    write: Callable[[Path], Path] = request.param
    return write(tmp_path_factory.mktemp("run"))


def same(part: Decoded, whole: Decoded) -> None:
    assert part.tables.keys() == whole.tables.keys()
    assert part.statistics.keys() == whole.statistics.keys()
    for name, frame in {**whole.tables, **whole.statistics}.items():
        found = {**part.tables, **part.statistics}[name]
        # Columns of what a part does not have at all may be missing.
        columns = [column for column in frame if column in found or frame[column].notna().any()]
        pd.testing.assert_frame_equal(
            found[columns].astype(object).reset_index(drop=True),
            frame[columns].astype(object).reset_index(drop=True),
            check_dtype=False,
            obj=name,
        )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_a_part_is_the_same_as_that_part_of_the_whole(path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    whole = raw.read(path)
    tasks = whole.tables["tasks"]
    edges = np.concatenate(
        (tasks["start_ns"], tasks["start_ns"] + tasks["duration_ns"], whole.tables["api"]["start_ns"])
    )
    edges.sort()
    first = int(random.integers(0, len(edges)))
    last = min(first + int(random.integers(1, 2 + len(edges) // int(random.integers(1, 20)))), len(edges) - 1)
    selection = choose(None, int(edges[first]) + seed % 3 - 1, int(edges[last]) + 1 + seed % 2)
    assert selection is not None
    part = raw.read_part(path, selection)
    cut(part, selection)
    cut(whole, selection)
    same(part, whole)


@pytest.mark.slow
def test_collectives_are_joined_whole_and_kernels_outside_are_not(tmp_path: Path) -> None:
    path = busy(tmp_path / "PROF_busy")
    whole = raw.read(path)
    start = int(whole.tables["kernels"]["start_ns"][60])
    selection = choose(None, start, start + 300_000)
    assert selection is not None
    part = raw.read_part(path, selection)
    assert len(part.tables["communication"]) == len(whole.tables["communication"]) == 12
    assert 0 < len(part.tables["kernels"]) < len(whole.tables["kernels"])


@pytest.mark.slow
def test_records_outside_are_not_joined(tmp_path: Path) -> None:
    path = simulated(tmp_path)
    whole = raw.read(path)
    tasks = whole.tables["tasks"]
    selection = choose(None, int(tasks["start_ns"][1500]), int(tasks["start_ns"][1600]))
    assert selection is not None
    part = raw.read_part(path, selection)
    assert 100 <= len(part.tables["tasks"]) < 300
    assert 100 <= len(part.tables["kernels"]) < 300
    assert len(part.tables["api"]) < len(whole.tables["api"]) / 5
    assert not part.notes.to_frame()["message"].str.contains("counters of no compute kernel").any()


@pytest.mark.slow
def test_numbers_of_connections_are_those_of_the_whole(tmp_path: Path) -> None:
    path = simulated(tmp_path)
    whole = npuprof.load(path)
    start = int(whole.tasks["start_ns"][2000])
    part = npuprof.load(path, start=start, end=start + 1_000_000)
    named = whole.tasks.set_index(["stream_id", "task_id", "batch_id", "start_ns"])["connection_id"]
    for row in part.tasks.to_dict("records"):
        assert row["connection_id"] == named[row["stream_id"], row["task_id"], row["batch_id"], row["start_ns"]]
    assert len(part.tasks) > 10


@pytest.mark.slow
def test_steps_marked_on_a_device_select_their_kernels(tmp_path: Path) -> None:
    directory = CommunicationDirectory(tmp_path / "PROF_test")
    for number in range(8):
        directory.launch(100 * number, "Add", 3, number)
    directory.step(150, 1, 60000)
    directory.step(350, 1, 60001)
    whole = npuprof.load(directory.finish())
    part = npuprof.load(tmp_path / "PROF_test", steps=1)
    assert 0 < len(part.kernels) < 8
    assert part.kernels["start_ns"].tolist() == whole.kernels.loc[whole.kernels["step"] == 1, "start_ns"].tolist()


@pytest.mark.slow
def test_a_part_of_damaged_records_gives_tables_or_an_error(tmp_path: Path) -> None:
    folder = busy(tmp_path / "PROF_busy", turns=10)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    whole = {file: file.read_bytes() for file in files}
    starts = raw.read(folder).tables["tasks"]["start_ns"]
    selection = choose(None, int(starts[5]), int(starts[9]))
    assert selection is not None

    @settings(max_examples=examples(60))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        changed = data.draw(st.sampled_from(files))
        content = bytearray(whole[changed])
        for _ in range(data.draw(st.integers(1, 6))):
            if content:
                content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        del content[data.draw(st.integers(0, len(content))) if data.draw(st.booleans()) else len(content) :]
        changed.write_bytes(content)
        try:
            part = raw.read_part(folder, selection)
        except SourceError:
            return
        else:
            cut(part, selection)
            for name, frame in part.tables.items():
                tables.check(name, frame)
        finally:
            changed.write_bytes(whole[changed])

    check()
