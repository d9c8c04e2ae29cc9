"""Real analyses of clusters give what plain tools computed from the same files (TRUTH.json beside them)."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import npuprof
from npuprof.sources.columns.decimals import US_TO_NS, scaled_one
from npuprof.sources.text.vendor_sums import DURATIONS

FOLDER = "cluster/cluster_analysis_output"


def test_every_time_of_every_rank_and_stage(samples: Path) -> None:
    truth = json.loads((samples / "TRUTH.json").read_bytes())[f"{FOLDER}/cluster_step_trace_time.csv"]
    steps = npuprof.load(samples / FOLDER).step_times
    assert len(steps) == len(truth) == 18
    for row, known in zip(steps.to_dict("records"), truth, strict=True):
        assert (str(row["step"]), row["kind"]) == (known["Step"], known["Type"])
        index = str(row["rank"]) if row["kind"] == "rank" else f"({row['ranks']})"
        assert index == known["Index"]
        for ours, theirs in DURATIONS.items():
            if theirs in known:
                exact = scaled_one(repr(known[theirs]), US_TO_NS)
                assert row[ours] == exact, (index, ours)
            else:
                assert pd.isna(row[ours])


def test_a_stage_is_as_long_as_its_longest_rank(samples: Path) -> None:
    steps = npuprof.load(samples / FOLDER).step_times
    for stage in steps[steps["kind"] == "stage"].to_dict("records"):
        own = steps[steps["rank"].isin([int(rank) for rank in stage["ranks"].split(", ")])]
        assert len(own) == 8
        for name in ("computing_ns", "free_ns", "stage_ns", "bubble_ns"):
            assert own[name].max() == stage[name]


def test_communication_has_every_number_of_the_file(samples: Path) -> None:
    run = npuprof.load(samples / FOLDER)
    plain = json.loads((samples / FOLDER / "cluster_communication.json").read_bytes())
    times = run.statistics["communication"]
    assert len(times) == 6
    for row in times.to_dict("records"):
        kind = "p2p" if row["kind"] == "p2p" else f"({row['ranks']})"
        operator = plain[kind][f"step{row['step']}"][f"{row['name']}@{row['group']}"][str(row["rank"])]
        for key, value in operator["Communication Time Info"].items():
            assert row[key] == value
    links = run.statistics["communication_bandwidth"]
    assert len(links) == 6 * 4
    assert links["Transit Size(MB)"].sum() == pytest.approx(
        sum(
            link["Transit Size(MB)"]
            for steps in plain.values()
            for operators in steps.values()
            for name, ranks in operators.items()
            for operator in ranks.values()
            for link in operator["Communication Bandwidth Info"].values()
            if name != "Total Op Info"
        )
    )
    matrix = run.statistics["communication_matrix"]
    assert matrix[matrix["Transport Type"] == "RDMA"][["src_rank", "dst_rank"]].to_numpy().tolist() == [[0, 8]]
    assert not len(run.notes)


@pytest.mark.parametrize(
    ("name", "count", "named"), [("communication_group.json", 22, 21), ("communication_group_old.json", 20, 0)]
)
def test_groups_of_both_forms(samples: Path, name: str, count: int, named: int) -> None:
    run = npuprof.load(samples / "cluster" / "communication_group" / name)
    groups = run.statistics["communication_groups"]
    assert (len(groups), int(groups["parallel"].notna().sum())) == (count, named)
    assert run.info.metadata["ranks"] == list(range(8))
    parallel = run.info.metadata.get("parallel_groups", {})
    assert parallel.get("tp", []) == ([[0, 1], [2, 3], [4, 5], [6, 7]] if named else [])
    assert sorted(parallel) == (["default_group", "dp", "dp_cp", "embd", "mp", "pp", "tp"] if named else [])


def test_of_two_files_of_groups_the_newer_form_is_shown(samples: Path) -> None:
    run = npuprof.load(samples / "cluster" / "communication_group")
    assert len(run.statistics["communication_groups"]) == 22
    assert run.notes["source"].tolist() == ["communication_group_old.json"]
