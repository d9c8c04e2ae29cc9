"""An analysis of a cluster, in text and as a database of either generation, gives the same tables."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npuprof
from npuprof import tables
from npuprof.errors import SourceError
from npuprof.loading import open_path
from npuprof.profiles.profile import Profile
from npuprof.sources import cluster
from tests.sources.cluster import maker


@pytest.fixture
def text(tmp_path: Path) -> Profile:
    return npuprof.load(maker.text_result(tmp_path / "renamed"))


def test_steps_distinguish_ranks_and_stages(text: Profile) -> None:
    steps = text.step_times
    tables.check("step_times", steps)
    assert steps["kind"].tolist() == ["rank"] * 4 + ["stage"] * 2
    assert steps["rank"].tolist() == [0, 1, 2, 3, pd.NA, pd.NA]
    assert steps["ranks"].dropna().tolist() == ["0, 1", "2, 3"]
    first = steps.iloc[0]
    assert (first["step"], first["computing_ns"], first["stage_ns"], first["preparing_ns"]) == (3, 75_175, 90_250, 2250)
    assert steps["pp_index"].tolist() == [0, 0, 1, 1, pd.NA, pd.NA]


def test_communication_is_kept_rank_by_rank_and_totals_apart(text: Profile) -> None:
    times = text.statistics["communication"]
    assert times["rank"].tolist() == [0, 1]
    assert times["name"].unique().tolist() == ["hcom_allReduce__152_0_1"]
    assert times["group"].unique().tolist() == [maker.GROUP]
    assert times["Start Timestamp(us)"].tolist() == [maker.STARTED_US] * 2
    assert text.statistics["communication_total"]["rank"].tolist() == [0, 1]
    links = text.statistics["communication_bandwidth"]
    assert links[links["rank"] == 0]["link"].tolist() == ["SDMA", "RDMA"]
    packets = text.statistics["communication_packets"]
    assert packets[["rank", "Package Size(MB)", "Count"]].to_numpy().tolist() == [
        [0, 2.0, 3],
        [0, 0.5, 1],
        [1, 2.0, 3],
        [1, 0.5, 1],
    ]
    matrix = text.statistics["communication_matrix"]
    assert matrix[["src_rank", "dst_rank", "Transport Type"]].to_numpy().tolist() == [[0, 0, "LOCAL"], [0, 1, "HCCS"]]


def test_the_strategy_and_its_groups_are_known(text: Profile) -> None:
    metadata = text.info.metadata
    assert metadata["ranks"] == [0, 1, 2, 3]
    assert metadata["stages"] == [[0, 1], [2, 3]]
    assert metadata["parallel_groups"] == {"dp": [[0, 1], [2, 3]], "pp": [[0, 2]], "default_group": [[0, 1, 2, 3]]}
    groups = text.statistics["communication_groups"]
    assert groups["size"].tolist() == [2, 2, 2, 4, 4]
    assert groups["parallel"].tolist()[:4] == ["dp", "dp", "pp", "default_group"]


def _in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Put rows into one order, by all their values: the vendor's differ."""
    keys = frame.astype(str).agg("|".join, axis=1)
    ordered: pd.DataFrame = frame.iloc[keys.argsort(kind="stable")].reset_index(drop=True)
    return ordered


@pytest.mark.slow
@pytest.mark.parametrize("old", [True, False])
def test_a_database_gives_what_the_text_gives(tmp_path: Path, text: Profile, old: bool) -> None:
    folder = tmp_path / "db"
    folder.mkdir()
    run = npuprof.load(maker.database(folder / "any.db", old=old))
    tables.check("step_times", run.step_times)
    shared = [name for name in text.step_times if name in run.step_times and name != "device_id"]
    assert len(shared) >= 12
    found, expected = (frame[shared].astype(object) for frame in (run.step_times, text.step_times))
    if old:
        found, expected = (frame.drop(columns="preparing_ns") for frame in (found, expected))
    pd.testing.assert_frame_equal(found, expected)
    for name in ("communication", "communication_bandwidth", "communication_packets", "communication_matrix"):
        for part in (name, f"{name}_total"):
            ours, theirs = text.statistics[part], run.statistics[part]
            # Which group a total is of, the text tells by its ranks alone.
            apart = ("kind", "ranks", "group") if part.endswith("_total") else ("kind", "ranks")
            columns = [column for column in ours if column not in apart]
            assert set(columns) <= set(theirs.columns), part
            found, expected = (_in_order(frame[columns]) for frame in (theirs, ours))
            pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert run.statistics["communication"]["kind"].tolist() == ["collective"] * 2
    assert run.statistics["communication"]["ranks"].tolist() == ["0, 1"] * 2
    assert run.statistics["communication_groups"]["ranks"].tolist() == ["0, 1", "2, 3", "0, 2", *["0, 1, 2, 3"] * 2]


def test_a_database_has_the_hosts_of_ranks_and_keeps_further_tables(tmp_path: Path) -> None:
    run = npuprof.load(maker.database(tmp_path / "cluster_analysis.db"))
    assert run.info.metadata["rank_devices"][3] == {"rank": 3, "device": 1, "host": "beta"}
    assert run.info.metadata["distributed_args"]["world_size"] == 5
    assert run.info.metadata["note"] == "plain"
    assert run.step_times["device_id"].tolist() == [0, 1, 0, 1, pd.NA, pd.NA]
    assert run.info.devices == [0, 1]
    assert run.statistics["HcclAllRankStats"].to_numpy().tolist() == [["allReduce", 2, 900.5]]


@pytest.mark.slow
def test_text_and_database_side_by_side_are_not_counted_twice(tmp_path: Path) -> None:
    maker.database(maker.text_result(tmp_path) / "cluster_analysis.db")
    run = npuprof.load(tmp_path)
    assert len(run.step_times) == 6
    assert len(run.statistics["communication"]) == 2
    (note,) = run.notes.to_dict("records")
    assert note["source"] == "cluster_analysis.db"
    assert "step_times, communication_groups, communication" in note["message"]
    assert "HcclAllRankStats" in run.statistics


def test_tables_of_recipes_are_kept(tmp_path: Path) -> None:
    folder = maker.text_result(tmp_path)
    for name in ("CannApiSum/all_stats.csv", "ClusterTimeSummary/cluster_time_summary_20260101000000000.csv"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("rank,step,stepTime\n0,3,5.5\n")
    (folder / "CannApiSum" / "broken.csv").write_bytes(b"")
    run = npuprof.load(folder)
    for name in ("CannApiSum_all_stats", "ClusterTimeSummary_cluster_time_summary"):
        assert run.statistics[name].to_numpy().tolist() == [[0, 3, 5.5]]
    assert run.notes["source"].tolist() == ["broken.csv"]


def test_a_database_of_recipes_alone_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "cluster_analysis.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE CannApiSum (name, totalTimeNs)")
        connection.execute("INSERT INTO CannApiSum VALUES ('launch', 5)")
        connection.commit()
    assert npuprof.load(path).statistics["CannApiSum"].to_numpy().tolist() == [["launch", 5]]


@pytest.mark.slow
def test_a_view_and_a_renamed_column_are_reported(tmp_path: Path) -> None:
    path = maker.database(tmp_path / "cluster_analysis.db")
    assert not len(npuprof.load(path).notes)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE ClusterCommunicationTime RENAME COLUMN wait_time TO waited")
        connection.execute("ALTER TABLE ClusterStepTraceTime RENAME TO kept")
        connection.execute("CREATE VIEW ClusterStepTraceTime AS SELECT * FROM kept")
        connection.commit()
    run = npuprof.load(path)
    assert not len(run.step_times)
    told = run.notes[run.notes["severity"] == "warning"]["message"]
    assert told.str.contains("ClusterStepTraceTime is a view").sum() == 1
    assert told.str.contains("ClusterCommunicationTime lacks column wait_time.*waited").sum() == 1


@pytest.mark.slow
def test_a_cluster_can_be_saved_and_opened_again(tmp_path: Path) -> None:
    run = npuprof.load(maker.database(maker.text_result(tmp_path / "a") / "cluster_analysis.db").parent)
    again = npuprof.load(run.save(tmp_path / "saved"))
    pd.testing.assert_frame_equal(again.step_times.astype(object), run.step_times.astype(object))
    assert set(again.statistics) == set(run.statistics)
    assert again.info.metadata == run.info.metadata
    assert "cluster analysis" in again._repr_html_()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("p2p", "collective", "(0, 1)", "step1", "a@b", "Total Op Info", "0", "0-1", "type", "rank_set"),
                    *("Communication Time Info", "Communication Bandwidth Info", "SDMA", "Size Distribution"),
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=25,
)


@pytest.mark.slow
@given(_JSON)
def test_any_json_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, plain: object) -> None:
    folder = tmp_path_factory.mktemp("any")
    for name in ("cluster_communication", "cluster_communication_matrix", "communication_group"):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({"collective": plain, "comm_group_parallel_info": plain}))
    assert cluster.read(folder).info.source == "cluster analysis"


@pytest.mark.parametrize("kind", ["p2p", "(0, 1)"])
def test_the_group_in_a_key_is_taken_apart(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(maker.communication_json(kind)))
    times = npuprof.load(path).statistics["communication"]
    assert times["kind"].tolist() == ["p2p" if kind == "p2p" else "collective"] * 2
    assert times["ranks"].dropna().tolist() == ([] if kind == "p2p" else ["0, 1"] * 2)


@pytest.mark.parametrize(
    ("content", "filled"),
    [
        (maker.steps_csv(new=False), "step_times"),
        ("\ufeff" + maker.steps_csv(), "step_times"),
        (json.dumps(maker.groups_json()), "communication_groups"),
        (json.dumps(maker.groups_json(new=False)), "communication_groups"),
        (json.dumps(maker.communication_json()), "communication"),
        (json.dumps(maker.matrix_json(), indent=2), "communication_matrix"),
        (json.dumps(maker.matrix_json("p2p")), "communication_matrix"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_each_file_by_itself_is_known_by_its_content(tmp_path: Path, content: str, filled: str, zipped: bool) -> None:
    path = tmp_path / "anything"
    path.write_bytes(gzip.compress(content.encode()) if zipped else content.encode())
    run = open_path(path)
    assert isinstance(run, Profile)
    assert run.info.source == "cluster analysis"
    assert len(run.step_times if filled == "step_times" else run.statistics[filled])


def test_files_of_one_rank_are_not_taken_for_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "communication.json"
    path.write_text(json.dumps({"step3": {"collective": maker.communication_json()["collective"]["step3"]}}))
    assert npuprof.load(path).info.source == "single file, communication"


def test_the_old_form_keeps_groups_of_the_same_ranks(tmp_path: Path) -> None:
    path = tmp_path / "communication_group_old.json"
    path.write_text(json.dumps({"collective": [[0, 1], [0], [0, 1], "x"], "p2p": [[0, 1]]}))
    run = npuprof.load(tmp_path)
    groups = run.statistics["communication_groups"]
    assert groups["ranks"].tolist() == ["0, 1", "0", "0, 1", "0, 1"]
    assert groups["group"].isna().all()
    assert run.notes["message"].tolist() == ["a group has no ranks; left out"]


def test_damaged_file_spares_others(tmp_path: Path) -> None:
    folder = maker.text_result(tmp_path)
    whole = (folder / "cluster_communication.json").read_text()
    (folder / "cluster_communication.json").write_text(whole[: len(whole) // 2])
    (folder / "communication_group.json").write_bytes(b"")
    (folder / "cluster_communication_matrix (1).json").write_text("{}")
    run = npuprof.load(folder)
    assert len(run.step_times) == 6
    assert "communication" not in run.statistics
    errors = run.notes[run.notes["severity"] == "error"]["message"].tolist()
    assert any("damaged" in message for message in errors)
    assert any("is empty" in message for message in errors)
    assert run.notes["message"].str.contains("load this file to see it").any()


def test_nothing_readable_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "cluster_step_trace_time.csv").write_bytes(b"")
    with pytest.raises(SourceError, match="is empty"):
        npuprof.load(tmp_path)


def test_rows_that_belong_to_nobody_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{maker.STEP_HEAD}\n,rank,x,1,1,1,1,1,1,1,1\n,stage,0,1,1,1,1,1,1,1,1\n,ran,0,1,1,1,1,1,1,1,1\n")
    run = npuprof.load(path)
    assert run.step_times["step"].isna().all()
    assert run.step_times["ranks"].dropna().tolist() == ["0", "0"]
    assert run.notes["count"].tolist() == [2]


def test_missing_groups_and_numbers_are_reported(tmp_path: Path) -> None:
    folder = maker.text_result(tmp_path)
    assert not len(npuprof.load(folder).notes)
    (folder / "communication_group.json").unlink()
    path = folder / "cluster_communication.json"
    path.write_text(path.read_text().replace('"Wait Time(ms)"', '"Wait Tme(ms)"', 1))
    assert npuprof.load(folder).notes[["severity", "source"]].to_numpy().tolist() == [
        ["warning", "cluster_communication.json"],
        ["warning", "communication_group.json"],
    ]


@pytest.mark.parametrize(
    "content",
    [
        b'{"collective": {"step1": {"a@b": {"0": {"Communication Time Info": 7}, "x": []}, "c": 5}, "step2": []}}',
        b'{"p2p": {"step1": {"a": {"0": {"Communication Bandwidth Info": {"X": {"Size Distribution": {"x": 1}}}}}}}}',
        b'{"collective": {"step1": {"a": {"0-99999999999": {"Transport Type": null}, "-": {}}}}}',
        b'{"collective": [[0, -1, 99999999999, "3", null, [1]], 5, {}]}',
    ],
)
def test_values_of_another_kind_do_no_harm(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert npuprof.load(path).info.source == "cluster analysis"
