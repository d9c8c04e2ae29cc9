"""Where findings are drawn: their rows, what these were late for, and the critical path."""

from __future__ import annotations

import numpy as np
import pandas as pd

from npuprof.browser.findings import drawn_findings, drawn_path
from npuprof.errors import NpuprofError
from npuprof.profiles.profile import Profile
from npuprof.sources.base import Decoded
from npuprof.tables.notes import Notes
from npuprof.timeline.state import Timeline
from tests import factories


def _run() -> Profile:
    return Profile(Decoded(factories.profile(200), factories.info(), Notes()))


def test_rows_of_findings_are_where_the_timeline_draws_them() -> None:
    run = _run()
    timeline = Timeline(run.tables, run.info, run.aligned)
    drawn = drawn_findings(timeline, run.advice())
    assert len(drawn) == len(run.advice().fired) > 0
    for shown, finding in zip(drawn, run.advice().fired, strict=True):
        if finding.table not in timeline.slices.first:
            continue
        first = timeline.slices.first[finding.table]
        assert sorted(shown["slices"]) == sorted((finding.rows.index.to_numpy(np.int64) + first).tolist())[:2_000]
        for number, lane, start, end in shown["drawn"]:
            assert timeline.lane_of(number) == lane
            assert timeline.slices.span(number) == (start + timeline.origin, end + timeline.origin)
        for call_lane, moment, lane, begin, idle_since in shown["late"]:
            assert min(call_lane, lane) >= 0
            assert idle_since < begin
            assert moment <= begin or call_lane != lane


def test_the_critical_path_is_a_thread_through_the_lanes() -> None:
    run = _run()
    timeline = Timeline(run.tables, run.info, run.aligned)
    path = run.critical_path()
    segments = drawn_path(timeline, run.critical_path)
    known = path[path["row"].notna()]
    assert 0 < len(segments) <= len(known)
    spans = set(zip(known["start_ns"].tolist(), known["duration_ns"].tolist(), strict=True))
    assert {(start + timeline.origin, end - start) for _, start, end in segments} <= spans


def test_a_run_whose_replay_fails_has_no_path() -> None:
    def fails() -> pd.DataFrame:
        raise NpuprofError("no")

    run = _run()
    assert drawn_path(Timeline(run.tables, run.info), fails) == []
