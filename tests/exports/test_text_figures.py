"""Timeline and flame graph as text."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from npuprof.exports.text_figures import flamegraph_text, timeline_text
from tests import factories
from tests.analysis.test_accounting import table


def strips(text: str) -> dict[str, str]:
    """Return the columns of each track by its title."""
    return {title.strip(): strip for title, strip in re.findall(r"^(.{24,40}?) \|(.{60})\|", text, re.MULTILINE)}


def test_a_column_is_as_high_as_its_track_is_busy() -> None:
    kernels = table("kernels", [(0, 300), (300, 75), (450, 1), (599, 1)], stream_id=2)
    text = timeline_text(factories.all_tables(kernels=kernels))
    head, line = text.splitlines()
    assert head.startswith("timeline: 600 ns, 10 ns per column")
    strip = strips(text)["stream 2"]
    assert strip[:37] == "█" * 37
    assert strip[37] == "▄"
    assert strip[38:45].strip() == ""
    assert (strip[45], strip[59]) == ("▁", "▁")  # a moment is seen, too
    assert line.endswith("4 slices, longest MatMul 300 ns")


def _titles(*rows: tuple[int, int]) -> list[str]:
    """Return the titles of tracks of calls, one of each rank and thread."""
    api = pd.concat([table("api", [(0, 9)], thread_id=thread).assign(rank=rank) for rank, thread in rows])
    every = {name: frame.assign(rank=0) for name, frame in factories.all_tables().items()}
    text = timeline_text(every | {"api": api.reset_index(drop=True)})
    return [line.partition("|")[0].strip() for line in text.splitlines()[1:]]


def test_titles_ignore_thread_digits() -> None:
    assert _titles((0, 7269), (1, 140_000_000_000_001)) == ["CANN · rank 0", "CANN · rank 1"]
    assert _titles((0, 7), (1_000, 7_123_456), (1_000, 140_737_488_355_327)) == [
        "CANN · rank 0",
        "CANN · rank 1000 · thread 7123456",
        "CANN · rank 1000 · …read 140737488355327",
    ]


@pytest.mark.slow
def test_every_track_has_a_line_and_all_slices_are_counted() -> None:
    run = factories.profile(300)
    text = timeline_text(run)
    assert {"steps", "Python", "stream 2", "stream 3", "collectives"} <= set(strips(text))
    counts = {
        title: int(told.replace(",", "")) for title, told in re.findall(r"^(.*?) +\|.*\| ([\d,]+) slice", text, re.M)
    }
    assert counts["stream 2"] + counts["stream 3"] == len(run["kernels"]) == 300
    assert counts["steps"] == len(run["steps"])


@pytest.mark.slow
@pytest.mark.parametrize("weight", ["device", "host"])
def test_frames_stand_below_their_callers_with_their_shares(weight: str) -> None:
    run = factories.profile(300)
    lines = flamegraph_text(run, weight).splitlines()  # type: ignore[arg-type]
    assert lines[0].startswith("flame graph: ")
    rows = [re.fullmatch(r" *([\d.]+) % +\S+ \S+  ((?:  )*)(\S.*)", line) for line in lines[1:]]
    found = [(float(row[1]), len(row[2]) // 2, row[3]) for row in rows if row]
    assert len(found) == len(lines) - 1
    assert sum(part for part, depth, _ in found if not depth) == pytest.approx(100, abs=0.5)
    callers: list[float] = []
    for part, depth, _ in found:
        callers[depth:] = [part]
        assert part <= callers[max(depth - 1, 0)] + 0.1
    assert "train.py(1): main" in {name for *_, name in found}


def test_hostile_names_and_empty_runs() -> None:
    evil = pd.Categorical(["\x1b[2J\u202e\n" + "x" * 500])
    run = factories.all_tables(kernels=table("kernels", [(0, 5)], stream_id=2).assign(name=evil))
    for text in (timeline_text(run), flamegraph_text(run, "device")):
        assert not re.search("[\x1b\u202e]", text)
        assert len(text.splitlines()) == 2
        assert max(map(len, text.splitlines())) < 200
    empty = factories.all_tables()
    assert timeline_text(empty) == "timeline: no slices in this run"
    assert flamegraph_text(empty, "host") == "flame graph: no host time in this run"


def test_a_queue_of_launches_is_a_track() -> None:
    kernels = table("kernels", [(100, 100), (200, 100), (300, 100)], stream_id=2)
    calls = table("api", [(0, 10), (10, 10), (20, 10)], name="launch")
    links = {
        "kind": ["api_task"] * 3,
        "source_table": ["api"] * 3,
        "source_row": np.arange(3),
        "target_table": ["kernels"] * 3,
        "target_row": np.arange(3),
    }
    from npuprof import tables

    run = factories.all_tables(kernels=kernels, api=calls, links=tables.build("links", links))
    text = timeline_text(run)
    assert "at most 3" in text
    assert "█" in strips(text)["launched, not started"]
