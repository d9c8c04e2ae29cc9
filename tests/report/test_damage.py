"""A result that lacks rows says so below its title, with how much, and marks the figures that depend on them."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree

import pytest

import npuprof
from npuprof.profiles.profile import Profile
from npuprof.report.damage import damage_lines, damaged_tables, headline_mark, marked
from npuprof.sources.base import Decoded
from npuprof.tables.info import Info
from npuprof.tables.notes import ANY, Notes
from npuprof.tables.schema import SCHEMA
from tests import factories


def _notes() -> Notes:
    notes = Notes()
    notes.info("device", "rows of kernels are as they should be")
    notes.warning("clock", "the system's clock was set back: rows of kernels are later, and counts are lost")
    notes.leave_out("x.csv", "a copy has no size", 3, affects="copied bytes")
    return notes


def test_no_loss_is_not_called_one() -> None:
    frame = _notes().to_frame()
    assert damage_lines(frame) == []
    assert not damaged_tables(frame)
    assert marked([("kernels", "9")], damaged_tables(frame)) == [("kernels", "9")]
    assert not headline_mark(damaged_tables(frame))


def test_left_out_rows_mark_their_figures() -> None:
    notes = _notes()
    notes.leave_out("api.csv", "a row has no readable time", 12, affects=("api", "memory"))
    notes.leave_out("x.csv", "a row is a total", 5, severity="info", affects=("kernels",))
    frame = notes.to_frame()
    (line,) = damage_lines(frame)
    assert line.startswith("Incomplete: api.csv: a row has no readable time")
    assert line.endswith("(12 rows)")
    assert damaged_tables(frame) == {"api", "memory"}
    figures = [("kernels", "9"), ("CANN calls", "1,204"), ("memory peak", "3 MiB"), ("mean step", "–")]
    wanted = [("kernels", "9"), ("CANN calls", "1,204, incomplete"), ("memory peak", "3 MiB, incomplete"), figures[3]]
    assert marked(figures, damaged_tables(frame)) == wanted


def test_losses_with_figures_come_first() -> None:
    notes = _notes()
    for number in range(3):
        notes.warning(f"trace{'abc'[number]}.json", "it was cut", lacks=ANY)
    notes.leave_out("kernel_details.csv", "a row is cut", 4, affects=("kernels",))
    frame = notes.to_frame()
    assert damaged_tables(frame) == SCHEMA.keys()
    lines = damage_lines(frame)
    assert lines[0].startswith("Incomplete: kernel_details.csv")
    assert lines[0].endswith("(4 rows)")
    assert len(lines) == 4
    assert lines[-1] == "1 more note on what is missing below"
    assert headline_mark(damaged_tables(frame)) == " (incomplete)"
    assert marked([("kernels", "–")], {"kernels"}) == [("kernels", "–")]  # nothing to mark


def test_report_says_it_on_top() -> None:
    run = Profile(Decoded(factories.profile(4), Info(name="cut"), _notes()))
    assert "incomplete" not in _text(run).lower()
    notes = _notes()
    notes.leave_out("kernel_details.csv", "a row is cut", 7, affects=("kernels",))
    run = Profile(Decoded(factories.profile(4), Info(name="cut"), notes))
    lines = _text(run).splitlines()
    told = next(at for at, line in enumerate(lines) if line.startswith("Incomplete: kernel_details.csv: a row is cut"))
    assert told <= 3
    assert any(line.endswith("a step (incomplete)") or "(incomplete)" in line for line in lines)
    html = run._repr_html_()
    said = html.index("Incomplete: kernel_details.csv")
    assert 'class="npuprof-warning"' in html[said - 60 : said]
    assert said < html.index("a step (incomplete)")


def _text(run: Profile) -> str:
    return str(run)


def _figure(run: Profile, name: str) -> str:
    """Return a figure of the report by its name."""
    text = re.sub(r"<[^>]*>", "\n", run._repr_html_())
    words = [line.strip() for line in text.splitlines() if line.strip()]
    return words[words.index(name) + 1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "table"), [("trace_view.json", "operators"), ("kernel_details.csv", "kernels")])
def test_cut_real_result_says_what_is_missing(samples: Path, tmp_path: Path, name: str, table: str) -> None:
    found = sorted((samples / "torch_npu" / "text").rglob(name))[0]
    for file in found.parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert not damage_lines(npuprof.load_set(tmp_path).at(0).notes)
    whole = found.read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    run = npuprof.load_set(tmp_path).at(0)
    assert table in damaged_tables(run.notes)
    assert ("memory" in damaged_tables(run.notes)) == name.endswith(".json")
    assert any(line.startswith("Incomplete: ") for line in _text(run).splitlines()[:6])
    assert "incomplete" in _figure(run, "kernels")


@pytest.mark.slow
def test_real_recording_without_slices_says_so(samples: Path, tmp_path: Path) -> None:
    found = next((samples / "raw" / "sliced_2k").glob("PROF_*"))
    copied = tmp_path / found.name
    copytree(found, copied)
    assert not damage_lines(npuprof.load_set(copied).at(0).notes)
    (copied / "host/data/aging.api_event.data.slice_2").unlink()
    run = npuprof.load_set(copied).at(0)
    assert {"api"} <= damaged_tables(run.notes)
    assert not {"tasks", "kernels"} & damaged_tables(run.notes)
    lines = _text(run).splitlines()
    assert any(line.startswith("Incomplete: ") for line in lines[:9])
    assert "incomplete" in _figure(run, "CANN calls")
    assert "incomplete" not in _figure(run, "kernels")
    (copied / "device_0/data/stars_soc.data.0.slice_1").unlink()
    assert {"tasks", "kernels"} <= damaged_tables(npuprof.load_set(copied).at(0).notes)
